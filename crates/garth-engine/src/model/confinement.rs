//! Reach of a view of a part of a tree, and the label under which its own records are stored.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use serde::{Serialize, Serializer};

use super::author::Author;
use super::id::Seq;
use super::projection::Projection;
use super::within::Within;
use crate::error::{Error, ErrorKind, Result};
use crate::path::{Name, TreePath};

/// Longest owner, in bytes: as long as a stored path, so that a view can be named by its path.
pub const MAX_OWNER: usize = 8192;

/// Largest file by which a gate judges an entry, 64 KiB. Other callers wait while it is parsed, in a commit
/// too.
pub const MAX_GATE_FILE: u64 = 64 << 10;

/// Separator of the labels of nested owners: the unit separator of ASCII, which no label contains.
const NESTED: char = '\u{1f}';

/// Separator of the labels of nested owners where they are shown.
const LEVEL: &str = " > ";

/// Owner of snapshots, commit ids, idempotency keys and staged bodies: the label of a view, after those of
/// the views that it is in. Views of one owner share them; nobody else sees them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(String);

impl Owner {
    /// Returns the owner with this label.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty label or one with control characters; `TooLarge` above [`MAX_OWNER`].
    pub fn new(label: &str) -> Result<Self> {
        if label.is_empty() || label.chars().any(char::is_control) {
            return Err(Error::invalid("the label of a view is not empty and has no control characters"));
        }
        Self(label.to_owned()).checked()
    }

    /// Returns the owner that is named by the top path of a view. Unlike a label, a path may have control
    /// characters.
    ///
    /// # Errors
    /// `TooLarge` above [`MAX_OWNER`].
    pub fn of_path(path: &TreePath) -> Result<Self> {
        // No path may contain the separator, and no two paths may give one owner.
        Self(path.as_str().replace('%', "%25").replace(NESTED, "%1f")).checked()
    }

    /// Returns this owner inside of `outer`.
    ///
    /// # Errors
    /// `TooLarge` above [`MAX_OWNER`].
    pub fn inside(&self, outer: Option<&Self>) -> Result<Self> {
        match outer {
            Some(outer) => Self(format!("{}{NESTED}{}", outer.0, self.0)).checked(),
            None => Ok(self.clone()),
        }
    }

    /// Returns the owner from the form in which it is shown.
    ///
    /// # Errors
    /// `InvalidArgument` for a text that shows no owner; `TooLarge` above [`MAX_OWNER`].
    pub fn parse(shown: &str) -> Result<Self> {
        let owner = Self(shown.replace(LEVEL, &NESTED.to_string()).replace(">>", ">")).checked()?;
        // Two texts of one owner would let a caller miss it in a list.
        if owner.0.is_empty() || owner.to_string() != shown {
            return Err(Error::invalid("is not an owner as lists of snapshots show it"));
        }
        Ok(owner)
    }

    fn checked(self) -> Result<Self> {
        if self.0.len() <= MAX_OWNER {
            return Ok(self);
        }
        Err(Error::new(ErrorKind::TooLarge, format!("the labels of views have at most {MAX_OWNER} bytes")))
    }

    /// Returns the form in which engines store the owner; never empty.
    #[doc(hidden)]
    pub fn key(&self) -> &str {
        &self.0
    }

    /// Returns the owner from its stored form; `None` for the owner of the tree.
    #[doc(hidden)]
    pub fn from_key(key: String) -> Option<Self> {
        (!key.is_empty()).then_some(Self(key))
    }
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Writes the labels, from the outermost view to the innermost. `>` in a label is written twice, so that no
/// two owners have one form.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.replace('>', ">>").replace(NESTED, LEVEL))
    }
}

/// Idempotency keys of one handle of a tree, as a capability: only the handle hands it out
/// ([`key_space`](crate::FileSystemExt::key_space)). A record in it is stored there whichever view of the
/// tree commits it. So a service stores one record for a request however many views the request goes through,
/// and a caller that only has the view can neither read nor write it.
#[derive(Clone, Debug)]
pub struct KeySpace {
    /// Identity of the tree. It holds the address, and keeps nothing open.
    tree: Weak<dyn Any + Send + Sync>,
    owner: Option<Owner>,
}

impl KeySpace {
    /// Returns the key space of the handle of `owner` on a tree; the account's for `None`.
    #[doc(hidden)]
    pub fn new<T: Any + Send + Sync>(tree: &Arc<T>, owner: Option<Owner>) -> Self {
        let tree: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(tree);
        Self { tree: Arc::downgrade(&tree), owner }
    }

    /// Returns the owner of the records; `None` for the account.
    #[doc(hidden)]
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Returns true if the key space is one of this tree.
    #[doc(hidden)]
    pub fn is_of<T: Any + Send + Sync>(&self, tree: &Arc<T>) -> bool {
        // Only the addresses can be compared: the type of the tree is erased.
        self.tree.as_ptr().cast::<()>() == Arc::as_ptr(tree).cast()
    }
}

impl PartialEq for KeySpace {
    fn eq(&self, other: &Self) -> bool {
        self.tree.ptr_eq(&other.tree) && self.owner == other.owner
    }
}

impl Eq for KeySpace {}

/// Directory whose entries a view sees only if a file in them has one of some keys, such as the sessions of
/// some classes. The rest of them, and everything below, is out of reach.
///
/// Each state is judged by the file that it has, so the past of an entry is visible if the entry was,
/// whatever has its name by now. An entry without the file is hidden, and so is one whose file is longer than
/// [`MAX_GATE_FILE`] or cannot be read. A name that does not exist can be created.
///
/// The view sees neither how many entries the directory has nor when they changed: its only version is that
/// in which it got its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Directory.
    pub dir: TreePath,
    /// Name of the file in each entry.
    pub file: Name,
    /// Projection of the keys: one of complete files.
    pub projection: Projection,
    /// Keys, of which the file has to have one.
    pub keys: Vec<String>,
    /// First commit whose state is judged. In earlier states, in which anybody may have written the file, all
    /// entries are hidden.
    pub since: Seq,
}

impl Gate {
    /// Returns the name of the entry that a path is, or is below; `None` for any other path.
    #[doc(hidden)]
    pub fn entry_of<'p>(&self, path: &'p TreePath) -> Option<&'p str> {
        // A sibling such as `dir-b` has no `/` behind the key.
        path.key().strip_prefix(self.dir.key())?.strip_prefix('/')?.split('/').next()
    }
}

/// Reach of a view, and the owner and author of its commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Paths that exist for the view.
    pub within: Within,
    /// Paths among these that the view may only read.
    pub read_only: Within,
    /// Directories of which the view sees some entries.
    pub gates: Vec<Gate>,
    /// Owner of its snapshots, commit ids, idempotency keys and staged bodies.
    pub owner: Owner,
    /// Author of its commits, whatever a batch says. A field that is `None` is taken from the batch.
    pub author: Author,
}

impl Confinement {
    /// Returns a confinement to these paths, without an author.
    pub fn new(within: Within, owner: Owner) -> Self {
        let (read_only, gates) = (Within::nothing(), Vec::new());
        Self { within, read_only, gates, owner, author: Author::default() }
    }

    /// Makes these paths and everything below them read-only: a commit through the view that changes their
    /// content, attributes or names, even by another name of a file, fails with `AccessDenied`.
    #[must_use]
    pub fn read_only(self, read_only: Within) -> Self {
        Self { read_only, ..self }
    }

    /// Hides the entries of some directories that lack a key. Only the store of an account has this; other
    /// filesystems fail with `Unsupported`.
    #[must_use]
    pub fn gated(self, gates: Vec<Gate>) -> Self {
        Self { gates, ..self }
    }

    /// Sets the author.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Fails with `Unsupported` for a confinement with gates: to ignore them would show what they hide.
    pub(crate) fn reject_gates(&self) -> Result<()> {
        if self.gates.is_empty() {
            return Ok(());
        }
        let message = "entries of a directory can be hidden by their keys only in the store of an account";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_owners_never_collide() {
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

    #[test]
    fn shown_owners_are_parsed() {
        let of = |path| Owner::of_path(&TreePath::parse(path).expect("a path")).expect("short");
        let nested = of("/b > c").inside(Some(&of("/a"))).expect("short");
        assert_eq!(nested.to_string(), "/a > /b >> c");
        assert_ne!(nested.to_string(), of("/c").inside(Some(&nested)).expect("short").to_string());
        for owner in [of("/a"), of("/>"), of("/a >"), of("/a\u{1f}\n"), nested] {
            assert_eq!(Owner::parse(&owner.to_string()).expect("an owner"), owner);
        }
        for wrong in ["", "a\u{1f}b", "a>b", "a >>> b"] {
            assert!(Owner::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn gate_names_the_entry_of_a_path() {
        let path = |text| TreePath::parse(text).expect("a path");
        let gate = |dir| Gate {
            dir: path(dir),
            file: Name::parse("f").expect("a name"),
            projection: Projection::TAG,
            keys: Vec::new(),
            since: Seq(0),
        };
        let of = |dir, at| gate(dir).entry_of(&path(at)).map(str::to_owned);
        for (dir, at, entry) in [
            ("/s", "/s/a", Some("a")),
            ("/s", "/s/a/b/c", Some("a")),
            ("/s", "/s", None),
            ("/s", "/s-b/a", None),
            ("/s", "/", None),
            ("/", "/a/b", Some("a")),
            ("/", "/", None),
        ] {
            assert_eq!(of(dir, at).as_deref(), entry, "{dir} {at}");
        }
    }
}
