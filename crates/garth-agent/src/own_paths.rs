//! Check that a tree has the paths of its account. Agents store their data at fixed paths, for which rules
//! and projections are registered. Through a tree with other paths it would be written to the wrong place,
//! where no rule applies.

use garth_engine::error::{Error, Result};
use garth_engine::fs::FileSystem;
use garth_engine::path::TreePath;

/// Fails unless `fs` shows `at` of the account at this path: the account's own tree, or a part of it under
/// the same paths. `instead` names the tree to open in place of that of a chat.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check(fs: &dyn FileSystem, at: &TreePath, instead: &str) -> Result<()> {
    let view = fs.view_base();
    // A host folder has no rules, and an account may be below any directory of it.
    let has_rules = || view.lowering().home().fs.capabilities(&TreePath::root()).history;
    if view.keeps_path(at) || !has_rules() {
        return Ok(());
    }
    Err(Error::invalid(format!("this tree does not have the paths of the account, such as {at}; {instead}")))
}
