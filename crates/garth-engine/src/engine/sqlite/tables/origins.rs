//! Table `origin`: the commits that wrote the bytes of a chunk that `gc` has merged from small extents.

use rusqlite::{Connection, params};

pub(crate) use crate::engine::relational::origin_column::{Run, push};

use crate::engine::relational::origin_column::{self, encode};
use crate::sqlite::{DbResult, one};

/// Returns the column of a merged chunk.
pub(crate) fn column(conn: &Connection, chunk: u64) -> DbResult<Option<Vec<u8>>> {
    one(conn, "SELECT runs FROM origin WHERE chunk = ?1", [chunk], |row| row.get(0))
}

/// Returns the runs of bytes `from..to` of a merged chunk.
pub(crate) fn runs(conn: &Connection, chunk: u64, from: u64, to: u64) -> DbResult<Vec<Run>> {
    Ok(origin_column::runs(column(conn, chunk)?.as_deref(), from, to)?)
}

/// Writes the runs of a new chunk.
pub(crate) fn put(conn: &Connection, chunk: u64, runs: &[Run]) -> DbResult<()> {
    conn.prepare_cached("INSERT INTO origin (chunk, runs) VALUES (?1, ?2)")?
        .execute(params![chunk, encode(runs)])?;
    Ok(())
}

/// Removes the runs of a chunk that is removed.
pub(crate) fn remove(conn: &Connection, chunk: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM origin WHERE chunk = ?1")?.execute([chunk])?;
    Ok(())
}
