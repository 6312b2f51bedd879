//! Changes of a restore, before and after they are made: the plan that callers see, and its batch.

use crate::model::{At, Batch, Op, Precondition, Seq};
use crate::path::TreePath;

/// Changes that restore a path; none of them is made yet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestorePlan {
    /// Commit whose state is restored.
    pub at: Seq,
    /// Changes in their order, without those below a directory that is made or removed as a whole.
    pub changes: Vec<Restoration>,
    /// Names that come back, or whose nodes change.
    pub restored: u64,
    /// Names that go.
    pub removed: u64,
    /// Names that stay as they are.
    pub unchanged: u64,
    /// True if the path itself does not exist now.
    pub created: bool,
    pub(super) ops: Vec<Op>,
    pub(super) preconditions: Vec<(At, Precondition)>,
}

/// One change of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// Path in the restored tree; for `Removed`, the path now.
    pub path: TreePath,
    /// Kind of change.
    pub action: RestoreAction,
}

/// Change that a restore makes at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreAction {
    /// It is made again, as a node of its own.
    Created,
    /// Its node gets the content and attributes of then.
    Changed,
    /// Its node is moved back here.
    Moved {
        /// From there.
        from: TreePath,
    },
    /// It becomes a name again of a node that is there.
    Linked,
    /// It was not there then.
    Removed,
}

impl RestorePlan {
    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns the batch that makes the changes, with everything but operations and preconditions taken from
    /// `template`.
    pub(super) fn batch(&self, template: &Batch) -> Batch {
        let (ops, preconditions) = (self.ops.clone(), self.preconditions.clone());
        // garth's own attributes of then were set by garth; what rules keep for garth is not a client's to
        // restore
        Batch { ops, preconditions, own_attributes: true, ..template.clone() }
    }
}
