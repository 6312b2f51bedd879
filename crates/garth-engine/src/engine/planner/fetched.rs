//! Simulated database that is a round trip away, for tests of planning in rounds: only what was prefetched or
//! missed before can be read. An engine with local rows can be run on it as well.

use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;

use super::row_store::{RowStore, RowValue};
use super::rows::{RowKey, Rows};
#[cfg(test)]
use super::{Derived, derive_group};
use super::{Fetch, Fetched, MAX_ROUNDS, Planned, plan_group};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Batch};
#[cfg(test)]
use crate::rule::Registry;
#[cfg(test)]
use crate::text::{MAX_TEXT, Tokenizer};

#[cfg(debug_assertions)]
static FETCHED_ROWS_REQUIRED: AtomicBool = AtomicBool::new(false);

/// Makes the engines of this process plan every batch only from the rows that are fetched for it.
#[cfg(debug_assertions)]
pub fn require_fetched_rows() {
    FETCHED_ROWS_REQUIRED.store(true, Ordering::Relaxed);
}

#[cfg(debug_assertions)]
pub(crate) fn is_asked_for() -> bool {
    FETCHED_ROWS_REQUIRED.load(Ordering::Relaxed)
}

/// Plans a batch only from the rows that are fetched for it. Returns the number of rounds as well.
#[cfg(test)]
pub(crate) fn plan_fetched<R: Rows>(rows: &R, state: Fetched, batch: &Batch) -> (Result<Planned>, usize) {
    let (planned, rounds) = plan_group_fetched(rows, state, &[batch], &|_, ino| rows.is_open(ino));
    (planned.and_then(|mut planned| planned.pop().unwrap_or_else(never)), rounds)
}

/// Plans the first batches of a group only from the rows that are fetched for it. `is_open` answers
/// [`Fetch::is_open`]. Returns the number of rounds as well.
pub(crate) fn plan_group_fetched<R: Rows>(
    rows: &R,
    state: Fetched,
    batches: &[&Batch],
    is_open: &dyn Fn(usize, u64) -> Result<bool>,
) -> (Result<Vec<Result<Planned>>>, usize) {
    let store = RowStore::new(Arc::new(rows.rules().clone()));
    let derived = |_: &RowKey| -> Result<RowValue> {
        Err(Error::new(ErrorKind::Unavailable, "this row is not derived here"))
    };
    let derived = &derived;
    let mut database = Distant { local: rows, is_open, derived, state, rows: store, rounds: 0 };
    // Local rows are fetched without waiting, so the future is done at the first poll.
    let planned = plan_group(&mut database, batches, MAX_ROUNDS).now_or_never();
    (planned.unwrap_or_else(never), database.rounds)
}

/// Plans the first batches of a group as [`plan_group_fetched`] does, and derives rows from their changes.
/// `derived` answers the keys of derived rows. Returns the number of rounds as well.
#[cfg(test)]
pub(crate) fn derive_group_fetched<R: Rows>(
    rows: &R,
    state: Fetched,
    batches: &[&Batch],
    derived: &dyn Fn(&RowKey) -> Result<RowValue>,
    registry: &Registry,
) -> (Vec<Result<Planned>>, Result<Derived>, usize) {
    let is_open = |_: usize, ino: u64| rows.is_open(ino);
    let (store, is_open) = (RowStore::new(Arc::new(rows.rules().clone())), &is_open);
    let mut database = Distant { local: rows, is_open, derived, state, rows: store, rounds: 0 };
    let planned = plan_group(&mut database, batches, MAX_ROUNDS).now_or_never();
    let planned = planned.unwrap_or_else(never).unwrap_or_default();
    let (group, mut tokenizer) = ((state.head, &planned[..]), Tokenizer::default());
    let limits = (MAX_ROUNDS, MAX_TEXT);
    let derived = derive_group(&mut database, group, (registry, &mut tokenizer), limits).now_or_never();
    let (derived, rounds) = (derived.unwrap_or_else(never), database.rounds);
    (planned, derived, rounds)
}

fn never<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unavailable, "local rows are fetched without waiting"))
}

/// Local rows as those of a distant database.
struct Distant<'a, R> {
    local: &'a R,
    is_open: &'a dyn Fn(usize, u64) -> Result<bool>,
    /// Answers the keys of derived rows.
    derived: &'a dyn Fn(&RowKey) -> Result<RowValue>,
    state: Fetched,
    rows: RowStore,
    /// Number of rounds so far.
    rounds: usize,
}

impl<R: Rows> Fetch for Distant<'_, R> {
    fn rows(&self) -> &RowStore {
        &self.rows
    }

    fn fetch(&mut self) -> impl Future<Output = Result<Fetched>> + Send {
        for key in self.rows.take_wanted() {
            // An error fails only the reads of this row, as it does on local rows: it may never be read.
            let value = read(self.local, self.derived, &key);
            self.rows.put(key, value);
        }
        self.rounds += 1;
        std::future::ready(Ok(self.state))
    }

    fn is_open(&self, batch: usize, ino: u64) -> Result<bool> {
        (self.is_open)(batch, ino)
    }
}

/// Reads the value of a key.
fn read<R: Rows>(rows: &R, derived: &dyn Fn(&RowKey) -> Result<RowValue>, key: &RowKey) -> Result<RowValue> {
    use RowKey as K;
    use RowValue as V;
    match key {
        K::Idempotency(owner, key) => rows.idempotency(owner, key).map(V::Idempotency),
        K::Committed(owner, id) => rows.committed(owner, *id).map(V::Commit),
        K::Snapshot(owner, name) => rows.has_snapshot(owner, name).map(V::Flag),
        K::Staged(id) => rows.staged(*id).map(V::Staged),
        K::Name(dir, name) => rows.name(dir, name).map(V::Name),
        K::NamesIn(dir, limit) => {
            let names = rows.names_in(dir, *limit)?.into_iter();
            Ok(V::Names(names.map(|(name, row)| (dir.clone(), name, row)).collect()))
        }
        K::NamesBelow(region, limit) => rows.names_below(region, *limit).map(V::Names),
        K::LongestPath(region) => rows.longest_path(region).map(V::LongestPath),
        K::ExpiredIn(region, time) => rows.expired_in(region, *time).map(V::Inos),
        K::NamesOf(ino, within, limit) => rows.names_of(*ino, within, *limit).map(V::Keys),
        K::Node(ino) => rows.newest_node(*ino).map(V::NewestNode),
        K::IsOpen(ino) => rows.is_open(*ino).map(V::Flag),
        K::Attributes(ino, seq) => read_attributes(rows, *ino, *seq),
        K::Extents(ino, from, to) => rows.extents(*ino, *from, *to).map(V::Extents),
        K::Judged(ino, constraint) => rows.judged(*ino, constraint).map(V::Judged),
        K::Stored(hash) => rows.stored(hash).map(V::Stored),
        K::Chunk(id) => rows.chunk(*id).map(V::Chunk),
        K::TimeOf(seq) => rows.time_of(*seq).map(V::Time),
        K::NameAt(dir, name, seq) => rows.name_at(dir, name, *seq).map(V::Name),
        K::NamesBelowAt(dir, seq, limit) => rows.names_below_at(dir, *seq, *limit).map(V::Names),
        K::NamesOfAt(ino, seq, within) => rows.names_of_at(*ino, *seq, within).map(V::Keys),
        K::NodeAt(ino, seq) => rows.node_at_seq(*ino, *seq).map(V::Node),
        K::ExtentsAt(ino, seq, from, to) => rows.extents_at(*ino, *seq, *from, *to).map(V::Extents),
        K::Quotas => rows.quotas().map(V::Quotas),
        K::Tally(ranges) => rows.tally(ranges).map(V::Tally),
        K::Due(time, within, after, limit) => rows.due(*time, within, *after, *limit).map(V::Due),
        K::Keys(_) | K::Line(..) | K::Passages(..) | K::PassageBefore(..) | K::Unindexed(_) => derived(key),
        K::Content(..) | K::Tail(_) => derived(key),
    }
}

/// Reads the attributes that a node had after commit `seq`; the newest for `u64::MAX`.
fn read_attributes<R: Rows>(rows: &R, ino: u64, seq: u64) -> Result<RowValue> {
    let node = if seq == u64::MAX { rows.node(ino)? } else { rows.node_at_seq(ino, seq)? };
    let set = match node {
        Some(node) => node.attrs_seq,
        None if seq == u64::MAX => 0,
        // That version of the node may have been removed from the past, while its attributes are in use.
        None => seq,
    };
    let attributes = if set == 0 { Attributes::default() } else { rows.attributes(ino, set)? };
    Ok(RowValue::Attributes { seq: set, attributes })
}
