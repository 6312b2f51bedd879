//! Tables `unnamed` and `lease`: nodes that were written after their last name was removed, and the leases of
//! the processes that hold such nodes open. `gc` marks an unnamed node that has no lease (`doomed_at`).

use rusqlite::{Connection, params};

use crate::sqlite::{DbResult, all, one};

/// Records a node without a name, which `gc` then looks at.
pub(crate) fn put_unnamed(conn: &Connection, ino: u64) -> DbResult<()> {
    // A node that is listed keeps its mark, which only a lease removes.
    conn.prepare_cached("INSERT OR IGNORE INTO unnamed (ino) VALUES (?1)")?.execute([ino])?;
    Ok(())
}

/// Records a node without a name, and marks it unless a process has a lease on it or it is marked.
pub(crate) fn put_marked(conn: &Connection, ino: u64, now: i64) -> DbResult<()> {
    put_unnamed(conn, ino)?;
    let sql = "UPDATE unnamed SET doomed_at = ?2 WHERE ino = ?1 AND doomed_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.ino = ?1)";
    conn.prepare_cached(sql)?.execute(params![ino, now])?;
    Ok(())
}

/// Returns true for a node that `gc` looks at: perhaps a process has it open.
pub(crate) fn is_unnamed(conn: &Connection, ino: u64) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM unnamed WHERE ino = ?1", [ino], |_| Ok(()))?.is_some())
}

/// Takes or extends the lease of a process on a node.
pub(crate) fn put(conn: &Connection, ino: u64, holder: &[u8; 16], until: i64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO lease (ino, holder, until) VALUES (?1, ?2, ?3)")?
        .execute(params![ino, holder, until])?;
    Ok(())
}

/// Removes the lease of a process on a node.
pub(crate) fn remove(conn: &Connection, ino: u64, holder: &[u8; 16]) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM lease WHERE ino = ?1 AND holder = ?2")?.execute(params![ino, holder])?;
    Ok(())
}

/// Removes the leases that have ended.
pub(crate) fn remove_ended(conn: &Connection, now: i64) -> DbResult<()> {
    conn.execute("DELETE FROM lease WHERE until <= ?1", [now])?;
    Ok(())
}

/// Returns the nodes that `gc` has marked.
pub(crate) fn marked(conn: &Connection) -> DbResult<Vec<u64>> {
    all(conn, "SELECT ino FROM unnamed WHERE doomed_at IS NOT NULL", [], |row| row.get(0))
}

/// Returns the first unnamed node without a lease, from inode `from` on, and the time at which it was marked.
pub(crate) fn next_unleased(conn: &Connection, from: u64) -> DbResult<Option<(u64, Option<i64>)>> {
    let sql = "SELECT ino, doomed_at FROM unnamed
         WHERE ino >= ?1 AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.ino = unnamed.ino) ORDER BY ino LIMIT 1";
    one(conn, sql, [from], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Marks an unnamed node.
pub(crate) fn mark(conn: &Connection, ino: u64, now: i64) -> DbResult<()> {
    conn.prepare_cached("UPDATE unnamed SET doomed_at = ?2 WHERE ino = ?1")?.execute(params![ino, now])?;
    Ok(())
}

/// Removes the mark of an unnamed node.
pub(crate) fn unmark(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("UPDATE unnamed SET doomed_at = NULL WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

/// Removes a node from the list: its later versions were removed.
pub(crate) fn remove_unnamed(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM unnamed WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}
