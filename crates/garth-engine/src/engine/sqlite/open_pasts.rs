//! States of the past that this instance shows through open views and versions. They stay readable after
//! `head.oldest` was raised above them.
//!
//! Most views live for milliseconds and write nothing. Those that are open at a tick get leases, which tell
//! the collections of other processes to keep the rows of their states. A collection therefore removes no row
//! until `head.oldest` has been above it for longer than a tick.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::Connection;

use crate::engine::sqlite::open_nodes::LEASE;
use crate::engine::sqlite::tables::past_leases;
use crate::model::Timestamp;
use crate::sqlite::DbResult;
use crate::threads::lock::lock;

#[derive(Debug, Default)]
struct Pasts {
    /// Open views of each commit.
    open: BTreeMap<u64, usize>,
    /// Commits with a lease in the database.
    leased: BTreeSet<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenPasts {
    /// Random id of this instance: each process has leases of its own.
    holder: [u8; 16],
    pasts: Mutex<Pasts>,
}

/// State of the past that a view shows. The state stays readable until the last clone of the view is dropped.
#[derive(Debug)]
pub(crate) struct Past {
    /// Commit whose state is shown.
    pub(crate) seq: u64,
    /// Time by which entries have expired.
    pub(crate) time: i64,
    /// Time at which the view was opened.
    pub(crate) opened: i64,
    open: Arc<OpenPasts>,
}

impl OpenPasts {
    pub(crate) fn new(holder: [u8; 16]) -> Self {
        Self { holder, pasts: Mutex::default() }
    }

    fn pasts(&self) -> MutexGuard<'_, Pasts> {
        lock(&self.pasts)
    }

    /// Opens a state, in the transaction that found it readable: a collection could remove it in between.
    pub(crate) fn open(self: &Arc<Self>, seq: u64, time: i64, now: Timestamp) -> Arc<Past> {
        *self.pasts().open.entry(seq).or_default() += 1;
        Arc::new(Past { seq, time, opened: now.0, open: Arc::clone(self) })
    }

    /// Returns the commits whose states are open, in order.
    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.pasts().open.keys().copied().collect()
    }

    /// Returns true if there are leases to take, renew or remove.
    pub(crate) fn any(&self) -> bool {
        let pasts = self.pasts();
        !pasts.open.is_empty() || !pasts.leased.is_empty()
    }

    /// Takes leases on the states that are open, or renews them, and removes those of the states that are no
    /// longer.
    pub(crate) fn renew(&self, conn: &Connection, now: Timestamp) -> DbResult<()> {
        let open = self.seqs();
        // Noted before the rows are written: those of a transaction that fails are removed at a later tick.
        let before = std::mem::replace(&mut self.pasts().leased, open.iter().copied().collect());
        for seq in before.into_iter().filter(|seq| open.binary_search(seq).is_err()) {
            past_leases::remove(conn, &self.holder, seq)?;
        }
        for seq in open {
            past_leases::put(conn, &self.holder, seq, now.plus_seconds(LEASE).0)?;
        }
        Ok(())
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
    use crate::engine::sqlite::schema;

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

    #[test]
    fn views_open_at_a_tick_have_leases() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let pasts = Arc::new(OpenPasts::new([1; 16]));
        let leased = |now: i64| past_leases::all_of(&conn, Timestamp(0).plus_seconds(now).0).unwrap();
        let tick = |now: i64| pasts.renew(&conn, Timestamp(0).plus_seconds(now)).unwrap();
        let open = |seq, time| pasts.open(seq, time, Timestamp(0));
        let (short, long) = (open(5, 50), open(3, 30));
        drop(short);
        tick(60);
        assert_eq!(leased(60), [3], "a view that was closed before writes nothing");
        tick(120);
        assert_eq!(leased(60 + LEASE), [3], "renewed");
        drop(long);
        assert!(pasts.any(), "its lease is left");
        tick(180);
        assert_eq!(leased(180), [0; 0]);
        assert!(!pasts.any());
    }
}
