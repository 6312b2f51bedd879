//! Table `judged`: the prefix of a file that a constraint was found to hold for, so that an append is judged
//! alone.

use rusqlite::{Connection, params};

use crate::engine::planner::JudgedRow;
use crate::rule::{Digest, Place};
use crate::sqlite::{DbResult, one};

/// Returns the prefix of a file that a constraint holds for.
pub(crate) fn get(conn: &Connection, ino: u64, constraint: &Digest) -> DbResult<Option<JudgedRow>> {
    let sql = "SELECT etag, until, lines FROM judged WHERE ino = ?1 AND demand = ?2";
    one(conn, sql, params![ino, constraint], |row| {
        let until = Place { offset: row.get(1)?, line: row.get(2)? };
        Ok(JudgedRow { etag: row.get(0)?, until })
    })
}

/// Writes the prefix of a file that a constraint holds for.
pub(crate) fn put(conn: &Connection, (ino, constraint): &(u64, Digest), row: &JudgedRow) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO judged (ino, demand, etag, until, lines) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![ino, constraint, row.etag, row.until.offset, row.until.line])?;
    Ok(())
}

/// Removes the prefixes of a file that has lost its last name.
pub(crate) fn remove(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM judged WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

/// Returns the next constraint after this one that has rows.
pub(crate) fn next_demand(conn: &Connection, after: &[u8]) -> DbResult<Option<Vec<u8>>> {
    let sql = "SELECT min(demand) FROM judged WHERE demand > ?1";
    Ok(one(conn, sql, [after], |row| row.get(0))?.flatten())
}

/// Removes at most `limit` rows of a constraint. Returns their number.
pub(crate) fn remove_of_constraint(conn: &Connection, constraint: &[u8], limit: usize) -> DbResult<usize> {
    let sql = "DELETE FROM judged WHERE demand = ?1 AND ino IN
         (SELECT ino FROM judged WHERE demand = ?1 LIMIT ?2)";
    Ok(conn.prepare_cached(sql)?.execute(params![constraint, limit])?)
}
