//! Table `replaced`: nodes with an ended version that the log does not name, by the commit that ended it.

use rusqlite::{Connection, params};

use crate::sqlite::{DbResult, all};

/// Records that commit `seq` replaced or ended a version of a node.
pub(crate) fn put(conn: &Connection, seq: u64, ino: u64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR IGNORE INTO replaced (seq, ino) VALUES (?1, ?2)")?
        .execute(params![seq, ino])?;
    Ok(())
}

/// Returns the commits and nodes after an entry up to commit `last`, at most `limit`.
pub(crate) fn between(
    conn: &Connection,
    (seq, ino): (u64, u64),
    last: u64,
    limit: usize,
) -> DbResult<Vec<(u64, u64)>> {
    let sql = "SELECT seq, ino FROM replaced WHERE (seq, ino) > (?1, ?2) AND seq <= ?3
         ORDER BY seq, ino LIMIT ?4";
    all(conn, sql, params![seq, ino, last, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Removes the nodes of all commits up to and including this entry.
pub(crate) fn remove_until(conn: &Connection, (seq, ino): (u64, u64)) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM replaced WHERE (seq, ino) <= (?1, ?2)")?.execute([seq, ino])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    #[test]
    fn replaced_nodes_are_found_by_commit() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        for (seq, ino) in [(3, 9), (1, 8), (3, 7), (3, 9), (5, 1)] {
            put(&conn, seq, ino).unwrap();
        }
        assert_eq!(between(&conn, (1, 8), 4, 10).unwrap(), [(3, 7), (3, 9)]);
        assert_eq!(between(&conn, (0, 0), 5, 2).unwrap(), [(1, 8), (3, 7)]);
        remove_until(&conn, (3, 7)).unwrap();
        assert_eq!(between(&conn, (0, 0), 5, 10).unwrap(), [(3, 9), (5, 1)]);
    }
}
