//! Layout of an upper layer.

use crate::error::Result;
use crate::fs::forks::TREE;
use crate::path::{Name, TreePath};

/// Directories of an upper layer. None of them exists before something is in it.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Places {
    /// Everything that was written.
    pub tree: TreePath,
    /// The paths at and below which the lower layer no longer shows.
    pub hidden: TreePath,
    /// For each node that was copied up, a file named by its inode in the lower layer, which holds the path
    /// of the copy.
    pub nodes: TreePath,
    /// True if only the overlay writes to `tree`. A copy then hides its original, and the version of that is
    /// noted with it. Otherwise the original shows again when somebody else removes the copy.
    pub alone: bool,
}

impl Places {
    /// Returns the places in a directory that has nothing else in it.
    pub fn below(dir: &TreePath) -> Result<Self> {
        let place = |name: &str| -> Result<TreePath> { Ok(dir.join(&Name::parse(name)?)?) };
        let [tree, hidden, nodes] = [place(TREE)?, place("hidden")?, place("nodes")?];
        Ok(Self { tree, hidden, nodes, alone: true })
    }
}
