//! Nodes that this instance holds open. As in POSIX, a node without a name exists while it is open.
//!
//! Most open nodes have names, so leases are taken late. A write to an unnamed node takes one in its own
//! transaction, and records that the node is unnamed. Other processes that have it open take theirs once
//! `gc` has marked it, which is why `gc` deletes only after a grace period longer than their tick. Why:
//! `docs/decisions/leases-and-two-phase-gc.md`.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use crate::threads::lock::lock;

/// Length of a lease in seconds. Leases are renewed every minute, so four ticks may be missed.
pub const LEASE: i64 = 300;

#[derive(Debug, Default)]
struct Nodes {
    /// Open handles of each node.
    open: HashMap<u64, usize>,
    /// Open nodes with a lease in the database.
    leased: HashSet<u64>,
    /// Open nodes that may have been removed, because a lease on them had ended.
    lost: HashSet<u64>,
}

/// Nodes that this instance holds open, and those of them with a lease.
#[derive(Debug)]
pub struct OpenNodes {
    holder: [u8; 16],
    nodes: Mutex<Nodes>,
}

impl OpenNodes {
    /// Returns an empty set. `holder` is the random id of this instance: each process has leases of its own.
    pub fn new(holder: [u8; 16]) -> Self {
        Self { holder, nodes: Mutex::default() }
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// Returns the id of this instance.
    pub fn holder(&self) -> &[u8; 16] {
        &self.holder
    }

    /// Counts a handle that is opened.
    pub fn add(&self, ino: u64) {
        *self.nodes().open.entry(ino).or_default() += 1;
    }

    /// Closes one handle. Returns true if a lease must be released now.
    pub fn remove(&self, ino: u64) -> bool {
        let mut nodes = self.nodes();
        let Some(count) = nodes.open.get_mut(&ino) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        nodes.open.remove(&ino);
        nodes.lost.remove(&ino);
        // Also forgotten here: a later renewal must not take the lease again.
        nodes.leased.remove(&ino)
    }

    /// Returns true if a node is held open.
    pub fn is_open(&self, ino: u64) -> bool {
        self.nodes().open.contains_key(&ino)
    }

    /// Returns the nodes that are held open, in any order.
    pub fn inos(&self) -> Vec<u64> {
        self.nodes().open.keys().copied().collect()
    }

    /// Notes that an open node may have been removed: none of its handles reaches it any more.
    pub fn lose(&self, ino: u64) {
        let mut nodes = self.nodes();
        if nodes.open.contains_key(&ino) {
            nodes.lost.insert(ino);
        }
    }

    /// Returns true if an open node may have been removed.
    pub fn is_lost(&self, ino: u64) -> bool {
        self.nodes().lost.contains(&ino)
    }

    /// Returns true if any node is held open.
    pub fn any(&self) -> bool {
        !self.nodes().open.is_empty()
    }

    /// Notes that a node gets a lease. Returns false for a node that is not open: nothing would release its
    /// lease.
    ///
    /// Call it before the lease is written: a handle that is closed from here on asks for a release, which
    /// must run after the transaction that writes the lease.
    #[must_use]
    pub fn note_lease(&self, ino: u64) -> bool {
        let mut nodes = self.nodes();
        if !nodes.open.contains_key(&ino) {
            return false;
        }
        nodes.leased.insert(ino);
        true
    }

    /// Returns the open nodes with a lease, in any order.
    pub fn leased(&self) -> Vec<u64> {
        self.nodes().leased.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_node_is_lost_until_its_last_handle_is_closed() {
        let nodes = OpenNodes::new([1; 16]);
        nodes.lose(5);
        nodes.add(5);
        assert!(!nodes.is_lost(5), "it was not open");
        nodes.add(5);
        nodes.lose(5);
        nodes.remove(5);
        assert!(nodes.is_lost(5) && nodes.inos() == [5]);
        nodes.remove(5);
        nodes.add(5);
        assert!(!nodes.is_lost(5));
    }

    #[test]
    fn last_handle_releases_the_lease() {
        let nodes = OpenNodes::new([1; 16]);
        assert!(!nodes.note_lease(5), "nothing would release it");
        nodes.add(5);
        nodes.add(5);
        assert!(nodes.note_lease(5) && nodes.leased() == [5]);
        assert!(!nodes.remove(5), "the other handle keeps it");
        assert!(nodes.remove(5));
        assert!(!nodes.any() && nodes.leased().is_empty());
        nodes.add(5);
        assert!(!nodes.remove(5), "it was released");
    }
}
