//! State of a batch while it is planned: what it reads, what it has changed so far, and what it has found
//! out on the way. Each kind of operation has its own file, which adds methods to [`Planner`].

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::delta::Delta;
use super::extents::LiveExtents;
use super::rows::{HeadRow, NodeRow, Rows};
use super::subtrees::Key;
use super::totals::Totals;
use crate::error::Result;
use crate::model::{At, Ino, Outcome, Seq, Timestamp, VersionId, Within};
use crate::rule::Rules;

/// A batch being planned.
pub(super) struct Planner<'a, R> {
    pub(super) rows: &'a R,
    /// Rules in force.
    pub(super) rules: &'a Rules,
    /// Paths that the operation or condition being planned reaches.
    pub(super) within: &'a Within,
    /// Owner of the commit, its idempotency record, and the snapshots that it creates and drops.
    pub(super) owner: &'a str,
    /// Owners of the staged bodies that the batch may use.
    pub(super) stagers: Vec<&'a str>,
    /// Node that the outcomes of operations on snapshots are about; `None` for the first top.
    pub(super) root: Option<&'a At>,
    /// True if copies bring back what nodes were, with garth's own attributes.
    pub(super) restores: bool,
    /// Sequence of this commit.
    pub(super) seq: u64,
    /// Time of this commit.
    pub(super) time: i64,
    /// First inode of the batch: the database has no rows of a node from here on.
    pub(super) first_ino: u64,
    pub(super) next_ino: u64,
    pub(super) next_chunk: u64,
    pub(super) delta: Delta,
    /// Extents of the database that have been read and are live.
    pub(super) live: RefCell<LiveExtents>,
    /// Staged bodies that operations of this batch have used.
    pub(super) staged: HashSet<u128>,
    /// Bytes that conditions have hashed.
    pub(super) hashed: u64,
    /// Counts of what the operations have done together, against their limits.
    pub(super) totals: Totals,
    /// Directories found on the way, by key: spares a batch in one directory the same reads over and over.
    pub(super) dirs: HashMap<String, u64>,
    /// Name by which each existing file was written to: often its only one.
    pub(super) addressed: HashMap<u64, Key>,
    /// Number of lost regions that the row of a changed node takes into account, where there are any.
    pub(super) settled: HashMap<u64, usize>,
}

impl<'a, R: Rows> Planner<'a, R> {
    /// Returns a planner of a batch on the state at `head`, with the rights of the account.
    pub(super) fn on(rows: &'a R, head: HeadRow, now: Timestamp, within: &'a Within) -> Self {
        Self {
            rows,
            rules: rows.rules(),
            within,
            owner: "",
            stagers: Vec::new(),
            root: None,
            restores: false,
            seq: head.seq + 1,
            time: now.0.max(head.time.saturating_add(1)),
            first_ino: head.next_ino,
            next_ino: head.next_ino,
            next_chunk: head.next_chunk,
            delta: Delta::default(),
            live: RefCell::default(),
            staged: HashSet::new(),
            hashed: 0,
            totals: Totals::default(),
            dirs: HashMap::new(),
            addressed: HashMap::new(),
            settled: HashMap::new(),
        }
    }

    /// Returns the outcome of an operation that changed or created a node.
    pub(super) fn outcome(&self, ino: u64, created: bool) -> Outcome {
        let version = VersionId { seq: Seq(self.seq), ino: Ino(ino) };
        if created { Outcome::created(version, 0) } else { Outcome::changed(version, 0) }
    }

    /// Returns the outcome of an operation that left `node` as it was.
    pub(super) fn unchanged(&self, node: &NodeRow) -> Result<Outcome> {
        let seq = Seq(self.last_change(node)?);
        Ok(Outcome::unchanged(VersionId { seq, ino: Ino(node.ino) }, node.size))
    }

    /// Returns the outcome of an operation that found nothing and accepts that.
    pub(super) fn nothing(&self) -> Outcome {
        Outcome::unchanged(VersionId { seq: Seq(self.seq), ino: Ino::NONE }, 0)
    }
}
