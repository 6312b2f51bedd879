//! Table `past_lease`: commits whose states processes still read through views of the past, which they opened
//! before `head.oldest` was raised.

use rusqlite::{Connection, params};

use crate::sqlite::{DbResult, all};

/// Takes or extends the lease of a process on a commit.
pub(crate) fn put(conn: &Connection, holder: &[u8; 16], seq: u64, until: i64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO past_lease (holder, seq, until) VALUES (?1, ?2, ?3)")?
        .execute(params![holder, seq, until])?;
    Ok(())
}

/// Removes the lease of a process on a commit.
pub(crate) fn remove(conn: &Connection, holder: &[u8; 16], seq: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM past_lease WHERE holder = ?1 AND seq = ?2")?
        .execute(params![holder, seq])?;
    Ok(())
}

/// Removes the leases that have ended.
pub(crate) fn remove_ended(conn: &Connection, now: i64) -> DbResult<()> {
    conn.execute("DELETE FROM past_lease WHERE until <= ?1", [now])?;
    Ok(())
}

/// Returns the first commit with a lease.
pub(crate) fn least(conn: &Connection, now: i64) -> DbResult<Option<u64>> {
    Ok(conn.query_row("SELECT min(seq) FROM past_lease WHERE until > ?1", [now], |row| row.get(0))?)
}

/// Returns the commits with leases, in order.
pub(crate) fn all_of(conn: &Connection, now: i64) -> DbResult<Vec<u64>> {
    all(conn, "SELECT DISTINCT seq FROM past_lease WHERE until > ?1 ORDER BY seq", [now], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    #[test]
    fn only_leases_in_force_count() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        assert_eq!((least(&conn, 0).unwrap(), all_of(&conn, 0).unwrap()), (None, vec![]));
        for (holder, seq, until) in [(1, 5, 100), (2, 5, 300), (1, 3, 100), (1, 9, 100)] {
            put(&conn, &[holder; 16], seq, until).unwrap();
        }
        put(&conn, &[1; 16], 9, 200).unwrap();
        assert_eq!((least(&conn, 99).unwrap(), all_of(&conn, 99).unwrap()), (Some(3), vec![3, 5, 9]));
        assert_eq!((least(&conn, 100).unwrap(), all_of(&conn, 100).unwrap()), (Some(5), vec![5, 9]));
        remove(&conn, &[2; 16], 5).unwrap();
        assert_eq!(all_of(&conn, 100).unwrap(), [9]);
        remove_ended(&conn, 100).unwrap();
        assert_eq!(all_of(&conn, 0).unwrap(), [9], "ended leases are removed");
    }
}
