//! Table `content_gone`: files whose old content is gone, while the log still has the commits that show it.
//! `gc` first marks such a file, and removes the content after the grace period.

use rusqlite::{Connection, params};

use crate::sqlite::{DbResult, one};

/// Returns the last commit of which the replaced content of a node is gone; 0 if all content is there.
pub(crate) fn until(conn: &Connection, ino: u64) -> DbResult<u64> {
    let sql = "SELECT until FROM content_gone WHERE ino = ?1";
    Ok(one(conn, sql, [ino], |row| row.get(0))?.unwrap_or(0))
}

/// Marks the content of a node that was replaced up to commit `until`: no later reader sees it. An earlier
/// commit than before changes only the time of the mark.
pub(crate) fn mark(conn: &Connection, ino: u64, until: u64, now: i64) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT INTO content_gone (ino, until, marked) VALUES (?1, ?2, ?3)
         ON CONFLICT (ino) DO UPDATE SET until = max(until, excluded.until), marked = excluded.marked",
    )?
    .execute(params![ino, until, now])?;
    Ok(())
}

/// Returns the node that was marked first, if that was at or before a time, and the commit of its mark.
pub(crate) fn next_marked(conn: &Connection, before: i64) -> DbResult<Option<(u64, u64)>> {
    let sql = "SELECT ino, until FROM content_gone WHERE marked <= ?1 ORDER BY marked LIMIT 1";
    one(conn, sql, [before], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Notes that the marked content of a node is removed.
pub(crate) fn settle(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("UPDATE content_gone SET marked = NULL WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

/// Removes the row of a node that is removed.
pub(crate) fn remove(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM content_gone WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    #[test]
    fn marked_nodes_come_in_order_of_their_marks() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        mark(&conn, 7, 20, 200).unwrap();
        mark(&conn, 8, 10, 100).unwrap();
        assert_eq!(next_marked(&conn, 99).unwrap(), None);
        assert_eq!(next_marked(&conn, 300).unwrap(), Some((8, 10)));
        settle(&conn, 8).unwrap();
        assert_eq!(next_marked(&conn, 199).unwrap(), None);
        assert_eq!(next_marked(&conn, 200).unwrap(), Some((7, 20)));
        assert_eq!(until(&conn, 8).unwrap(), 10, "content that is removed stays gone");
        assert_eq!(until(&conn, 9).unwrap(), 0);
        remove(&conn, 8).unwrap();
        assert_eq!(until(&conn, 8).unwrap(), 0);
    }

    #[test]
    fn content_that_is_gone_never_returns() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        mark(&conn, 7, 20, 100).unwrap();
        mark(&conn, 7, 10, 200).unwrap();
        assert_eq!(until(&conn, 7).unwrap(), 20);
        assert_eq!(next_marked(&conn, 199).unwrap(), None, "it waits from the last mark on");
    }
}
