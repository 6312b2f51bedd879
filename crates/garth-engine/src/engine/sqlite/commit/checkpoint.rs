//! Checkpoints of the WAL, kept off the commit path.
//!
//! A PASSIVE checkpoint runs on a reader's connection, concurrently with the commits, once enough pages are
//! new. A RESTART runs on the writer once the WAL is long: under a steady load PASSIVE alone never lets the
//! WAL start over, so it would grow without bound. Why: `docs/decisions/wal-and-checkpoints.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use crate::engine::sqlite::schema;
use crate::error::Result;
use crate::runtime::Runtime;
use crate::runtime::permits::Permit;
use crate::sqlite::connect::reset_busy_timeout;
use crate::sqlite::{ConnPool, DbError, DbResult};
use crate::stats::instant;
use crate::threads::executor::Work;

/// Statement of a PASSIVE checkpoint.
const PASSIVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Statement of a RESTART.
const RESTART: &str = "PRAGMA wal_checkpoint(RESTART)";
/// Pages in the WAL, not yet copied, from which a PASSIVE checkpoint runs: 4 MiB in new accounts. Large
/// enough that a page changed by many commits is copied once for all of them.
const PASSIVE_ABOVE: i64 = 2048;
/// Pages in the WAL from which a RESTART runs: 16 MiB in new accounts.
const RESTART_ABOVE: i64 = 8192;
/// Time that a RESTART waits for readers of old pages. Commits wait for it.
const RESTART_WAIT: Duration = Duration::from_millis(200);

/// Attempts to copy the complete WAL while another checkpoint runs.
const COPY_TRIES: u32 = 50;
/// Pause between two of these attempts.
const COPY_PAUSE: Duration = Duration::from_millis(20);

/// Checkpoints of one database.
pub(crate) struct Checkpoints {
    runtime: Runtime,
    pool: Arc<ConnPool>,
    /// True while a PASSIVE checkpoint is queued or runs.
    running: AtomicBool,
    /// True once [`Self::before_first`] was called.
    begun: AtomicBool,
    /// Pages in the WAL when a RESTART failed, else 0. The next attempt waits for another `RESTART_ABOVE`
    /// pages: otherwise a long read would cost every commit `RESTART_WAIT`.
    failed_at: AtomicI64,
}

/// Row that `PRAGMA wal_checkpoint` returns. Pages are -1 if another checkpoint was running.
struct Progress {
    /// True if a reader, a writer or another checkpoint was in the way.
    blocked: bool,
    pages: i64,
    copied: i64,
}

impl Checkpoints {
    pub(crate) fn new(runtime: &Runtime, pool: &Arc<ConnPool>) -> Arc<Self> {
        Arc::new(Self {
            runtime: runtime.clone(),
            pool: Arc::clone(pool),
            running: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            failed_at: AtomicI64::new(0),
        })
    }

    /// Copies the WAL into the database before the first commit of this instance. An earlier process or
    /// instance may have ended because a sync failed. The kernel may then take pages for written that are
    /// not, and no later sync of the WAL would bring them to the disk; in the database they are written and
    /// synced again. Does not wait: if another process is running a checkpoint, that process is responsible
    /// for its syncs.
    pub(crate) fn before_first(&self, conn: &Connection) -> DbResult<()> {
        if self.begun.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        conn.busy_timeout(Duration::ZERO)?;
        let outcome = self.checkpoint(conn, RESTART);
        reset_busy_timeout(conn)?;
        outcome.map(drop)
    }

    /// Runs the checkpoint that is due after a group of commits, if any.
    pub(crate) fn after_group(self: &Arc<Self>, conn: &Connection) -> DbResult<()> {
        // NOOP only reports how long the WAL is and how much of it is copied.
        let Progress { pages, copied, .. } = checkpoint(conn, "PRAGMA wal_checkpoint(NOOP)")?;
        let mut failed_at = self.failed_at.load(Ordering::Relaxed);
        if pages < failed_at {
            // Another connection's checkpoint let the WAL start over.
            failed_at = 0;
        }
        // Once all pages are copied, the next commit starts the WAL over by itself.
        let restart = pages > copied && pages - failed_at >= RESTART_ABOVE;
        if restart {
            conn.busy_timeout(RESTART_WAIT)?;
            let outcome = self.checkpoint(conn, RESTART);
            reset_busy_timeout(conn)?;
            failed_at = if outcome.as_ref().is_ok_and(|progress| !progress.blocked) { 0 } else { pages };
            self.failed_at.store(failed_at, Ordering::Relaxed);
            return outcome.map(drop);
        }
        self.failed_at.store(failed_at, Ordering::Relaxed);
        // The permit comes before `running`: only the work that is submitted clears that flag again.
        if pages - copied >= PASSIVE_ABOVE
            && let Some(permit) = self.runtime.maintenance().try_acquire()
            && !self.running.swap(true, Ordering::AcqRel)
        {
            let passive = Passive { checkpoints: Arc::clone(self), _permit: permit };
            // Without a thread to run it the WAL grows until the RESTART. Dropping the work clears `running`.
            let _ = self.runtime.executor().submit(Arc::new(passive));
        }
        Ok(())
    }

    /// Copies the WAL as far as readers allow. If no reader needs older pages, all of it is copied, and
    /// SQLite cuts the file off after its last page. Blocks.
    pub(crate) fn copy_all(&self) -> Result<()> {
        for _ in 0..COPY_TRIES {
            // One that runs already may have begun before the last commit.
            if self.passive()?.pages >= 0 {
                break;
            }
            self.runtime.env().sleep(COPY_PAUSE);
        }
        Ok(())
    }

    /// Runs a PASSIVE checkpoint on a reader's connection. It blocks no one.
    fn passive(&self) -> Result<Progress> {
        self.pool.with(|conn| {
            // The connection's next user commits nothing, so the setting need not be reset.
            schema::set_synchronous(conn, true, self.runtime.fault())?;
            self.checkpoint(conn, PASSIVE)
        })
    }

    /// Runs a checkpoint. SQLite counts frames as copied before they are synced in the database, so a failed
    /// sync may be the first and last sign of a lost page. In that case the pool is poisoned: nothing is
    /// written any more, and the WAL stays.
    fn checkpoint(&self, conn: &Connection, sql: &str) -> DbResult<Progress> {
        let begun = instant();
        let outcome = checkpoint(conn, sql).and_then(|progress| {
            self.runtime.failpoints().pass("checkpoint")?;
            Ok(progress)
        });
        let counters = self.runtime.counters();
        counters.checkpoint_times.record_time(begun.elapsed());
        match (&outcome, sql == RESTART) {
            (Ok(_), true) => counters.restart.add(1),
            (Ok(_), false) => counters.passive.add(1),
            (Err(_), _) => counters.checkpoint_failures.add(1),
        }
        if outcome.as_ref().is_err_and(DbError::leaves_disk_unknown) {
            self.pool.poison();
        }
        outcome
    }
}

fn checkpoint(conn: &Connection, sql: &str) -> DbResult<Progress> {
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Progress { blocked: row.get::<_, i64>(0)? != 0, pages: row.get(1)?, copied: row.get(2)? })
    };
    Ok(conn.prepare_cached(sql)?.query_row([], row)?)
}

/// A PASSIVE checkpoint on a reader's connection. It blocks no one.
struct Passive {
    checkpoints: Arc<Checkpoints>,
    _permit: Permit,
}

impl Work for Passive {
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
        if let Err(error) = self.checkpoints.passive() {
            self.checkpoints.runtime.in_account(|| tracing::warn!(%error, "checkpoint failed"));
        }
        None
    }
}

/// Clears `running`, whether the work has run or not.
impl Drop for Passive {
    fn drop(&mut self) {
        self.checkpoints.running.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tempfile::TempDir;

    use super::*;
    use crate::env::Env;

    /// A database with one table, and its checkpoints.
    fn checkpoints(folder: &TempDir) -> (Connection, Arc<Checkpoints>) {
        let database = schema::database(folder.path());
        let conn = database.connect_or_create().unwrap();
        conn.pragma_update(None, "journal_mode", "WAL").unwrap();
        conn.execute_batch("CREATE TABLE t (n)").unwrap();
        let runtime = Runtime::new(Env::system());
        let pool = ConnPool::new(database, runtime.conns());
        let checkpoints = Checkpoints::new(&runtime, &pool);
        // No PASSIVE checkpoint in between, which would run at any time.
        checkpoints.running.store(true, Ordering::Release);
        (conn, checkpoints)
    }

    fn connect(folder: &TempDir) -> Connection {
        schema::database(folder.path()).connect().unwrap()
    }

    /// Makes the WAL longer by a few pages more than this.
    fn write(conn: &Connection, pages: i64) {
        conn.execute("INSERT INTO t VALUES (zeroblob(?1 * 4096))", [pages]).unwrap();
    }

    fn pages(conn: &Connection) -> i64 {
        checkpoint(conn, "PRAGMA wal_checkpoint(NOOP)").unwrap().pages
    }

    /// Returns a connection that reads the current state until it is dropped.
    fn reader(folder: &TempDir) -> Connection {
        let reader = connect(folder);
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        reader
    }

    #[test]
    fn long_wal_starts_over() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, checkpoints) = checkpoints(&folder);
        write(&conn, RESTART_ABOVE);
        checkpoints.after_group(&conn).unwrap();
        write(&conn, 1);
        assert!(pages(&conn) < 10);
    }

    #[test]
    fn failed_restart_waits_for_a_longer_wal() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, checkpoints) = checkpoints(&folder);
        let reader = reader(&folder);
        write(&conn, RESTART_ABOVE);
        checkpoints.after_group(&conn).unwrap();
        let failed_at = pages(&conn);
        assert_eq!(checkpoints.failed_at.load(Ordering::Relaxed), failed_at);
        drop(reader);
        // No reader is in the way any more, but later commits must not wait again and again.
        checkpoints.after_group(&conn).unwrap();
        write(&conn, 1);
        assert!(pages(&conn) > failed_at);
        write(&conn, RESTART_ABOVE);
        checkpoints.after_group(&conn).unwrap();
        write(&conn, 1);
        assert!(pages(&conn) < 10);
        assert_eq!(checkpoints.failed_at.load(Ordering::Relaxed), 0);
    }

    thread_local! {
        /// The second connection, and the result of its checkpoint.
        static SECOND: RefCell<Option<(Connection, Option<DbResult<Progress>>)>> = const { RefCell::new(None) };
    }

    /// Busy handler: called while a RESTART holds the checkpoint lock and waits for a reader.
    fn meet(_tries: i32) -> bool {
        SECOND.with_borrow_mut(|second| {
            let (conn, outcome) = second.as_mut().unwrap();
            *outcome = Some(checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)"));
        });
        false
    }

    #[test]
    fn concurrent_checkpoints_are_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let (mut conn, _) = checkpoints(&folder);
        let _reader = reader(&folder);
        write(&conn, 10);
        SECOND.set(Some((connect(&folder), None)));
        conn.busy_handler(Some(meet)).unwrap();
        let first = checkpoint(&conn, "PRAGMA wal_checkpoint(RESTART)").unwrap();
        assert!(first.blocked);
        let (_, second) = SECOND.take().unwrap();
        let second = second.expect("they met").unwrap();
        assert!(second.blocked, "SQLite tells -1 pages then");
    }
}
