//! Table `chunk`: stored bytes by id, in the row itself or at a place in a pack file, with their checksum.

use rusqlite::{Connection, Row, params};

use crate::engine::planner::ExtentRow;
use crate::engine::sqlite::tables::extents::{extents_sql, first_overlap};
use crate::engine::sqlite::tables::head;
use crate::error::Error;
use crate::sqlite::{DbResult, all, one};

/// A chunk as its row describes it, unchecked.
pub(crate) struct StoredChunk<'a> {
    pub(crate) sum: &'a [u8],
    pub(crate) len: usize,
    pub(crate) location: Location<'a>,
}

/// Place of the bytes of a chunk.
#[derive(Clone, Copy)]
pub(crate) enum Location<'a> {
    Database(&'a [u8]),
    Pack { file: &'a str, pos: u64 },
}

impl<'a> StoredChunk<'a> {
    /// Reads a row that begins with the columns of a chunk.
    fn of(row: &'a Row<'_>) -> DbResult<Self> {
        let sum = row.get_ref(0)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        // An outer join keeps an extent whose chunk is missing: it is damage, not a hole.
        let sum = sum.ok_or_else(|| damaged("is missing"))?;
        let data = row.get_ref(1)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        let file = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let location = match (data, file, row.get(3)?) {
            (Some(data), _, _) => Location::Database(data),
            (None, Some(file), Some(pos)) => Location::Pack { file, pos },
            (None, _, _) => return Err(damaged("has lost its location").into()),
        };
        Ok(Self { sum, len: row.get(4)?, location })
    }
}

/// Columns of a chunk, in the order that [`StoredChunk::of`] reads.
macro_rules! chunk_columns {
    () => {
        "chunk.sum, chunk.data, pack.file, chunk.pos, chunk.len"
    };
}

/// The statement of [`each_in_range`]: extents with their chunks, in any order, because each has its offset.
macro_rules! content_sql {
    ($when:ident) => {
        concat!(
            "SELECT ",
            chunk_columns!(),
            ", extent.off, extent.len, extent.skip FROM (",
            extents_sql!($when, "off, len, skip, chunk"),
            ") AS extent LEFT JOIN chunk ON chunk.id = extent.chunk LEFT JOIN pack ON pack.id = chunk.pack"
        )
    };
}

/// Passes a chunk to `take`. Returns `None` if there is no such chunk.
pub(crate) fn with<T>(
    conn: &Connection,
    id: u64,
    take: impl FnOnce(&StoredChunk<'_>) -> DbResult<T>,
) -> DbResult<Option<T>> {
    const SQL: &str = concat!(
        "SELECT ",
        chunk_columns!(),
        " FROM chunk LEFT JOIN pack ON pack.id = chunk.pack WHERE chunk.id = ?1"
    );
    let mut statement = conn.prepare_cached(SQL)?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(|row| take(&StoredChunk::of(row)?)).transpose()
}

/// Calls `take` for the parts of a file that overlap `from..to`, now or after a commit, with their chunks,
/// until it returns false.
pub(crate) fn each_in_range(
    conn: &Connection,
    ino: u64,
    as_of: Option<u64>,
    (from, to): (u64, u64),
    take: &mut dyn FnMut(ExtentRow, &StoredChunk<'_>) -> DbResult<bool>,
) -> DbResult<()> {
    let first = first_overlap(conn, ino, from)?;
    let sql = if as_of.is_none() { content_sql!(now) } else { content_sql!(as_of) };
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = match as_of {
        None => statement.query(params![ino, first, to, from])?,
        Some(seq) => statement.query(params![ino, first, to, from, seq])?,
    };
    while let Some(row) = rows.next()? {
        let (off, len, skip): (u64, u64, u64) = (row.get(5)?, row.get(6)?, row.get(7)?);
        // Only the place of the extent is used.
        let part = ExtentRow { off, len, skip, since: 0, chunk: 0, written: 0 }.cut(from, to);
        if !take(part, &StoredChunk::of(row)?)? {
            break;
        }
    }
    Ok(())
}

/// Returns the chunk with this hash. Only full hashes are unique; short chunks have a checksum of 8 bytes.
pub(crate) fn by_hash(conn: &Connection, sum: &[u8]) -> DbResult<Option<u64>> {
    one(conn, "SELECT id FROM chunk WHERE sum = ?1 AND length(sum) = 32", [sum], |row| row.get(0))
}

/// Returns true if a chunk has this length and is found by its hash.
pub(crate) fn is_found_by_hash(conn: &Connection, id: u64, len: u64) -> DbResult<bool> {
    let sql = "SELECT 1 FROM chunk WHERE id = ?1 AND length(sum) = 32 AND len = ?2";
    Ok(one(conn, sql, params![id, len], |_| Ok(()))?.is_some())
}

/// Returns true if a chunk is in a pack file that no commit has used.
pub(crate) fn is_in_unused_pack(conn: &Connection, id: u64) -> DbResult<bool> {
    let sql = "SELECT 1 FROM chunk JOIN pack ON pack.id = chunk.pack WHERE chunk.id = ?1 AND pack.unused = 1";
    Ok(one(conn, sql, [id], |_| Ok(()))?.is_some())
}

/// Returns the offset and length of each chunk in a pack file, in order of offsets.
pub(crate) fn places_in(conn: &Connection, pack: i64) -> DbResult<Vec<(u64, u64)>> {
    let sql = "SELECT pos, len FROM chunk WHERE pack = ?1 ORDER BY pos";
    all(conn, sql, [pack], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Writes a chunk whose bytes are in its row.
pub(crate) fn insert_bytes(conn: &Connection, id: u64, sum: &[u8], data: &[u8]) -> rusqlite::Result<usize> {
    conn.prepare_cached("INSERT INTO chunk (id, sum, data, len) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        id,
        sum,
        data,
        data.len()
    ])
}

/// Writes a chunk whose bytes are in a pack file.
pub(crate) fn insert_in_pack(
    conn: &Connection,
    id: u64,
    sum: &[u8],
    pack: Option<i64>,
    (pos, len): (u64, u64),
) -> rusqlite::Result<usize> {
    conn.prepare_cached("INSERT INTO chunk (id, sum, pack, pos, len) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![id, sum, pack, pos, len])?;
    head::add_packed(conn, len)
}

/// A chunk that was removed.
pub(crate) struct RemovedChunk {
    pub(crate) len: u64,
    /// Pack file that held it, and its offset there.
    pub(crate) place: Option<(i64, u64)>,
}

/// Removes a chunk. Returns `None` if there is none.
pub(crate) fn remove(conn: &Connection, id: u64) -> DbResult<Option<RemovedChunk>> {
    let sql = "DELETE FROM chunk WHERE id = ?1 RETURNING len, pack, pos";
    let removed = one(conn, sql, [id], |row| {
        let (pack, pos): (Option<i64>, Option<u64>) = (row.get(1)?, row.get(2)?);
        Ok(RemovedChunk { len: row.get(0)?, place: pack.zip(pos) })
    })?;
    if let Some(RemovedChunk { len, place: Some(_) }) = &removed {
        head::remove_packed(conn, *len)?;
    }
    Ok(removed)
}

/// Returns the error for damaged content. `what` completes the sentence "stored content …".
pub(crate) fn damaged(what: &str) -> Error {
    Error::damaged(format!("stored content {what}"))
}
