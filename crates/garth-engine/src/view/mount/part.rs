//! One part of a mounted tree: its source and its path.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::path::TreePath;

/// Source of a part.
#[derive(Debug)]
pub(super) enum Source {
    /// Directory of the base.
    Base(TreePath),
    /// Another filesystem, from its root.
    Other(Other),
    /// Filesystem without a past, in a tree of the past.
    NoPast,
}

/// Filesystem other than the base.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) fs: Arc<dyn FileSystem>,
    /// True if it is of the base's store and shares its sequence numbers.
    pub(super) has_past: bool,
}

/// Part of a mounted tree.
#[derive(Debug)]
pub(super) struct Part {
    /// Path at which the part is shown.
    pub(super) at: TreePath,
    pub(super) source: Source,
    pub(super) read_only: bool,
    /// True for an alias of a directory that another part shows.
    pub(super) is_alias: bool,
    /// Index among the parts.
    pub(super) index: usize,
    /// True if its inodes are marked.
    pub(super) tagged: bool,
}

impl Part {
    pub(super) fn new(at: TreePath, source: Source) -> Self {
        Self { at, source, read_only: false, is_alias: false, index: 0, tagged: true }
    }

    /// Returns the path in the source that is shown at `at`.
    pub(super) fn root(&self) -> TreePath {
        match &self.source {
            Source::Base(root) => root.clone(),
            Source::Other(_) | Source::NoPast => TreePath::root(),
        }
    }

    /// Returns the source's path of a path of the tree.
    pub(super) fn down(&self, path: &TreePath) -> Result<TreePath> {
        Ok(path.rebase(&self.at, &self.root()).unwrap_or_else(|| Ok(self.root()))?)
    }

    /// Returns the tree's path of a path of the source; `None` outside the part.
    pub(super) fn up(&self, path: &TreePath) -> Option<TreePath> {
        path.rebase(&self.root(), &self.at)?.ok()
    }

    pub(super) fn is_base(&self) -> bool {
        matches!(self.source, Source::Base(_))
    }
}

/// Returns the error for a request about the past of another store.
pub(super) fn no_past(part: &Part) -> Error {
    Error::at(ErrorKind::Unsupported, &part.at, "the filesystem mounted here has no history")
}
