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
        Errno::NOENT => (ErrorKind::NotFound, "the folder, or something in it, has gone"),
        Errno::ACCESS => {
            (ErrorKind::AccessDenied, "the host does not allow it to this process: see owner and mode")
        }
        Errno::PERM => {
            (ErrorKind::NotPermitted, "the host does not allow it to this process: see owner and kind")
        }
        Errno::XDEV => {
            (ErrorKind::CrossesMounts, "another file system is mounted here; open its folder by itself")
        }
        Errno::NAMETOOLONG => (ErrorKind::NameTooLong, "longer than the host keeps"),
        Errno::FBIG => (ErrorKind::TooLarge, "larger than the host keeps"),
        Errno::MLINK => (ErrorKind::TooManyLinks, "the host keeps no more names of one node"),
        Errno::BUSY | Errno::TXTBSY => (ErrorKind::Busy, "the host uses it"),
        Errno::ROFS => (ErrorKind::ReadOnly, "the folder's file system is mounted read-only"),
        Errno::NOSPC => (ErrorKind::NoSpace, "the disk is full"),
        Errno::DQUOT => (ErrorKind::QuotaExceeded, "the host's quota is used up"),
        Errno::MFILE | Errno::NFILE => {
            (ErrorKind::Unavailable, "out of file descriptors; raise the limit, or try again later")
        }
        Errno::AGAIN => (ErrorKind::WouldBlock, "the folder kept changing; try again"),
        Errno::OPNOTSUPP | Errno::NOSYS => {
            (ErrorKind::Unsupported, "the folder's file system cannot do that")
        }
        Errno::INVAL => (ErrorKind::InvalidArgument, "the folder's file system refuses the value"),
        _ => (ErrorKind::Io, "the folder's file system failed"),
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
