//! The paths of an account, and a check that a tree has them. What agents keep lies at fixed paths of the
//! account, for which rules and projections are registered: through a tree that shows other paths it would be
//! written to a wrong place, and no rule would judge it.

use garth_engine::error::{Error, Result};
use garth_engine::fs::FileSystem;
use garth_engine::path::TreePath;

/// Fails unless `fs` shows `at` of the account at this path: the account's own tree, or a part of it under
/// its own paths. `instead` says what to open in place of the tree of a chat.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check(fs: &dyn FileSystem, at: &TreePath, instead: &str) -> Result<()> {
    let view = fs.view_base();
    // A folder of the host has no rules, and an account may lie below any directory of it.
    let has_rules = || view.lowering().home().fs.capabilities(&TreePath::root()).history;
    if view.keeps_path(at) || !has_rules() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "this tree shows other paths than those of the account, {at} among them; {instead}"
    )))
}
