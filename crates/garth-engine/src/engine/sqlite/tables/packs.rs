//! Tables `pack` and `hole`. `pack` lists the pack files; `gc` removes those with `doomed_at` after the grace
//! period. `hole` lists unused ranges of the other files, whose space `gc` returns to the disk.

use rusqlite::{Connection, Row, params};

use crate::model::Timestamp;
use crate::sqlite::{DbResult, all, one};

/// A pack file: id, name, size in bytes.
pub(crate) type PackRow = (i64, String, u64);

fn pack_row(row: &Row<'_>) -> rusqlite::Result<PackRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

/// Writes the pack file of an upload, which no commit uses yet. Returns its id.
///
/// SQLite gives the id of a removed row again. Versions that removed a pack before its holes may have left
/// some, which are none of this file.
pub(crate) fn insert(conn: &Connection, file: &str, size: u64) -> DbResult<i64> {
    let sql = "INSERT INTO pack (file, size, unused) VALUES (?1, ?2, 1)";
    conn.prepare_cached(sql)?.execute(params![file, size])?;
    let id = conn.last_insert_rowid();
    conn.prepare_cached("DELETE FROM hole WHERE pack = ?1")?.execute([id])?;
    Ok(id)
}

/// Returns true if no commit has used some pack file.
pub(crate) fn any_unused(conn: &Connection) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM pack WHERE unused = 1 LIMIT 1", [], |_| Ok(()))?.is_some())
}

/// Records that a commit uses the pack file of this name, if there is one.
pub(crate) fn use_file(conn: &Connection, file: &str) -> DbResult<()> {
    let sql = "UPDATE pack SET unused = 0 WHERE file = ?1 AND unused = 1";
    conn.prepare_cached(sql)?.execute([file])?;
    Ok(())
}

/// Records that a commit uses the pack file that has a chunk, if one has it.
pub(crate) fn use_file_of(conn: &Connection, chunk: u64) -> DbResult<()> {
    let sql = "UPDATE pack SET unused = 0 WHERE id = (SELECT pack FROM chunk WHERE id = ?1) AND unused = 1";
    conn.prepare_cached(sql)?.execute([chunk])?;
    Ok(())
}

/// Dooms a file to which no row has ever referred. No read can be using it, so it is due at once, without a
/// grace period.
pub(crate) fn insert_doomed(conn: &Connection, file: &str) -> DbResult<()> {
    let sql = "INSERT INTO pack (file, size, doomed_at) VALUES (?1, 0, 0) ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?.execute([file])?;
    Ok(())
}

/// Returns true if a file has a row.
pub(crate) fn has_file(conn: &Connection, file: &str) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM pack WHERE file = ?1", [file], |_| Ok(()))?.is_some())
}

/// Returns all pack files.
pub(crate) fn all_files(conn: &Connection) -> DbResult<Vec<PackRow>> {
    all(conn, "SELECT id, file, size FROM pack", [], pack_row)
}

/// Returns at most `limit` pack files that were doomed at or before a time.
pub(crate) fn doomed(conn: &Connection, before: i64, limit: usize) -> DbResult<Vec<PackRow>> {
    let sql = "SELECT id, file, size FROM pack WHERE doomed_at <= ?1 ORDER BY doomed_at LIMIT ?2";
    all(conn, sql, params![before, limit], pack_row)
}

/// Dooms a pack file without chunks.
pub(crate) fn doom_if_empty(conn: &Connection, pack: i64, now: Timestamp) -> DbResult<()> {
    let sql =
        "UPDATE pack SET doomed_at = ?2 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM chunk WHERE pack = ?1)";
    conn.prepare_cached(sql)?.execute(params![pack, now.0])?;
    Ok(())
}

/// Removes at most `limit` holes of a doomed pack file, and its row after the last of them: a row that is
/// written later can get the same id, and holes that are left would be taken for ranges of its file. Returns
/// false if there are more. Does nothing if another `gc` has removed the row.
pub(crate) fn remove(conn: &Connection, file: &str, limit: usize) -> DbResult<bool> {
    let sql = "DELETE FROM hole WHERE (pack, pos) IN (
             SELECT pack, pos FROM hole
             WHERE pack = (SELECT id FROM pack WHERE file = ?1 AND doomed_at IS NOT NULL) LIMIT ?2)";
    if conn.prepare_cached(sql)?.execute(params![file, limit])? == limit {
        return Ok(false);
    }
    conn.prepare_cached("DELETE FROM pack WHERE file = ?1 AND doomed_at IS NOT NULL")?.execute([file])?;
    Ok(true)
}

/// Removes the rows of all pack files without a chunk.
pub(crate) fn remove_empty(conn: &Connection) -> DbResult<()> {
    let sql = "DELETE FROM pack WHERE id NOT IN (SELECT pack FROM chunk WHERE pack IS NOT NULL)";
    conn.execute(sql, [])?;
    conn.execute("DELETE FROM hole WHERE pack NOT IN (SELECT id FROM pack)", [])?;
    Ok(())
}

/// Records that no chunk uses a range of a pack file.
pub(crate) fn add_hole(conn: &Connection, pack: i64, pos: u64, len: u64, now: Timestamp) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO hole (pack, pos, len, freed_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![pack, pos, len, now.0])?;
    Ok(())
}

/// A range of a pack file that no chunk uses.
#[derive(Debug)]
pub(crate) struct Hole {
    pack: i64,
    /// Offset in the file, in bytes.
    pub(crate) pos: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Name of the file, if there is one.
    pub(crate) file: Option<String>,
    /// True if a chunk lies in the range after all: the row is of a pack that had the same id before.
    pub(crate) is_used: bool,
}

/// Returns at most `limit` holes that were freed at or before a time.
pub(crate) fn holes(conn: &Connection, before: i64, limit: usize) -> DbResult<Vec<Hole>> {
    // Chunks of a pack do not overlap: of those that begin before the end of the hole, the last one ends
    // last.
    let sql = "SELECT hole.pack, hole.pos, hole.len, file, coalesce((
                 SELECT chunk.pos + chunk.len > hole.pos FROM chunk
                 WHERE chunk.pack = hole.pack AND chunk.pos < hole.pos + hole.len
                 ORDER BY chunk.pos DESC LIMIT 1), 0)
         FROM hole LEFT JOIN pack ON pack.id = hole.pack
         WHERE freed_at <= ?1 ORDER BY freed_at, hole.pack, hole.pos LIMIT ?2";
    all(conn, sql, params![before, limit], |row| {
        let (pack, pos, len) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Hole { pack, pos, len, file: row.get(3)?, is_used: row.get(4)? })
    })
}

/// Removes a hole that was given back, unless its pack has been removed and another one has its id.
pub(crate) fn remove_hole(conn: &Connection, hole: &Hole) -> DbResult<()> {
    let sql = "DELETE FROM hole WHERE pack = ?1 AND pos = ?2 AND (SELECT file FROM pack WHERE id = ?1) IS ?3";
    conn.prepare_cached(sql)?.execute(params![hole.pack, hole.pos, hole.file])?;
    Ok(())
}

/// Returns true if a pack file was doomed or a hole freed at or before a time.
pub(crate) fn any_due(conn: &Connection, before: i64) -> DbResult<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pack WHERE doomed_at <= ?1)
            OR EXISTS (SELECT 1 FROM hole WHERE freed_at <= ?1)";
    Ok(conn.query_row(sql, [before], |row| row.get(0))?)
}
