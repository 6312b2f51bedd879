//! Turns a batch into row changes, for every engine that stores rows (SQLite, Postgres).
//!
//! Operations mean the same and fail in the same order on each of these databases. The planner does no I/O
//! of its own: it reads through [`Rows`], collects changes in a [`Delta`] that later operations of the
//! batch see, and writes nothing. The delta of a batch that fails is dropped.
//!
//! The module is public, and hidden from the documentation, for databases that live in other crates. They
//! use:
//!
//! - [`Rows`], the queries of the planner to a database, and [`plan`], for a local database;
//! - [`Fetch`] and [`plan_group`], for a database that is a round trip away, whose rows are fetched into a
//!   [`RowStore`], and [`derive_group`], for the keys and passages that change with their rows;
//! - [`index_files`] and [`keys_of_nodes`], for passages and keys that are derived again;
//! - [`Planned`], with the [`Delta`] to write and the next [`HeadRow`].
//!
//! It is not part of the stable interface of this crate: rows are as `docs/format.md` describes them for
//! this version.
//!
//! `memory` shares none of this code, or comparing the engines would prove nothing. Why:
//! `docs/decisions/planner-without-io.md`.

mod attrs;
mod content;
mod copy;
mod delta;
mod derived;
mod derived_rows;
mod extents;
#[cfg(any(test, debug_assertions))]
pub mod fetched;
mod group;
mod indexed_file;
mod judged;
mod keys;
mod lookup;
mod names;
mod node_change;
mod overlay;
mod prefetch;
mod quota;
mod rebuilt;
mod rounds;
mod row_store;
mod rows;
mod state;
mod subtrees;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

pub use content::{MAX_EXTENT, chunks, sum_of};
pub use delta::{Delta, ExtentChange, NameChange};
pub use derived::{Derived, derive_group, derive_written};
pub use derived_rows::{TAIL_PASSAGES, Tail};
pub use group::plan_group;
pub(crate) use indexed_file::IndexedFile;
pub use judged::judge_state;
pub(crate) use keys::{ChangedNodes, KeyedRows, each_key, each_key_change};
pub use keys::{KeyRow, KeysChange};
pub use node_change::{EndedTimes, NodeWrite, node_write};
pub use rebuilt::{FileToIndex, IndexedPart, bytes_of_files, files_with_text, index_files, keys_of_nodes};
pub use rounds::{Fetch, Fetched, MAX_ROUNDS};
pub use row_store::{RowStore, RowValue};
pub use rows::{
    Chunk, DEDUP_FROM, ExtentRow, HeadRow, IdempotencyRow, JudgedRow, LogChange, NameRow, NewestNode,
    NodeRow, RowKey, Rows, SHORT_SUM, Staged, StagedRow, Stored, Tally,
};
pub use subtrees::{Key, Leaving, Region, Subtrees};

use self::state::Planner;
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::model::batch::Reaches;
use crate::model::{
    At, Batch, ChangeKind, Commit, Ino, Kind, MAX_HASHED, Op, Outcome, Precondition, Seq, Timestamp,
    VersionId,
};

/// Result of planning a batch.
pub enum Planned {
    /// Changes to write, and the commit to return once they are written.
    Apply {
        /// Row changes.
        delta: Box<Delta>,
        /// Head row after this commit.
        head: HeadRow,
        /// The commit. Its `durable` is false: only the database knows.
        commit: Commit,
    },
    /// The batch was committed before. Holds that commit.
    Replay(Commit),
}

/// Plans `batch` on the state that `rows` have at `head`. A batch that fails changes nothing.
///
/// # Errors
/// As [`Batch`](crate::model::batch) documents, in its order. Errors of `rows` are passed on unchanged.
pub fn plan<R: Rows>(rows: &R, head: HeadRow, now: Timestamp, batch: &Batch) -> Result<Planned> {
    let reaches = batch.reaches();
    let mut planner = Planner::on(rows, head, now, &reaches.own);
    (planner.owner, planner.stagers) = (batch.owner_key(), batch.stagers());
    (planner.restores, planner.root) = (batch.own_attributes, batch.root.as_ref());
    let time = planner.time;
    // Its error waits until after `committed`: a retry returns its commit, whatever has become of the rows
    // that its addresses lead to.
    let prefetched = planner.prefetch_batch(batch);
    if let Some(first) = planner.committed(batch)? {
        return Ok(Planned::Replay(Commit { replayed: true, ..first }));
    }
    prefetched?;
    // Assumptions record reads of views, which may be outside the caller's reach.
    planner.within = &reaches.added;
    for (at, that) in &batch.assumptions {
        planner.check(at, that).map_err(stale)?;
    }
    planner.within = &reaches.own;
    for (at, that) in &batch.preconditions {
        planner.check(at, that)?;
    }
    let outcomes = batch.told(planner.ops(&batch.ops, &reaches)?);
    // Before `count` and `judge`, which read the link counts of changed nodes from the delta.
    planner.apply_removed_regions()?;
    let counted = planner.count(head.control);
    // Where rows are fetched, both run even if `count` fails: each then names the rows that it misses.
    let judged = if counted.is_ok() || R::PREFETCHES { planner.judge(batch) } else { Ok(()) };
    counted.and(judged)?;
    // Last: quotas and rules compare with the names before the batch, of which `finish` drops some.
    planner.delta.finish(planner.first_ino, planner.seq);
    planner.delta.writes = planner.node_writes()?;
    let (next_ino, next_chunk) = (planner.next_ino, planner.next_chunk);
    let head = HeadRow { seq: planner.seq, time, next_ino, next_chunk, ..head };
    // The database sets `durable` once it has written the commit.
    let commit = Commit {
        seq: Seq(head.seq),
        time: Timestamp(time),
        outcomes,
        replayed: false,
        durable: false,
        note: String::new(),
    };
    Ok(Planned::Apply { delta: Box::new(planner.delta), head, commit })
}

impl<'a, R: Rows> Planner<'a, R> {
    /// Returns the commit that this batch repeats: by its idempotency key first, then by its id.
    fn committed(&self, batch: &Batch) -> Result<Option<Commit>> {
        // An expired record counts as none: its key may be used again, even if the row still exists.
        if let Some(record) = &batch.idempotency
            && let Some(known) = self.rows.idempotency(batch.record_owner_key(), &record.key)?
            && known.keep_until > self.time
        {
            if known.request_hash != record.request_hash {
                return Err(Error::new(
                    ErrorKind::IdempotencyMismatch,
                    "the idempotency key was used before with another request; use a new key",
                ));
            }
            return Ok(Some(known.commit));
        }
        match batch.id {
            Some(id) => self.rows.committed(self.owner, id),
            None => Ok(None),
        }
    }

    fn ops(&mut self, ops: &[Op], reaches: &'a Reaches) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(ops.len());
        let mut refused = Ok(());
        for (place, op) in ops.iter().enumerate() {
            self.within = reaches.of(place);
            match self.prefetch_moved(op).and_then(|()| self.op(op)) {
                Ok(outcome) => outcomes.push(outcome),
                // A miss does not end the loop: the others have to name the rows that they miss, or each
                // takes a round.
                Err(error) if R::PREFETCHES => refused = refused.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        self.within = &reaches.own;
        refused.map(|()| outcomes)
    }

    fn op(&mut self, op: &Op) -> Result<Outcome> {
        self.totals.begin();
        // `perform` leaves the size of a changed node at 0. It is known only now.
        let outcome = self.perform(op)?;
        match self.delta.nodes.get(&outcome.ino.0) {
            Some(node) => Ok(Outcome { size: node.size, ..outcome }),
            None => Ok(outcome),
        }
    }

    /// Performs an operation. The size in its outcome is valid only for a node that is not in the delta.
    fn perform(&mut self, op: &Op) -> Result<Outcome> {
        match op {
            Op::Write { at, body, create, parents, attrs } => self.write(at, body, *create, *parents, attrs),
            Op::Append { at, body, create, parents, cuts } => self.append(at, body, *create, *parents, cuts),
            Op::Patch { at, offset, body } => self.patch(at, *offset, body),
            Op::Truncate { at, size } => self.truncate(at, *size),
            Op::Punch { at, offset, length } => self.punch(at, *offset, *length),
            Op::CopyRange { from, from_offset, length, to, to_offset } => {
                self.copy_range((from, *from_offset), *length, (to, *to_offset))
            }
            Op::Mkdir { at, parents, attrs } => self.mkdir(at, *parents, attrs),
            Op::Symlink { at, target, parents, attrs } => self.symlink(at, target, *parents, attrs),
            Op::Mknod { at, node, parents, attrs } => self.mknod(at, *node, *parents, attrs),
            Op::Link { from, to, parents } => self.link(from, to, *parents),
            Op::Remove { at, what, missing_ok } => self.remove(at, *what, *missing_ok),
            Op::Rename { from, to, mode, parents } => self.rename(from, to, *mode, *parents),
            Op::Copy { from, as_of, to, recursive, replace, parents } => {
                let flags = copy::Flags { recursive: *recursive, replace: *replace, parents: *parents };
                self.copy(from, *as_of, to, flags)
            }
            Op::SetAttrs { at, attrs } => self.set_attrs(at, attrs),
            Op::Check { at, that } => self.check(at, that),
            Op::Snapshot { name } => self.snapshot(name),
            Op::DropSnapshot { name } => self.drop_snapshot(name),
            Op::Misused { reason } => Err(Error::invalid(reason)),
        }
    }

    /// Returns how to store the new versions of nodes.
    fn node_writes(&self) -> Result<BTreeMap<u64, NodeWrite>> {
        let mut writes = BTreeMap::new();
        for (ino, node) in &self.delta.nodes {
            // Takes no round: an operation has read the version that it changed.
            let before = match node.kind {
                Kind::Directory if *ino < self.first_ino => self.rows.newest_node(*ino)?,
                _ => None,
            };
            writes.insert(*ino, node_write(before.as_ref(), node));
        }
        Ok(writes)
    }

    fn check(&mut self, at: &At, that: &Precondition) -> Result<Outcome> {
        // A condition may be about a missing node, but errors of the database are passed on.
        let found = self.node_at(at).optional()?;
        if self.holds(at, that, found.as_ref())? {
            return found.map_or(Ok(self.nothing()), |node| self.unchanged(&node));
        }
        let message = match that {
            Precondition::Absent => "precondition failed: the path exists",
            Precondition::Exists => "precondition failed: the path does not exist",
            Precondition::Version(_) | Precondition::Etag(_) | Precondition::EtagIn(_) => {
                "precondition failed: the version has changed; read it and try again"
            }
            Precondition::Sha256(_) => "precondition failed: the SHA-256 of the content differs",
            Precondition::Not(_) => {
                "precondition failed: the negated condition holds; read the entry and try again"
            }
        };
        Err(self.about(Error::new(ErrorKind::Conflict, message), at))
    }

    fn holds(&mut self, at: &At, that: &Precondition, found: Option<&NodeRow>) -> Result<bool> {
        Ok(match (that, found) {
            (Precondition::Not(that), _) => !self.holds(at, that, found)?,
            (Precondition::Absent, _) => found.is_none(),
            (_, None) => false,
            (Precondition::Exists, Some(_)) => true,
            (Precondition::Version(version), Some(node)) => {
                version.ino.0 == node.ino && version.seq.0 == self.last_change(node)?
            }
            (Precondition::Etag(version), Some(node)) => *version == etag(node),
            (Precondition::EtagIn(versions), Some(node)) => versions.contains(&etag(node)),
            (Precondition::Sha256(hash), Some(node)) => {
                node.kind == Kind::File && self.sha256(at, node)? == *hash
            }
        })
    }

    fn sha256(&mut self, at: &At, node: &NodeRow) -> Result<[u8; 32]> {
        // Counted before any byte is read: hashing holds up all other commits of the account.
        self.hashed = self.hashed.saturating_add(node.size);
        if self.hashed > MAX_HASHED {
            let message = format!("a commit hashes at most {MAX_HASHED} bytes; ask for the etag instead");
            return Err(self.about(Error::new(ErrorKind::TooLarge, message), at));
        }
        let mut hasher = Sha256::new();
        let mut from = 0;
        // Piece by piece, so that memory does not grow with the file.
        while from < node.size {
            let length = (node.size - from).min(1 << 20);
            hasher.update(self.read(node.ino, from, length)?);
            from += length;
        }
        Ok(hasher.finalize().into())
    }

    fn snapshot(&mut self, name: &str) -> Result<Outcome> {
        // An earlier operation of the batch may have created or dropped it.
        let taken = match self.delta.snapshots.get(name) {
            Some(now) => *now,
            None => self.rows.has_snapshot(self.owner, name)?,
        };
        if taken {
            let message = format!("a snapshot named `{name}` exists already");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.delta.snapshots.insert(name.to_owned(), true);
        self.delta.log(ChangeKind::Snapshot { name: name.to_owned() }, Ino::ROOT.0, None);
        self.snapshot_outcome()
    }

    fn drop_snapshot(&mut self, name: &str) -> Result<Outcome> {
        let there = match self.delta.snapshots.get(name) {
            Some(now) => *now,
            None => self.rows.has_snapshot(self.owner, name)?,
        };
        if !there {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no snapshot named `{name}`")));
        }
        self.delta.snapshots.insert(name.to_owned(), false);
        self.delta.log(ChangeKind::SnapshotDropped { name: name.to_owned() }, Ino::ROOT.0, None);
        self.snapshot_outcome()
    }

    /// Returns the outcome of a snapshot operation: something has changed, but not the node that the
    /// outcome names, the root. A batch that does not reach the root, and comes through no view, gets the
    /// first top that exists.
    fn snapshot_outcome(&mut self) -> Result<Outcome> {
        let mut node = None;
        match self.root {
            Some(root) => node = self.node_at(root).optional()?,
            None => {
                for top in self.within.tops() {
                    node = self.lookup(top)?;
                    if node.is_some() {
                        break;
                    }
                }
            }
        }
        let told = node.map_or_else(|| Ok(self.nothing()), |node| self.unchanged(&node))?;
        Ok(Outcome { changed: true, ..told })
    }
}

/// Returns the version that last changed the content of a node.
fn etag(node: &NodeRow) -> VersionId {
    VersionId { seq: Seq(node.content_seq), ino: Ino(node.ino) }
}

/// Turns the conflict of a failed assumption into `Stale`, so that the view that read it lowers the batch
/// again.
fn stale(error: Error) -> Error {
    if error.is(ErrorKind::Conflict) { Error::new(ErrorKind::Stale, error.message()) } else { error }
}
