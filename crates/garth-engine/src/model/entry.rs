//! A node as `stat` shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::id::{Ino, Timestamp, VersionId};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bytes.
    File,
    /// Names.
    Directory,
    /// A path, kept as text and never followed by engines.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Hides a name of a lower layer; overlays interpret it, engines only store it.
    Whiteout,
}

/// Attributes beyond POSIX. Equal to default means none are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Whether search sees the content. `None`: a text file is seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searchable: Option<bool>,
    /// Custom metadata.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Extended attributes (`user.*` and the like), any bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// Metadata and extended attributes whose names begin like this are garth's own: what garth, or a view, notes
/// on a node. Only a batch [by garth](crate::model::Batch::by_garth) sets them. A copy is another node, and
/// does not have them.
pub const OWN_ATTRIBUTES: &str = "garth.";

/// Whether an attribute of this name is garth's own.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(OWN_ATTRIBUTES)
}

impl Attributes {
    /// What a copy has of these attributes, that was made over a node with others, or with none.
    #[must_use]
    pub(crate) fn copied_over(mut self, node: &Self) -> Self {
        self.xattrs.retain(|name, _| !is_own(name));
        self.metadata.retain(|name, _| !is_own(name));
        let own = node.xattrs.iter().filter(|(name, _)| is_own(name));
        self.xattrs.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        let own = node.metadata.iter().filter(|(name, _)| is_own(name));
        self.metadata.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// What a restored node has of these attributes, which it had then: as a copy, but for custom metadata
    /// that garth had set.
    #[must_use]
    pub(crate) fn restored_over(self, node: &Self) -> Self {
        let metadata = self.metadata.clone();
        Self { metadata, ..self.copied_over(node) }
    }

    /// Bytes of all texts: what they count towards the limit of an answer.
    pub(crate) fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(String::len).sum();
        let metadata: usize = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        let xattrs: usize = self.xattrs.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.content_type.as_ref().map_or(0, String::len) + tags + metadata + xattrs
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape serde asks for
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// A node as `stat` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The node.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, `0o7777` at most. Kept and shown; engines do not enforce them.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, else 0.
    pub rdev: u64,
    /// Names of a non-directory; for a directory 2 and one for each directory in it.
    pub nlink: u64,
    /// Bytes of a file or of a link's target; 0 for anything else.
    pub size: u64,
    /// Last read as set by `SetAttrs`; reads never change it.
    pub atime: Timestamp,
    /// Last change of content (of names, for a directory).
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Creation.
    pub birthtime: Timestamp,
    /// Where a symbolic link points.
    pub target: Option<String>,
    /// Attributes beyond POSIX.
    pub attributes: Attributes,
    /// From this moment on the entry is absent. Never set on a directory.
    pub expires_at: Option<Timestamp>,
    /// The commit that last changed the node in any way.
    pub version: VersionId,
    /// The commit that last changed its content (HTTP: the ETag).
    pub etag: VersionId,
}

impl Entry {
    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.kind == Kind::Symlink
    }
}
