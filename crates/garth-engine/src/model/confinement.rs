//! What a view of a part of a tree may reach, and the label under which it keeps what is its own.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use super::author::Author;
use super::within::Within;
use crate::error::{Error, ErrorKind, Result};
use crate::path::TreePath;

/// Longest owner, in bytes: as long as a path that is stored, so that a view may be called by its path.
pub const MAX_OWNER: usize = 8192;

/// Stands between the labels of nested owners: the unit separator of ASCII, which no label has.
const NESTED: char = '\u{1f}';

/// Whose snapshots, commit ids, idempotency keys and staged bodies: the label of a view, behind those of
/// the views that it lies in. Views of one owner share them; nobody else sees them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(String);

impl Owner {
    /// A view by this label.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty label or one with control characters; `TooLarge` above [`MAX_OWNER`].
    pub fn new(label: &str) -> Result<Self> {
        if label.is_empty() || label.chars().any(char::is_control) {
            return Err(Error::invalid("the label of a view is not empty and has no control characters"));
        }
        Self(label.to_owned()).checked()
    }

    /// A view by the path that it begins with. Unlike a label, a path may have control characters.
    ///
    /// # Errors
    /// `TooLarge` above [`MAX_OWNER`].
    pub fn of_path(path: &TreePath) -> Result<Self> {
        Self(path.as_str().replace('%', "%25").replace(NESTED, "%1f")).checked()
    }

    /// This view, inside the view of `outer`.
    ///
    /// # Errors
    /// `TooLarge` above [`MAX_OWNER`].
    pub fn inside(&self, outer: Option<&Self>) -> Result<Self> {
        match outer {
            Some(outer) => Self(format!("{}{NESTED}{}", outer.0, self.0)).checked(),
            None => Ok(self.clone()),
        }
    }

    fn checked(self) -> Result<Self> {
        if self.0.len() <= MAX_OWNER {
            return Ok(self);
        }
        Err(Error::new(ErrorKind::TooLarge, format!("the labels of views have at most {MAX_OWNER} bytes")))
    }

    /// The form in which engines keep it; not empty.
    pub(crate) fn key(&self) -> &str {
        &self.0
    }

    /// From the form in which it is kept; `None` for the tree's own.
    pub(crate) fn from_key(key: String) -> Option<Self> {
        (!key.is_empty()).then_some(Self(key))
    }
}

/// The labels, from the outermost view to the innermost.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.replace(NESTED, " > "))
    }
}

/// Idempotency keys of one handle of a tree, as a capability: only the handle gives it
/// ([`key_space`](crate::FileSystemExt::key_space)). A record in it is kept there whichever view of the tree
/// commits it, so that a service keeps one record a request however many views the request goes through, and
/// whoever has only the view can neither read nor write it.
#[derive(Clone, Debug)]
pub struct KeySpace {
    /// Identity of the tree. It holds the address, and keeps nothing open.
    tree: Weak<dyn Any + Send + Sync>,
    owner: Option<Owner>,
}

impl KeySpace {
    pub(crate) fn new<T: Any + Send + Sync>(tree: &Arc<T>, owner: Option<Owner>) -> Self {
        let tree: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(tree);
        Self { tree: Arc::downgrade(&tree), owner }
    }

    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    pub(crate) fn is_of<T: Any + Send + Sync>(&self, tree: &Arc<T>) -> bool {
        self.tree.as_ptr().cast::<()>() == Arc::as_ptr(tree).cast()
    }
}

impl PartialEq for KeySpace {
    fn eq(&self, other: &Self) -> bool {
        self.tree.ptr_eq(&other.tree) && self.owner == other.owner
    }
}

impl Eq for KeySpace {}

/// What a view may reach, and as whom it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The paths that are there for it.
    pub within: Within,
    /// Those of them that it reads and does not change.
    pub read_only: Within,
    /// Whose its snapshots, commit ids, idempotency keys and staged bodies are.
    pub owner: Owner,
    /// What its commits say of who made them, whatever a batch says. A field that is none is the batch's.
    pub author: Author,
}

impl Confinement {
    /// To these paths, as nobody in particular.
    pub fn new(within: Within, owner: Owner) -> Self {
        Self { within, read_only: Within::nothing(), owner, author: Author::default() }
    }

    /// The same, with these paths and all below them read-only: no commit through the view changes their
    /// content, attributes or names, not by another name of a file either (`AccessDenied`).
    #[must_use]
    pub fn read_only(self, read_only: Within) -> Self {
        Self { read_only, ..self }
    }

    /// The same, writing as this author.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_nestings_of_labels_are_one_owner() {
        let owner = |label| Owner::new(label).expect("a label");
        let nested = |outer, inner| owner(inner).inside(Some(&owner(outer))).expect("short");
        assert_ne!(nested("a", "b"), owner("ab"));
        assert_ne!(nested("a", "b"), nested("ab", "c"));
        assert_ne!(nested("/a", "/b"), owner("/a/b"));
        assert_eq!(nested("a", "b").to_string(), "a > b");
        let of = |path| Owner::of_path(&TreePath::parse(path).expect("a path")).expect("short");
        assert_ne!(of("/a\u{1f}/b"), nested("/a", "/b"));
        assert_ne!(of("/a\u{1f}"), of("/a%1f"));
        for label in ["", "a\u{1f}b", "a\nb"] {
            assert!(Owner::new(label).is_err(), "{label:?}");
        }
        assert_eq!(Owner::new(&"x".repeat(MAX_OWNER + 1)).unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
