//! Judges the entries of gated directories by the keys of a file in them, in any state of the tree. Why:
//! `docs/decisions/gates-of-sessions.md`.

use crate::engine::planner::NodeRow;
use crate::engine::relational::gates::{Gates, HiddenEntry, KnownGate};
use crate::engine::relational::reads::tree_rows::{MAX, Read, ReadError as _, TreeRows};
use crate::error::{Error, ErrorKind};
use crate::model::find::kept;
use crate::model::{Gate, Kind, MAX_GATE_FILE};
use crate::path::TreePath;
use crate::rule::projection::{ContentProjection, Keys, kept_keys};

/// Bytes of content whose copy takes as long as deriving the keys of one byte. A projection parses its file.
const COST_OF_KEYS: u64 = 16;

/// Judgement of an entry in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Open,
    Hidden,
    /// The entry does not exist.
    Absent,
}

/// Access to the files that gates ask for, in one transaction.
#[derive(Clone, Copy, Debug)]
pub struct GateFiles<R> {
    /// Rows of the transaction.
    pub rows: R,
    /// Last commit that cannot be rolled back any more. If a later one is, its inode and commit are used
    /// again for other content, so judgements of that are not shared.
    pub settled: u64,
}

impl Gates {
    /// Returns the entry that hides a path after commit `seq`, in the newest state with [`MAX`]; `None` if no
    /// gate hides it.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn hiding<R: TreeRows>(
        &self,
        files: &GateFiles<R>,
        path: &TreePath,
        seq: u64,
    ) -> Read<R, Option<HiddenEntry>> {
        for (number, known) in self.known().iter().enumerate() {
            let Some(name) = known.gate.entry_of(path) else { continue };
            if known.judge(files, name, seq)? == Judgement::Hidden {
                let path = TreePath::from_row(known.gate.dir.key(), name);
                return Ok(Some(HiddenEntry { gate: number, path }));
            }
        }
        Ok(None)
    }

    /// Returns true if all gates of a path opened after commit `seq`. Unlike for [`Self::hiding`], an entry
    /// that did not exist then is not open: what a commit created and moved away again was never judged.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn opened<R: TreeRows>(&self, files: &GateFiles<R>, path: &TreePath, seq: u64) -> Read<R, bool> {
        for known in self.known() {
            let Some(name) = known.gate.entry_of(path) else { continue };
            if known.judge(files, name, seq)? != Judgement::Open {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl KnownGate {
    fn judge<R: TreeRows>(&self, files: &GateFiles<R>, name: &str, seq: u64) -> Read<R, Judgement> {
        let Self { gate, id } = self;
        if seq < gate.since.0.min(MAX) {
            return Ok(Judgement::Hidden);
        }
        let entry = TreePath::from_row(gate.dir.key(), name);
        let Some(file) = files.rows.name(entry.key(), gate.file.as_str(), seq.min(MAX))? else {
            // An entry without the file is unknown, and what is not known to be visible is hidden.
            let is_absent = files.rows.name(gate.dir.key(), name, seq.min(MAX))?.is_none();
            return Ok(if is_absent { Judgement::Absent } else { Judgement::Hidden });
        };
        let node = files.rows.version(file.ino, seq.min(MAX))?;
        let Some(node) = node.filter(|node| node.kind == Kind::File && node.size <= MAX_GATE_FILE) else {
            return Ok(Judgement::Hidden);
        };
        let judged = |is_open: bool| if is_open { Judgement::Open } else { Judgement::Hidden };
        let content = (*id, node.ino, node.content_seq);
        let shared = Some(files.rows.judgements()).filter(|_| node.content_seq <= files.settled);
        if let Some(is_open) = shared.and_then(|shared| shared.get(&content)) {
            return Ok(judged(is_open));
        }
        let is_open = match files.has_key(gate, &node, seq) {
            // Fails no read of other entries, and is not kept: the content may be restored. Of content that
            // is no longer stored nothing is known, and what is not known to be visible is hidden.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Gone) => {
                return Ok(Judgement::Hidden);
            }
            is_open => is_open?,
        };
        // What was decided without the content must not be kept.
        if let Some(shared) = shared.filter(|_| files.rows.is_complete()) {
            shared.put(content, is_open);
        }
        Ok(judged(is_open))
    }
}

impl<R: TreeRows> GateFiles<R> {
    /// Returns true if a file has one of the keys of a gate. Its content is read, and not the index of keys:
    /// that has only those of the newest state, and lags behind within a group of commits.
    fn has_key(&self, gate: &Gate, node: &NodeRow, seq: u64) -> Read<R, bool> {
        let of_content = self.rows.registry().projection(gate.projection);
        let Some(Keys::OfFile(keys)) = of_content.map(ContentProjection::keys) else { return Ok(false) };
        self.rows.spend(node.size * COST_OF_KEYS)?;
        let as_of = Some(seq).filter(|seq| *seq < MAX);
        if self.rows.is_content_gone(node.ino, seq, i64::MAX)? {
            return Err(Error::content_gone(seq).into());
        }
        let own = kept_keys(keys(&self.rows.content(node.ino, as_of, 0, node.size)?));
        Ok(gate.keys.iter().any(|key| own.contains(&kept(key))))
    }
}
