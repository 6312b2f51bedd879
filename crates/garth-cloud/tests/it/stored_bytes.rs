//! The limit on the stored bytes of an account.

use std::sync::Arc;
use std::time::Duration;

use garth_cloud::store::PgStore;
use garth_engine::engine::relational::room::{COMMIT, ROW, SMALL_FILE};
use garth_engine::model::{
    Batch, Commit, Confinement, Idempotency, Op, Owner, SetAttrs, Special, Timestamp, Within,
};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, ErrorKind, FileSystem, Result};

use super::both::CONTRADICTIONS;
use super::database::{Database, at};

struct Account {
    database: Database,
    account: i64,
    store: Arc<PgStore>,
}

fn write(path: &str, bytes: usize) -> Batch {
    Batch::new([Op::write(at(path), vec![b'x'; bytes])])
}

impl Account {
    async fn new() -> Self {
        let database = Database::new().await;
        let account = database.account("her").await;
        let store = database.store(account, &database.cluster.socket_url()).await;
        Self { database, account, store }
    }

    async fn commit(&self, batch: impl Into<Batch>) -> Result<Commit> {
        let result = self.store.commit(batch.into()).await;
        assert_eq!(self.database.rows(self.account, CONTRADICTIONS), "");
        result
    }

    async fn refused(&self, batch: impl Into<Batch>) -> garth_engine::Error {
        let error = self.commit(batch).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
        error
    }

    /// Limits the stored bytes to those that are in use, and `more`.
    async fn leave(&self, more: u64) {
        let stored = Some(self.store.retention().await.unwrap().stored + more);
        self.store.set_retention(Retention { stored, ..Retention::default() }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_account_refuses_growth_and_nothing_is_partial() {
    let account = Account::new().await;
    account.commit(write("/kept", 100_000)).await.unwrap();
    account.leave(20_000).await;
    let head = account.store.head().await.unwrap().seq;
    let batch = Batch::new([Op::write(at("/short"), "x"), Op::write(at("/long"), vec![b'y'; 50_000])]);
    account.refused(batch).await;
    assert_eq!(account.store.head().await.unwrap().seq, head);
    account.commit(write("/short", 100)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_paths_and_attributes_count() {
    let account = Account::new().await;
    let files = (0..200).map(|n| Op::write(at(&format!("/d/{n}")), "x").with_parents());
    account.commit(Batch::new(files)).await.unwrap();
    account.leave(40_000).await;
    let long = (0..4).fold("/long".to_owned(), |path, _| path + "/" + &"x".repeat(200));
    let attributes = SetAttrs::new().metadata("key", "v".repeat(50_000));
    let note = Idempotency::new("key", [7; 32], Timestamp(i64::MAX)).note("n".repeat(50_000));
    account.refused(Op::rename(at("/d"), at("/e"))).await;
    account.refused(Batch::new([Op::remove_tree(at("/d")), Op::mkdir(at("/d"))])).await;
    account.refused(Op::set_attrs(at("/d/0"), attributes)).await;
    account.refused(write("/noted", 1).idempotency(note)).await;
    account.commit(Op::mkdir(at(&long)).with_parents()).await.unwrap();
    account.commit(Op::rename(at("/d/0"), at("/d/a"))).await.unwrap();
    account.commit(Op::remove_tree(at("/d"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_bytes_follow_all_rows() {
    let account = Account::new().await;
    let note = |text: &str| Idempotency::new("key", [7; 32], Timestamp(1)).note(text.to_owned());
    for batch in [
        Batch::new([Op::write(at("/d/e/f"), "text").with_parents(), Op::symlink(at("/link"), "target")]),
        Batch::new([Op::rename(at("/d"), at("/moved"))]),
        Batch::new([Op::copy_tree(at("/moved"), at("/d"))]),
        Batch::new([Op::rename(at("/d"), at("/other")), Op::rename(at("/moved"), at("/d"))]),
        Batch::new([Op::remove_tree(at("/other"))]).message("a message"),
        write("/a", 70_000),
        write("/b", 70_000),
        Batch::new([Op::truncate(at("/a"), 10)]),
        // A record that has ended is replaced by the next one of its key.
        write("/c", 1).idempotency(note("a long note")),
        write("/c", 2).idempotency(note("short")),
    ] {
        account.commit(batch).await.unwrap();
    }
    account.store.gc(Duration::ZERO).await.unwrap();
    assert_eq!(account.database.rows(account.account, CONTRADICTIONS), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_account_still_removes_and_collects() {
    let account = Account::new().await;
    account.commit(write("/a", 100_000)).await.unwrap();
    account.commit(write("/b", 100)).await.unwrap();
    account.commit(Op::snapshot("then")).await.unwrap();
    account.leave(0).await;
    for grows in [
        write("/c", 1),
        Batch::new([Op::set_attrs(at("/"), SetAttrs::new().mode(0o700))]),
        Batch::new([Op::remove(at("/b")), Op::write(at("/c"), "x")]),
    ] {
        account.refused(grows).await;
    }
    for op in
        [Op::truncate(at("/a"), 0), Op::remove(at("/b")), Op::remove(at("/a")), Op::drop_snapshot("then")]
    {
        account.commit(op).await.unwrap();
    }
    account.store.gc(Duration::ZERO).await.unwrap();
    account.store.set_retention(Retention::default()).await.unwrap();
    account.commit(write("/c", 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn account_without_room_for_a_file_is_full() {
    let account = Account::new().await;
    account.commit(write("/a", 100)).await.unwrap();
    for more in [0, COMMIT, COMMIT + 2 * ROW, SMALL_FILE - 1] {
        account.leave(more).await;
        assert!(account.store.retention().await.unwrap().full, "{more}");
    }
    account.leave(SMALL_FILE + 1000).await;
    assert!(!account.store.retention().await.unwrap().full);
    let text = SetAttrs::new().content_type("text/markdown");
    account.commit(Op::write(at("/plan.md"), "plan\n").with_attrs(text)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_say_what_to_do_and_have_no_numbers() {
    let account = Account::new().await;
    account.commit(Op::mkdir(at("/own"))).await.unwrap();
    account.leave(0).await;
    let hidden = account.refused(Op::mknod(at("/a"), Special::Whiteout)).await;
    assert!(hidden.message().contains("remove the overlay, or something outside of it"), "{hidden}");
    let refused = account.refused(write("/a", 1)).await;
    assert!(refused.message().contains("; remove something and collect"), "{refused}");
    let own = Within::new([at("/own")]);
    let view = account.store.confined(&Confinement::new(own, Owner::new("view").unwrap())).await.unwrap();
    let refused = view.commit(write("/own/a", 1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    assert!(!refused.to_string().chars().any(|c| c.is_ascii_digit()), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn index_of_copies_counts() {
    let account = Account::new().await;
    let image = SetAttrs::new().content_type("image/png");
    let ops = [write("/text", 1_000_000).ops, write("/image", 1_000_000).ops].concat();
    account.commit(Batch::new(ops).op(Op::set_attrs(at("/image"), image))).await.unwrap();
    account.leave(500_000).await;
    let copies = |of: &str| Batch::new((0..5).map(|n| Op::copy(at(of), at(&format!("{of}-{n}")))));
    account.refused(copies("/text")).await;
    account.commit(copies("/image")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_of_a_commit_is_answered_by_a_full_account() {
    let account = Account::new().await;
    let batch = || write("/a", 10_000).idempotency(Idempotency::new("once", [7; 32], Timestamp(i64::MAX)));
    let first = account.commit(batch()).await.unwrap();
    account.leave(0).await;
    let again = account.commit(batch()).await.unwrap();
    assert_eq!((again.seq, again.replayed), (first.seq, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_holds_for_other_servers_at_their_next_commit() {
    let account = Account::new().await;
    let other = account.database.store(account.account, &account.database.cluster.socket_url()).await;
    other.commit(write("/b", 1)).await.unwrap();
    account.leave(0).await;
    assert_eq!(other.commit(write("/c", 1)).await.unwrap_err().kind(), ErrorKind::QuotaExceeded);
}
