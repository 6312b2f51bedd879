//! Rows that reads ask for.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;

use crate::engine::planner::{ExtentRow, HeadRow, Key, NameRow, NodeRow};
use crate::engine::relational::gate_judgements::Judgements;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Author, CommitInfo, Gate, Kind, Owner, SessionOf, Snapshot, Within};
use crate::path::PathError;
use crate::rule::Registry;

/// Largest integer that a database stores. As a sequence number it stands for the newest state.
pub const MAX: u64 = i64::MAX as u64;

/// Result of a read of rows.
pub type Read<R, T> = Result<T, <R as TreeRows>::Error>;

/// Error of a database, or of the call.
pub trait ReadError: From<Error> + From<PathError> + Sized {
    /// Returns the kind.
    fn kind(&self) -> ErrorKind;

    /// Returns the error that leaves the engine.
    fn into_error(self) -> Error;

    /// Returns the error of one item of a call that reads several.
    ///
    /// # Errors
    /// A failure of the database, and the end of the time for the read: they fail the call.
    fn of_item(self) -> Result<Error, Self>;
}

impl ReadError for Error {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }

    fn into_error(self) -> Error {
        self
    }

    fn of_item(self) -> Result<Error, Self> {
        Ok(self)
    }
}

/// Span of commits: the states after commit `from` up to the one after commit `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitSpan {
    /// First commit.
    pub from: u64,
    /// Last commit.
    pub to: u64,
}

impl CommitSpan {
    /// The newest state.
    pub const NOW: Self = Self { from: MAX, to: MAX };

    /// Returns the span of one state: after commit `seq`.
    pub fn at(seq: u64) -> Self {
        Self { from: seq.min(MAX), to: seq.min(MAX) }
    }
}

/// Span of commits during which a path named a node, and which has ended.
#[derive(Clone, Copy, Debug)]
pub struct NameSpan {
    /// Inode of the node.
    pub ino: u64,
    /// Commit that gave the node the name.
    pub since: u64,
    /// Commit that ended it.
    pub till: u64,
}

/// Name of a page, and its node if that was read.
#[derive(Clone, Debug)]
pub struct PageRow {
    /// Key of the directory.
    pub dir: Rc<str>,
    /// Name.
    pub name: String,
    /// Inode of the node.
    pub ino: u64,
    /// Kind of the node.
    pub kind: Kind,
    /// Node.
    pub node: Option<NodeRow>,
}

/// Range of names to read: those after `(from, after)`, in the directory `from` alone or in all directories
/// up to `to`.
#[derive(Clone, Copy, Debug)]
pub struct NameRange<'a> {
    /// Key of the first directory.
    pub from: &'a str,
    /// Name in it after which the range begins.
    pub after: &'a str,
    /// End of the keys of directories, exclusive; `None` for one directory.
    pub to: Option<&'a str>,
    /// Paths of names that are excluded. Names below them are in no range.
    pub left_out: &'a BTreeSet<String>,
}

impl NameRange<'_> {
    /// Returns false for an excluded name.
    pub fn has(&self, row: &PageRow) -> bool {
        self.left_out.is_empty() || !self.left_out.contains(&format!("{}/{}", row.dir, row.name))
    }
}

/// Callback for a row of a page. Returns false to stop.
pub type EachRow<'a, E> = dyn FnMut(PageRow) -> Result<bool, E> + 'a;

/// Callback for a name: directory and name, and the last commit whose state has it, [`MAX`] for a live name.
/// Returns false to stop.
pub type EachName<'a, E> = dyn FnMut(Key, u64) -> Result<bool, E> + 'a;

/// Names of a range in the past, in order.
#[derive(Debug, Default)]
pub struct PastPage {
    /// Names. Those after `complete` may not be all.
    pub rows: Vec<PageRow>,
    /// Directory and name up to which all names of the range are among the rows; `None` if all are.
    pub complete: Option<Key>,
}

/// Commit with the first piece of its changes, as read in a walk through the log.
#[derive(Debug)]
pub struct LoggedCommit<'a> {
    /// Commit.
    pub info: CommitInfo,
    /// Column with its changes.
    pub changes: &'a str,
    /// Key of its owner.
    pub owner: &'a str,
}

/// Rows of a tree in one transaction.
///
/// Sequence numbers stand for the state after a commit, [`MAX`] for the newest state. All errors are those of
/// the database.
///
/// A database that is a round trip away may answer from the rows that it has fetched. Then it notes what it
/// lacks, answers as if there were no such row, and the read is run again once those rows were fetched. Until
/// then [`is_complete`](Self::is_complete) is false, and the result of the read must not be used.
pub trait TreeRows: Copy {
    /// Error of a read.
    type Error: ReadError;

    /// Returns the projections that every tree has.
    fn registry(&self) -> &Registry;

    /// Returns the judgements of the files of gates.
    fn judgements(&self) -> &Judgements;

    /// Returns how often a row was asked for that has not been fetched.
    fn misses(&self) -> usize {
        0
    }

    /// Returns false if a row was asked for that has not been fetched.
    fn is_complete(&self) -> bool {
        self.misses() == 0
    }

    /// Charges the budget of the read for bytes that are about to be copied.
    fn spend(&self, _bytes: u64) -> Read<Self, ()> {
        Ok(())
    }

    /// Fails if the budget of the read is too small for a page of the newest names of a range. `limit` and
    /// `entries` are those of the page.
    fn check_length(&self, _range: &NameRange<'_>, _limit: usize, _entries: bool) -> Read<Self, ()> {
        Ok(())
    }

    /// Returns the head row.
    fn head(&self) -> Read<Self, HeadRow>;

    /// Returns a name after commit `seq`.
    fn name(&self, dir: &str, name: &str, seq: u64) -> Read<Self, Option<NameRow>>;

    /// Returns the newest version of the node of a live name.
    fn node_by_name(&self, dir: &str, name: &str) -> Read<Self, Option<NodeRow>> {
        match self.name(dir, name, MAX)? {
            Some(row) => self.version(row.ino, MAX),
            None => Ok(None),
        }
    }

    /// Returns the newest version of the node of a live name, and its attributes.
    fn entry_by_name(&self, dir: &str, name: &str) -> Read<Self, Option<(NodeRow, Attributes)>> {
        let Some(node) = self.node_by_name(dir, name)? else { return Ok(None) };
        let attributes = match node.attrs_seq {
            0 => Attributes::default(),
            seq => self.attributes(node.ino, seq)?,
        };
        Ok(Some((node, attributes)))
    }

    /// Returns a node after commit `seq`, with or without a name.
    fn version(&self, ino: u64, seq: u64) -> Read<Self, Option<NodeRow>>;

    /// Returns a node after the commit before `before`. The versions before that one are likely to be read.
    fn version_before(&self, ino: u64, before: u64) -> Read<Self, Option<NodeRow>> {
        self.version(ino, before.saturating_sub(1))
    }

    /// Returns the commit of the version after this one; `None` if it is the newest.
    fn next_version(&self, node: &NodeRow) -> Read<Self, Option<u64>>;

    /// Returns the version in which a node lost its last name; `None` if it has one.
    fn last_unlink(&self, ino: u64) -> Read<Self, Option<u64>>;

    /// Returns the attributes that a node got in commit `seq`.
    fn attributes(&self, ino: u64, seq: u64) -> Read<Self, Attributes>;

    /// Calls `each` with the names within some subtrees that a node had in a span, in any order, until it
    /// returns false.
    fn each_name(
        &self,
        ino: u64,
        span: CommitSpan,
        within: &Within,
        each: &mut EachName<'_, Self::Error>,
    ) -> Read<Self, ()>;

    /// Returns at most `limit` names within some subtrees that a node had in a span, in any order.
    fn names_in_span(
        &self,
        ino: u64,
        span: CommitSpan,
        within: &Within,
        limit: usize,
    ) -> Read<Self, Vec<Key>> {
        let mut names = Vec::new();
        if limit > 0 {
            self.each_name(ino, span, within, &mut |name, _| {
                names.push(name);
                Ok(names.len() < limit)
            })?;
        }
        Ok(names)
    }

    /// Returns at most `limit` live names of a node within some subtrees, after a directory and name, in that
    /// order.
    fn names_after(
        &self,
        ino: u64,
        within: &Within,
        after: (&str, &str),
        limit: usize,
    ) -> Read<Self, Vec<Key>>;

    /// Calls `each` for at most `most` live names of a range that have not expired at `time`, with their
    /// nodes if `nodes` is true, until it returns false.
    fn page_now(
        &self,
        range: &NameRange<'_>,
        nodes: bool,
        expired: (i64, usize),
        each: &mut EachRow<'_, Self::Error>,
    ) -> Read<Self, ()>;

    /// Returns names of a range after commit `seq`, expired or not: at least `limit` of them, unless it has
    /// fewer.
    fn page_at(&self, range: &NameRange<'_>, seq: u64, limit: usize) -> Read<Self, PastPage>;

    /// Returns true if a path named anything at or before commit `seq`, in spans that ended after commit
    /// `oldest`.
    fn was_used(&self, key: (&str, &str), oldest: u64, seq: u64) -> Read<Self, bool>;

    /// Returns the newest span of a path that ended before commit `till`.
    fn ended_before(&self, dir: &str, name: &str, till: u64) -> Read<Self, Option<NameSpan>>;

    /// Returns the nodes that existed at commit `seq` and got a path later, up to commit `until`.
    fn came_later(&self, key: (&str, &str), seq: u64, until: u64) -> Read<Self, Vec<u64>>;

    /// Returns the last commit at or before `seq` that ended a name of a node.
    fn last_end(&self, ino: u64, seq: u64) -> Read<Self, Option<u64>>;

    /// Returns the last commit at or before `seq` that ended a name of a node, of the names for which
    /// `counts` returns true. It gets directory and name, and the commit that ended the name.
    fn last_end_of(
        &self,
        ino: u64,
        seq: u64,
        counts: &dyn Fn(&str, &str, u64) -> Read<Self, bool>,
    ) -> Read<Self, Option<u64>>;

    /// Returns true if the content that a node had after commit `seq` is gone for a view that was opened at a
    /// time.
    fn is_content_gone(&self, ino: u64, seq: u64, opened: i64) -> Read<Self, bool>;

    /// Returns bytes `from..to` of a file, now or after a commit, checked. `to` is within the file. Holes are
    /// zeros.
    fn content(&self, ino: u64, as_of: Option<u64>, from: u64, to: u64) -> Read<Self, Bytes>;

    /// Calls `take` for each live extent that overlaps a range, in order, until it returns false. Only offset
    /// and length are read.
    fn each_extent_now(
        &self,
        ino: u64,
        range: (u64, u64),
        take: &mut dyn FnMut(ExtentRow) -> bool,
    ) -> Read<Self, ()>;

    /// Returns the live extents that overlap `from..to`, by offset.
    fn extents_now(&self, ino: u64, from: u64, to: u64) -> Read<Self, Vec<ExtentRow>>;

    /// Returns the column of the commits that wrote the bytes of a merged chunk.
    fn origin(&self, chunk: u64) -> Read<Self, Option<Vec<u8>>>;

    /// Returns the extents after commit `seq` that overlap `from..to`, by offset.
    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Read<Self, Vec<ExtentRow>>;

    /// Returns a commit of the log and the key of its owner.
    fn commit(&self, seq: u64) -> Read<Self, Option<(CommitInfo, String)>>;

    /// Returns the time of a commit that must be in the log; 0 for the empty tree.
    fn commit_time(&self, seq: u64) -> Read<Self, i64>;

    /// Returns the last commit up to `head` that is not later than `time`, or `oldest` if all from there on
    /// are. `oldest` is at most `head`, and the log has all commits between them.
    fn last_commit_until(&self, time: i64, oldest: u64, head: u64) -> Read<Self, u64>;

    /// Calls `take` for each commit after the first up to the second, or for those of one session, until it
    /// returns false.
    fn each_commit(
        &self,
        span: (u64, u64),
        session: Option<&SessionOf>,
        take: &mut dyn FnMut(LoggedCommit<'_>) -> Read<Self, bool>,
    ) -> Read<Self, ()>;

    /// Returns the last piece of further changes of a commit that begins at or before a change, with the
    /// index of its first change.
    fn changes_before(&self, seq: u64, change: u64) -> Read<Self, Option<(u64, String)>>;

    /// Returns the piece of further changes of a commit that begins with this change.
    fn changes_at(&self, seq: u64, change: u64) -> Read<Self, Option<String>>;

    /// Returns the author of a commit that is no longer in the log.
    fn folded_author(&self, seq: u64) -> Read<Self, Author>;

    /// Returns the commit of a snapshot, unless it is after commit `head`.
    fn snapshot(&self, owner: &str, name: &str, head: u64) -> Read<Self, Option<u64>>;

    /// Calls `take` for each snapshot up to commit `head`, until it returns false: those of an owner after a
    /// name, or, with their owners, all after an owner and name.
    fn each_snapshot(
        &self,
        own: Option<&Owner>,
        after: (&str, &str),
        head: u64,
        take: &mut dyn FnMut(Snapshot) -> bool,
    ) -> Read<Self, ()>;

    /// Returns the names of the entries of a gated directory whose file has a key, at most `limit`; `None` if
    /// there are more, or no index has them.
    fn entries_with(&self, _gate: &Gate, _key: &str, _limit: usize) -> Read<Self, Option<Vec<String>>> {
        Ok(None)
    }
}
