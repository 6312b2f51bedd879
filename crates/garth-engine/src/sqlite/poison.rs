//! Poison: a flag, shared by all connections of a database, that its storage has failed. When the last
//! connection is closed, SQLite writes the WAL back into the database and removes it, without verifying
//! checksums. After a failed sync the only good copy could be lost that way; opening the database again does
//! verify it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// Flag that the storage of a database has failed, so that the state of the disk is unknown. Clones share the
/// flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poison(Arc<AtomicBool>);

impl Poison {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Connection that leaves the WAL in place if its storage has failed by the time it is closed.
#[derive(Debug)]
pub(crate) struct Conn {
    conn: Connection,
    poison: Poison,
}

impl Conn {
    pub(crate) fn new(conn: Connection, poison: &Poison) -> Self {
        Self { conn, poison: poison.clone() }
    }
}

impl Deref for Conn {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

impl DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if self.poison.is_set() {
            // It fails only for a connection that is closed already.
            let _ = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisoned_connection_keeps_wal_on_close() {
        for failed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let poison = Poison::default();
            let conn = Conn::new(Connection::open(folder.path().join("t.db")).unwrap(), &poison);
            conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n)").unwrap();
            if failed {
                poison.set();
            }
            drop(conn);
            assert_eq!(folder.path().join("t.db-wal").exists(), failed);
            let again = Connection::open(folder.path().join("t.db")).unwrap();
            assert_eq!(again.query_row("SELECT count(*) FROM t", [], |row| row.get(0)), Ok(0));
        }
    }
}
