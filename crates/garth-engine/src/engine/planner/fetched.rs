//! Rows of a simulated database that is a round trip away: only what was prefetched or missed before can be
//! read. For tests of planning in rounds. An engine with local rows can be run on it as well.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use futures::FutureExt;

use super::prefetch::FIRST_NAMES;
use super::rows::{
    ExtentRow, HeadRow, IdempotencyRow, JudgedRow, NameRow, NewestNode, NodeRow, RowKey, Rows, StagedRow,
    Stored, Tally,
};
use super::subtrees::{Key, Region};
use super::{Fetch, Planned, plan_with};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Batch, Commit, CommitId, Timestamp, Within};
use crate::path::TreePath;
use crate::rule::quota::Quotas;
use crate::rule::{Digest, Rules};

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
pub(crate) fn plan_fetched<R: Rows>(
    rows: &R,
    head: HeadRow,
    now: Timestamp,
    batch: &Batch,
) -> (Result<Planned>, usize) {
    let mut fetched = FetchedRows::new(rows, head);
    // Local rows are fetched without waiting, so the future is done at the first poll.
    let planned = plan_with(&mut fetched, now, batch).now_or_never();
    let never = || Err(Error::new(ErrorKind::Unavailable, "local rows are fetched without waiting"));
    (planned.unwrap_or_else(never), fetched.rounds)
}

/// Rows that have been fetched from a store.
struct FetchedRows<'a, R> {
    store: &'a R,
    head: HeadRow,
    fetched: HashSet<RowKey>,
    /// Ranges of files whose extents have been fetched.
    ranges: HashMap<u64, Vec<(u64, u64)>>,
    wanted: RefCell<HashSet<RowKey>>,
    missed: Cell<bool>,
    /// Number of rounds so far.
    rounds: usize,
}

impl<'a, R: Rows> FetchedRows<'a, R> {
    fn new(store: &'a R, head: HeadRow) -> Self {
        Self {
            store,
            head,
            fetched: HashSet::new(),
            ranges: HashMap::new(),
            wanted: RefCell::default(),
            missed: Cell::new(false),
            rounds: 0,
        }
    }

    /// Reads from the store if the key has been fetched; otherwise notes the miss and fails.
    fn get<T>(&self, key: RowKey, read: impl FnOnce(&R) -> Result<T>) -> Result<T> {
        if self.has(&key) {
            return read(self.store);
        }
        self.missed.set(true);
        self.wanted.borrow_mut().insert(key);
        // Any kind but `NotFound` and `NotADirectory`, which would mean that there is no such row.
        Err(Error::new(ErrorKind::Unavailable, "this row has not been fetched"))
    }

    /// Returns true if a fetched row answers the key.
    fn has(&self, key: &RowKey) -> bool {
        let below = |dir: &str, range: &dyn Fn(String) -> RowKey| {
            let path = TreePath::from_key(dir.to_owned());
            let mut above = path.ancestors().chain([path.clone()]);
            above.any(|dir| self.fetched.contains(&range(dir.key().to_owned())))
        };
        if self.fetched.contains(key) {
            return true;
        }
        // The trees of these tests have fewer names, so that a range with this limit is complete.
        let all = |dir| RowKey::NamesBelow(Region { dir, ..Region::default() }, FIRST_NAMES);
        match key {
            RowKey::Name(dir, _) | RowKey::NamesIn(dir, _) => below(dir, &all),
            RowKey::NameAt(dir, _, seq) => below(dir, &|dir| RowKey::NamesBelowAt(dir, *seq, FIRST_NAMES)),
            RowKey::NamesBelow(region, _) => below(&region.dir, &all),
            RowKey::NamesOf(ino, within, _) => {
                self.fetched.contains(&RowKey::NamesOf(*ino, within.clone(), usize::MAX))
            }
            RowKey::Attributes(ino, seq) => {
                // The newest attributes are the ones asked for only if the node has no others by now.
                let newest = RowKey::Attributes(*ino, u64::MAX);
                let set = || self.store.node(*ino).ok().flatten().map(|node| node.attrs_seq);
                self.fetched.contains(&newest) && set() == Some(*seq)
            }
            RowKey::Extents(ino, from, to) => {
                let mut ranges = self.ranges.get(ino).into_iter().flatten();
                ranges.any(|(first, last)| first <= from && to <= last)
            }
            RowKey::ExtentsAt(ino, seq, ..) => {
                self.fetched.contains(&RowKey::ExtentsAt(*ino, *seq, 0, u64::MAX))
            }
            _ => false,
        }
    }
}

impl<R: Rows> Fetch for FetchedRows<'_, R> {
    fn fetch(&mut self) -> impl Future<Output = Result<HeadRow>> + Send {
        for key in self.wanted.take() {
            if let RowKey::Extents(ino, from, to) = key {
                self.ranges.entry(ino).or_default().push((from, to));
            }
            self.fetched.insert(key);
        }
        self.missed.set(false);
        self.rounds += 1;
        std::future::ready(Ok(self.head))
    }

    fn missed(&self) -> bool {
        self.missed.get()
    }
}

impl<R: Rows> Rows for FetchedRows<'_, R> {
    const PREFETCHES: bool = true;

    fn prefetch(&self, keys: Vec<RowKey>) {
        let unknown = keys.into_iter().filter(|key| !self.has(key));
        self.wanted.borrow_mut().extend(unknown);
    }

    fn rules(&self) -> &Rules {
        self.store.rules()
    }

    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        self.get(RowKey::Name(dir.to_owned(), name.to_owned()), |store| store.name(dir, name))
    }

    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>> {
        self.get(RowKey::NamesIn(dir.to_owned(), limit), |store| store.names_in(dir, limit))
    }

    fn names_below(&self, region: &Region, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        self.get(RowKey::NamesBelow(region.clone(), limit), |store| store.names_below(region, limit))
    }

    fn longest_path(&self, region: &Region) -> Result<(usize, usize)> {
        self.get(RowKey::LongestPath(region.clone()), |store| store.longest_path(region))
    }

    fn expired_in(&self, region: &Region, time: i64) -> Result<Vec<u64>> {
        self.get(RowKey::ExpiredIn(region.clone(), time), |store| store.expired_in(region, time))
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<Key>> {
        self.get(RowKey::NamesOf(ino, within.clone(), limit), |store| store.names_of(ino, within, limit))
    }

    fn newest_node(&self, ino: u64) -> Result<Option<NewestNode>> {
        self.get(RowKey::Node(ino), |store| store.newest_node(ino))
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        self.get(RowKey::Attributes(ino, seq), |store| store.attributes(ino, seq))
    }

    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        self.get(RowKey::Extents(ino, from, to), |store| store.extents(ino, from, to))
    }

    fn judged(&self, ino: u64, constraint: &Digest) -> Result<Option<JudgedRow>> {
        self.get(RowKey::Judged(ino, *constraint), |store| store.judged(ino, constraint))
    }

    fn is_open(&self, ino: u64) -> Result<bool> {
        self.get(RowKey::IsOpen(ino), |store| store.is_open(ino))
    }

    fn stored(&self, hash: &[u8]) -> Result<Stored> {
        self.get(RowKey::Stored(hash.to_owned()), |store| store.stored(hash))
    }

    fn chunk(&self, id: u64) -> Result<Bytes> {
        self.get(RowKey::Chunk(id), |store| store.chunk(id))
    }

    fn staged(&self, id: u128) -> Result<Option<StagedRow>> {
        self.get(RowKey::Staged(id), |store| store.staged(id))
    }

    fn committed(&self, owner: &str, id: CommitId) -> Result<Option<Commit>> {
        self.get(RowKey::Committed(owner.to_owned(), id), |store| store.committed(owner, id))
    }

    fn has_snapshot(&self, owner: &str, name: &str) -> Result<bool> {
        self.get(RowKey::Snapshot(owner.to_owned(), name.to_owned()), |store| store.has_snapshot(owner, name))
    }

    fn idempotency(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        self.get(RowKey::Idempotency(owner.to_owned(), key.to_owned()), |store| store.idempotency(owner, key))
    }

    fn time_of(&self, seq: u64) -> Result<Timestamp> {
        self.get(RowKey::TimeOf(seq), |store| store.time_of(seq))
    }

    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>> {
        self.get(RowKey::NameAt(dir.to_owned(), name.to_owned(), seq), |store| store.name_at(dir, name, seq))
    }

    fn names_below_at(&self, dir: &str, seq: u64, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        let key = RowKey::NamesBelowAt(dir.to_owned(), seq, limit);
        self.get(key, |store| store.names_below_at(dir, seq, limit))
    }

    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<Key>> {
        self.get(RowKey::NamesOfAt(ino, seq, within.clone()), |store| store.names_of_at(ino, seq, within))
    }

    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>> {
        self.get(RowKey::NodeAt(ino, seq), |store| store.node_at_seq(ino, seq))
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        self.get(RowKey::ExtentsAt(ino, seq, from, to), |store| store.extents_at(ino, seq, from, to))
    }

    fn quotas(&self) -> Result<Arc<Quotas>> {
        self.get(RowKey::Quotas, R::quotas)
    }

    fn tally(&self, ranges: &[(String, String)]) -> Result<Tally> {
        self.get(RowKey::Tally(ranges.to_vec()), |store| store.tally(ranges))
    }

    fn due(&self, time: i64, within: &Within, after: (i64, u64), limit: usize) -> Result<Vec<(i64, u64)>> {
        let key = RowKey::Due(time, within.clone(), after, limit);
        self.get(key, |store| store.due(time, within, after, limit))
    }
}
