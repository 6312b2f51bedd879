//! How a verb fails: what it reports on stderr, and its exit code.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use garth_agent::kv::{KvCode, KvError};
use garth_engine::{Error, ErrorKind, PathError, TreePath};
use serde_json::json;

use crate::escape::escaped;
use crate::terminal;

/// The result of a verb.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why a verb failed, wholly or in part.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The tree refused.
    Tree(Error),
    /// A file or folder of this machine, named by the user, refused.
    Host(PathBuf, io::Error),
    /// The data folder cannot be used.
    DataDir(PathBuf, Error),
    /// The key-value API refused: a key, if it was one.
    Kv(Option<String>, Box<KvError>),
    /// The arguments make no sense together.
    Usage(String),
    /// Each failure was reported when it happened; this is the exit code.
    Reported(u8),
    /// Whoever read the output has gone: no failure of ours.
    Pipe,
}

impl Failure {
    /// A failure of a file or folder of this machine.
    pub(crate) fn host(path: &Path) -> impl FnOnce(io::Error) -> Self {
        // Readers that pass through code that knows only `io::Error` wrap an error of
        // the tree (`io::Error::other`).
        move |error| match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(tree) => Self::Tree(tree.clone()),
            None => Self::Host(path.to_owned(), error),
        }
    }

    /// A failure of the data folder.
    pub(crate) fn data_dir(folder: &Path) -> impl FnOnce(Error) -> Self {
        move |error| Self::DataDir(folder.to_owned(), error)
    }

    /// The same failure; one of the storage names the data folder.
    pub(crate) fn in_data_dir(self, folder: &Path) -> Self {
        match self {
            Self::Tree(error) if error.path().is_none() && is_storage(error.kind()) => {
                Self::DataDir(folder.to_owned(), error)
            }
            other => other,
        }
    }

    /// Says how a chat is made, where the root of its tree is not there.
    pub(crate) fn without_chat(self) -> Self {
        match self {
            Self::Tree(error)
                if error.is(ErrorKind::NotFound) && error.path().is_some_and(TreePath::is_root) =>
            {
                let message = "the chat is not made yet; a first `garth write` or `garth mkdir` makes it";
                Self::Tree(Error::new(ErrorKind::NotFound, message))
            }
            other => other,
        }
    }

    /// Names the account in the failure, and how to find another where there is none.
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

    /// A failure at a key.
    pub(crate) fn kv(key: &str) -> impl FnOnce(KvError) -> Self {
        move |error| Self::Kv(Some(key.to_owned()), Box::new(error))
    }

    /// A failure at one of several keys, or of all together.
    pub(crate) fn kv_any(error: KvError) -> Self {
        Self::Kv(error.key().map(str::to_owned), Box::new(error))
    }

    /// A failure to read standard input or to write standard output.
    pub(crate) fn stdio(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Pipe } else { Self::host(Path::new("-"))(error) }
    }

    /// The exit code: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 denied, 6 quota or rule, 7 I/O.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Tree(error) => kind_code(error.kind()),
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
            // Whatever keeps the storage from working is one cause, however a platform calls it.
            Self::DataDir(_, error) => match error.kind() {
                kind @ (ErrorKind::NotFound | ErrorKind::NotEmpty | ErrorKind::Format) => kind_code(kind),
                _ => 7,
            },
            Self::Kv(_, error) => kv_code(error.code()),
            Self::Usage(_) => 2,
            Self::Reported(code) => *code,
            Self::Pipe => 0,
        }
    }

    /// Reports it on stderr: a line for people, and with `--json` a second line, `{"error":{...}}`.
    pub(crate) fn report(&self, as_json: bool) {
        if matches!(self, Self::Reported(_) | Self::Pipe) {
            return;
        }
        terminal::tell(escaped(&self.to_string()));
        if as_json {
            self.report_json();
        }
    }

    /// Reports it on stderr as JSON alone.
    pub(crate) fn report_json(&self) {
        let (kind, path, message) = match self {
            Self::Tree(error) => {
                (error.kind().as_str(), error.path().map(ToString::to_string), error.message().to_owned())
            }
            Self::Host(path, error) => {
                (host_kind(error.kind()), Some(path.display().to_string()), error.to_string())
            }
            Self::DataDir(folder, error) => {
                (error.kind().as_str(), Some(folder.display().to_string()), with_source(error))
            }
            Self::Kv(key, error) => (error.code().as_str(), key.clone(), error.message().to_owned()),
            Self::Usage(message) => ("usage", None, message.clone()),
            Self::Reported(_) | Self::Pipe => return,
        };
        let error = json!({"kind": kind, "path": path, "message": message, "exit": self.code()});
        terminal::tell_json(&json!({ "error": error }));
    }
}

/// Names an account that does not exist, and how to create it; other errors stay.
pub(crate) fn no_account_or(account: &str, error: Error) -> Error {
    if !error.is(ErrorKind::NotFound) {
        return error;
    }
    let how = "`garth account create` makes one, `garth account list` lists them";
    Error::new(ErrorKind::NotFound, format!("{account}: no such account; {how}"))
}

/// Whether the storage failed, rather than refused what was asked.
fn is_storage(kind: ErrorKind) -> bool {
    use ErrorKind::{Corrupt, Format, Io, NoSpace, Poisoned, Unavailable};
    matches!(kind, Corrupt | Format | Io | NoSpace | Poisoned | Unavailable)
}

/// The exit code of an error of the tree.
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

/// The exit code of an error of the key-value API.
fn kv_code(code: KvCode) -> u8 {
    match code {
        KvCode::Validation | KvCode::InvalidPath | KvCode::InvalidGlob => 2,
        KvCode::PathConflict | KvCode::IdempotencyMismatch => 4,
        KvCode::ReservedPath => 5,
        KvCode::TooLarge => 6,
        KvCode::FileSystem(kind) => kind_code(kind),
    }
}

/// The kind that `--json` shows for an error of this machine: the tree's name for it where there is one.
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

/// Says which option helps: `message` in place of that of an error of this kind at a path.
pub(crate) fn suggest(kind: ErrorKind, message: &'static str) -> impl FnOnce(Failure) -> Failure {
    move |failure| match &failure {
        Failure::Tree(error) if error.is(kind) => match error.path() {
            Some(path) => Failure::Tree(Error::at(kind, path, message)),
            None => failure,
        },
        _ => failure,
    }
}

/// Says what to do where one commit would have to change two stores.
pub(crate) fn suggest_across(message: &'static str) -> impl FnOnce(Failure) -> Failure {
    move |failure| match &failure {
        Failure::Tree(error) if error.is(ErrorKind::CrossesMounts) => Failure::Tree(match error.path() {
            Some(path) => Error::at(ErrorKind::CrossesMounts, path, message),
            None => Error::new(ErrorKind::CrossesMounts, message),
        }),
        _ => failure,
    }
}

/// What is said where the directory is missing that something is to be made in.
pub(crate) const NO_PARENT: &str = "the parent directory does not exist; -p creates it";

/// Suggests `-p`; for verbs that fail with `NotFound` only where a parent is missing.
pub(crate) fn suggest_parents(failure: Failure) -> Failure {
    suggest(ErrorKind::NotFound, NO_PARENT)(failure)
}

/// Why text is not JSON. The parser's own words for text that begins with no value name its functions.
pub(crate) fn json_error(error: &serde_json::Error) -> String {
    error.to_string().replace("expected ident", "expected a value")
}

/// The message of an error of the storage with its reason, which may name files of this machine.
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
            Self::Host(path, error) => write!(f, "{}: {error}", path.display()),
            Self::DataDir(folder, error) => write!(f, "{}: {}", folder.display(), with_source(error)),
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

/// Failures of several things done one after the other. Each is reported at once; the first decides the exit
/// code.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<u8>,
    count: u64,
}

impl Failures {
    /// Takes the outcome of one; a reader that has gone ends it all.
    pub(crate) fn add(&mut self, outcome: Result, as_json: bool) -> Result {
        match outcome {
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

    /// How many failed.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The outcome of all.
    pub(crate) fn done(&self) -> Result {
        self.first.map_or(Ok(()), |code| Err(Failure::Reported(code)))
    }
}

#[cfg(test)]
mod tests;
