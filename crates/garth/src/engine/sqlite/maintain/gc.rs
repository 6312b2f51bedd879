//! Garbage collection: records expired entries, and removes what no version, snapshot, lease or open handle
//! needs.
//!
//! Rows of garbage go at once, in one transaction. What other processes may still use goes in two phases: one
//! run marks it, a run at least `grace` later deletes it. Pack files need that because a reader in the midst
//! of a transaction opens them by name; unnamed nodes because only the process that has one open knows it,
//! and it looks for marks once a minute. Why: `docs/decisions/leases-and-two-phase-gc.md`.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use rusqlite::{Connection, Row, params};
use serde::Serialize;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::maintain::merge::{self, Merged};
use crate::engine::sqlite::maintain::unused;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::write::staged;
use crate::error::{ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, Batch, Op, Precondition, Timestamp, Within};
use crate::path::TreePath;
use crate::runtime::Runtime;
use crate::runtime::disk::failed;
use crate::sqlite::{DbResult, all};

/// Expired entries recorded in one commit: bounds how long writers wait behind it.
const STEP: usize = 256;

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Expired entries whose removal is now in the version log.
    pub expired: u64,
    /// Uploads abandoned or never committed.
    pub staged: u64,
    /// Versions of files without a name, written through handles that are closed.
    pub versions: u64,
    /// Small extents merged into their neighbour.
    pub merged: u64,
    /// Chunks of content that nothing refers to.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// Pack files removed. One that has just become empty is removed by a later run, after the grace.
    pub packs: u64,
    /// Marked, to be removed after the grace: empty pack files, and unnamed files that were written to.
    pub waiting: u64,
    /// Bytes of those pack files.
    pub waiting_bytes: u64,
}

impl SqliteFs {
    /// Collects garbage. Empty pack files, and what was written to unnamed files, are removed in two phases:
    /// one run marks them, a run at least `grace` later removes them, unless a process took a lease
    /// meanwhile. Each process looks for marks once a minute, so a `grace` below that is safe only if no
    /// other has the account open. Blocks; not for an async worker thread.
    ///
    /// # Errors
    /// From the storage; what was done until then stays done.
    pub fn gc(&self, grace: Duration) -> Result<Collected> {
        let expired = self.record_expired()?;
        let merged = self.merge()?;
        // files before rows: an upload makes its row first, so none of its files can look like an orphan
        let files = self.pack_files()?;
        let (inner, now) = (&self.inner, self.inner.runtime.env().now());
        let gone_before =
            Timestamp(now.0.saturating_sub(i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX)));
        let work = inner.writer.transact(true, {
            let runtime = inner.runtime.clone();
            move |conn| sweep(conn, &runtime, &files, now, gone_before)
        });
        let (mut collected, to_unlink) = block_on(work)?;
        for file in to_unlink {
            inner.runtime.failpoints().pass("gc-unlink")?;
            if fs::remove_file(inner.packs.folder().join(&file)).is_ok() {
                collected.packs += 1;
            }
            inner.runtime.failpoints().pass("gc-forget")?;
            let forget = inner.writer.transact(false, move |conn| {
                conn.execute("DELETE FROM pack WHERE file = ?1", [&file])?;
                Ok(())
            });
            block_on(forget)?;
        }
        collected.chunks += merged.chunks;
        collected.bytes += merged.bytes;
        Ok(Collected { expired, merged: merged.extents, ..collected })
    }

    /// Records the removal of expired entries. Any commit that meets one does so; these commits do nothing
    /// else.
    fn record_expired(&self) -> Result<u64> {
        let mut recorded = 0;
        loop {
            let due: Vec<At> =
                self.with_view(|view| {
                    let sql = "SELECT ino FROM expiry WHERE at <= ?1 ORDER BY at LIMIT ?2";
                    let inos: Vec<u64> = all(view.conn, sql, params![view.time, STEP], |row| row.get(0))?;
                    let mut paths = Vec::new();
                    for ino in inos {
                        let (dir, name) =
                            match rows::names_of(view.conn, ino, rows::Span::NOW, &Within::everything(), 1)?
                                .pop()
                            {
                                Some(key) => key,
                                None => continue,
                            };
                        paths.push(At::Path(TreePath::from_row(&dir, &name)));
                    }
                    Ok(paths)
                })?;
            if due.is_empty() {
                return Ok(recorded);
            }
            recorded += due.len() as u64;
            let ops = due.into_iter().map(|at| Op::Check { at, that: Precondition::Absent });
            let batch = Batch { message: "expired".to_owned(), ..Batch::new(ops) };
            match block_on(self.commit(batch)) {
                // written anew since it was listed: the next round lists what is left
                Err(error) if error.is(ErrorKind::Conflict) => {}
                other => drop(other?),
            }
        }
    }

    /// Merges small extents. Runs are found on a reader and merged in short transactions, so writers wait
    /// little.
    fn merge(&self) -> Result<Merged> {
        let shared = self.with_view(|view| merge::shared(view.conn))?;
        let (mut merged, mut from) = (Merged::default(), Some((0, 0, 0)));
        while let Some(cursor) = from {
            let found = self.with_view(|view| merge::find(view.conn, &shared, cursor))?;
            from = found.next;
            if !found.runs.is_empty() {
                let packs = Arc::clone(&self.inner.packs);
                let work = self.inner.writer.transact(false, {
                    let runtime = self.inner.runtime.clone();
                    move |conn| merge::merge(conn, &packs, &runtime, &found)
                });
                let step = block_on(work)?;
                merged.extents += step.extents;
                merged.chunks += step.chunks;
                merged.bytes += step.bytes;
            }
        }
        Ok(merged)
    }

    /// The names in the folder of pack files. Only names that garth did not make are skipped: its own are
    /// ASCII.
    pub(crate) fn pack_files(&self) -> Result<Vec<String>> {
        let failed = failed("the pack files cannot be listed");
        let entries = match fs::read_dir(self.inner.packs.folder()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(&failed)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            files.extend(entry.map_err(&failed)?.file_name().into_string().ok());
        }
        Ok(files)
    }
}

/// Removes and marks rows. Returns the pack files to unlink after the commit: a file must not go before the
/// rows that refer to it.
fn sweep(
    conn: &Connection,
    runtime: &Runtime,
    files: &[String],
    now: Timestamp,
    gone_before: Timestamp,
) -> DbResult<(Collected, Vec<String>)> {
    conn.execute("DELETE FROM idempotency WHERE keep_until <= ?1", [now.0])?;
    conn.execute("DELETE FROM lease WHERE until <= ?1", [now.0])?;
    let mut collected = Collected {
        staged: staged::forget_ended(conn, now)?,
        versions: sweep_unnamed(conn, now, gone_before)?,
        ..Collected::default()
    };
    for (id, len) in unused::chunks(conn)? {
        conn.prepare_cached("DELETE FROM chunk WHERE id = ?1")?.execute([id])?;
        collected.chunks += 1;
        collected.bytes += len;
    }
    conn.execute(
        "UPDATE pack SET doomed_at = ?1
         WHERE doomed_at IS NULL AND id NOT IN (SELECT pack FROM chunk WHERE pack IS NOT NULL)",
        [now.0],
    )?;
    let sql = "SELECT file FROM pack WHERE doomed_at <= ?1";
    let mut to_unlink: Vec<String> = all(conn, sql, [gone_before.0], |row| row.get(0))?;
    to_unlink.extend(unused::pack_files(conn, files)?);
    let sql = "SELECT count(*), coalesce(sum(size), 0), (SELECT count(*) FROM unnamed)
               FROM pack WHERE doomed_at > ?1";
    let waiting = |row: &Row<'_>| Ok((row.get::<_, u64>(0)? + row.get::<_, u64>(2)?, row.get(1)?));
    (collected.waiting, collected.waiting_bytes) = conn.query_row(sql, [gone_before.0], waiting)?;
    runtime.failpoints().pass("gc-sweep")?;
    Ok((collected, to_unlink))
}

/// Takes back what was written to files after they had lost their last name. No version of the tree shows it,
/// only open handles did. What the file was when it lost its name stays: the past shows that.
fn sweep_unnamed(conn: &Connection, now: Timestamp, gone_before: Timestamp) -> DbResult<u64> {
    let sql = "SELECT ino, min(seq) FROM node AS dead
         WHERE nlink = 0 AND ino NOT IN (SELECT ino FROM lease)
           AND NOT EXISTS (SELECT 1 FROM node AS later
                           WHERE later.ino = dead.ino AND later.seq > dead.seq AND later.nlink > 0)
         GROUP BY ino HAVING count(*) > 1";
    let dead: HashMap<u64, u64> =
        all(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect();
    for ino in all(conn, "SELECT ino FROM unnamed", [], |row| row.get::<_, u64>(0))? {
        if !dead.contains_key(&ino) {
            conn.execute("DELETE FROM unnamed WHERE ino = ?1", [ino])?;
        }
    }
    let mut versions = 0;
    for (ino, last) in dead {
        conn.execute("INSERT OR IGNORE INTO unnamed (ino, doomed_at) VALUES (?1, ?2)", params![ino, now.0])?;
        let sql = "DELETE FROM unnamed WHERE ino = ?1 AND doomed_at <= ?2";
        if conn.execute(sql, params![ino, gone_before.0])? == 0 {
            continue;
        }
        conn.execute("DELETE FROM extent WHERE ino = ?1 AND since > ?2", params![ino, last])?;
        // extents that those writes closed are live again, as they were when the last name went
        conn.execute("UPDATE extent SET till = 0 WHERE ino = ?1 AND till > ?2", params![ino, last])?;
        conn.execute("DELETE FROM attribute WHERE ino = ?1 AND seq > ?2", params![ino, last])?;
        versions += conn.execute("DELETE FROM node WHERE ino = ?1 AND seq > ?2", params![ino, last])? as u64;
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tempfile::TempDir;

    use super::*;
    use crate::env::{Env, ManualClock};
    use crate::fs::OpenFile;
    use crate::model::Body;

    const GRACE: Duration = Duration::from_secs(600);
    /// Longer than a chunk: goes to a pack file.
    const LONG: usize = 1_200_000;

    struct Account {
        fs: Arc<SqliteFs>,
        clock: ManualClock,
        folder: TempDir,
    }

    fn account() -> Account {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
        let fs = SqliteFs::open(folder.path(), env).unwrap();
        Account { fs, clock, folder }
    }

    fn at(path: &str) -> At {
        At::Path(TreePath::parse(path).unwrap())
    }

    impl Account {
        fn apply(&self, op: Op) {
            block_on(self.fs.commit(Batch::new([op]))).unwrap();
        }

        fn gc(&self) -> Collected {
            self.fs.gc(GRACE).unwrap()
        }

        fn upload(&self, byte: u8) -> Body {
            let mut upload = block_on(self.fs.stage(&at("/a"))).unwrap();
            block_on(upload.write(Bytes::from(vec![byte; LONG]))).unwrap();
            Body::Staged(block_on(upload.finish()).unwrap())
        }

        /// A file that was written to after it had lost its last name, and the handle that holds it open.
        fn unnamed(&self) -> Arc<dyn OpenFile> {
            self.apply(Op::write(at("/a"), "before;"));
            let open = block_on(self.fs.open(&at("/a"))).unwrap();
            self.apply(Op::remove_file(at("/a")));
            self.apply(Op::append(At::Node(open.ino()), "after;").must_exist());
            open
        }

        /// Waits until closing a handle has given up its lease: tasks run in the order they came in.
        fn close(&self, open: Arc<dyn OpenFile>) {
            drop(open);
            block_on(self.fs.sync()).unwrap();
        }

        fn count(&self, sql: &str) -> u64 {
            self.fs.with_view(|view| Ok(view.conn.query_row(sql, [], |row| row.get(0))?)).unwrap()
        }
    }

    #[test]
    fn a_pack_without_chunks_is_marked_by_one_run_and_removed_by_one_after_the_grace() {
        let account = account();
        account.upload(1);
        account.clock.advance(Duration::from_secs(25 * 3600));
        let marked = account.gc();
        assert_eq!((marked.staged, marked.chunks, marked.packs, marked.waiting), (1, 2, 0, 1));
        let doomed_at = "SELECT doomed_at FROM pack";
        let first = account.count(doomed_at);
        account.clock.advance(GRACE - Duration::from_nanos(1));
        assert_eq!(
            (account.gc().packs, account.count(doomed_at)),
            (0, first),
            "a second run marks nothing anew"
        );
        account.clock.advance(Duration::from_nanos(1));
        assert_eq!((account.gc().packs, account.count("SELECT count(*) FROM pack")), (1, 0));
        assert!(account.fs.pack_files().unwrap().is_empty());
    }

    #[test]
    fn content_in_use_stays() {
        let account = account();
        let body = account.upload(1);
        account.apply(Op::write(at("/used"), body));
        account.apply(Op::write(at("/past"), "old"));
        account.apply(Op::remove_file(at("/past")));
        let _waiting = account.upload(2);
        account.clock.advance(GRACE);
        for _ in 0..2 {
            assert_eq!(account.gc(), Collected::default());
            account.clock.advance(GRACE);
        }
        assert_eq!(account.fs.fsck().unwrap().findings, []);
    }

    #[test]
    fn an_upload_that_was_abandoned_goes_with_its_pack_once_its_lease_has_ended() {
        let account = account();
        let mut upload = block_on(account.fs.stage(&at("/a"))).unwrap();
        block_on(upload.write(Bytes::from(vec![7; LONG]))).unwrap();
        // as if the process had ended: nothing is tidied up
        std::mem::forget(upload);
        assert_eq!((account.gc().staged, account.fs.pack_files().unwrap().len()), (0, 1));
        account.clock.advance(Duration::from_secs(25 * 3600));
        let collected = account.gc();
        assert_eq!((collected.staged, collected.packs), (1, 1));
    }

    #[test]
    fn what_was_written_to_a_file_without_a_name_goes_after_the_grace_and_its_past_stays() {
        let account = account();
        let open = account.unnamed();
        account.close(open);
        assert_eq!((account.gc().versions, account.gc().waiting), (0, 1));
        account.clock.advance(GRACE);
        let collected = account.gc();
        assert_eq!((collected.versions, collected.chunks, collected.waiting), (1, 1, 0));
        let past = block_on(account.fs.as_of(&crate::model::Moment::Seq(crate::model::Seq(1)))).unwrap();
        assert_eq!(block_on(past.read(&at("/a"), crate::model::ByteRange::ALL)).unwrap(), "before;");
    }

    #[test]
    fn a_lease_keeps_a_file_without_a_name() {
        let account = account();
        let open = account.unnamed();
        // four times the time that a lease holds, renewed in time
        for _ in 0..5 {
            assert_eq!((account.gc().versions, account.gc().waiting), (0, 0));
            account.clock.advance(Duration::from_secs(240));
            let (nodes, now) = (Arc::clone(&account.fs.inner.open), account.fs.inner.runtime.env().now());
            block_on(account.fs.inner.writer.transact(false, move |conn| nodes.renew(conn, now))).unwrap();
        }
        assert_eq!(block_on(open.read_at(0, 100)).unwrap(), "before;after;");
    }

    #[test]
    fn who_else_holds_a_file_open_takes_a_lease_once_it_is_marked() {
        let account = account();
        let other = SqliteFs::open(account.folder.path(), account.fs.inner.runtime.env().clone()).unwrap();
        account.apply(Op::write(at("/a"), "before;"));
        let theirs = block_on(other.open(&at("/a"))).unwrap();
        let ours = block_on(account.fs.open(&at("/a"))).unwrap();
        account.apply(Op::remove_file(at("/a")));
        account.apply(Op::append(At::Node(ours.ino()), "after;").must_exist());
        account.close(ours);
        assert_eq!(account.gc().waiting, 1, "marked");
        let (nodes, now) = (Arc::clone(&other.inner.open), other.inner.runtime.env().now());
        block_on(other.inner.writer.transact(false, move |conn| nodes.renew(conn, now))).unwrap();
        assert_eq!(account.count("SELECT count(*) FROM unnamed"), 0, "its grace begins anew");
        let short = Duration::from_secs(1);
        account.clock.advance(short);
        assert_eq!(account.fs.gc(short).unwrap().versions, 0);
        assert_eq!(block_on(theirs.read_at(0, 100)).unwrap(), "before;after;");
    }
}
