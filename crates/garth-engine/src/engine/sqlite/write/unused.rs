//! Stored bytes that nothing refers to any more: chunks on their way out, and the ranges of pack files (table
//! `hole`) and whole pack files (`pack.doomed_at`) that `gc` gives back to the disk after the grace.

use rusqlite::{Connection, params};

use super::staged;
use crate::model::Timestamp;
use crate::sqlite::{DbResult, one};

/// Removes a chunk that nothing refers to. Returns its length; `None` if there is none.
pub(crate) fn remove_chunk(conn: &Connection, id: u64, now: Timestamp) -> DbResult<Option<u64>> {
    for sql in ["DELETE FROM chunk_refs WHERE chunk = ?1", "DELETE FROM origin WHERE chunk = ?1"] {
        conn.prepare_cached(sql)?.execute([id])?;
    }
    let sql = "DELETE FROM chunk WHERE id = ?1 RETURNING len, pack, pos";
    let row: Option<(u64, Option<i64>, Option<u64>)> =
        one(conn, sql, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let Some((len, pack, pos)) = row else { return Ok(None) };
    if let (Some(pack), Some(pos)) = (pack, pos) {
        add_hole(conn, pack, pos, len, now)?;
        doom_if_empty(conn, pack, now)?;
    }
    Ok(Some(len))
}

/// Records that nothing refers to a range of a pack file.
pub(crate) fn add_hole(conn: &Connection, pack: i64, pos: u64, len: u64, now: Timestamp) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO hole (pack, pos, len, freed_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![pack, pos, len, now.0])?;
    Ok(())
}

/// Marks a pack file in which no chunk is left.
pub(crate) fn doom_if_empty(conn: &Connection, pack: i64, now: Timestamp) -> DbResult<()> {
    let sql =
        "UPDATE pack SET doomed_at = ?2 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM chunk WHERE pack = ?1)";
    conn.prepare_cached(sql)?.execute(params![pack, now.0])?;
    Ok(())
}

/// Those of `files` that belong to no pack and to no upload. List them before the transaction on `conn`
/// begins: an upload makes its row before its file, so a file listed then has its row by now.
pub(crate) fn orphans<'a>(conn: &Connection, files: &'a [String]) -> DbResult<Vec<&'a String>> {
    let mut orphans = Vec::new();
    for file in files {
        let known = one(conn, "SELECT 1 FROM pack WHERE file = ?1", [file], |_| Ok(()))?.is_some();
        if !known && !staged::owns_pack(conn, file)? {
            orphans.push(file);
        }
    }
    Ok(orphans)
}
