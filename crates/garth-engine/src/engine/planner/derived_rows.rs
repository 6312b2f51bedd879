//! Derived rows of a database, keys and passages, which a group of batches changes with the rows that they
//! are derived from.

use bytes::Bytes;

use super::rows::{RowKey, Rows};
use crate::engine::search::Passage;
use crate::engine::search::reindexing::MAX_OFFSET;
use crate::error::Result;
use crate::model::{Projection, Within};

/// Number of passages in a [`Tail`], unless the file has fewer.
pub const TAIL_PASSAGES: usize = 8;

/// End of a file as an append finds it: the answer to [`RowKey::Tail`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Last [`TAIL_PASSAGES`] passages in order; all of them if there are fewer.
    pub passages: Vec<Passage>,
    /// Byte from which the text is not indexed yet; `None` if all of it is.
    pub unindexed: Option<u64>,
    /// Last line that has a row, number and offset, in each projection by line that has rows of the file.
    pub lines: Vec<(Projection, (u64, u64))>,
    /// Offset of `bytes`. Any, but rows before it may take another round: 17 KiB before the last passage
    /// suffice for most appends.
    pub from: u64,
    /// Bytes up to the end of the file. Holes are zeros.
    pub bytes: Bytes,
}

/// Queries for derived rows, and for the bytes that they are derived from, in the state before a group of
/// batches. Nodes are those that the database has.
pub(crate) trait DerivedRows: Rows {
    /// Returns true if a row was read since the last fetch that had not been fetched: its error says nothing
    /// about the row.
    fn has_missed(&self) -> bool;
    /// Returns the keys of a node in the projections that are not by line, in any order.
    fn keys(&self, ino: u64) -> Result<Vec<(Projection, String)>>;
    /// Returns number and offset of the last line that has a row and begins at or before `off`.
    fn line_before(&self, ino: u64, projection: Projection, off: u64) -> Result<Option<(u64, u64)>>;
    /// Returns the passages of a file that begin from `from` up to and including `to`, in order.
    fn passages(&self, ino: u64, from: u64, to: u64) -> Result<Vec<Passage>>;
    /// Returns the last passage of a file that begins before `off`.
    fn last_passage(&self, ino: u64, off: u64) -> Result<Option<Passage>>;
    /// Returns the byte from which the text of a file is not indexed yet; `None` if all of it is.
    fn unindexed(&self, ino: u64) -> Result<Option<u64>>;
    /// Returns the bytes `from..to` of a file, which must have them. Holes are zeros.
    fn content(&self, ino: u64, from: u64, to: u64) -> Result<Bytes>;
}

/// Returns the keys of the rows that keys and passages of a written file are derived from, apart from the
/// file itself. `all` asks for all of its passages, of which an edit may replace any.
pub(super) fn keys_of_text(ino: u64, all: bool) -> impl Iterator<Item = RowKey> {
    let names = RowKey::NamesOf(ino, Within::everything(), usize::MAX);
    let end = [RowKey::Tail(ino), RowKey::Keys(ino), RowKey::Attributes(ino, u64::MAX), names];
    end.into_iter().chain(all.then_some(RowKey::Passages(ino, 0, MAX_OFFSET)))
}

/// Returns the keys of the rows that take a removed file out of the index.
pub(super) fn keys_of_removed_text(ino: u64) -> [RowKey; 2] {
    [RowKey::Unindexed(ino), RowKey::Passages(ino, 0, MAX_OFFSET)]
}
