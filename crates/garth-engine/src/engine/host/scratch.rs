//! Directory for unfinished files, in the folder but shown by no view. New files, directories and copies
//! are made here and then moved to their place; a tree that is removed is moved here first. So nothing is
//! ever visible in part, and leftovers of a crash are recognised.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, mkdirat, openat, renameat_with, unlinkat,
};
use rustix::fs::{Dir, FileType};
use rustix::io::{Errno, Result as HostResult};

use super::failed::failed_without_path;
use super::node::{Node, open_below};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};

/// Name of the directory in the folder.
pub(super) const SCRATCH: &str = ".garth-tmp";
/// File in it that is locked for each commit, so that several processes of garth take turns.
const LOCK: &str = "lock";
/// Prefix of the names of uploads.
const STAGED: &str = "staged-";
/// Time for which an upload is kept after its last write.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Time for which a commit waits for that of another process.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(2);

/// Open scratch directory.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: OwnedFd,
    env: Env,
}

/// Lock of a commit, held while it runs.
#[derive(Debug)]
pub(super) struct CommitLock(#[allow(dead_code, reason = "closing it unlocks")] OwnedFd);

impl Scratch {
    /// Opens the directory, and creates it if it is missing.
    pub(super) fn open(root: BorrowedFd<'_>, env: &Env) -> Result<Self> {
        match mkdirat(root, SCRATCH, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed_without_path(errno)),
        }
        Self::existing(root, env)
    }

    /// Opens the directory if it exists.
    pub(super) fn existing(root: BorrowedFd<'_>, env: &Env) -> Result<Self> {
        let taken = |_| {
            let message = format!("`{SCRATCH}` in the folder is not a directory of garth; remove it");
            Error::new(ErrorKind::Unavailable, message)
        };
        match open_below(root, SCRATCH, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => Ok(Self { dir, env: env.clone() }),
            // Not replaced: it may be somebody else's file.
            Err(errno @ (Errno::NOTDIR | Errno::LOOP)) => Err(taken(errno)),
            Err(errno) => Err(failed_without_path(errno)),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Returns a name that nothing has.
    pub(super) fn name(&self) -> Result<String> {
        Ok(format!("{:032x}", u128::from_le_bytes(self.env.random()?)))
    }

    /// Returns the name of an upload.
    pub(super) fn staged(id: u128) -> String {
        format!("{STAGED}{id:032x}")
    }

    /// Creates an empty file that only its owner can open.
    pub(super) fn file(&self, name: &str) -> HostResult<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Waits until no other process commits.
    pub(super) fn turn(&self) -> Result<CommitLock> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // Opened for each commit: closing it unlocks.
        let lock = openat(&self.dir, LOCK, flags, Mode::RUSR | Mode::WUSR).map_err(failed_without_path)?;
        let since = self.env.instant();
        loop {
            // Polled: a blocking lock could not give up after `PATIENCE`.
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(CommitLock(lock)),
                Err(Errno::AGAIN | Errno::INTR) if since.elapsed() < PATIENCE => self.env.sleep(STEP),
                Err(Errno::AGAIN | Errno::INTR) => {
                    let message = "another process has been committing to the folder for too long; try again";
                    return Err(Error::new(ErrorKind::Unavailable, message));
                }
                Err(errno) => return Err(failed_without_path(errno)),
            }
        }
    }

    /// Removes leftovers of crashes. The caller holds the lock.
    pub(super) fn clean(&self, _turn: &CommitLock) -> Result<()> {
        let now = self.env.now();
        let kept = |name: &str| {
            let fresh = |node: Node| node.mtime().plus_seconds(KEEP.as_secs().cast_signed()) > now;
            // Another process may be about to commit a fresh upload.
            name.starts_with(STAGED) && Node::below(self.fd(), name).is_ok_and(fresh)
        };
        let names = entries(self.fd()).map_err(failed_without_path)?;
        for (name, is_dir) in names {
            if name.to_str().is_ok_and(|name| name == LOCK || kept(name)) {
                continue;
            }
            self.discard(&name, is_dir).map_err(failed_without_path)?;
        }
        Ok(())
    }

    /// Removes something in the directory, with everything below it. A deep tree takes no more memory or
    /// descriptors than a flat one: each directory is moved up before it is emptied.
    pub(super) fn discard<P: rustix::path::Arg + Copy>(&self, name: P, is_dir: bool) -> HostResult<()> {
        if !is_dir {
            return gone(unlinkat(&self.dir, name, AtFlags::empty()));
        }
        let aside = |dir: &OwnedFd, inner: &std::ffi::CStr| {
            let free = self.name().map_err(|_| Errno::IO)?;
            // Never onto something: names are random, but another process may share the directory.
            renameat_with(dir, inner, &self.dir, &free, RenameFlags::NOREPLACE)?;
            Ok::<_, Errno>(free)
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let first = self.name().map_err(|_| Errno::IO)?;
        renameat_with(&self.dir, name, &self.dir, &first, RenameFlags::NOREPLACE)?;
        let mut todo = vec![first];
        while let Some(name) = todo.pop() {
            let dir = openat(&self.dir, &name, flags, Mode::empty())?;
            for (inner, is_dir) in entries(dir.as_fd())? {
                if is_dir {
                    todo.push(aside(&dir, &inner)?);
                } else {
                    gone(unlinkat(&dir, &inner, AtFlags::empty()))?;
                }
            }
            gone(unlinkat(&self.dir, &name, AtFlags::REMOVEDIR))?;
        }
        Ok(())
    }
}

/// Accepts that the file is missing already.
fn gone(removed: HostResult<()>) -> HostResult<()> {
    if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
}

/// Returns the names in a directory, also those that are not UTF-8, with true for directories.
fn entries(dir: BorrowedFd<'_>) -> HostResult<Vec<(std::ffi::CString, bool)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_dir = match entry.file_type() {
            // Some filesystems do not return types with names.
            FileType::Unknown => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            known => known == FileType::Directory,
        };
        found.push((name.to_owned(), is_dir));
    }
    Ok(found)
}
