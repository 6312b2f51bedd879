//! Table `judged`: the prefix of a file that a constraint was found to hold for, so that an append is judged
//! alone.

use rusqlite::{Connection, params};

use crate::engine::planner::JudgedRow;
use crate::rule::{Digest, Place};
use crate::sqlite::{DbResult, all, one};

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

/// Constraint and node of a row.
pub(crate) type Key = (Vec<u8>, u64);

/// Returns at most `limit` rows after a key: their keys, and false for those that no file can have: a place
/// beyond the content, more lines than bytes, or content of a commit to come.
pub(crate) fn next(conn: &Connection, after: &Key, limit: usize) -> DbResult<Vec<(Key, bool)>> {
    // A row of other content than the newest is not used, and the size of that content may be gone.
    let sql = "SELECT demand, ino, lines >= 1 AND lines - 1 <= until
             AND etag <= (SELECT seq FROM head)
             AND until <= coalesce((SELECT iif(content_seq = etag, size, NULL) FROM node
                 WHERE node.ino = judged.ino ORDER BY seq DESC LIMIT 1), until)
         FROM judged WHERE (demand, ino) > (?1, ?2) ORDER BY demand, ino LIMIT ?3";
    all(conn, sql, params![after.0, after.1, limit], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))
}

/// Removes a row: the next write to the file is judged from its start.
pub(crate) fn remove_one(conn: &Connection, (constraint, ino): &Key) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM judged WHERE demand = ?1 AND ino = ?2")?
        .execute(params![constraint, ino])?;
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
