//! Garbage: what nothing refers to. `gc` removes it, `fsck` reports it.

use std::collections::HashSet;

use rusqlite::Connection;

use crate::engine::sqlite::write::staged;
use crate::sqlite::{DbResult, all};

/// Chunks that no extent and no finished upload needs: number and bytes.
pub(crate) fn chunks(conn: &Connection) -> DbResult<Vec<(u64, u64)>> {
    let waiting: HashSet<u64> =
        staged::contents(conn)?.into_iter().flat_map(|staged| staged.0).map(|(chunk, _)| chunk).collect();
    let sql = "SELECT id, len FROM chunk WHERE id NOT IN (SELECT chunk FROM extent)";
    let mut unused: Vec<(u64, u64)> = all(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    unused.retain(|(id, _)| !waiting.contains(id));
    Ok(unused)
}

/// Those of `files` that belong to no pack and to no upload. List them before the transaction on `conn`
/// begins: an upload makes its row before its file, so a file listed then has its row by now.
pub(crate) fn pack_files(conn: &Connection, files: &[String]) -> DbResult<Vec<String>> {
    let packs: Vec<String> = all(conn, "SELECT file FROM pack", [], |row| row.get(0))?;
    let known: HashSet<String> = packs.into_iter().chain(staged::pack_files(conn)?).collect();
    Ok(files.iter().filter(|file| !known.contains(*file)).cloned().collect())
}
