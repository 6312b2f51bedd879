//! A part of a mounted tree: what is shown where.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::path::TreePath;

/// What is shown at a path.
#[derive(Debug)]
pub(super) enum Source {
    /// A directory of the base.
    Base(TreePath),
    /// Another filesystem, from its root on.
    Other(Other),
    /// In a tree of the past: a filesystem that has none.
    NoPast,
}

/// Another filesystem than the base.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) fs: Arc<dyn FileSystem>,
    /// Whether it is of the base's store: then its sequences are the base's.
    pub(super) has_past: bool,
}

/// A part of a mounted tree.
#[derive(Debug)]
pub(super) struct Part {
    /// Where it is shown.
    pub(super) at: TreePath,
    pub(super) source: Source,
    pub(super) read_only: bool,
    /// Its place among the parts.
    pub(super) index: usize,
    /// Whether its nodes have numbers of their own.
    pub(super) tagged: bool,
}

impl Part {
    pub(super) fn new(at: TreePath, source: Source) -> Self {
        Self { at, source, read_only: false, index: 0, tagged: true }
    }

    /// The path in its source of what is shown first.
    pub(super) fn root(&self) -> TreePath {
        match &self.source {
            Source::Base(root) => root.clone(),
            Source::Other(_) | Source::NoPast => TreePath::root(),
        }
    }

    /// The source's path of a path of the tree.
    pub(super) fn down(&self, path: &TreePath) -> Result<TreePath> {
        Ok(path.rebase(&self.at, &self.root()).unwrap_or_else(|| Ok(self.root()))?)
    }

    /// The tree's path of a path of the source, if it is shown by this part.
    pub(super) fn up(&self, path: &TreePath) -> Option<TreePath> {
        path.rebase(&self.root(), &self.at)?.ok()
    }

    pub(super) fn is_base(&self) -> bool {
        matches!(self.source, Source::Base(_))
    }
}

/// The error of asking for what another store was.
pub(super) fn no_past(part: &Part) -> Error {
    Error::at(ErrorKind::Unsupported, &part.at, "what is mounted here has no past")
}
