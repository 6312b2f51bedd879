//! Nodes that this instance holds open. As in POSIX, a node without a name lives on while it is open.
//!
//! Most open nodes keep their names, so leases are taken late: a write to an unnamed node takes one in its
//! own transaction, and other processes that have it open take theirs once `gc` has marked it (table
//! `unnamed`, where that write has entered it), which is why `gc` deletes only after a grace longer than
//! their tick. Why: `docs/decisions/leases-and-two-phase-gc.md`.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use rusqlite::Connection;

use crate::engine::sqlite::tables::leases;
use crate::model::Timestamp;
use crate::sqlite::DbResult;
use crate::threads::lock::lock;

/// How long a lease lasts unless renewed, in seconds. Renewed every minute, so four ticks may be missed.
pub(crate) const LEASE: i64 = 300;

#[derive(Debug, Default)]
struct Nodes {
    /// Open handles of each node.
    open: HashMap<u64, usize>,
    /// Those of them with a lease in the database.
    leased: HashSet<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenNodes {
    /// A random id of this instance: each process has leases of its own.
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

    /// Closes one handle; whether a lease is now to be released.
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

    /// Has `gc` look at unnamed nodes, and takes leases on them, in the transaction that writes them. A
    /// handle closed since the write was planned gets none: nobody would release it.
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
                let mut nodes = self.nodes();
                if !nodes.open.contains_key(&ino) {
                    continue;
                }
                nodes.leased.insert(ino);
            }
            leases::put(conn, ino, &self.holder, now.plus_seconds(LEASE).0)?;
            // unmarked: should the lease run out, the node gets its whole grace again
            leases::unmark(conn, ino)?;
        }
        Ok(())
    }

    /// Releases this instance's lease.
    pub(crate) fn release(&self, conn: &Connection, ino: u64) -> DbResult<()> {
        leases::remove(conn, ino, &self.holder)
    }

    /// Whether any node is held open.
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
