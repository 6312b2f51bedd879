//! What is asked of the version log, and what it tells: changes of a subtree or of all, page after page.

use serde::{Deserialize, Serialize};

use super::commit::CommitInfo;
use super::id::{Ino, Seq};
use super::query::check_limit;
use super::within::Within;
use crate::error::{Error, Result};
use crate::path::TreePath;

/// Most bytes of the paths, messages, names and authors of one [`Changes`]. 1 MiB.
pub const MAX_CHANGES_BYTES: usize = 1 << 20;
/// Most that one page of changes looks at: each change of the log, each commit without any, each name of a
/// node that changed, and each subtree below a directory that came or went counts as one.
pub const MAX_SCANNED: usize = 20_000;
/// Most paths of one [`Change`].
pub const MAX_CHANGE_PATHS: usize = 100;
/// Most subtrees of one [`ChangesQuery`].
pub const MAX_SUBTREES: usize = 1000;

/// Where to go on in the version log: behind a commit, or in the midst of the one after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogPosition {
    /// Every commit up to this one lies behind.
    pub seq: Seq,
    /// So many changes of the commit after it lie behind, too.
    pub changes: u64,
}

impl From<Seq> for LogPosition {
    fn from(seq: Seq) -> Self {
        Self { seq, changes: 0 }
    }
}

/// Which part of the log to show.
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
    /// What was seen already.
    pub since: LogPosition,
    /// Most changes, 1 to [`MAX_PAGE`](super::MAX_PAGE). A commit without changes counts as one.
    pub limit: usize,
    /// Only these paths and what is below them, at most [`MAX_SUBTREES`]; empty: everything.
    pub within: Vec<TreePath>,
    /// Only what was committed in this session: others are not looked at.
    pub session: Option<SessionOf>,
}

/// A session by whose it is, as [`Author`](super::Author) names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOf {
    /// The user or other audience.
    pub user: String,
    /// The agent.
    pub agent: String,
    /// The name of the session.
    pub session: String,
}

impl SessionOf {
    /// Whether somebody committed in it.
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
    /// The next 1,000 changes behind a commit or position, of the whole tree.
    pub fn since(position: impl Into<LogPosition>) -> Self {
        Self { since: position.into(), ..Self::default() }
    }

    /// At most this many changes, 1 to [`MAX_PAGE`](super::MAX_PAGE).
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Only what was committed in this session.
    #[must_use]
    pub fn session(self, session: SessionOf) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Only this path and what is below it; called again, also another.
    #[must_use]
    pub fn within(mut self, path: impl Into<TreePath>) -> Self {
        self.within.push(path.into());
        self
    }

    /// What the query asks for.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit or a number of subtrees out of range.
    pub(crate) fn check(&self) -> Result<Within> {
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

/// A page of the log behind a position.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// Commits in order. Of the whole tree every commit; of subtrees those that changed something there. The
    /// first and the last may show a part of their changes only: what `since` and `until` cut.
    pub commits: Vec<CommitChanges>,
    /// How far it was looked: where the next page begins. It moves on with every call as long as there is
    /// more, also if no commit is shown.
    pub until: LogPosition,
    /// The newest sequence there is. Once `until` has reached it, `wait` tells when there is more.
    pub head: Seq,
}

/// A commit and what it changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CommitChanges {
    /// The commit.
    pub commit: CommitInfo,
    /// Its changes, in the order of its operations. Directories whose times alone changed are left out.
    pub changes: Vec<Change>,
}

/// One change. A subtree that is removed, renamed or copied is one change, of its top.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The node; for snapshots the root.
    pub ino: Ino,
    /// Where: the name made, removed or moved to. For a change of the node itself its names after the
    /// commit that the query asks for, in the order of a walk, the first [`MAX_CHANGE_PATHS`]; none if it had
    /// none left.
    pub paths: Vec<TreePath>,
}

impl Change {
    /// A change of `ino` at these paths.
    pub fn new(kind: ChangeKind, ino: Ino, paths: impl IntoIterator<Item = TreePath>) -> Self {
        Self { kind, ino, paths: paths.into_iter().collect() }
    }

    /// Where, by the first of its paths.
    pub fn path(&self) -> Option<&TreePath> {
        self.paths.first()
    }

    /// What it counts towards [`MAX_CHANGES_BYTES`].
    pub(crate) fn bytes(&self) -> usize {
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

/// What happened to a node or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The node was made here (also by a copy), or came from outside of what the query asks for.
    Created,
    /// Its content changed.
    Modified,
    /// Its attributes changed.
    Attributes,
    /// The name was removed, with all below it, or replaced by a rename; or it moved out of what the query
    /// asks for.
    Removed,
    /// The entry had expired.
    Expired,
    /// The name is an additional one.
    Linked,
    /// The name moved here. An exchange is two of these.
    Renamed {
        /// From there.
        from: TreePath,
    },
    /// A snapshot was made.
    Snapshot {
        /// Its name.
        name: String,
    },
    /// A snapshot was dropped.
    SnapshotDropped {
        /// Its name.
        name: String,
    },
}
