//! Addresses of operations and reads, and the types that convert into them.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::{Name, TreePath};

use super::id::Ino;

/// Address of an operation or a read.
///
/// A [`TreePath`], an [`Ino`] and a pair of both convert into it; text is parsed:
///
/// ```
/// # use garth_engine as garth;
/// use garth::model::{At, Ino};
/// use garth::{Name, TreePath};
///
/// let notes = TreePath::parse("/notes")?;
/// assert_eq!(At::from(&notes), At::Path(notes));
/// assert_eq!(At::from(Ino(7)), At::Node(Ino(7)));
/// assert_eq!(At::from((Ino::ROOT, Name::parse("notes")?)).to_string(), "#1/notes");
/// assert!(At::try_from("notes").is_err()); // paths are absolute
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// A name, by its complete path. No link is followed, neither on the way nor at the end.
    Path(TreePath),
    /// A node, by inode: it has a name, or this filesystem instance holds it open.
    Node(Ino),
    /// A name in a directory that is given by inode (`openat`): follows renames of the directory.
    Child(Ino, Name),
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{path}"),
            Self::Node(ino) => write!(f, "#{}", ino.0),
            Self::Child(dir, name) => write!(f, "#{}/{name}", dir.0),
        }
    }
}

impl From<TreePath> for At {
    fn from(path: TreePath) -> Self {
        Self::Path(path)
    }
}

impl From<&TreePath> for At {
    fn from(path: &TreePath) -> Self {
        Self::Path(path.clone())
    }
}

impl From<&At> for At {
    fn from(at: &At) -> Self {
        at.clone()
    }
}

impl From<Ino> for At {
    fn from(ino: Ino) -> Self {
        Self::Node(ino)
    }
}

impl From<(Ino, Name)> for At {
    fn from((dir, name): (Ino, Name)) -> Self {
        Self::Child(dir, name)
    }
}

/// Parses a canonical path as text. The error names the text.
impl TryFrom<&str> for At {
    type Error = Error;

    fn try_from(path: &str) -> Result<Self> {
        let parsed = TreePath::parse(path).map_err(|error| {
            let error = Error::from(error);
            Error::new(error.kind(), format!("`{path}`: {}", error.message()))
        });
        parsed.map(Self::Path)
    }
}

impl TryFrom<&String> for At {
    type Error = Error;

    fn try_from(path: &String) -> Result<Self> {
        Self::try_from(path.as_str())
    }
}

impl TryFrom<String> for At {
    type Error = Error;

    fn try_from(path: String) -> Result<Self> {
        Self::try_from(path.as_str())
    }
}

/// Type that [`FileSystemExt`](crate::FileSystemExt) takes as an address: a path as text
/// (`"/notes/alice.md"`), a [`TreePath`], an [`Ino`], an [`At`].
pub trait IntoAt {
    /// Converts into an address.
    ///
    /// # Errors
    /// `InvalidArgument` or `NameTooLong` for text that is not a canonical path.
    fn into_at(self) -> Result<At>;
}

impl<T: TryInto<At, Error: Into<Error>>> IntoAt for T {
    fn into_at(self) -> Result<At> {
        self.try_into().map_err(Into::into)
    }
}
