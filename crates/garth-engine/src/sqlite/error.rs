//! Maps failures of SQLite to [`ErrorKind`]. The message of SQLite may contain host paths, so it becomes the
//! source and stays out of the message.

use rusqlite::ffi;

use crate::error::{Advice, Error, ErrorKind};
use crate::path::PathError;

/// Result of work on a connection. The pool that lent the connection adds the name of the database.
pub(crate) type DbResult<T> = Result<T, DbError>;

/// Failure of work on a connection: one of SQLite, or an error that needs no mapping.
#[derive(Debug)]
pub(crate) enum DbError {
    /// SQLite failed.
    Sqlite(rusqlite::Error),
    /// Anything else.
    Other(Error),
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for DbError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<PathError> for DbError {
    fn from(error: PathError) -> Self {
        Self::Other(error.into())
    }
}

/// Name of a database in messages, and how to repair it.
#[derive(Debug)]
pub(crate) struct Subject {
    /// As in "{name} is damaged".
    pub(crate) name: &'static str,
    /// Advice for a damaged database.
    pub(crate) repair: &'static str,
    /// Message for a database whose folder was removed while it was in use; `None` if that counts as any
    /// other failure.
    pub(crate) removed: Option<&'static str>,
}

/// Returns the kind of a failure; `Io` if it is unknown. A used up disk quota (EDQUOT) is unknown: SQLite
/// distinguishes only ENOSPC from other failures of a write, and reading `errno` through
/// `sqlite3_system_errno` takes `unsafe` code.
fn kind_of(error: &rusqlite::Error) -> ErrorKind {
    let code = match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure.extended_code,
        // A stored value that garth never wrote.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => return ErrorKind::Corrupt,
        _ => return ErrorKind::Io,
    };
    match code {
        // The shared memory next to the database cannot grow. For a COMMIT see `DbError::of_commit`.
        ffi::SQLITE_IOERR_SHMSIZE => ErrorKind::NoSpace,
        code => match code & 0xff {
            ffi::SQLITE_FULL => ErrorKind::NoSpace,
            ffi::SQLITE_BUSY
            | ffi::SQLITE_LOCKED
            | ffi::SQLITE_READONLY
            | ffi::SQLITE_PERM
            | ffi::SQLITE_CANTOPEN => ErrorKind::Unavailable,
            ffi::SQLITE_CORRUPT => ErrorKind::Corrupt,
            ffi::SQLITE_NOTADB => ErrorKind::Format,
            ffi::SQLITE_INTERRUPT => ErrorKind::TimedOut,
            _ => ErrorKind::Io,
        },
    }
}

impl DbError {
    /// Returns the kind.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Sqlite(error) => kind_of(error),
            Self::Other(error) => error.kind(),
        }
    }

    /// Returns the extended result code of SQLite.
    pub(crate) fn extended_code(&self) -> Option<i32> {
        match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(failure, _)) => Some(failure.extended_code),
            _ => None,
        }
    }

    /// Returns this failure as that of a COMMIT. SQLite enters the frames of a commit into the shared memory
    /// after they are in the WAL, commit mark and sync included. If the shared memory cannot grow then,
    /// recovery after a crash would bring the commit back, so the failure becomes `Io`.
    pub(crate) fn of_commit(self) -> Self {
        let shared_memory = self.extended_code() == Some(ffi::SQLITE_IOERR_SHMSIZE);
        match self {
            Self::Sqlite(error) if shared_memory => {
                let message = "the disk was full at the end of a commit; open the account again to learn whether it succeeded";
                Error::new(ErrorKind::Io, message).with_source(error).into()
            }
            other => other,
        }
    }

    /// Returns true if the state of the disk is unknown. Either a sync failed, so that the kernel may have
    /// dropped pages that it could not write, and a later successful sync proves nothing; or a failed commit
    /// may come back ([`Self::of_commit`]).
    pub(crate) fn leaves_disk_unknown(&self) -> bool {
        const UNKNOWN: [i32; 3] =
            // `SHMSIZE` is `NoSpace` unless `of_commit` has made it `Io`, and only that of a commit counts
            // here.
            [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC, ffi::SQLITE_IOERR_SHMSIZE];
        let mut cause: Option<&(dyn std::error::Error + 'static)> = match self {
            _ if !self.is(ErrorKind::Io) => None,
            Self::Sqlite(error) => Some(error),
            Self::Other(error) => Some(error),
        };
        // `of_commit` and failpoints wrap the SQLite error, so the cause may be several levels down.
        while let Some(error) = cause {
            if let Some(rusqlite::Error::SqliteFailure(failure, _)) = error.downcast_ref() {
                return UNKNOWN.contains(&failure.extended_code);
            }
            cause = error.source();
        }
        false
    }

    /// Returns true if the kind is `kind`.
    pub(crate) fn is(&self, kind: ErrorKind) -> bool {
        self.kind() == kind
    }

    /// Converts to the error that leaves this crate.
    pub(crate) fn describe(self, subject: &Subject) -> Error {
        let error = match self {
            // It has its message already, often with a path of the tree.
            Self::Other(error) => return error,
            Self::Sqlite(error) => error,
        };
        let Subject { name, repair, .. } = subject;
        let kind = kind_of(&error);
        let busy = matches!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
        );
        let read_only = error.sqlite_error_code() == Some(rusqlite::ErrorCode::ReadOnly);
        let message = match kind {
            ErrorKind::Corrupt => format!("{name} is damaged"),
            ErrorKind::Format => format!("{name} is not a garth database; choose another data folder"),
            ErrorKind::NoSpace => {
                // Removals and collections write before they free anything.
                let advice = "free some MiB outside of the data folder and try again: removals and \
                              collections need space, too";
                format!("the disk is full; {advice}")
            }
            ErrorKind::TimedOut => "this read takes too long; ask for less at a time".to_owned(),
            ErrorKind::Unavailable if busy => {
                format!("another process locked {name} for too long; try again")
            }
            ErrorKind::Unavailable if read_only => {
                format!(
                    "{name} cannot be written: it is on a read-only file system, or its permissions forbid it"
                )
            }
            ErrorKind::Unavailable => {
                format!("{name} cannot be opened: check its permissions and the limit of open files")
            }
            _ => format!("the storage of {name} failed"),
        };
        let described = Error::new(kind, message).with_source(error);
        match described.is(ErrorKind::Corrupt) {
            true => described.advising(Advice::Command, repair),
            false => described,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> DbError {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn commit_without_shared_memory_is_not_reported_refused() {
        assert!(failure(ffi::SQLITE_IOERR_SHMSIZE).is(ErrorKind::NoSpace));
        assert!(failure(ffi::SQLITE_IOERR_SHMSIZE).of_commit().is(ErrorKind::Io));
        assert!(failure(ffi::SQLITE_FULL).of_commit().is(ErrorKind::NoSpace), "its last frame is cut off");
    }
}
