//! Kernel side of the comparison: an overlayfs mount of three folders, and the operations of garth as system
//! calls.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use garth_engine::TreePath;
use garth_engine::model::{At, Body, Op, Remove, RenameMode, SetAttrs};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, UTIME_OMIT, linkat, mknodat,
    renameat_with, utimensat,
};
use rustix::io::Errno;

/// An overlayfs mount in a temporary folder. Dropping it unmounts it.
pub(super) struct Union {
    folder: tempfile::TempDir,
    mounted: bool,
}

impl Union {
    /// Creates the folders without mounting them.
    pub(super) fn new() -> Result<Self, String> {
        // In memory: both layers must be on a filesystem that supports whiteouts and extended attributes.
        let base = Path::new("/dev/shm");
        let make = || {
            let folder = tempfile::tempdir_in(base)?;
            for name in ["lower", "upper", "work", "merged"] {
                fs::create_dir(folder.path().join(name))?;
                fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o755))?;
            }
            Ok(Self { folder, mounted: false })
        };
        make().map_err(|error: io::Error| format!("no folder in {}: {error}", base.display()))
    }

    /// Returns one of its folders: `lower`, `upper`, or `merged`, the mount point.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Mounts the layers. Directories of the lower layer can be renamed, and its hard links stay together.
    pub(super) fn mount(&mut self) -> Result<(), String> {
        // `redirect_dir` permits renames of lower directories, and `index` keeps hard links together.
        let options = format!(
            "lowerdir={},upperdir={},workdir={},redirect_dir=on,index=on,metacopy=off,xino=off",
            self.folder("lower").display(),
            self.folder("upper").display(),
            self.folder("work").display(),
        );
        let mount = self.folder("merged");
        run(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(mount))?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts and mounts again, with the layers as they are now.
    pub(super) fn mount_again(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    fn unmount(&mut self) -> Result<(), String> {
        run(Command::new("umount").arg(self.folder("merged")))?;
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Union {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            let _ = run(Command::new("umount").arg("-l").arg(self.folder("merged")));
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let needs = "the comparison with overlayfs needs Linux, root, `overlay` in the kernel and the program `mount` \
                 (apt-get install mount; in a container run it with --privileged)";
    let output = command.output().map_err(|error| format!("{command:?}: {error}; {needs}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}; {needs}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Returns the path in a folder for a path of the tree.
pub(super) fn host(root: &Path, path: &TreePath) -> PathBuf {
    root.join(path.as_str().trim_start_matches('/'))
}

/// Applies an operation with system calls. Promises of garth beyond these are checked here: links in a path
/// are not followed, only files have content, and of several errors the first in the order of garth is
/// returned.
pub(super) fn apply(root: &Path, op: &Op) -> Result<(), Errno> {
    match op {
        Op::Write { at, body, .. } => {
            content(root, at, OpenOptions::new().truncate(true), true)?.write_all(bytes(body)).map_err(errno)
        }
        Op::Append { at, body, .. } => {
            content(root, at, OpenOptions::new().append(true), true)?.write_all(bytes(body)).map_err(errno)
        }
        Op::Patch { at, offset, body } => content(root, at, &mut OpenOptions::new(), false)?
            .write_all_at(bytes(body), *offset)
            .map_err(errno),
        Op::Truncate { at, size } => {
            content(root, at, &mut OpenOptions::new(), false)?.set_len(*size).map_err(errno)
        }
        Op::Mkdir { at, .. } => {
            let path = place(root, at)?;
            fs::create_dir(&path).map_err(errno)?;
            // The umask of the process must not show in the tree.
            fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(errno)
        }
        Op::Symlink { at, target, .. } => std::os::unix::fs::symlink(target, place(root, at)?).map_err(errno),
        Op::Mknod { at, .. } => {
            let path = place(root, at)?;
            mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?;
            fs::set_permissions(path, Permissions::from_mode(0o644)).map_err(errno)
        }
        Op::Link { from, to, .. } => {
            let from = place(root, from)?;
            if look(&from)?.is_dir() {
                return Err(Errno::PERM);
            }
            linkat(CWD, from, CWD, place(root, to)?, AtFlags::empty())
        }
        Op::Remove { at, what, .. } => remove(&place(root, at)?, *what),
        Op::Rename { from, to, mode, .. } => rename(root, from, to, *mode),
        Op::SetAttrs { at, attrs } => set(&place(root, at)?, attrs),
        other => unreachable!("{other:?} is not drawn"),
    }
}

// The signature is the one that `map_err` needs.
#[allow(clippy::needless_pass_by_value)]
fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn bytes(body: &Body) -> &[u8] {
    match body {
        Body::Bytes(bytes) => bytes,
        Body::Staged(_) => unreachable!("staged bodies are not drawn"),
    }
}

fn look(path: &Path) -> Result<Metadata, Errno> {
    fs::symlink_metadata(path).map_err(errno)
}

/// Returns the host path of an address if no component is a link.
fn place(root: &Path, at: &At) -> Result<PathBuf, Errno> {
    let At::Path(path) = at else { unreachable!("paths are drawn") };
    for above in path.ancestors() {
        if !look(&host(root, &above))?.is_dir() {
            return Err(Errno::NOTDIR);
        }
    }
    Ok(host(root, path))
}

fn content(root: &Path, at: &At, how: &mut OpenOptions, create: bool) -> Result<File, Errno> {
    let path = place(root, at)?;
    let found = look(&path);
    match &found {
        Ok(found) if found.is_dir() => return Err(Errno::ISDIR),
        Ok(found) if !found.is_file() => return Err(Errno::PERM),
        _ => {}
    }
    let file = how.write(true).create(create).mode(0o644).open(path).map_err(errno)?;
    if found.is_err() {
        file.set_permissions(Permissions::from_mode(0o644)).map_err(errno)?;
    }
    Ok(file)
}

fn remove(path: &Path, what: Remove) -> Result<(), Errno> {
    let is_dir = look(path)?.is_dir();
    match what {
        Remove::Tree if is_dir => fs::remove_dir_all(path),
        Remove::Directory => fs::remove_dir(path),
        Remove::Any if is_dir => fs::remove_dir(path),
        Remove::Tree | Remove::File | Remove::Any => fs::remove_file(path),
    }
    .map_err(errno)
}

fn rename(root: &Path, from: &At, to: &At, mode: RenameMode) -> Result<(), Errno> {
    let (At::Path(from_path), At::Path(to_path)) = (from, to) else { unreachable!("paths are drawn") };
    let old = place(root, from)?;
    let is_dir = look(&old)?.is_dir();
    // Checked first, as garth does: the kernel may find another error before.
    if is_dir && to_path != from_path && to_path.is_within(from_path) {
        return Err(Errno::INVAL);
    }
    if to_path != from_path && from_path.is_within(to_path) {
        return Err(if mode == RenameMode::Exchange { Errno::INVAL } else { Errno::NOTEMPTY });
    }
    let flags = match mode {
        RenameMode::Replace => RenameFlags::empty(),
        RenameMode::NoReplace => RenameFlags::NOREPLACE,
        RenameMode::Exchange => RenameFlags::EXCHANGE,
    };
    renameat_with(CWD, old, CWD, place(root, to)?, flags)
}

fn set(path: &Path, attrs: &SetAttrs) -> Result<(), Errno> {
    look(path)?;
    if let Some(mode) = attrs.mode {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(errno)?;
    }
    if attrs.uid.is_some() || attrs.gid.is_some() {
        std::os::unix::fs::lchown(path, attrs.uid, attrs.gid).map_err(errno)?;
    }
    match attrs.mtime {
        Some(time) => set_time(path, time.0 / 1_000_000_000),
        None => Ok(()),
    }
}

/// Returns true if an operation is about the mode of a symbolic link, which Linux does not have.
pub(super) fn is_mode_of_link(root: &Path, op: &Op) -> bool {
    match op {
        Op::SetAttrs { at, attrs } if attrs.mode.is_some() => {
            place(root, at).and_then(|path| look(&path)).is_ok_and(|found| found.is_symlink())
        }
        _ => false,
    }
}

/// Returns true if an operation renames a node onto one of its own names, which has no effect.
pub(super) fn is_rename_of_nothing(root: &Path, op: &Op) -> bool {
    let Op::Rename { from, to, .. } = op else { return false };
    let number = |at| place(root, at).and_then(|path| look(&path)).map(|found| found.ino());
    from == to || matches!((number(from), number(to)), (Ok(one), Ok(other)) if one == other)
}

/// Sets the modification time, in seconds.
pub(super) fn set_time(path: &Path, seconds: i64) -> Result<(), Errno> {
    // Leaves the time of access alone.
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: omit, last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 } };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the modification time, in nanoseconds.
pub(super) fn mtime(found: &Metadata) -> i64 {
    found.mtime() * 1_000_000_000 + found.mtime_nsec()
}
