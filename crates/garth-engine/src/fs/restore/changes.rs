//! Changes of a restore, before and after they are made: the plan that callers see, and its batch.

use crate::model::{At, Batch, Op, Precondition, Seq};
use crate::path::TreePath;

/// Limit on the paths of [`RestorePlan::gone_paths`].
pub const MAX_GONE_PATHS: usize = 20;

/// Changes that restore a path, before they are made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestorePlan {
    /// Commit whose state is restored.
    pub at: Seq,
    /// Changes in their order, without those below a directory that is created or removed as a whole.
    pub changes: Vec<Restoration>,
    /// Names that come back, or whose nodes change.
    pub restored: u64,
    /// Names that are removed.
    pub removed: u64,
    /// Names that stay as they are.
    pub unchanged: u64,
    /// Names below the path whose files had content that is no longer stored. Their files keep the content
    /// that they have now; those that do not exist now stay away, and whatever has their names stays.
    pub gone: u64,
    /// First [`MAX_GONE_PATHS`] of these names, as paths in the restored tree.
    pub gone_paths: Vec<TreePath>,
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
    /// Created again, as a new node.
    Created,
    /// Content and attributes set back in place.
    Changed,
    /// Node moved back here.
    Moved {
        /// Current path.
        from: TreePath,
    },
    /// Name of an existing node again.
    Linked,
    /// Removed, because it did not exist then.
    Removed,
}

impl RestorePlan {
    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns the batch that makes the changes, with everything but operations and preconditions taken from
    /// `template`. It fails with `Conflict` if the path is not as it was when the restore was planned.
    #[doc(hidden)]
    pub fn batch(&self, template: &Batch) -> Batch {
        let (ops, preconditions) = (self.ops.clone(), self.preconditions.clone());
        // Attributes named `garth.*` were set by garth, so they come back with it. What rules reserve for
        // garth stays refused: the batch is the client's.
        Batch { ops, preconditions, own_attributes: true, ..template.clone() }
    }
}
