//! Table `projected`: the keys that are derived from nodes, written in the commit that changes them.
//! `engine/planner/keys.rs` derives them.

mod keyed_rows;
pub(crate) mod rebuild;
pub(crate) mod update;

use rusqlite::{Connection, params};

use crate::engine::planner::{KeyRow, NodeRow};
use crate::model::{Kind, Projection};
use crate::path::TreePath;
use crate::sqlite::{DbResult, all};

fn insert(conn: &Connection, ino: u64, row: &KeyRow) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT INTO projected (projection, key, ino, line, off, len) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![row.projection.number(), row.key, ino, row.line, row.off, row.len])?;
    Ok(())
}

/// Removes all keys of a node.
pub(crate) fn forget(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM projected WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

/// Returns the names of the entries of a directory in which the file of a name has a key; `None` if more than
/// `limit` nodes have the key, or more than `limit` entries have such a file.
pub(crate) fn entries_with(
    conn: &Connection,
    (projection, key): (Projection, &str),
    (dir, file): (&TreePath, &str),
    limit: usize,
) -> DbResult<Option<Vec<String>>> {
    let number = projection.number();
    let count = "SELECT count(*) FROM (SELECT 1 FROM projected WHERE projection = ?1 AND key = ?2 LIMIT ?3)";
    let nodes: usize =
        conn.prepare_cached(count)?.query_row(params![number, key, limit + 1], |row| row.get(0))?;
    if nodes > limit {
        return Ok(None);
    }
    // `CROSS JOIN` keeps the order: from the nodes with the key to their names.
    let sql = "SELECT name.dir FROM projected CROSS JOIN name INDEXED BY name_ino ON name.ino = projected.ino
         WHERE projected.projection = ?1 AND projected.key = ?2
             AND name.dir > ?3 AND name.dir < ?4 AND name.name = ?5
         LIMIT ?6";
    let (from, to) = (format!("{}/", dir.key()), format!("{}0", dir.key()));
    let dirs: Vec<String> =
        all(conn, sql, params![number, key, from, to, file, limit + 1], |row| row.get(0))?;
    if dirs.len() > limit {
        return Ok(None);
    }
    let names = dirs.iter().filter_map(|dir| dir.strip_prefix(&*from));
    // A file of this name deeper in an entry is another one.
    Ok(Some(names.filter(|name| !name.contains('/')).map(str::to_owned).collect()))
}

/// Returns true if a node may have keys.
pub(crate) fn has_keys(node: &NodeRow) -> bool {
    node.attrs_seq > 0 || node.kind == Kind::File
}
