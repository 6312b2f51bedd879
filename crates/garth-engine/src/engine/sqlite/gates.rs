//! Gates of a confined handle: which entries of a directory it sees, judged by the keys of a file in them, in
//! any state of the tree. Why: `docs/decisions/gates-of-sessions.md`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::engine::planner::{NameRow, NodeRow};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::tables::{MAX, live_names, nodes, past_names};
use crate::error::ErrorKind;
use crate::model::find::kept;
use crate::model::{Gate, Kind};
use crate::path::TreePath;
use crate::rule::Registry;
use crate::rule::projection::{ContentProjection, Keys, MAX_FILE, kept_keys};
use crate::sqlite::DbResult;
use crate::threads::lock::lock;

/// Limit on the judgements that a handle keeps. Beyond, it starts again.
const KNOWN: usize = 10_000;

/// Content by which entries are judged: gate, inode of the file, and commit of its content.
type Content = (usize, u64, u64);

/// Judgement of an entry in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Open,
    Hidden,
    /// The entry does not exist.
    Absent,
}

/// Gates of a handle, with what it has found out about the files that they ask for.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    gates: Vec<Gate>,
    /// The content of a commit never changes, so a judgement of it holds for good.
    known: Mutex<HashMap<Content, Judgement>>,
}

/// Access to the files that gates ask for, in one transaction.
#[derive(Clone, Copy)]
pub(crate) struct GateFiles<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) packs: &'a Packs,
    pub(crate) registry: &'a Registry,
}

impl Gates {
    /// Returns these gates and more: an entry must pass all of them.
    pub(crate) fn with(self: &Arc<Self>, more: &[Gate]) -> Arc<Self> {
        if more.iter().all(|gate| self.gates.contains(gate)) {
            // Handles of one identity share what they know.
            return Arc::clone(self);
        }
        let mut gates = self.gates.clone();
        gates.extend(more.iter().filter(|gate| !self.gates.contains(gate)).cloned());
        Arc::new(Self { gates, known: Mutex::default() })
    }

    /// Returns the gates of both.
    pub(crate) fn joined(self: &Arc<Self>, other: &Arc<Self>) -> Arc<Self> {
        // The larger set keeps its judgements.
        match self.gates.len() < other.gates.len() {
            true => other.with(&self.gates),
            false => self.with(&other.gates),
        }
    }

    /// Returns the same gates without their judgements, for a write transaction: if it is rolled back, its
    /// inodes and commits are used again for other content.
    pub(crate) fn for_a_write(&self) -> Self {
        Self { gates: self.gates.clone(), known: Mutex::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Returns the gated directories.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &TreePath> {
        self.gates.iter().map(|gate| &gate.dir)
    }

    /// Returns true for a gated directory and every path below one.
    pub(crate) fn cover(&self, path: &TreePath) -> bool {
        self.directories().any(|dir| path.is_within(dir))
    }

    /// Returns the entries of gated directories that a path is, or is below.
    pub(crate) fn entries(&self, path: &TreePath) -> Vec<TreePath> {
        let entry = |gate: &Gate| Some(TreePath::from_row(gate.dir.key(), gate.entry_of(path)?));
        self.gates.iter().filter_map(entry).collect()
    }

    /// Returns the end of the names in and below the entry that a directory is, or is below: all names after
    /// it are elsewhere. `None` for any other directory.
    pub(crate) fn end_of_entry(&self, dir: &str) -> Option<String> {
        let path = TreePath::from_key(dir.to_owned());
        self.gates.iter().find_map(|gate| {
            let entry = TreePath::from_row(gate.dir.key(), gate.entry_of(&path)?);
            // Keys such as `entry-b` come between the entry and what is in the directories below it.
            Some(if entry == path { format!("{dir}\0") } else { format!("{}0", entry.key()) })
        })
    }

    /// Returns the entry that hides a path after commit `seq`, in the newest state with [`MAX`]; `None` if no
    /// gate hides it.
    pub(crate) fn hiding(
        &self,
        files: &GateFiles<'_>,
        path: &TreePath,
        seq: u64,
    ) -> DbResult<Option<TreePath>> {
        for (place, gate) in self.gates.iter().enumerate() {
            let Some(name) = gate.entry_of(path) else { continue };
            if self.judge((place, gate), files, name, seq)? == Judgement::Hidden {
                return Ok(Some(TreePath::from_row(gate.dir.key(), name)));
            }
        }
        Ok(None)
    }

    /// Returns true if all gates of a path opened after commit `seq`. Unlike for [`Self::hiding`], an entry
    /// that did not exist then is not open: what a commit created and moved away again was never judged.
    pub(crate) fn opened(&self, files: &GateFiles<'_>, path: &TreePath, seq: u64) -> DbResult<bool> {
        for (place, gate) in self.gates.iter().enumerate() {
            let Some(name) = gate.entry_of(path) else { continue };
            if self.judge((place, gate), files, name, seq)? != Judgement::Open {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn judge(
        &self,
        (place, gate): (usize, &Gate),
        files: &GateFiles<'_>,
        name: &str,
        seq: u64,
    ) -> DbResult<Judgement> {
        if seq < gate.since.0.min(MAX) {
            return Ok(Judgement::Hidden);
        }
        let entry = TreePath::from_row(gate.dir.key(), name);
        let Some(file) = files.name(entry.key(), gate.file.as_str(), seq)? else {
            // An entry without the file is unknown, and what is not known to be visible is hidden.
            let is_absent = files.name(gate.dir.key(), name, seq)?.is_none();
            return Ok(if is_absent { Judgement::Absent } else { Judgement::Hidden });
        };
        let node = nodes::version(files.conn, file.ino, seq.min(MAX))?;
        let Some(node) = node.filter(|node| node.kind == Kind::File && node.size <= MAX_FILE) else {
            return Ok(Judgement::Hidden);
        };
        let content = (place, node.ino, node.content_seq);
        let known = lock(&self.known).get(&content).copied();
        if let Some(judgement) = known {
            return Ok(judgement);
        }
        let is_open = match files.has_key(gate, &node, seq) {
            // Fails no read of other entries, and is not kept: the content may be restored.
            Err(error) if error.is(ErrorKind::Corrupt) => return Ok(Judgement::Hidden),
            is_open => is_open?,
        };
        let judgement = if is_open { Judgement::Open } else { Judgement::Hidden };
        let mut known = lock(&self.known);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(content, judgement);
        Ok(judgement)
    }
}

impl GateFiles<'_> {
    fn name(&self, dir: &str, name: &str, seq: u64) -> DbResult<Option<NameRow>> {
        match seq < MAX {
            true => past_names::get_at(self.conn, dir, name, seq),
            false => live_names::get(self.conn, dir, name),
        }
    }

    /// Returns true if a file has one of the keys of a gate. Its content is read, and not the index of keys:
    /// that has only those of the newest state, and lags behind within a group of commits.
    fn has_key(&self, gate: &Gate, node: &NodeRow, seq: u64) -> DbResult<bool> {
        let of_content = self.registry.projection(gate.projection);
        let Some(Keys::OfFile(keys)) = of_content.map(ContentProjection::keys) else { return Ok(false) };
        let as_of = Some(seq).filter(|seq| *seq < MAX);
        let own = kept_keys(keys(&self.packs.content(self.conn, node.ino, as_of, 0, node.size)?));
        Ok(gate.keys.iter().any(|key| own.contains(&kept(key))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Projection, Seq};
    use crate::path::Name;

    fn gates(dir: &str) -> Gates {
        let gate = Gate {
            dir: TreePath::parse(dir).unwrap(),
            file: Name::parse("meta.json").unwrap(),
            projection: Projection::new(7),
            keys: Vec::new(),
            since: Seq(0),
        };
        Gates { gates: vec![gate], known: Mutex::default() }
    }

    #[test]
    fn end_of_entry_skips_all_of_it() {
        let gates = gates("/s");
        for (dir, due) in [
            ("", None),
            ("/s", None),
            ("/s-b/x", None),
            ("/s/a", Some("/s/a\0")),
            ("/s/a/b", Some("/s/a0")),
            ("/s/a/b/c", Some("/s/a0")),
        ] {
            assert_eq!(gates.end_of_entry(dir).as_deref(), due, "{dir}");
        }
    }

    #[test]
    fn equal_gates_share_their_judgements() {
        let one = Arc::new(gates("/s"));
        assert!(Arc::ptr_eq(&one, &one.with(&one.gates)) && Arc::ptr_eq(&one, &one.with(&[])));
        let both = one.with(&gates("/t").gates);
        assert_eq!(both.directories().map(TreePath::as_str).collect::<Vec<_>>(), ["/s", "/t"]);
    }
}
