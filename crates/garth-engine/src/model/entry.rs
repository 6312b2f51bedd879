//! Nodes as `stat` returns them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::{Ino, Timestamp, VersionId};

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeKind")]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link: a path, stored as text and never followed by engines.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Mark that hides a name of a lower layer. Overlays interpret it, engines only store it.
    Whiteout,
}

/// Attributes beyond POSIX. Default attributes are not stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeAttributes")]
#[serde(default)]
pub struct Attributes {
    /// MIME type, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Labels, in the order given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Weight of the entry to its owner; finite. 0 unless set.
    #[serde(skip_serializing_if = "is_zero")]
    pub importance: f64,
    /// Visibility of the content to search. `None` for the default: text files are visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searchable: Option<bool>,
    /// Custom metadata.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Extended attributes (`user.*` and the like), any bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// Prefix of metadata and extended attributes of garth itself: notes of garth, or of a view, on a node. Only
/// a batch [by garth](crate::model::Batch::by_garth) sets them. A copy is another node, and does not have
/// them.
pub const OWN_ATTRIBUTES: &str = "garth.";

/// Returns true if an attribute of this name is one of garth's own.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(OWN_ATTRIBUTES)
}

/// Bytes of memory that a text takes besides its own, about.
pub(super) const OF_TEXT: usize = 64;

impl Attributes {
    /// Returns the attributes of a copy of these that replaces a node with `node`, or with default ones.
    #[must_use]
    pub(crate) fn copied_over(mut self, node: &Self) -> Self {
        self.xattrs.retain(|name, _| !is_own(name));
        self.metadata.retain(|name, _| !is_own(name));
        // Garth's notes are about a node, so the replaced one keeps its own.
        let own = node.xattrs.iter().filter(|(name, _)| is_own(name));
        self.xattrs.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        let own = node.metadata.iter().filter(|(name, _)| is_own(name));
        self.metadata.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// Returns the attributes of a node that is restored to these: those of a copy, and custom metadata that
    /// garth had set.
    #[must_use]
    pub(crate) fn restored_over(self, node: &Self) -> Self {
        // With the entries that garth had set.
        let metadata = self.metadata.clone();
        Self { metadata, ..self.copied_over(node) }
    }

    /// Returns the bytes of all texts, which count towards the limit of an answer.
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(String::len).sum();
        let metadata: usize = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        let xattrs: usize = self.xattrs.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.content_type.as_ref().map_or(0, String::len) + tags + metadata + xattrs
    }

    /// Returns about the bytes of memory that these attributes take: texts may be short and many.
    #[doc(hidden)]
    pub fn weight(&self) -> usize {
        self.bytes() + OF_TEXT * (self.tags.len() + self.metadata.len() + self.xattrs.len())
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape serde asks for
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// Node as `stat` returns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Node")]
pub struct Entry {
    /// Inode.
    pub ino: Ino,
    /// Kind of the node.
    pub kind: Kind,
    /// Permission bits, `0o7777` at most. Stored and shown; engines do not enforce them.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, else 0.
    pub rdev: u64,
    /// Number of names of a non-directory; for a directory 2, and one more for each directory in it.
    pub nlink: u64,
    /// Size of a file or of a link's target in bytes; 0 for any other node.
    pub size: u64,
    /// Last read, as set by `SetAttrs`; reads never change it.
    pub atime: Timestamp,
    /// Last change of content (of names, for a directory).
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Creation.
    pub birthtime: Timestamp,
    /// Target of a symbolic link.
    pub target: Option<String>,
    /// Attributes beyond POSIX.
    pub attributes: Attributes,
    /// Time from which the entry is absent. Never set on a directory.
    pub expires_at: Option<Timestamp>,
    /// Commit that last changed the node in any way.
    pub version: VersionId,
    /// Commit that last changed its content (HTTP: the ETag).
    pub etag: VersionId,
}

impl Entry {
    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Returns true for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Returns true for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.kind == Kind::Symlink
    }
}
