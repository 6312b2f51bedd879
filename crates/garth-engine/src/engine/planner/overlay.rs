//! State after batches that are planned and not written yet: the rows of the database, with the changes of
//! these batches over them.
//!
//! Rows that were changed one by one are merged. What a database computes from many rows, the past, and
//! records by which a batch is a retry are known only once the changes are written: reading them is a
//! *barrier*, and the batch that reads them has to wait.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::delta::{Delta, ExtentChange, NameChange};
use super::extents::overlapping;
use super::rows::{
    ExtentRow, HeadRow, IdempotencyRow, JudgedRow, NameRow, NewestNode, NodeRow, RowKey, Rows, SHORT_SUM,
    StagedRow, Stored, Tally,
};
use super::subtrees::{Key, Region};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Batch, Commit, CommitId, Timestamp, Within};
use crate::path::TreePath;
use crate::rule::quota::Quotas;
use crate::rule::{Digest, Rules};

/// Changes of batches that are planned and not written yet, as the rows that they leave. None of the batches
/// moves or removes a subtree.
#[derive(Default)]
pub(super) struct Pending {
    /// Head rows before the first batch and after the last one; `None` without a batch.
    heads: Option<(HeadRow, HeadRow)>,
    names: BTreeMap<Key, Option<NameRow>>,
    /// Changed names that lead to each node.
    given: HashMap<u64, BTreeSet<Key>>,
    /// Number of names that each node has lost, perhaps only for a time.
    taken: HashMap<u64, usize>,
    nodes: HashMap<u64, NewestNode>,
    /// Newest attributes of each node whose attributes have changed, with the commit that set them.
    attributes: HashMap<u64, (u64, Attributes)>,
    extents: HashMap<u64, ExtentChange>,
    chunks: HashMap<u64, Bytes>,
    /// New chunks that are shared by content, by BLAKE3 hash.
    shared: HashMap<Vec<u8>, u64>,
    judged: HashMap<(u64, Digest), JudgedRow>,
    /// Staged bodies that were used.
    staged: HashSet<u128>,
    /// Snapshots by owner and name: true if created, false if dropped.
    snapshots: HashMap<(String, String), bool>,
    /// Commit ids, with their owners.
    commits: HashSet<(String, CommitId)>,
    /// Idempotency keys, with their owners.
    records: HashSet<(String, String)>,
    /// Quotas with their usage after the last batch, once they have been read.
    quotas: RefCell<Option<Arc<Quotas>>>,
}

impl Pending {
    /// Returns the head row after the last batch.
    pub(super) fn head(&self) -> Option<HeadRow> {
        self.heads.map(|(_, last)| last)
    }

    /// Adds the changes of a batch, which was planned on this state at the head row `before`.
    pub(super) fn add(&mut self, batch: &Batch, delta: &Delta, heads: (HeadRow, HeadRow)) {
        self.add_rows(delta, heads);
        let owner = batch.owner_key();
        for (name, made) in &delta.snapshots {
            self.snapshots.insert((owner.to_owned(), name.clone()), *made);
        }
        self.commits.extend(batch.id.map(|id| (owner.to_owned(), id)));
        let keeper = || batch.record_owner_key().to_owned();
        self.records.extend(batch.idempotency.iter().map(|record| (keeper(), record.key.clone())));
    }

    /// Adds the rows that a batch changed, apart from those of its owner.
    pub(super) fn add_rows(&mut self, delta: &Delta, (before, after): (HeadRow, HeadRow)) {
        let first = self.heads.map_or(before, |(first, _)| first);
        self.heads = Some((first, after));
        for (key, change) in &delta.names {
            self.change_name(key, change);
        }
        for (node, write) in delta.node_writes() {
            self.nodes.insert(node.ino, write.newest(node));
        }
        for (ino, set) in &delta.attributes {
            self.attributes.insert(*ino, (after.seq, set.clone()));
        }
        for (ino, change) in &delta.extents {
            self.change_extents(*ino, change);
        }
        for chunk in delta.chunks.values() {
            self.chunks.insert(chunk.id, chunk.data.clone());
            if chunk.sum.len() > SHORT_SUM {
                self.shared.insert(chunk.sum.clone(), chunk.id);
            }
        }
        self.judged.extend(delta.judged.iter().map(|(key, row)| (*key, *row)));
        self.staged.extend(delta.staged.iter().map(|(id, _)| *id));
        if !delta.quotas.is_empty()
            && let Some(quotas) = self.quotas.get_mut()
        {
            Arc::make_mut(quotas).use_up(&delta.quotas);
        }
    }

    fn change_name(&mut self, key: &Key, change: &NameChange) {
        if let Some(before) = change.before {
            *self.taken.entry(before.ino).or_default() += 1;
            if let Some(keys) = self.given.get_mut(&before.ino) {
                keys.remove(key);
            }
        }
        if let Some(after) = change.after {
            self.given.entry(after.ino).or_default().insert(key.clone());
        }
        self.names.insert(key.clone(), change.after);
    }

    fn change_extents(&mut self, ino: u64, change: &ExtentChange) {
        let own = self.extents.entry(ino).or_default();
        for (off, row) in &change.closed {
            // An extent of an earlier batch is just dropped: the database has no row of it.
            if own.added.remove(off).is_none() {
                own.closed.insert(*off, *row);
            }
        }
        own.added.extend(change.added.iter().map(|(off, row)| (*off, *row)));
    }

    fn is_empty(&self) -> bool {
        self.heads.is_none()
    }

    /// Returns true if the database has no rows of a node, because a batch created it.
    fn is_new(&self, ino: u64) -> bool {
        self.heads.is_some_and(|(first, _)| ino >= first.next_ino)
    }

    /// Returns true if the state after commit `seq` is not in the database yet.
    fn is_ahead(&self, seq: u64) -> bool {
        self.heads.is_some_and(|(first, _)| seq > first.seq)
    }

    /// Returns how many names of the database in a directory may have ended.
    fn ended_in(&self, dir: &str) -> usize {
        let from = (dir.to_owned(), String::new());
        let inside = self.names.range(from..).take_while(|((at, _), _)| at == dir);
        inside.filter(|(_, row)| row.is_none()).count()
    }

    /// Returns how many names of the database may no longer lead to a node.
    fn taken_from(&self, ino: u64) -> usize {
        self.taken.get(&ino).copied().unwrap_or_default()
    }

    /// Returns true if a name in a region may have changed.
    fn has_changed(&self, region: &Region) -> bool {
        let start = |dir: String| (dir, String::new());
        let mut ranges = region.ranges().into_iter();
        ranges.any(|(from, to)| self.names.range(start(from)..start(to)).next().is_some())
    }
}

/// Rows as they will be once pending changes are written.
pub(super) struct Overlay<'a, R> {
    /// Rows of the database.
    rows: &'a R,
    pending: &'a Pending,
    /// Answer to [`Rows::is_open`], which each caller of a batch gets from its own handle.
    is_open: &'a dyn Fn(u64) -> Result<bool>,
    /// True once rows were read that are known only when the changes are written.
    barrier: Cell<bool>,
}

impl<'a, R: Rows> Overlay<'a, R> {
    pub(super) fn new(rows: &'a R, pending: &'a Pending, is_open: &'a dyn Fn(u64) -> Result<bool>) -> Self {
        Self { rows, pending, is_open, barrier: Cell::new(false) }
    }

    /// Returns true if rows were read that are known only once the pending changes are written.
    pub(super) fn met_barrier(&self) -> bool {
        self.barrier.get()
    }

    /// Returns the rows of the database.
    pub(super) fn database(&self) -> &'a R {
        self.rows
    }

    /// Returns the changes of the extents of a file.
    pub(super) fn extent_change(&self, ino: u64) -> Option<&ExtentChange> {
        self.pending.extents.get(&ino)
    }

    /// Returns true if the database has no rows of a node, because a batch created it.
    pub(super) fn is_new(&self, ino: u64) -> bool {
        self.pending.is_new(ino)
    }

    /// Fails if pending changes may have changed the rows that are about to be read.
    fn unless(&self, changed: bool) -> Result<()> {
        if !changed {
            return Ok(());
        }
        self.barrier.set(true);
        // As for a row that has not been fetched: the result of this run is dropped.
        Err(Error::new(ErrorKind::Unavailable, "the batches before this one have to be written first"))
    }

    /// Returns the key of the rows of the database that a read of `key` takes; `None` if it takes none.
    fn below(&self, key: RowKey) -> Option<RowKey> {
        let pending = self.pending;
        match key {
            RowKey::IsOpen(_) => None,
            RowKey::Node(ino)
            | RowKey::NamesOf(ino, ..)
            | RowKey::Attributes(ino, _)
            | RowKey::Extents(ino, ..)
            | RowKey::Judged(ino, _)
                if pending.is_new(ino) =>
            {
                None
            }
            RowKey::Node(ino) if pending.nodes.contains_key(&ino) => None,
            RowKey::Chunk(id) if pending.chunks.contains_key(&id) => None,
            RowKey::Staged(id) if pending.staged.contains(&id) => None,
            RowKey::Name(dir, name) => {
                let key = (dir, name);
                (!pending.names.contains_key(&key)).then_some(RowKey::Name(key.0, key.1))
            }
            RowKey::NamesIn(dir, limit) => {
                let limit = limit.saturating_add(pending.ended_in(&dir));
                Some(RowKey::NamesIn(dir, limit))
            }
            RowKey::NamesOf(ino, within, limit) => {
                let limit = limit.saturating_add(pending.taken_from(ino));
                Some(RowKey::NamesOf(ino, within, limit))
            }
            key => Some(key),
        }
    }
}

impl<R: Rows> Rows for Overlay<'_, R> {
    const PREFETCHES: bool = R::PREFETCHES;

    fn prefetch(&self, keys: Vec<RowKey>) {
        self.rows.prefetch(keys.into_iter().filter_map(|key| self.below(key)).collect());
    }

    fn rules(&self) -> &Rules {
        self.rows.rules()
    }

    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        if !self.pending.names.is_empty()
            && let Some(row) = self.pending.names.get(&(dir.to_owned(), name.to_owned()))
        {
            return Ok(*row);
        }
        self.rows.name(dir, name)
    }

    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>> {
        // More than the limit, so that enough are left of them.
        let rows = self.rows.names_in(dir, limit.saturating_add(self.pending.ended_in(dir)))?;
        let mut names: BTreeMap<String, NameRow> = rows.into_iter().collect();
        let changed = self.pending.names.range((dir.to_owned(), String::new())..);
        for ((_, name), row) in changed.take_while(|((at, _), _)| at == dir) {
            match row {
                Some(row) => names.insert(name.clone(), *row),
                None => names.remove(name),
            };
        }
        Ok(names.into_iter().take(limit).collect())
    }

    fn names_below(&self, region: &Region, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        self.unless(self.pending.has_changed(region))?;
        self.rows.names_below(region, limit)
    }

    fn longest_path(&self, region: &Region) -> Result<(usize, usize)> {
        self.unless(self.pending.has_changed(region))?;
        self.rows.longest_path(region)
    }

    fn expired_in(&self, region: &Region, time: i64) -> Result<Vec<u64>> {
        // Any node with a name there may have another expiry.
        self.unless(!self.pending.is_empty())?;
        self.rows.expired_in(region, time)
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<Key>> {
        let pending = self.pending;
        let mut keys = match pending.is_new(ino) {
            true => Vec::new(),
            false => self.rows.names_of(ino, within, limit.saturating_add(pending.taken_from(ino)))?,
        };
        // Those that still lead to the node are among the given ones.
        keys.retain(|key| !pending.names.contains_key(key));
        let given = pending.given.get(&ino).into_iter().flatten();
        keys.extend(given.filter(|(dir, name)| within.contains(&TreePath::from_row(dir, name))).cloned());
        keys.truncate(limit);
        Ok(keys)
    }

    fn newest_node(&self, ino: u64) -> Result<Option<NewestNode>> {
        match self.pending.nodes.get(&ino) {
            Some(node) => Ok(Some(node.clone())),
            None if self.pending.is_new(ino) => Ok(None),
            None => self.rows.newest_node(ino),
        }
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        match self.pending.attributes.get(&ino) {
            Some((since, attributes)) if *since == seq => Ok(attributes.clone()),
            _ => self.rows.attributes(ino, seq),
        }
    }

    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        let mut rows = match self.pending.is_new(ino) {
            true => Vec::new(),
            false => self.rows.extents(ino, from, to)?,
        };
        if let Some(change) = self.pending.extents.get(&ino) {
            rows.retain(|row| !change.closed.contains_key(&row.off));
            rows.extend(overlapping(&change.added, from, to));
            rows.sort_unstable_by_key(|row| row.off);
        }
        Ok(rows)
    }

    fn is_open(&self, ino: u64) -> Result<bool> {
        (self.is_open)(ino)
    }

    fn judged(&self, ino: u64, constraint: &Digest) -> Result<Option<JudgedRow>> {
        let pending = self.pending;
        // A file without a name is under no rule: its rows go with its last name.
        if pending.nodes.get(&ino).is_some_and(|node| node.row.nlink == 0) {
            return Ok(None);
        }
        match pending.judged.get(&(ino, *constraint)) {
            Some(row) => Ok(Some(*row)),
            None if pending.is_new(ino) => Ok(None),
            None => self.rows.judged(ino, constraint),
        }
    }

    fn stored(&self, hash: &[u8]) -> Result<Stored> {
        match self.pending.shared.get(hash) {
            Some(id) => Ok(Stored::Sound(*id)),
            None => self.rows.stored(hash),
        }
    }

    fn chunk(&self, id: u64) -> Result<Bytes> {
        match self.pending.chunks.get(&id) {
            Some(data) => Ok(data.clone()),
            None => self.rows.chunk(id),
        }
    }

    fn staged(&self, id: u128) -> Result<Option<StagedRow>> {
        if self.pending.staged.contains(&id) { Ok(None) } else { self.rows.staged(id) }
    }

    fn committed(&self, owner: &str, id: CommitId) -> Result<Option<Commit>> {
        self.unless(self.pending.commits.contains(&(owner.to_owned(), id)))?;
        self.rows.committed(owner, id)
    }

    fn has_snapshot(&self, owner: &str, name: &str) -> Result<bool> {
        match self.pending.snapshots.get(&(owner.to_owned(), name.to_owned())) {
            Some(made) => Ok(*made),
            None => self.rows.has_snapshot(owner, name),
        }
    }

    fn idempotency(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        self.unless(self.pending.records.contains(&(owner.to_owned(), key.to_owned())))?;
        self.rows.idempotency(owner, key)
    }

    fn time_of(&self, seq: u64) -> Result<Timestamp> {
        self.unless(self.pending.is_ahead(seq))?;
        self.rows.time_of(seq)
    }

    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>> {
        self.unless(self.pending.is_ahead(seq))?;
        self.rows.name_at(dir, name, seq)
    }

    fn names_below_at(&self, dir: &str, seq: u64, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        self.unless(self.pending.is_ahead(seq))?;
        self.rows.names_below_at(dir, seq, limit)
    }

    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<Key>> {
        self.unless(self.pending.is_ahead(seq))?;
        self.rows.names_of_at(ino, seq, within)
    }

    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>> {
        self.unless(self.pending.is_ahead(seq) && self.pending.nodes.contains_key(&ino))?;
        self.rows.node_at_seq(ino, seq)
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        self.unless(self.pending.is_ahead(seq))?;
        self.rows.extents_at(ino, seq, from, to)
    }

    fn quotas(&self) -> Result<Arc<Quotas>> {
        let mut known = self.pending.quotas.borrow_mut();
        if let Some(quotas) = &*known {
            return Ok(Arc::clone(quotas));
        }
        let quotas = self.rows.quotas()?;
        *known = Some(Arc::clone(&quotas));
        Ok(quotas)
    }

    fn tally(&self, ranges: &[(String, String)]) -> Result<Tally> {
        // Any file with a name there may have another size.
        self.unless(!self.pending.is_empty())?;
        self.rows.tally(ranges)
    }

    fn due(&self, time: i64, within: &Within, after: (i64, u64), limit: usize) -> Result<Vec<(i64, u64)>> {
        self.unless(!self.pending.is_empty())?;
        self.rows.due(time, within, after, limit)
    }
}
