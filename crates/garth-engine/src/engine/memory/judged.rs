//! Input of the rules for a commit: its differences from the state before, and the state that it would
//! leave.

use std::collections::BTreeSet;

use super::scratch::Scratch;
use super::state::Node;
use super::tree::{Tree, View};
use crate::error::Result;
use crate::model::{Batch, ChangeKind, Ino, Kind, Within};
use crate::path::{Name, TreePath};
use crate::rule::{self, Caller, CommitEffects, Digest, Entries, File, JudgedState, Place};

impl Scratch<'_> {
    /// Refuses a commit that violates a rule.
    pub(super) fn judge(&self, batch: &Batch) -> Result<()> {
        let touched = self.touched();
        rule::judge(&self.state.rules, Caller::of(batch), self.within, &touched, &mut StatesOfCommit(self))
    }

    /// Returns the tree before the commit.
    fn before(&self) -> View<'_> {
        static ALL: std::sync::LazyLock<Within> = std::sync::LazyLock::new(Within::everything);
        let (state, seq) = (self.state, self.state.head());
        View { state, seq, now: self.time, holders: &[], within: &ALL, owner: None }
    }

    fn touched(&self) -> CommitEffects {
        let mut touched = CommitEffects::default();
        for (ino, node) in &self.laid.nodes {
            let before = self.before().node(*ino).map_or_else(BTreeSet::new, |node| (*node.names).clone());
            let path = |place: Option<TreePath>, name: &Name| {
                place.map(|dir| TreePath::from_row(dir.key(), name.as_str()))
            };
            // By comparison of the two states: names that are given and taken again do not show.
            for (dir, name) in node.names.difference(&before) {
                let given = path(self.every_path(*dir).into_iter().next(), name);
                touched.named.extend(given.map(|given| (given, *ino, node.kind)));
            }
            for (dir, name) in before.difference(&node.names) {
                touched.lost.extend(path(self.state.paths_before(*dir).into_iter().next(), name));
            }
            if node.kind == Kind::File && node.etag.seq == self.seq {
                touched.written.insert(*ino, self.laid.edited.get(ino).copied().unwrap_or_default());
            }
            // A new directory is not moved: what is in it has got a name of its own.
            if node.kind == Kind::Directory && !before.is_empty() && *node.names != before {
                let place = self.state.paths_before(*ino).into_iter().next();
                touched.left.extend(place.clone());
                touched.moved.extend(place.zip(self.every_path(*ino).into_iter().next()));
            }
        }
        let attributes =
            self.laid.changes.iter().filter(|change| matches!(change.kind, ChangeKind::Attributes));
        touched.attributes = attributes.map(|change| change.ino).collect();
        (touched.own, touched.rewritten) = (self.laid.own.clone(), self.laid.rewritten.clone());
        touched
    }
}

/// State before a commit, and the state that it would leave.
struct StatesOfCommit<'s, 'a>(&'s Scratch<'a>);

/// Returns the entries of a directory, expired or not.
fn entries(tree: &impl Tree, dir: &TreePath) -> Vec<(Name, Ino, Kind)> {
    let step = |dir: Ino, name| tree.all_names(dir).into_iter().find(|(known, _)| known.as_str() == name);
    let dir = dir.segments().try_fold(Ino::ROOT, |dir, name| Some(step(dir, name)?.1));
    let names = dir.map_or_else(Vec::new, |dir| tree.all_names(dir));
    names.into_iter().map(|(name, ino)| (name, ino, tree.get(ino).kind)).collect()
}

/// Returns the node at a path, unless it has expired.
fn entry(tree: &impl Tree, path: &TreePath, both: &StatesOfCommit<'_, '_>) -> Option<(Ino, Kind)> {
    let (dir, name) = path.split()?;
    let (_, ino, kind) = entries(tree, &dir).into_iter().find(|(known, ..)| *known == name)?;
    (!tree.get(ino).is_expired(both.0.time)).then_some((ino, kind))
}

impl JudgedState for StatesOfCommit<'_, '_> {
    fn file(&mut self, ino: Ino) -> Result<Option<File>> {
        let there =
            |node: &&Node| node.kind == Kind::File && node.has_name() && !node.is_expired(self.0.time);
        let file = |node: &Node| File { size: node.size(), expires: node.expires_at.is_some() };
        Ok(self.0.node(ino).filter(there).map(file))
    }

    fn paths(&mut self, ino: Ino, _within: &Within) -> Result<Vec<TreePath>> {
        Ok(self.0.every_path(ino))
    }

    fn entry(&mut self, path: &TreePath) -> Result<Option<(Ino, Kind)>> {
        Ok(entry(self.0, path, self))
    }

    fn entries(&mut self, dir: &TreePath, _limit: usize) -> Result<Entries> {
        Ok(entries(self.0, dir))
    }

    fn read(&mut self, ino: Ino, from: u64, length: u64) -> Result<Vec<u8>> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(self.0.get(ino).content.read(from, length).to_vec())
    }

    fn entry_before(&mut self, path: &TreePath) -> Result<Option<(Ino, Kind)>> {
        Ok(entry(&self.0.before(), path, self))
    }

    fn entries_before(&mut self, dir: &TreePath, _limit: usize) -> Result<Entries> {
        Ok(entries(&self.0.before(), dir))
    }

    fn size_before(&mut self, ino: Ino) -> Result<u64> {
        Ok(self.0.before().get(ino).size())
    }

    fn read_before(&mut self, ino: Ino, length: u64) -> Result<Vec<u8>> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(self.0.before().get(ino).content.read(0, length).to_vec())
    }

    /// Nothing is remembered: each commit checks files from their start, to compare other engines with.
    fn known(&mut self, _ino: Ino, _demand: &Digest) -> Result<Place> {
        Ok(Place::START)
    }

    fn remember(&mut self, _ino: Ino, _demand: &Digest, _to: Place) {}
}
