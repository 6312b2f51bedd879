//! A commit that was acknowledged, and what the version log keeps of it.

use serde::{Deserialize, Serialize};

use super::author::Author;
use super::confinement::Owner;
use super::id::{CommitId, Ino, Seq, Timestamp, VersionId};

/// What the log keeps of a commit besides its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Whether an administrator had it override rules.
    pub overrides_rules: bool,
}

impl CommitInfo {
    /// What it counts towards [`MAX_CHANGES_BYTES`](super::MAX_CHANGES_BYTES).
    pub(crate) fn bytes(&self) -> usize {
        let author = self.author.fields().into_iter().flat_map(|(_, field)| field);
        self.message.len() + author.map(String::len).sum::<usize>()
    }

    /// Only number and time: for who sees what came of the commit, but not the commit.
    pub(crate) fn unsigned(self) -> Self {
        let (author, message) = (Author::default(), String::new());
        Self { id: None, author, message, overrides_rules: false, ..self }
    }
}

/// A named sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The commit that made it; the state it names.
    pub seq: Seq,
    /// When.
    pub time: Timestamp,
    /// Whose it is, if not of the filesystem that was asked. Only one that is not confined shows those of
    /// others.
    pub owner: Option<Owner>,
}

impl Snapshot {
    /// Where the next page of snapshots goes on.
    pub fn key(&self) -> SnapshotKey {
        SnapshotKey { owner: self.owner.clone(), name: self.name.clone() }
    }
}

/// What tells the snapshots of a tree apart, and their order: first those of the filesystem that is asked,
/// then those of views, by owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotKey {
    /// See [`Snapshot::owner`].
    pub owner: Option<Owner>,
    /// See [`Snapshot::name`].
    pub name: String,
}

/// A commit that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Commit {
    /// Its number.
    pub seq: Seq,
    /// Its time.
    pub time: Timestamp,
    /// One for each operation, in order. None of a commit of before format 3, where only the log knows its
    /// id.
    pub outcomes: Vec<Outcome>,
    /// Whether this is the answer of an earlier commit, given again: to a retry under the same id or
    /// idempotency key, or by `committed`.
    pub replayed: bool,
    /// Whether it is known to survive loss of power: asked for as `Durable`, or made durable together with
    /// others. Of an implementation that cannot keep this promise never.
    pub durable: bool,
    /// [`Idempotency::note`](super::Idempotency::note) of the first try, in the answer to a retry by its key;
    /// else empty.
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

/// What one operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The node: made, written, removed, moved, linked, checked; the root for snapshots;
    /// `Ino::NONE` if nothing was there.
    pub ino: Ino,
    /// The node's version after the operation: of this commit if the batch has changed the node so far, else
    /// the one that it had. A removal of the last name ends the node in this commit. If nothing was there,
    /// this commit's sequence and `Ino::NONE`.
    pub version: VersionId,
    /// Whether the operation made the node.
    pub created: bool,
    /// Whether the operation changed anything. An empty append, `mkdir -p` of what is there, a copy or rename
    /// onto the same node, a check and the removal of nothing do not.
    pub changed: bool,
    /// Bytes of the node after the operation, as [`Entry::size`](super::Entry::size) gives them; 0 if nothing
    /// was there. After an append, the end of what it wrote.
    pub size: u64,
}

impl Outcome {
    /// The operation made the node, now of this size.
    pub const fn created(version: VersionId, size: u64) -> Self {
        Self { ino: version.ino, version, created: true, changed: true, size }
    }

    /// The operation changed a node that was there, now of this size.
    pub const fn changed(version: VersionId, size: u64) -> Self {
        Self { ino: version.ino, version, created: false, changed: true, size }
    }

    /// The operation changed nothing.
    pub const fn unchanged(version: VersionId, size: u64) -> Self {
        Self { ino: version.ino, version, created: false, changed: false, size }
    }
}

impl Commit {
    /// The version of the node of operation `op` after it ([`Outcome::version`]).
    pub fn version(&self, op: usize) -> VersionId {
        let none = VersionId { seq: self.seq, ino: Ino::NONE };
        self.outcomes.get(op).map_or(none, |outcome| outcome.version)
    }
}
