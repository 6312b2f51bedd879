//! Table `head`: a single row with the last commit and the counters that the next one starts from.

use rusqlite::{Connection, params};

use crate::engine::planner::HeadRow;
use crate::sqlite::DbResult;

/// Returns the row.
pub(crate) fn get(conn: &Connection) -> DbResult<HeadRow> {
    let mut query = conn.prepare_cached(
        "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded FROM head",
    )?;
    Ok(query.query_row([], |row| {
        Ok(HeadRow {
            seq: row.get(0)?,
            time: row.get(1)?,
            next_ino: row.get(2)?,
            next_chunk: row.get(3)?,
            control: row.get(4)?,
            projections: row.get(5)?,
            oldest: row.get(6)?,
            folded: row.get(7)?,
        })
    })?)
}

/// Writes the state that the next group starts from. Steps of maintenance write the limits of the past.
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

/// Raises the first commit whose state is readable, and notes the time; not to an earlier commit.
pub(crate) fn raise_oldest(conn: &Connection, oldest: u64, now: i64) -> DbResult<()> {
    conn.execute("UPDATE head SET oldest = ?1, oldest_since = ?2 WHERE oldest < ?1", params![oldest, now])?;
    Ok(())
}

/// Returns the time at which the first readable commit was raised last; 0 if it never was.
pub(crate) fn oldest_since(conn: &Connection) -> DbResult<i64> {
    Ok(conn.query_row("SELECT oldest_since FROM head", [], |row| row.get(0))?)
}

/// Sets the commit up to which ended rows are removed, unless a later one is set.
pub(crate) fn set_folded(conn: &Connection, folded: u64) -> DbResult<()> {
    conn.execute("UPDATE head SET folded = ?1 WHERE folded < ?1", [folded])?;
    Ok(())
}

/// Returns the commit after which table `replaced` is complete.
pub(crate) fn queued(conn: &Connection) -> DbResult<u64> {
    Ok(conn.query_row("SELECT queued FROM head", [], |row| row.get(0))?)
}

/// Has the next removal of the past look at all nodes: it does not rely on table `replaced` for the commits
/// up to the head. If small extents were searched beyond the head, they are searched again from the
/// beginning.
pub(crate) fn search_all_nodes(conn: &Connection) -> DbResult<()> {
    conn.execute("UPDATE head SET queued = seq, merged = iif(merged > seq, 0, merged)", [])?;
    Ok(())
}

/// Returns the bytes of the chunks in pack files.
pub(crate) fn packed(conn: &Connection) -> DbResult<u64> {
    let sql = "SELECT packed FROM head";
    // As a cached statement: each commit of an account with a limit on its stored bytes asks for it.
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Returns the bytes of the chunks in pack files, by a walk over all of them.
pub(crate) fn count_packed(conn: &Connection) -> DbResult<u64> {
    let sql = "SELECT coalesce(sum(len), 0) FROM chunk INDEXED BY chunk_pack WHERE pack IS NOT NULL";
    Ok(conn.query_row(sql, [], |row| row.get(0))?)
}

/// Counts the bytes of the chunks in pack files again.
pub(crate) fn recount_packed(conn: &Connection) -> DbResult<()> {
    conn.execute("UPDATE head SET packed = ?1", [count_packed(conn)?])?;
    Ok(())
}

/// Counts a chunk that was written to a pack file.
pub(crate) fn add_packed(conn: &Connection, len: u64) -> rusqlite::Result<usize> {
    conn.prepare_cached("UPDATE head SET packed = packed + ?1")?.execute([len])
}

/// Counts a chunk in a pack file no longer.
pub(crate) fn remove_packed(conn: &Connection, len: u64) -> rusqlite::Result<usize> {
    conn.prepare_cached("UPDATE head SET packed = max(packed - ?1, 0)")?.execute([len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    #[test]
    fn limits_of_the_past_only_rise() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        for (oldest, now, folded) in [(5, 100, 3), (4, 200, 2)] {
            raise_oldest(&conn, oldest, now).unwrap();
            set_folded(&conn, folded).unwrap();
        }
        let head = get(&conn).unwrap();
        assert_eq!((head.oldest, oldest_since(&conn).unwrap(), head.folded), (5, 100, 3));
        put(&conn, &HeadRow { seq: 9, ..HeadRow::default() }).unwrap();
        let head = get(&conn).unwrap();
        assert_eq!((head.seq, head.oldest, head.folded), (9, 5, 3), "a commit leaves them as they are");
    }
}
