//! Row changes of a batch. Later operations of the batch read them; the database writes them once the batch
//! has passed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::node_change::NodeWrite;
use super::rows::{Chunk, ExtentRow, JudgedRow, LogChange, NameRow, NodeRow, Staged};
use super::subtrees::{Key, Subtrees};
use crate::model::quota::Usage;
use crate::model::{Attributes, ChangeKind};
use crate::path::TreePath;
use crate::rule::Digest;
use crate::text::passage::Edit;

/// Row of a name before and after the batch. In a directory that was moved or removed as a whole, `before` is
/// `None`: its database rows are ended together, as a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameChange {
    /// Row that ends.
    pub before: Option<NameRow>,
    /// Row that begins.
    pub after: Option<NameRow>,
}

/// Changes to the extents of one file.
#[derive(Clone, Debug, Default)]
pub struct ExtentChange {
    /// Rows of the database that end with this commit, by offset.
    pub closed: BTreeMap<u64, ExtentRow>,
    /// New rows, by offset.
    pub added: BTreeMap<u64, ExtentRow>,
}

/// All row changes of a batch.
#[derive(Debug, Default)]
pub struct Delta {
    /// Names that begin and end.
    pub names: BTreeMap<Key, NameChange>,
    /// Subtrees that were moved or removed. Names in them that the batch did not touch are not in `names`.
    pub subtrees: Subtrees,
    /// Keys that this batch gave to each node and has not taken away again.
    given: HashMap<u64, BTreeSet<Key>>,
    /// New versions of nodes, by inode.
    pub nodes: BTreeMap<u64, NodeRow>,
    /// Row changes that store these versions, by inode. Known once the batch is planned.
    pub writes: BTreeMap<u64, NodeWrite>,
    /// Attributes of the new versions whose attributes changed, by inode.
    pub attributes: BTreeMap<u64, Attributes>,
    /// Changes to extents, by the inode of their file.
    pub extents: BTreeMap<u64, ExtentChange>,
    /// New chunks, by number.
    pub chunks: BTreeMap<u64, Chunk>,
    /// Lengths of chunks that the batch did not write, because the account had their content, by number.
    pub shared: BTreeMap<u64, u64>,
    /// New chunks that are shared by content, by BLAKE3 hash.
    pub(super) dedup: HashMap<Vec<u8>, u64>,
    /// New expiry of nodes, by inode; `None` if they never expire or were removed.
    pub expiry: BTreeMap<u64, Option<i64>>,
    /// Snapshots by name: true if created, false if dropped.
    pub snapshots: BTreeMap<String, bool>,
    /// Staged bodies that the batch has used.
    pub staged: Vec<(u128, Staged)>,
    /// Files that search has to index again: bytes, type or searchability changed, or the file was removed.
    pub index: BTreeMap<u64, Edit>,
    /// First byte that may differ, for each file whose content changed.
    pub(super) edited: HashMap<u64, u64>,
    /// Files that the batch gave all of their content.
    pub(super) own: BTreeSet<u64>,
    /// Files whose content the batch changed otherwise than by an append.
    pub(super) rewritten: BTreeSet<u64>,
    /// Progress of checks: how far each file satisfies a constraint.
    pub judged: BTreeMap<(u64, Digest), JudgedRow>,
    /// Nodes whose attributes changed, and nodes with attributes that have ended: keys that are derived
    /// from attributes may have changed.
    pub keyed: BTreeSet<u64>,
    /// Entries of the log for this commit, in order.
    pub log: Vec<LogChange>,
    /// Nodes without a name that were changed through an open handle. Each needs a lease.
    pub unnamed: BTreeSet<u64>,
    /// New usage of the quotas whose usage changed, by the keys of their paths.
    pub quotas: BTreeMap<String, Usage>,
}

impl Delta {
    /// Sets a name. `before` is the row of the database.
    pub(super) fn set_name(&mut self, key: Key, before: Option<NameRow>, after: Option<NameRow>) {
        // Or each look at the names of a node would go through all that it ever had in this batch.
        if let Some(taken) = self.names.get(&key).and_then(|change| change.after) {
            self.ungive(taken.ino, &key);
        }
        if let Some(row) = after {
            self.given.entry(row.ino).or_default().insert(key.clone());
        }
        // If the name was changed before in this batch, `before` stays the row of the database.
        self.names.entry(key).or_insert(NameChange { before, after: None }).after = after;
    }

    fn ungive(&mut self, ino: u64, key: &Key) {
        if let Some(keys) = self.given.get_mut(&ino) {
            keys.remove(key);
        }
    }

    /// Returns the names in and below a directory that this batch changed, with their present row.
    pub(crate) fn names_in(&self, dir: &str) -> Vec<(Key, Option<NameRow>)> {
        let inside = self.names.range((dir.to_owned(), String::new())..);
        let inside = inside.take_while(|((at, _), _)| at == dir);
        // `0` is the byte after `/`: between the two are the keys of all directories below.
        let (from, to) = ((format!("{dir}/"), String::new()), (format!("{dir}0"), String::new()));
        let below = self.names.range(from..to);
        inside.chain(below).map(|(key, change)| (key.clone(), change.after)).collect()
    }

    /// Forgets the changes of this batch to names in and below a directory.
    pub(crate) fn forget_names_in(&mut self, dir: &str) {
        for (key, row) in self.names_in(dir) {
            self.names.remove(&key);
            if let Some(row) = row {
                self.ungive(row.ino, &key);
            }
        }
    }

    /// Returns the names that this batch gave to a node and that it still has.
    pub(super) fn given(&self, ino: u64) -> impl Iterator<Item = &Key> {
        let has = move |key: &&Key| {
            self.names.get(*key).and_then(|change| change.after).is_some_and(|row| row.ino == ino)
        };
        self.given.get(&ino).into_iter().flatten().filter(has)
    }

    /// Returns the names that this batch gave and that still exist, each with its node.
    pub(super) fn all_given_names(&self) -> impl Iterator<Item = (u64, &Key, NameRow)> {
        self.given.keys().flat_map(move |ino| {
            self.given(*ino).filter_map(move |key| Some((*ino, key, self.names.get(key)?.after?)))
        })
    }

    /// Returns the names in a directory that this batch changed, with their present row.
    pub(super) fn changed_in(&self, dir: &str) -> impl Iterator<Item = (&Key, Option<NameRow>)> {
        let from = (dir.to_owned(), String::new());
        let inside = self.names.range(from..).take_while(move |((at, _), _)| at == dir);
        inside.map(|(key, change)| (key, change.after))
    }

    pub(super) fn log(&mut self, kind: ChangeKind, ino: u64, path: Option<TreePath>) {
        self.log.push(LogChange { kind, ino, path, whole: false });
    }

    /// Records an edit of a file for search.
    pub(super) fn touch(&mut self, ino: u64, edit: Edit) {
        // Search gets one edit for each file, from its state before the batch to the one after.
        self.index.entry(ino).and_modify(|known| *known = known.then(edit)).or_insert(edit);
    }

    /// Records the first byte of a file that an edit may have changed.
    pub(super) fn edit(&mut self, ino: u64, first: u64) {
        self.edited.entry(ino).and_modify(|known| *known = first.min(*known)).or_insert(first);
    }

    /// Records that a file has content that was stored elsewhere before.
    pub(super) fn copy_content(&mut self, ino: u64) {
        self.own.remove(&ino);
        self.rewritten.insert(ino);
    }

    /// Returns by how much the number of references to each chunk changes; chunks for which it stays the
    /// same are left out. Extents (ended ones too) and staged bodies refer to chunks. A new chunk is
    /// written with one reference, so that the common case writes no count.
    ///
    /// The database adds each change to its count, which is 1 without a row, in the statement that writes
    /// it: planning reads no count. A count below 0 is damage and fails the batch. A change may be less than
    /// -1.
    pub fn references(&self) -> BTreeMap<u64, i64> {
        let mut by: BTreeMap<u64, i64> = BTreeMap::new();
        for row in self.extents.values().flat_map(|change| change.added.values()) {
            *by.entry(row.chunk).or_default() += 1;
        }
        let staged = self.staged.iter().flat_map(|(_, body)| &body.0).map(|(chunk, _)| chunk);
        // A staged body that is used gives up its references; a new chunk has been counted once.
        for chunk in staged.chain(self.chunks.keys()) {
            *by.entry(*chunk).or_default() -= 1;
        }
        by.retain(|_, by| *by != 0);
        by
    }

    /// Returns true if the batch moved or removed subtrees.
    pub fn moves_subtrees(&self) -> bool {
        !self.subtrees.is_empty() || !self.subtrees.lost().is_empty()
    }

    /// Returns the new versions of nodes, each with the row changes that store it.
    pub fn node_writes(&self) -> impl Iterator<Item = (&NodeRow, &NodeWrite)> {
        self.nodes.iter().filter_map(|(ino, node)| Some((node, self.writes.get(ino)?)))
    }

    /// Drops what this batch both created and removed. `first` is the first inode that it could assign.
    pub(super) fn finish(&mut self, first: u64, seq: u64) {
        let subtrees = &self.subtrees;
        self.names.retain(|(dir, _), change| {
            if subtrees.has_moved_away(dir) {
                change.before = None;
                // A change without a new row is kept as well: it hides a name of the directory that was moved
                // here.
                return true;
            }
            match (&change.before, &mut change.after) {
                // Moved away and back: the name still leads to the same node.
                (Some(before), Some(after)) => before.ino != after.ino,
                (None, None) => false,
                _ => true,
            }
        });
        // Nobody has seen a node that was created and lost its last name within the batch.
        for ino in self
            .nodes
            .range(first..)
            .filter(|(_, node)| node.nlink == 0)
            .map(|(ino, _)| *ino)
            .collect::<Vec<_>>()
        {
            self.nodes.remove(&ino);
            self.attributes.remove(&ino);
            self.extents.remove(&ino);
            self.expiry.remove(&ino);
            self.index.remove(&ino);
            self.keyed.remove(&ino);
        }
        // Bytes that the batch itself has replaced are never read.
        let live: BTreeSet<u64> = self
            .extents
            .values()
            .flat_map(|change| change.added.values())
            .filter(|row| row.since == seq)
            .map(|row| row.chunk)
            .collect();
        self.chunks.retain(|id, _| live.contains(id));
        self.shared.retain(|id, _| live.contains(id));
        self.extents.retain(|_, change| !change.closed.is_empty() || !change.added.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;

    #[test]
    fn names_taken_again_are_forgotten() {
        for count in [20, 2000] {
            let mut delta = Delta::default();
            let row = |ino| Some(NameRow { ino, since: 1, kind: Kind::File });
            let key = |number: u64| ("/d".to_owned(), number.to_string());
            for number in 0..count {
                delta.set_name(key(number), None, row(7));
                // Half of them go to another node.
                delta.set_name(key(number), None, row(8).filter(|_| number % 2 == 0));
            }
            assert_eq!((delta.given[&7].len(), delta.given(8).count() as u64), (0, count / 2));
            delta.forget_names_in("/d");
            assert_eq!(delta.given[&8].len(), 0);
        }
    }
}
