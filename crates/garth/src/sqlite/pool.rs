//! Connections for reading, kept for the next reader: a read of a few KiB takes less time than
//! a hop to another thread. Each database has a pool; all pools of a data folder share one
//! bound on how many stay open unused.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rusqlite::Connection;

use super::connect::{Database, ReadConn};
use super::error::DbResult;
use crate::error::{ErrorKind, Result};
use crate::runtime::budget::{IdleBudget, IdleOwner};

/// Most idle connections of one database: as many as threads usually read it at once.
const IDLE_PER_DATABASE: usize = 16;

/// The reading connections of one database.
pub(crate) struct ConnPool {
    database: Database,
    budget: Arc<IdleBudget>,
    idle: Mutex<Vec<Connection>>,
    used: AtomicU64,
    /// Held while a connection is opened, and while one is in use that locks the file against every other.
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

    /// Runs `work` on a connection that nobody else uses meanwhile. One on which it failed to
    /// end its transaction is dropped.
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
            // out of descriptors, perhaps: those of idle connections can be had
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
        idle.push(conn);
        drop(idle);
        self.used.store(self.budget.add(), Ordering::Relaxed);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
