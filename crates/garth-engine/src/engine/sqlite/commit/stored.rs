//! The limit on the stored bytes of an account: the pages of the database that are in use, and the content
//! in pack files. Commits and uploads that add to them are refused beyond it. Work that gives bytes back, or
//! that an operator asks for, runs as a task and is never refused. Commits that end something are not either.

use rusqlite::Connection;

use crate::engine::planner::{Delta, Planned, Rows as _};
use crate::engine::relational::room::{self, check_room, full_for, releases};
use crate::engine::sqlite::planner_rows::PlannerRows;
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::{head, live_names, staged};
use crate::error::Result;
use crate::model::Batch;
use crate::sqlite::DbResult;

/// Size of the database in bytes: pages in use, and free ones, which later writes use.
pub(crate) struct Pages {
    pub(crate) used: u64,
    pub(crate) free: u64,
}

/// Returns the size of the database. Inside a write transaction, what it has written so far counts.
pub(crate) fn pages(conn: &Connection) -> DbResult<Pages> {
    // SQLite answers from the page of the file's header, which each transaction reads anyhow.
    let ask = |sql: &str| -> DbResult<u64> { Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?) };
    let (size, all) = (ask("PRAGMA page_size")?, ask("PRAGMA page_count")?);
    let free = ask("PRAGMA freelist_count")?;
    Ok(Pages { used: all.saturating_sub(free).saturating_mul(size), free: free.saturating_mul(size) })
}

/// Returns the stored bytes of the account.
pub(crate) fn used(conn: &Connection) -> DbResult<u64> {
    Ok(pages(conn)?.used.saturating_add(head::packed(conn)?))
}

/// Passes on what is planned for a batch, or fails if the account has no room for it. After planning, so that
/// the repeat of an earlier commit gets its answer, and conditions that do not hold are reported first. The
/// index of a group is written after its last member: `unwritten` are its bytes so far.
pub(super) fn check(
    rows: &PlannerRows<'_>,
    planned: Planned,
    limit: Option<u64>,
    batch: &Batch,
    unwritten: &mut u64,
) -> Result<Planned> {
    let (Some(limit), Planned::Apply { delta, .. }) = (limit, &planned) else { return Ok(planned) };
    if batch.even_when_full || releases(delta, batch) {
        return Ok(planned);
    }
    let count = || -> DbResult<(u64, u64)> { Ok((used(rows.conn)?, growth(rows.conn, delta, batch)?)) };
    let (used, arriving) = count().map_err(|error| error.describe(&SUBJECT))?;
    let index = room::index_growth(delta, |ino, seq| rows.attributes(ino, seq))?;
    let (used, growth) = (used.saturating_add(*unwritten), arriving.saturating_add(index));
    let uploaded = room::uploaded(delta);
    let arriving = growth.saturating_add(uploaded);
    // With its uploads counted twice: mostly there is room even so.
    if check_room(limit, used, arriving).is_err() {
        let mut given_up = 0;
        if uploaded > 0 {
            let kept = staged::kept(rows.conn, &delta.staged).map_err(|error| error.describe(&SUBJECT))?;
            // Uploads that wait for their commits must not refuse each other: the first commit takes the
            // room. What comes with an upload and is longer does not, or any upload would lift the limit.
            let others = if growth <= uploaded { kept.others } else { 0 };
            // Its own count by their length, not by what is stored for them, as other content does.
            given_up = kept.own.saturating_add(others);
        }
        check_room(limit, used.saturating_sub(given_up), arriving).map_err(|_| full_for(batch))?;
    }
    *unwritten = unwritten.saturating_add(index);
    Ok(planned)
}

/// Returns about the bytes that the rows of a batch add, apart from its uploads.
fn growth(conn: &Connection, delta: &Delta, batch: &Batch) -> DbResult<u64> {
    let (mut names, mut paths) = (0_u64, 0_u64);
    // The names of moved and removed subtrees go on in rows of the past.
    for region in delta.subtrees.left() {
        let (count, bytes) = live_names::size(conn, &region)?;
        (names, paths) = (names.saturating_add(count), paths.saturating_add(bytes));
    }
    Ok(room::growth(delta, batch, (names, paths)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::executor::block_on;

    use super::*;
    use crate::engine::relational::room::{COMMIT, ROW, SMALL_FILE};
    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::error::ErrorKind;
    use crate::fs::{AccountStore as _, FileSystem, Incoming};
    use crate::model::{
        At, Body, Commit, Confinement, Idempotency, Op, Owner, Precondition, SetAttrs, Special, StagedBody,
        Timestamp, Within,
    };
    use crate::path::TreePath;
    use crate::rule::retention::Retention;

    /// Bytes that are too long for one chunk, so that their upload has a pack file.
    const LONG: usize = 1_200_000;

    struct Account {
        fs: Arc<SqliteFs>,
        folder: tempfile::TempDir,
    }

    fn account() -> Account {
        let folder = tempfile::tempdir().unwrap();
        let registry = crate::rule::sample::registry();
        Account { fs: SqliteFs::open(folder.path(), Env::system(), registry).unwrap(), folder }
    }

    fn at(path: &str) -> At {
        At::Path(TreePath::parse(path).unwrap())
    }

    fn write(path: &str, bytes: usize) -> Batch {
        Batch::new([Op::write(at(path), vec![b'x'; bytes])])
    }

    impl Account {
        fn commit(&self, batch: Batch) -> Result<Commit> {
            block_on(self.fs.commit(batch))
        }

        fn used(&self) -> u64 {
            self.fs.with_view(|view| used(view.conn)).unwrap()
        }

        /// Limits the stored bytes to those that are in use, and `more`.
        fn leave(&self, more: u64) {
            let stored = Some(self.used() + more);
            block_on(self.fs.set_retention(Retention { stored, ..Retention::default() })).unwrap();
        }

        fn upload(&self, byte: u8) -> Result<StagedBody> {
            let mut upload = block_on(self.fs.stage(&at("/up")))?;
            block_on(upload.write(vec![byte; LONG].into()))?;
            block_on(upload.finish())
        }
    }

    #[test]
    fn full_account_refuses_growth_and_nothing_is_partial() {
        let account = account();
        account.commit(write("/kept", 100_000)).unwrap();
        account.leave(20_000);
        let head = block_on(account.fs.head()).unwrap();
        let batch = Batch::new([Op::write(at("/short"), "x"), Op::write(at("/long"), vec![b'y'; 50_000])]);
        let refused = account.commit(batch).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
        assert!(refused.to_string().contains("bytes"), "the account may know its numbers: {refused}");
        assert_eq!(block_on(account.fs.head()).unwrap().seq, head.seq);
        assert!(block_on(account.fs.stat(&at("/short"))).unwrap_err().is(ErrorKind::NotFound));
        account.commit(write("/short", 100)).unwrap();
        assert_eq!(account.fs.check().unwrap().findings, []);
    }

    #[test]
    fn names_paths_and_attributes_count() {
        let account = account();
        let files = (0..200).map(|n| Op::write(at(&format!("/d/{n}")), "x").with_parents());
        account.commit(Batch::new(files)).unwrap();
        account.leave(40_000);
        let long = (0..15).fold("/long".to_owned(), |path, _| path + "/" + &"x".repeat(200));
        let attributes = SetAttrs::new().metadata("key", "v".repeat(50_000));
        let note = Idempotency::new("key", [7; 32], Timestamp(i64::MAX)).note("n".repeat(50_000));
        for grows in [
            Batch::new([Op::rename(at("/d"), at("/e"))]),
            Batch::new([Op::remove_tree(at("/d")), Op::mkdir(at("/d"))]),
            Batch::new([Op::mkdir(at(&long)).with_parents()]),
            Batch::new([Op::set_attrs(at("/d/0"), attributes)]),
            write("/noted", 1).idempotency(note),
        ] {
            assert_eq!(account.commit(grows).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        }
        account.commit(Batch::new([Op::rename(at("/d/0"), at("/d/a"))])).unwrap();
        account.commit(Batch::new([Op::remove_tree(at("/d"))])).unwrap();
    }

    #[test]
    fn full_account_still_removes() {
        let account = account();
        account.commit(write("/a", 100_000)).unwrap();
        account.commit(write("/b", 100)).unwrap();
        account.commit(Batch::new([Op::snapshot("then")])).unwrap();
        account.leave(0);
        for grows in [
            write("/c", 1),
            Batch::new([Op::set_attrs(at("/"), SetAttrs::new().mode(0o700))]),
            Batch::new([Op::remove(at("/b")), Op::write(at("/c"), "x")]),
        ] {
            assert_eq!(account.commit(grows).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        }
        for op in
            [Op::truncate(at("/a"), 0), Op::remove(at("/b")), Op::remove(at("/a")), Op::drop_snapshot("then")]
        {
            account.commit(Batch::new([op])).unwrap();
        }
        block_on(account.fs.set_retention(Retention::default())).unwrap();
        account.commit(write("/c", 1)).unwrap();
    }

    #[test]
    fn account_without_room_for_a_file_is_full() {
        let account = account();
        account.commit(write("/a", 100)).unwrap();
        let is_full = || block_on(account.fs.retention()).unwrap().full;
        for more in [0, COMMIT, COMMIT + 2 * ROW, SMALL_FILE - 1] {
            account.leave(more);
            assert!(is_full(), "{more}");
        }
        // Setting the limit may take pages itself.
        account.leave(SMALL_FILE + 16_384);
        assert!(!is_full());
        let text = SetAttrs::new().content_type("text/markdown");
        account.commit(Batch::new([Op::write(at("/plan.md"), "plan\n").with_attrs(text)])).unwrap();
        account.leave(COMMIT);
        assert_eq!(account.commit(write("/b", 1)).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    }

    #[test]
    fn full_account_says_that_removals_in_overlays_take_room() {
        let account = account();
        account.leave(0);
        let hidden = Op::mknod(at("/a"), Special::Whiteout);
        let refused = account.commit(Batch::new([hidden])).unwrap_err();
        assert!(refused.message().contains("remove the overlay, or something outside of it"), "{refused}");
        let refused = account.commit(write("/a", 1)).unwrap_err();
        assert!(refused.message().contains("; remove something and collect"), "{refused}");
    }

    #[test]
    fn full_account_refuses_commits_that_end_nothing() {
        let account = account();
        account.commit(Batch::new([Op::write(at("/a"), "x"), Op::write(at("/empty"), "")])).unwrap();
        account.leave(0);
        let noted = |batch: Batch, bytes| {
            let record = Idempotency::new("key", [7; 32], Timestamp(i64::MAX)).note("n".repeat(bytes));
            batch.idempotency(record)
        };
        for grows in [
            Batch::default(),
            noted(Batch::default(), 1),
            Batch::new([Op::check(at("/a"), Precondition::Exists)]),
            Batch::new([Op::truncate(at("/empty"), 0)]),
            noted(Batch::new([Op::remove(at("/a"))]), 5000),
            Batch::new([Op::write(at("/empty"), "")]),
        ] {
            assert_eq!(account.commit(grows).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        }
        account.commit(noted(Batch::new([Op::remove(at("/a"))]), 1000)).unwrap();
        account.commit(write("/b", 1).even_when_full()).unwrap();
    }

    #[test]
    fn full_account_takes_empty_content_in_place_of_other() {
        let account = account();
        account.commit(write("/a", 100_000)).unwrap();
        account.commit(write("/b", 100_000)).unwrap();
        account.leave(0);
        assert!(block_on(account.fs.retention()).unwrap().full);
        let empty = |path: &str| Op::write(at(path), "");
        let long = SetAttrs::new().metadata("key", "v".repeat(5000));
        for grows in [
            Batch::new([empty("/new")]),
            Batch::new([empty("/a"), empty("/new")]),
            Batch::new([Op::remove(at("/a")), empty("/a")]),
            Batch::new([empty("/a").with_attrs(long)]),
            Batch::new([empty("/a"), Op::append(at("/b"), "x")]),
        ] {
            assert_eq!(account.commit(grows).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        }
        account
            .commit(Batch::new([empty("/a").with_attrs(SetAttrs::new().content_type("text/plain"))]))
            .unwrap();
        assert_eq!(block_on(account.fs.stat(&at("/a"))).unwrap().size, 0);
        assert_eq!(account.fs.check().unwrap().findings, []);
    }

    #[test]
    fn index_of_copies_counts() {
        let account = account();
        let image = SetAttrs::new().content_type("image/png");
        let ops = [write("/text", 1_000_000).ops, write("/image", 1_000_000).ops].concat();
        account.commit(Batch::new(ops).op(Op::set_attrs(at("/image"), image))).unwrap();
        account.leave(500_000);
        let copies = |of: &str| {
            let copy = |n| Op::copy(at(of), at(&format!("{of}-{n}")));
            account.commit(Batch::new((0..5).map(copy)))
        };
        assert_eq!(copies("/text").unwrap_err().kind(), ErrorKind::QuotaExceeded);
        copies("/image").unwrap();
    }

    #[test]
    fn repeat_of_a_commit_is_answered_by_a_full_account() {
        let account = account();
        let batch =
            || write("/a", 10_000).idempotency(Idempotency::new("once", [7; 32], Timestamp(i64::MAX)));
        let first = account.commit(batch()).unwrap();
        account.leave(0);
        let again = account.commit(batch()).unwrap();
        assert_eq!((again.seq, again.replayed), (first.seq, true));
    }

    #[test]
    fn group_counts_what_its_members_wrote() {
        let account = account();
        account.commit(write("/a", 1)).unwrap();
        account.leave(200_000);
        // They wait together for the writer, so that some of them share a transaction.
        let writes: Vec<_> = (0..64).map(|n| account.fs.commit(write(&format!("/{n}"), 16_384))).collect();
        let done = block_on(futures::future::join_all(writes));
        let fits = done.iter().filter(|result| result.is_ok()).count();
        assert!((3..14).contains(&fits), "{fits} of 64 fit");
        assert!(done.iter().flat_map(|result| result.as_ref().err()).all(|e| e.is(ErrorKind::QuotaExceeded)));
    }

    #[test]
    fn content_in_pack_files_counts_until_it_is_collected() {
        let account = account();
        account.commit(write("/a", 1)).unwrap();
        let before = account.used();
        let first = account.upload(1).unwrap();
        let with_one = account.used();
        assert!(with_one >= before + LONG as u64, "{before} {with_one}");
        account.upload(1).unwrap();
        assert!(account.used() < with_one + LONG as u64 / 2, "the same content is stored once");
        account.commit(Batch::new([Op::write(at("/b"), Body::Staged(first))])).unwrap();
        block_on(account.fs.gc(Duration::ZERO)).unwrap();
        assert!(account.used() >= before + LONG as u64 / 2, "the file has it");
        let packed = account.fs.with_view(|view| head::packed(view.conn)).unwrap();
        let sql = "SELECT sum(len) FROM chunk WHERE pack IS NOT NULL";
        let sum =
            account.fs.with_view(|view| Ok(view.conn.query_row(sql, [], |row| row.get::<_, u64>(0))?));
        assert_eq!(packed, sum.unwrap());
    }

    #[test]
    fn full_account_recovers_when_an_upload_is_collected() {
        let account = account();
        let upload = account.upload(1).unwrap();
        account.leave(10_000);
        assert_eq!(account.commit(write("/a", 100_000)).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        block_on(account.fs.discard(&at("/up"), &upload)).unwrap();
        block_on(account.fs.gc(Duration::ZERO)).unwrap();
        account.commit(write("/a", 100_000)).unwrap();
    }

    #[test]
    fn full_account_refuses_uploads_before_and_while_they_arrive() {
        let account = account();
        account.commit(write("/a", 1)).unwrap();
        account.leave(100_000);
        let content = |arrives| Incoming { arrives, size: arrives, room: u64::MAX, ..Incoming::default() };
        block_on(account.fs.admit(&at("/up"), &content(50_000))).unwrap();
        let refused = block_on(account.fs.admit(&at("/up"), &content(200_000))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
        let mut expected = block_on(account.fs.stage(&at("/up"))).unwrap();
        expected.expects(LONG as u64);
        let refused = block_on(expected.write(vec![2; LONG].into())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QuotaExceeded, "before its first chunk is stored");
        drop(expected);
        assert_eq!(account.fs.pack_files().unwrap(), [""; 0]);
        assert_eq!(account.upload(3).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        assert_eq!(account.fs.pack_files().unwrap(), [""; 0]);
    }

    #[test]
    fn of_two_finished_uploads_one_takes_the_last_room() {
        let account = account();
        let bodies = [1, 2].map(|byte| account.upload(byte).unwrap());
        let limit = account.used() - LONG as u64 + 100_000;
        let set = Retention { stored: Some(limit), ..Retention::default() };
        block_on(account.fs.set_retention(set)).unwrap();
        let commit = |path: &str, body: &StagedBody| {
            let op = Op::write(at(path), Body::Staged(body.clone()));
            account.commit(Batch::new([op.with_attrs(SetAttrs::new().content_type("image/png"))]))
        };
        commit("/first", &bodies[0]).unwrap();
        assert_eq!(commit("/second", &bodies[1]).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        let usage = || account.fs.count_usage(&TreePath::root(), &Within::everything()).unwrap();
        assert_eq!(usage().packs, 2 * LONG as u64);
        block_on(account.fs.discard(&at("/second"), &bodies[1])).unwrap();
        assert_eq!(account.fs.pack_files().unwrap().len(), 1, "that of the first");
        assert_eq!(usage().packs, LONG as u64);
        assert!(account.used() <= limit);
        assert_eq!(block_on(account.fs.stat(&at("/first"))).unwrap().size, LONG as u64);
        assert_eq!(account.fs.check().unwrap().findings, []);
    }

    #[test]
    fn refused_uploads_leave_room_for_the_next() {
        let account = account();
        account.commit(write("/a", 1)).unwrap();
        account.leave(LONG as u64 + 50_000);
        for byte in 1..5 {
            // Too large only with its index, which counts for text.
            let body = account.upload(byte).unwrap();
            let refused = account.commit(Batch::new([Op::write(at("/up"), Body::Staged(body.clone()))]));
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::QuotaExceeded);
            block_on(account.fs.discard(&at("/up"), &body)).unwrap();
            assert_eq!(account.fs.pack_files().unwrap(), [""; 0]);
        }
    }

    #[test]
    fn of_two_uploads_that_arrive_one_takes_the_last_room() {
        let account = account();
        account.leave(LONG as u64 + 100_000);
        let [mut first, mut second] = [(); 2].map(|()| block_on(account.fs.stage(&at("/up"))).unwrap());
        first.expects(LONG as u64);
        second.expects(LONG as u64);
        let refused = block_on(first.write(vec![1; LONG].into())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
        block_on(second.write(vec![2; LONG].into())).unwrap();
        block_on(second.finish()).unwrap();
        drop(first);
        assert_eq!(account.fs.pack_files().unwrap().len(), 1);
    }

    #[test]
    fn full_account_refuses_short_uploads() {
        let account = account();
        account.commit(write("/a", 1)).unwrap();
        account.leave(50_000);
        let upload = |bytes: usize| -> Result<StagedBody> {
            let mut upload = block_on(account.fs.stage(&at("/up")))?;
            block_on(upload.write(vec![4; bytes].into()))?;
            block_on(upload.finish())
        };
        let before = account.used();
        assert_eq!(upload(100_000).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        assert_eq!(account.used(), before);
        upload(1000).unwrap();
    }

    #[test]
    fn refusal_has_no_numbers_of_the_account() {
        let account = account();
        account.commit(Batch::new([Op::mkdir(at("/own"))])).unwrap();
        account.leave(0);
        let own = Within::new([TreePath::parse("/own").unwrap()]);
        let confinement = Confinement::new(own, Owner::new("view").unwrap());
        let view = block_on(account.fs.confined(&confinement)).unwrap();
        // The caller of a tree whose directories are not created yet also commits with the account's rights.
        for refused in [block_on(view.commit(write("/own/a", 1))), account.commit(write("/own/a", 1))] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
            assert!(!refused.to_string().chars().any(|c| c.is_ascii_digit()), "{refused}");
        }
    }

    #[test]
    fn limit_holds_for_other_processes_at_their_next_commit() {
        let account = account();
        account.commit(write("/a", 1)).unwrap();
        let registry = crate::rule::sample::registry();
        let other = SqliteFs::open(account.folder.path(), Env::system(), registry).unwrap();
        block_on(other.commit(write("/b", 1))).unwrap();
        account.leave(0);
        assert_eq!(block_on(other.commit(write("/c", 1))).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    }
}
