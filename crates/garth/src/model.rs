//! The vocabulary of the tree: what nodes, versions and commits are. Batches are in [`batch`], what reads ask
//! and answer in [`query`].

pub mod batch;
pub mod query;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::{Name, TreePath};

/// A moment, in nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This moment and `seconds` more. Saturates.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000_000)))
    }

    /// RFC 3339 with milliseconds and `Z`: `2026-01-27T00:00:00.000Z`. Rounds down.
    pub fn to_rfc3339(self) -> String {
        let text = jiff::Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or_default();
        format!("{text:.3}")
    }

    /// Reads RFC 3339 (`2026-01-27T00:00:00Z`, any offset, up to nanoseconds).
    ///
    /// # Errors
    /// `InvalidArgument` for anything else, or a time that nanoseconds in 64 bits do not reach (years 1678 to 2261).
    pub fn parse_rfc3339(text: &str) -> Result<Self> {
        let invalid =
            || Error::invalid(format!("`{text}` is not an RFC 3339 time such as 2026-01-27T00:00:00Z"));
        let time: jiff::Timestamp = text.parse().map_err(|_| invalid())?;
        i64::try_from(time.as_nanosecond()).map(Self).map_err(|_| invalid())
    }
}

/// An inode number: names one node for ever. Stable across rename, never used twice. The root is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Self = Self(1);
    /// No node: what a deletion of something that was not there names.
    pub const NONE: Self = Self(0);
}

/// The number of a commit. The first is 1; 0 is the empty tree before it. Dense: every acknowledged batch takes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One node in one commit. As text `ver_<seq>-<ino>`, both in lower-case hexadecimal; opaque to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId {
    /// The commit.
    pub seq: Seq,
    /// The node; [`Ino::NONE`] for the deletion of what was not there.
    pub ino: Ino,
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ver_{:x}-{:x}", self.seq.0, self.ino.0)
    }
}

impl FromStr for VersionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.strip_prefix("ver_").and_then(|rest| rest.split_once('-'));
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        parts
            .and_then(|(seq, ino)| Some(Self { seq: Seq(number(seq)?), ino: Ino(number(ino)?) }))
            .filter(|id| id.to_string() == text) // one spelling only: no `+`, no leading zero, no upper case
            .ok_or_else(|| Error::invalid("not a version id"))
    }
}

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

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape serde asks for
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// A node as `stat` shows it.
#[derive(Clone, Debug, PartialEq)]
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

/// What an operation addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// A name, by its whole path. No link on the way is followed, nor one at the end.
    Path(TreePath),
    /// A node, by number: it has a name, or this filesystem instance holds it open.
    Node(Ino),
    /// A name in a directory that is known by number (`openat`): follows renames of the directory.
    Child(Ino, Name),
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

impl From<Ino> for At {
    fn from(ino: Ino) -> Self {
        Self::Node(ino)
    }
}

/// Who made a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Author {
    /// Id of the API key (never its secret).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// A caller's own name for a commit: 128 bits, shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitId(pub u128);

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What the log keeps of a commit besides its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// Its number.
    pub seq: Seq,
    /// Its time: `max(clock, previous + 1 ns)`.
    pub time: Timestamp,
    /// The caller's id for it, if one was given.
    pub id: Option<CommitId>,
    /// Who.
    pub author: Author,
    /// Why, in the caller's words.
    pub message: String,
}

/// A named sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The commit that made it; the state it names.
    pub seq: Seq,
    /// When.
    pub time: Timestamp,
}
