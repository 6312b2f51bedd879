//! Errors of the key-value API. The codes are part of the public contract: interfaces translate a
//! [`KvCode`] and never parse a message.

use std::fmt;

use garth_engine::error::{Error, ErrorKind};
use garth_engine::path::PathError;

/// Reason why a call failed. Interfaces match on this exhaustively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvCode {
    /// An argument is invalid (agent id, limit, time to live, query).
    Validation,
    /// A key path or prefix breaks the rules of [`super`].
    InvalidPath,
    /// A glob pattern breaks the rules of [`super`].
    InvalidGlob,
    /// `/sys` and the keys below it cannot be put.
    ReservedPath,
    /// Another file or directory occupies the place of the value; the message names it.
    PathConflict,
    /// The value is over [`super::MAX_VALUE`] bytes.
    TooLarge,
    /// An idempotency key was used before with another request.
    IdempotencyMismatch,
    /// An error of the filesystem.
    FileSystem(ErrorKind),
}

impl KvCode {
    /// Returns the name in snake case; for [`KvCode::FileSystem`] that of the kind. Names are stable:
    /// scripts compare them.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::InvalidPath => "invalid_path",
            Self::InvalidGlob => "invalid_glob",
            Self::ReservedPath => "reserved_path",
            Self::PathConflict => "path_conflict",
            Self::TooLarge => "too_large",
            Self::IdempotencyMismatch => "idempotency_mismatch",
            Self::FileSystem(kind) => kind.as_str(),
        }
    }
}

/// Error of the key-value API: a code, and a sentence with advice for the user.
#[derive(Debug)]
pub struct KvError {
    code: KvCode,
    key: Option<Box<str>>,
    message: Box<str>,
    source: Option<Error>,
}

/// Result of the key-value API.
pub type KvResult<T> = std::result::Result<T, KvError>;

impl KvError {
    pub(crate) fn new(code: KvCode, message: impl Into<String>) -> Self {
        Self { code, key: None, message: message.into().into_boxed_str(), source: None }
    }

    pub(crate) fn caused(code: KvCode, message: impl Into<String>, source: Error) -> Self {
        Self { code, key: None, message: message.into().into_boxed_str(), source: Some(source) }
    }

    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new(KvCode::Validation, message)
    }

    /// Sets the key that the error is about, unless it names one already.
    pub(crate) fn about(self, key: &str) -> Self {
        Self { key: self.key.or_else(|| Some(key.into())), ..self }
    }

    /// Returns the key at fault of a call with several keys, as it was given; `None` if the error is not
    /// about a single key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns the code.
    pub fn code(&self) -> KvCode {
        self.code
    }

    /// Returns the message for the user. It names keys, never files of the tree or of the host. Only the
    /// path of a quota is named, below which the user has to make room.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<Error> for KvError {
    fn from(error: Error) -> Self {
        // The error has the path only if the caller reaches it.
        let message = match error.path().filter(|_| error.is(ErrorKind::QuotaExceeded)) {
            Some(path) => format!("{path}: {}", error.message()),
            None => error.message().to_owned(),
        };
        let message = message.into_boxed_str();
        Self { code: KvCode::FileSystem(error.kind()), key: None, message, source: Some(error) }
    }
}

impl From<PathError> for KvError {
    fn from(error: PathError) -> Self {
        Error::from(error).into()
    }
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for KvError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
