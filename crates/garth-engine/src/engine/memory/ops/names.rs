//! Operations that create, remove and move names.

use super::{busy, is_strictly_within, reject_exclusions, reject_inode};
use crate::engine::memory::scratch::{Scratch, Slot};
use crate::engine::memory::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, ChangeKind, Ino, Kind, MAX_LINKS, Outcome, Remove, RenameMode, SetAttrs, Special};
use crate::path::{MAX_STORED_PATH, TreePath};

impl Scratch<'_> {
    /// Returns a free place for a new name.
    fn find_free_slot(&mut self, at: &At, parents: bool) -> Result<Slot> {
        reject_inode(at)?;
        let path = self.creatable_path(at)?;
        match self.slot(&path, parents)? {
            Some(slot) if slot.taken.is_none() => Ok(slot),
            Some(_) | None => Err(Error::already_exists(&path)),
        }
    }

    pub(super) fn mkdir(&mut self, at: &At, parents: bool, attrs: &SetAttrs) -> Result<Outcome> {
        reject_inode(at)?;
        let path = self.creatable_path(at)?;
        let taken = match self.slot(&path, parents)? {
            Some(slot) if slot.taken.is_none() => {
                let ino = self.make(&slot, Kind::Directory, 0o755)?;
                self.note(ChangeKind::Created, ino, &path);
                self.set_attrs(ino, attrs)?;
                return Ok(self.created(ino));
            }
            Some(slot) => slot.taken,
            None => Some(self.find_path(&path)?),
        };
        match taken {
            // As with `mkdir -p`, an existing directory is not an error.
            Some(ino) if parents && self.is_directory(ino) => Ok(self.unchanged(ino)),
            _ => Err(Error::already_exists(&path)),
        }
    }

    pub(super) fn symlink(
        &mut self,
        at: &At,
        target: &str,
        parents: bool,
        attrs: &SetAttrs,
    ) -> Result<Outcome> {
        let slot = self.find_free_slot(at, parents)?;
        let ino = self.make(&slot, Kind::Symlink, 0o777)?;
        self.edit(ino).target = Some(target.to_owned());
        self.note(ChangeKind::Created, ino, &slot.path);
        self.set_attrs(ino, attrs)?;
        Ok(self.created(ino))
    }

    pub(super) fn mknod(
        &mut self,
        at: &At,
        node: Special,
        parents: bool,
        attrs: &SetAttrs,
    ) -> Result<Outcome> {
        let (kind, rdev) = match node {
            Special::Fifo => (Kind::Fifo, 0),
            Special::Socket => (Kind::Socket, 0),
            Special::CharDevice(rdev) => (Kind::CharDevice, rdev),
            Special::BlockDevice(rdev) => (Kind::BlockDevice, rdev),
            Special::Whiteout => (Kind::Whiteout, 0),
        };
        let slot = self.find_free_slot(at, parents)?;
        let ino = self.make(&slot, kind, 0o644)?;
        self.edit(ino).rdev = rdev;
        self.note(ChangeKind::Created, ino, &slot.path);
        self.set_attrs(ino, attrs)?;
        Ok(self.created(ino))
    }

    pub(super) fn link(&mut self, from: &At, to: &At, parents: bool) -> Result<Outcome> {
        reject_inode(to)?;
        let ino = self.find(from)?;
        if !self.is_reached(ino) {
            // As on Linux: a node that has lost its last name gets no new one.
            return Err(Error::no_node());
        }
        if self.is_directory(ino) {
            return Err(self.about_at(ErrorKind::NotPermitted, from, "a directory has one name only"));
        }
        let slot = self.find_free_slot(to, parents)?;
        if self.get(ino).names.len() as u64 >= MAX_LINKS {
            return Err(self.about_at(ErrorKind::TooManyLinks, from, "a node has at most 65,000 names"));
        }
        self.count_name(&slot.path)?;
        self.give_name(slot.dir, &slot.name, ino);
        self.touch(ino);
        self.note(ChangeKind::Linked, ino, &slot.path);
        Ok(self.changed(ino))
    }

    pub(super) fn remove(&mut self, at: &At, what: Remove, missing_ok: bool) -> Result<Outcome> {
        reject_inode(at)?;
        match self.reject_top(at) {
            Err(error) if missing_ok && error.is_absent() => return Ok(self.unchanged(Ino::NONE)),
            refused => refused?,
        }
        let found = self.existing_path(at).and_then(|path| self.find_path(&path).map(|ino| (path, ino)));
        let (path, ino) = match found {
            Err(error) if missing_ok && error.is_absent() => return Ok(self.unchanged(Ino::NONE)),
            found => found?,
        };
        if self.is_directory(ino) {
            reject_exclusions(self.within, &path)?;
        }
        match (what, self.is_directory(ino)) {
            (Remove::File, true) => return Err(Error::is_a_directory(&path)),
            (Remove::Directory, false) => return Err(Error::not_a_directory(&path)),
            (Remove::Directory | Remove::Any, true) if !self.children(ino).is_empty() => {
                return Err(Error::not_empty(&path));
            }
            (Remove::Tree, true) => self.clear(&path, ino),
            _ => {}
        }
        let slot = self.find_existing_slot(&path)?;
        self.remove_name(slot.dir, &slot.name, ino);
        self.note(ChangeKind::Removed, ino, &path);
        Ok(self.changed(ino))
    }

    fn find_existing_slot(&mut self, path: &TreePath) -> Result<Slot> {
        self.slot(path, false)?.ok_or_else(|| busy(path))
    }

    /// Removes everything below a directory. Only nodes that keep a name elsewhere have changed;
    /// directories end as they were.
    fn clear(&mut self, path: &TreePath, dir: Ino) {
        let below = self.below(path, dir);
        for found in &below {
            self.take_name_with_directory(found.dir, &found.name, found.ino);
        }
        // After all names are taken: a node with several names below may lose all of them.
        for found in &below {
            if self.get(found.ino).has_name() {
                self.touch(found.ino);
            }
        }
    }

    pub(super) fn rename(&mut self, from: &At, to: &At, mode: RenameMode, parents: bool) -> Result<Outcome> {
        reject_inode(from)?;
        reject_inode(to)?;
        self.reject_top(from)?;
        self.reject_top(to)?;
        let from = self.existing_path(from)?;
        let ino = self.find_path(&from)?;
        if self.is_directory(ino) {
            reject_exclusions(self.within, &from)?;
        }
        let to = self.creatable_path(to)?;
        let exchange = mode == RenameMode::Exchange;
        if self.is_directory(ino) && is_strictly_within(&to, &from) {
            return Err(Error::at(ErrorKind::InvalidArgument, &to, "a directory cannot move into itself"));
        }
        if is_strictly_within(&from, &to) {
            return Err(match exchange {
                true => Error::at(ErrorKind::InvalidArgument, &to, "a directory cannot move into itself"),
                false => Error::not_empty(&to),
            });
        }
        let new = self.slot(&to, parents)?.ok_or_else(|| busy(&to))?;
        match new.taken {
            Some(_) if mode == RenameMode::NoReplace => return Err(Error::already_exists(&to)),
            None if exchange => return Err(Error::not_found(&to)),
            // As POSIX has it: a rename onto another name of the same node does nothing, and both names
            // stay.
            Some(other) if other == ino => return Ok(self.unchanged(ino)),
            _ => {}
        }
        let other_directory = new.taken.is_some_and(|other| self.is_directory(other));
        if self.is_directory(ino) || other_directory {
            reject_exclusions(self.within, &to)?;
        }
        match new.taken {
            Some(_) if exchange && other_directory => reject_exclusions(self.within, &from)?,
            Some(other) if !exchange => self.check_replace(ino, other, &to)?,
            _ => {}
        }
        self.check_path_lengths(ino, &from, &to)?;
        if let Some(other) = new.taken.filter(|_| exchange) {
            self.check_path_lengths(other, &to, &from)?;
            self.count_name(&from)?;
        }
        self.count_name(&to)?;
        let old = self.find_existing_slot(&from)?;
        self.take_name(old.dir, &old.name, ino);
        match new.taken {
            Some(other) if exchange => {
                self.take_name(new.dir, &new.name, other);
                self.give_name(old.dir, &old.name, other);
                self.touch(other);
                self.note(ChangeKind::Renamed { from: from.clone() }, ino, &to);
                self.note(ChangeKind::Renamed { from: to }, other, &from);
            }
            Some(other) => {
                self.remove_name(new.dir, &new.name, other);
                self.note(ChangeKind::Removed, other, &to);
                self.note(ChangeKind::Renamed { from }, ino, &to);
            }
            None => self.note(ChangeKind::Renamed { from }, ino, &to),
        }
        self.give_name(new.dir, &new.name, ino);
        self.touch(ino);
        Ok(self.changed(ino))
    }

    /// Checks that `ino` may take the name of `other`.
    fn check_replace(&mut self, ino: Ino, other: Ino, to: &TreePath) -> Result<()> {
        match (self.is_directory(ino), self.is_directory(other)) {
            (true, false) => Err(Error::not_a_directory(to)),
            (false, true) => Err(Error::is_a_directory(to)),
            (true, true) if !self.children(other).is_empty() => Err(Error::not_empty(to)),
            _ => Ok(()),
        }
    }

    /// Checks that the paths below a directory stay short enough when it moves.
    fn check_path_lengths(&mut self, ino: Ino, from: &TreePath, to: &TreePath) -> Result<()> {
        if to.key().len() <= from.key().len() || !self.is_directory(ino) {
            return Ok(());
        }
        let longest = self.longest_path_below(ino);
        if to.key().len() + longest > MAX_STORED_PATH {
            return Err(Error::new(
                ErrorKind::NameTooLong,
                format!("a path has at most {MAX_STORED_PATH} bytes"),
            ));
        }
        Ok(())
    }

    /// Returns the number of bytes that the longest path below a directory adds to its own.
    fn longest_path_below(&mut self, dir: Ino) -> usize {
        let mut longest = 0;
        let mut todo = vec![(dir, 0)];
        while let Some((dir, above)) = todo.pop() {
            // Expired entries count: their names are stored until a commit ends them.
            for (name, ino) in self.all_names(dir) {
                let length = above + 1 + name.as_str().len();
                longest = longest.max(length);
                if self.is_directory(ino) {
                    todo.push((ino, length));
                }
            }
        }
        longest
    }
}
