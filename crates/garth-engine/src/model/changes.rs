//! Queries of the version log, and its answers: changes of a subtree or of all, page by page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::commit::CommitInfo;
use super::id::{Ino, Seq};
use super::query::check_limit;
use super::within::Within;
use crate::error::{Error, Result};
use crate::path::TreePath;

/// Limit on the bytes of the paths, messages, names and authors of one [`Changes`]. 1 MiB.
pub const MAX_CHANGES_BYTES: usize = 1 << 20;
/// Limit on the items that one page of changes looks at: each change of the log, each commit without any,
/// each name of a node that changed, and each subtree below a directory that appeared or disappeared counts
/// as one.
pub const MAX_SCANNED: usize = 20_000;
/// Limit on the paths of one [`Change`].
pub const MAX_CHANGE_PATHS: usize = 100;
/// Limit on the subtrees of one [`ChangesQuery`].
pub const MAX_SUBTREES: usize = 1000;

/// Position in the version log: after a commit, or within the one that follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogPosition {
    /// Last commit before the position.
    pub seq: Seq,
    /// Number of changes of the next commit that are also before it.
    pub changes: u64,
}

impl From<Seq> for LogPosition {
    fn from(seq: Seq) -> Self {
        Self { seq, changes: 0 }
    }
}

/// Part of the log to be shown.
///
/// ```
/// # use garth_engine as garth;
/// use garth::TreePath;
/// use garth::model::{ChangesQuery, Seq};
///
/// let query = ChangesQuery::since(Seq(41)).within(TreePath::parse("/notes")?).limit(100);
/// # let _ = query;
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangesQuery {
    /// Position after which to start.
    #[doc(hidden)]
    pub since: LogPosition,
    /// Limit on the changes, 1 to [`MAX_PAGE`](super::MAX_PAGE). A commit without changes counts as one.
    #[doc(hidden)]
    pub limit: usize,
    /// Only these paths and everything below them, at most [`MAX_SUBTREES`]; empty for everything.
    #[doc(hidden)]
    pub within: Vec<TreePath>,
    /// Only commits of this session; others are not looked at.
    #[doc(hidden)]
    pub session: Option<SessionOf>,
}

/// Session, identified as [`Author`](super::Author) does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOf {
    /// User or other audience.
    pub user: String,
    /// Name of the agent.
    pub agent: String,
    /// Name of the session.
    pub session: String,
}

impl SessionOf {
    /// Returns true if the author's commit was made in this session.
    pub fn is_of(&self, author: &super::Author) -> bool {
        author.keeper() == Some(self.user.as_str())
            && author.agent.as_ref() == Some(&self.agent)
            && author.session.as_ref() == Some(&self.session)
    }
}

impl Default for ChangesQuery {
    fn default() -> Self {
        Self { since: LogPosition::default(), limit: 1000, within: Vec::new(), session: None }
    }
}

impl ChangesQuery {
    /// Returns a query for the next 1,000 changes of the tree after a commit or position.
    pub fn since(position: impl Into<LogPosition>) -> Self {
        Self { since: position.into(), ..Self::default() }
    }

    /// Sets the limit on the changes, 1 to [`MAX_PAGE`](super::MAX_PAGE).
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Selects commits of this session.
    #[must_use]
    pub fn session(self, session: SessionOf) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Selects this path and everything below it, in addition to paths that were selected before.
    #[must_use]
    pub fn within(mut self, path: impl Into<TreePath>) -> Self {
        self.within.push(path.into());
        self
    }

    /// Checks the query, and returns the paths that it asks for.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit or a number of subtrees out of range.
    #[doc(hidden)]
    pub fn check(&self) -> Result<Within> {
        check_limit(self.limit)?;
        if self.within.len() > MAX_SUBTREES {
            return Err(Error::invalid(format!("a query names at most {MAX_SUBTREES} subtrees")));
        }
        Ok(match self.within.is_empty() {
            true => Within::everything(),
            false => Within::new(self.within.iter().cloned()),
        })
    }
}

/// Page of the log after a position.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// Commits in order. For the complete tree every commit; for subtrees those that changed something there.
    /// The first and the last one may show a part of their changes only: `since` and `until` cut them.
    pub commits: Vec<CommitChanges>,
    /// Position at which the next page starts. It advances with every call as long as there is more, even if
    /// no commit is shown.
    pub until: LogPosition,
    /// Newest sequence number. When `until` has reached it, `wait` waits for more.
    pub head: Seq,
}

/// Commit and its changes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CommitChanges {
    /// The commit.
    pub commit: CommitInfo,
    /// Its changes, in the order of its operations. Directories of which only the times changed are left out.
    pub changes: Vec<Change>,
}

/// One change. A subtree that is removed, renamed or copied is one change, of its top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NodeChange")]
#[non_exhaustive]
pub struct Change {
    /// Kind of the change.
    #[serde(flatten)]
    pub kind: ChangeKind,
    /// Node that changed; for snapshots the root.
    pub ino: Ino,
    /// Name that was created, removed or moved to. For a change of the node itself, its names after the
    /// commit that the query asks for, in the order of a walk, at most [`MAX_CHANGE_PATHS`]; none if it had
    /// none left.
    pub paths: Vec<TreePath>,
}

impl Change {
    /// Returns a change of `ino` at these paths.
    pub fn new(kind: ChangeKind, ino: Ino, paths: impl IntoIterator<Item = TreePath>) -> Self {
        Self { kind, ino, paths: paths.into_iter().collect() }
    }

    /// Returns the first of its paths.
    pub fn path(&self) -> Option<&TreePath> {
        self.paths.first()
    }

    /// Returns the bytes that count towards [`MAX_CHANGES_BYTES`].
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        let text = match &self.kind {
            ChangeKind::Renamed { from } => from.key().len(),
            ChangeKind::Snapshot { name } | ChangeKind::SnapshotDropped { name } => name.len(),
            ChangeKind::Created
            | ChangeKind::Modified
            | ChangeKind::Attributes
            | ChangeKind::Removed
            | ChangeKind::Expired
            | ChangeKind::Linked => 0,
        };
        text + self.paths.iter().map(|path| path.key().len()).sum::<usize>()
    }
}

/// Kind of a change of a node or name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChangeKind {
    /// The node was created here (also by a copy), or came from outside of the paths asked for.
    Created,
    /// Its content changed.
    Modified,
    /// Its attributes changed.
    Attributes,
    /// The name was removed, with everything below it, or replaced by a rename; or it moved out of the paths
    /// asked for.
    Removed,
    /// The entry had expired.
    Expired,
    /// The name is an additional one.
    Linked,
    /// The name was moved here. An exchange is two of these.
    Renamed {
        /// Path before.
        from: TreePath,
    },
    /// A snapshot was created.
    Snapshot {
        /// Name of the snapshot.
        name: String,
    },
    /// A snapshot was dropped.
    SnapshotDropped {
        /// Name of the snapshot.
        name: String,
    },
}
