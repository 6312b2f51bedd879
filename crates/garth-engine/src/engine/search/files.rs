//! Files as a search reads them.

use std::ops::Range;

use bytes::Bytes;

use super::names::{Named, NamedFile};
use super::passage::Passage;
use crate::error::Error;
use crate::model::{Attributes, ByteRange, Ino, Projection, Timestamp, VersionId, Within};
use crate::path::TreePath;
use crate::rule::{Naming, Registry};

/// Newest state of a tree, as a search reads it.
pub trait Files {
    /// Error of the storage.
    type Error: From<Error> + Send;

    /// Returns a file; `None` if it has no name or has expired.
    fn node(&self, ino: Ino) -> Result<Option<FileNode>, Self::Error>;

    /// Returns the attributes of a file.
    fn attributes(&self, node: &FileNode) -> Result<Attributes, Self::Error>;

    /// Returns the first `limit` names of a node within some subtrees, in order of directory and name. They
    /// come after the directory and name `after`.
    fn names_behind(
        &self,
        ino: Ino,
        within: &Within,
        after: (&str, &str),
        limit: usize,
    ) -> Result<Vec<(String, String)>, Self::Error>;

    /// Returns all names of a node within some subtrees, each with its directory, in any order.
    fn names(&self, ino: Ino, within: &Within) -> Result<Vec<(String, String)>, Self::Error>;

    /// Returns at most `limit` nodes at or below a top of some subtrees, once for each name. Nodes of
    /// excluded paths may be among them.
    fn nodes_within(&self, within: &Within, top: &TreePath, limit: usize) -> Result<Vec<u64>, Self::Error>;

    /// Returns the node at a path, which may be out of reach of the query.
    fn live_file(&self, path: &TreePath) -> Result<Option<Ino>, Self::Error>;

    /// Returns true if a node has a key.
    fn has_key(&self, ino: Ino, projection: Projection, key: &str) -> Result<bool, Self::Error>;

    /// Reads bytes of a file.
    fn read(&self, node: &FileNode, range: ByteRange) -> Result<Bytes, Self::Error>;

    /// Returns the lines of a passage in its file: the first line is 1, the end is excluded.
    fn lines(&self, passage: &Passage) -> Result<Range<u64>, Self::Error>;

    /// Returns the search exclusions.
    fn registry(&self) -> &Registry;

    /// Called for each row that is read. Fails to end a search that takes too long.
    fn step(&self) -> Result<(), Self::Error>;
}

/// File that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNode {
    /// Inode.
    pub ino: Ino,
    /// Size in bytes.
    pub size: u64,
    /// Current version.
    pub version: VersionId,
    /// Time of the last change of its content.
    pub changed: Timestamp,
    /// Commit that set its attributes; 0 if it has none, or if the engine does not need it.
    pub attributes: u64,
}

/// A file that a query may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// The file.
    pub node: FileNode,
    /// The first of its paths that may be shown.
    pub path: TreePath,
    /// True if lines of it may be withheld.
    pub withholds: bool,
    /// Names of the path that count for its passages.
    pub naming: Naming,
}

impl NamedFile for FoundFile {
    fn named(&self) -> Option<Named<'_>> {
        Some(Named { path: &self.path, naming: self.naming, size: self.node.size })
    }
}
