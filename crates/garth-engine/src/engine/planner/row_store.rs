//! Rows that were fetched from a database that is a round trip away, and the keys of rows that are still to
//! be fetched.

mod derived;
mod fetched_derived;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;

use self::fetched_derived::FetchedDerived;
use super::derived_rows::Tail;
use super::extents::LiveExtents;
use super::rows::{
    ExtentRow, IdempotencyRow, JudgedRow, NameRow, NewestNode, NodeRow, RowKey, Rows, StagedRow, Stored,
    Tally,
};
use super::subtrees::{Key, Region, up};
use crate::engine::search::Passage;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Commit, CommitId, Projection, Timestamp, Within};
use crate::rule::quota::Quotas;
use crate::rule::{Digest, Rules};

/// Name row with its key: directory, name, row.
type KeyedName = (String, String, NameRow);

/// Range of bytes of a file: start and end.
type Range = (u64, u64);

/// Answer to a [`RowKey`].
#[derive(Clone, Debug)]
pub enum RowValue {
    /// [`RowKey::Name`] and [`RowKey::NameAt`].
    Name(Option<NameRow>),
    /// [`RowKey::NamesIn`], [`RowKey::NamesBelow`] and [`RowKey::NamesBelowAt`]: directories, names and rows,
    /// at most as many as the limit of the key. Fewer rows than the limit mean that there are no more.
    Names(Vec<(String, String, NameRow)>),
    /// [`RowKey::NamesOf`] and [`RowKey::NamesOfAt`]. The limit is that of [`RowValue::Names`].
    Keys(Vec<Key>),
    /// [`RowKey::LongestPath`]: length of the path in bytes, and number of names that were read.
    LongestPath((usize, usize)),
    /// [`RowKey::ExpiredIn`].
    Inos(Vec<u64>),
    /// [`RowKey::Node`].
    NewestNode(Option<NewestNode>),
    /// [`RowKey::NodeAt`].
    Node(Option<NodeRow>),
    /// [`RowKey::IsOpen`] and [`RowKey::Snapshot`].
    Flag(bool),
    /// [`RowKey::Attributes`].
    Attributes {
        /// Commit that set them; 0 for none.
        seq: u64,
        /// Attributes that the node has since then.
        attributes: Attributes,
    },
    /// [`RowKey::Extents`] and [`RowKey::ExtentsAt`].
    Extents(Vec<ExtentRow>),
    /// [`RowKey::Judged`].
    Judged(Option<JudgedRow>),
    /// [`RowKey::Stored`].
    Stored(Stored),
    /// [`RowKey::Chunk`].
    Chunk(Bytes),
    /// [`RowKey::Staged`].
    Staged(Option<StagedRow>),
    /// [`RowKey::Committed`].
    Commit(Option<Commit>),
    /// [`RowKey::Idempotency`].
    Idempotency(Option<IdempotencyRow>),
    /// [`RowKey::TimeOf`].
    Time(Timestamp),
    /// [`RowKey::Quotas`].
    Quotas(Arc<Quotas>),
    /// [`RowKey::Tally`].
    Tally(Tally),
    /// [`RowKey::Due`].
    Due(Vec<(i64, u64)>),
    /// [`RowKey::Keys`], in any order.
    NodeKeys(Vec<(Projection, String)>),
    /// [`RowKey::Line`]: number and offset.
    Line(Option<(u64, u64)>),
    /// [`RowKey::Passages`], in order, and [`RowKey::PassageBefore`], at most one.
    Passages(Vec<Passage>),
    /// [`RowKey::Unindexed`].
    Unindexed(Option<u64>),
    /// [`RowKey::Content`].
    Content(Bytes),
    /// [`RowKey::Tail`].
    Tail(Box<Tail>),
}

/// Values that were fetched for row keys, and the keys that were prefetched or missed since.
///
/// A value also answers the keys that it covers:
///
/// - names below a directory: each name, directory and region in it, also that a name does not exist;
/// - names in a directory: each of these names, also that one does not exist;
/// - a list with a limit: smaller limits, and every limit if the list is shorter than its own. A longer list
///   shows which names exist, and none that does not;
/// - attributes of a node after a commit: those that it got in the commit that set them;
/// - extents, passages and bytes: each part of the ranges that were fetched;
/// - the end of a file: the passages, lines and bytes in it.
///
/// All values are those of one state: after a write to the database, fetch into a new store.
pub struct RowStore {
    rules: Arc<Rules>,
    /// Values that cover no other key, and errors.
    rows: HashMap<RowKey, Result<RowValue>>,
    /// Names in a directory.
    entries: HashMap<String, Listed<KeyedName>>,
    /// Names below a directory, without exceptions: now (`None`), or after a commit.
    below: HashMap<Option<u64>, HashMap<String, Listed<KeyedName>>>,
    /// Names of a node within some subtrees.
    names_of: HashMap<(u64, Within), Listed<Key>>,
    /// Extents of nodes: now (`None`), or after a commit.
    extents: HashMap<Option<u64>, LiveExtents>,
    /// Ranges of nodes whose extents cannot be read: now (`None`), or after a commit.
    unreadable: HashMap<(u64, Option<u64>), Vec<Unreadable>>,
    derived: FetchedDerived,
    wanted: RefCell<HashSet<RowKey>>,
    missed: Cell<bool>,
}

/// Range whose extents cannot be read, and why.
type Unreadable = (Range, Error);

/// Rows that a query with a limit returned.
struct Listed<T> {
    rows: Vec<T>,
    limit: usize,
}

impl<T> Listed<T> {
    /// Returns true if there are no more rows.
    fn is_complete(&self) -> bool {
        self.rows.len() < self.limit
    }

    /// Returns the answer to the query with another limit, if these rows have it.
    fn up_to(&self, limit: usize) -> Option<&[T]> {
        let known = limit <= self.limit || self.is_complete();
        known.then(|| &self.rows[..limit.min(self.rows.len())])
    }
}

impl Listed<KeyedName> {
    fn names(mut rows: Vec<KeyedName>, limit: usize) -> Self {
        // A database may order long directories by something else than their text.
        rows.sort_unstable_by(|(dir, name, _), (other, beside, _)| (dir, name).cmp(&(other, beside)));
        Self { rows, limit }
    }

    /// Returns the row of a name; `Some(None)` if the list shows that there is none.
    fn name(&self, dir: &str, name: &str) -> Option<Option<NameRow>> {
        match self.rows.binary_search_by(|(other, beside, _)| (&**other, &**beside).cmp(&(dir, name))) {
            Ok(at) => Some(Some(self.rows[at].2)),
            Err(_) => self.is_complete().then_some(None),
        }
    }
}

/// Reads the value of a key, which has to be of one kind.
macro_rules! get {
    ($store:expr, $key:expr, $kind:ident) => {
        $store.get($key, |value| match value {
            RowValue::$kind(value) => Some(value.clone()),
            _ => None,
        })
    };
}

impl RowStore {
    /// Returns a store without rows.
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            rows: HashMap::new(),
            entries: HashMap::new(),
            below: HashMap::new(),
            names_of: HashMap::new(),
            extents: HashMap::new(),
            unreadable: HashMap::new(),
            derived: FetchedDerived::default(),
            wanted: RefCell::default(),
            missed: Cell::new(false),
        }
    }

    /// Replaces the rules with those in force at the head row.
    pub fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
    }

    /// Adds the value of a key. Reads of the key return an error as it is, which for extents includes reads
    /// of a part of the range.
    pub fn put(&mut self, key: RowKey, value: Result<RowValue>) {
        if value.as_ref().is_ok_and(|value| self.put_derived(&key, value)) {
            return;
        }
        match (key, value) {
            (RowKey::NamesIn(dir, limit), Ok(RowValue::Names(names))) => {
                keep(&mut self.entries, dir, Listed::names(names, limit));
            }
            (RowKey::NamesBelow(region, limit), Ok(RowValue::Names(names))) if has_no_exceptions(&region) => {
                keep(self.below.entry(None).or_default(), region.dir, Listed::names(names, limit));
            }
            (RowKey::NamesBelowAt(dir, seq, limit), Ok(RowValue::Names(names))) => {
                keep(self.below.entry(Some(seq)).or_default(), dir, Listed::names(names, limit));
            }
            (RowKey::NamesOf(ino, within, limit), Ok(RowValue::Keys(rows))) => {
                keep(&mut self.names_of, (ino, within), Listed { rows, limit });
            }
            (RowKey::Attributes(ino, asked), Ok(RowValue::Attributes { seq, attributes })) => {
                // The planner reads them by the commit that set them, which the caller need not know.
                for key in [RowKey::Attributes(ino, asked), RowKey::Attributes(ino, seq)] {
                    let attributes = attributes.clone();
                    self.rows.insert(key, Ok(RowValue::Attributes { seq, attributes }));
                }
            }
            (RowKey::Extents(ino, from, to), value) if from < to => {
                self.put_extents((ino, None), (from, to), value);
            }
            (RowKey::ExtentsAt(ino, seq, from, to), value) if from < to => {
                self.put_extents((ino, Some(seq)), (from, to), value);
            }
            (key, value) => drop(self.rows.insert(key, value)),
        }
    }

    /// Adds the value of a key of derived rows. Returns false if it belongs to other keys.
    fn put_derived(&mut self, key: &RowKey, value: &RowValue) -> bool {
        let derived = &mut self.derived;
        match (key, value) {
            (RowKey::Passages(ino, from, to), RowValue::Passages(rows)) => {
                derived.put_passages(*ino, (*from, *to), rows);
            }
            (RowKey::PassageBefore(ino, off), RowValue::Passages(rows)) => {
                derived.put_last_passage(*ino, *off, rows);
            }
            (RowKey::Line(ino, projection, off), RowValue::Line(line)) => {
                derived.put_line((*ino, *projection), *off, *line);
            }
            (RowKey::Unindexed(ino), RowValue::Unindexed(off)) => derived.put_unindexed(*ino, *off),
            (RowKey::Content(ino, from, to), RowValue::Content(bytes)) => {
                derived.put_content(*ino, (*from, *to), bytes);
            }
            (RowKey::Tail(ino), RowValue::Tail(tail)) => derived.put_tail(*ino, tail),
            _ => return false,
        }
        true
    }

    fn put_extents(&mut self, (ino, seq): (u64, Option<u64>), range: Range, value: Result<RowValue>) {
        match value {
            Ok(RowValue::Extents(rows)) => self.extents.entry(seq).or_default().add(ino, range, rows),
            Ok(_) => self.unreadable.entry((ino, seq)).or_default().push((range, other_kind())),
            Err(error) => self.unreadable.entry((ino, seq)).or_default().push((range, error)),
        }
    }

    /// Takes the keys that were prefetched or missed since the last call, each once, in any order.
    pub fn take_wanted(&mut self) -> Vec<RowKey> {
        self.missed.set(false);
        self.wanted.take().into_iter().collect()
    }

    /// Returns true if, since the last [`Self::take_wanted`], a row was read that had not been fetched.
    pub fn missed(&self) -> bool {
        self.missed.get()
    }

    /// Forgets that rows were missed. They are still wanted.
    pub(super) fn forget_miss(&self) {
        self.missed.set(false);
    }

    /// Returns true if a value answers the key.
    fn has(&self, key: &RowKey) -> bool {
        let covered = match key {
            RowKey::Name(dir, name) => self.listed_name(None, dir, name).is_some(),
            RowKey::NameAt(dir, name, seq) => self.listed_name(Some(*seq), dir, name).is_some(),
            RowKey::NamesIn(dir, limit) => self.listed_in(dir, *limit).is_some(),
            RowKey::NamesBelow(region, limit) => self.listed_below(None, region, *limit).is_some(),
            RowKey::NamesBelowAt(dir, seq, limit) => {
                self.listed_below(Some(*seq), &region_of(dir), *limit).is_some()
            }
            RowKey::NamesOf(ino, within, limit) => self.listed_of(*ino, within, *limit).is_some(),
            RowKey::Extents(ino, from, to) => self.has_extents((*ino, None), (*from, *to)),
            RowKey::ExtentsAt(ino, seq, from, to) => self.has_extents((*ino, Some(*seq)), (*from, *to)),
            _ => self.derived.has(key),
        };
        covered || self.rows.contains_key(key)
    }

    /// Reads the value of a key. Notes the miss and fails if it has not been fetched.
    fn get<T>(&self, key: RowKey, read: impl FnOnce(&RowValue) -> Option<T>) -> Result<T> {
        match self.rows.get(&key) {
            Some(Ok(value)) => read(value).ok_or_else(other_kind),
            Some(Err(error)) => Err(error.clone()),
            None => Err(self.miss(key)),
        }
    }

    fn miss(&self, key: RowKey) -> Error {
        self.missed.set(true);
        self.wanted.borrow_mut().insert(key);
        // Any kind but `NotFound` and `NotADirectory`, which would mean that there is no such row.
        Error::new(ErrorKind::Unavailable, "this row has not been fetched")
    }

    /// Returns a name from a list that was fetched; `Some(None)` if a list shows that it does not exist.
    fn listed_name(&self, seq: Option<u64>, dir: &str, name: &str) -> Option<Option<NameRow>> {
        let entries = if seq.is_none() { self.entries.get(dir) } else { None };
        let below = self.below.get(&seq);
        let mut lists = entries.into_iter().chain(up(dir).filter_map(|above| below?.get(above)));
        lists.find_map(|listed| listed.name(dir, name))
    }

    /// Returns up to `limit` names in a directory, if they were fetched.
    fn listed_in(&self, dir: &str, limit: usize) -> Option<&[KeyedName]> {
        let entries = self.entries.get(dir).and_then(|listed| listed.up_to(limit));
        entries.or_else(|| {
            let below = self.listed_below(None, &region_of(dir), usize::MAX)?;
            // No key contains NUL.
            let names = between(below, dir, &format!("{dir}\0"));
            Some(&names[..limit.min(names.len())])
        })
    }

    /// Returns a list that has up to `limit` names of a region, if one was fetched. It may have others.
    fn listed_below(&self, seq: Option<u64>, region: &Region, limit: usize) -> Option<&[KeyedName]> {
        let below = self.below.get(&seq)?;
        up(&region.dir).find_map(|above| {
            let listed = below.get(above)?;
            let is_own = above == region.dir && has_no_exceptions(region);
            let known = listed.is_complete() || (is_own && limit <= listed.limit);
            known.then_some(&listed.rows[..])
        })
    }

    /// Returns up to `limit` names of a node within some subtrees, if they were fetched.
    fn listed_of(&self, ino: u64, within: &Within, limit: usize) -> Option<&[Key]> {
        self.names_of.get(&(ino, within.clone()))?.up_to(limit)
    }

    /// Returns names below a directory, now or after a commit. `key` is the key of the query.
    fn names_of_region(
        &self,
        seq: Option<u64>,
        region: &Region,
        limit: usize,
        key: RowKey,
    ) -> Result<Vec<KeyedName>> {
        let Some(listed) = self.listed_below(seq, region, limit) else { return get!(self, key, Names) };
        let ranges = region.ranges();
        let names = ranges.iter().flat_map(|(from, to)| between(listed, from, to));
        Ok(names.filter(|(dir, name, _)| region.contains(dir, name)).take(limit).cloned().collect())
    }

    fn has_extents(&self, at: (u64, Option<u64>), range: Range) -> bool {
        self.known_extents(at, range).is_some() || self.unreadable_extents(at, range).is_some()
    }

    /// Returns the extents that were fetched, if they include those of a range.
    fn known_extents(&self, (ino, seq): (u64, Option<u64>), (from, to): Range) -> Option<&LiveExtents> {
        let known = self.extents.get(&seq)?;
        // An empty range, which a read may ask for, is known if the byte at its start is.
        let to = to.max(from.saturating_add(1));
        known.unread(ino, from, to).is_empty().then_some(known)
    }

    /// Returns the error of a range whose extents were fetched in vain.
    fn unreadable_extents(&self, at: (u64, Option<u64>), (from, to): Range) -> Option<&Error> {
        let mut failed = self.unreadable.get(&at)?.iter();
        failed.find(|((first, last), _)| *first <= from && to <= *last).map(|(_, error)| error)
    }

    /// Returns extents, now or after a commit. `key` is the key of the query.
    fn extents_of(&self, at: (u64, Option<u64>), (from, to): Range, key: RowKey) -> Result<Vec<ExtentRow>> {
        if let Some(error) = self.unreadable_extents(at, (from, to)) {
            return Err(error.clone());
        }
        match self.known_extents(at, (from, to)) {
            Some(known) => Ok(known.overlapping(at.0, from, to)),
            None => get!(self, key, Extents),
        }
    }
}

/// Keeps a list, unless the one that is known has all of it.
fn keep<K: Eq + Hash, T>(lists: &mut HashMap<K, Listed<T>>, key: K, listed: Listed<T>) {
    if lists.get(&key).is_none_or(|known| known.up_to(listed.limit).is_none()) {
        lists.insert(key, listed);
    }
}

/// Returns the names, of sorted ones, in directories from `from` up to but excluding `to`.
fn between<'a>(names: &'a [KeyedName], from: &str, to: &str) -> &'a [KeyedName] {
    let before = |end: &str| names.partition_point(|(dir, _, _)| dir.as_str() < end);
    names.get(before(from)..before(to)).unwrap_or_default()
}

/// Returns the region of everything below a directory.
fn region_of(dir: &str) -> Region {
    Region { dir: dir.to_owned(), ..Region::default() }
}

fn has_no_exceptions(region: &Region) -> bool {
    region.without.is_empty() && region.names.is_empty()
}

/// Returns the error of a database that answers a key with a value that belongs to other keys.
fn other_kind() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the database answered a query of the planner with rows of another kind",
    )
}

impl Rows for RowStore {
    const PREFETCHES: bool = true;

    fn prefetch(&self, keys: Vec<RowKey>) {
        let unknown = keys.into_iter().filter(|key| !self.has(key));
        self.wanted.borrow_mut().extend(unknown);
    }

    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        match self.listed_name(None, dir, name) {
            Some(row) => Ok(row),
            None => get!(self, RowKey::Name(dir.to_owned(), name.to_owned()), Name),
        }
    }

    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>> {
        let names = match self.listed_in(dir, limit) {
            Some(names) => names.to_vec(),
            None => get!(self, RowKey::NamesIn(dir.to_owned(), limit), Names)?,
        };
        Ok(names.into_iter().map(|(_, name, row)| (name, row)).collect())
    }

    fn names_below(&self, region: &Region, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        self.names_of_region(None, region, limit, RowKey::NamesBelow(region.clone(), limit))
    }

    fn longest_path(&self, region: &Region) -> Result<(usize, usize)> {
        get!(self, RowKey::LongestPath(region.clone()), LongestPath)
    }

    fn expired_in(&self, region: &Region, time: i64) -> Result<Vec<u64>> {
        get!(self, RowKey::ExpiredIn(region.clone(), time), Inos)
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<Key>> {
        match self.listed_of(ino, within, limit) {
            Some(names) => Ok(names.to_vec()),
            None => get!(self, RowKey::NamesOf(ino, within.clone(), limit), Keys),
        }
    }

    fn newest_node(&self, ino: u64) -> Result<Option<NewestNode>> {
        get!(self, RowKey::Node(ino), NewestNode)
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        self.get(RowKey::Attributes(ino, seq), |value| match value {
            RowValue::Attributes { attributes, .. } => Some(attributes.clone()),
            _ => None,
        })
    }

    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        self.extents_of((ino, None), (from, to), RowKey::Extents(ino, from, to))
    }

    fn is_open(&self, ino: u64) -> Result<bool> {
        get!(self, RowKey::IsOpen(ino), Flag)
    }

    fn judged(&self, ino: u64, constraint: &Digest) -> Result<Option<JudgedRow>> {
        get!(self, RowKey::Judged(ino, *constraint), Judged)
    }

    fn stored(&self, hash: &[u8]) -> Result<Stored> {
        get!(self, RowKey::Stored(hash.to_owned()), Stored)
    }

    fn chunk(&self, id: u64) -> Result<Bytes> {
        get!(self, RowKey::Chunk(id), Chunk)
    }

    fn staged(&self, id: u128) -> Result<Option<StagedRow>> {
        get!(self, RowKey::Staged(id), Staged)
    }

    fn committed(&self, owner: &str, id: CommitId) -> Result<Option<Commit>> {
        get!(self, RowKey::Committed(owner.to_owned(), id), Commit)
    }

    fn has_snapshot(&self, owner: &str, name: &str) -> Result<bool> {
        get!(self, RowKey::Snapshot(owner.to_owned(), name.to_owned()), Flag)
    }

    fn idempotency(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        get!(self, RowKey::Idempotency(owner.to_owned(), key.to_owned()), Idempotency)
    }

    fn time_of(&self, seq: u64) -> Result<Timestamp> {
        get!(self, RowKey::TimeOf(seq), Time)
    }

    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>> {
        match self.listed_name(Some(seq), dir, name) {
            Some(row) => Ok(row),
            None => get!(self, RowKey::NameAt(dir.to_owned(), name.to_owned(), seq), Name),
        }
    }

    fn names_below_at(&self, dir: &str, seq: u64, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        let key = RowKey::NamesBelowAt(dir.to_owned(), seq, limit);
        self.names_of_region(Some(seq), &region_of(dir), limit, key)
    }

    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<Key>> {
        get!(self, RowKey::NamesOfAt(ino, seq, within.clone()), Keys)
    }

    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>> {
        get!(self, RowKey::NodeAt(ino, seq), Node)
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        self.extents_of((ino, Some(seq)), (from, to), RowKey::ExtentsAt(ino, seq, from, to))
    }

    fn quotas(&self) -> Result<Arc<Quotas>> {
        get!(self, RowKey::Quotas, Quotas)
    }

    fn tally(&self, ranges: &[(String, String)]) -> Result<Tally> {
        get!(self, RowKey::Tally(ranges.to_vec()), Tally)
    }

    fn due(&self, time: i64, within: &Within, after: (i64, u64), limit: usize) -> Result<Vec<(i64, u64)>> {
        get!(self, RowKey::Due(time, within.clone(), after, limit), Due)
    }
}
