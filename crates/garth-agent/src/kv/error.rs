//! What the key-value API refuses, in its own terms: the codes are part of the outside contract, so
//! interfaces translate a [`KvCode`] and never guess from a message.

use std::fmt;

use garth_engine::error::{Error, ErrorKind};
use garth_engine::path::PathError;

/// Why a call was refused. Interfaces match on this exhaustively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvCode {
    /// An argument makes no sense (agent id, limit, time to live, query).
    Validation,
    /// A key path or prefix breaks the rules of [`super`].
    InvalidPath,
    /// A glob pattern breaks the rules of [`super`].
    InvalidGlob,
    /// `/sys` and what is below it takes no values.
    ReservedPath,
    /// Something else stands where the value has to go; the message names it.
    PathConflict,
    /// The value is over [`super::MAX_VALUE`] bytes.
    TooLarge,
    /// An idempotency key was used before with another request.
    IdempotencyMismatch,
    /// The filesystem refused or failed.
    FileSystem(ErrorKind),
}

impl KvCode {
    /// Its name, in snake case; of [`KvCode::FileSystem`] the kind's. Stable: scripts compare it.
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

/// An error of the key-value API: its code and a sentence that tells the user what to do.
#[derive(Debug)]
pub struct KvError {
    code: KvCode,
    key: Option<Box<str>>,
    message: String,
    source: Option<Error>,
}

/// Result of the key-value API.
pub type KvResult<T> = std::result::Result<T, KvError>;

impl KvError {
    pub(crate) fn new(code: KvCode, message: impl Into<String>) -> Self {
        Self { code, key: None, message: message.into(), source: None }
    }

    pub(crate) fn caused(code: KvCode, message: impl Into<String>, source: Error) -> Self {
        Self { code, key: None, message: message.into(), source: Some(source) }
    }

    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new(KvCode::Validation, message)
    }

    /// The same error about this key, unless it names one already.
    pub(crate) fn about(self, key: &str) -> Self {
        Self { key: self.key.or_else(|| Some(key.into())), ..self }
    }

    /// Of a call with several keys the one that is wrong, as it was given; `None` if it is no single one.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Why.
    pub fn code(&self) -> KvCode {
        self.code
    }

    /// The sentence for the user. Names keys, never files of the tree or of the host.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<Error> for KvError {
    fn from(error: Error) -> Self {
        Self {
            code: KvCode::FileSystem(error.kind()),
            key: None,
            message: error.message().to_owned(),
            source: Some(error),
        }
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
