//! Turns a batch into row changes, for every engine that keeps rows (SQLite, Postgres): one meaning, one
//! order of errors, whatever the database. It does no I/O of its own: it reads through [`Rows`], keeps what
//! the batch would change in a [`Delta`] that later operations of the batch see, and writes nothing. A batch
//! that fails is dropped with its delta.
//!
//! Public, and hidden from the documentation, for databases that crates of their own bring. Those see:
//!
//! - [`Rows`], what a database is asked, and [`plan`], for one that is at hand;
//! - [`Fetch`] and [`plan_with`], for one that is a round trip away;
//! - [`Planned`], with the [`Delta`] to write and the next [`HeadRow`].
//!
//! It is no part of what this crate promises to its users: rows are what `docs/format.md` says of this
//! version.
//!
//! `memory` shares none of this, or comparing the engines would prove nothing. Why:
//! `docs/decisions/planner-without-io.md`.

mod attrs;
mod content;
mod copy;
mod copy_totals;
mod delta;
#[cfg(any(test, debug_assertions))]
pub mod fetched;
mod foresight;
mod judged;
mod lookup;
mod names;
mod quota;
mod rounds;
mod rows;
mod state;
mod subtrees;
#[cfg(test)]
mod tests;

use sha2::{Digest, Sha256};

pub use content::{MAX_EXTENT, sum_of};
pub use delta::{Delta, ExtentChange, NameChange};
pub use judged::judge_state;
pub use rounds::{Fetch, MAX_ROUNDS, plan_with};
pub use rows::{
    Chunk, DEDUP_FROM, ExtentRow, HeadRow, IdempotencyRow, JudgedRow, LogChange, NameRow, NodeRow, RowKey,
    Rows, SHORT_SUM, Staged, StagedRow, Stored, Tally,
};
pub use subtrees::{Key, Region, Subtrees};

use self::state::Planner;
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::model::batch::Reaches;
use crate::model::{
    At, Batch, ChangeKind, Commit, Ino, Kind, MAX_HASHED, Op, Outcome, Precondition, Seq, Timestamp,
    VersionId,
};

/// What planning a batch gives.
pub enum Planned {
    /// Rows to change, and the answer once they are kept.
    Apply {
        /// The rows.
        delta: Box<Delta>,
        /// The head row with this commit.
        head: HeadRow,
        /// The answer; whether it is durable is for the database to say.
        commit: Commit,
    },
    /// The batch was committed before: its answer.
    Replay(Commit),
}

/// Plans `batch` on the state that `rows` shows at `head`. A batch that fails has changed nothing.
///
/// # Errors
/// Those that [`Batch`](crate::model::batch) promises, in its order; and any error of `rows`, as it is.
pub fn plan<R: Rows>(rows: &R, head: HeadRow, now: Timestamp, batch: &Batch) -> Result<Planned> {
    let reaches = batch.reaches();
    let mut planner = Planner::on(rows, head, now, &reaches.own);
    (planner.owner, planner.stagers) = (batch.owner_key(), batch.stagers());
    planner.restores = batch.own_attributes;
    let time = planner.time;
    let foreseen = planner.foresee_batch(batch);
    if let Some(first) = planner.committed(batch)? {
        return Ok(Planned::Replay(Commit { replayed: true, ..first }));
    }
    foreseen?;
    planner.within = &reaches.added;
    for (at, that) in &batch.assumptions {
        planner.check(at, that).map_err(stale)?;
    }
    planner.within = &reaches.own;
    for (at, that) in &batch.preconditions {
        planner.check(at, that)?;
    }
    let outcomes = batch.told(planner.ops(&batch.ops, &reaches)?);
    planner.settle_nodes()?;
    let counted = planner.count(head.control);
    // what one misses is no reason not to tell what the other does
    let judged = if counted.is_ok() || R::FORESEES { planner.judge(batch) } else { Ok(()) };
    counted.and(judged)?;
    planner.delta.finish(planner.first_ino, planner.seq);
    let (next_ino, next_chunk) = (planner.next_ino, planner.next_chunk);
    let head = HeadRow { seq: planner.seq, time, next_ino, next_chunk, ..head };
    // whether it is durable is for the database to say, once it has kept it
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
    /// The commit that a batch is a retry of.
    fn committed(&self, batch: &Batch) -> Result<Option<Commit>> {
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
            match self.foresee_moved(op).and_then(|()| self.op(op)) {
                Ok(outcome) => outcomes.push(outcome),
                // a row that one misses keeps the others from telling what they miss
                Err(error) if R::FORESEES => refused = refused.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        self.within = &reaches.own;
        refused.map(|()| outcomes)
    }

    fn op(&mut self, op: &Op) -> Result<Outcome> {
        let outcome = self.perform(op)?;
        match self.delta.nodes.get(&outcome.ino.0) {
            Some(node) => Ok(Outcome { size: node.size, ..outcome }),
            None => Ok(outcome),
        }
    }

    /// The outcome has the size of a node that the batch has changed only once it is done.
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

    fn check(&mut self, at: &At, that: &Precondition) -> Result<Outcome> {
        let found = self.node_at(at).optional()?;
        if self.holds(at, that, found.as_ref())? {
            return found.map_or(Ok(self.nothing()), |node| self.unchanged(&node));
        }
        let message = match that {
            Precondition::Absent => "precondition failed: something is there",
            Precondition::Exists => "precondition failed: nothing is there",
            Precondition::Version(_) | Precondition::Etag(_) | Precondition::EtagIn(_) => {
                "precondition failed: the current version is another one; read it and try again"
            }
            Precondition::Sha256(_) => "precondition failed: the content has another SHA-256",
            Precondition::Not(_) => "precondition failed: what must not be so is so; read it and try again",
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
        self.hashed = self.hashed.saturating_add(node.size);
        if self.hashed > MAX_HASHED {
            let message = format!("a commit hashes at most {MAX_HASHED} bytes; ask for the etag instead");
            return Err(self.about(Error::new(ErrorKind::TooLarge, message), at));
        }
        let mut hasher = Sha256::new();
        let mut from = 0;
        while from < node.size {
            let length = (node.size - from).min(1 << 20);
            hasher.update(self.read(node.ino, from, length)?);
            from += length;
        }
        Ok(hasher.finalize().into())
    }

    fn snapshot(&mut self, name: &str) -> Result<Outcome> {
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

    /// A snapshot is not of the root's version: it changes something, but not the root. Who does not reach
    /// the root is told of the first top that is there.
    fn snapshot_outcome(&mut self) -> Result<Outcome> {
        let mut told = self.nothing();
        for top in self.within.tops() {
            if let Some(node) = self.lookup(top)? {
                told = self.unchanged(&node)?;
                break;
            }
        }
        Ok(Outcome { changed: true, ..told })
    }
}

/// The version that last changed a node's content.
fn etag(node: &NodeRow) -> VersionId {
    VersionId { seq: Seq(node.content_seq), ino: Ino(node.ino) }
}

/// What a view had read no longer holds.
fn stale(error: Error) -> Error {
    if error.is(ErrorKind::Conflict) { Error::new(ErrorKind::Stale, error.message()) } else { error }
}
