//! Copies, of the present and of the past.

use std::collections::BTreeMap;

use super::{is_strictly_within, reject_exclusions, reject_inode};
use crate::engine::memory::content::Content;
use crate::engine::memory::scratch::{Scratch, Slot};
use crate::engine::memory::state::Node;
use crate::engine::memory::tree::{SubtreeName, Tree, View};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, ChangeKind, Ino, Kind, MAX_COPIED_NAMES, MAX_COPIED_PIECES, Outcome, Seq};
use crate::path::TreePath;

/// Node to copy.
struct Source {
    node: Node,
    /// `None` for a node that only an open handle reaches.
    path: Option<TreePath>,
    /// Everything below it, in the order of a walk.
    below: Vec<(SubtreeName, Node)>,
}

impl<'a> Scratch<'a> {
    pub(super) fn copy(
        &mut self,
        from: &At,
        as_of: Option<Seq>,
        to: &At,
        recursive: bool,
        replace: bool,
        parents: bool,
    ) -> Result<Outcome> {
        reject_inode(to)?;
        let mut past = self.past(as_of)?;
        let source = match &mut past {
            Some(past) => source(past, from, recursive)?,
            None => source(self, from, recursive)?,
        };
        // The source is looked up first: of two errors, that of the source is reported.
        let to = self.creatable_path(to)?;
        let into_itself = source.path.as_ref().is_some_and(|from| is_strictly_within(&to, from));
        if source.node.is_directory() && as_of.is_none() && into_itself {
            return Err(Error::at(
                ErrorKind::InvalidArgument,
                &to,
                "a directory cannot be copied into itself",
            ));
        }
        let old = match self.slot(&to, parents)? {
            None => self.find_path(&to)?,
            Some(Slot { taken: Some(old), .. }) => old,
            Some(slot) => {
                if source.node.is_directory() {
                    reject_exclusions(self.within, &to)?;
                }
                // The content is read last: of two errors, that of the place is reported.
                check_contents(past.as_ref(), &source)?;
                return self.copy_new(&source, &slot);
            }
        };
        let both_files = source.node.kind == Kind::File && self.get(old).kind == Kind::File;
        // Only content can be replaced, and only on request.
        if !replace || !both_files {
            return Err(Error::already_exists(&to));
        }
        if old == source.node.ino && as_of.is_none() {
            return Ok(self.unchanged(old));
        }
        check_contents(past.as_ref(), &source)?;
        self.count_copied(0, &source.node.content).map_err(|error| error.about(&to))?;
        self.edited(old, 0);
        self.laid.own.remove(&old);
        self.laid.rewritten.insert(old);
        self.modify(old).content = source.node.content.written(self.seq);
        self.copy_attributes(&source.node, old).map_err(|error| error.about(&to))?;
        self.log_node(ChangeKind::Modified, old);
        Ok(self.changed(old))
    }

    /// Returns the view of the past that a copy reads from; `None` for the present.
    fn past(&self, as_of: Option<Seq>) -> Result<Option<View<'a>>> {
        let Some(seq) = as_of else { return Ok(None) };
        if seq > self.state.head() {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no commit {seq}")));
        }
        self.state.check_readable(seq)?;
        Ok(Some(View {
            state: self.state,
            seq,
            // Expiry is judged by the time of that commit.
            now: self.state.time_of(seq),
            holders: &[],
            within: self.within,
            owner: None,
        }))
    }

    /// Counts what a copy is about to create against the limits of a batch.
    pub(super) fn count_copied(&mut self, names: usize, content: &Content) -> Result<()> {
        let (names, pieces) = (self.copied.0 + names, self.copied.1 + content.pieces());
        if names > MAX_COPIED_NAMES || pieces > MAX_COPIED_PIECES {
            return Err(Error::new(ErrorKind::TooLarge, "more than the copies of one batch may create"));
        }
        self.copied = (names, pieces);
        Ok(())
    }

    fn copy_new(&mut self, source: &Source, slot: &Slot) -> Result<Outcome> {
        let names = 1 + source.below.len();
        // All names before the first one is created, as the contract orders errors.
        self.count_copied(names, &Content::default()).map_err(|error| error.about(&slot.path))?;
        let copy = self.copy_node(&source.node, slot, &slot.path)?;
        // Copy of each directory, and the `mtime` of its source: filling it changes the time.
        let mut directories = BTreeMap::from([(source.node.ino, (copy, source.node.mtime))]);
        let mut files: BTreeMap<Ino, Ino> = BTreeMap::new();
        for (found, node) in &source.below {
            let from = source.path.as_ref().expect("a directory has a path");
            let path = found.path.rebase(from, &slot.path).expect("found below it")?;
            // In the order of a walk, so the copy of the directory exists.
            let (dir, _) = directories[&found.dir];
            // Names of one node become names of one copy.
            if let Some(copy) = files.get(&node.ino) {
                self.count_name(&path)?;
                self.give_name(dir, &found.name, *copy);
                continue;
            }
            let below = Slot { path, dir, name: found.name.clone(), taken: None };
            let ino = self.copy_node(node, &below, &slot.path)?;
            if node.is_directory() {
                directories.insert(node.ino, (ino, node.mtime));
            } else {
                files.insert(node.ino, ino);
            }
        }
        for (copy, mtime) in directories.into_values() {
            self.edit(copy).mtime = mtime;
        }
        self.note_copy(copy, &slot.path);
        Ok(self.created(copy))
    }

    /// Copies one node, as a part of the copy to `top`.
    fn copy_node(&mut self, node: &Node, slot: &Slot, top: &TreePath) -> Result<Ino> {
        self.count_copied(0, &node.content).map_err(|error| error.about(top))?;
        let ino = self.make(slot, node.kind, node.mode)?;
        let content = node.content.written(self.seq);
        let copy = self.edit(ino);
        copy.rdev = node.rdev;
        copy.target.clone_from(&node.target);
        copy.content = content;
        self.copy_attributes(node, ino).map_err(|error| error.about(top))?;
        Ok(ino)
    }

    /// Copies everything but content to a node.
    fn copy_attributes(&mut self, node: &Node, to: Ino) -> Result<()> {
        self.count_attributes(&node.attributes, node.target.as_ref().map_or(0, String::len))?;
        let (time, restores) = (self.time, self.restores);
        let copy = self.edit(to);
        copy.mode = node.mode;
        copy.uid = node.uid;
        copy.gid = node.gid;
        copy.mtime = node.mtime;
        let attributes = node.attributes.as_ref().clone();
        copy.attributes = match restores {
            true => attributes.restored_over(&copy.attributes).into(),
            false => attributes.copied_over(&copy.attributes).into(),
        };
        // An expiry in the past is dropped, or the copy would be absent at once.
        copy.expires_at = node.expires_at.filter(|end| *end > time);
        Ok(())
    }
}

/// Fails with `Gone` for a source in the past whose old content is no longer kept.
fn check_contents(past: Option<&View<'_>>, source: &Source) -> Result<()> {
    let Some(past) = past else { return Ok(()) };
    let below = source.below.iter().map(|(found, node)| (node, Some(&found.path)));
    for (node, path) in std::iter::once((&source.node, source.path.as_ref())).chain(below) {
        if node.kind == Kind::File && past.state.is_content_gone(node.ino, past.seq) {
            let error = Error::content_gone(past.seq.0);
            return Err(match path {
                Some(path) => error.about(path),
                None => error,
            });
        }
    }
    Ok(())
}

fn source(tree: &mut impl Tree, from: &At, recursive: bool) -> Result<Source> {
    let ino = tree.find(from)?;
    let is_directory = tree.is_directory(ino);
    let path = match from {
        At::Path(path) => Some(path.clone()),
        At::Child(dir, name) => Some(tree.child_path(*dir, name)?),
        At::Node(_) => tree.path_of(ino),
    };
    let mut below = Vec::new();
    if is_directory {
        // A directory that is held open without a name has nothing to copy.
        let path = path.as_ref().ok_or_else(Error::no_node)?;
        if !recursive {
            return Err(Error::at(ErrorKind::IsADirectory, path, "is a directory; copy it recursively"));
        }
        reject_exclusions(tree.within(), path)?;
        let found = tree.below(path, ino);
        below = found.into_iter().map(|found| (found.clone(), tree.get(found.ino).clone())).collect();
    }
    // Read last: the listing may have recorded expired entries, which changes the directory.
    Ok(Source { node: tree.get(ino).clone(), path, below })
}
