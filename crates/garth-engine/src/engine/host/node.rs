//! Node of the host, held by a descriptor that can neither read nor write it. So its kind is known before
//! anything is opened: no fifo blocks, and no device wakes up.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, StatxTimestamp, makedev, openat, openat2,
    readlinkat, statx,
};
use rustix::fs::{RawMode, ResolveFlags};
use rustix::io::{Errno, Result};

use crate::model::{Attributes, Entry, Ino, Kind, Seq, Timestamp, VersionId};

/// Limit on a path in one system call, in bytes: `PATH_MAX` without its NUL.
const LONGEST: usize = 4095;
/// Attempts of a lookup that the kernel gives up (`EAGAIN`) because of a concurrent rename.
const TRIES: usize = 32;

/// Opens a path below a directory; an empty path is the directory itself. The kernel refuses every symbolic
/// link on the way, `..`, and mounts, so that nothing leads outside, even while other processes change the
/// folder.
pub(super) fn open_below(base: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd> {
    let (mut rest, mut dir) = (path, None::<OwnedFd>);
    // Step by step: a path of the tree may be longer than a system call takes.
    while rest.len() > LONGEST {
        let cut = rest.as_bytes()[..LONGEST].iter().rposition(|byte| *byte == b'/');
        let (first, behind) = rest.split_at(cut.ok_or(Errno::NAMETOOLONG)?);
        let from = dir.as_ref().map_or(base, |dir| dir.as_fd());
        dir = Some(open_step(from, first, OFlags::PATH | OFlags::DIRECTORY)?);
        rest = &behind[1..];
    }
    open_step(dir.as_ref().map_or(base, |dir| dir.as_fd()), if rest.is_empty() { "." } else { rest }, flags)
}

fn open_step(base: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd> {
    // `NOFOLLOW` with `PATH` opens a symbolic link itself, so that links are shown as such.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let mut tries = (0..TRIES).map(|_| openat2(base, path, flags, Mode::empty(), resolve));
    // `openat2` fails with `AGAIN` if it cannot rule out that a concurrent rename led outside.
    let given_up = |opened: &Result<_>| !matches!(opened, Err(Errno::AGAIN | Errno::INTR));
    tries.find(given_up).unwrap_or(Err(Errno::AGAIN))
}

/// Opens a directory below another to read its names, without changing its access time if the host allows
/// that.
pub(super) fn open_dir(base: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match open_below(base, path, flags | OFlags::NOATIME) {
        // Only the owner of a file may use `NOATIME`.
        Err(Errno::PERM) => open_below(base, path, flags),
        opened => opened,
    }
}

/// Node that was found.
#[derive(Debug)]
pub(super) struct Node {
    fd: OwnedFd,
    /// Boxed, because it is large.
    stat: Box<Statx>,
    is_root: bool,
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Node {
    /// Returns the node at a path below a directory.
    pub(super) fn below(base: BorrowedFd<'_>, path: &str) -> Result<Self> {
        let fd = open_below(base, path, OFlags::PATH)?;
        let stat = stat(fd.as_fd())?;
        Ok(Self { fd, stat, is_root: false })
    }

    /// Returns the node, shown as the root.
    pub(super) fn into_root(self) -> Self {
        Self { is_root: true, ..self }
    }

    /// Returns the node with its present state.
    pub(super) fn again(self) -> Result<Self> {
        Ok(Self { stat: stat(self.fd.as_fd())?, ..self })
    }

    /// Returns the present state of the node, with a descriptor of its own.
    pub(super) fn now(&self) -> Result<Self> {
        let fd = self.fd.try_clone().map_err(|_| Errno::MFILE)?;
        Self { fd, stat: self.stat.clone(), is_root: self.is_root }.again()
    }

    pub(super) fn kind(&self) -> Kind {
        match FileType::from_raw_mode(RawMode::from(self.stat.stx_mode)) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            // Form in which overlayfs of Linux hides a name.
            FileType::CharacterDevice if self.rdev() == 0 => Kind::Whiteout,
            FileType::CharacterDevice => Kind::CharDevice,
            _ => Kind::BlockDevice,
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind() == Kind::Directory
    }

    pub(super) fn is_file(&self) -> bool {
        self.kind() == Kind::File
    }

    pub(super) fn ino(&self) -> Ino {
        if self.is_root { Ino::ROOT } else { Ino(self.host_number()) }
    }

    pub(super) fn host_number(&self) -> u64 {
        self.stat.stx_ino
    }

    pub(super) fn names(&self) -> u64 {
        u64::from(self.stat.stx_nlink)
    }

    pub(super) fn mode(&self) -> u32 {
        u32::from(self.stat.stx_mode) & 0o7777
    }

    pub(super) fn owner(&self) -> (u32, u32) {
        (self.stat.stx_uid, self.stat.stx_gid)
    }

    pub(super) fn atime(&self) -> Timestamp {
        time(&self.stat.stx_atime)
    }

    pub(super) fn mtime(&self) -> Timestamp {
        time(&self.stat.stx_mtime)
    }

    /// Size in bytes of a file or of the target of a link; 0 for anything else.
    pub(super) fn size(&self) -> u64 {
        if matches!(self.kind(), Kind::File | Kind::Symlink) { self.stat.stx_size } else { 0 }
    }

    pub(super) fn rdev(&self) -> u64 {
        makedev(self.stat.stx_rdev_major, self.stat.stx_rdev_minor)
    }

    pub(super) fn is_link(&self) -> bool {
        self.kind() == Kind::Symlink
    }

    /// Returns true if both are the same node.
    pub(super) fn is(&self, other: &Self) -> bool {
        // Inodes are unique only within one device.
        let id = |stat: &Statx| (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        id(&self.stat) == id(&other.stat)
    }

    /// Returns a version that identifies the visible state of the node. It is also the etag, because changes
    /// of content cannot be distinguished from other changes.
    pub(super) fn version(&self) -> VersionId {
        let (uid, gid) = self.owner();
        let parts: [&[u8]; 7] = [
            &time(&self.stat.stx_ctime).0.to_le_bytes(),
            &self.mtime().0.to_le_bytes(),
            &self.size().to_le_bytes(),
            &self.names().to_le_bytes(),
            &self.mode().to_le_bytes(),
            &uid.to_le_bytes(),
            &gid.to_le_bytes(),
        ];
        let mut hash = blake3::Hasher::new();
        for part in parts {
            hash.update(part);
        }
        let mut number = [0; 8];
        number.copy_from_slice(&hash.finalize().as_bytes()[..8]);
        // 63 bits, because some stores use signed integers.
        VersionId { seq: Seq(u64::from_le_bytes(number) >> 1), ino: self.ino() }
    }

    /// Returns the entry of the node.
    pub(super) fn entry(&self) -> Result<Entry> {
        let kind = self.kind();
        let target = match kind {
            // A target that is not UTF-8 is not shown.
            Kind::Symlink => readlinkat(&self.fd, "", Vec::new())?.into_string().ok(),
            _ => None,
        };
        let (uid, gid) = self.owner();
        Ok(Entry {
            ino: self.ino(),
            kind,
            mode: self.mode(),
            uid,
            gid,
            rdev: self.rdev(),
            nlink: self.names(),
            size: self.size(),
            atime: self.atime(),
            mtime: self.mtime(),
            ctime: time(&self.stat.stx_ctime),
            birthtime: match time(&self.stat.stx_btime) {
                Timestamp(0) => self.mtime(), // The filesystem stores none.
                known => known,
            },
            target,
            attributes: Attributes::default(),
            expires_at: None,
            version: self.version(),
            etag: self.version(),
        })
    }

    /// Opens this very node, whatever has its name by now. Only for files and directories.
    pub(super) fn reopen(&self, flags: OFlags) -> Result<File> {
        // The kind was checked when the node was found. Should it be wrong, opening must not wait.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(openat(CWD, self.proc_path(), flags, Mode::empty())?.into())
    }

    /// Opens the node for reading, without changing its access time if the host allows that.
    pub(super) fn open(&self) -> Result<File> {
        match self.reopen(OFlags::RDONLY | OFlags::NOATIME) {
            Err(Errno::PERM) => self.reopen(OFlags::RDONLY),
            opened => opened,
        }
    }

    /// Returns the path of the descriptor in `/proc`, for calls that do not take a descriptor of this kind.
    pub(super) fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }
}

fn stat(fd: BorrowedFd<'_>) -> Result<Box<Statx>> {
    let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(fd, "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, what).map(Box::new)
}

fn time(at: &StatxTimestamp) -> Timestamp {
    Timestamp(at.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(at.tv_nsec)))
}
