//! The error type of garth. Its kind states the cause in terms that every interface translates: to an errno
//! for mounts, a status for HTTP, an exit code for the command line.

mod advice;

use std::convert::Infallible;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;
use std::sync::Arc;

#[doc(hidden)]
pub use self::advice::Advice;
use crate::path::{PathError, SYSTEM, TreePath};

/// Result of the functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Declares the kinds from one table, so that no list of them (names, errnos, [`ErrorKind::ALL`]) can lack
/// one.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $errno:literal;)*) => {
        /// Cause of an error, as interfaces translate it.
        ///
        /// Deliberately not `#[non_exhaustive]`: each interface translates every kind (errno, HTTP
        /// status, exit code) in a match without a wildcard arm, so a new kind does not compile until all
        /// of them translate it. `docs/specs/tree.md` has the table,
        /// `docs/decisions/exhaustive-error-kinds.md` the reasons.
        ///
        /// [`as_str`](Self::as_str) gives a stable name for JSON and logs, [`FromStr`] reads it back:
        ///
        /// ```
        /// # use garth_engine as garth;
        /// use garth::ErrorKind;
        ///
        /// assert_eq!(ErrorKind::NotADirectory.as_str(), "not_a_directory");
        /// assert_eq!("not_a_directory".parse::<ErrorKind>()?, ErrorKind::NotADirectory);
        /// assert_eq!(ErrorKind::NotADirectory.errno(), 20); // ENOTDIR
        /// # Ok::<(), garth::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
        }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name in snake case. It is stable: scripts and clients compare it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Returns the Linux errno that a mount reports.
            pub const fn errno(self) -> i32 {
                match self {
                    $(Self::$kind => $errno,)*
                }
            }
        }
    };
}

kinds! {
    /// No node has this name or inode, or the version or snapshot does not exist. `ENOENT`
    NotFound, "not_found", 2;
    /// The name is taken. `EEXIST`
    AlreadyExists, "already_exists", 17;
    /// A component of the path is not a directory; `path` names it. `ENOTDIR`
    NotADirectory, "not_a_directory", 20;
    /// The path is a directory, but a file is needed. `EISDIR`
    IsADirectory, "is_a_directory", 21;
    /// The directory has entries. `ENOTEMPTY`
    NotEmpty, "not_empty", 39;
    /// The request is malformed or contradicts itself. `EINVAL`
    InvalidArgument, "invalid_argument", 22;
    /// The path leads over more symbolic links than are followed. `ELOOP`
    SymlinkLoop, "symlink_loop", 40;
    /// A name or path is too long. `ENAMETOOLONG`
    NameTooLong, "name_too_long", 36;
    /// The credential gives no access to this. `EACCES`
    AccessDenied, "access_denied", 13;
    /// The kind of node does not support this (a hard link to a directory, content of a fifo). `EPERM`
    NotPermitted, "not_permitted", 1;
    /// One commit would change two stores, such as both ends of a rename. `EXDEV`
    CrossesMounts, "crosses_mounts", 18;
    /// The node has no attribute of that name. `ENODATA`
    NoAttribute, "no_attribute", 61;
    /// The offset is at or beyond the end of the file, or only a hole follows it. `ENXIO`
    NoSuchOffset, "no_such_offset", 6;
    /// A view of the past or a read-only layer cannot be written. `EROFS`
    ReadOnly, "read_only", 30;
    /// A body, file or response is larger than this call allows. `EFBIG`
    TooLarge, "too_large", 27;
    /// The parts that a model must get exceed the token budget; the message names the least budget that
    /// works. `E2BIG`
    BudgetTooSmall, "budget_too_small", 7;
    /// The node has the largest possible number of names. `EMLINK`
    TooManyLinks, "too_many_links", 31;
    /// The node is the root or is in use. `EBUSY`
    Busy, "busy", 16;
    /// A precondition of the batch does not hold. `ESTALE`
    Conflict, "conflict", 116;
    /// A view lowered a batch from reads that are out of date. The view tries again: callers never see this
    /// kind. `ESTALE`
    Stale, "stale", 116;
    /// Other writers changed the tree at each of several attempts; try again. `EAGAIN`
    WouldBlock, "would_block", 11;
    /// A read exceeded its time limit; ask for less. `ETIMEDOUT`
    TimedOut, "timed_out", 110;
    /// An idempotency key was used before with another request. `EINVAL`
    IdempotencyMismatch, "idempotency_mismatch", 22;
    /// The requested part of the past is beyond retention; `oldest` in the message names the oldest that is
    /// left. `ESTALE`
    Gone, "gone", 116;
    /// A rule for this path rejects the content. `EINVAL`
    RuleViolation, "rule_violation", 22;
    /// The quota of the account or subtree is used up. `EDQUOT`
    QuotaExceeded, "quota_exceeded", 122;
    /// The disk is full. `ENOSPC`
    NoSpace, "no_space", 28;
    /// This implementation does not support the call (see `capabilities`). `ENOTSUP`
    Unsupported, "unsupported", 95;
    /// The data folder has a format that this build does not read. `EPROTONOSUPPORT`
    Format, "format", 93;
    /// Stored bytes do not match their checksum, or rows contradict each other. `EIO`
    Corrupt, "corrupt", 5;
    /// This cannot be done now, through no fault of the request: another process locks the data folder for
    /// too long, this process may not open or write it, it is out of file descriptors, or a service gave no
    /// answer. `EIO`
    Unavailable, "unavailable", 5;
    /// The storage failed. `EIO`
    Io, "io", 5;
    /// An earlier storage failure made this handle unusable; open it again. `EIO`
    Poisoned, "poisoned", 5;
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ErrorKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().copied().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| Error::invalid(format!("`{name}` is not a kind of error")))
    }
}

/// An error: its kind, the path of the tree that it is about, a sentence with advice for the user, and the
/// cause. Kind, path and message contain no path of the host, no secret and nothing of another account. The
/// cause may ([`source`](std::error::Error::source)), so it belongs in logs only. Clones share the cause.
///
/// ```
/// # use garth_engine as garth;
/// use garth::{Error, ErrorKind, TreePath};
///
/// let error = Error::at(ErrorKind::NotFound, &TreePath::parse("/notes")?, "no such file or directory");
/// assert_eq!(error.to_string(), "/notes: no such file or directory");
/// assert!(error.is(ErrorKind::NotFound));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    path: Option<TreePath>,
    message: Box<str>,
    /// Kind of the advice in the message, and where what failed ends before it.
    advice: Option<(Advice, u32)>,
    /// Count of completed operations plus one: `NonZeroU32` keeps the option, and so the error, small.
    done: Option<NonZeroU32>,
    /// First sequence number whose state is readable, for an error about an earlier one.
    oldest: Option<NonZeroU64>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Returns an error without a path.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into().into_boxed_str();
        Self { kind, path: None, message, advice: None, done: None, oldest: None, source: None }
    }

    /// Returns an error about `path`.
    pub fn at(kind: ErrorKind, path: &TreePath, message: impl Into<String>) -> Self {
        Self { path: Some(path.clone()), ..Self::new(kind, message) }
    }

    /// Sets the cause. It is for logs of operators; `Display` does not show it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the path that the error is about, in the namespace of the filesystem that returned it.
    pub fn path(&self) -> Option<&TreePath> {
        self.path.as_ref()
    }

    /// Returns the sentence for the user, without the path.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Puts advice after the message, in the words of the command line. An error has one advice.
    #[must_use]
    #[doc(hidden)]
    pub fn advising(mut self, advice: Advice, text: &str) -> Self {
        let failure = self.failure();
        // A message beyond the numbers of 32 bits counts as a failure without advice.
        let Ok(end) = u32::try_from(failure.len()) else { return self };
        self.message = format!("{failure}; {text}").into();
        self.advice = Some((advice, end));
        self
    }

    /// Returns the message without the advice of [`Error::advising`]: what failed, and what every caller can
    /// do.
    #[doc(hidden)]
    pub fn failure(&self) -> &str {
        let end = self.advice.map_or(self.message.len(), |(_, end)| end as usize);
        self.message.get(..end).unwrap_or(&self.message)
    }

    /// Returns the advice of [`Error::advising`]: its kind, and the words of the command line.
    #[doc(hidden)]
    pub fn advice(&self) -> Option<(Advice, &str)> {
        let (kind, end) = self.advice?;
        let text = self.message.get(end as usize..)?;
        Some((kind, text.strip_prefix("; ")?))
    }

    /// Replaces what failed. The advice stays.
    #[must_use]
    #[doc(hidden)]
    pub fn reworded(self, failure: impl FnOnce(&str) -> String) -> Self {
        let failure = failure(self.failure());
        let advice = self.advice().map(|(kind, text)| (kind, text.to_owned()));
        let reworded = Self { message: failure.into(), advice: None, ..self };
        match advice {
            Some((kind, text)) => reworded.advising(kind, &text),
            None => reworded,
        }
    }

    /// Returns how many operations of the batch were completed before the one that failed, and persist.
    /// `None` unless a filesystem that is not [`atomic`](crate::Capabilities::atomic) ran a batch.
    #[doc(hidden)]
    pub fn done(&self) -> Option<usize> {
        self.done.map(|more| more.get() as usize - 1)
    }

    /// Returns the first sequence number whose state is readable, for an error about an earlier part of the
    /// past.
    #[doc(hidden)]
    pub fn oldest(&self) -> Option<u64> {
        self.oldest.map(NonZeroU64::get)
    }

    /// Returns true if the kind is `kind`.
    pub fn is(&self, kind: ErrorKind) -> bool {
        self.kind == kind
    }

    /// Returns true if a lookup found nothing: no node has the name (`NotFound`), or something above it is
    /// not a directory (`NotADirectory`).
    #[doc(hidden)]
    pub fn is_absent(&self) -> bool {
        matches!(self.kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
    }

    /// Returns true if the storage failed, rather than refused a request: one store is damaged or cannot be
    /// read, and others may be sound.
    #[doc(hidden)]
    pub fn is_of_storage(&self) -> bool {
        use ErrorKind::{Corrupt, Format, Io, NoSpace, Poisoned, Unavailable};
        matches!(self.kind, Corrupt | Format | Io | NoSpace | Poisoned | Unavailable)
    }

    /// Returns the part of a tree that cannot be read, if a list of everything below `top` can go on after
    /// it: a directory below `top` that the error names, and that contains `dir`, at which the list has
    /// arrived.
    #[doc(hidden)]
    pub fn unreadable_part(&self, top: &TreePath, dir: &TreePath) -> Option<&TreePath> {
        let part = self.path().filter(|_| self.is_of_storage())?;
        (part != top && part.is_within(top) && dir.is_within(part)).then_some(part)
    }

    /// Returns the error with its path as a view names it. `map` returns that name, or `None` for a path
    /// outside the view, which leaves the error without a path.
    #[must_use]
    #[doc(hidden)]
    pub fn mapped(self, map: impl FnOnce(&TreePath) -> Option<TreePath>) -> Self {
        let path = self.path.as_ref().and_then(map);
        Self { path, ..self }
    }

    /// Returns the error of a batch of `of` operations of which `done` were completed before.
    #[must_use]
    pub(crate) fn after(mut self, done: usize, of: usize) -> Self {
        self.done = u32::try_from(done + 1).ok().and_then(NonZeroU32::new);
        if of <= 1 {
            return self;
        }
        self.reworded(|failure| format!("{failure} ({done} of {of} operations were completed and remain)"))
    }

    /// Returns the error with words before its message.
    #[must_use]
    pub(crate) fn prefixed(self, words: &str) -> Self {
        self.reworded(|failure| format!("{words}: {failure}"))
    }

    /// Returns the error with `path` as its path if it has none yet.
    #[must_use]
    #[doc(hidden)]
    pub fn about(mut self, path: &TreePath) -> Self {
        self.path.get_or_insert_with(|| path.clone());
        self
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

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        let kind = if error.is_too_long() { ErrorKind::NameTooLong } else { ErrorKind::InvalidArgument };
        let converted = Self::new(kind, error.to_string());
        match error {
            PathError::InvalidId { .. } => converted,
            // Interfaces tell an invalid path from other invalid arguments by it.
            path => converted.with_source(path),
        }
    }
}

/// For addresses that cannot be invalid, next to those that are parsed (see [`crate::model::IntoAt`]).
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        // `Infallible` has no values, so this never runs; it lets one signature take both kinds of addresses.
        match never {}
    }
}

/// Turns the result of a lookup into an option.
///
/// ```
/// # use garth_engine as garth;
/// use garth::error::OptionalExt;
/// use garth::{Error, ErrorKind};
///
/// let missing: Result<u8, _> = Err(Error::new(ErrorKind::NotFound, "no such file"));
/// assert_eq!(missing.optional()?, None);
/// assert_eq!(Ok::<_, Error>(7).optional()?, Some(7));
/// # Ok::<(), Error>(())
/// ```
pub trait OptionalExt<T> {
    /// Returns `None` for an error that [`Error::is_absent`] accepts.
    ///
    /// # Errors
    /// All other errors.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExt<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Shorthands for the errors that several places raise, so that they read the same everywhere.
impl Error {
    /// Returns the error for a path that names nothing.
    #[doc(hidden)]
    pub fn not_found(path: &TreePath) -> Self {
        Self::at(ErrorKind::NotFound, path, "no such file or directory")
    }

    /// Returns the error for creating a name that is excluded, whether it exists or not.
    #[doc(hidden)]
    pub fn closed(path: &TreePath) -> Self {
        let message = match path.segments().next() == SYSTEM.strip_prefix('/') {
            true => "this name is reserved for garth; use another one",
            false => {
                "this caller cannot write here; use another path, or a caller who reaches this one, such as \
                 its owner"
            }
        };
        Self::at(ErrorKind::AccessDenied, path, message)
    }

    /// Returns the error for stored data that is damaged. `what` says which.
    #[doc(hidden)]
    pub fn damaged(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, what).advising(Advice::Command, "run `garth fsck`")
    }

    /// Returns the error for a path that leads through something other than a directory.
    #[doc(hidden)]
    pub fn not_a_directory(path: &TreePath) -> Self {
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

    /// Returns an error of the kind [`ErrorKind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Returns the error for a part of the past that is no longer stored. `oldest` is the first commit whose
    /// state is readable.
    #[doc(hidden)]
    pub fn gone(oldest: u64) -> Self {
        let message = format!(
            "the past before sequence number {oldest} is no longer stored; ask for {oldest} or later"
        );
        Self { oldest: NonZeroU64::new(oldest), ..Self::new(ErrorKind::Gone, message) }
    }

    /// Returns the error for the content of a file at a sequence number, that its path class no longer keeps.
    #[doc(hidden)]
    pub fn content_gone(seq: u64) -> Self {
        let message = format!(
            "the content at sequence number {seq} is no longer stored, because the retention of its path class \
             keeps less; ask for a later version, or for the file as it is now"
        );
        Self::new(ErrorKind::Gone, message)
    }

    /// Returns the error for a file held open whose last name was removed, and whose content after it.
    #[doc(hidden)]
    pub fn unnamed_gone() -> Self {
        let message = "this open file has no name any more, and its content is no longer stored; open a file \
                       by its path";
        Self::new(ErrorKind::Gone, message)
    }

    /// Returns the error of a search for data or holes after the last one.
    #[doc(hidden)]
    pub fn no_such_offset() -> Self {
        Self::new(ErrorKind::NoSuchOffset, "no data follows this offset")
    }

    /// Returns the error for an inode that does not exist or is out of reach.
    #[doc(hidden)]
    pub fn no_node() -> Self {
        Self::new(ErrorKind::NotFound, "no such node")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_kind_names_round_trip() {
        for kind in ErrorKind::ALL {
            assert_eq!(kind.as_str().parse::<ErrorKind>().expect("a name"), *kind);
            let variant = format!("{kind:?}");
            assert_eq!(
                kind.as_str().replace('_', ""),
                variant.to_lowercase(),
                "the name is the variant in snake case"
            );
        }
        assert!("no_such_kind".parse::<ErrorKind>().is_err());
    }

    #[test]
    fn only_storage_below_the_top_is_an_unreadable_part() {
        let [top, part, dir] =
            ["/accounts", "/accounts/a", "/accounts/a/b"].map(|path| TreePath::parse(path).expect("a path"));
        let error = |kind, at: &TreePath| Error::at(kind, at, "no");
        assert_eq!(error(ErrorKind::Corrupt, &part).unreadable_part(&top, &dir), Some(&part));
        assert_eq!(error(ErrorKind::Io, &dir).unreadable_part(&top, &dir), Some(&dir));
        assert_eq!(error(ErrorKind::Io, &dir).unreadable_part(&top, &part), None, "it is elsewhere");
        assert_eq!(error(ErrorKind::Corrupt, &top).unreadable_part(&top, &dir), None);
        assert_eq!(error(ErrorKind::NotFound, &part).unreadable_part(&top, &dir), None);
        assert_eq!(Error::new(ErrorKind::Corrupt, "no").unreadable_part(&top, &dir), None);
    }

    #[test]
    fn mapped_error_names_path_of_view() {
        let [inside, outside] = ["/scope/a", "/b"].map(|path| TreePath::parse(path).expect("a path"));
        let seen = TreePath::parse("/a").expect("a path");
        let map = |path: &TreePath| (*path == inside).then(|| seen.clone());
        let error = Error::at(ErrorKind::Io, &inside, "no").with_source(std::io::Error::other("EIO"));
        let mapped = error.mapped(map);
        assert_eq!((mapped.kind(), mapped.path(), mapped.message()), (ErrorKind::Io, Some(&seen), "no"));
        assert!(std::error::Error::source(&mapped).is_some());
        assert_eq!(Error::at(ErrorKind::Io, &outside, "no").mapped(map).path(), None);
        assert_eq!(Error::new(ErrorKind::Io, "no").mapped(map).path(), None);
    }

    #[test]
    fn cloned_error_keeps_its_cause() {
        let error = Error::new(ErrorKind::Io, "the disk failed").with_source(std::io::Error::other("EIO"));
        let cause = std::error::Error::source(&error.clone()).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("EIO"));
    }

    #[test]
    fn advice_is_apart_from_the_failure() {
        // The failure may quote anything, also what separates the two.
        let error = Error::new(ErrorKind::Corrupt, "a; `ls` is damaged");
        assert_eq!((error.failure(), error.advice()), ("a; `ls` is damaged", None));
        let advised = error.advising(Advice::Command, "run `fsck`; then try again");
        assert_eq!(advised.message(), "a; `ls` is damaged; run `fsck`; then try again");
        assert_eq!(advised.failure(), "a; `ls` is damaged");
        assert_eq!(advised.advice(), Some((Advice::Command, "run `fsck`; then try again")));
    }

    #[test]
    fn other_words_keep_the_advice() {
        let error = Error::new(ErrorKind::TooLarge, "is long").advising(Advice::UploadLimit, "send parts");
        let advised = Some((Advice::UploadLimit, "send parts"));
        let prefixed = error.clone().prefixed("/a");
        assert_eq!((prefixed.message(), prefixed.advice()), ("/a: is long; send parts", advised));
        let after = error.after(1, 2);
        let due = "is long (1 of 2 operations were completed and remain); send parts";
        assert_eq!((after.message(), after.advice()), (due, advised));
        let plain = Error::new(ErrorKind::TooLarge, "is long").prefixed("/a");
        assert_eq!((plain.failure(), plain.advice()), ("/a: is long", None));
    }
}
