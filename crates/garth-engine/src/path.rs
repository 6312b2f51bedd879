//! Names and paths of the tree. They are validated once, here: no other code sees `..`, an empty segment or a
//! relative path, and every comparison is by segment.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest name, in bytes: the limit of ext4, XFS and APFS (`NAME_MAX`).
pub const MAX_NAME: usize = 255;
/// Longest path that is accepted, in bytes: `PATH_MAX` of Linux.
pub const MAX_PATH: usize = 4096;
/// Longest path that is stored, in bytes. A view may begin at a path of [`MAX_PATH`] bytes and accept paths
/// of that length itself.
pub const MAX_STORED_PATH: usize = 2 * MAX_PATH;
/// Directory of an account that garth reserves for itself. It is hidden from every caller, and nothing can be
/// created in it (`AccessDenied`). It holds the upper layers of stored overlays.
pub const SYSTEM: &str = "/.garth";
/// Longest id (account, user, agent, chat, skill, session), in bytes.
pub const MAX_ID: usize = 128;

type Result<T, E = PathError> = std::result::Result<T, E>;

/// Reason why a text is not a valid [`Name`], [`TreePath`] or id. As [`Error`](crate::Error) it is
/// `InvalidArgument` or `NameTooLong`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// The path does not start with `/`.
    NotAbsolute,
    /// A name is empty: `//`, or a `/` at the end.
    EmptyName,
    /// A name is `.` or `..`.
    DotName,
    /// A name contains `/` or NUL.
    ForbiddenCharacter,
    /// A name has more than [`MAX_NAME`] bytes.
    NameTooLong {
        /// Bytes of the name.
        bytes: usize,
    },
    /// A path has more than [`MAX_PATH`] bytes.
    PathTooLong {
        /// Bytes of the path.
        bytes: usize,
    },
    /// A moved node, or one created in a directory known by inode or through a view, would have a path of
    /// more than [`MAX_STORED_PATH`] bytes. The length is not given: a view must not reveal how long the path
    /// is at which it begins.
    StoredPathTooLong,
    /// Not an id (see [`check_id`]).
    InvalidId {
        /// Kind of the id, such as `account`.
        what: String,
        /// Given text; only its beginning if it is long.
        id: String,
    },
}

impl PathError {
    /// Returns true if a limit is exceeded rather than the form invalid.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::NameTooLong { .. } | Self::PathTooLong { .. } | Self::StoredPathTooLong)
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAbsolute => f.write_str("a path starts with `/`"),
            Self::EmptyName => f.write_str("a name must not be empty; leave out `//`, and a `/` at the end"),
            Self::DotName => f.write_str("a name must not be `.` or `..`"),
            Self::ForbiddenCharacter => f.write_str("a name must not contain `/` or NUL"),
            Self::NameTooLong { bytes } => {
                write!(f, "a name has at most {MAX_NAME} bytes, this one has {bytes}")
            }
            Self::PathTooLong { bytes } => {
                write!(f, "a path has at most {MAX_PATH} bytes, this one has {bytes}")
            }
            Self::StoredPathTooLong => {
                write!(f, "the path would be too long: at most {MAX_STORED_PATH} bytes are stored")
            }
            Self::InvalidId { what, id } => write!(
                f,
                "{id:?} is not a valid {what} id: use 1 to {MAX_ID} bytes without `/` or control characters, and not \
                 `.` or `..`"
            ),
        }
    }
}

impl std::error::Error for PathError {}

/// One segment of a path: 1 to [`MAX_NAME`] bytes of UTF-8 without `/` and NUL, and neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Validates and wraps a name.
    ///
    /// # Errors
    /// An empty name, `.`, `..`, `/` or NUL; more than [`MAX_NAME`] bytes.
    pub fn parse(name: &str) -> Result<Self> {
        check_name(name)?;
        Ok(Self(name.to_owned()))
    }

    /// Validates a name that was stored, and takes its text.
    ///
    /// # Errors
    /// Errors of [`Name::parse`].
    #[doc(hidden)]
    pub fn from_row(name: String) -> Result<Self> {
        check_name(&name)?;
        Ok(Self(name))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = PathError;

    fn from_str(name: &str) -> Result<Self> {
        Self::parse(name)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

impl TryFrom<&str> for Name {
    type Error = PathError;

    fn try_from(name: &str) -> Result<Self> {
        Self::parse(name)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

fn check_name(name: &str) -> Result<()> {
    match name {
        "" => Err(PathError::EmptyName),
        "." | ".." => Err(PathError::DotName),
        _ if name.len() > MAX_NAME => Err(PathError::NameTooLong { bytes: name.len() }),
        // Bytes are compared faster than characters, and neither is part of a longer one.
        _ if name.bytes().any(|byte| matches!(byte, b'/' | b'\0')) => Err(PathError::ForbiddenCharacter),
        _ => Ok(()),
    }
}

/// Validates an id that becomes one segment of the tree (account, user, agent, chat, skill, session): 1 to
/// [`MAX_ID`] bytes of UTF-8 without `/` or control characters, and neither `.` nor `..`.
///
/// # Errors
/// [`PathError::InvalidId`], with `what` as the kind of the id.
pub fn check_id(what: &str, id: &str) -> Result<()> {
    let ok = !id.is_empty()
        && id.len() <= MAX_ID
        && id != "."
        && id != ".."
        && !id.contains('/')
        && !id.chars().any(char::is_control);
    if ok { Ok(()) } else { Err(PathError::InvalidId { what: what.to_owned(), id: shortened(id) }) }
}

/// Returns the beginning of a text, as much as a message shows.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 32;
    // By characters: a cut at a byte could split one.
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Absolute path in canonical form: `/`, or `/name/name`. It has at most [`MAX_PATH`] bytes if it was parsed,
/// and [`MAX_STORED_PATH`] if it was composed.
///
/// The root is stored as the empty string. So the children of `d` are the nodes with directory `d`, and the
/// subtree of `d` is the range of directories from `d/` up to but excluding `d0` (`0` follows `/` in ASCII),
/// for the root as well.
///
/// ```
/// # use garth_engine as garth;
/// use garth::{Name, TreePath};
///
/// let notes = TreePath::parse("/notes")?;
/// let alice = notes.join(&Name::parse("alice.md")?)?;
/// assert_eq!(alice.as_str(), "/notes/alice.md");
/// assert_eq!((alice.parent(), alice.name()), (Some(notes.clone()), Some("alice.md")));
/// assert!(alice.is_within(&notes));
/// assert!(TreePath::parse("/notes/../secrets").is_err());
/// # Ok::<(), garth::path::PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreePath(String);

impl TreePath {
    /// Returns the root, `/`.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Parses a path in canonical form. `//`, a trailing `/`, `.` and `..` are rejected, not folded: callers
    /// that take paths from people normalise them first ([`crate::fs::resolve`]).
    ///
    /// # Errors
    /// A path that is not canonical; more than [`MAX_PATH`] bytes; a name of more than [`MAX_NAME`].
    pub fn parse(path: &str) -> Result<Self> {
        match Self::parse_stored(path) {
            Ok(Self(path)) if path.len() > MAX_PATH => Err(PathError::PathTooLong { bytes: path.len() }),
            // `parse_stored` does not name the length, but a parsed path comes from the caller, who may learn
            // it.
            Err(PathError::StoredPathTooLong) => Err(PathError::PathTooLong { bytes: path.len() }),
            parsed => parsed,
        }
    }

    /// Parses the text of a path that an engine has stored, which may have up to [`MAX_STORED_PATH`] bytes.
    ///
    /// # Errors
    /// Errors of [`TreePath::parse`], apart from the limit.
    #[doc(hidden)]
    pub fn parse_stored(path: &str) -> Result<Self> {
        if path == "/" {
            return Ok(Self::root());
        }
        let Some(rest) = path.strip_prefix('/') else {
            return Err(PathError::NotAbsolute);
        };
        check_stored_length(path.len())?;
        rest.split('/').try_for_each(check_name)?;
        Ok(Self(path.to_owned()))
    }

    /// Returns the path of a key (see [`TreePath::key`]). The text is one that an engine stored.
    #[doc(hidden)]
    pub fn from_key(key: String) -> Self {
        Self(key)
    }

    /// Joins the key of a directory and a name, both known to be valid.
    #[doc(hidden)]
    pub fn from_row(dir: &str, name: &str) -> Self {
        debug_assert!(dir.is_empty() || dir.starts_with('/'), "`{dir}` is the key of no directory");
        Self(format!("{dir}/{name}"))
    }

    /// Returns the key form: the text of the path; the empty string for the root.
    pub fn key(&self) -> &str {
        &self.0
    }

    /// Returns the path as people write it; `/` for the root.
    pub fn as_str(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }

    /// Returns true for the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the parent directory and the name. `None` for the root.
    pub fn split(&self) -> Option<(TreePath, Name)> {
        let (dir, name) = self.0.rsplit_once('/')?;
        Some((Self(dir.to_owned()), Name(name.to_owned())))
    }

    /// Returns the parent directory. `None` for the root.
    pub fn parent(&self) -> Option<TreePath> {
        Some(Self(self.0.rsplit_once('/')?.0.to_owned()))
    }

    /// Returns the last segment. `None` for the root.
    pub fn name(&self) -> Option<&str> {
        Some(self.0.rsplit_once('/')?.1)
    }

    /// Returns this path with one more segment.
    ///
    /// # Errors
    /// [`PathError::StoredPathTooLong`] if the result exceeds [`MAX_STORED_PATH`] bytes.
    pub fn join(&self, name: &Name) -> Result<Self> {
        // A joined path may exceed the limit of callers: a move can lengthen the paths below.
        check_stored_length(self.0.len() + 1 + name.0.len())?;
        Ok(Self(format!("{}/{}", self.0, name.0)))
    }

    /// Returns this path followed by all segments of `path`.
    ///
    /// # Errors
    /// [`PathError::StoredPathTooLong`] if the result exceeds [`MAX_STORED_PATH`] bytes.
    pub(crate) fn append(&self, path: &Self) -> Result<Self> {
        check_stored_length(self.0.len() + path.0.len())?;
        Ok(Self(format!("{}{}", self.0, path.0)))
    }

    /// Returns the segments, first to last; none for the root.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }

    /// Returns every path above this one, from the root down; none for the root.
    // The `/` at index 0 yields the empty key, which is the root.
    pub fn ancestors(&self) -> impl Iterator<Item = TreePath> {
        self.0.match_indices('/').map(|(at, _)| Self(self.0[..at].to_owned()))
    }

    /// Returns true if this path is `top` or below it, by segment: `/chat-ab` is not within `/chat-a`.
    pub fn is_within(&self, top: &TreePath) -> bool {
        self.0.strip_prefix(&top.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns this path moved from below `from` to below `to`. `None` if it is not within `from`.
    ///
    /// # Errors
    /// [`PathError::StoredPathTooLong`] if the result exceeds [`MAX_STORED_PATH`] bytes.
    pub fn rebase(&self, from: &TreePath, to: &TreePath) -> Option<Result<Self>> {
        self.is_within(from).then(|| {
            let rest = &self.0[from.0.len()..];
            check_stored_length(to.0.len() + rest.len())?;
            Ok(Self(format!("{}{rest}", to.0)))
        })
    }
}

fn check_stored_length(bytes: usize) -> Result<()> {
    if bytes <= MAX_STORED_PATH { Ok(()) } else { Err(PathError::StoredPathTooLong) }
}

impl FromStr for TreePath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self> {
        Self::parse(path)
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

impl TryFrom<&str> for TreePath {
    type Error = PathError;

    fn try_from(path: &str) -> Result<Self> {
        Self::parse(path)
    }
}

impl AsRef<str> for TreePath {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
