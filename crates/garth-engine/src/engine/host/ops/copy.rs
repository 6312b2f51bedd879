//! Copies. A copy is made in the scratch directory, with everything below it, and then moved to its place.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, ftruncate, linkat, mkdirat, mknodat, openat, seek,
    symlinkat,
};
use rustix::io::{Errno, Result as HostResult};

use super::names::is_strictly_within;
use crate::engine::host::failed::{errno, failed};
use crate::engine::host::node::Node;
use crate::engine::host::writer::{NodeAttributes, Slot, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Kind, MAX_COPIED_NAMES, Outcome, WalkPage};
use crate::path::{MAX_STORED_PATH, PathError, TreePath};

impl Writer<'_> {
    pub(super) fn copy(
        &mut self,
        from: &TreePath,
        to: &TreePath,
        recursive: bool,
        replace: bool,
        parents: bool,
    ) -> Result<Outcome> {
        let source = self.tree.find(from)?;
        if source.is_dir() && !recursive {
            let message = "is a directory; copy it recursively";
            return Err(Error::at(ErrorKind::IsADirectory, from, message));
        }
        self.tree.check_whole(&source, from)?;
        self.tree.check_creatable(to)?;
        if source.is_dir() && is_strictly_within(to, from) {
            let message = "a directory cannot be copied into itself";
            return Err(Error::at(ErrorKind::InvalidArgument, to, message));
        }
        let mut slot = self.slot(to, parents)?;
        let old = match &mut slot {
            None => Some(self.tree.find(to)?),
            Some(slot) => slot.taken.take(),
        };
        match (old, slot) {
            // Copying onto something is only for files, and replaces content.
            (Some(old), _) if !replace || !source.is_file() || !old.is_file() => {
                Err(Error::already_exists(to))
            }
            (Some(old), _) if old.is(&source) => Ok(Self::unchanged(&old)),
            (Some(old), slot) => self.copy_onto_existing(&source, from, old, to, slot),
            (None, Some(mut slot)) => {
                self.tree.check_whole(&source, to)?;
                let below = self.below(&source, from, to)?;
                let made = self.make(&mut slot, false, |writer, scratch, name| {
                    writer.copy_new(&source, from, &below, scratch, name).map_err(|errno| failed(errno, from))
                })?;
                Ok(Self::created(&made))
            }
            (None, None) => Err(Error::not_found(to)),
        }
    }

    fn copy_onto_existing(
        &self,
        source: &Node,
        from: &TreePath,
        old: Node,
        to: &TreePath,
        slot: Option<Slot>,
    ) -> Result<Outcome> {
        let dress = NodeAttributes { atime: Some(old.atime()), ..NodeAttributes::like(source) };
        if let Some(mut slot) = slot.filter(|_| super::content::can_be_replaced(&old)) {
            let new = self.make(&mut slot, true, |writer, scratch, name| {
                writer.copy_one(source, scratch, name, dress).map_err(|errno| failed(errno, from))
            })?;
            return Ok(Outcome::changed(new.version(), new.size()));
        }
        self.in_place(&old, to, dress, |_, file| {
            let copied = source.open().and_then(|from| copy_bytes(&from, file, source.size()));
            copied.map_err(|errno| failed(errno, from))
        })?;
        Self::changed(old)
    }

    /// Returns the paths of everything below a directory, in the order of a walk. Counts them against the
    /// limit on copies.
    fn below(&mut self, source: &Node, from: &TreePath, to: &TreePath) -> Result<Vec<TreePath>> {
        let mut below = Vec::new();
        let room = MAX_COPIED_NAMES.saturating_sub(self.copied);
        let too_many = || Error::at(ErrorKind::TooLarge, to, "more than the copies of one batch may create");
        let mut page = WalkPage::default().limit(crate::model::MAX_PAGE);
        while source.is_dir() {
            let walk = self.tree.walk(from, &page)?;
            below.extend(walk.items.into_iter().map(|item| item.path));
            if below.len() >= room {
                return Err(too_many());
            }
            page.after = below.last().cloned();
            if !walk.more {
                break;
            }
        }
        if room == 0 {
            return Err(too_many());
        }
        // Otherwise the copy would have paths that cannot be addressed.
        let longest = below.iter().map(|path| path.key().len() - from.key().len()).max().unwrap_or(0);
        if to.key().len() + longest > MAX_STORED_PATH {
            return Err(PathError::StoredPathTooLong.into());
        }
        self.copied += 1 + below.len();
        Ok(below)
    }

    /// Copies a node, with everything below it, to a name in the scratch directory.
    fn copy_new(
        &self,
        source: &Node,
        from: &TreePath,
        below: &[TreePath],
        scratch: BorrowedFd<'_>,
        name: &str,
    ) -> HostResult<()> {
        let now = Some(self.time);
        let like = |node: &Node| NodeAttributes { atime: now, ..NodeAttributes::like(node) };
        self.copy_one(source, scratch, name, like(source))?;
        if !source.is_dir() {
            return Ok(());
        }
        let top = Node::below(scratch, name)?;
        let mut directories = vec![(String::new(), like(source))];
        let mut several: HashMap<u64, String> = HashMap::new();
        for path in below {
            let Ok(node) = self.tree.find(path) else { continue }; // Removed meanwhile.
            let place = path.key()[from.key().len()..].trim_start_matches('/').to_owned();
            let (above, name) = place.rsplit_once('/').unwrap_or(("", &place));
            // Its directory was removed before it could be copied.
            let Ok(dir) = Node::below(top.as_fd(), above) else { continue };
            // Names of one node become names of one copy.
            if let Some(first) = several.get(&node.host_number()) {
                let first = Node::below(top.as_fd(), first)?;
                linkat(CWD, first.proc_path(), &dir, name, AtFlags::SYMLINK_FOLLOW)?;
                continue;
            }
            self.copy_one(&node, dir.as_fd(), name, like(&node))?;
            if node.is_dir() {
                directories.push((place, like(&node)));
            } else if node.names() > 1 {
                several.insert(node.host_number(), place);
            }
        }
        // From below, because filling a directory changes its times.
        for (place, dress) in directories.iter().rev() {
            let dir = Node::below(top.as_fd(), place)?;
            self.dress(&dir, *dress)?;
            self.sync_node(&dir)?;
        }
        Ok(())
    }

    /// Copies a node without its entries.
    fn copy_one(
        &self,
        node: &Node,
        dir: BorrowedFd<'_>,
        name: &str,
        dress: NodeAttributes,
    ) -> HostResult<()> {
        let own = Mode::RUSR | Mode::WUSR;
        let special = |kind| mknodat(dir, name, kind, own, node.rdev());
        match node.kind() {
            Kind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = File::from(openat(dir, name, flags, own)?);
                copy_bytes(&node.open()?, &file, node.size())?;
                self.dress(&Node::below(dir, name)?, dress)?;
                return self.sync_new(&file);
            }
            // Its attributes come last, or filling it would need rights that it may not grant.
            Kind::Directory => return mkdirat(dir, name, Mode::RWXU),
            Kind::Symlink => {
                let target = rustix::fs::readlinkat(node, "", Vec::new())?;
                symlinkat(&*target, dir, name)?;
            }
            Kind::Fifo => special(FileType::Fifo)?,
            Kind::Socket => special(FileType::Socket)?,
            Kind::CharDevice | Kind::Whiteout => special(FileType::CharacterDevice)?,
            Kind::BlockDevice => special(FileType::BlockDevice)?,
        }
        self.dress(&Node::below(dir, name)?, dress)
    }
}

/// Makes a file contain the first `size` bytes of another. Holes stay holes.
fn copy_bytes(from: &File, to: &File, size: u64) -> HostResult<()> {
    // Emptied first: holes are skipped, and would keep old bytes.
    ftruncate(to, 0)?;
    ftruncate(to, size)?;
    let mut end = 0;
    while end < size {
        let start = match seek(from, SeekFrom::Data(end)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => end, // The filesystem does not know holes.
            Err(errno) => return Err(errno),
        };
        end = match seek(from, SeekFrom::Hole(start)) {
            Ok(end) => end.min(size),
            Err(Errno::INVAL | Errno::NXIO) => size,
            Err(errno) => return Err(errno),
        };
        seek(from, SeekFrom::Start(start))?;
        seek(to, SeekFrom::Start(start))?;
        let mut to = to;
        std::io::copy(&mut from.take(end.saturating_sub(start)), &mut to).map_err(|error| errno(&error))?;
        // The file has become shorter meanwhile: without this the loop would not end.
        if end <= start {
            break;
        }
    }
    Ok(())
}
