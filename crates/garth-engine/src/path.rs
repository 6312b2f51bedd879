//! Names and paths of the tree: validated once here, so that nothing below ever sees a `..`, an empty
//! segment or a relative path, and every comparison is by segment.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest name, in bytes. The limit of ext4, XFS and APFS (`NAME_MAX`).
pub const MAX_NAME: usize = 255;
/// Longest path that is taken, in bytes. Linux `PATH_MAX`.
pub const MAX_PATH: usize = 4096;
/// Longest path that is kept, in bytes: a view may begin at a path as long as one that is taken, and still
/// take paths of [`MAX_PATH`] itself.
pub const MAX_STORED_PATH: usize = 2 * MAX_PATH;
/// The directory of an account that garth keeps for itself: hidden from everybody, and no name can be made
/// there (`AccessDenied`). Upper layers of overlays that are stored lie in it.
pub const SYSTEM: &str = "/.garth";
/// Longest id (account, user, agent, chat, skill, session), in bytes.
pub const MAX_ID: usize = 128;

type Result<T, E = PathError> = std::result::Result<T, E>;

/// Why a text is no [`Name`], [`TreePath`] or id. As [`Error`](crate::Error): `InvalidArgument` or
/// `NameTooLong`.
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
        /// How many it has.
        bytes: usize,
    },
    /// A path has more than [`MAX_PATH`] bytes.
    PathTooLong {
        /// How many it has.
        bytes: usize,
    },
    /// What is moved, or made in a directory known by number or through a view, would have a path of more
    /// than [`MAX_STORED_PATH`] bytes. How many is not said: a view must not learn how long the path is that
    /// it begins with.
    StoredPathTooLong,
    /// Not an id (see [`check_id`]).
    InvalidId {
        /// Of what.
        what: String,
        /// What was given, its beginning if it is long.
        id: String,
    },
}

impl PathError {
    /// Whether a limit is exceeded, rather than the form wrong.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::NameTooLong { .. } | Self::PathTooLong { .. } | Self::StoredPathTooLong)
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAbsolute => f.write_str("a path starts with `/`"),
            Self::EmptyName => f.write_str("a name must not be empty"),
            Self::DotName => f.write_str("a name must not be `.` or `..`"),
            Self::ForbiddenCharacter => f.write_str("a name must not contain `/` or NUL"),
            Self::NameTooLong { bytes } => {
                write!(f, "a name has at most {MAX_NAME} bytes, this one has {bytes}")
            }
            Self::PathTooLong { bytes } => {
                write!(f, "a path has at most {MAX_PATH} bytes, this one has {bytes}")
            }
            Self::StoredPathTooLong => {
                write!(f, "the path would be too long: at most {MAX_STORED_PATH} bytes are kept")
            }
            Self::InvalidId { what, id } => write!(
                f,
                "{id:?} is no {what} id: use 1 to {MAX_ID} bytes without `/` or control characters, and not \
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
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// An empty name, `.`, `..`, `/` or NUL; more than [`MAX_NAME`] bytes.
    pub fn parse(name: &str) -> Result<Self> {
        check_name(name)?;
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
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
        to.collect_str(self)
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
        _ if name.contains(['/', '\0']) => Err(PathError::ForbiddenCharacter),
        _ => Ok(()),
    }
}

/// Checks an id that becomes one segment of the tree (account, user, agent, chat, skill, session):
/// 1 to [`MAX_ID`] bytes of UTF-8 without `/`, control characters, and neither `.` nor `..`.
///
/// # Errors
/// [`PathError::InvalidId`], naming `what` the id is of.
pub fn check_id(what: &str, id: &str) -> Result<()> {
    let ok = !id.is_empty()
        && id.len() <= MAX_ID
        && id != "."
        && id != ".."
        && !id.contains('/')
        && !id.chars().any(char::is_control);
    if ok { Ok(()) } else { Err(PathError::InvalidId { what: what.to_owned(), id: shortened(id) }) }
}

/// The beginning of text, as much as a message shows.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 32;
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// An absolute path in canonical form: `/`, or `/name/name`. At most [`MAX_PATH`] bytes where it is parsed,
/// and [`MAX_STORED_PATH`] where it is put together.
///
/// The root is held as the empty string, so that the children of `d` are those with directory `d`, and the
/// subtree of `d` is the directories from `d/` up to but excluding `d0` (`0` follows
/// `/` in ASCII), root or not.
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
    /// The root, `/`.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Parses a path that is already canonical. `//`, a trailing `/`, `.` and `..` are refused, not folded:
    /// whoever takes paths from people normalises first ([`crate::fs::resolve`]).
    ///
    /// # Errors
    /// A path that is not canonical; more than [`MAX_PATH`] bytes; a name of more than [`MAX_NAME`].
    pub fn parse(path: &str) -> Result<Self> {
        match Self::parse_stored(path) {
            Ok(Self(path)) if path.len() > MAX_PATH => Err(PathError::PathTooLong { bytes: path.len() }),
            Err(PathError::StoredPathTooLong) => Err(PathError::PathTooLong { bytes: path.len() }),
            parsed => parsed,
        }
    }

    /// The same for the text of a path that an engine has kept.
    pub(crate) fn parse_stored(path: &str) -> Result<Self> {
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

    /// Rebuilds a path from its key form (see [`TreePath::key`]); for text an engine stored itself.
    pub(crate) fn from_key(key: String) -> Self {
        Self(key)
    }

    /// Joins a directory's key and a name, both of which are known to be valid.
    #[doc(hidden)]
    pub fn from_row(dir: &str, name: &str) -> Self {
        debug_assert!(dir.is_empty() || dir.starts_with('/'), "`{dir}` is the key of no directory");
        Self(format!("{dir}/{name}"))
    }

    /// The key form: the text of the path, the root being the empty string.
    pub fn key(&self) -> &str {
        &self.0
    }

    /// The path as people write it; the root is `/`.
    pub fn as_str(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory that holds this name, and the name. `None` for the root.
    pub fn split(&self) -> Option<(TreePath, Name)> {
        let (dir, name) = self.0.rsplit_once('/')?;
        Some((Self(dir.to_owned()), Name(name.to_owned())))
    }

    /// The directory that holds this name. `None` for the root.
    pub fn parent(&self) -> Option<TreePath> {
        Some(Self(self.0.rsplit_once('/')?.0.to_owned()))
    }

    /// The last segment. `None` for the root.
    pub fn name(&self) -> Option<&str> {
        Some(self.0.rsplit_once('/')?.1)
    }

    /// This path with one more segment.
    ///
    /// # Errors
    /// [`PathError::StoredPathTooLong`] if the result exceeds [`MAX_STORED_PATH`] bytes.
    pub fn join(&self, name: &Name) -> Result<Self> {
        check_stored_length(self.0.len() + 1 + name.0.len())?;
        Ok(Self(format!("{}/{}", self.0, name.0)))
    }

    /// This path with all segments of another behind its own.
    ///
    /// # Errors
    /// [`PathError::StoredPathTooLong`] if the result exceeds [`MAX_STORED_PATH`] bytes.
    pub(crate) fn append(&self, path: &Self) -> Result<Self> {
        check_stored_length(self.0.len() + path.0.len())?;
        Ok(Self(format!("{}{}", self.0, path.0)))
    }

    /// The segments, first to last; none for the root.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }

    /// Every path above this one, from the root down, without itself; none for the root.
    pub fn ancestors(&self) -> impl Iterator<Item = TreePath> {
        self.0.match_indices('/').map(|(at, _)| Self(self.0[..at].to_owned()))
    }

    /// Whether this path is `top` or lies below it, by segment: `/chat-ab` is not within `/chat-a`.
    pub fn is_within(&self, top: &TreePath) -> bool {
        self.0.strip_prefix(&top.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// This path moved from below `from` to below `to`. `None` if it is not within `from`.
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
        to.collect_str(self)
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
