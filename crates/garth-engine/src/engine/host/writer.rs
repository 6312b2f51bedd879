//! Commit in progress. Its operations are performed one after the other, each completely and, if asked for,
//! safe on disk before the next one begins. This file has what they share: finding the place of a name, and
//! moving something to it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, RenameFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chmodat, chownat, fsync,
    mkdirat, renameat_with, utimensat,
};
use rustix::io::{Errno, Result as HostResult};

use super::failed::{failed, failed_without_path};
use super::lookup::{Tree, is_reserved};
use super::node::{Node, open_dir};
use super::scratch::{SCRATCH, Scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Ino, MAX_NEW_NAMES, MAX_NEW_PATH_BYTES, Outcome, Seq, SetAttrs, StagedBody, Timestamp, VersionId,
};
use crate::path::{Name, TreePath};
use crate::runtime::fault_injection::Fault;
use crate::threads::lock::lock;

/// Uploads that wait for their commit, with owner and size.
pub(super) type Uploads = HashMap<u128, (String, u64)>;

pub(super) struct Writer<'a> {
    pub(super) tree: Tree<'a>,
    pub(super) scratch: &'a Scratch,
    pub(super) uploads: &'a Mutex<Uploads>,
    /// Owners of the uploads that it may use.
    pub(super) stagers: Vec<&'a str>,
    pub(super) seq: Seq,
    pub(super) time: Timestamp,
    pub(super) durable: bool,
    pub(super) fault: Fault,
    /// Bytes that conditions have hashed.
    pub(super) hashed: u64,
    /// Names that copies have created.
    pub(super) copied: usize,
    /// Free names that operations have asked for, missing parents included, and the bytes of their paths.
    pub(super) given: Cell<(usize, usize)>,
}

/// Place where a name is created or replaced; never the top of what the batch reaches.
pub(super) struct Slot {
    pub(super) path: TreePath,
    pub(super) name: Name,
    /// Last existing directory on the way, and the paths of the directories to create, deepest first.
    dir: Node,
    missing: Vec<TreePath>,
    /// Node that has the name now.
    pub(super) taken: Option<Node>,
}

/// Attributes for a node that an operation creates or changes. `None` leaves a value as it is.
#[derive(Clone, Copy, Default)]
pub(super) struct NodeAttributes {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) atime: Option<Timestamp>,
    pub(super) mtime: Option<Timestamp>,
}

impl NodeAttributes {
    pub(super) fn of(attrs: &SetAttrs) -> Self {
        let SetAttrs { mode, uid, gid, atime, mtime, .. } = *attrs;
        Self { mode, uid, gid, atime, mtime }
    }

    /// Returns these attributes, and those of `other` where these have none.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            uid: self.uid.or(other.uid),
            gid: self.gid.or(other.gid),
            atime: self.atime.or(other.atime),
            mtime: self.mtime.or(other.mtime),
        }
    }

    /// Returns the attributes for a copy of a node, or a file that replaces it.
    pub(super) fn like(node: &Node) -> Self {
        let (uid, gid) = node.owner();
        // Symbolic links have no mode of their own.
        let mode = (!node.is_link()).then(|| node.mode());
        Self { mode, uid: Some(uid), gid: Some(gid), mtime: Some(node.mtime()), atime: None }
    }
}

impl Writer<'_> {
    /// Returns the place for a name. Its directory must exist, or is created later with `parents`. `None`
    /// for the top of what the batch reaches, which exists.
    pub(super) fn slot(&self, path: &TreePath, parents: bool) -> Result<Option<Slot>> {
        self.tree.check_creatable(path)?;
        let top = self.tree.within.top_of(path).ok_or_else(|| Error::not_found(path))?;
        let Some((parent, name)) = path.split().filter(|_| top != path) else {
            return self.tree.find(path).map(|_| None);
        };
        if is_reserved(path) {
            let message = format!("`{SCRATCH}` is reserved for unfinished files; use another name");
            return Err(Error::at(ErrorKind::InvalidArgument, path, message));
        }
        if parents {
            // The top itself is never created: its name is out of reach.
            self.tree.find(top).map_err(|_| Error::not_found(path))?;
        }
        let (mut here, mut missing) = (parent, Vec::new());
        let dir = loop {
            match self.tree.directory(&here) {
                Ok(dir) => break dir,
                Err(error) if error.is(ErrorKind::NotFound) && parents => {
                    let above = here.parent().ok_or_else(|| Error::not_found(path))?;
                    // Only noted here. They are created by `dir`, after everything has been checked.
                    missing.push(std::mem::replace(&mut here, above));
                }
                Err(error) if error.is(ErrorKind::NotFound) => return Err(Error::not_found(path)),
                Err(error) => return Err(error),
            }
        };
        let taken = match missing.is_empty() {
            // In a directory that does not exist, every name is free.
            true => self.tree.child(&dir, name.as_str(), path)?,
            false => None,
        };
        if taken.is_none() {
            // Before any of them is created: a folder cannot undo that.
            missing.iter().rev().chain([path]).try_for_each(|path| self.count_name(path))?;
        }
        Ok(Some(Slot { path: path.clone(), name, dir, missing, taken }))
    }

    /// Counts a new name against the limits of a batch.
    fn count_name(&self, path: &TreePath) -> Result<()> {
        let (names, bytes) = self.given.get();
        let (names, bytes) = (names + 1, bytes + path.key().len());
        if names > MAX_NEW_NAMES || bytes > MAX_NEW_PATH_BYTES {
            return Err(Error::at(ErrorKind::TooLarge, path, "more names than one batch may give; split it"));
        }
        self.given.set((names, bytes));
        Ok(())
    }

    /// Returns a free place for a new name.
    pub(super) fn find_free_slot(&self, path: &TreePath, parents: bool) -> Result<Slot> {
        match self.slot(path, parents)? {
            Some(slot) if slot.taken.is_none() => Ok(slot),
            Some(_) | None => Err(Error::already_exists(path)),
        }
    }

    /// Returns the directory of a place, and creates it if it is missing.
    pub(super) fn dir<'s>(&self, slot: &'s mut Slot) -> Result<&'s Node> {
        while let Some(path) = slot.missing.pop() {
            let name = path.name().unwrap_or_default();
            let made = self.make_dir(&slot.dir, name).map_err(|errno| failed(errno, &path))?;
            slot.dir = made;
        }
        Ok(&slot.dir)
    }

    fn make_dir(&self, above: &Node, name: &str) -> HostResult<Node> {
        let made = mkdirat(above, name, Mode::from_raw_mode(0o755));
        let dir = Node::below(above.as_fd(), name)?;
        match made {
            // Another process was faster.
            Err(Errno::EXIST) if dir.is_dir() => return Ok(dir),
            made => made?,
        }
        // The umask of the process has reduced the mode given to `mkdirat`.
        self.dress(&dir, NodeAttributes { mode: Some(0o755), ..NodeAttributes::default() })?;
        self.sync_dir(above)?;
        Ok(dir)
    }

    /// Moves something from the scratch directory to its place, and returns the node that is there
    /// afterwards. Fails if the name is taken, unless `replace` is true.
    pub(super) fn place(&self, name: &str, slot: &mut Slot, replace: bool) -> Result<Node> {
        // Another process may have taken the name since it was looked up.
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        self.dir(slot)?;
        let (dir, to) = (&slot.dir, slot.name.as_str());
        let placed = renameat_with(self.scratch.fd(), name, dir, to, flags)
            .and_then(|()| self.sync_dir(dir))
            .and_then(|()| Node::below(dir.as_fd(), to));
        placed.map_err(|errno| failed(errno, &slot.path))
    }

    /// Makes something in the scratch directory and moves it to its place. Leaves nothing behind on
    /// failure.
    pub(super) fn make(
        &self,
        slot: &mut Slot,
        replace: bool,
        make: impl FnOnce(&Self, BorrowedFd<'_>, &str) -> Result<()>,
    ) -> Result<Node> {
        let name = self.scratch.name()?;
        let done = make(self, self.scratch.fd(), &name).and_then(|()| self.place(&name, slot, replace));
        if done.is_err() {
            let is_dir = Node::below(self.scratch.fd(), &name).is_ok_and(|node| node.is_dir());
            self.clear(&name, is_dir);
        }
        done
    }

    /// Removes something in the scratch directory. If that fails, it is removed when the folder is opened
    /// again.
    pub(super) fn clear(&self, name: &str, is_dir: bool) {
        if let Err(errno) = self.scratch.discard(name, is_dir) {
            tracing::debug!(%errno, "a removed entry could not be deleted from disk yet");
        }
    }

    /// Sets owner, mode and times.
    pub(super) fn dress(&self, node: &Node, dress: NodeAttributes) -> HostResult<()> {
        let own = node.owner();
        // Only if they differ: even a change to the same owner may be forbidden.
        let (uid, gid) = (dress.uid.filter(|uid| *uid != own.0), dress.gid.filter(|gid| *gid != own.1));
        if uid.is_some() || gid.is_some() {
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            chownat(node, "", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        // After the owner, whose change clears set-user-ID.
        if let Some(mode) = dress.mode {
            chmodat(CWD, node.proc_path(), Mode::from_raw_mode(mode), AtFlags::empty())?;
        }
        if dress.atime.is_some() || dress.mtime.is_some() {
            let times =
                Timestamps { last_access: timespec(dress.atime), last_modification: timespec(dress.mtime) };
            utimensat(node, "", &times, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Makes the names of a directory survive loss of power.
    pub(super) fn sync_dir(&self, dir: &Node) -> HostResult<()> {
        if self.durable && !self.fault.skips_name_sync() {
            fsync(open_dir(dir.as_fd(), "")?)?;
        }
        Ok(())
    }

    /// Makes the content and attributes of a file survive loss of power.
    pub(super) fn sync_file(&self, file: &File) -> HostResult<()> {
        if self.durable { self.sync_new(file) } else { Ok(()) }
    }

    /// Makes the content of a file survive that has no name in the folder yet, even for a commit that is
    /// not durable: the host may write the name to disk before the content, which would leave an empty
    /// file, and nothing of the file that it replaces.
    pub(super) fn sync_new(&self, file: &File) -> HostResult<()> {
        if self.fault.skips_content_sync() { Ok(()) } else { fsync(file) }
    }

    /// Makes a node of any kind survive loss of power. Nodes that cannot be opened safely are written with
    /// the complete filesystem.
    pub(super) fn sync_node(&self, node: &Node) -> HostResult<()> {
        match node.is_dir() || node.is_file() {
            true if self.durable => self.sync_file(&node.open()?),
            false if self.durable => self.sync_all(),
            _ => Ok(()),
        }
    }

    pub(super) fn sync_all(&self) -> HostResult<()> {
        let root = open_dir(self.tree.root_fd(), "")?;
        if self.durable { rustix::fs::syncfs(root) } else { Ok(()) }
    }

    /// Returns the name of an upload in the scratch directory.
    pub(super) fn staged(&self, body: &StagedBody) -> Result<String> {
        match lock(self.uploads).get(&body.id) {
            Some((owner, size)) if self.stagers.contains(&&**owner) && *size == body.size => {
                Ok(Scratch::staged(body.id))
            }
            _ => Err(Error::new(ErrorKind::NotFound, "no such staged content, or it was used before")),
        }
    }

    /// Forgets and removes an upload that was used.
    pub(super) fn used(&self, body: &StagedBody) {
        lock(self.uploads).remove(&body.id);
        self.clear(&Scratch::staged(body.id), false);
    }

    pub(super) fn created(node: &Node) -> Outcome {
        Outcome::created(node.version(), node.size())
    }

    pub(super) fn changed(node: Node) -> Result<Outcome> {
        let node = node.again().map_err(failed_without_path)?;
        Ok(Outcome::changed(node.version(), node.size()))
    }

    pub(super) fn unchanged(node: &Node) -> Outcome {
        Outcome::unchanged(node.version(), node.size())
    }

    pub(super) fn nothing(&self) -> Outcome {
        Outcome::unchanged(VersionId { seq: self.seq, ino: Ino::NONE }, 0)
    }
}

fn timespec(time: Option<Timestamp>) -> Timespec {
    match time {
        Some(Timestamp(ns)) => {
            Timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
        }
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    }
}
