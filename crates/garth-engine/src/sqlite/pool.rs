//! Pool of reading connections. Reads run on the thread of the caller: a hop to another thread costs more
//! than a read of a few KiB. All pools of a data folder share one bound on idle connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::{fmt, fs, io};

use rusqlite::Connection;

use super::connect::{Database, Hold, ReadConn};
use super::error::{DbError, DbResult};
use super::patience::{Bound, Patience};
use super::poison::{Conn, Poison};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::budget::{IdleBudget, IdleOwner, Opened};
use crate::runtime::disk::{dir_of, is_short_of_descriptors};
use crate::threads::lock::lock;

/// Limit on idle connections of one database: about as many as threads that read it at once.
const IDLE_PER_DATABASE: usize = 16;

/// Reading connections of one database.
pub(crate) struct ConnPool {
    database: Database,
    budget: Arc<IdleBudget>,
    poison: Poison,
    idle: Mutex<Vec<Reader>>,
    used: AtomicU64,
    /// True once the folder of the database is being removed.
    abandoned: AtomicBool,
    /// Held while a connection is opened, and as long as one that locks the whole file is in use: opening a
    /// second one then would wait for this process itself.
    exclusive: Mutex<()>,
}

/// Connection with the handle that interrupts it.
struct Reader {
    conn: Conn,
    patience: Patience,
    _opened: Opened,
}

/// Connection lent to one caller.
struct Lent<'a> {
    reader: Reader,
    hold: Hold,
    /// Released after `reader` is closed: fields drop in order of declaration, so it comes last.
    _turn: Option<MutexGuard<'a, ()>>,
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
            poison: Poison::default(),
            idle: Mutex::default(),
            used: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            exclusive: Mutex::default(),
        });
        // Weak: the budget must not keep the pool alive.
        let owner: Weak<dyn IdleOwner> = Arc::downgrade(&pool) as _;
        budget.register(owner);
        pool
    }

    /// Returns true if the storage of this database has failed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Records that the storage has failed. From then on no connection is reused: SQLite reads the WAL again
    /// only once nobody has the database open.
    pub(crate) fn poison(&self) {
        self.poison.set();
        while self.close_one() {}
    }

    /// Records that the folder of the database is being removed. From then on every call fails with
    /// `NotFound`, and no connection stays open.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        // Closing a connection would otherwise copy the WAL into a file that is about to be removed.
        self.poison();
    }

    /// Returns the error of all calls if the folder of the database is being removed.
    pub(crate) fn removed(&self) -> Option<Error> {
        let message = self.database.subject.removed.filter(|_| self.abandoned.load(Ordering::Acquire))?;
        Some(Error::new(ErrorKind::NotFound, message))
    }

    /// Returns the error to report for a failure. If another process has removed the folder of the database
    /// from those beside it, that is the reason.
    pub(crate) fn explained(&self, error: Error) -> Error {
        let Some(message) = self.database.subject.removed.filter(|_| is_of_storage(error.kind())) else {
            return error;
        };
        let folder = dir_of(&self.database.file);
        let is_missing =
            fs::symlink_metadata(folder).is_err_and(|missing| missing.kind() == io::ErrorKind::NotFound);
        // Without the folder above, a disk is missing, for example.
        match is_missing && dir_of(folder).is_dir() {
            true => Error::new(ErrorKind::NotFound, message).with_source(error),
            false => error,
        }
    }

    /// Wraps a connection so that it honours the poison flag.
    pub(crate) fn watched(&self, conn: Connection) -> Conn {
        Conn::new(conn, &self.poison)
    }

    /// Runs `read` in one read transaction: it sees one state and writes nothing.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        self.with(|conn| transaction(conn, read))
    }

    /// Runs `read` as [`Self::read`] does, within a bound. Fails with `TimedOut` beyond it.
    pub(crate) fn read_within<T>(
        &self,
        bound: Bound,
        read: impl FnOnce(&Connection, &Patience) -> DbResult<T>,
    ) -> Result<T> {
        self.within(bound, |conn, patience| transaction(conn, |conn| read(conn, patience)))
    }

    /// Runs `work` as [`Self::with`] does, within a bound. Fails with `TimedOut` beyond it.
    pub(crate) fn within<T>(
        &self,
        bound: Bound,
        work: impl FnOnce(&Connection, &Patience) -> DbResult<T>,
    ) -> Result<T> {
        self.with_reader(|reader| {
            reader.patience.set(bound);
            let outcome = work(&reader.conn, &reader.patience);
            // Also before the rollback below, which must not be interrupted.
            reader.patience.set(Bound::None);
            if !reader.conn.is_autocommit() {
                // The end of the transaction was interrupted. If this fails too, the connection is closed.
                let _ = reader.conn.execute_batch("ROLLBACK");
            }
            outcome
        })
    }

    /// Runs `read` as [`Self::read`] does, on a new connection: FTS5 checks its index against what the
    /// connection has cached, which is out of date on a used one.
    pub(crate) fn read_on_new<T>(&self, read: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        // `open` does not wait for room: the caller may hold a connection, as a check within a read does.
        let outcome = self.connect(self.budget.open()).and_then(|lent| {
            lent.reader.conn.execute_batch("BEGIN")?;
            read(&lent.reader.conn)
        });
        outcome.map_err(|error| self.describe(error))
    }

    /// Runs `work` on a connection that nobody else uses in the meantime. A connection left inside a
    /// transaction is closed: its next user would read an old snapshot.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        self.with_reader(|reader| work(&reader.conn))
    }

    fn with_reader<T>(&self, work: impl FnOnce(&Reader) -> DbResult<T>) -> Result<T> {
        // What does not depend on `work` is compiled once, not for each of a hundred callers.
        let outcome = self.lend().and_then(|lent| {
            let outcome = work(&lent.reader);
            self.take_back(lent);
            outcome
        });
        outcome.map_err(|error| self.describe(error))
    }

    fn describe(&self, error: DbError) -> Error {
        self.explained(error.describe(self.database.subject))
    }

    fn lend(&self) -> DbResult<Lent<'_>> {
        if let Some(removed) = self.removed() {
            return Err(removed.into());
        }
        match self.take_idle() {
            Some(reader) => Ok(Lent { reader, hold: Hold::Kept, _turn: None }),
            None => self.wait_for_room().and_then(|opened| self.connect(opened)),
        }
    }

    fn take_back(&self, lent: Lent<'_>) {
        match lent.hold {
            Hold::Kept if lent.reader.conn.is_autocommit() && !self.is_poisoned() => self.keep(lent.reader),
            // Not reused: another process may wait for the file, and the disk may accept writes next time.
            Hold::Kept | Hold::OneRead | Hold::Exclusive => {}
        }
    }

    fn wait_for_room(&self) -> DbResult<Opened> {
        let busy = || Error::new(ErrorKind::Unavailable, "too many accounts are in use at once; try again");
        Ok(self.budget.wait().ok_or_else(busy)?)
    }

    fn connect(&self, opened: Opened) -> DbResult<Lent<'_>> {
        let turn = lock(&self.exclusive);
        let ReadConn { mut conn, hold } = match self.database.connect_to_read() {
            // Out of descriptors: close idle connections, of other accounts too, and try again.
            Err(error) if error.is(ErrorKind::Unavailable) && is_short_of_descriptors() => {
                self.budget.shrink(0);
                self.database.connect_to_read()?
            }
            other => other?,
        };
        let patience = Patience::watch(&mut conn)?;
        let reader = Reader { conn: self.watched(conn), patience, _opened: opened };
        Ok(Lent { reader, hold, _turn: (hold == Hold::Exclusive).then_some(turn) })
    }

    fn take_idle(&self) -> Option<Reader> {
        let reader = lock(&self.idle).pop()?;
        self.budget.remove(1);
        Some(reader)
    }

    fn keep(&self, reader: Reader) {
        let mut idle = lock(&self.idle);
        if idle.len() >= IDLE_PER_DATABASE {
            return;
        }
        // Counted before anybody can take it, and `enforce` follows the record of its use: otherwise it would
        // be the first to be closed.
        self.used.store(self.budget.add(), Ordering::Relaxed);
        idle.push(reader);
        drop(idle);
        self.budget.enforce();
    }
}

/// Runs `read` in a transaction and rolls it back: nothing was written.
fn transaction<T>(conn: &Connection, read: impl FnOnce(&Connection) -> DbResult<T>) -> DbResult<T> {
    conn.prepare_cached("BEGIN")?.execute([])?;
    let outcome = read(conn);
    let ended = end(conn);
    // The first error explains more; the connection is closed then.
    if outcome.is_ok() {
        ended?;
    }
    outcome
}

/// Returns true for kinds of failures that a missing file causes.
fn is_of_storage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::Io | ErrorKind::Unavailable)
}

fn end(conn: &Connection) -> rusqlite::Result<()> {
    // After some failures SQLite has rolled back by itself.
    if !conn.is_autocommit() {
        conn.prepare_cached("ROLLBACK")?.execute([])?;
    }
    Ok(())
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
    // They close with the pool, without `take_idle`, which would count them.
    fn drop(&mut self) {
        self.budget.remove(lock(&self.idle).len());
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::sqlite::error::Subject;

    static SUBJECT: Subject = Subject { name: "the test's database", repair: "run nothing", removed: None };

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

    /// Reads on `depth` connections at once.
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
    fn each_read_sees_one_state() {
        let (folder, pool) = pool(&IdleBudget::new(4, 1000));
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
    fn statements_beside_an_open_one_see_its_state() {
        let (folder, pool) = pool(&IdleBudget::new(4, 1000));
        let writer = Connection::open(folder.path().join("test.db")).unwrap();
        pool.with(|conn| {
            let mut statement = conn.prepare_cached("SELECT n FROM t")?;
            let mut rows = statement.query([])?;
            assert!(rows.next()?.is_some());
            for _ in 0..2 {
                writer.execute("INSERT INTO t VALUES (10)", [])?;
                assert_eq!(sum(conn)?, 1);
            }
            drop(rows);
            assert_eq!(sum(conn)?, 21);
            Ok(())
        })
        .unwrap();
        assert_eq!(idle(&pool), 1);
    }

    #[test]
    fn idle_connections_per_database_are_bounded() {
        let (_folder, pool) = pool(&IdleBudget::new(1000, 1000));
        read_at_once(&pool, IDLE_PER_DATABASE + 4);
        assert_eq!(idle(&pool), IDLE_PER_DATABASE);
    }

    #[test]
    fn closes_connections_of_least_recently_used_database() {
        let budget = IdleBudget::new(3, 1000);
        let [(_a, first), (_b, second)] = [pool(&budget), pool(&budget)];
        read_at_once(&first, 3);
        read_at_once(&second, 2);
        assert_eq!((idle(&first), idle(&second)), (1, 2));
        drop(second);
        read_at_once(&first, 3);
        assert_eq!(idle(&first), 3, "what a closed database kept counts no more");
    }

    #[test]
    fn failed_read_leaves_connection_usable() {
        let (_folder, pool) = pool(&IdleBudget::new(4, 1000));
        let failed = pool.read(|_| DbResult::<()>::Err(Error::invalid("as the test asks").into()));
        assert_eq!(failed.unwrap_err().message(), "as the test asks");
        assert_eq!((idle(&pool), pool.read(sum).unwrap()), (1, 1));
    }

    #[test]
    fn read_that_rolled_back_returns_its_error() {
        let (_folder, pool) = pool(&IdleBudget::new(4, 1000));
        // As SQLite does by itself after failures of the storage.
        let failed = pool.read(|conn| {
            conn.execute_batch("ROLLBACK")?;
            DbResult::<()>::Err(Error::invalid("the cause").into())
        });
        assert_eq!(failed.unwrap_err().message(), "the cause");
        assert_eq!(pool.read(sum).unwrap(), 1);
    }

    #[test]
    fn read_on_new_connection_blocks_no_other() {
        let (_folder, pool) = pool(&IdleBudget::new(4, 1000));
        let both = pool.read_on_new(|_| Ok(pool.read(sum).unwrap()));
        assert_eq!(both.unwrap(), 1);
    }

    #[test]
    fn connection_inside_transaction_is_closed() {
        let (_folder, pool) = pool(&IdleBudget::new(4, 1000));
        pool.with(|conn| Ok(conn.execute_batch("BEGIN")?)).unwrap();
        assert_eq!(idle(&pool), 0);
    }
}
