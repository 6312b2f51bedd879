//! Failures of verbs: their reports on stderr and their exit codes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use garth_agent::kv::{KvCode, KvError};
use garth_engine::home::is_being_deleted;
use garth_engine::{Error, ErrorKind, Home, PathError, TreePath};
use serde_json::json;

use crate::escape::{escaped, escaped_account};
use crate::terminal;

/// Result of a verb.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Reason why a verb failed, completely or in part.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Error of the tree.
    Tree(Error),
    /// Error of a file or folder of this machine.
    Host(PathBuf, io::Error),
    /// Error of the data folder.
    DataDir(PathBuf, Error),
    /// Error of the database, with the place to show.
    Database(String, Error),
    /// Error of the key-value API, with the key if it concerns one.
    Kv(Option<String>, Box<KvError>),
    /// Arguments that cannot be used together, or have a wrong form.
    Usage(String),
    /// Failures that were already reported, with the exit code.
    Reported(u8),
    /// Closed pipe: the reader has what it needs, so this is not an error.
    Pipe,
}

impl Failure {
    /// Returns a failure of a file or folder of this machine.
    pub(crate) fn host(path: &Path) -> impl FnOnce(io::Error) -> Self {
        // Readers of the tree that pass through an interface of `io::Error` wrap its errors
        // (`io::Error::other`).
        move |error| match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(tree) => Self::Tree(tree.clone()),
            None => Self::Host(path.to_owned(), error),
        }
    }

    /// Returns a failure of the data folder.
    pub(crate) fn data_dir(folder: &Path) -> impl FnOnce(Error) -> Self {
        move |error| Self::DataDir(folder.to_owned(), error)
    }

    /// Returns a failure of a home.
    pub(crate) fn of_home(home: &dyn Home) -> impl FnOnce(Error) -> Self {
        let (place, is_folder) = (home.place(), home.folder().is_some());
        move |error| match is_folder {
            true => Self::DataDir(PathBuf::from(place), error),
            false => Self::Database(place, error),
        }
    }

    /// Adds the database to an error of the storage.
    pub(crate) fn in_database(self, place: &str) -> Self {
        match self {
            // An error with a path is about an entry of the tree, not about the database.
            Self::Tree(error) if error.path().is_none() && error.is_of_storage() => {
                Self::Database(place.to_owned(), error)
            }
            other => other,
        }
    }

    /// Adds the data folder to an error of the storage.
    pub(crate) fn in_data_dir(self, folder: &Path) -> Self {
        match self {
            // An error with a path is about an entry of the tree, not about the folder.
            Self::Tree(error) if error.path().is_none() && error.is_of_storage() => {
                Self::DataDir(folder.to_owned(), error)
            }
            other => other,
        }
    }

    /// Explains how to create a chat, if the root of its tree is missing.
    pub(crate) fn without_chat(self) -> Self {
        match self {
            Self::Tree(error)
                if error.is(ErrorKind::NotFound) && error.path().is_some_and(TreePath::is_root) =>
            {
                let message =
                    "the chat does not exist yet; a first `garth write` or `garth mkdir` creates it";
                Self::Tree(Error::new(ErrorKind::NotFound, message))
            }
            other => other,
        }
    }

    /// Adds the account to the failure. If it does not exist, the message explains how to find another.
    pub(crate) fn of_account(self, account: &str) -> Self {
        match self {
            Self::Tree(error) if error.path().is_none() && error.is(ErrorKind::NotFound) => {
                Self::Tree(no_account_or(account, error))
            }
            Self::Tree(error) if error.path().is_none() => {
                let message = format!("account {account}: {}", with_source(&error));
                Self::Tree(Error::new(error.kind(), message))
            }
            other => other,
        }
    }

    /// Returns a failure at a key.
    pub(crate) fn kv(key: &str) -> impl FnOnce(KvError) -> Self {
        move |error| Self::Kv(Some(key.to_owned()), Box::new(error))
    }

    /// Returns a failure at one of several keys, or at all of them.
    pub(crate) fn kv_any(error: KvError) -> Self {
        Self::Kv(error.key().map(str::to_owned), Box::new(error))
    }

    /// Returns a failure to read standard input or to write standard output.
    pub(crate) fn stdio(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Pipe } else { Self::host(Path::new("-"))(error) }
    }

    /// Returns the exit code: 0 success, 1 failure, 2 usage, 3 not found, 4 conflict, 5 access denied, 6
    /// quota or rule, 7 I/O.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Tree(error) | Self::Database(_, error) => kind_code(error.kind()),
            Self::Host(_, error) => match error.kind() {
                io::ErrorKind::NotFound => 3,
                io::ErrorKind::AlreadyExists
                | io::ErrorKind::DirectoryNotEmpty
                | io::ErrorKind::AddrInUse => 4,
                io::ErrorKind::PermissionDenied => 5,
                // As for paths of the tree.
                io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => 1,
                _ => 7,
            },
            // Platforms report an unusable folder in different ways, so all of them get one code.
            Self::DataDir(_, error) => match error.kind() {
                kind @ (ErrorKind::NotFound | ErrorKind::NotEmpty | ErrorKind::Format) => kind_code(kind),
                _ => 7,
            },
            Self::Kv(_, error) => kv_code(error.code()),
            Self::Usage(_) => 2,
            Self::Reported(code) => *code,
            // The reader of the output has seen enough, as in `garth ls | head`.
            Self::Pipe => 0,
        }
    }

    /// Reports the failure on stderr: a line for people, and with `--json` a second line, `{"error":{...}}`.
    pub(crate) fn report(&self, as_json: bool) {
        if matches!(self, Self::Reported(_) | Self::Pipe) {
            return;
        }
        terminal::tell(escaped(&self.to_string()));
        if as_json {
            self.report_json();
        }
    }

    /// Reports the failure on stderr as JSON only.
    pub(crate) fn report_json(&self) {
        let (kind, path, message) = match self {
            Self::Tree(error) => {
                (error.kind().as_str(), error.path().map(ToString::to_string), error.message().to_owned())
            }
            Self::Host(path, error) => {
                (host_kind(error.kind()), Some(path.display().to_string()), host_message(error))
            }
            Self::DataDir(folder, error) => {
                (error.kind().as_str(), Some(folder.display().to_string()), with_source(error))
            }
            Self::Database(place, error) => (error.kind().as_str(), Some(place.clone()), with_source(error)),
            Self::Kv(key, error) => (error.code().as_str(), key.clone(), error.message().to_owned()),
            Self::Usage(message) => ("usage", None, message.clone()),
            Self::Reported(_) | Self::Pipe => return,
        };
        let error = json!({"kind": kind, "path": path, "message": message, "exit": self.code()});
        terminal::tell_json(&json!({ "error": error }));
    }
}

/// Returns an error that names an account that does not exist, and the way to create it, or one that is being
/// deleted. Other errors are returned unchanged.
pub(crate) fn no_account_or(account: &str, error: Error) -> Error {
    if !error.is(ErrorKind::NotFound) {
        return error;
    }
    let account = escaped_account(account);
    if is_being_deleted(&error) {
        let message = format!("{account}: the account is being deleted; `garth account rm` completes it");
        return Error::new(ErrorKind::NotFound, message);
    }
    let how = "`garth account create` creates one, `garth account list` lists them";
    Error::new(ErrorKind::NotFound, format!("{account}: no such account; {how}"))
}

/// Returns the exit code of an error of the tree.
fn kind_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::SymlinkLoop
        | ErrorKind::CrossesMounts
        | ErrorKind::Unsupported
        | ErrorKind::Format => 1,
        ErrorKind::InvalidArgument | ErrorKind::NameTooLong | ErrorKind::NoSuchOffset => 2,
        ErrorKind::NotFound | ErrorKind::NoAttribute | ErrorKind::Gone => 3,
        ErrorKind::AlreadyExists
        | ErrorKind::NotEmpty
        | ErrorKind::Busy
        | ErrorKind::Conflict
        | ErrorKind::Stale
        | ErrorKind::WouldBlock
        | ErrorKind::IdempotencyMismatch => 4,
        ErrorKind::AccessDenied | ErrorKind::NotPermitted | ErrorKind::ReadOnly => 5,
        ErrorKind::TooLarge
        | ErrorKind::BudgetTooSmall
        | ErrorKind::TooManyLinks
        | ErrorKind::RuleViolation
        | ErrorKind::QuotaExceeded => 6,
        ErrorKind::NoSpace
        | ErrorKind::Corrupt
        | ErrorKind::Io
        | ErrorKind::TimedOut
        | ErrorKind::Poisoned
        | ErrorKind::Unavailable => 7,
    }
}

/// Returns the exit code of an error of the key-value API.
fn kv_code(code: KvCode) -> u8 {
    match code {
        KvCode::Validation | KvCode::InvalidPath | KvCode::InvalidGlob => 2,
        KvCode::PathConflict | KvCode::IdempotencyMismatch => 4,
        KvCode::ReservedPath => 5,
        KvCode::TooLarge => 6,
        KvCode::FileSystem(kind) => kind_code(kind),
    }
}

/// Returns the message of an error of this machine, in the words that errors of the tree have.
fn host_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        // Folders are read by listing them, so only what expects a file fails with this error of the system.
        io::ErrorKind::IsADirectory if error.get_ref().is_none() => {
            "is a directory; a file is expected".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Returns the kind that `--json` prints for an error of this machine: the name of the tree's kind, if there
/// is one.
fn host_kind(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => ErrorKind::NotFound.as_str(),
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists.as_str(),
        io::ErrorKind::NotADirectory => ErrorKind::NotADirectory.as_str(),
        io::ErrorKind::IsADirectory => ErrorKind::IsADirectory.as_str(),
        io::ErrorKind::DirectoryNotEmpty => ErrorKind::NotEmpty.as_str(),
        io::ErrorKind::StorageFull => ErrorKind::NoSpace.as_str(),
        io::ErrorKind::PermissionDenied => "permission_denied",
        io::ErrorKind::AddrInUse => "addr_in_use",
        _ => ErrorKind::Io.as_str(),
    }
}

/// Replaces the message of an error of a kind at a path by `message`, which names a helpful option.
pub(crate) fn suggest(kind: ErrorKind, message: &'static str) -> impl FnOnce(Failure) -> Failure {
    move |failure| match &failure {
        Failure::Tree(error) if error.is(kind) => match error.path() {
            Some(path) => Failure::Tree(Error::at(kind, path, message)),
            None => failure,
        },
        _ => failure,
    }
}

/// Replaces the message of an error where one commit would have to change two stores.
pub(crate) fn suggest_across(message: &'static str) -> impl FnOnce(Failure) -> Failure {
    move |failure| match &failure {
        Failure::Tree(error) if error.is(ErrorKind::CrossesMounts) => Failure::Tree(match error.path() {
            Some(path) => Error::at(ErrorKind::CrossesMounts, path, message),
            None => Error::new(ErrorKind::CrossesMounts, message),
        }),
        _ => failure,
    }
}

/// Message if the parent directory of a new entry is missing.
pub(crate) const NO_PARENT: &str = "the parent directory does not exist; -p creates it";

/// Suggests `-p`, for verbs that fail with `NotFound` only if a parent is missing.
pub(crate) fn suggest_parents(failure: Failure) -> Failure {
    suggest(ErrorKind::NotFound, NO_PARENT)(failure)
}

/// Reports an error of an argument, such as a malformed pattern, as one of usage.
pub(crate) fn usage(error: Error) -> Failure {
    match error.path() {
        None if error.is(ErrorKind::InvalidArgument) => Failure::Usage(error.message().to_owned()),
        _ => Failure::Tree(error),
    }
}

/// Returns the reason why a text is not JSON. serde's own words for a text that begins with no value name its
/// functions.
pub(crate) fn json_error(error: &serde_json::Error) -> String {
    error.to_string().replace("expected ident", "expected a value")
}

/// Returns the message of an error of the storage with its cause, which may name files of this machine.
fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.message()),
        None => error.message().to_owned(),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(error) => error.fmt(f),
            Self::Host(path, error) => write!(f, "{}: {}", path.display(), host_message(error)),
            Self::DataDir(folder, error) => write!(f, "{}: {}", folder.display(), with_source(error)),
            Self::Database(place, error) => write!(f, "{place}: {}", with_source(error)),
            Self::Kv(Some(key), error) => write!(f, "{key}: {error}"),
            Self::Kv(None, error) => error.fmt(f),
            Self::Usage(message) => f.write_str(message),
            Self::Reported(code) => write!(f, "exit code {code}"),
            Self::Pipe => f.write_str("broken pipe"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Tree(error)
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::Tree(error.into())
    }
}

/// Failures of several operations in a row. Each is reported at once; the first one decides the exit code.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<u8>,
    count: u64,
}

impl Failures {
    /// Adds the outcome of an operation. Fails if the reader of the output has closed it.
    pub(crate) fn add(&mut self, outcome: Result, as_json: bool) -> Result {
        match outcome {
            // Nobody reads the output of further operations.
            Err(Failure::Pipe) => return Err(Failure::Pipe),
            Err(failure) => {
                failure.report(as_json);
                self.first.get_or_insert(failure.code());
                self.count += 1;
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Returns the number of failures.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the outcome of all operations.
    pub(crate) fn done(&self) -> Result {
        self.first.map_or(Ok(()), |code| Err(Failure::Reported(code)))
    }
}

#[cfg(test)]
mod tests;
