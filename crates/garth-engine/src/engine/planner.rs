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
mod subtrees;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

pub use content::{MAX_EXTENT, sum_of};
pub use delta::{Delta, ExtentChange, NameChange};
pub use judged::judge_state;
pub use rounds::{Fetch, MAX_ROUNDS, plan_with};
pub use rows::{
    Chunk, DEDUP_FROM, ExtentRow, IdempotencyRow, JudgedRow, LogChange, NameRow, NodeRow, RowKey, Rows,
    SHORT_SUM, Staged, StagedRow, Stored, Tally,
};
pub use subtrees::{Key, Region, Subtrees};

use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::model::batch::Reaches;
use crate::model::{
    At, Batch, ChangeKind, Commit, Ino, Kind, MAX_HASHED, Op, Outcome, Precondition, Seq, Timestamp,
    VersionId, Within,
};
use crate::path::TreePath;
use crate::rule::Rules;

/// The state that a batch is planned on: the head row.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadRow {
    /// Last sequence.
    pub seq: u64,
    /// Time of the last commit.
    pub time: i64,
    /// Next inode number to give.
    pub next_ino: u64,
    /// Next chunk number to give.
    pub next_chunk: u64,
    /// Version of what operators have set: rules and quotas.
    pub control: u64,
    /// Version of the set of projections that are kept.
    pub projections: u64,
}

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
    let commit =
        Commit { seq: Seq(head.seq), time: Timestamp(time), outcomes, replayed: false, durable: false };
    Ok(Planned::Apply { delta: Box::new(planner.delta), head, commit })
}

/// A batch being planned.
struct Planner<'a, R> {
    rows: &'a R,
    /// What may lie where.
    rules: &'a Rules,
    /// The paths that the batch reaches.
    within: &'a Within,
    /// Whose snapshots it uses, and whose staged bodies.
    owner: &'a str,
    stagers: Vec<&'a str>,
    /// Sequence of this commit.
    seq: u64,
    /// Time of this commit.
    time: i64,
    /// From here on nodes are of this batch: the database has no rows of theirs.
    first_ino: u64,
    next_ino: u64,
    next_chunk: u64,
    delta: Delta,
    /// Staged bodies that operations of this batch have used.
    staged: HashSet<u128>,
    /// Bytes that conditions have hashed.
    hashed: u64,
    /// What copies have made.
    copied: copy::Copied,
    /// Directories found on the way, by key: spares a batch in one directory the same reads over and over.
    dirs: HashMap<String, u64>,
    /// The name by which each file that was there was written to: often its only one.
    addressed: HashMap<u64, Key>,
    /// How many of the lost regions the row of a changed node takes into account, where there are any.
    settled: HashMap<u64, usize>,
}

impl<'a, R: Rows> Planner<'a, R> {
    /// To plan on a state, as the account.
    fn on(rows: &'a R, head: HeadRow, now: Timestamp, within: &'a Within) -> Self {
        Self {
            rows,
            rules: rows.rules(),
            within,
            owner: "",
            stagers: Vec::new(),
            seq: head.seq + 1,
            time: now.0.max(head.time.saturating_add(1)),
            first_ino: head.next_ino,
            next_ino: head.next_ino,
            next_chunk: head.next_chunk,
            delta: Delta::default(),
            staged: HashSet::new(),
            hashed: 0,
            copied: copy::Copied::default(),
            dirs: HashMap::new(),
            addressed: HashMap::new(),
            settled: HashMap::new(),
        }
    }

    /// The commit that a batch is a retry of.
    fn committed(&self, batch: &Batch) -> Result<Option<Commit>> {
        if let Some(record) = &batch.idempotency
            && let Some(known) = self.rows.idempotency(self.owner, &record.key)?
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

    /// The outcome of an operation that changed or made a node.
    fn outcome(&self, ino: u64, created: bool) -> Outcome {
        let version = VersionId { seq: Seq(self.seq), ino: Ino(ino) };
        if created { Outcome::created(version, 0) } else { Outcome::changed(version, 0) }
    }

    /// The outcome of an operation that left `node` as it was.
    fn unchanged(&self, node: &NodeRow) -> Result<Outcome> {
        let seq = Seq(self.last_change(node)?);
        Ok(Outcome::unchanged(VersionId { seq, ino: Ino(node.ino) }, node.size))
    }

    /// The outcome of an operation that found nothing and accepts that.
    fn nothing(&self) -> Outcome {
        Outcome::unchanged(VersionId { seq: Seq(self.seq), ino: Ino::NONE }, 0)
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

/// A name as a key: its directory and itself.
fn key_of(path: &TreePath) -> Option<(String, String)> {
    let (dir, name) = path.key().rsplit_once('/')?;
    Some((dir.to_owned(), name.to_owned()))
}

/// The path of something below `from`, once that is `to`.
fn moved(path: &TreePath, from: &TreePath, to: &TreePath) -> Result<TreePath> {
    let outside = || Error::at(ErrorKind::Corrupt, path, "is listed in another directory; run `garth fsck`");
    Ok(path.rebase(from, to).ok_or_else(outside)??)
}
