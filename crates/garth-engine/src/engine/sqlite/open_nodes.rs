//! Nodes that this instance holds open. As in POSIX, a node without a name exists while it is open.
//!
//! Most open nodes have names, so leases are taken late. A write to an unnamed node takes one in its own
//! transaction, and enters the node in table `unnamed`. Other processes that have it open take theirs once
//! `gc` has marked it there, which is why `gc` deletes only after a grace period longer than their tick. Why:
//! `docs/decisions/leases-and-two-phase-gc.md`.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use rusqlite::Connection;

use crate::engine::sqlite::tables::leases;
use crate::model::Timestamp;
use crate::sqlite::DbResult;
use crate::threads::lock::lock;

/// Length of a lease in seconds. Leases are renewed every minute, so four ticks may be missed.
pub(crate) const LEASE: i64 = 300;

#[derive(Debug, Default)]
struct Nodes {
    /// Open handles of each node.
    open: HashMap<u64, usize>,
    /// Open nodes with a lease in the database.
    leased: HashSet<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenNodes {
    /// Random id of this instance: each process has leases of its own.
    holder: [u8; 16],
    nodes: Mutex<Nodes>,
}

impl OpenNodes {
    pub(crate) fn new(holder: [u8; 16]) -> Self {
        Self { holder, nodes: Mutex::default() }
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    pub(crate) fn add(&self, ino: u64) {
        *self.nodes().open.entry(ino).or_default() += 1;
    }

    /// Closes one handle. Returns true if a lease must be released now.
    pub(crate) fn remove(&self, ino: u64) -> bool {
        let mut nodes = self.nodes();
        let Some(count) = nodes.open.get_mut(&ino) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        nodes.open.remove(&ino);
        // Also forgotten here: a later `renew` must not take the lease again.
        nodes.leased.remove(&ino)
    }

    pub(crate) fn is_open(&self, ino: u64) -> bool {
        self.nodes().open.contains_key(&ino)
    }

    /// Records unnamed nodes for `gc`, and takes leases on them, in the transaction that writes them. A node
    /// whose last handle was closed after the write was planned gets none, because nothing would release it.
    pub(crate) fn written(
        &self,
        conn: &Connection,
        unnamed: impl IntoIterator<Item = u64>,
        now: Timestamp,
    ) -> DbResult<()> {
        for ino in unnamed {
            leases::put_unnamed(conn, ino)?;
            self.lease(conn, [ino], now)?;
        }
        Ok(())
    }

    /// Takes leases on those of these unnamed nodes that are open here.
    fn lease(
        &self,
        conn: &Connection,
        unnamed: impl IntoIterator<Item = u64>,
        now: Timestamp,
    ) -> DbResult<()> {
        for ino in unnamed {
            {
                // Noted before the row is written: a handle that is closed from here on queues a release,
                // which runs after this transaction.
                let mut nodes = self.nodes();
                if !nodes.open.contains_key(&ino) {
                    continue;
                }
                nodes.leased.insert(ino);
            }
            leases::put(conn, ino, &self.holder, now.plus_seconds(LEASE).0)?;
            // Unmarked, so that a node whose lease runs out gets the full grace period again.
            leases::unmark(conn, ino)?;
        }
        Ok(())
    }

    /// Removes this instance's lease.
    pub(crate) fn release(&self, conn: &Connection, ino: u64) -> DbResult<()> {
        leases::remove(conn, ino, &self.holder)
    }

    /// Returns true if any node is held open.
    pub(crate) fn any(&self) -> bool {
        !self.nodes().open.is_empty()
    }

    /// Renews this instance's leases, also those that ran out while the machine slept, and takes leases on
    /// open nodes that `gc` has marked because another instance wrote them.
    pub(crate) fn renew(&self, conn: &Connection, now: Timestamp) -> DbResult<()> {
        let leased: Vec<u64> = self.nodes().leased.iter().copied().collect();
        self.lease(conn, leased, now)?;
        self.lease(conn, leases::marked(conn)?, now)
    }
}
