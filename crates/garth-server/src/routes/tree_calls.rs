//! Calls on the files of a tree: one for each method of its interface, and the operations of the library on
//! files. `docs/specs/http-tree.md` describes them.

mod address;
pub(super) mod answer;
pub(super) mod commit;
pub(super) mod content;
pub(super) mod du;
pub(super) mod find;
mod follow;
pub(crate) mod grep;
pub(super) mod lists;
pub(super) mod log;
mod log_position;
pub(super) mod nodes;
pub(crate) mod operations;
mod paging;
pub(super) mod restores;
pub(super) mod stream;
pub(super) mod updates;

use garth_engine::TreePath;

use crate::routes::call::Call;

/// Limit on the paths that select a part of the tree.
const MAX_PATHS: usize = 1000;

/// Returns the path at which the tree of a call begins, if there is nothing above it.
pub(super) fn top<'c>(call: &'c Call<'_>) -> Option<&'c TreePath> {
    call.key.binding.prefix.as_ref()
}
