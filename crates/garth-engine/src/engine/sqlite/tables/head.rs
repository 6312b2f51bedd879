//! Table `head`: a single row with the last commit and the counters that the next one starts from.

use rusqlite::{Connection, params};

use crate::engine::planner::HeadRow;
use crate::sqlite::DbResult;

/// Returns the row.
pub(crate) fn get(conn: &Connection) -> DbResult<HeadRow> {
    let mut query =
        conn.prepare_cached("SELECT seq, time, next_ino, next_chunk, control, projections FROM head")?;
    Ok(query.query_row([], |row| {
        Ok(HeadRow {
            seq: row.get(0)?,
            time: row.get(1)?,
            next_ino: row.get(2)?,
            next_chunk: row.get(3)?,
            control: row.get(4)?,
            projections: row.get(5)?,
        })
    })?)
}

/// Writes the state that the next group starts from.
pub(crate) fn put(conn: &Connection, head: &HeadRow) -> DbResult<()> {
    conn.prepare_cached("UPDATE head SET seq = ?1, time = ?2, next_ino = ?3, next_chunk = ?4")?
        .execute(params![head.seq, head.time, head.next_ino, head.next_chunk])?;
    Ok(())
}

/// Returns the number of row changes that were no commits: merges and collections. What is cached for a head
/// is valid only while this number is the same, too.
pub(crate) fn epoch(conn: &Connection) -> DbResult<u64> {
    Ok(conn.prepare_cached("SELECT epoch FROM head")?.query_row([], |row| row.get(0))?)
}

/// Counts a row change that is no commit.
pub(crate) fn next_epoch(conn: &Connection) -> DbResult<()> {
    conn.prepare_cached("UPDATE head SET epoch = epoch + 1")?.execute([])?;
    Ok(())
}

/// Makes the transaction sync. SQLite syncs nothing if nothing was written, and does not rewrite an equal
/// row.
pub(crate) fn touch(conn: &Connection) -> DbResult<()> {
    conn.prepare_cached("UPDATE head SET syncs = syncs + 1")?.execute([])?;
    Ok(())
}

/// Returns the id of a new chunk.
pub(crate) fn next_chunk(conn: &Connection) -> DbResult<u64> {
    let sql = "UPDATE head SET next_chunk = next_chunk + 1 RETURNING next_chunk - 1";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Counts a change of control data, which operators set.
pub(crate) fn next_control(conn: &Connection) -> DbResult<()> {
    conn.prepare_cached("UPDATE head SET control = control + 1")?.execute([])?;
    Ok(())
}

/// Returns the last commit whose files `gc` has examined to merge their extents.
pub(crate) fn merged(conn: &Connection) -> DbResult<u64> {
    Ok(conn.query_row("SELECT merged FROM head", [], |row| row.get(0))?)
}

/// Sets the last commit whose files `gc` has examined, unless a later one is set.
pub(crate) fn set_merged(conn: &Connection, last: u64) -> DbResult<()> {
    conn.execute("UPDATE head SET merged = ?1 WHERE merged < ?1", [last])?;
    Ok(())
}
