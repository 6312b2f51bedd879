//! Rows that the planner and databases exchange, and the queries of the planner to a database.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::subtrees::Region;
use crate::error::Result;
use crate::model::{Attributes, ChangeKind, Commit, CommitId, Kind, Projection, Timestamp, Within};
use crate::path::TreePath;
use crate::rule::quota::Quotas;
use crate::rule::{Digest, Place, Rules};

/// Minimum size of content, in bytes, that is found by the BLAKE3 hash of its chunks and stored once per
/// account.
pub const DEDUP_FROM: usize = 64 << 10;

/// Length, in bytes, of the checksum of a chunk that is not deduplicated: enough to detect damage, and
/// short, because chunks may be many.
pub const SHORT_SUM: usize = 8;

/// Head row: the state that a batch is planned on.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadRow {
    /// Sequence number of the last commit.
    pub seq: u64,
    /// Time of the last commit, in nanoseconds since 1970.
    pub time: i64,
    /// Next inode to assign.
    pub next_ino: u64,
    /// Next chunk number to assign.
    pub next_chunk: u64,
    /// Version of the rules and quotas that operators have set.
    pub control: u64,
    /// Version of the set of projections that are maintained.
    pub projections: u64,
    /// First commit whose state is readable; 0 if all are.
    pub oldest: u64,
    /// Last commit up to which ended rows are removed, at most `oldest`.
    pub folded: u64,
}

/// Live name. Its key, `(directory, name)`, is passed next to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRow {
    /// Inode of the node.
    pub ino: u64,
    /// Commit that gave the node this name.
    pub since: u64,
    /// Kind of the node, which never changes: listing names needs no node.
    pub kind: Kind,
}

/// Version of a node. Times are in nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Inode.
    pub ino: u64,
    /// Commit that created this version.
    pub seq: u64,
    /// Kind, which never changes.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Device number of a device, otherwise 0.
    pub rdev: u64,
    /// Number of names; for a directory 2, and one for each directory in it. 0 if only open handles reach
    /// the node.
    pub nlink: u64,
    /// Size in bytes of the content, or of the target of a symbolic link.
    pub size: u64,
    /// Access time, as it was set: reads do not change it.
    pub atime: i64,
    /// Time of the last change of the content, or as it was set.
    pub mtime: i64,
    /// Time of the last change of any kind.
    pub ctime: i64,
    /// Creation time.
    pub birthtime: i64,
    /// Target of a symbolic link.
    pub target: Option<String>,
    /// Commit whose attributes the node has; 0 for none. They are rows of their own, so that an append
    /// copies none.
    pub attrs_seq: u64,
    /// Time from which on the node is absent.
    pub expires_at: Option<i64>,
    /// Commit that last changed the content.
    pub content_seq: u64,
}

impl NodeRow {
    /// Sets the times of a directory to those of a commit that changed names in it.
    pub fn touch(&mut self, (seq, time): (u64, i64)) {
        self.seq = seq;
        self.content_seq = seq;
        self.mtime = time;
        self.ctime = time;
    }

    /// Takes `names` names from the node in a commit. A node that keeps a name has changed; one that loses
    /// the last ends as it was.
    pub fn lose_names(&mut self, names: u64, (seq, time): (u64, i64)) {
        // A directory has one name; its other links are of the directories in it, which end with it.
        self.nlink = if self.kind == Kind::Directory { 0 } else { self.nlink.saturating_sub(names) };
        self.seq = seq;
        if self.nlink > 0 {
            self.ctime = time;
        }
    }

    /// Returns the commit that last changed this node, which has no name left, as its open handles see it:
    /// losing the last name alone is no change. `before` is the version before this one.
    pub fn last_change(&self, before: &Self) -> u64 {
        // Any change sets `ctime` to the time of its commit, and losing the last name does not.
        if before.nlink > 0 && before.ctime == self.ctime { before.seq } else { self.seq }
    }

    /// Returns true if the entry is absent at `time`.
    pub fn expired(&self, time: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= time)
    }
}

/// Newest version of a node, as a database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestNode {
    /// Version.
    pub row: NodeRow,
    /// True if the version has no row of its own: it is a directory, and only its times are stored.
    pub has_times: bool,
}

/// Range of the bytes of a file: `len` bytes of a chunk, from `skip` on, at offset `off` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentRow {
    /// Offset in the file.
    pub off: u64,
    /// Length in bytes.
    pub len: u64,
    /// Commit that put the extent there.
    pub since: u64,
    /// Number of the chunk that holds the bytes.
    pub chunk: u64,
    /// Offset in the chunk.
    pub skip: u64,
    /// Commit that wrote these bytes into this file; for the rest of an extent next to a patch, the earlier
    /// one. 0 for several commits, which the database stores with the chunk.
    pub written: u64,
}

impl ExtentRow {
    /// Returns the offset in the file at which the extent ends.
    pub fn end(&self) -> u64 {
        self.off + self.len
    }

    /// Returns the part of this extent within `from..to` of the file, which must overlap it.
    pub fn cut(&self, from: u64, to: u64) -> Self {
        let off = self.off.max(from);
        // `written` stays: the bytes are those that the commit wrote.
        Self { off, len: self.end().min(to) - off, skip: self.skip + (off - self.off), ..*self }
    }
}

/// New stored bytes.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Chunk number.
    pub id: u64,
    /// Bytes, at most [`MAX_EXTENT`](super::MAX_EXTENT).
    pub data: Bytes,
    /// Full BLAKE3 hash for content of at least [`DEDUP_FROM`] bytes, otherwise the first 8 bytes of it.
    pub sum: Vec<u8>,
}

/// Answer of a database to the lookup of a hash, when bytes with that hash are written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// No chunk has the hash.
    Nothing,
    /// Chunk to refer to. How the database knows that it is intact is up to the database: one that would
    /// have to fetch it from far away may rely on earlier checks.
    Sound(u64),
    /// Damaged chunk, which new bytes must not refer to. Its hash is taken.
    Damaged,
}

impl Stored {
    /// Returns the chunk that bytes with this checksum are to refer to. Next to a damaged chunk, the bytes
    /// are stored again under a shortened checksum, because hashes are unique.
    pub fn share(self, sum: &mut Vec<u8>) -> Option<u64> {
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

/// Staged body: its chunks in order, with their lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged(pub Vec<(u64, u64)>);

/// Staged body that waits for its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRow {
    /// Key of the view that staged it.
    pub owner: String,
    /// Body.
    pub pieces: Staged,
}

/// Record of an idempotency key, with the commit as it was returned.
#[derive(Clone, Debug)]
pub struct IdempotencyRow {
    /// Hash of the request that the key was used for.
    pub request_hash: [u8; 32],
    /// Time until which the record counts.
    pub keep_until: i64,
    /// Commit as it was returned, with the note of the record.
    pub commit: Commit,
}

/// Progress of a check: how far a file satisfies a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedRow {
    /// Commit of the content that was checked.
    pub etag: u64,
    /// Place where the check continues.
    pub until: Place,
}

/// Entry of the log. It has a `path` only if a name was created or removed: the names of a node at a commit
/// are known.
#[derive(Clone, Debug)]
pub struct LogChange {
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Inode of the node.
    pub ino: u64,
    /// Name that was created or removed.
    pub path: Option<TreePath>,
    /// True for the top of a copy: everything below it was created with it.
    pub whole: bool,
}

/// Key of a query to [`Rows`]: its method and arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RowKey {
    /// [`Rows::idempotency`]: owner and key.
    Idempotency(String, String),
    /// [`Rows::committed`]: owner and commit id.
    Committed(String, CommitId),
    /// [`Rows::has_snapshot`]: owner and name.
    Snapshot(String, String),
    /// [`Rows::staged`]: owner and id.
    Staged(u128),
    /// [`Rows::name`]: directory and name.
    Name(String, String),
    /// [`Rows::names_in`]: directory and limit.
    NamesIn(String, usize),
    /// [`Rows::names_below`]: region and limit.
    NamesBelow(Region, usize),
    /// [`Rows::longest_path`].
    LongestPath(Region),
    /// [`Rows::expired_in`]: region and time.
    ExpiredIn(Region, i64),
    /// [`Rows::names_of`]: inode, subtrees and limit.
    NamesOf(u64, Within, usize),
    /// [`Rows::newest_node`].
    Node(u64),
    /// [`Rows::is_open`].
    IsOpen(u64),
    /// [`Rows::attributes`]: inode and commit. Holds the attributes that the node had after that commit,
    /// set by it or before: which commit set them is not known beforehand.
    Attributes(u64, u64),
    /// [`Rows::extents`]: inode and range.
    Extents(u64, u64, u64),
    /// [`Rows::judged`]: inode and constraint.
    Judged(u64, Digest),
    /// [`Rows::stored`]: hash.
    Stored(Vec<u8>),
    /// [`Rows::chunk`].
    Chunk(u64),
    /// [`Rows::time_of`].
    TimeOf(u64),
    /// [`Rows::name_at`]: directory, name and commit.
    NameAt(String, String, u64),
    /// [`Rows::names_below_at`]: directory, commit and limit.
    NamesBelowAt(String, u64, usize),
    /// [`Rows::names_of_at`]: inode, commit and subtrees.
    NamesOfAt(u64, u64, Within),
    /// [`Rows::node_at_seq`]: inode and commit.
    NodeAt(u64, u64),
    /// [`Rows::extents_at`]: inode, commit and range.
    ExtentsAt(u64, u64, u64, u64),
    /// [`Rows::quotas`].
    Quotas,
    /// [`Rows::tally`]: ranges of directories.
    Tally(Vec<(String, String)>),
    /// [`Rows::due`]: time, subtrees, time and inode to start after, and limit.
    Due(i64, Within, (i64, u64), usize),
    /// Keys of a node in projections that are not by line: inode.
    Keys(u64),
    /// Last line that has a row in a projection by line and begins at or before an offset: inode, projection
    /// and offset; `u64::MAX` for the last line.
    Line(u64, Projection, u64),
    /// Passages of a file that begin in a range, its end included: inode and range.
    Passages(u64, u64, u64),
    /// Last passage of a file that begins before an offset: inode and offset.
    PassageBefore(u64, u64),
    /// Byte from which the text of a file is not indexed yet: inode.
    Unindexed(u64),
    /// Bytes of a file, holes as zeros; fewer at its end: inode and range.
    Content(u64, u64, u64),
    /// End of a file with its passages and lines, which an append needs: inode. It answers other keys.
    Tail(u64),
}

/// Sums over ranges of directories, as quotas count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of names.
    pub entries: u64,
    /// Bytes of the files whose only name is there.
    pub bytes: u128,
    /// Files with several names, at least one of them there.
    pub shared: BTreeSet<u64>,
}

/// Queries of the planner: the newest state (of the commits before this one, also of the same group), and
/// the past for copies. A method returns `None`, or an empty list, if there is no such row.
///
/// Where a row costs a round trip, see [`Fetch`](super::Fetch).
pub trait Rows {
    /// True if the database is a round trip away. The planner then calls [`prefetch`](Self::prefetch), and
    /// plans all operations of a batch even after one was refused, to learn of more rows at once. With a
    /// local database, no key is made.
    const PREFETCHES: bool = false;
    /// Announces rows that are likely to be read.
    fn prefetch(&self, keys: Vec<RowKey>) {
        drop(keys);
    }
    /// Returns the rules in force at the head row.
    fn rules(&self) -> &Rules;
    /// Returns a live name.
    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>>;
    /// Returns the live names of a directory, up to `limit`, in byte order.
    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>>;
    /// Returns the live names in a region of directories, ordered by directory, then name; any `limit` of
    /// them if there are more.
    fn names_below(&self, region: &Region, limit: usize) -> Result<Vec<(String, String, NameRow)>>;
    /// Returns the length in bytes of the longest path of a live name in a region, which leaves out
    /// [`Region::names`], or 0 if there is none; and the number of names that it took to find out.
    fn longest_path(&self, region: &Region) -> Result<(usize, usize)>;
    /// Returns the nodes that have expired at `time` and have a live name in a region of directories.
    fn expired_in(&self, region: &Region, time: i64) -> Result<Vec<u64>>;
    /// Returns the live names of a node within some subtrees, up to `limit`, in any order. The cost is in
    /// proportion to the result.
    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<(String, String)>>;
    /// Returns the newest version of a node.
    fn newest_node(&self, ino: u64) -> Result<Option<NewestNode>>;
    /// Returns the row of the newest version of a node.
    fn node(&self, ino: u64) -> Result<Option<NodeRow>> {
        Ok(self.newest_node(ino)?.map(|node| node.row))
    }
    /// Returns the attributes that a node got in commit `seq`.
    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes>;
    /// Returns the live extents that overlap `from..to`, by offset.
    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>>;
    /// Returns true if the caller holds open a node that has lost its names, and so reaches it by inode.
    fn is_open(&self, ino: u64) -> Result<bool>;
    /// Returns how far a file was found to satisfy a constraint.
    fn judged(&self, ino: u64, constraint: &Digest) -> Result<Option<JudgedRow>>;
    /// Returns the chunk that is stored under a BLAKE3 hash. Only content of at least [`DEDUP_FROM`] bytes
    /// is.
    fn stored(&self, hash: &[u8]) -> Result<Stored>;
    /// Returns the bytes of a chunk, checked against their sum.
    fn chunk(&self, id: u64) -> Result<Bytes>;
    /// Returns a staged body; `None` if it is unknown or was collected.
    fn staged(&self, id: u128) -> Result<Option<StagedRow>>;
    /// Returns the commit of an owner with an id, as it was returned first.
    fn committed(&self, owner: &str, id: CommitId) -> Result<Option<Commit>>;
    /// Returns true if an owner has a snapshot of this name.
    fn has_snapshot(&self, owner: &str, name: &str) -> Result<bool>;
    /// Returns an idempotency record of an owner.
    fn idempotency(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRow>>;
    /// Returns the time of a commit. Fails with `NotFound` or `Gone`.
    fn time_of(&self, seq: u64) -> Result<Timestamp>;
    /// Returns a name as it was after commit `seq`.
    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>>;
    /// Returns the names below a directory after commit `seq`, ordered by directory, then name; any `limit`
    /// of them if there are more.
    fn names_below_at(&self, dir: &str, seq: u64, limit: usize) -> Result<Vec<(String, String, NameRow)>>;
    /// Returns the names of a node after commit `seq` within some subtrees.
    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<(String, String)>>;
    /// Returns a node as it was after commit `seq`.
    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>>;
    /// Returns the extents of a node after commit `seq` that overlap `from..to`, by offset. The last one
    /// may reach beyond the size that the file had.
    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>>;
    /// Returns the quotas of the tree, as the commits before this one have left them.
    fn quotas(&self) -> Result<Arc<Quotas>>;
    /// Returns the sums over ranges of directories, each without its end.
    fn tally(&self, ranges: &[(String, String)]) -> Result<Tally>;
    /// Returns the nodes that have expired at `time` and have a live name within some subtrees, up to
    /// `limit`, ordered by expiry, then inode. The list starts after the pair `after`.
    fn due(&self, time: i64, within: &Within, after: (i64, u64), limit: usize) -> Result<Vec<(i64, u64)>>;
}
