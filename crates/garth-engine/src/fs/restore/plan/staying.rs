//! Names of gone files that something else has now, which stays.

use std::collections::{HashMap, HashSet};

use crate::fs::restore::diff::Key;
use crate::model::Ino;
use crate::path::TreePath;

/// Current names in the places of past files whose content is gone. Whatever they name stays, with everything
/// below it.
#[derive(Debug, Default)]
pub(super) struct Staying {
    /// Names by their paths.
    pub(super) places: HashMap<TreePath, Key>,
    /// Directories that stay.
    pub(super) dirs: HashSet<Ino>,
    /// Number of the names that stay of each node that is no directory.
    pub(super) names: HashMap<Ino, u64>,
}

impl Staying {
    /// Returns the number of names of a node that stay.
    pub(super) fn names_of(&self, ino: Ino) -> u64 {
        self.names.get(&ino).copied().unwrap_or(0)
    }

    /// Returns true for a name in a directory that stays.
    pub(super) fn has_inside(&self, key: &Key) -> bool {
        self.dirs.contains(&key.0)
    }

    /// Notes that the node at a path waits under another name.
    pub(super) fn moved(&mut self, path: &TreePath, to: Key) {
        if let Some(key) = self.places.get_mut(path) {
            *key = to;
        }
    }
}
