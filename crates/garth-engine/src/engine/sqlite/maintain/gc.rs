//! Garbage collection: records expired entries, and removes data that no version, snapshot, lease or open
//! handle needs, and the past that the retention of the account ends.
//!
//! It works in steps, so that commits hardly wait, and finds its work by indexes and queues that commits
//! feed, so that its cost depends on the garbage alone. Rows are removed at once. Data that other processes
//! may still use takes two runs: the first marks it, a run at least `grace` later removes it. Pack files need
//! that because a reader in the middle of a transaction opens them by name; unnamed nodes because only the
//! process that has one open knows it, and looks for marks once a minute. Why:
//! `docs/decisions/leases-and-two-phase-gc.md`, `docs/decisions/counted-references.md`.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use rusqlite::Connection;

use crate::engine::sqlite::maintain::orphan_nodes::{self, Place};
use crate::engine::sqlite::maintain::step::{Times, Turn};
use crate::engine::sqlite::tables::staged::{self, Due};
use crate::engine::sqlite::tables::{
    content_gone, expiry, head, idempotency, leases, names_of_node, past_leases, times_ahead,
};
use crate::engine::sqlite::{SqliteFs, control};
use crate::error::{ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::store::Collected;
use crate::model::{At, Batch, Op, Precondition};
use crate::path::TreePath;
use crate::rule::Registry;
use crate::sqlite::DbResult;

/// Expired entries recorded in one commit: bounds the time that writers wait for it.
const EXPIRED: usize = 64;
/// Rows removed at a time.
const PIECE: usize = 256;

impl SqliteFs {
    /// Implements `AccountStore::gc` on this thread. Pack files, unnamed files, and the past are removed in
    /// two phases.
    pub(crate) fn collect(&self, grace: Duration) -> Result<Collected> {
        self.collect_past(grace, true)
    }

    /// Collects, and removes the past exactly as the retention says, or once a step is worth while.
    pub(super) fn collect_past(&self, grace: Duration, exact: bool) -> Result<Collected> {
        let now = self.inner.runtime.env().now();
        let times = Times::new(now, grace);
        // The order lets one run collect what its earlier steps release: uploads, unnamed files and the past
        // release chunks, and chunks release ranges of pack files. The past goes after merging and after the
        // search for old content, which read the log.
        let mut collected = Collected { expired: self.record_expired()?, ..Collected::default() };
        collected.oldest = self.announce(now, exact)?;
        self.correct_times()?;
        // Without an operator, uploads have the time that their clients were told.
        let uploads = if exact { times.uploads() } else { Due::leases(now) };
        self.forget_ended(uploads, &mut collected)?;
        let removed_writes = self.take_back(times, &mut collected)?;
        self.merge(&removed_writes, &mut collected)?;
        self.age_content(times, &mut collected)?;
        self.fold(times, &mut collected)?;
        self.catch_up()?;
        self.remove_chunks(now, &mut collected)?;
        self.doom_orphans()?;
        self.give_back(times, &mut collected)?;
        self.shrink(&mut collected)?;
        (collected.waiting, collected.waiting_bytes) = self.with_view(|view| waiting(view.conn, times))?;
        (collected.waiting_commits, collected.waiting_contents) = self.with_view(|view| {
            let head = head::get(view.conn)?;
            Ok((head.oldest.saturating_sub(head.folded), content_gone::count_marked(view.conn)?))
        })?;
        Ok(collected)
    }

    /// Records the removal of expired entries. Any commit that meets one does so; these commits do nothing
    /// else.
    fn record_expired(&self) -> Result<u64> {
        let (mut recorded, mut at_once) = (0, EXPIRED);
        loop {
            let due: Vec<At> = self.with_view(|view| {
                let mut paths = Vec::new();
                // All names of a node expire together, so one of them is enough.
                for ino in expiry::next(view.conn, view.time, at_once)? {
                    if let Some((dir, name)) = names_of_node::first(view.conn, ino)? {
                        paths.push(At::Path(TreePath::from_row(&dir, &name)));
                    }
                }
                Ok(paths)
            })?;
            if due.is_empty() {
                return Ok(recorded);
            }
            let ended = due.len() as u64;
            // The check meets the expired entry, which records its removal; then it holds.
            let ops = due.into_iter().map(|at| Op::Check { at, that: Precondition::Absent });
            let batch = Batch::new(ops).message("expired").even_when_full();
            match block_on(self.commit(batch)) {
                // The name was written again after it was listed. The next round lists the rest.
                Err(error) if error.is(ErrorKind::Conflict) => {}
                // Entries with very many names. One of them alone is never refused.
                Err(error) if error.is(ErrorKind::TooLarge) && at_once > 1 => at_once = 1,
                Err(error) => return Err(error),
                Ok(_) => recorded += ended,
            }
        }
    }

    /// Corrects the times of marks and leases that were written while the clock was ahead.
    fn correct_times(&self) -> Result<()> {
        let env = self.inner.runtime.env();
        while self.with_view(|view| times_ahead::any(view.conn, env.now()))? {
            let env = env.clone();
            self.step(move |conn, _| times_ahead::correct(conn, env.now(), PIECE))?;
        }
        Ok(())
    }

    /// Removes records whose time has ended: results for retries, leases, and the uploads that are due.
    pub(super) fn forget_ended(&self, due: Due, collected: &mut Collected) -> Result<()> {
        loop {
            let registry = self.inner.control.registry().clone();
            let (staged, more) = self.step(move |conn, turn| forget_ended(conn, &registry, due, turn))?;
            collected.staged += staged;
            if !more {
                return Ok(());
            }
        }
    }

    /// Removes content that was written to files without a name, and files that no readable state shows.
    /// Returns the files that are left.
    fn take_back(&self, times: Times, collected: &mut Collected) -> Result<Vec<u64>> {
        let (mut files, mut place) = (Vec::new(), Some(Place::default()));
        while let Some(from) = place {
            let open = Arc::clone(&self.inner.open);
            let step =
                self.step(move |conn, turn| orphan_nodes::take_back(conn, &open, times, from, turn))?;
            collected.versions += step.versions;
            step.ended.count_in(collected);
            files.extend(step.done);
            place = step.next;
        }
        Ok(files)
    }
}

/// Returns the number of uploads removed, and true if there is more to do.
fn forget_ended(conn: &Connection, registry: &Registry, due: Due, turn: &mut Turn) -> DbResult<(u64, bool)> {
    // Not in pieces: only open nodes without a name and open views of the past have leases.
    leases::remove_ended(conn, due.now.0)?;
    past_leases::remove_ended(conn, due.now.0)?;
    while idempotency::remove_ended(conn, due.now.0, PIECE)? > 0 {
        if turn.is_over() {
            return Ok((0, true));
        }
    }
    while control::forget_removed_constraints(conn, registry, PIECE)? > 0 {
        if turn.is_over() {
            return Ok((0, true));
        }
    }
    let (mut staged, mut over) = (0, false);
    while let Some(whole) = staged::forget_ended(conn, due, || {
        over = turn.is_over();
        over
    })? {
        staged += u64::from(whole);
        if over || turn.is_over() {
            return Ok((staged, true));
        }
    }
    Ok((staged, false))
}

/// Returns the number of files that wait for the grace period, and the bytes that pack files will give back.
fn waiting(conn: &Connection, times: Times) -> DbResult<(u64, u64)> {
    let sql = "WITH late AS (
             SELECT hole.pack, hole.len FROM hole JOIN pack ON pack.id = hole.pack WHERE pack.doomed_at IS NULL
             UNION ALL
             SELECT id, size FROM pack WHERE doomed_at > ?1
         )
         SELECT count(DISTINCT pack) + (SELECT count(*) FROM unnamed WHERE doomed_at IS NOT NULL),
             coalesce(sum(len), 0) FROM late";
    Ok(conn.query_row(sql, [times.removed_before.0], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rusqlite::params;

    use super::*;
    use crate::engine::sqlite::maintain::merge_extents;
    use crate::engine::sqlite::maintain::remove_chunks::remove_chunks;
    use crate::engine::sqlite::maintain::sample_account::{
        GRACE, SampleAccount, at, keeping_commits, keeping_content, renew_leases,
    };
    use crate::engine::sqlite::schema;
    use crate::fs::{AccountStore as _, OpenFile};
    use crate::model::{Body, ByteRange, Idempotency, Moment, Seq, SetAttrs};
    use crate::sqlite::steps;

    /// Uploads content that is longer than a chunk, so that it goes to a pack file.
    fn upload(account: &SampleAccount, byte: u8) -> Body {
        account.upload("/a", vec![byte; 1_200_000])
    }

    /// Returns the handle of a file that was written to after it had lost its last name.
    fn unnamed(account: &SampleAccount) -> Arc<dyn OpenFile> {
        account.commit([Op::write(at("/a"), "before;")]);
        let open = block_on(account.fs.open(&at("/a"))).unwrap();
        account.commit([Op::remove_file(at("/a"))]);
        account.commit([Op::append(At::Node(open.ino()), "after;").must_exist()]);
        open
    }

    /// Waits until closing a handle has released its lease: tasks run in the order in which they are queued.
    fn close(account: &SampleAccount, open: Arc<dyn OpenFile>) {
        drop(open);
        block_on(account.fs.sync()).unwrap();
    }

    #[test]
    fn empty_pack_is_removed_after_the_grace() {
        let account = SampleAccount::new();
        upload(&account, 1);
        account.clock.advance(Duration::from_secs(25 * 3600));
        let marked = account.collect();
        assert_eq!((marked.staged, marked.chunks, marked.packs, marked.waiting), (1, 2, 0, 1));
        let doomed_at = "SELECT doomed_at FROM pack";
        // The mark counts from the first run.
        let first = account.count(doomed_at);
        account.clock.advance(GRACE - Duration::from_nanos(1));
        assert_eq!(
            (account.collect().packs, account.count(doomed_at)),
            (0, first),
            "a second run marks nothing anew"
        );
        account.clock.advance(Duration::from_nanos(1));
        assert_eq!((account.collect().packs, account.count("SELECT count(*) FROM pack")), (1, 0));
        assert_eq!(account.fs.pack_files().unwrap().len(), 0);
    }

    #[test]
    fn gc_keeps_content_in_use() {
        let account = SampleAccount::new();
        let body = upload(&account, 1);
        account.commit([Op::write(at("/used"), body)]);
        account.commit([Op::write(at("/past"), "old")]);
        account.commit([Op::remove_file(at("/past"))]);
        account.clock.advance(GRACE);
        let _waiting = upload(&account, 2);
        for _ in 0..2 {
            assert_eq!(account.collect(), Collected::default());
            account.clock.advance(GRACE / 2);
        }
        account.assert_sound();
    }

    #[test]
    fn report_says_what_waits_until_nothing_does() {
        let account = SampleAccount::new();
        for (path, text) in [("/a", "one"), ("/a", "two"), ("/b", "gone")] {
            account.commit([Op::write(at(path), text)]);
        }
        account.commit([Op::remove_file(at("/b"))]);
        account.commit([Op::write(at("/c"), "last")]);
        account.retain(keeping_commits(0));
        // The past becomes unreadable, then its rows are removed, then the file that it alone shows.
        for waits in [(5, 0), (0, 1), (0, 0)] {
            let collected = account.collect();
            assert_eq!((collected.waiting_commits, collected.waiting), waits);
            account.clock.advance(GRACE);
        }
        assert_eq!(account.count("SELECT count(DISTINCT ino) FROM node"), 3, "the root and two files");
        assert_eq!(account.collect(), Collected { oldest: 5, ..Collected::default() });
        account.assert_sound();
    }

    #[test]
    fn unused_upload_is_removed_after_grace() {
        let account = SampleAccount::new();
        let old = upload(&account, 1);
        account.clock.advance(Duration::from_secs(1));
        let new = upload(&account, 2);
        assert_eq!(account.collect_at_once().staged, 0, "a commit may follow");
        account.clock.advance(GRACE - Duration::from_secs(1));
        assert_eq!(account.fs.collectable(GRACE).unwrap().staged, 1);
        assert_eq!(account.collect().staged, 1);
        let write = |body: Body| block_on(account.fs.commit(Batch::new([Op::write(at("/a"), body)])));
        assert!(write(old).unwrap_err().is(ErrorKind::NotFound));
        write(new).unwrap();
        account.assert_sound();
    }

    #[test]
    fn collection_without_an_operator_keeps_uploads_for_their_lease() {
        let account = SampleAccount::new();
        let (used, unused) = (upload(&account, 1), upload(&account, 2));
        let next = || block_on(account.fs.collect_next()).unwrap();
        let end = next().unwrap();
        assert_eq!(end, account.now().plus_seconds(24 * 3600));
        account.clock.advance(Duration::from_secs(23 * 3600));
        assert_eq!(account.fs.collect_past(GRACE, false).unwrap().staged, 0);
        account.commit([Op::write(at("/a"), used)]);
        assert_eq!(next(), Some(end), "that of the other");
        account.clock.advance(Duration::from_secs(3600));
        assert!(next().unwrap() <= account.now());
        assert_eq!(account.fs.collect_past(GRACE, false).unwrap().staged, 1);
        let late = block_on(account.fs.commit(Batch::new([Op::write(at("/b"), unused)])));
        assert!(late.unwrap_err().is(ErrorKind::NotFound));
        account.clock.advance(GRACE);
        account.fs.collect_past(GRACE, false).unwrap();
        assert_eq!(next(), None);
        account.assert_sound();
    }

    #[test]
    fn abandoned_upload_is_removed_after_its_lease() {
        let account = SampleAccount::new();
        account.abandon_upload("/a", vec![7; 1_200_000]);
        assert_eq!((account.collect().staged, account.fs.pack_files().unwrap().len()), (0, 1));
        account.clock.advance(Duration::from_secs(25 * 3600));
        let collected = account.collect();
        assert_eq!((collected.staged, collected.packs), (1, 1));
    }

    #[test]
    fn writes_to_unnamed_file_are_removed_after_grace() {
        let account = SampleAccount::new();
        let open = unnamed(&account);
        close(&account, open);
        assert_eq!((account.collect().versions, account.collect().waiting), (0, 1));
        account.clock.advance(GRACE);
        let collected = account.collect();
        assert_eq!((collected.versions, collected.chunks, collected.waiting), (1, 1, 0));
        let past = block_on(account.fs.as_of(&Moment::Seq(Seq(1)))).unwrap();
        assert_eq!(block_on(past.read(&at("/a"), ByteRange::ALL)).unwrap(), "before;");
    }

    #[test]
    fn lease_left_of_a_closed_view_holds_nothing() {
        let account = SampleAccount::new();
        account.commit([Op::write(at("/a"), "one")]);
        account.commit([Op::write(at("/a"), "two")]);
        let past = block_on(account.fs.as_of(&Moment::Seq(Seq(1)))).unwrap();
        renew_leases(&account.fs);
        account.retain(keeping_content(&[("/**", 0)]));
        assert_eq!(account.collect().contents, 0, "an open view reads it");
        drop(past);
        assert_eq!(account.collect().contents, 1);
        account.assert_sound();
    }

    #[test]
    fn lease_keeps_unnamed_file() {
        let account = SampleAccount::new();
        let open = unnamed(&account);
        // Four times the length of a lease, which is renewed in time.
        for _ in 0..5 {
            assert_eq!((account.collect().versions, account.collect().waiting), (0, 0));
            account.clock.advance(Duration::from_secs(240));
            renew_leases(&account.fs);
        }
        assert_eq!(block_on(open.read_at(0, 100)).unwrap(), "before;after;");
    }

    #[test]
    fn other_holder_leases_a_marked_file() {
        let account = SampleAccount::new();
        let other = account.other();
        account.commit([Op::write(at("/a"), "before;")]);
        let theirs = block_on(other.open(&at("/a"))).unwrap();
        let ours = block_on(account.fs.open(&at("/a"))).unwrap();
        account.commit([Op::remove_file(at("/a"))]);
        account.commit([Op::append(At::Node(ours.ino()), "after;").must_exist()]);
        close(&account, ours);
        assert_eq!(account.collect().waiting, 1, "marked");
        renew_leases(&other);
        assert_eq!(
            account.count("SELECT count(*) FROM unnamed WHERE doomed_at IS NOT NULL"),
            0,
            "its grace begins anew"
        );
        let short = Duration::from_secs(1);
        account.clock.advance(short);
        assert_eq!(account.fs.collect(short).unwrap().versions, 0);
        assert_eq!(block_on(theirs.read_at(0, 100)).unwrap(), "before;after;");
    }

    #[test]
    fn marks_and_leases_of_a_clock_ahead_end() {
        let account = SampleAccount::new();
        upload(&account, 1);
        account.clock.advance(Duration::from_secs(25 * 3600));
        assert_eq!(account.collect().waiting, 1);
        let open = unnamed(&account);
        close(&account, open);
        upload(&account, 2);
        assert_eq!(account.collect().waiting, 2);
        let now = account.now();
        account.fs.step(move |conn, _| past_leases::put(conn, &[1; 16], 1, now.0)).unwrap();
        let far = 365 * 86_400_000_000_000_i64;
        let ahead = format!(
            "UPDATE pack SET doomed_at = doomed_at + {far};
             UPDATE unnamed SET doomed_at = doomed_at + {far};
             UPDATE staged SET lease = lease + {far};
             UPDATE past_lease SET until = until + {far}"
        );
        account.fs.step(move |conn, _| Ok(conn.execute_batch(&ahead)?)).unwrap();
        assert!(block_on(account.fs.collect_next()).unwrap().unwrap() <= now);
        account.collect();
        assert!(!account.fs.with_view(|view| times_ahead::any(view.conn, now)).unwrap());
        account.clock.advance(GRACE);
        let collected = account.collect();
        assert_eq!((collected.packs, collected.versions), (1, 1));
        account.clock.advance(Duration::from_secs(86_400));
        account.collect();
        assert_eq!(
            account.count("SELECT count(*) FROM past_lease") + account.count("SELECT count(*) FROM staged"),
            0
        );
        account.assert_sound();
    }

    /// Returns the steps of a collection, on a connection of its own, that finds nothing to collect.
    fn collecting_nothing(account: &SampleAccount) -> u64 {
        let conn = schema::database(account.folder.path()).connect().unwrap();
        let env = &account.fs.inner.runtime.env().clone();
        let times = Times { now: env.now(), removed_before: env.now() };
        let turn = &mut Turn::begin(env);
        let collect = || {
            assert_eq!(forget_ended(&conn, &Registry::empty(), times.uploads(), turn).unwrap(), (0, false));
            let open = &account.fs.inner.open;
            let taken = orphan_nodes::take_back(&conn, open, times, Place::default(), turn).unwrap();
            assert_eq!(taken.versions, 0);
            let from: u64 = conn.query_row("SELECT merged FROM head", [], |row| row.get(0)).unwrap();
            assert_eq!(merge_extents::written(&conn, from, &mut BTreeSet::new()).unwrap(), None);
            assert_eq!(remove_chunks(&conn, env.now(), turn).unwrap(), (0, 0, false));
            assert_eq!(waiting(&conn, times).unwrap(), (0, 0));
        };
        let ((), steps) = steps::here(collect);
        steps
    }

    #[test]
    fn expired_files_with_many_names_are_recorded() {
        let account = SampleAccount::new();
        // Together they have more names than one commit ends.
        for file in 0..3 {
            let first = at(&format!("/{file}"));
            let expires = SetAttrs::new().expires_at(account.now().plus_seconds(9));
            let write = Op::write(first.clone(), "x").with_attrs(expires);
            let links = (0..1000).map(|n| Op::link(first.clone(), at(&format!("/{file}-{n}"))));
            account.commit(std::iter::once(write).chain(links));
        }
        account.clock.advance(Duration::from_secs(10));
        assert_eq!(account.collect().expired, 3);
        assert_eq!(account.count("SELECT count(*) FROM name"), 0);
    }

    #[test]
    fn expired_key_keeps_keys_of_other_owners() {
        let account = SampleAccount::new();
        let conn = Connection::open(account.folder.path().join("tree.db")).unwrap();
        let sql =
            "INSERT INTO idempotency (owner, key, hash, keep_until, seq) VALUES (?1, 'k', x'00', ?2, 1)";
        let env = &account.fs.inner.runtime.env().clone();
        for (owner, keep_until) in [("", 0), ("view", env.now().plus_seconds(99).0)] {
            conn.execute(sql, params![owner, keep_until]).unwrap();
        }
        let due = Due::leases(env.now());
        forget_ended(&conn, &Registry::empty(), due, &mut Turn::begin(env)).unwrap();
        let left: String = conn.query_row("SELECT owner FROM idempotency", [], |row| row.get(0)).unwrap();
        assert_eq!(left, "view");
    }

    #[test]
    fn gc_cost_depends_on_garbage_only() {
        let account = SampleAccount::new();
        let fill = |range: std::ops::Range<u64>| {
            for n in range {
                let expires = SetAttrs::new().expires_at(account.now().plus_seconds(99));
                let file = at(&format!("/f{n}"));
                let ops = [
                    Op::write(file.clone(), vec![n as u8; 70_000]),
                    Op::write(at(&format!("/e{n}")), "x").with_attrs(expires),
                    Op::copy(file.clone(), at(&format!("/c{n}"))),
                    Op::patch(file, 5, "patched"),
                    Op::write(at(&format!("/r{n}")), "gone"),
                ];
                account.commit(ops);
                account.commit([Op::remove_file(at(&format!("/r{n}")))]);
                let keep_until = account.now().plus_seconds(3600);
                let record = Idempotency::new(format!("k{n}"), [0; 32], keep_until);
                let batch = Batch { idempotency: Some(record), ..Batch::new([]) };
                block_on(account.fs.commit(batch)).unwrap();
            }
        };
        fill(0..5);
        let waiting = upload(&account, 1);
        account.collect();
        let few = collecting_nothing(&account);
        fill(5..100);
        account.collect();
        assert_eq!(collecting_nothing(&account), few);
        drop(waiting);
    }
}
