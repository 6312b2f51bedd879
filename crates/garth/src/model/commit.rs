//! A commit that was acknowledged, and what the version log keeps of it.

use serde::{Deserialize, Serialize};

use super::id::{CommitId, Ino, Seq, Timestamp, VersionId};

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

/// A commit that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its number.
    pub seq: Seq,
    /// Its time.
    pub time: Timestamp,
    /// One for each operation, in order.
    pub outcomes: Vec<Outcome>,
    /// Whether this is the answer of an earlier commit with the same idempotency key.
    pub replayed: bool,
}

/// What one operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The node: made, written, removed, moved, linked, checked; the root for snapshots; `Ino::NONE` if nothing was there.
    pub ino: Ino,
    /// Whether the operation made the node.
    pub created: bool,
}

impl Commit {
    /// The version that operation `op` stands for.
    pub fn version(&self, op: usize) -> VersionId {
        VersionId { seq: self.seq, ino: self.outcomes.get(op).map_or(Ino::NONE, |outcome| outcome.ino) }
    }
}
