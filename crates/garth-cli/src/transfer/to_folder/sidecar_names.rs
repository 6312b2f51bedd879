//! Names of sidecars in an export in the layout of a bucket: those that are handled with their files.

use std::collections::HashSet;

use garth_agent::workspace::layout::SIDECAR;
use garth_engine::{Error, ErrorKind, TreePath};

use super::super::host::parts;
use super::super::tree_walk::TreeItem;
use crate::fail::{Failure, Result};

/// Names in one directory that belong to sidecars. Files come before them.
#[derive(Default)]
pub(super) struct Sidecars {
    dir: String,
    /// Sidecars of files that have been brought.
    pub(super) names: HashSet<String>,
    /// Sidecars of files that could not be brought.
    pub(super) spared: HashSet<String>,
}

impl Sidecars {
    /// Forgets the names of another directory.
    fn at(&mut self, path: &str) {
        let dir = parts(path).0;
        if dir != self.dir {
            *self = Self { dir: dir.to_owned(), ..Self::default() };
        }
    }

    /// The sidecar of a file that could not be brought stays as it is.
    pub(super) fn spare(&mut self, path: &str) {
        self.at(path);
        self.spared.insert(format!("{path}{SIDECAR}"));
    }

    /// Returns true for a sidecar whose file has been brought.
    pub(super) fn has(&mut self, path: &str) -> bool {
        self.at(path);
        self.names.contains(path)
    }

    /// Refuses what lies where a sidecar goes.
    pub(super) fn claim(&mut self, path: &str) -> Result {
        if !self.has(path) {
            return Ok(());
        }
        let at = TreePath::parse(&format!("/{path}"))?;
        let message = "skipped, metadata of the file beside it has this name in the layout; rename it";
        Err(Error::at(ErrorKind::Unsupported, &at, message).into())
    }
}

/// Returns the failure of a file whose key another file has.
pub(super) fn hidden(item: &TreeItem) -> Failure {
    let message = format!("skipped, something else lies at its key, {}; remove one of them", item.path);
    Error::at(ErrorKind::Unsupported, &item.at, message).into()
}
