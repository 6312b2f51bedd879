//! States of the past that this instance shows through open views and versions. They stay readable after
//! `head.oldest` was raised above them.
//!
//! Most views live for milliseconds and write nothing. Those that are open at a tick get leases, which tell
//! the collections of other processes to keep the rows of their states. A collection therefore removes no row
//! until `head.oldest` has been above it for longer than a tick.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::model::Timestamp;
use crate::threads::lock::lock;

#[derive(Debug, Default)]
struct Pasts {
    /// Open views of each commit.
    open: BTreeMap<u64, usize>,
    /// Commits with a lease in the database.
    leased: BTreeSet<u64>,
}

/// States of the past that this instance holds open, and those of them with a lease.
#[derive(Debug)]
pub struct OpenPasts {
    holder: [u8; 16],
    pasts: Mutex<Pasts>,
}

/// State of the past that a view shows. The state stays readable until the last clone of the view is dropped.
#[derive(Debug)]
pub struct Past {
    /// Commit whose state is shown.
    pub seq: u64,
    /// Time by which entries have expired.
    pub time: i64,
    /// Time at which the view was opened.
    pub opened: i64,
    open: Arc<OpenPasts>,
}

/// Changes of leases at a tick.
#[derive(Debug, PartialEq, Eq)]
pub struct LeaseChanges {
    /// Commits whose leases are to be taken or renewed, in order.
    pub held: Vec<u64>,
    /// Commits whose leases are to be removed, in order.
    pub ended: Vec<u64>,
}

impl OpenPasts {
    /// Returns an empty set. `holder` is the random id of this instance: each process has leases of its own.
    pub fn new(holder: [u8; 16]) -> Self {
        Self { holder, pasts: Mutex::default() }
    }

    fn pasts(&self) -> MutexGuard<'_, Pasts> {
        lock(&self.pasts)
    }

    /// Returns the id of this instance.
    pub fn holder(&self) -> &[u8; 16] {
        &self.holder
    }

    /// Opens a state, in the transaction that found it readable: a collection could remove it in between.
    pub fn open(self: &Arc<Self>, seq: u64, time: i64, now: Timestamp) -> Arc<Past> {
        *self.pasts().open.entry(seq).or_default() += 1;
        Arc::new(Past { seq, time, opened: now.0, open: Arc::clone(self) })
    }

    /// Returns the commits whose states are open, in order.
    pub fn seqs(&self) -> Vec<u64> {
        self.pasts().open.keys().copied().collect()
    }

    /// Returns true if there are leases to take, renew or remove.
    pub fn any(&self) -> bool {
        let pasts = self.pasts();
        !pasts.open.is_empty() || !pasts.leased.is_empty()
    }

    /// Returns the leases to write at a tick, and notes them.
    ///
    /// Call it before the leases are written: those of a transaction that fails are removed at a later tick.
    #[must_use]
    pub fn note_leases(&self) -> LeaseChanges {
        let mut pasts = self.pasts();
        let open: BTreeSet<u64> = pasts.open.keys().copied().collect();
        let ended = pasts.leased.difference(&open).copied().collect();
        let held = open.iter().copied().collect();
        pasts.leased = open;
        LeaseChanges { held, ended }
    }
}

impl Drop for Past {
    fn drop(&mut self) {
        let mut pasts = self.open.pasts();
        if let Some(count) = pasts.open.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                pasts.open.remove(&self.seq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_open_until_its_last_view_is_dropped() {
        let pasts = Arc::new(OpenPasts::new([1; 16]));
        assert!(!pasts.any());
        let open = |seq, time| pasts.open(seq, time, Timestamp(99));
        let (first, second, other) = (open(5, 50), open(5, 60), open(3, 30));
        let clone = Arc::clone(&second);
        assert_eq!((pasts.seqs(), first.seq, second.time, first.opened), (vec![3, 5], 5, 60, 99));
        drop((first, second, other));
        assert_eq!(pasts.seqs(), [5]);
        drop(clone);
        assert!(pasts.seqs().is_empty() && !pasts.any());
    }
}
