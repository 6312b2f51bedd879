//! Files and folders of the host: made durable, with errors that do not contain their paths.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::error::{Error, ErrorKind};

/// Makes the names in a folder survive loss of power.
pub(crate) fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a folder (mode 0700) and those above it if they are missing, each durably.
pub(crate) fn make_dir(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = dir_of(folder);
    make_dir(above)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !folder.is_dir() => Err(error),
        _ => sync_dir(above),
    }
}

/// The folder that holds a file or folder.
pub(crate) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A failure of the host's file system. `what` is a sentence without a path.
pub(crate) fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::new(kind_of(&error), what).with_source(error)
}

fn kind_of(error: &io::Error) -> ErrorKind {
    // EMFILE and ENFILE: `ErrorKind` of the standard library has no name for them
    if matches!(error.raw_os_error(), Some(23 | 24)) {
        return ErrorKind::Unavailable;
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Unavailable,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        _ => ErrorKind::Io,
    }
}
