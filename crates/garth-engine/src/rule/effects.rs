//! Effects of a commit, as rules judge them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Ino, Kind};
use crate::path::TreePath;

/// Changes of a commit that may violate rules.
#[derive(Clone, Debug, Default)]
pub struct CommitEffects {
    /// Files whose content changed, each with the first byte that may differ. They are judged under all of
    /// their names.
    pub written: BTreeMap<Ino, u64>,
    /// Files whose complete content the commit brings.
    pub own: BTreeSet<Ino>,
    /// Files whose content the commit changes otherwise than by appends. They may be among `own`.
    pub rewritten: BTreeSet<Ino>,
    /// Nodes whose attributes changed.
    pub attributes: BTreeSet<Ino>,
    /// Names that were given, including those of directories.
    pub named: Vec<(TreePath, Ino, Kind)>,
    /// Names that were taken from existing nodes. They may have been given again.
    pub lost: Vec<TreePath>,
    /// Existing directories that got another path: the path before, and the path now.
    pub moved: Vec<(TreePath, TreePath)>,
    /// Directories, by their paths before, in and below which names have left their places. They may have
    /// come back.
    pub left: Vec<TreePath>,
}
