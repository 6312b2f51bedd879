//! What a batch would change, row by row: read by its later operations, written by
//! the database once it has passed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rows::{Chunk, ExtentRow, JudgedRow, LogChange, NameRow, NodeRow, Staged};
use super::subtrees::{Key, Subtrees};
use crate::model::quota::Usage;
use crate::model::{Attributes, ChangeKind};
use crate::path::TreePath;
use crate::rule::Digest;
use crate::text::passage::Edit;

/// A name before and after. What the database has in a directory whose content has left ends with that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameChange {
    /// The row that ends.
    pub before: Option<NameRow>,
    /// The row that begins.
    pub after: Option<NameRow>,
}

/// The extents of one file before and after.
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
    /// Names given and ended.
    pub names: BTreeMap<Key, NameChange>,
    /// Subtrees that were moved or removed, without the names in them that the batch did not change.
    pub subtrees: Subtrees,
    /// Names that this batch gave, by node; some may have lost it again.
    given: HashMap<u64, BTreeSet<Key>>,
    /// New versions of nodes, by number.
    pub nodes: BTreeMap<u64, NodeRow>,
    /// Attributes of the new versions that have others than before.
    pub attributes: BTreeMap<u64, Attributes>,
    /// Extents of files, by number.
    pub extents: BTreeMap<u64, ExtentChange>,
    /// New stored bytes, by number.
    pub chunks: BTreeMap<u64, Chunk>,
    /// New chunks of this batch that are shared by content, by BLAKE3.
    pub(super) dedup: HashMap<Vec<u8>, u64>,
    /// Nodes whose moment of expiry changed; `None` for never or removed.
    pub expiry: BTreeMap<u64, Option<i64>>,
    /// `true`: made, `false`: dropped.
    pub snapshots: BTreeMap<String, bool>,
    /// Staged bodies that are used up.
    pub staged: Vec<(u128, Staged)>,
    /// What search has to look at again: files whose bytes, type or searchability
    /// changed, and files that were removed.
    pub index: BTreeMap<u64, Edit>,
    /// The first byte that may differ of each file whose content changed.
    pub(super) edited: HashMap<u64, u64>,
    /// How far files were found to be as a demand asks.
    pub judged: BTreeMap<(u64, Digest), JudgedRow>,
    /// Nodes whose attributes changed, and nodes with attributes that have ended: the keys that are derived
    /// from them may be others.
    pub keyed: BTreeSet<u64>,
    /// What the log says of this commit, in order.
    pub log: Vec<LogChange>,
    /// Nodes without a name that were changed through an open handle, which needs a lease.
    pub unnamed: BTreeSet<u64>,
    /// What is used of quotas of which that has changed, by the keys of their paths.
    pub quotas: BTreeMap<String, Usage>,
}

impl Delta {
    /// Sets a name. `before` is the row that the database has.
    pub(super) fn set_name(&mut self, key: Key, before: Option<NameRow>, after: Option<NameRow>) {
        if let Some(row) = after {
            self.given.entry(row.ino).or_default().insert(key.clone());
        }
        self.names.entry(key).or_insert(NameChange { before, after: None }).after = after;
    }

    /// The names in and below a directory that this batch changed, and what is there now.
    pub(crate) fn names_in(&self, dir: &str) -> Vec<(Key, Option<NameRow>)> {
        let inside = self.names.range((dir.to_owned(), String::new())..);
        let inside = inside.take_while(|((at, _), _)| at == dir);
        let (from, to) = ((format!("{dir}/"), String::new()), (format!("{dir}0"), String::new()));
        let below = self.names.range(from..to);
        inside.chain(below).map(|(key, change)| (key.clone(), change.after)).collect()
    }

    /// Forgets what this batch did to names in and below a directory.
    pub(crate) fn forget_names_in(&mut self, dir: &str) {
        for (key, _) in self.names_in(dir) {
            self.names.remove(&key);
        }
    }

    /// Names that this batch gave to a node and that it still has.
    pub(super) fn given(&self, ino: u64) -> impl Iterator<Item = &Key> {
        let has = move |key: &&Key| {
            self.names.get(*key).and_then(|change| change.after).is_some_and(|row| row.ino == ino)
        };
        self.given.get(&ino).into_iter().flatten().filter(has)
    }

    /// Names that this batch gave and that still are given, each with its node.
    pub(super) fn all_given(&self) -> impl Iterator<Item = (u64, &Key, NameRow)> {
        self.given.keys().flat_map(move |ino| {
            self.given(*ino).filter_map(move |key| Some((*ino, key, self.names.get(key)?.after?)))
        })
    }

    /// The names in a directory that this batch changed, and what is there now.
    pub(super) fn changed_in(&self, dir: &str) -> impl Iterator<Item = (&Key, Option<NameRow>)> {
        let from = (dir.to_owned(), String::new());
        let inside = self.names.range(from..).take_while(move |((at, _), _)| at == dir);
        inside.map(|(key, change)| (key, change.after))
    }

    pub(super) fn log(&mut self, kind: ChangeKind, ino: u64, path: Option<TreePath>) {
        self.log.push(LogChange { kind, ino, path, whole: false });
    }

    /// Tells search what was done to a file.
    pub(super) fn touch(&mut self, ino: u64, edit: Edit) {
        self.index.entry(ino).and_modify(|known| *known = known.then(edit)).or_insert(edit);
    }

    /// Notes the first byte of a file that an edit may have changed.
    pub(super) fn edit(&mut self, ino: u64, first: u64) {
        self.edited.entry(ino).and_modify(|known| *known = first.min(*known)).or_insert(first);
    }

    /// By how much the references to each chunk change, without those that stay as many. Extents, ended ones
    /// too, and staged bodies refer to chunks; a new chunk is written as one that has one reference, so that
    /// the common case costs nothing.
    pub fn references(&self) -> BTreeMap<u64, i64> {
        let mut by: BTreeMap<u64, i64> = BTreeMap::new();
        for row in self.extents.values().flat_map(|change| change.added.values()) {
            *by.entry(row.chunk).or_default() += 1;
        }
        let staged = self.staged.iter().flat_map(|(_, body)| &body.0).map(|(chunk, _)| chunk);
        for chunk in staged.chain(self.chunks.keys()) {
            *by.entry(*chunk).or_default() -= 1;
        }
        by.retain(|_, by| *by != 0);
        by
    }

    /// Drops what this batch made and unmade itself. `first` is the first inode number that it could give.
    pub(super) fn finish(&mut self, first: u64, seq: u64) {
        let subtrees = &self.subtrees;
        self.names.retain(|(dir, _), change| {
            if subtrees.has_left(dir) {
                change.before = None;
                // one that is not there hides what was moved here
                return true;
            }
            match (&change.before, &mut change.after) {
                // moved away and back: the name never changed hands
                (Some(before), Some(after)) => before.ino != after.ino,
                (None, None) => false,
                _ => true,
            }
        });
        // a node that was made and lost its last name within the batch was never there for anybody
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
        let live: BTreeSet<u64> = self
            .extents
            .values()
            .flat_map(|change| change.added.values())
            .filter(|row| row.since == seq)
            .map(|row| row.chunk)
            .collect();
        self.chunks.retain(|id, _| live.contains(id));
        self.extents.retain(|_, change| !change.closed.is_empty() || !change.added.is_empty());
    }
}
