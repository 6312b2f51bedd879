//! Commits after they were acknowledged, and their records in the version log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::author::Author;
use super::confinement::Owner;
use super::id::{CommitId, Ino, Seq, Timestamp, VersionId};

/// Record of a commit in the log, without its changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CommitInfo {
    /// Sequence number.
    pub seq: Seq,
    /// Time: `max(clock, previous + 1 ns)`.
    pub time: Timestamp,
    /// Id that the caller chose, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<CommitId>,
    /// Author.
    pub author: Author,
    /// Reason, in the caller's words.
    pub message: String,
    /// True if an administrator let it override rules.
    pub overrides_rules: bool,
    /// True if the commit is no longer in the log, which knows only its author: the time is that of the first
    /// readable state. Missing otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub folded: bool,
}

impl CommitInfo {
    /// Returns the bytes that count towards [`MAX_CHANGES_BYTES`](super::MAX_CHANGES_BYTES).
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        let author = self.author.fields().into_iter().flat_map(|(_, field)| field);
        self.message.len() + author.map(String::len).sum::<usize>()
    }

    /// Returns what is known of a commit that is no longer in the log. `time` is that of the first readable
    /// state.
    #[doc(hidden)]
    pub fn of_folded(seq: Seq, time: Timestamp, author: Author) -> Self {
        Self { seq, time, id: None, author, message: String::new(), overrides_rules: false, folded: true }
    }

    /// Removes everything except sequence number and time, for readers who see the result of the commit but
    /// not the commit.
    #[doc(hidden)]
    pub fn unsigned(self) -> Self {
        let (author, message) = (Author::default(), String::new());
        Self { id: None, author, message, overrides_rules: false, ..self }
    }
}

/// Named sequence number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Snapshot {
    /// Name of the snapshot.
    pub name: String,
    /// Commit that created it, whose state it names.
    pub seq: Seq,
    /// Time of that commit.
    pub time: Timestamp,
    /// Owner, if it is another one than that of the filesystem that was asked. Only a filesystem that is not
    /// confined shows the snapshots of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

impl Snapshot {
    /// Returns a snapshot.
    #[doc(hidden)]
    pub fn new(name: String, seq: Seq, time: Timestamp, owner: Option<Owner>) -> Self {
        Self { name, seq, time, owner }
    }

    /// Returns the key after which the next page of snapshots starts.
    pub fn key(&self) -> SnapshotKey {
        SnapshotKey { owner: self.owner.clone(), name: self.name.clone() }
    }
}

/// Identity of a snapshot in a tree, and its order: first those of the filesystem that is asked, then those
/// of views, by owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotKey {
    /// See [`Snapshot::owner`].
    pub owner: Option<Owner>,
    /// See [`Snapshot::name`].
    pub name: String,
}

/// Commit that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Commit {
    /// Sequence number.
    pub seq: Seq,
    /// Time of the commit.
    pub time: Timestamp,
    /// One outcome for each operation, in order. Empty for a commit from before format 3, of which only the
    /// log knows the id.
    pub outcomes: Vec<Outcome>,
    /// True if this is the answer of an earlier commit: to a retry under the same id or idempotency key, or
    /// by `committed`.
    pub replayed: bool,
    /// True if the commit is known to survive loss of power: it was asked for as `Durable`, or became durable
    /// together with others. Always false for an implementation that cannot promise this.
    pub durable: bool,
    /// [`Idempotency::note`](super::Idempotency::note) of the first attempt, in the answer to a retry by its
    /// key; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Record of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRecord {
    /// Hash of the request that used the key.
    pub request_hash: [u8; 32],
    /// Commit of that request, as a retry is answered.
    pub commit: Commit,
}

impl KeyRecord {
    /// Returns the record of a request.
    #[doc(hidden)]
    pub fn new(request_hash: [u8; 32], commit: Commit) -> Self {
        Self { request_hash, commit }
    }
}

/// Outcome of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CommitOutcome")]
#[non_exhaustive]
pub struct Outcome {
    /// Node that was created, written, removed, moved, linked or checked; the root for snapshots; `Ino::NONE`
    /// if there was none.
    pub ino: Ino,
    /// Version of the node after the operation: of this commit if the batch has changed the node so far,
    /// otherwise the one that it had. A removal of the last name ends the node in this commit. If there was
    /// no node, the sequence number of this commit and `Ino::NONE`.
    pub version: VersionId,
    /// True if the operation created the node.
    pub created: bool,
    /// True if the operation changed anything. An empty append, `mkdir -p` of an existing directory, a copy
    /// or rename onto the same node, a check and the removal of a missing path do not.
    pub changed: bool,
    /// Size of the node after the operation in bytes, as [`Entry::size`](super::Entry::size); 0 if there was
    /// no node. After an append, the end of the bytes that it wrote.
    pub size: u64,
}

impl Outcome {
    /// Returns the outcome of an operation that created the node, which now has this size.
    pub const fn created(version: VersionId, size: u64) -> Self {
        Self { ino: version.ino, version, created: true, changed: true, size }
    }

    /// Returns the outcome of an operation that changed an existing node, which now has this size.
    pub const fn changed(version: VersionId, size: u64) -> Self {
        Self { ino: version.ino, version, created: false, changed: true, size }
    }

    /// Returns the outcome of an operation that changed nothing.
    pub const fn unchanged(version: VersionId, size: u64) -> Self {
        Self { ino: version.ino, version, created: false, changed: false, size }
    }
}

impl Commit {
    /// Returns a commit that was found in the log.
    #[doc(hidden)]
    pub fn of_log(seq: Seq, time: Timestamp, outcomes: Vec<Outcome>) -> Self {
        Self { seq, time, outcomes, replayed: false, durable: false, note: String::new() }
    }

    /// Returns the version of the node of operation `op` after it ([`Outcome::version`]).
    pub fn version(&self, op: usize) -> VersionId {
        let none = VersionId { seq: self.seq, ino: Ino::NONE };
        self.outcomes.get(op).map_or(none, |outcome| outcome.version)
    }
}
