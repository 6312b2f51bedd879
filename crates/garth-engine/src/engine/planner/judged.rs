//! Input of the rules for a batch: the nodes that it touched, and the state that it would leave.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{HeadRow, JudgedRow, NameRow, NodeRow, RowKey, Rows};
use super::state::Planner;
use super::subtrees::{Key, key_of};
use crate::error::{Error, Result};
use crate::model::{Batch, ChangeKind, Ino, Kind, Timestamp, Within};
use crate::path::{Name, TreePath};
use crate::rule::{self, Caller, CommitEffects, Digest, Entries, File, JudgedState, Place};

impl<R: Rows> Planner<'_, R> {
    /// Refuses a batch that violates a rule. Runs after all operations, because rules judge the complete
    /// state that the batch would leave.
    pub(super) fn judge(&mut self, batch: &Batch) -> Result<()> {
        let (caller, touched) = (Caller::of(batch), self.touched()?);
        let mut after = StateAfter { planner: self, judged: BTreeMap::new() };
        rule::judge(self.rules, caller, self.within, &touched, &mut after)?;
        self.delta.judged = after.judged;
        Ok(())
    }

    fn touched(&self) -> Result<CommitEffects> {
        let delta = &self.delta;
        let mut touched = CommitEffects::default();
        for node in delta.nodes.values() {
            if node.kind == Kind::File && node.content_seq == self.seq && node.nlink > 0 {
                touched
                    .written
                    .insert(Ino(node.ino), delta.edited.get(&node.ino).copied().unwrap_or_default());
            }
        }
        touched.own = delta.own.iter().copied().map(Ino).collect();
        touched.rewritten = delta.rewritten.iter().copied().map(Ino).collect();
        let attributes = delta.log.iter().filter(|change| matches!(change.kind, ChangeKind::Attributes));
        touched.attributes = attributes.map(|change| Ino(change.ino)).collect();
        let mut moved = Vec::new();
        for (ino, key, row) in delta.all_given_names() {
            let now = TreePath::from_row(&key.0, &key.1);
            // Everything in a directory that the batch created has a new name of its own, and is judged by
            // that.
            if row.kind == Kind::Directory && ino < self.first_ino && self.rules.may_have(&now) {
                moved.push((ino, now.clone()));
            }
            let before = delta.names.get(key).and_then(|change| change.before);
            if before.is_none_or(|before| before.ino != ino) {
                touched.named.push((now, Ino(ino), row.kind));
            }
        }
        for ((dir, name), change) in &delta.names {
            if change.before.is_some_and(|before| change.after.is_none_or(|after| after.ino != before.ino)) {
                touched.lost.push(TreePath::from_row(dir, name));
            }
        }
        let left = delta.subtrees.left().into_iter();
        touched.left = left.map(|region| TreePath::from_key(region.dir)).collect();
        self.prefetch(moved.iter().map(|(ino, _)| RowKey::NamesOf(*ino, Within::everything(), usize::MAX)));
        for (ino, now) in moved {
            touched.moved.extend(self.place(ino)?.map(|before| (before, now)));
        }
        Ok(touched)
    }

    /// Returns the path of a directory before the batch.
    fn place(&self, ino: u64) -> Result<Option<TreePath>> {
        // A directory has one name.
        let names = self.rows.names_of(ino, &Within::everything(), usize::MAX)?;
        Ok(names.first().map(|(dir, name)| TreePath::from_row(dir, name)))
    }

    /// Returns the names of a node within some subtrees, or all of them. Reads nothing if the batch knows
    /// the only one.
    pub(super) fn names_after(&self, ino: u64, within: &Within) -> Result<Vec<Key>> {
        // The batch may have met only one of several names.
        if self.node(ino)?.nlink == 1 {
            if let Some(key) = self.delta.given(ino).next() {
                return Ok(vec![key.clone()]);
            }
            if let Some(key) = self.addressed.get(&ino)
                && self.still_names(key, ino)?
            {
                return Ok(vec![key.clone()]);
            }
        }
        self.names_within(ino, within)
    }

    /// Returns true if a name that led to a node in the middle of the batch still does.
    fn still_names(&self, key: &Key, ino: u64) -> Result<bool> {
        let row = match self.delta.names.get(key) {
            Some(change) => change.after,
            None if self.delta.subtrees.is_empty() => return Ok(true),
            None => self.name(&key.0, &key.1)?,
        };
        Ok(row.is_some_and(|row| row.ino == ino))
    }

    /// Returns the names in a directory as the batch leaves them. About `limit` of them are read.
    fn entries_after(&self, dir: &str, limit: usize) -> Result<BTreeMap<String, NameRow>> {
        let source = self.delta.subtrees.source(dir);
        let rows = source.map_or(Ok(Vec::new()), |source| self.rows.names_in(&source, limit))?;
        let mut entries: BTreeMap<String, NameRow> = rows.into_iter().collect();
        // The batch's own changes come last: they replace rows of the database.
        for ((_, name), after) in self.delta.changed_in(dir) {
            match after {
                Some(row) => entries.insert(name.clone(), row),
                None => entries.remove(name),
            };
        }
        Ok(entries)
    }
}

/// Judges the state at `head` by the rules of `rows`, see [`rule::judge_state`]. Returns how far each file
/// satisfies its constraints.
///
/// # Errors
/// As [`rule::judge_state`]. Errors of `rows` are passed on unchanged.
pub fn judge_state<R: Rows>(
    rows: &R,
    (head, now): (HeadRow, Timestamp),
    files: &BTreeSet<Ino>,
    places: &[TreePath],
    bytes: u64,
) -> Result<BTreeMap<(u64, Digest), JudgedRow>> {
    let everything = Within::everything();
    let planner = Planner::on(rows, head, now, &everything);
    let mut after = StateAfter { planner: &planner, judged: BTreeMap::new() };
    rule::judge_state(planner.rules, files, places, bytes, &mut after)?;
    Ok(after.judged)
}

/// State that a batch would leave, and the results of checks on it.
struct StateAfter<'p, 'a, R> {
    planner: &'p Planner<'a, R>,
    judged: BTreeMap<(u64, Digest), JudgedRow>,
}

impl<R: Rows> StateAfter<'_, '_, R> {
    /// Returns the node that a name leads to. `node` determines whether it has expired.
    fn unless_expired(
        &self,
        row: Option<NameRow>,
        node: impl FnOnce(u64) -> Result<NodeRow>,
    ) -> Result<Option<(Ino, Kind)>> {
        // Directories do not expire: their nodes need not be read.
        let Some(row) = row else { return Ok(None) };
        let expired = row.kind != Kind::Directory && node(row.ino)?.expired(self.planner.time);
        Ok((!expired).then_some((Ino(row.ino), row.kind)))
    }

    /// Returns a node as it was before the batch.
    fn node_before(&self, ino: u64) -> Result<NodeRow> {
        self.planner.rows.node(ino)?.ok_or_else(Error::no_node)
    }
}

impl<R: Rows> JudgedState for StateAfter<'_, '_, R> {
    const PREFETCHES: bool = R::PREFETCHES;

    fn file(&mut self, ino: Ino) -> Result<Option<File>> {
        let node = self.planner.node(ino.0)?;
        let there = node.kind == Kind::File && node.nlink > 0 && !node.expired(self.planner.time);
        Ok(there.then_some(File { size: node.size, expires: node.expires_at.is_some() }))
    }

    fn paths(&mut self, ino: Ino, within: &Within) -> Result<Vec<TreePath>> {
        let names = self.planner.names_after(ino.0, within)?;
        Ok(names.iter().map(|(dir, name)| TreePath::from_row(dir, name)).collect())
    }

    fn entry(&mut self, path: &TreePath) -> Result<Option<(Ino, Kind)>> {
        let Some((dir, name)) = key_of(path) else { return Ok(None) };
        self.unless_expired(self.planner.name(&dir, &name)?, |ino| self.planner.node(ino))
    }

    fn entries(&mut self, dir: &TreePath, limit: usize) -> Result<Entries> {
        listed(self.planner.entries_after(dir.key(), limit)?)
    }

    fn read(&mut self, ino: Ino, from: u64, length: u64) -> Result<Vec<u8>> {
        // All chunks in one round instead of one round for each.
        if R::PREFETCHES {
            let stored = |chunk: &u64| !self.planner.delta.chunks.contains_key(chunk);
            let extents = self.planner.extents_to_read(ino.0, from, from + length)?;
            let chunks = extents.into_iter().map(|extent| extent.chunk);
            self.planner.prefetch(chunks.filter(stored).map(RowKey::Chunk));
        }
        self.planner.read(ino.0, from, length)
    }

    fn entry_before(&mut self, path: &TreePath) -> Result<Option<(Ino, Kind)>> {
        let Some((dir, name)) = key_of(path) else { return Ok(None) };
        self.unless_expired(self.planner.rows.name(&dir, &name)?, |ino| self.node_before(ino))
    }

    fn entries_before(&mut self, dir: &TreePath, limit: usize) -> Result<Entries> {
        listed(self.planner.rows.names_in(dir.key(), limit)?)
    }

    fn size_before(&mut self, ino: Ino) -> Result<u64> {
        Ok(self.node_before(ino.0)?.size)
    }

    fn read_before(&mut self, ino: Ino, length: u64) -> Result<Vec<u8>> {
        let rows = self.planner.rows;
        let mut bytes = Vec::new();
        let extents = rows.extents(ino.0, 0, length)?;
        self.planner.prefetch(extents.iter().map(|extent| RowKey::Chunk(extent.chunk)));
        for extent in extents {
            let part = extent.cut(0, length);
            // A hole before this extent.
            bytes.resize(part.off as usize, 0);
            let chunk = rows.chunk(part.chunk)?;
            let piece = chunk.get(part.skip as usize..).and_then(|rest| rest.get(..part.len as usize));
            bytes.extend_from_slice(piece.unwrap_or_default());
        }
        bytes.resize(length as usize, 0);
        Ok(bytes)
    }

    fn known(&mut self, ino: Ino, constraint: &Digest) -> Result<Place> {
        let planner = self.planner;
        // The database knows nothing about a file that the batch created.
        if ino.0 >= planner.first_ino {
            return Ok(Place::START);
        }
        let Some(row) = planner.rows.judged(ino.0, constraint)? else { return Ok(Place::START) };
        let changed = planner.delta.edited.get(&ino.0);
        // The check continues from the recorded place only if the file has the content that was checked,
        // which is another one if it was written while the rule was not in force, and if the batch changes
        // nothing before that place.
        let counts = row.etag == self.node_before(ino.0)?.content_seq
            && changed.is_none_or(|first| row.until.offset <= *first);
        Ok(if counts { row.until } else { Place::START })
    }

    fn remember(&mut self, ino: Ino, constraint: &Digest, until: Place) {
        if let Ok(node) = self.planner.node(ino.0) {
            self.judged.insert((ino.0, *constraint), JudgedRow { etag: node.content_seq, until });
        }
    }
}

fn listed(rows: impl IntoIterator<Item = (String, NameRow)>) -> Result<Entries> {
    rows.into_iter().map(|(name, row)| Ok((Name::parse(&name)?, Ino(row.ino), row.kind))).collect()
}
