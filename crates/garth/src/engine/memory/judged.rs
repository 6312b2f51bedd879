//! What rules are shown of a commit: what differs from the state before it, and the state that it would
//! leave.

use std::collections::BTreeSet;

use super::scratch::Scratch;
use super::state::Node;
use super::tree::Tree;
use crate::error::Result;
use crate::model::{Batch, Ino, Kind, Within};
use crate::path::{Name, TreePath};
use crate::rule::{self, Caller, Entries, File, Left, Touched};

impl Scratch<'_> {
    /// Refuses a commit that breaks a rule.
    pub(super) fn judge(&self, batch: &Batch) -> Result<()> {
        let touched = self.touched();
        rule::judge(&self.state.rules, Caller::of(batch), self.within, &touched, &mut After(self))
    }

    fn before(&self, ino: Ino) -> Option<&Node> {
        self.state.nodes.get(&ino)?.at(self.state.head())
    }

    fn touched(&self) -> Touched {
        let mut touched = Touched::default();
        for (ino, node) in &self.laid.nodes {
            let before = self.before(*ino);
            let known = before.map_or_else(BTreeSet::new, |before| (*before.names).clone());
            let given: Vec<_> = node.names.iter().filter(|name| !known.contains(name)).collect();
            match node.kind {
                Kind::File => {
                    let path = |(dir, name): &(Ino, Name)| {
                        let dir = self.every_path(*dir).into_iter().next()?;
                        Some((TreePath::from_row(dir.key(), name.as_str()), *ino))
                    };
                    touched.named.extend(given.into_iter().filter_map(path));
                    touched.written.extend((node.etag.seq == self.seq).then_some(*ino));
                }
                Kind::Directory if !given.is_empty() && before.is_some() => {
                    let place = self.state.paths_before(*ino).into_iter().next();
                    touched.moved.extend(place.zip(self.every_path(*ino).into_iter().next()));
                }
                _ => {}
            }
        }
        touched
    }
}

/// The state that a commit would leave.
struct After<'s, 'a>(&'s Scratch<'a>);

impl After<'_, '_> {
    fn directory(&self, path: &TreePath) -> Option<Ino> {
        path.segments().try_fold(Ino::ROOT, |dir, name| {
            let (_, ino) = self.0.all_names(dir).into_iter().find(|(known, _)| known.as_str() == name)?;
            Some(ino)
        })
    }
}

impl Left for After<'_, '_> {
    fn file(&mut self, ino: Ino) -> Result<Option<File>> {
        let there =
            |node: &&Node| node.kind == Kind::File && node.has_name() && !node.is_expired(self.0.time);
        Ok(self.0.node(ino).filter(there).map(|node| File { size: node.size() }))
    }

    fn paths(&mut self, ino: Ino, _within: &Within) -> Result<Vec<TreePath>> {
        Ok(self.0.every_path(ino))
    }

    fn entry(&mut self, dir: &TreePath, name: &Name) -> Result<Option<(Ino, Kind)>> {
        let found = self.entries(dir, 0)?.into_iter().find(|(known, ..)| known == name);
        Ok(found.map(|(_, ino, kind)| (ino, kind)))
    }

    fn entries(&mut self, dir: &TreePath, _limit: usize) -> Result<Entries> {
        let names = self.directory(dir).map_or_else(Vec::new, |dir| self.0.all_names(dir));
        Ok(names.into_iter().map(|(name, ino)| (name, ino, self.0.get(ino).kind)).collect())
    }

    fn content(&mut self, ino: Ino, size: u64) -> Result<Vec<u8>> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        Ok(self.0.get(ino).content.read(0, length).to_vec())
    }
}
