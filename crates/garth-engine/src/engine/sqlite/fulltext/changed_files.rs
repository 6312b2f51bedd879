//! Keeps the index up to date with the tree: the files that search may see, and their bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::Connection;

use crate::engine::planner::{HeadRow, Rows};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::fulltext::index_writer;
use crate::engine::sqlite::planner_rows::PlannerRows;
use crate::engine::sqlite::tables::{MAX, nodes};
use crate::model::{Attributes, Ino};
use crate::sqlite::DbResult;
use crate::text::{Edit, Tokenizer};

pub(crate) use crate::engine::planner::IndexedFile;

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
        let attributes = |seq| -> DbResult<Attributes> { Ok(state.attributes(*ino, seq)?) };
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

impl IndexedFile {
    /// Returns the current state of a file; `None` for a node that is no file.
    pub(crate) fn of(conn: &Connection, ino: u64) -> DbResult<Option<Self>> {
        let Some(node) = nodes::version(conn, ino, MAX)? else { return Ok(None) };
        Self::new(&node, |seq| nodes::attributes(conn, ino, seq))
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
