//! Gates of a handle: directories of which it sees only some entries. Why:
//! `docs/decisions/gates-of-sessions.md`.
//!
//! Entries are judged by the keys of a file in them. Reading that file is the part of each engine, and
//! [`Judgements`](super::gate_judgements::Judgements) caches the results.

use std::sync::Arc;

use crate::engine::relational::gate_judgements::{GateId, id_of};
use crate::model::Gate;
use crate::path::TreePath;

/// Name that no entry has.
const NO_NAME: &str = "\0";

/// Gate with the identity of its judgements.
#[derive(Clone, Debug)]
pub struct KnownGate {
    /// Gate.
    pub gate: Gate,
    /// Identity of the gate in [`Judgements`](super::gate_judgements::Judgements).
    pub id: GateId,
}

/// Gates of a handle.
#[derive(Debug, Default)]
pub struct Gates {
    gates: Vec<KnownGate>,
}

/// Entry that a gate hides.
#[derive(Debug)]
pub struct HiddenEntry {
    /// Index of the gate.
    pub gate: usize,
    /// Path of the entry.
    pub path: TreePath,
}

impl HiddenEntry {
    /// Returns the end of the names in and below the entry, for a directory in it: all names after that one
    /// are elsewhere. `None` for the gated directory, in which the entry is one name.
    pub fn end_in(&self, dir: &str) -> Option<String> {
        let entry = self.path.key();
        match dir.strip_prefix(entry)? {
            // Keys such as `entry-b` come between the entry and what is in the directories below it.
            "" => Some(format!("{entry}\0")),
            below => below.starts_with('/').then(|| format!("{entry}0")),
        }
    }
}

impl Gates {
    /// Returns these gates and more: an entry must pass all of them.
    pub fn with(self: &Arc<Self>, more: &[Gate]) -> Arc<Self> {
        if more.iter().all(|gate| self.has(gate)) {
            return Arc::clone(self);
        }
        let more = more.iter().filter(|gate| !self.has(gate));
        let more = more.map(|gate| KnownGate { id: id_of(gate), gate: gate.clone() });
        Arc::new(Self { gates: self.gates.iter().cloned().chain(more).collect() })
    }

    /// Returns the gates of both.
    pub fn joined(self: &Arc<Self>, other: &Arc<Self>) -> Arc<Self> {
        self.with(&other.all())
    }

    /// Returns copies of all gates.
    pub fn all(&self) -> Vec<Gate> {
        self.gates.iter().map(|known| known.gate.clone()).collect()
    }

    fn has(&self, gate: &Gate) -> bool {
        self.gates.iter().any(|known| known.gate == *gate)
    }

    /// Returns true if there are no gates.
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Returns the gated directories.
    pub fn directories(&self) -> impl Iterator<Item = &TreePath> {
        self.gates.iter().map(|known| &known.gate.dir)
    }

    /// Returns a path in each gated directory that names nothing. Without it, a reach is known to lack some
    /// of the directory.
    pub fn holes(&self) -> impl Iterator<Item = TreePath> {
        self.directories().map(|dir| TreePath::from_row(dir.key(), NO_NAME))
    }

    /// Returns true for a gated directory and every path below one.
    pub fn cover(&self, path: &TreePath) -> bool {
        self.directories().any(|dir| path.is_within(dir))
    }

    /// Returns the entries of gated directories that a path is, or is below.
    pub fn entries(&self, path: &TreePath) -> Vec<TreePath> {
        let entry = |KnownGate { gate, .. }: &KnownGate| {
            Some(TreePath::from_row(gate.dir.key(), gate.entry_of(path)?))
        };
        self.gates.iter().filter_map(entry).collect()
    }

    /// Returns all gates, with the identities of their judgements.
    pub fn known(&self) -> &[KnownGate] {
        &self.gates
    }

    /// Returns a gate by its index.
    pub fn gate(&self, index: usize) -> Option<&Gate> {
        self.gates.get(index).map(|known| &known.gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Projection, Seq};
    use crate::path::Name;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    fn gate(projection: Projection) -> Gate {
        let (dir, file) = (path("/nodes"), Name::parse(".status").unwrap());
        Gate { dir, file, projection, keys: vec!["open".to_owned()], since: Seq(0) }
    }

    #[test]
    fn end_in_hidden_entry_is_behind_all_of_it() {
        let hidden = HiddenEntry { gate: 0, path: path("/s/a") };
        for (dir, due) in
            [("/s", None), ("/s/a", Some("/s/a\0")), ("/s/a/b", Some("/s/a0")), ("/s/a/b/c", Some("/s/a0"))]
        {
            assert_eq!(hidden.end_in(dir).as_deref(), due, "{dir}");
        }
    }

    #[test]
    fn joined_gates_contain_each_gate_once() {
        let none = Arc::new(Gates::default());
        let one = none.with(&[gate(Projection::METADATA)]);
        assert!(Arc::ptr_eq(&one, &one.with(&one.all())) && Arc::ptr_eq(&one, &one.joined(&none)));
        assert_eq!(none.joined(&one).all(), one.all());
        let other = none.with(&[gate(Projection::TAG)]);
        assert_eq!(one.joined(&other).all(), [one.all(), other.all()].concat());
    }
}
