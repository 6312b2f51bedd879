//! Keys with the names of their nodes, and places between them.

use garth_engine::model::find::FindPlace;

/// Names of a node that are read with its keys.
pub(super) const NAMES: usize = 64;

/// Directory and name.
pub(super) type Name = (String, String);

/// A key, with the line that has it and the names of its node.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) place: FindPlace,
    pub(super) off: u64,
    pub(super) len: u64,
    /// True if the node has a name and has not expired.
    pub(super) is_live: bool,
    /// First names of the node in their order. One more than [`NAMES`] if it has others.
    pub(super) names: Vec<Name>,
}

impl Key {
    pub(super) fn ino(&self) -> u64 {
        self.place.ino
    }

    /// Returns true if the node has names that were not read.
    pub(super) fn has_more_names(&self) -> bool {
        self.is_live && self.names.len() > NAMES
    }

    /// Replaces the names by all that matter.
    pub(super) fn set_names(&mut self, names: Vec<Name>) {
        self.names = names;
    }
}

/// Place after which keys are read.
pub(super) struct Span {
    pub(super) key: String,
    pub(super) ino: i64,
    pub(super) line: i64,
}
