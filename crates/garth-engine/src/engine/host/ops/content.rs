//! Operations on content. New content is written to a new file, which is then renamed over the old one. A
//! file that would lose something by that, such as its other names, is written in place.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use rustix::fs::{OFlags, ftruncate};
use rustix::io::{Errno, Result as HostResult};
use rustix::process::{getegid, geteuid};

use crate::engine::host::failed::{errno, failed};
use crate::engine::host::lookup::require_file;
use crate::engine::host::node::{Node, open_below};
use crate::engine::host::writer::{NodeAttributes, Slot, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Body, Create, MAX_FILE, Outcome};
use crate::path::TreePath;

/// File to write to.
enum WriteTarget {
    There(Node, Option<Slot>),
    Missing(Slot),
}

impl Writer<'_> {
    fn find_or_create_file(&self, path: &TreePath, create: Create, parents: bool) -> Result<WriteTarget> {
        if create == Create::Never && !self.tree.within.contains(path) {
            // A write with `Create::Never` creates no name, so an excluded name is reported as missing.
            return Err(Error::not_found(path));
        }
        let mut slot = self.slot(path, parents)?;
        let found = match &mut slot {
            Some(slot) => slot.taken.take(),
            None => Some(self.tree.find(path)?),
        };
        match (found, slot) {
            (Some(_), _) if create == Create::New => Err(Error::already_exists(path)),
            (Some(node), slot) => {
                require_file(&node, path)?;
                Ok(WriteTarget::There(node, slot))
            }
            (None, Some(slot)) if create != Create::Never => Ok(WriteTarget::Missing(slot)),
            (None, _) => Err(Error::not_found(path)),
        }
    }

    pub(super) fn write(
        &mut self,
        path: &TreePath,
        body: &Body,
        create: Create,
        parents: bool,
        attrs: NodeAttributes,
    ) -> Result<Outcome> {
        let found = self.find_or_create_file(path, create, parents)?;
        check_size(path, Some(body.size()))?;
        let now = Some(self.time);
        let outcome = match found {
            WriteTarget::Missing(mut slot) => {
                let new =
                    NodeAttributes { mode: Some(0o644), atime: now, mtime: now, ..NodeAttributes::default() };
                Self::created(&self.put(&mut slot, false, body, attrs.or(new))?)
            }
            // Readers see the old file or the new one, and never a part of it.
            WriteTarget::There(old, Some(mut slot)) if can_be_replaced(&old) => {
                // A new file takes over owner, mode and access time of the one that it replaces.
                let kept =
                    NodeAttributes { atime: Some(old.atime()), mtime: now, ..NodeAttributes::like(&old) };
                let new = self.put(&mut slot, true, body, attrs.or(kept))?;
                Outcome::changed(new.version(), new.size())
            }
            WriteTarget::There(old, _) => {
                let attrs = attrs.or(NodeAttributes { mtime: now, ..NodeAttributes::default() });
                self.in_place(&old, path, attrs, |writer, mut file| {
                    // Opened first: if the upload no longer exists, the file must not be emptied.
                    let mut body = writer.open_body(body)?;
                    ftruncate(file, 0).map_err(|errno| failed(errno, path))?;
                    body.pour(&mut file).map_err(|errno| failed(errno, path))
                })?;
                Self::changed(old)?
            }
        };
        self.take(body);
        Ok(outcome)
    }

    /// Creates a file with this content at the name of `slot`. `replace` allows it to replace an existing
    /// file.
    fn put(&mut self, slot: &mut Slot, replace: bool, body: &Body, dress: NodeAttributes) -> Result<Node> {
        if let Body::Staged(staged) = body {
            // The upload is a file in the scratch directory already, and on disk.
            let name = self.staged(staged)?;
            let ready = Node::below(self.scratch.fd(), &name)
                .and_then(|node| self.dress(&node, dress).and_then(|()| self.sync_node(&node)));
            ready.map_err(|errno| failed(errno, &slot.path))?;
            return self.place(&name, slot, replace);
        }
        let path = slot.path.clone();
        self.make(slot, replace, |writer, scratch, name| {
            let mut body = writer.open_body(body)?;
            let made = writer.scratch.file(name).and_then(|mut file| {
                body.pour(&mut file)?;
                writer.dress(&Node::below(scratch.as_fd(), name)?, dress)?;
                writer.sync_new(&file)
            });
            made.map_err(|errno| failed(errno, &path))
        })
    }

    /// Changes a file in place: for appends, patches and truncations, and for writes and copies to a file
    /// that cannot be replaced.
    pub(super) fn in_place(
        &self,
        node: &Node,
        path: &TreePath,
        attrs: NodeAttributes,
        change: impl FnOnce(&Self, &File) -> Result<()>,
    ) -> Result<()> {
        let of_path = |errno| failed(errno, path);
        let file = node.reopen(OFlags::WRONLY).map_err(of_path)?;
        change(self, &file)?;
        match self.dress(node, attrs) {
            // The host lets only the owner of a file set a time. For other users, the write itself has set
            // `mtime`.
            Err(Errno::PERM) if attrs.mode.is_none() && attrs.uid.is_none() && attrs.gid.is_none() => {}
            dressed => dressed.map_err(of_path)?,
        }
        self.sync_file(&file).map_err(of_path)
    }

    pub(super) fn append(
        &mut self,
        path: &TreePath,
        body: &Body,
        create: Create,
        parents: bool,
    ) -> Result<Outcome> {
        let node = match self.find_or_create_file(path, create, parents)? {
            WriteTarget::There(node, _) => node,
            WriteTarget::Missing(mut slot) => {
                check_size(path, Some(body.size()))?;
                let (now, mode) = (Some(self.time), Some(0o644));
                let new = NodeAttributes { mode, atime: now, mtime: now, ..NodeAttributes::default() };
                let made = self.put(&mut slot, false, body, new)?;
                self.take(body);
                return Ok(Self::created(&made));
            }
        };
        check_size(path, node.size().checked_add(body.size()))?;
        let mut bytes = self.open_body(body)?;
        if body.size() == 0 {
            self.take(body);
            return Ok(Self::unchanged(&node));
        }
        let attrs = NodeAttributes { mtime: Some(self.time), ..NodeAttributes::default() };
        self.in_place(&node, path, attrs, |_, mut file| {
            let end = file.seek(SeekFrom::End(0)).map_err(|error| failed(errno(&error), path))?;
            bytes.pour(&mut file).map_err(|errno| {
                // Removes the part that was written, as if the append had not begun.
                let _ = ftruncate(file, end);
                failed(errno, path)
            })
        })?;
        self.take(body);
        Self::changed(node)
    }

    pub(super) fn patch(&mut self, path: &TreePath, offset: u64, body: &Body) -> Result<Outcome> {
        let node = self.tree.file(path)?;
        if body.size() == 0 {
            return Ok(Self::unchanged(&node));
        }
        check_size(path, offset.checked_add(body.size()))?;
        let mut bytes = self.open_body(body)?;
        let attrs = NodeAttributes { mtime: Some(self.time), ..NodeAttributes::default() };
        self.in_place(&node, path, attrs, |_, mut file| {
            file.seek(SeekFrom::Start(offset)).map_err(|error| failed(errno(&error), path))?;
            bytes.pour(&mut file).map_err(|errno| failed(errno, path))
        })?;
        self.take(body);
        Self::changed(node)
    }

    pub(super) fn truncate(&mut self, path: &TreePath, size: u64) -> Result<Outcome> {
        let node = self.tree.file(path)?;
        check_size(path, Some(size))?;
        let attrs = NodeAttributes { mtime: Some(self.time), ..NodeAttributes::default() };
        self.in_place(&node, path, attrs, |_, file| {
            ftruncate(file, size).map_err(|errno| failed(errno, path))
        })?;
        Self::changed(node)
    }

    fn open_body<'b>(&self, body: &'b Body) -> Result<Open<'b>> {
        Ok(match body {
            Body::Bytes(bytes) => Open::Bytes(bytes),
            Body::Staged(staged) => {
                let name = self.staged(staged)?;
                let lost = |_| Error::new(ErrorKind::NotFound, "the staged content has expired");
                Open::Staged(open_below(self.scratch.fd(), &name, OFlags::RDONLY).map_err(lost)?.into())
            }
        })
    }

    fn take(&mut self, body: &Body) {
        if let Body::Staged(staged) = body {
            self.used(staged);
        }
    }
}

/// Content to write to a file.
enum Open<'b> {
    Bytes(&'b [u8]),
    Staged(File),
}

impl Open<'_> {
    fn pour(&mut self, into: &mut (impl Write + AsFd)) -> HostResult<()> {
        let poured = match self {
            Self::Bytes(bytes) => into.write_all(bytes),
            Self::Staged(file) => std::io::copy(file, into).map(drop),
        };
        poured.map_err(|error| errno(&error))
    }
}

fn check_size(path: &TreePath, size: Option<u64>) -> Result<()> {
    match size {
        Some(size) if size <= MAX_FILE => Ok(()),
        _ => Err(Error::at(ErrorKind::TooLarge, path, "a file has at most 8 TiB")),
    }
}

/// Returns true if another file can replace this one: it has no other name, its owner is this process, and
/// it has nothing that would be lost, such as access lists.
pub(super) fn can_be_replaced(node: &Node) -> bool {
    let own = (geteuid().as_raw(), getegid().as_raw());
    let is_own = geteuid().is_root() || own == node.owner();
    node.names() == 1 && is_own && has_no_attributes(node)
}

fn has_no_attributes(node: &Node) -> bool {
    let Ok(file) = node.open() else { return false };
    let mut names = vec![0; 64 << 10];
    match rustix::fs::flistxattr(file, &mut names[..]) {
        // Hosts set security labels on new files themselves.
        Ok(length) => names[..length]
            .split(|byte| *byte == 0)
            .all(|name| name.is_empty() || name.starts_with(b"security.")),
        Err(errno) => errno == Errno::OPNOTSUPP,
    }
}
