//! Changes of a commit in progress, on top of the state. They are dropped on error, so that nothing of the
//! commit remains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::{LogEntry, Node, State};
use super::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    At, Attributes, Batch, ChangeKind, Ino, Kind, MAX_NEW_NAMES, MAX_NEW_PATH_BYTES, MAX_SET_ATTRIBUTES,
    Owner, Seq, Snapshot, Timestamp, VersionId, Within,
};
use crate::path::{Name, TreePath};

/// Place where an operation creates or removes a name; never the root.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) path: TreePath,
    pub(super) dir: Ino,
    pub(super) name: Name,
    /// Node that has the name now.
    pub(super) taken: Option<Ino>,
}

pub(super) struct Scratch<'a> {
    pub(super) state: &'a State,
    /// Sequence number and time of the commit, if it succeeds.
    pub(super) seq: Seq,
    pub(super) time: Timestamp,
    /// Paths that the batch reaches.
    pub(super) within: &'a Within,
    /// Holders whose open handles the batch reaches.
    holders: &'a [u64],
    /// Node that the outcomes of operations on snapshots are about; `None` for the first top.
    pub(super) root: Option<At>,
    /// Owner of the snapshots and staged bodies that the batch uses.
    pub(super) owner: Option<Owner>,
    pub(super) stagers: Vec<String>,
    /// True if copies bring back what nodes were, with garth's own attributes.
    pub(super) restores: bool,
    pub(super) laid: PendingChanges,
    /// Bytes that conditions have hashed.
    pub(super) hashed: u64,
    /// Names and pieces of content that copies have created.
    pub(super) copied: (usize, usize),
    /// Names that operations have given, and the bytes of their paths.
    given: (usize, usize),
    /// Weight of the attributes that operations have set and copied.
    weight: usize,
}

/// Changes on top of the state.
#[derive(Default)]
pub(super) struct PendingChanges {
    pub(super) names: BTreeMap<Ino, BTreeMap<Name, Option<Ino>>>,
    pub(super) nodes: BTreeMap<Ino, Node>,
    /// Snapshots by owner and name; `None` if dropped.
    pub(super) snapshots: BTreeMap<(String, String), Option<Snapshot>>,
    /// First byte that may differ, for each file whose content changed.
    pub(super) edited: BTreeMap<Ino, u64>,
    /// Files whose complete content the commit brings.
    pub(super) own: BTreeSet<Ino>,
    /// Files with a change of content that is not an append.
    pub(super) rewritten: BTreeSet<Ino>,
    /// Staged bodies that were used.
    pub(super) used: BTreeSet<u128>,
    /// Log entries. A change of a node itself gets its paths at the end of the commit.
    pub(super) changes: Vec<LogEntry>,
    pub(super) next_ino: u64,
}

impl Tree for Scratch<'_> {
    fn node(&self, ino: Ino) -> Option<&Node> {
        self.laid.nodes.get(&ino).or_else(|| self.state.nodes.get(&ino)?.at(self.state.head()))
    }

    fn child(&mut self, dir: Ino, name: &str) -> Option<Ino> {
        let ino = match self.laid.names.get(&dir).and_then(|names| names.get(name)) {
            Some(laid) => (*laid)?,
            None => (*self.state.names.get(&dir)?.get(name)?.at(self.state.head())?)?,
        };
        self.is_named(ino).then_some(ino)
    }

    fn all_names(&self, dir: Ino) -> Vec<(Name, Ino)> {
        let mut children: BTreeMap<Name, Ino> = BTreeMap::new();
        for (name, nodes) in self.state.names.get(&dir).into_iter().flatten() {
            if let Some(ino) = nodes.at(self.state.head()).copied().flatten() {
                children.insert(name.clone(), ino);
            }
        }
        for (name, laid) in self.laid.names.get(&dir).into_iter().flatten() {
            match laid {
                Some(ino) => children.insert(name.clone(), *ino),
                None => children.remove(name),
            };
        }
        children.into_iter().collect()
    }

    /// Returns true if the node has a name. An expired node loses its names first.
    fn is_named(&mut self, ino: Ino) -> bool {
        let Some(node) = self.node(ino) else { return false };
        if node.has_name() && node.is_expired(self.time) {
            self.expire(ino);
            return false;
        }
        node.has_name()
    }

    fn is_open(&self, ino: Ino) -> bool {
        self.state.is_held(ino, self.holders)
    }

    fn within(&self) -> &Within {
        self.within
    }
}

impl<'a> Scratch<'a> {
    pub(super) fn new(
        state: &'a State,
        now: Timestamp,
        within: &'a Within,
        holders: &'a [u64],
        batch: &Batch,
    ) -> Self {
        let seq = Seq(state.head().0 + 1);
        // Later than the last commit even if the clock is not: `seq_of` searches the log by time.
        let time = now.max(Timestamp(state.time_of(state.head()).0 + 1));
        let laid = PendingChanges { next_ino: state.next_ino, ..PendingChanges::default() };
        let stagers = batch.stagers().into_iter().map(str::to_owned).collect();
        let (root, owner, restores) = (batch.root.clone(), batch.owner.clone(), batch.own_attributes);
        let (hashed, copied, given, weight) = Default::default();
        Self {
            state,
            seq,
            time,
            within,
            holders,
            root,
            owner,
            stagers,
            restores,
            laid,
            hashed,
            copied,
            given,
            weight,
        }
    }

    /// Returns a node, to change it.
    pub(super) fn edit(&mut self, ino: Ino) -> &mut Node {
        let before = || self.state.nodes.get(&ino).and_then(|versions| versions.at(self.state.head()));
        let laid = self.laid.nodes.entry(ino);
        // A copy of the newest version: readers see the old one until the commit is applied.
        laid.or_insert_with(|| before().expect("a changed node exists").clone())
    }

    /// Returns a node, to change any of its properties.
    pub(super) fn touch(&mut self, ino: Ino) -> &mut Node {
        let (time, version) = (self.time, VersionId { seq: self.seq, ino });
        let node = self.edit(ino);
        node.ctime = time;
        node.version = version;
        node
    }

    /// Returns a node, to change its content, or the names in it if it is a directory.
    pub(super) fn modify(&mut self, ino: Ino) -> &mut Node {
        let node = self.touch(ino);
        node.mtime = node.ctime;
        node.etag = node.version;
        node
    }

    /// Records the first byte of a file that may differ.
    pub(super) fn edited(&mut self, ino: Ino, first: u64) {
        let known = self.laid.edited.entry(ino).or_insert(first);
        *known = first.min(*known);
    }

    /// Counts a name that is about to be given against the limits of a batch.
    pub(super) fn count_name(&mut self, path: &TreePath) -> Result<()> {
        let (names, bytes) = (self.given.0 + 1, self.given.1 + path.key().len());
        if names > MAX_NEW_NAMES || bytes > MAX_NEW_PATH_BYTES {
            return Err(Error::at(ErrorKind::TooLarge, path, "more names than one batch may give"));
        }
        self.given = (names, bytes);
        Ok(())
    }

    /// Counts attributes that are about to be set or copied, with the target of a link, against the limit of
    /// a batch.
    pub(super) fn count_attributes(&mut self, attributes: &Attributes, target: usize) -> Result<()> {
        let weight = self.weight + attributes.weight() + target;
        if weight > MAX_SET_ATTRIBUTES {
            return Err(Error::new(ErrorKind::TooLarge, "more attributes than one batch may set and copy"));
        }
        self.weight = weight;
        Ok(())
    }

    /// Creates a node under a free name.
    pub(super) fn make(&mut self, slot: &Slot, kind: Kind, mode: u32) -> Result<Ino> {
        self.count_name(&slot.path)?;
        let ino = Ino(self.laid.next_ino);
        self.laid.next_ino += 1;
        self.laid.nodes.insert(ino, Node::new(ino, kind, mode, self.seq, self.time));
        self.give_name(slot.dir, &slot.name, ino);
        Ok(ino)
    }

    pub(super) fn give_name(&mut self, dir: Ino, name: &Name, ino: Ino) {
        // Not a change of the node yet: a new node has it from the start, and others call `touch`.
        Arc::make_mut(&mut self.edit(ino).names).insert((dir, name.clone()));
        self.laid.names.entry(dir).or_default().insert(name.clone(), Some(ino));
        let directories = u64::from(self.is_directory(ino));
        self.modify(dir).subdirectories += directories;
    }

    pub(super) fn take_name(&mut self, dir: Ino, name: &Name, ino: Ino) {
        self.take_name_with_directory(dir, name, ino);
        let directories = u64::from(self.is_directory(ino));
        self.modify(dir).subdirectories -= directories;
    }

    /// Removes a name from a node, where the directory ends as well.
    pub(super) fn take_name_with_directory(&mut self, dir: Ino, name: &Name, ino: Ino) {
        Arc::make_mut(&mut self.edit(ino).names).remove(&(dir, name.clone()));
        self.laid.names.entry(dir).or_default().insert(name.clone(), None);
    }

    /// Removes one name for good: a node that keeps another has changed.
    pub(super) fn remove_name(&mut self, dir: Ino, name: &Name, ino: Ino) {
        self.take_name(dir, name, ino);
        if self.get(ino).has_name() {
            self.touch(ino);
        }
    }

    /// Removes all names of an expired node.
    pub(super) fn expire(&mut self, ino: Ino) {
        for path in self.every_path(ino) {
            self.note(ChangeKind::Expired, ino, &path);
        }
        // A copy: taking names changes the set.
        let names = self.get(ino).names.clone();
        for (dir, name) in names.iter() {
            self.take_name(*dir, name, ino);
        }
    }

    /// Returns the place where a name is created or removed. Its directory must exist, or is created with
    /// `parents`. `None` for the top of what the batch reaches, which exists.
    pub(super) fn slot(&mut self, path: &TreePath, parents: bool) -> Result<Option<Slot>> {
        let top = self.within.top_of(path).cloned().ok_or_else(|| Error::not_found(path))?;
        if top == *path {
            return self.find_path(path).map(|_| None);
        }
        let Some((parent, name)) = path.split() else { return Ok(None) };
        if parents {
            // The top must exist: nothing above it, nor itself, can be created by this batch.
            self.find_path(&top).map_err(|_| Error::not_found(path))?;
            self.make_directories(&parent)?;
        }
        // The parent is looked up as part of the whole path, which an error then names.
        let taken = match self.find_path(path) {
            Ok(ino) => Some(ino),
            Err(error) if error.is(ErrorKind::NotFound) => None,
            Err(error) => return Err(error),
        };
        let dir = self.find_path(&parent).map_err(|_| Error::not_found(path))?;
        Ok(Some(Slot { path: path.clone(), dir, name, taken }))
    }

    fn make_directories(&mut self, path: &TreePath) -> Result<()> {
        let mut dir = Ino::ROOT;
        let directories = path.ancestors().skip(1).chain([path.clone()]);
        for (here, segment) in directories.zip(path.segments()) {
            dir = match self.child(dir, segment) {
                Some(ino) if self.is_directory(ino) => ino,
                Some(_) => return Err(Error::not_a_directory(&here)),
                None => {
                    let name = Name::parse(segment)?;
                    let slot = Slot { path: here.clone(), dir, name, taken: None };
                    let ino = self.make(&slot, Kind::Directory, 0o755)?;
                    self.note(ChangeKind::Created, ino, &here);
                    ino
                }
            };
        }
        Ok(())
    }

    /// Logs a change of a name.
    pub(super) fn note(&mut self, kind: ChangeKind, ino: Ino, path: &TreePath) {
        self.laid.changes.push(LogEntry { kind, ino, paths: vec![path.clone()], filled: false });
    }

    /// Logs that a node was created as a copy, with everything below it.
    pub(super) fn note_copy(&mut self, ino: Ino, path: &TreePath) {
        let filled = self.is_directory(ino);
        self.laid.changes.push(LogEntry {
            kind: ChangeKind::Created,
            ino,
            paths: vec![path.clone()],
            filled,
        });
    }

    /// Logs a change of a node itself.
    pub(super) fn log_node(&mut self, kind: ChangeKind, ino: Ino) {
        self.laid.changes.push(LogEntry { kind, ino, paths: Vec::new(), filled: false });
    }

    /// Completes the changes, so that they can be applied to the state.
    pub(super) fn finish(mut self) -> PendingChanges {
        for index in 0..self.laid.changes.len() {
            let LogEntry { kind, ino, .. } = &self.laid.changes[index];
            // Only now: a later operation may have changed the names of the node.
            if matches!(kind, ChangeKind::Modified | ChangeKind::Attributes) {
                self.laid.changes[index].paths = self.every_path(*ino);
            }
        }
        let state = self.state;
        for (ino, node) in &mut self.laid.nodes {
            let before = state.nodes.get(ino).and_then(|versions| versions.at(state.head()));
            // Only the version that loses the last name is an end, not later writes through a handle.
            node.end = !node.has_name() && before.is_none_or(Node::has_name);
        }
        self.laid
    }
}

impl State {
    /// Applies the changes of a commit to the state, as its newest commit.
    pub(super) fn apply_changes(&mut self, seq: Seq, laid: PendingChanges) {
        let before = self.head();
        for (dir, names) in laid.names {
            let known = self.names.entry(dir).or_default();
            for (name, node) in names {
                // A name that is given and taken within one commit is never visible.
                let timeline = known.entry(name).or_default();
                if timeline.at(before).copied().flatten() != node {
                    timeline.push(seq, node);
                }
            }
        }
        for (ino, node) in laid.nodes {
            // Nor is a node that was created and lost its last name.
            if self.nodes.contains_key(&ino) || !node.end {
                self.nodes.entry(ino).or_default().push(seq, node);
            }
        }
        for (name, snapshot) in laid.snapshots {
            match snapshot {
                Some(snapshot) => self.snapshots.insert(name, snapshot),
                None => self.snapshots.remove(&name),
            };
        }
        for id in laid.used {
            self.staged.remove(&id);
        }
        self.next_ino = laid.next_ino;
    }
}
