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

/// Returns the commits with leases of other processes than `holder`, in order.
pub(crate) fn of_others(conn: &Connection, holder: &[u8; 16], now: i64) -> DbResult<Vec<u64>> {
    let sql = "SELECT DISTINCT seq FROM past_lease WHERE until > ?1 AND holder <> ?2 ORDER BY seq";
    all(conn, sql, params![now, holder], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    #[test]
    fn only_leases_in_force_count() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let others = |holder, now| of_others(&conn, &[holder; 16], now).unwrap();
        assert_eq!(others(3, 0), [0; 0]);
        for (holder, seq, until) in [(1, 5, 100), (2, 5, 300), (1, 3, 100), (1, 9, 100)] {
            put(&conn, &[holder; 16], seq, until).unwrap();
        }
        put(&conn, &[1; 16], 9, 200).unwrap();
        assert_eq!((others(3, 99), others(3, 100)), (vec![3, 5, 9], vec![5, 9]));
        assert_eq!((others(1, 99), others(2, 99)), (vec![5], vec![3, 5, 9]));
        remove(&conn, &[2; 16], 5).unwrap();
        assert_eq!(others(3, 100), [9]);
        remove_ended(&conn, 100).unwrap();
        assert_eq!(others(3, 0), [9], "ended leases are removed");
    }
}
