//! Places of the overlays that an account stores, and what they lie over. Engines keep the states of the past
//! that overlays need.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::model::Seq;
use crate::path::{Name, SYSTEM, TreePath};

/// Name of the file that describes the lower layer of a stored overlay.
pub const ABOUT: &str = "overlay.json";

/// Lower layer of a stored overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerLayer {
    /// Directory of the account.
    pub root: TreePath,
    /// Commit whose state is shown, so that later changes by others do not show: a fork. `None` for the
    /// current state.
    pub as_of: Option<Seq>,
}

/// Returns the directory of the overlays of an account.
pub fn overlays() -> Result<TreePath> {
    Ok(TreePath::parse(SYSTEM)?.join(&Name::parse("overlays")?)?)
}

/// Returns the path of the description in the directory of an overlay.
///
/// # Errors
/// `NameTooLong` for a directory that no path fits into.
pub fn about(overlay: &TreePath) -> Result<TreePath> {
    Ok(overlay.join(&Name::parse(ABOUT)?)?)
}
