//! The rows that planner and databases agree on, and what the planner asks of a database.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::subtrees::Region;
use crate::error::Result;
use crate::model::{Attributes, ChangeKind, Commit, CommitId, Kind, Timestamp, Within};
use crate::path::TreePath;
use crate::rule::quota::Quotas;
use crate::rule::{Digest, Place, Rules};

/// Content of this many bytes and more is found by the BLAKE3 of its chunks and stored once per account.
pub const DEDUP_FROM: usize = 64 << 10;

/// Bytes of the checksum of a chunk that is not deduplicated: enough to detect damage, and chunks may
/// be many.
pub const SHORT_SUM: usize = 8;

/// Head row: the state that a batch is planned on.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadRow {
    /// Last sequence.
    pub seq: u64,
    /// Time of the last commit.
    pub time: i64,
    /// Next inode number to give.
    pub next_ino: u64,
    /// Next chunk number to give.
    pub next_chunk: u64,
    /// Version of what operators have set: rules and quotas.
    pub control: u64,
    /// Version of the set of projections that are kept.
    pub projections: u64,
}

/// A live name. Its key, `(directory, name)`, is kept beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRow {
    /// The node.
    pub ino: u64,
    /// The commit that gave the node this name.
    pub since: u64,
    /// Kind of the node, which never changes: a listing of names needs no node.
    pub kind: Kind,
}

/// One version of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Its number.
    pub ino: u64,
    /// The commit that made this version.
    pub seq: u64,
    /// What it is; never changes.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device; otherwise 0.
    pub rdev: u64,
    /// Names; of a directory 2 and one for each directory in it. 0: reached by open handles alone.
    pub nlink: u64,
    /// Bytes of content, or of the target.
    pub size: u64,
    /// As it was set: reads do not change it. Times are in nanoseconds since 1970.
    pub atime: i64,
    /// Last change of the content, or as it was set.
    pub mtime: i64,
    /// Last change of any kind.
    pub ctime: i64,
    /// When it was made.
    pub birthtime: i64,
    /// What a symbolic link says.
    pub target: Option<String>,
    /// The commit whose attributes the node has; 0 for none. They are rows of their own,
    /// so that an append copies none.
    pub attrs_seq: u64,
    /// From when on it is absent.
    pub expires_at: Option<i64>,
    /// The commit that last changed the content.
    pub content_seq: u64,
}

impl NodeRow {
    /// Gives a directory the times of a commit that changed the names in it.
    pub fn touch(&mut self, (seq, time): (u64, i64)) {
        self.seq = seq;
        self.content_seq = seq;
        self.mtime = time;
        self.ctime = time;
    }

    /// Takes so many names from it in a commit. What keeps one has changed; what loses its last has ended as
    /// it was.
    pub fn lose_names(&mut self, names: u64, (seq, time): (u64, i64)) {
        self.nlink = if self.kind == Kind::Directory { 0 } else { self.nlink.saturating_sub(names) };
        self.seq = seq;
        if self.nlink > 0 {
            self.ctime = time;
        }
    }

    /// The commit that last changed this node, which has no name left, as its open handles see it: to
    /// lose the last name alone is no change. `before` is the version before this one. (Any change sets
    /// `ctime` to the commit's time.)
    pub fn last_change(&self, before: &Self) -> u64 {
        if before.nlink > 0 && before.ctime == self.ctime { before.seq } else { self.seq }
    }

    /// Whether the entry is absent at `time`.
    pub fn expired(&self, time: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= time)
    }
}

/// A run of a file's bytes: `len` bytes of a chunk from `skip`, at `off` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentRow {
    /// Where in the file.
    pub off: u64,
    /// How many bytes.
    pub len: u64,
    /// The commit that put it there.
    pub since: u64,
    /// The chunk that has them.
    pub chunk: u64,
    /// Where in the chunk.
    pub skip: u64,
    /// The commit that wrote these bytes into this file: of what is left beside a patch the one before. 0 for
    /// several, which the database keeps with the chunk.
    pub written: u64,
}

impl ExtentRow {
    /// Where in the file it ends.
    pub fn end(&self) -> u64 {
        self.off + self.len
    }

    /// The part of this extent within `from..to` of the file, which must overlap it.
    pub fn cut(&self, from: u64, to: u64) -> Self {
        let off = self.off.max(from);
        Self { off, len: self.end().min(to) - off, skip: self.skip + (off - self.off), ..*self }
    }
}

/// New stored bytes.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Its number.
    pub id: u64,
    /// At most [`MAX_EXTENT`](super::MAX_EXTENT) bytes.
    pub data: Bytes,
    /// The whole BLAKE3 if it is of content of [`DEDUP_FROM`] bytes and more; its first 8 bytes below.
    pub sum: Vec<u8>,
}

/// What a database has under a hash, for the same bytes that are written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
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

/// A staged body: its chunks in order, with their lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged(pub Vec<(u64, u64)>);

/// A staged body that waits for its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRow {
    /// The key of the view that staged it.
    pub owner: String,
    /// The body.
    pub pieces: Staged,
}

/// The record of an idempotency key, with the commit that it stands for as that was answered.
#[derive(Clone, Debug)]
pub struct IdempotencyRow {
    /// Of the request that the key was used for.
    pub request_hash: [u8; 32],
    /// The record counts before this time only.
    pub keep_until: i64,
    /// The commit as it was answered, with the note of the record.
    pub commit: Commit,
}

/// How far a file was found to be as a demand asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedRow {
    /// The commit of the content that it was found of.
    pub etag: u64,
    /// Where the check goes on.
    pub until: Place,
}

/// A change as the log keeps it. `path` only where a name is made or removed: the names
/// of a node at a commit are known.
#[derive(Clone, Debug)]
pub struct LogChange {
    /// What happened.
    pub kind: ChangeKind,
    /// To which node.
    pub ino: u64,
    /// The name that was made or removed.
    pub path: Option<TreePath>,
    /// Of a node that was made: whether all that is below it was made with it, in a copy.
    pub whole: bool,
}

/// A question to [`Rows`]: a method and what it is asked with.
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
    /// [`Rows::names_of`]: node, subtrees and limit.
    NamesOf(u64, Within, usize),
    /// [`Rows::node`].
    Node(u64),
    /// [`Rows::is_open`].
    IsOpen(u64),
    /// [`Rows::attributes`]: node, and a commit. Those that it had after that commit, set by it or before:
    /// whoever foresees them does not know since when a node has them.
    Attributes(u64, u64),
    /// [`Rows::extents`]: node and range.
    Extents(u64, u64, u64),
    /// [`Rows::judged`]: node and demand.
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
    /// [`Rows::names_of_at`]: node, commit and subtrees.
    NamesOfAt(u64, u64, Within),
    /// [`Rows::node_at_seq`]: node and commit.
    NodeAt(u64, u64),
    /// [`Rows::extents_at`]: node, commit and range.
    ExtentsAt(u64, u64, u64, u64),
    /// [`Rows::quotas`].
    Quotas,
    /// [`Rows::tally`]: ranges of directories.
    Tally(Vec<(String, String)>),
    /// [`Rows::due`]: time, subtrees, behind which moment and node, and limit.
    Due(i64, Within, (i64, u64), usize),
}

/// What lies in ranges of directories, as quotas count it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Names.
    pub entries: u64,
    /// Bytes of the files that have one name, and that there.
    pub bytes: u128,
    /// The files that have more names, some of them there.
    pub shared: BTreeSet<u64>,
}

/// What the planner reads: the newest state (the commits before, also those of the same
/// group), and the past for copies.
///
/// Where a row costs a round trip, see [`Fetch`](super::Fetch).
pub trait Rows {
    /// Whether to tell [`foresee`](Self::foresee) anything; to plan all operations of a batch, the others too
    /// once one is refused; and all that only to learn of more rows at once. `false` where rows are at hand:
    /// then no key is made.
    const FORESEES: bool = false;
    /// These rows are likely to be asked for.
    fn foresee(&self, keys: Vec<RowKey>) {
        drop(keys);
    }
    /// The rules that are in force at the head row.
    fn rules(&self) -> &Rules;
    /// A live name.
    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>>;
    /// Live names of a directory, up to `limit`, in byte order.
    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>>;
    /// Live names in a region of directories, ordered by directory, then name; any `limit` of them if there
    /// are more.
    fn names_below(&self, region: &Region, limit: usize) -> Result<Vec<(String, String, NameRow)>>;
    /// Bytes of the longest path of a live name in a region of directories, without the names that it is
    /// without; 0 if there is none.
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
    /// How far a file was found to be as a demand asks.
    fn judged(&self, ino: u64, demand: &Digest) -> Result<Option<JudgedRow>>;
    /// What is stored under this BLAKE3 (only content of at least [`DEDUP_FROM`] bytes is).
    fn stored(&self, hash: &[u8]) -> Result<Stored>;
    /// The bytes of a chunk, checked against their sum.
    fn chunk(&self, id: u64) -> Result<Bytes>;
    /// A staged body of this owner; `None` if it is unknown or collected.
    fn staged(&self, id: u128) -> Result<Option<StagedRow>>;
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
    /// Names below a directory after commit `seq`, ordered by directory, then name; any `limit` of them if
    /// there are more.
    fn names_below_at(&self, dir: &str, seq: u64, limit: usize) -> Result<Vec<(String, String, NameRow)>>;
    /// Names of a node after commit `seq` within some subtrees.
    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<(String, String)>>;
    /// A node after commit `seq`.
    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>>;
    /// Extents of a node after commit `seq` that overlap `from..to`, by offset. The last may
    /// reach beyond the size of that time.
    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>>;
    /// The quotas of the tree, as the commits before have left them.
    fn quotas(&self) -> Result<Arc<Quotas>>;
    /// What the database has in ranges of directories, each up to but without its end.
    fn tally(&self, ranges: &[(String, String)]) -> Result<Tally>;
    /// Nodes that have expired at `time` and have a live name within some subtrees, behind a moment and a
    /// node, in the order of their moments and then of their numbers, up to `limit`.
    fn due(&self, time: i64, within: &Within, after: (i64, u64), limit: usize) -> Result<Vec<(i64, u64)>>;
}
