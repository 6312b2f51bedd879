//! Keeps the index up to date with the tree: the files that search may see, and their bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::Connection;

use crate::engine::planner::{HeadRow, NodeRow, Rows};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::fulltext::index_writer;
use crate::engine::sqlite::planner_rows::PlannerRows;
use crate::engine::sqlite::tables::{MAX, nodes};
use crate::model::{Attributes, Ino, Kind};
use crate::sqlite::DbResult;
use crate::text::{Edit, Tokenizer};

/// Edits of the files of a group.
pub(crate) type Edits = BTreeMap<u64, Edit>;

/// Indexes the changes of a group, once for each file, however many of its commits wrote to it. `begin` is
/// the head before the group; `None` if some of its changes were applied before. Returns false if none of the
/// changes concerns the index.
pub(crate) fn apply(
    state: &PlannerRows<'_>,
    edits: &Edits,
    begin: Option<&HeadRow>,
    tokenizer: &mut Tokenizer,
) -> DbResult<bool> {
    let mut files = Vec::with_capacity(edits.len());
    for (ino, edit) in edits {
        let Some(node) = state.node(*ino)? else { continue };
        let attributes = |seq| Ok(state.attributes(*ino, seq)?);
        let file = IndexedFile::new(&node, attributes)?;
        let file = file.filter(|file| begin.is_none_or(|begin| !file.stays_left_out(&node, begin)));
        files.extend(file.map(|file| (file, *edit)));
    }
    let changes: Vec<index_writer::Change<'_>> =
        files.iter().map(|(file, edit)| file.change(*edit)).collect();
    let read = &mut |ino, range| current_bytes(state.conn, state.packs, ino, range);
    index_writer::apply(state.conn, &changes, tokenizer, read)?;
    Ok(!changes.is_empty())
}

/// State of a file on which the index depends, apart from its bytes.
pub(crate) struct IndexedFile {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) searchable: bool,
    pub(crate) content_type: Option<String>,
}

impl IndexedFile {
    /// Returns the current state of a file; `None` for a node that is no file.
    pub(crate) fn of(conn: &Connection, ino: u64) -> DbResult<Option<Self>> {
        let Some(node) = nodes::version(conn, ino, MAX)? else { return Ok(None) };
        Self::new(&node, |seq| nodes::attributes(conn, ino, seq))
    }

    fn new(node: &NodeRow, attributes: impl FnOnce(u64) -> DbResult<Attributes>) -> DbResult<Option<Self>> {
        if node.kind != Kind::File {
            return Ok(None);
        }
        let attributes = match node.attrs_seq {
            0 => Attributes::default(),
            seq => attributes(seq)?,
        };
        // A file without a name leaves the index as one that is not searchable does.
        let searchable = node.nlink > 0 && attributes.searchable.unwrap_or(true);
        let content_type = attributes.content_type;
        Ok(Some(Self { ino: node.ino, size: node.size, searchable, content_type }))
    }

    /// Returns true if search does not see the file after a group of commits, and did not see it at `begin`:
    /// the index has nothing of it.
    fn stays_left_out(&self, node: &NodeRow, begin: &HeadRow) -> bool {
        // A file that keeps its name and its attributes was left out by these.
        let is_as_before = node.nlink > 0 && node.attrs_seq <= begin.seq;
        !self.searchable && (node.ino >= begin.next_ino || is_as_before)
    }

    fn change(&self, edit: Edit) -> index_writer::Change<'_> {
        index_writer::Change {
            ino: Ino(self.ino),
            searchable: self.searchable,
            content_type: self.content_type.as_deref(),
            edit,
        }
    }
}

/// Returns bytes of a file in the state of this transaction.
pub(crate) fn current_bytes(
    conn: &Connection,
    packs: &Packs,
    ino: Ino,
    range: Range<u64>,
) -> DbResult<Vec<u8>> {
    let Some(node) = nodes::version(conn, ino.0, MAX)? else { return Ok(Vec::new()) };
    let end = range.end.min(node.size);
    if range.start >= end {
        return Ok(Vec::new());
    }
    Ok(packs.content(conn, ino.0, None, range.start, end)?.into())
}
