//! Names and paths of the tree: validated once here, so that nothing below ever sees a `..`, an empty
//! segment or a relative path, and every comparison is by segment (DESIGN invariants 4 and 5).

use std::borrow::Borrow;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// Longest name, in bytes. The limit of ext4, XFS and APFS (`NAME_MAX`).
pub const MAX_NAME: usize = 255;
/// Longest path, in bytes. Linux `PATH_MAX`.
pub const MAX_PATH: usize = 4096;
/// Longest id (account, user, agent, chat, skill, session), in bytes. DESIGN 4.
pub const MAX_ID: usize = 128;

/// One segment of a path: 1 to [`MAX_NAME`] bytes of UTF-8 without `/` and NUL, and neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty name, `.`, `..`, `/` or NUL; `NameTooLong` above [`MAX_NAME`] bytes.
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

fn check_name(name: &str) -> Result<()> {
    let invalid = |why: &str| Err(Error::new(ErrorKind::InvalidArgument, format!("a name {why}")));
    match name {
        "" => invalid("must not be empty"),
        "." | ".." => invalid("must not be `.` or `..`"),
        _ if name.len() > MAX_NAME => Err(Error::new(
            ErrorKind::NameTooLong,
            format!("a name has at most {MAX_NAME} bytes, this one has {}", name.len()),
        )),
        _ if name.contains(['/', '\0']) => invalid("must not contain `/` or NUL"),
        _ => Ok(()),
    }
}

/// Checks an id that becomes one segment of the tree (account, user, agent, chat, skill, session; DESIGN 4):
/// 1 to [`MAX_ID`] bytes of UTF-8 without `/`, control characters, and neither `.` nor `..`.
///
/// # Errors
/// `InvalidArgument`, naming `what` the id is of.
pub fn check_id(what: &str, id: &str) -> Result<()> {
    let ok = !id.is_empty()
        && id.len() <= MAX_ID
        && id != "."
        && id != ".."
        && !id.contains('/')
        && !id.chars().any(char::is_control);
    if ok {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!("an {what} id is 1 to {MAX_ID} bytes without `/` or control characters, and not `.` or `..`"),
    ))
}

/// An absolute path in canonical form: `/`, or `/name/name`. At most [`MAX_PATH`] bytes.
///
/// The root is held as the empty string, so that the children of `d` are those with directory `d`, and the
/// subtree of `d` is the directories from `d/` up to but excluding `d0` (`0` follows `/` in ASCII), root or not.
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
    /// `InvalidArgument` for a path that is not canonical; `NameTooLong` above [`MAX_PATH`] bytes or for a long name.
    pub fn parse(path: &str) -> Result<Self> {
        if path == "/" {
            return Ok(Self::root());
        }
        let Some(rest) = path.strip_prefix('/') else {
            return Err(Error::new(ErrorKind::InvalidArgument, "a path starts with `/`"));
        };
        check_path_length(path.len())?;
        rest.split('/').try_for_each(check_name)?;
        Ok(Self(path.to_owned()))
    }

    /// Rebuilds a path from its key form (see [`TreePath::key`]); for text an engine stored itself.
    pub(crate) fn from_key(key: String) -> Self {
        Self(key)
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
    /// `NameTooLong` if the result exceeds [`MAX_PATH`] bytes.
    pub fn join(&self, name: &Name) -> Result<Self> {
        check_path_length(self.0.len() + 1 + name.0.len())?;
        Ok(Self(format!("{}/{}", self.0, name.0)))
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
    /// `NameTooLong` if the result exceeds [`MAX_PATH`] bytes.
    pub fn rebase(&self, from: &TreePath, to: &TreePath) -> Option<Result<Self>> {
        self.is_within(from).then(|| {
            let rest = &self.0[from.0.len()..];
            check_path_length(to.0.len() + rest.len())?;
            Ok(Self(format!("{}{rest}", to.0)))
        })
    }
}

fn check_path_length(length: usize) -> Result<()> {
    if length <= MAX_PATH {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NameTooLong,
        format!("a path has at most {MAX_PATH} bytes, this one has {length}"),
    ))
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
