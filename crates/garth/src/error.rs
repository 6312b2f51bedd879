//! The one error type. A kind says what went wrong in terms every interface can translate: an errno for
//! mounts and the command line, a status for HTTP.

use std::fmt;

use crate::path::TreePath;

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Interfaces match on this exhaustively, without a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Nothing by that name, or no such node, version or snapshot. `ENOENT`
    NotFound,
    /// The name is taken. `EEXIST`
    AlreadyExists,
    /// Something on the way is not a directory; `path` names it. `ENOTDIR`
    NotADirectory,
    /// A directory where a file is needed. `EISDIR`
    IsADirectory,
    /// The directory has entries. `ENOTEMPTY`
    NotEmpty,
    /// The request makes no sense as asked. `EINVAL`
    InvalidArgument,
    /// More symbolic links on the way than are followed. `ELOOP`
    SymlinkLoop,
    /// A name or path is too long. `ENAMETOOLONG`
    NameTooLong,
    /// The credential does not reach this. `EACCES`
    AccessDenied,
    /// The kind of node does not allow this (a hard link to a directory, content of a fifo). `EPERM`
    NotPermitted,
    /// A view of the past or a read-only layer. `EROFS`
    ReadOnly,
    /// A body, file or answer is larger than this call takes. `EFBIG`
    TooLarge,
    /// A node has as many names as it can. `EMLINK`
    TooManyLinks,
    /// The root or something in use. `EBUSY`
    Busy,
    /// A precondition of the batch does not hold. `ESTALE`
    Conflict,
    /// An idempotency key was used before with another request. `EINVAL`
    IdempotencyMismatch,
    /// That part of the past is beyond retention; `oldest` in the message says what is left. `ESTALE`
    Gone,
    /// A rule of the path's class refuses the content. `EINVAL`
    RuleViolation,
    /// The account's or subtree's quota is used up. `EDQUOT`
    QuotaExceeded,
    /// The disk is full. `ENOSPC`
    NoSpace,
    /// This implementation lacks the ability (see `capabilities`). `ENOTSUP`
    Unsupported,
    /// The data folder is of a format this build does not read. `EPROTONOSUPPORT`
    Format,
    /// Stored bytes do not match their checksum, or rows contradict each other. `EIO`
    Corrupt,
    /// The storage failed. `EIO`
    Io,
    /// An earlier storage failure left this handle unusable; open it again. `EIO`
    Poisoned,
}

impl ErrorKind {
    /// The Linux errno a mount answers with.
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotFound => 2,
            Self::Io | Self::Corrupt | Self::Poisoned => 5,
            Self::AccessDenied => 13,
            Self::Busy => 16,
            Self::AlreadyExists => 17,
            Self::NotADirectory => 20,
            Self::IsADirectory => 21,
            Self::InvalidArgument | Self::IdempotencyMismatch | Self::RuleViolation => 22,
            Self::TooLarge => 27,
            Self::NoSpace => 28,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::NotPermitted => 1,
            Self::NameTooLong => 36,
            Self::NotEmpty => 39,
            Self::SymlinkLoop => 40,
            Self::Format => 93,
            Self::Unsupported => 95,
            Self::Conflict | Self::Gone => 116,
            Self::QuotaExceeded => 122,
        }
    }
}

/// An error: its kind, the path of the tree it is about, and a sentence that tells the user what to do.
/// Never holds a path of the host, a secret, or anything of another account.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: Option<TreePath>,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error that is about no particular path.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, path: None, message: message.into(), source: None }
    }

    /// An error about `path`.
    pub fn at(kind: ErrorKind, path: &TreePath, message: impl Into<String>) -> Self {
        Self { kind, path: Some(path.clone()), message: message.into(), source: None }
    }

    /// Adds what caused it. The source is for logs of operators; `Display` does not show it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The path it is about, in the namespace of the filesystem that answered.
    pub fn path(&self) -> Option<&TreePath> {
        self.path.as_ref()
    }

    /// The sentence for the user, without the path.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the kind is `kind`.
    pub fn is(&self, kind: ErrorKind) -> bool {
        self.kind == kind
    }

    /// The same error, about `path` if it is about none yet.
    #[must_use]
    pub(crate) fn about(mut self, path: &TreePath) -> Self {
        self.path.get_or_insert_with(|| path.clone());
        self
    }

    /// The same error told again: to each member of a group that failed together.
    pub(crate) fn again(&self) -> Self {
        Self { kind: self.kind, path: self.path.clone(), message: self.message.clone(), source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Shorthands for the errors that several places raise, so that they read the same everywhere.
impl Error {
    pub(crate) fn not_found(path: &TreePath) -> Self {
        Self::at(ErrorKind::NotFound, path, "no such file or directory")
    }

    pub(crate) fn not_a_directory(path: &TreePath) -> Self {
        Self::at(ErrorKind::NotADirectory, path, "not a directory")
    }

    pub(crate) fn is_a_directory(path: &TreePath) -> Self {
        Self::at(ErrorKind::IsADirectory, path, "is a directory")
    }

    pub(crate) fn already_exists(path: &TreePath) -> Self {
        Self::at(ErrorKind::AlreadyExists, path, "already exists")
    }

    pub(crate) fn not_empty(path: &TreePath) -> Self {
        Self::at(ErrorKind::NotEmpty, path, "the directory is not empty")
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    pub(crate) fn no_node() -> Self {
        Self::new(ErrorKind::NotFound, "no such node")
    }
}
