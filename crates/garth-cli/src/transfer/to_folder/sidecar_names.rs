//! Names of sidecars in an export in the layout of a bucket, which are handled with their files.

use std::collections::HashSet;

use garth_agent::workspace::layout::SIDECAR;
use garth_engine::{Error, ErrorKind, TreePath};

use super::super::host::parts;
use super::super::tree_walk::TreeItem;
use crate::fail::{Failure, Result};

/// Names in one directory that belong to sidecars. Files precede their sidecars in the walk.
#[derive(Default)]
pub(super) struct Sidecars {
    dir: String,
    /// Sidecars of files that were exported.
    pub(super) names: HashSet<String>,
    /// Sidecars of files that could not be exported.
    pub(super) spared: HashSet<String>,
}

impl Sidecars {
    /// Forgets the names if `path` is in another directory.
    fn at(&mut self, path: &str) {
        let dir = parts(path).0;
        if dir != self.dir {
            *self = Self { dir: dir.to_owned(), ..Self::default() };
        }
    }

    /// Keeps the sidecar of a file that could not be exported.
    pub(super) fn spare(&mut self, path: &str) {
        self.at(path);
        self.spared.insert(format!("{path}{SIDECAR}"));
    }

    /// Returns true for a sidecar whose file was exported.
    pub(super) fn has(&mut self, path: &str) -> bool {
        self.at(path);
        self.names.contains(path)
    }

    /// Fails for an entry of the tree with the name of a sidecar.
    pub(super) fn claim(&mut self, path: &str) -> Result {
        if !self.has(path) {
            return Ok(());
        }
        let at = TreePath::parse(&format!("/{path}"))?;
        let message = "skipped, the metadata of another file has this name in the layout; rename it";
        Err(Error::at(ErrorKind::Unsupported, &at, message).into())
    }
}

/// Returns the failure of a file whose key belongs to another file.
pub(super) fn hidden(item: &TreeItem) -> Failure {
    let message = format!("skipped, another entry has its key, {}; remove one of them", item.path);
    Error::at(ErrorKind::Unsupported, &item.at, message).into()
}
