//! Files and folders of the host: durable changes, and errors without host paths.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, StatVfsMountFlags, fallocate};

use crate::error::{Error, ErrorKind};

/// Limit on the descriptors that opening an account takes: its lock files, and database, WAL and shared
/// memory of a reader and of the writer.
const SPARE_DESCRIPTORS: usize = 8;

/// Syncs a folder, so that the names in it survive a loss of power.
pub(crate) fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Creates a folder (mode 0700) and missing ones above it, each durably.
pub(crate) fn make_dir(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = dir_of(folder);
    make_dir(above)?;
    match new_dir(folder) {
        // Another process may have created it; its name is synced all the same, because that process may not
        // have got there yet.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !folder.is_dir() => Err(error),
        _ => sync_dir(above),
    }
}

/// Creates a folder (mode 0700). Fails if it exists.
pub(crate) fn new_dir(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Frees the disk space of a range of a file. The range then reads as zeros, and the file keeps its length.
/// `Unsupported` if the filesystem cannot do so.
pub(crate) fn punch_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, mode, offset, length)?)
}

/// Returns the folder of a file or folder.
pub(crate) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns true if a file is on a filesystem that is mounted read-only; `false` if that is unknown.
pub(crate) fn is_read_only(file: &Path) -> bool {
    rustix::fs::statvfs(file).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Returns the bytes that are free on the filesystem of a folder; `None` if that is unknown.
pub(crate) fn free_space(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns true if the process, or the system, has fewer file descriptors left than opening a database takes.
pub(crate) fn is_short_of_descriptors() -> bool {
    // Tried, not computed: the system may have run out of descriptors below the limit of the process.
    let spare: io::Result<Vec<File>> = (0..SPARE_DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    spare.is_err_and(|error| is_out_of_descriptors(&error))
}

/// Returns true for EMFILE and ENFILE: `ErrorKind` of the standard library has no name for them.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// Returns a converter for failures of the host filesystem. `what` is a sentence without a path.
pub(crate) fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| {
        let kind = kind_of(&error);
        let message = match kind {
            // Whoever asked can free some space, so the message says more than the kind.
            ErrorKind::NoSpace => format!("{what}: the disk is full"),
            _ => what.to_owned(),
        };
        Error::new(kind, message).with_source(error)
    }
}

fn kind_of(error: &io::Error) -> ErrorKind {
    if is_out_of_descriptors(error) {
        return ErrorKind::Unavailable;
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Unavailable,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_named() {
        let failed = failed("the upload could not be written");
        for (cause, kind, message) in [
            (
                io::ErrorKind::StorageFull,
                ErrorKind::NoSpace,
                "the upload could not be written: the disk is full",
            ),
            (
                io::ErrorKind::QuotaExceeded,
                ErrorKind::NoSpace,
                "the upload could not be written: the disk is full",
            ),
            (io::ErrorKind::Other, ErrorKind::Io, "the upload could not be written"),
        ] {
            let error = failed(cause.into());
            assert_eq!((error.kind(), error.message()), (kind, message));
        }
    }
}
