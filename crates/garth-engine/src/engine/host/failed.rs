//! Errors of the host, as errors of garth. No message contains a path of the host.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind};
use crate::path::TreePath;

/// Converts the error of a system call about a path of the tree.
pub(super) fn failed(errno: Errno, path: &TreePath) -> Error {
    match errno {
        Errno::NOENT => Error::not_found(path),
        Errno::EXIST => Error::already_exists(path),
        // `LOOP` is a symbolic link on the way: lookups follow none.
        Errno::NOTDIR | Errno::LOOP => Error::not_a_directory(path),
        Errno::ISDIR => Error::is_a_directory(path),
        Errno::NOTEMPTY => Error::not_empty(path),
        errno => failed_without_path(errno).about(path),
    }
}

/// Converts the error of a system call about no path.
pub(super) fn failed_without_path(errno: Errno) -> Error {
    let (kind, message) = match errno {
        Errno::NOENT => (ErrorKind::NotFound, "the folder, or something in it, was removed"),
        Errno::ACCESS => {
            (ErrorKind::AccessDenied, "the host denies this process access: check owner and mode")
        }
        Errno::PERM => {
            (ErrorKind::NotPermitted, "the host does not permit this operation: check owner and kind")
        }
        Errno::XDEV => {
            (ErrorKind::CrossesMounts, "another filesystem is mounted here; open that folder separately")
        }
        Errno::NAMETOOLONG => (ErrorKind::NameTooLong, "longer than the host allows"),
        Errno::FBIG => (ErrorKind::TooLarge, "larger than the host allows"),
        Errno::MLINK => (ErrorKind::TooManyLinks, "the host allows no more hard links to this node"),
        Errno::BUSY | Errno::TXTBSY => (ErrorKind::Busy, "in use by the host"),
        Errno::ROFS => (ErrorKind::ReadOnly, "the filesystem of the folder is mounted read-only"),
        Errno::NOSPC => (ErrorKind::NoSpace, "the disk is full"),
        Errno::DQUOT => (ErrorKind::QuotaExceeded, "the disk quota of the host is exceeded"),
        Errno::MFILE | Errno::NFILE => {
            (ErrorKind::Unavailable, "out of file descriptors; raise the limit, or try again later")
        }
        Errno::AGAIN => (ErrorKind::WouldBlock, "the folder kept changing; try again"),
        Errno::OPNOTSUPP | Errno::NOSYS => {
            (ErrorKind::Unsupported, "the filesystem of the folder cannot do that")
        }
        Errno::INVAL => (ErrorKind::InvalidArgument, "the filesystem of the folder refuses the value"),
        _ => (ErrorKind::Io, "the filesystem of the folder failed"),
    };
    // The source says which error it was. It has no path, since only the number is passed on.
    Error::new(kind, message).with_source(std::io::Error::from(errno))
}

/// Converts an error of the standard library.
pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

pub(super) fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a folder of the host {what}"))
}

pub(super) fn busy(path: &TreePath) -> Error {
    Error::at(ErrorKind::Busy, path, "the top cannot be removed or renamed")
}
