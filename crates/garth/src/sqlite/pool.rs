//! Connections for reading, kept for the next reader: a read of a few KiB takes less time than a hop to another thread.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::engine::sqlite::schema;
use crate::error::Result;

/// Most idle connections kept.
const IDLE: usize = 16;

/// See the module.
pub(crate) struct ConnPool {
    folder: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl fmt::Debug for ConnPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnPool").finish_non_exhaustive()
    }
}

impl ConnPool {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, idle: Mutex::default() }
    }

    /// Runs `read` in one read transaction: it sees one state, and writes nothing.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.alone(|conn| {
            conn.prepare_cached("BEGIN")?.execute([])?;
            let outcome = read(conn);
            conn.prepare_cached("ROLLBACK")?.execute([])?;
            outcome
        })
    }

    /// As [`Self::with`], on a connection of its own: FTS5 checks its index by what the connection remembers of it, which is out of
    /// date on one that was used before.
    pub(crate) fn afresh<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let conn = schema::connect(&self.folder)?;
        conn.execute_batch("BEGIN")?;
        read(&conn)
    }

    /// Runs `work` on a connection that nobody else has meanwhile. One on which it failed to end its transaction is dropped.
    pub(crate) fn alone<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => schema::connect(&self.folder)?,
        };
        let outcome = work(&conn);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if conn.is_autocommit() && idle.len() < IDLE {
            idle.push(conn);
        }
        outcome
    }
}
