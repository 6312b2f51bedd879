//! Pool of reading connections. Reads run on the caller's thread: a hop to another thread costs more than a
//! read of a few KiB. All pools of a data folder share one bound on idle connections.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rusqlite::Connection;

use super::connect::{Database, ReadConn};
use super::error::DbResult;
use crate::error::{ErrorKind, Result};
use crate::runtime::budget::{IdleBudget, IdleOwner};
use crate::runtime::lock::lock;

/// Most idle connections of one database: about as many as threads that read it at once.
const IDLE_PER_DATABASE: usize = 16;

/// The reading connections of one database.
pub(crate) struct ConnPool {
    database: Database,
    budget: Arc<IdleBudget>,
    idle: Mutex<Vec<Connection>>,
    used: AtomicU64,
    /// Held while a connection is opened, and as long as one is used that locks the whole file: opening a
    /// second one meanwhile would wait for this process itself.
    exclusive: Mutex<()>,
}

impl fmt::Debug for ConnPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnPool").finish_non_exhaustive()
    }
}

impl ConnPool {
    pub(crate) fn new(database: Database, budget: &Arc<IdleBudget>) -> Arc<Self> {
        let pool = Arc::new(Self {
            database,
            budget: Arc::clone(budget),
            idle: Mutex::default(),
            used: AtomicU64::new(0),
            exclusive: Mutex::default(),
        });
        let owner: Weak<dyn IdleOwner> = Arc::downgrade(&pool) as _;
        budget.register(owner);
        pool
    }

    /// Runs `read` in one read transaction: it sees one state, and writes nothing.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        self.with(|conn| {
            conn.prepare_cached("BEGIN")?.execute([])?;
            let outcome = read(conn);
            conn.prepare_cached("ROLLBACK")?.execute([])?;
            outcome
        })
    }

    /// As [`Self::read`], on a new connection: FTS5 checks its index by what the connection remembers of it,
    /// which is out of date on one that was used before.
    pub(crate) fn read_on_new<T>(&self, read: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        let _turn = lock(&self.exclusive);
        let outcome = self.database.connect_to_read().and_then(|ReadConn { conn, .. }| {
            conn.execute_batch("BEGIN")?;
            read(&conn)
        });
        outcome.map_err(|error| error.describe(self.database.subject))
    }

    /// Runs `work` on a connection that nobody else uses meanwhile. A connection left inside a transaction is
    /// closed: the next user would read an old snapshot.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        let outcome = match self.take_idle() {
            Some(conn) => self.run(conn, work),
            None => self.connect_and_run(work),
        };
        outcome.map_err(|error| error.describe(self.database.subject))
    }

    fn connect_and_run<T>(&self, work: impl FnOnce(&Connection) -> DbResult<T>) -> DbResult<T> {
        let turn = lock(&self.exclusive);
        let ReadConn { conn, exclusive } = match self.database.connect_to_read() {
            // perhaps out of file descriptors: close idle connections and try again
            Err(error) if error.is(ErrorKind::Unavailable) && self.budget.shrink(0) => {
                self.database.connect_to_read()?
            }
            other => other?,
        };
        if exclusive {
            // not kept: another process may wait for the file, and the disk may have space next time
            return work(&conn);
        }
        drop(turn);
        self.run(conn, work)
    }

    fn run<T>(&self, conn: Connection, work: impl FnOnce(&Connection) -> DbResult<T>) -> DbResult<T> {
        let outcome = work(&conn);
        if conn.is_autocommit() {
            self.keep(conn);
        }
        outcome
    }

    fn take_idle(&self) -> Option<Connection> {
        let conn = lock(&self.idle).pop()?;
        self.budget.remove(1);
        Some(conn)
    }

    fn keep(&self, conn: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() >= IDLE_PER_DATABASE {
            return;
        }
        // counted before anybody can take it, and closed to make room only once its use is on record
        self.used.store(self.budget.add(), Ordering::Relaxed);
        idle.push(conn);
        drop(idle);
        self.budget.enforce();
    }
}

impl IdleOwner for ConnPool {
    fn idle_since(&self) -> Option<u64> {
        (!lock(&self.idle).is_empty()).then(|| self.used.load(Ordering::Relaxed))
    }

    fn close_one(&self) -> bool {
        self.take_idle().is_some()
    }
}

impl Drop for ConnPool {
    fn drop(&mut self) {
        self.budget.remove(lock(&self.idle).len());
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::error::Error;
    use crate::sqlite::error::Subject;

    static SUBJECT: Subject = Subject { name: "the test's database", repair: "run nothing" };

    fn pool(budget: &Arc<IdleBudget>) -> (TempDir, Arc<ConnPool>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        let database =
            Database { file, subject: &SUBJECT, statements: 16, cache_kib: 64, prepare: |_| Ok(()) };
        let conn = database.connect_or_create().unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1)")
            .unwrap();
        (folder, ConnPool::new(database, budget))
    }

    fn sum(conn: &Connection) -> DbResult<i64> {
        Ok(conn.query_row("SELECT sum(n) FROM t", [], |row| row.get(0))?)
    }

    fn idle(pool: &ConnPool) -> usize {
        lock(&pool.idle).len()
    }

    /// Reads on this many connections at once.
    fn read_at_once(pool: &ConnPool, depth: usize) {
        if depth > 0 {
            pool.read(|conn| {
                sum(conn)?;
                read_at_once(pool, depth - 1);
                Ok(())
            })
            .unwrap();
        }
    }

    #[test]
    fn a_read_sees_one_moment_and_the_next_a_later_one_on_the_same_connection() {
        let (folder, pool) = pool(&IdleBudget::new(4));
        let writer = Connection::open(folder.path().join("test.db")).unwrap();
        pool.read(|conn| {
            assert_eq!(sum(conn)?, 1);
            writer.execute("INSERT INTO t VALUES (10)", [])?;
            assert_eq!(sum(conn)?, 1);
            Ok(())
        })
        .unwrap();
        assert_eq!(pool.read(sum).unwrap(), 11);
        assert_eq!(idle(&pool), 1);
    }

    #[test]
    fn a_database_keeps_a_bounded_number_of_connections() {
        let (_folder, pool) = pool(&IdleBudget::new(1000));
        read_at_once(&pool, IDLE_PER_DATABASE + 4);
        assert_eq!(idle(&pool), IDLE_PER_DATABASE);
    }

    #[test]
    fn the_connections_of_the_database_used_longest_ago_are_closed_first() {
        let budget = IdleBudget::new(3);
        let [(_a, first), (_b, second)] = [pool(&budget), pool(&budget)];
        read_at_once(&first, 3);
        read_at_once(&second, 2);
        assert_eq!((idle(&first), idle(&second)), (1, 2));
        drop(second);
        read_at_once(&first, 3);
        assert_eq!(idle(&first), 3, "what a closed database kept counts no more");
    }

    #[test]
    fn a_read_that_fails_leaves_its_connection_fit_for_the_next() {
        let (_folder, pool) = pool(&IdleBudget::new(4));
        let failed = pool.read(|_| DbResult::<()>::Err(Error::invalid("as the test asks").into()));
        assert_eq!(failed.unwrap_err().message(), "as the test asks");
        assert_eq!((idle(&pool), pool.read(sum).unwrap()), (1, 1));
    }

    #[test]
    fn a_connection_inside_a_transaction_is_not_kept() {
        let (_folder, pool) = pool(&IdleBudget::new(4));
        pool.with(|conn| Ok(conn.execute_batch("BEGIN")?)).unwrap();
        assert_eq!(idle(&pool), 0);
    }
}
