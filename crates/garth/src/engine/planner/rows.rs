//! The rows that planner and databases agree on, and what the planner asks of a database.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::subtrees::Region;
use crate::error::Result;
use crate::model::{Attributes, ChangeKind, Commit, CommitId, Kind, Timestamp, Within};
use crate::path::TreePath;

/// A chunk of this many bytes and more is found by its BLAKE3 and stored once per account.
pub(crate) const DEDUP_FROM: usize = 64 << 10;

/// Bytes of the checksum of a chunk that is not deduplicated: enough to detect damage, and chunks may
/// be many.
pub(crate) const SHORT_SUM: usize = 8;

/// A live name. Its key, `(directory, name)`, is kept beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameRow {
    pub(crate) ino: u64,
    /// The commit that gave the node this name.
    pub(crate) since: u64,
    /// Kind of the node, which never changes: a listing of names needs no node.
    pub(crate) kind: Kind,
}

/// One version of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) ino: u64,
    /// The commit that made this version.
    pub(crate) seq: u64,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) nlink: u64,
    pub(crate) size: u64,
    pub(crate) atime: i64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) birthtime: i64,
    pub(crate) target: Option<String>,
    /// The commit whose attributes the node has; 0 for none. They are rows of their own,
    /// so that an append copies none.
    pub(crate) attrs_seq: u64,
    pub(crate) expires_at: Option<i64>,
    /// The commit that last changed the content.
    pub(crate) content_seq: u64,
}

impl NodeRow {
    /// Takes so many names from it in a commit. What keeps one has changed; what loses its last has ended as
    /// it was.
    pub(crate) fn lose_names(&mut self, names: u64, (seq, time): (u64, i64)) {
        self.nlink = if self.kind == Kind::Directory { 0 } else { self.nlink.saturating_sub(names) };
        self.seq = seq;
        if self.nlink > 0 {
            self.ctime = time;
        }
    }

    /// The commit that last changed this node, which has no name left, as its open handles see it: to
    /// lose the last name alone is no change. `before` is the version before this one. (Any change sets
    /// `ctime` to the commit's time.)
    pub(crate) fn last_change(&self, before: &Self) -> u64 {
        if before.nlink > 0 && before.ctime == self.ctime { before.seq } else { self.seq }
    }

    /// Whether the entry is absent at `time`.
    pub(crate) fn expired(&self, time: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= time)
    }
}

/// A run of a file's bytes: `len` bytes of a chunk from `skip`, at `off` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentRow {
    pub(crate) off: u64,
    pub(crate) len: u64,
    /// The commit that put it there.
    pub(crate) since: u64,
    pub(crate) chunk: u64,
    pub(crate) skip: u64,
    /// The commit that wrote these bytes into this file: of what is left beside a patch the one before. 0 for
    /// several, which the database keeps with the chunk.
    pub(crate) written: u64,
}

impl ExtentRow {
    pub(crate) fn end(&self) -> u64 {
        self.off + self.len
    }

    /// The part of this extent within `from..to` of the file, which must overlap it.
    pub(crate) fn cut(&self, from: u64, to: u64) -> Self {
        let off = self.off.max(from);
        Self { off, len: self.end().min(to) - off, skip: self.skip + (off - self.off), ..*self }
    }
}

/// New stored bytes.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) id: u64,
    pub(crate) data: Bytes,
    /// The whole BLAKE3 for content of [`DEDUP_FROM`] bytes and more; its first 8 bytes below.
    pub(crate) sum: Vec<u8>,
}

/// What a database has under a hash, for the same bytes that are written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Nothing.
    Nothing,
    /// This chunk, to refer to. How the database knows that it is intact is its own affair: one that would
    /// have to fetch it from far away may rely on what found damage before.
    Sound(u64),
    /// A damaged chunk, which new bytes must not refer to. Its hash is taken.
    Damaged,
}

impl Stored {
    /// The chunk that bytes of this checksum are to refer to. Those that may not are stored again, under a
    /// checksum cut short: hashes are unique.
    pub(crate) fn share(self, sum: &mut Vec<u8>) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Sound(id) => Some(id),
            Self::Damaged => {
                sum.truncate(SHORT_SUM);
                None
            }
        }
    }
}

/// A staged body: its chunks in order, with their lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Staged(pub(crate) Vec<(u64, u64)>);

/// The record of an idempotency key, with the commit that it stands for as that was answered.
#[derive(Clone, Debug)]
pub(crate) struct IdempotencyRow {
    pub(crate) request_hash: [u8; 32],
    pub(crate) keep_until: i64,
    pub(crate) commit: Commit,
}

/// A change as the log keeps it. `path` only where a name is made or removed: the names
/// of a node at a commit are known.
#[derive(Clone, Debug)]
pub(crate) struct LogChange {
    pub(crate) kind: ChangeKind,
    pub(crate) ino: u64,
    pub(crate) path: Option<TreePath>,
    /// Of a node that was made: whether all that is below it was made with it, in a copy.
    pub(crate) whole: bool,
}

/// What the planner reads: the newest state (the commits before, also those of the same
/// group), and the past for copies.
pub(crate) trait Rows {
    /// A live name.
    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>>;
    /// Live names of a directory, up to `limit`, in byte order.
    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>>;
    /// Live names below a directory, ordered by directory, then name.
    fn names_below(&self, dir: &str) -> Result<Vec<(String, String, NameRow)>>;
    /// Bytes of the longest path of a live name in a region of directories; 0 if there is none.
    fn longest_path(&self, region: &Region) -> Result<usize>;
    /// Nodes that have expired at `time` and have a live name in a region of directories.
    fn expired_in(&self, region: &Region, time: i64) -> Result<Vec<u64>>;
    /// Live names of a node within some subtrees, up to `limit`, in any order. Costs as much as what it
    /// gives.
    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<(String, String)>>;
    /// The newest version of a node.
    fn node(&self, ino: u64) -> Result<Option<NodeRow>>;
    /// Attributes that a node got in commit `seq`.
    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes>;
    /// Live extents that overlap `from..to`, by offset.
    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>>;
    /// Whether the database lets what has lost its names be reached by this number: who asks holds it open.
    fn is_open(&self, ino: u64) -> Result<bool>;
    /// What is stored under this BLAKE3 (only chunks of at least [`DEDUP_FROM`] bytes are).
    fn stored(&self, hash: &[u8]) -> Result<Stored>;
    /// The bytes of a chunk, checked against their sum.
    fn chunk(&self, id: u64) -> Result<Bytes>;
    /// A staged body of this owner; `None` if it is unknown or collected.
    fn staged(&self, owner: &str, id: u128) -> Result<Option<Staged>>;
    /// The commit of this owner and id, as it was answered.
    fn committed(&self, owner: &str, id: CommitId) -> Result<Option<Commit>>;
    /// Whether this owner has a snapshot of this name.
    fn has_snapshot(&self, owner: &str, name: &str) -> Result<bool>;
    /// An idempotency record of this owner.
    fn idempotency(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRow>>;
    /// Time of a commit; the error says `NotFound` or `Gone`.
    fn time_of(&self, seq: u64) -> Result<Timestamp>;
    /// A name as it was after commit `seq`.
    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>>;
    /// Names below a directory after commit `seq`, ordered by directory, then name.
    fn names_below_at(&self, dir: &str, seq: u64) -> Result<Vec<(String, String, NameRow)>>;
    /// Names of a node after commit `seq` within some subtrees.
    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<(String, String)>>;
    /// A node after commit `seq`.
    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>>;
    /// Extents of a node after commit `seq` that overlap `from..to`, by offset. The last may
    /// reach beyond the size of that time.
    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>>;
}
