//! A file by its name with its content, if that is small: from `name`, `node`, `attribute`, `extent` and
//! `chunk` in one statement.

use rusqlite::{Connection, Row, params};

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::tables::chunks::{Location, StoredChunk};
use crate::engine::sqlite::tables::node_columns::{NEWEST_COLUMNS, newest_columns, newest_row};
use crate::engine::sqlite::tables::nodes::parse_attributes;
use crate::model::Attributes;
use crate::sqlite::DbResult;

/// Size in bytes up to which content is read together with its file. For more, a statement of its own costs
/// little next to the check of the bytes.
pub(crate) const SMALL: u64 = 16 << 10;

/// Content of a small file.
pub(crate) struct SmallContent<'a> {
    /// Chunk that contains all of it, in its row.
    pub(crate) chunk: StoredChunk<'a>,
    /// Offset of the content in the chunk.
    pub(crate) skip: u64,
}

/// Reads the content from columns `extent.skip, chunk.sum, chunk.data`, which begin at `at`.
fn small_content<'a>(row: &'a Row<'_>, at: usize) -> rusqlite::Result<Option<SmallContent<'a>>> {
    let (sum, data) = (row.get_ref(at + 1)?.as_blob_or_null()?, row.get_ref(at + 2)?.as_blob_or_null()?);
    // Without a chunk, the columns of the outer join are null.
    let (Some(sum), Some(data)) = (sum, data) else { return Ok(None) };
    let chunk = StoredChunk { sum, len: data.len(), location: Location::Database(data) };
    Ok(Some(SmallContent { chunk, skip: row.get(at)? }))
}

/// Passes the node of a live name and its attributes to `take`, with the content if that is one live extent
/// of at most [`SMALL`] bytes, whose chunk is in the database and is not longer than that. No transaction is
/// needed around it: the statement is open meanwhile, and all that `take` reads is of the state that it sees.
pub(crate) fn with_file_by_name<T>(
    conn: &Connection,
    dir: &str,
    name: &str,
    take: impl FnOnce(NodeRow, Attributes, Option<SmallContent<'_>>) -> DbResult<T>,
) -> DbResult<Option<T>> {
    // Live extents do not overlap, so one that is as long as the file is the only one. `length` of a blob
    // does not read it.
    const SQL: &str = concat!(
        "SELECT ",
        newest_columns!(),
        ", attribute.json, extent.skip, chunk.sum, chunk.data
         FROM name CROSS JOIN node ON node.ino = name.ino
         LEFT JOIN attribute ON attribute.ino = node.ino AND attribute.seq = node.attrs_seq
         LEFT JOIN extent ON node.size <= ?3 AND extent.ino = node.ino AND extent.till = 0 AND extent.off = 0
             AND extent.len = node.size
         LEFT JOIN chunk ON chunk.id = extent.chunk AND length(chunk.data) <= ?3
         WHERE name.dir = ?1 AND name.name = ?2 ORDER BY node.seq DESC LIMIT 1"
    );
    let mut statement = conn.prepare_cached(SQL)?;
    let mut rows = statement.query(params![dir, name, SMALL])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let node = newest_row(row, 0)?;
    let json = row.get_ref(NEWEST_COLUMNS)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let attributes = parse_attributes(node.attrs_seq, json)?;
    take(node, attributes, small_content(row, NEWEST_COLUMNS + 1)?).map(Some)
}
