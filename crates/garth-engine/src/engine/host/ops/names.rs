//! Operations that create, remove and move names.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, linkat, mkdirat, mknodat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::{Errno, Result as HostResult};

use crate::engine::host::failed::{busy, failed};
use crate::engine::host::listing::is_gone;
use crate::engine::host::node::Node;
use crate::engine::host::writer::{NodeAttributes, Slot, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{MAX_LINKS, Outcome, Remove, RenameMode, Special};
use crate::path::{MAX_STORED_PATH, TreePath};

pub(super) fn is_strictly_within(path: &TreePath, top: &TreePath) -> bool {
    path != top && path.is_within(top)
}

impl Writer<'_> {
    /// Returns the attributes of a new node.
    fn attributes_of_new(&self, mode: Option<u32>, attrs: NodeAttributes) -> NodeAttributes {
        let now = Some(self.time);
        attrs.or(NodeAttributes { mode, atime: now, mtime: now, ..NodeAttributes::default() })
    }

    pub(super) fn mkdir(&mut self, path: &TreePath, parents: bool, attrs: NodeAttributes) -> Result<Outcome> {
        let taken = match self.slot(path, parents)? {
            Some(mut slot) if slot.taken.is_none() => {
                let dress = self.attributes_of_new(Some(0o755), attrs);
                let made =
                    // In the scratch directory first, so that nobody sees it before it has its attributes.
                    self.make_node(&mut slot, dress, |scratch, name| mkdirat(scratch, name, Mode::RWXU))?;
                return Ok(Self::created(&made));
            }
            Some(slot) => slot.taken,
            None => Some(self.tree.find(path)?),
        };
        match taken {
            // As with `mkdir -p`, an existing directory is not an error.
            Some(node) if parents && node.is_dir() => Ok(Self::unchanged(&node)),
            _ => Err(Error::already_exists(path)),
        }
    }

    pub(super) fn symlink(
        &mut self,
        path: &TreePath,
        target: &str,
        parents: bool,
        attrs: NodeAttributes,
    ) -> Result<Outcome> {
        let mut slot = self.find_free_slot(path, parents)?;
        let dress = self.attributes_of_new(None, attrs);
        let made = self.make_node(&mut slot, dress, |scratch, name| symlinkat(target, scratch, name))?;
        Ok(Self::created(&made))
    }

    pub(super) fn mknod(
        &mut self,
        path: &TreePath,
        node: Special,
        parents: bool,
        attrs: NodeAttributes,
    ) -> Result<Outcome> {
        let (kind, rdev) = match node {
            Special::Fifo => (FileType::Fifo, 0),
            Special::Socket => (FileType::Socket, 0),
            Special::CharDevice(0) => {
                let message =
                    "on the host, a character device with number 0 is a whiteout; create a whiteout instead";
                return Err(Error::at(ErrorKind::InvalidArgument, path, message));
            }
            Special::CharDevice(rdev) => (FileType::CharacterDevice, rdev),
            Special::BlockDevice(rdev) => (FileType::BlockDevice, rdev),
            Special::Whiteout => (FileType::CharacterDevice, 0),
        };
        // Linux would cut the number off, and make another device.
        if u32::try_from(rdev).is_err() {
            let message = "the host's device numbers have 32 bits";
            return Err(Error::at(ErrorKind::InvalidArgument, path, message));
        }
        let mut slot = self.find_free_slot(path, parents)?;
        let dress = self.attributes_of_new(Some(0o644), attrs);
        let made = self.make_node(&mut slot, dress, |scratch, name| {
            mknodat(scratch, name, kind, Mode::RUSR | Mode::WUSR, rdev)
        })?;
        Ok(Self::created(&made))
    }

    fn make_node(
        &self,
        slot: &mut Slot,
        dress: NodeAttributes,
        make: impl FnOnce(std::os::fd::BorrowedFd<'_>, &str) -> HostResult<()>,
    ) -> Result<Node> {
        let path = slot.path.clone();
        self.make(slot, false, |writer, scratch, name| {
            let made = make(scratch, name).and_then(|()| {
                let node = Node::below(scratch.as_fd(), name)?;
                writer.dress(&node, dress)
            });
            made.map_err(|errno| failed(errno, &path))
        })
    }

    pub(super) fn link(&mut self, from: &TreePath, to: &TreePath, parents: bool) -> Result<Outcome> {
        let node = self.tree.find(from)?;
        if node.is_dir() {
            return Err(Error::at(ErrorKind::NotPermitted, from, "a directory has one name only"));
        }
        let mut slot = self.find_free_slot(to, parents)?;
        if node.names() >= MAX_LINKS {
            return Err(Error::at(ErrorKind::TooManyLinks, from, "a node has at most 65,000 names"));
        }
        let dir = self.dir(&mut slot)?;
        let linked =
            // By `/proc`: linking by name could pick up another node that took the name.
            linkat(CWD, node.proc_path(), dir, to.name().unwrap_or_default(), AtFlags::SYMLINK_FOLLOW);
        linked.and_then(|()| self.sync_dir(dir)).map_err(|errno| match errno {
            Errno::MLINK => failed(errno, from),
            errno => failed(errno, to),
        })?;
        Self::changed(node)
    }

    pub(super) fn remove(&mut self, path: &TreePath, what: Remove, missing_ok: bool) -> Result<Outcome> {
        let node = match self.tree.find(path) {
            Err(error) if missing_ok && is_gone(&error) => return Ok(self.nothing()),
            found => found?,
        };
        if self.tree.within.is_top(path) {
            return Err(busy(path));
        }
        self.tree.check_whole(&node, path)?;
        match (what, node.is_dir()) {
            (Remove::File, true) => return Err(Error::is_a_directory(path)),
            (Remove::Directory, false) => return Err(Error::not_a_directory(path)),
            _ => {}
        }
        let (parent, name) = path.split().ok_or_else(|| busy(path))?;
        let dir = self.tree.directory(&parent)?;
        let removed = match (what, node.is_dir()) {
            (Remove::Tree, true) => {
                // Moved away in one step: nobody sees the tree while it is being emptied.
                let aside = self.scratch.name()?;
                renameat_with(&dir, name.as_str(), self.scratch.fd(), &aside, RenameFlags::NOREPLACE)
                    .and_then(|()| self.sync_dir(&dir))
                    .map(|()| self.clear(&aside, true))
            }
            (_, true) => unlinkat(&dir, name.as_str(), AtFlags::REMOVEDIR).and_then(|()| self.sync_dir(&dir)),
            (_, false) => unlinkat(&dir, name.as_str(), AtFlags::empty()).and_then(|()| self.sync_dir(&dir)),
        };
        removed.map_err(|errno| failed(errno, path))?;
        Self::changed(node)
    }

    pub(super) fn rename(
        &mut self,
        from: &TreePath,
        to: &TreePath,
        mode: RenameMode,
        parents: bool,
    ) -> Result<Outcome> {
        for path in [from, to] {
            if self.tree.within.is_top(path) {
                self.tree.find(path)?;
                return Err(busy(path));
            }
        }
        let node = self.tree.find(from)?;
        self.tree.check_whole(&node, from)?;
        let exchange = mode == RenameMode::Exchange;
        self.tree.check_creatable(to)?;
        let into_itself = || Error::at(ErrorKind::InvalidArgument, to, "a directory cannot move into itself");
        if node.is_dir() && is_strictly_within(to, from) {
            return Err(into_itself());
        }
        if is_strictly_within(from, to) {
            return Err(if exchange { into_itself() } else { Error::not_empty(to) });
        }
        let mut new = self.slot(to, parents)?.ok_or_else(|| busy(to))?;
        match &new.taken {
            Some(_) if mode == RenameMode::NoReplace => return Err(Error::already_exists(to)),
            None if exchange => return Err(Error::not_found(to)),
            // As POSIX has it: a rename onto another name of the same node does nothing, and both names
            // stay.
            Some(other) if other.is(&node) => return Ok(Self::unchanged(&node)),
            _ => {}
        }
        self.tree.check_whole(&node, to)?;
        if let Some(other) = &new.taken {
            self.tree.check_whole(other, to)?;
            match exchange {
                true => self.tree.check_whole(other, from)?,
                false => self.check_replace(&node, other, to)?,
            }
        }
        self.check_path_lengths(&node, from, to)?;
        if let Some(other) = new.taken.as_ref().filter(|_| exchange) {
            self.check_path_lengths(other, to, from)?;
        }
        let (parent, name) = from.split().ok_or_else(|| busy(from))?;
        let old = self.tree.directory(&parent)?;
        let flags = match mode {
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
        };
        let target = new.name.clone();
        let dir = self.dir(&mut new)?;
        renameat_with(&old, name.as_str(), dir, target.as_str(), flags)
            // The new name first: a crash in between may show both names, but never neither.
            .and_then(|()| self.sync_dir(dir))
            .and_then(|()| if old.is(dir) { Ok(()) } else { self.sync_dir(&old) })
            .map_err(|errno| failed(errno, to))?;
        Self::changed(node)
    }

    /// Checks that a node may take the name of another.
    fn check_replace(&self, node: &Node, other: &Node, to: &TreePath) -> Result<()> {
        match (node.is_dir(), other.is_dir()) {
            (true, false) => Err(Error::not_a_directory(to)),
            (false, true) => Err(Error::is_a_directory(to)),
            _ => Ok(()), // The host checks that it is empty.
        }
    }

    /// Checks that the paths below a directory stay short enough when it moves.
    fn check_path_lengths(&self, node: &Node, from: &TreePath, to: &TreePath) -> Result<()> {
        if to.key().len() <= from.key().len() || !node.is_dir() {
            return Ok(());
        }
        let longest = self.longest_path_below(from)?;
        if to.key().len() + longest > MAX_STORED_PATH {
            let message = format!("a path has at most {MAX_STORED_PATH} bytes");
            return Err(Error::new(ErrorKind::NameTooLong, message));
        }
        Ok(())
    }

    /// Returns the number of bytes that the longest path below a directory adds to its own.
    fn longest_path_below(&self, top: &TreePath) -> Result<usize> {
        let mut longest = 0;
        let mut todo = BTreeMap::from([(top.clone(), ())]);
        while let Some((path, ())) = todo.pop_first() {
            self.tree.each_name(&path, &mut |name, may_be_dir| {
                let below = TreePath::from_row(path.key(), name);
                longest = longest.max(below.key().len() - top.key().len());
                if may_be_dir {
                    todo.insert(below, ());
                }
            })?;
        }
        Ok(longest)
    }
}
