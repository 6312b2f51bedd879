//! Nodes that this instance holds open. A node that has lost its last name lives on for them; once it is
//! written in that state, a lease in the database keeps `gc` away from it: of the writer at once, of who else
//! has it open when `gc` says what it is about to collect. Why: `docs/decisions/leases-and-two-phase-gc.md`.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, params};

use crate::model::Timestamp;
use crate::sqlite::{DbResult, all};

/// How long a lease holds without being renewed, in seconds. Renewed every minute.
pub(crate) const LEASE: i64 = 300;

#[derive(Debug, Default)]
struct Nodes {
    open: HashMap<u64, usize>,
    leased: HashSet<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenNodes {
    holder: [u8; 16],
    nodes: Mutex<Nodes>,
}

impl OpenNodes {
    pub(crate) fn new(holder: [u8; 16]) -> Self {
        Self { holder, nodes: Mutex::default() }
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, ino: u64) {
        *self.nodes().open.entry(ino).or_default() += 1;
    }

    /// Gives up one handle; whether a lease is to be given up with it.
    pub(crate) fn remove(&self, ino: u64) -> bool {
        let mut nodes = self.nodes();
        let Some(count) = nodes.open.get_mut(&ino) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        nodes.open.remove(&ino);
        nodes.leased.remove(&ino)
    }

    pub(crate) fn is_open(&self, ino: u64) -> bool {
        self.nodes().open.contains_key(&ino)
    }

    /// Takes leases on nodes without a name, in the transaction that writes them. A handle that was closed
    /// since the write was planned needs none, and nobody would give it up.
    pub(crate) fn lease(
        &self,
        conn: &Connection,
        unnamed: impl IntoIterator<Item = u64>,
        now: Timestamp,
    ) -> DbResult<()> {
        for ino in unnamed {
            {
                let mut nodes = self.nodes();
                if !nodes.open.contains_key(&ino) {
                    continue;
                }
                nodes.leased.insert(ino);
            }
            conn.prepare_cached("INSERT OR REPLACE INTO lease (ino, holder, until) VALUES (?1, ?2, ?3)")?
                .execute(params![ino, self.holder, now.plus_seconds(LEASE).0])?;
            // should the lease run out, the file gets its whole grace again
            conn.prepare_cached("DELETE FROM unnamed WHERE ino = ?1")?.execute([ino])?;
        }
        Ok(())
    }

    /// Gives a lease up.
    pub(crate) fn release(&self, conn: &Connection, ino: u64) -> DbResult<()> {
        conn.prepare_cached("DELETE FROM lease WHERE ino = ?1 AND holder = ?2")?
            .execute(params![ino, self.holder])?;
        Ok(())
    }

    /// Whether any node is held open.
    pub(crate) fn any(&self) -> bool {
        !self.nodes().open.is_empty()
    }

    /// Renews all leases of this instance, also those that ran out while it slept, and takes them on the
    /// nodes that it holds open and that `gc` is about to collect, since somebody else wrote them.
    pub(crate) fn renew(&self, conn: &Connection, now: Timestamp) -> DbResult<()> {
        let leased: Vec<u64> = self.nodes().leased.iter().copied().collect();
        self.lease(conn, leased, now)?;
        self.lease(conn, all(conn, "SELECT ino FROM unnamed", [], |row| row.get(0))?, now)
    }
}
