//! Collections: what they remove, what they leave, and what they cost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use garth_cloud::store::PgStore;
use garth_engine::fs::store::{Collectable, Collected};
use garth_engine::model::{At, Batch, ByteRange, Op, Seq, SetAttrs, Timestamp};
use garth_engine::{AccountStore, FileSystem, FileSystemExt as _};

use super::both::CONTRADICTIONS;
use super::database::{Database, append, at, write};

/// Grace period that no test waits for.
const HOUR: Duration = Duration::from_secs(3600);
/// Long enough to be stored once, however many files have it.
const LONG: usize = 100_000;

struct Account {
    database: Database,
    account: i64,
    store: Arc<PgStore>,
}

impl Account {
    async fn new() -> Self {
        let database = Database::new().await;
        let account = database.account("her").await;
        let store = database.store(account, &database.cluster.socket_url()).await;
        Self { database, account, store }
    }

    async fn commit(&self, batch: impl Into<Batch>) {
        self.store.commit(batch.into()).await.unwrap();
    }

    /// Commits operations on a file after it has lost its last name, as only an open handle sees them.
    async fn unnamed(&self, path: &str, ops: impl FnOnce(At) -> Vec<Op>) {
        self.commit(write(path, "before;")).await;
        let open = self.store.open(&At::Path(at(path))).await.unwrap();
        self.commit(Op::remove_file(at(path))).await;
        for op in ops(At::Node(open.ino())) {
            self.commit(op).await;
        }
    }

    /// Appends to a file after it has lost its last name.
    async fn write_unnamed(&self, path: &str, body: Vec<u8>) {
        self.unnamed(path, |node| vec![Op::append(node, body).must_exist()]).await;
    }

    async fn collect(&self, grace: Duration) -> Collected {
        let collected = self.store.gc(grace).await.unwrap();
        assert_eq!(self.rows(CONTRADICTIONS), "");
        collected
    }

    async fn content(&self, path: &str) -> Vec<u8> {
        self.store.read(&At::Path(at(path)), ByteRange::ALL).await.unwrap().to_vec()
    }

    fn rows(&self, sql: &str) -> String {
        self.database.rows(self.account, sql)
    }

    /// Has everything that waits for a grace period wait for it since long ago.
    fn age_marks(&self) {
        self.rows(
            "UPDATE garth.unnamed SET doomed_at = 1 WHERE doomed_at IS NOT NULL;
             UPDATE garth.chunk_refs SET marked = 1 WHERE marked IS NOT NULL",
        );
    }
}

fn path(path: &str) -> At {
    At::Path(at(path))
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_to_unnamed_file_are_removed_after_grace() {
    let account = Account::new().await;
    account.write_unnamed("/a", b"after;".to_vec()).await;
    let report = account.collect(HOUR).await;
    assert_eq!((report.versions, report.chunks, report.waiting), (0, 0, 1));
    account.age_marks();
    // The file goes, and its chunk waits in its turn.
    let report = account.collect(HOUR).await;
    assert_eq!((report.versions, report.chunks, report.waiting), (1, 0, 0));
    assert_eq!(report.waiting_bytes, 6);
    account.age_marks();
    let report = account.collect(HOUR).await;
    assert_eq!((report.chunks, report.bytes, report.waiting_bytes), (1, 6, 0));
    let past = account.store.as_of(&Seq(1).into()).await.unwrap();
    assert_eq!(past.read(&path("/a"), ByteRange::ALL).await.unwrap(), "before;");
    assert_eq!(account.collect(Duration::ZERO).await, Collected::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn overwritten_content_of_unnamed_file_is_back_after_collection() {
    let account = Account::new().await;
    let ops = |node: At| vec![Op::append(node.clone(), "after;").must_exist(), Op::truncate(node, 3)];
    account.unnamed("/a", ops).await;
    assert_eq!(account.collect(Duration::ZERO).await.versions, 2);
    let past = account.store.as_of(&Seq(1).into()).await.unwrap();
    assert_eq!(past.read(&path("/a"), ByteRange::ALL).await.unwrap(), "before;");
}

#[tokio::test(flavor = "multi_thread")]
async fn chunk_reused_between_mark_and_removal_stays() {
    let account = Account::new().await;
    let body = vec![7; LONG];
    account.write_unnamed("/a", body.clone()).await;
    account.collect(HOUR).await;
    account.age_marks();
    assert_eq!(account.collect(HOUR).await.waiting_bytes, LONG as u64);
    account.age_marks();
    account.commit(Op::write(at("/b"), body.clone())).await;
    assert_eq!(account.rows("SELECT count(*) FROM garth.chunk WHERE octet_length(sum) = 32"), "1", "reused");
    assert_eq!(account.collect(Duration::ZERO).await.chunks, 0);
    assert_eq!(account.content("/b").await, body);
    assert_eq!(account.rows("SELECT count(*) FROM garth.chunk_refs"), "0", "one reference has no row");
}

#[tokio::test(flavor = "multi_thread")]
async fn chunk_that_loses_a_new_reference_gets_the_full_grace() {
    let account = Account::new().await;
    let body = vec![7; LONG];
    account.write_unnamed("/a", body.clone()).await;
    account.collect(HOUR).await;
    account.age_marks();
    account.collect(HOUR).await;
    account.age_marks();
    account.write_unnamed("/b", body).await;
    account.rows("UPDATE garth.unnamed SET doomed_at = 1");
    let report = account.collect(HOUR).await;
    assert_eq!((report.versions, report.chunks, report.waiting_bytes), (1, 0, LONG as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_something_else_has_stays() {
    let account = Account::new().await;
    let body = vec![9; LONG];
    account.commit(Op::write(at("/kept"), body.clone())).await;
    account.write_unnamed("/a", body.clone()).await;
    let report = account.collect(Duration::ZERO).await;
    assert_eq!((report.versions, report.chunks), (1, 0));
    assert_eq!(account.content("/kept").await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_entries_become_commits() {
    let account = Account::new().await;
    let long_ago = SetAttrs::new().expires_at(Timestamp(1));
    account.commit(Batch::new([Op::write(at("/stays"), "x"), Op::write(at("/a"), "x")])).await;
    account.commit(Op::set_attrs(at("/a"), long_ago)).await;
    let dry = account.store.gc_dry_run(Duration::ZERO).await.unwrap();
    assert_eq!(dry, Collectable { expired: 1, ..Collectable::default() });
    assert_eq!(account.collect(Duration::ZERO).await.expired, 1);
    assert_eq!(
        account.rows("SELECT seq, convert_from(message, 'UTF8') FROM garth.log WHERE seq > 2"),
        "3|expired"
    );
    assert_eq!(account.collect(Duration::ZERO).await.expired, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn merging_appends_preserves_every_version() {
    let account = Account::new().await;
    let texts: Vec<String> = (0..20).map(|n| format!("line {n}\n")).collect();
    for text in &texts {
        account.commit(append("/log", text.as_str())).await;
    }
    let report = account.collect(Duration::ZERO).await;
    assert_eq!((report.merged, report.chunks), (19, 20));
    assert_eq!(account.rows("SELECT count(*), max(older) FROM garth.extent"), "1|-1", "of several commits");
    for seq in 1..=20 {
        let past = account.store.as_of(&Seq(seq as u64).into()).await.unwrap();
        let expected = texts[..seq].concat();
        assert_eq!(past.read(&path("/log"), ByteRange::ALL).await.unwrap(), expected, "{seq}");
    }
    assert_eq!(account.collect(Duration::ZERO).await.merged, 0, "nothing is left to do");
    account.commit(append("/log", "more\n")).await;
    assert_eq!(account.collect(Duration::ZERO).await.merged, 1, "it begins the next run");
}

#[tokio::test(flavor = "multi_thread")]
async fn extents_that_a_version_shows_partly_are_not_merged() {
    let account = Account::new().await;
    account.commit(append("/a", "12345678")).await;
    account.commit(Op::truncate(at("/a"), 4)).await;
    account.commit(append("/a", "x")).await;
    account.collect(Duration::ZERO).await;
    for (seq, expected) in [(1, "12345678"), (2, "1234"), (3, "1234x")] {
        let past = account.store.as_of(&Seq(seq).into()).await.unwrap();
        assert_eq!(past.read(&path("/a"), ByteRange::ALL).await.unwrap(), expected, "{seq}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_upload_gives_up_its_chunks() {
    let account = Account::new().await;
    account.commit(write("/a", "one")).await;
    // As an upload leaves them that has finished: its chunk has one reference, and no row for that.
    account.rows(&format!(
        "INSERT INTO garth.chunk (account, id, sum, len, data)
             SELECT {0}, next_chunk, '\\x0011223344556677', 3, 'abc' FROM garth.head;
         INSERT INTO garth.staged (account, id, owner, pieces, length, lease)
             SELECT {0}, gen_random_uuid(), 0, '[[' || next_chunk || ',3]]', 3, 1 FROM garth.head;
         UPDATE garth.head SET next_chunk = next_chunk + 1, stored = stored + 3",
        account.account
    ));
    let dry = account.store.gc_dry_run(Duration::ZERO).await.unwrap();
    assert_eq!((dry.staged, dry.chunks, dry.bytes), (1, 1, 3));
    let report = account.collect(Duration::ZERO).await;
    assert_eq!(report.staged, 1);
    // Its chunk goes with it: nobody could read that. The chunk of the file stays.
    assert_eq!(account.rows("SELECT (SELECT count(*) FROM garth.staged), count(*) FROM garth.chunk"), "0|1");
}

#[tokio::test(flavor = "multi_thread")]
async fn collectors_at_once_do_the_work_once() {
    let account = Account::new().await;
    for n in 0..10 {
        account.write_unnamed(&format!("/{n}"), format!("after {n}").into_bytes()).await;
    }
    let mut stores = vec![account.store.clone()];
    for _ in 0..2 {
        stores.push(account.database.store(account.account, &account.database.cluster.socket_url()).await);
    }
    let runs = stores.iter().map(|store| store.gc(Duration::ZERO));
    let reports = futures::future::join_all(runs).await;
    let sum = |take: fn(&Collected) -> u64| reports.iter().map(|it| take(it.as_ref().unwrap())).sum::<u64>();
    assert_eq!((sum(|it| it.versions), sum(|it| it.chunks)), (10, 10));
    assert_eq!(account.rows(CONTRADICTIONS), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_its_lease_changes_nothing() {
    let account = Account::new().await;
    account.write_unnamed("/a", b"after".to_vec()).await;
    account.rows(&format!(
        "INSERT INTO garth.collecting (account, holder, until)
         VALUES ({}, '\\x00', garth.now() + 3600000000000)",
        account.account
    ));
    let waits = tokio::time::timeout(Duration::from_millis(300), account.store.gc(Duration::ZERO)).await;
    assert!(waits.is_err(), "the other run has the lease");
    assert_eq!(account.rows("SELECT count(*) FROM garth.unnamed WHERE doomed_at IS NOT NULL"), "0");
    account.rows("UPDATE garth.collecting SET until = 0");
    // The call above goes on, and may do the work.
    account.collect(Duration::ZERO).await;
    assert_eq!(account.rows("SELECT count(*) FROM garth.unnamed"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_beside_collections_lose_nothing() {
    const COMMITS: usize = 60;
    let account = Account::new().await;
    let other = account.database.store(account.account, &account.database.cluster.socket_url()).await;
    let writer = {
        let store = other.clone();
        tokio::spawn(async move {
            for n in 0..COMMITS {
                store.commit(append("/log", format!("{n}\n"))).await.unwrap();
                store.commit(write(&format!("/d/{}", n % 7), "x".repeat(LONG + n))).await.unwrap();
                if n % 5 == 4 {
                    store.commit(Op::remove_tree(at("/d")).into()).await.unwrap();
                }
            }
        })
    };
    while !writer.is_finished() {
        account.store.gc(Duration::ZERO).await.unwrap();
    }
    writer.await.unwrap();
    account.collect(Duration::ZERO).await;
    let expected: String = (0..COMMITS).map(|n| format!("{n}\n")).collect();
    assert_eq!(account.content("/log").await, expected.as_bytes());
    let seqs = account.rows("SELECT seq FROM garth.log");
    let seqs: BTreeSet<u64> = seqs.lines().map(|seq| seq.parse().unwrap()).collect();
    assert_eq!(seqs.len() as u64, account.store.head().await.unwrap().seq.0, "each commit is in the log");
}

/// Returns the rows that all connections have read of the tables so far. Connections that are open have not
/// told all of theirs.
async fn rows_read(database: &Database) -> i64 {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'garth'";
    while database.rows(0, open) != "0" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let read = "SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'garth'";
    database.rows(0, read).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_of_a_collection_depends_on_the_garbage_alone() {
    let mut costs = Vec::new();
    for files in [20, 3000] {
        let account = Account::new().await;
        // No text, of which the index reads a bounded number of passages.
        let file = |n: i32| Op::write(at(&format!("/d/{n}")), vec![0_u8, n as u8]).with_parents();
        account.commit(Batch::new((0..files).map(file))).await;
        account.collect(Duration::ZERO).await;
        for n in 0..5 {
            account.write_unnamed(&format!("/{n}"), vec![0, n]).await;
        }
        let Account { database, account, store } = account;
        drop(store);
        let before = rows_read(&database).await;
        let store = database.store(account, &database.cluster.socket_url()).await;
        assert_eq!(store.gc(Duration::ZERO).await.unwrap().versions, 5);
        drop(store);
        costs.push(rows_read(&database).await - before);
    }
    // A scan of any table of files would read all of them.
    assert!(costs[1] < costs[0] + 1000, "{costs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_names_what_takes_the_space() {
    let account = Account::new().await;
    let file = |path: &str, byte: u8, bytes: usize| Op::write(at(path), vec![byte; bytes]).with_parents();
    for op in [
        file("/a/one", b'1', 40_000),
        file("/a/one", b'2', 20_000),
        file("/a/two", b'3', 30_000),
        file("/b", b'4', 50_000),
        Op::remove(at("/b")),
    ] {
        account.commit(op).await;
    }
    let shown = |usage: &garth_engine::fs::store::StoredUsage| -> Vec<(String, u64, u64)> {
        let children = usage.paths.iter();
        children.map(|it| (it.path.to_string(), it.live / 10_000, it.history / 10_000)).collect()
    };
    let child = |path: &str, live, history| (path.to_owned(), live, history);
    let usage = account.store.usage(&at("/")).await.unwrap();
    assert_eq!(shown(&usage), [child("/a", 5, 4), child("/b", 0, 5)]);
    assert!(usage.log > 0 && usage.index > 0, "{usage:?}");
    assert_eq!((usage.snapshots, usage.overlays, usage.packs, usage.more), (0, 0, 0, false));
    assert!(usage.pages >= usage.live + usage.history, "{usage:?}");
    let below = account.store.usage(&at("/a")).await.unwrap();
    assert_eq!(shown(&below), [child("/a/one", 2, 4), child("/a/two", 3, 0)]);
    let refused = account.store.usage(&at("/a/one")).await.unwrap_err();
    assert!(refused.is(garth_engine::ErrorKind::NotADirectory), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reindex_counts_stored_bytes_again() {
    let account = Account::new().await;
    account.commit(write("/d/a", "words of a text")).await;
    account.commit(Op::rename(at("/d"), at("/e"))).await;
    account.commit(Op::copy(at("/e/a"), at("/b"))).await;
    let stored = account.rows("SELECT stored FROM garth.head");
    assert_eq!(account.rows(CONTRADICTIONS), "");
    account.rows("UPDATE garth.head SET stored = 5");
    assert_eq!(account.store.reindex().await.unwrap(), 2);
    assert_eq!(account.rows("SELECT stored FROM garth.head"), stored);
    assert!(account.store.entry(&at("/b")).await.is_ok());
}
