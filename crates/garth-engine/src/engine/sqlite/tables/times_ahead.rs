//! Times of marks and leases that were written while the clock was ahead. They are corrected, so that no
//! grace period and no lease lasts until the clock gets there again. Tables `content_gone` and `fold` have
//! their own corrections, with their steps.

use rusqlite::{Connection, params};

use crate::engine::relational::open_nodes;
use crate::engine::relational::uploads::LEASE;
use crate::model::Timestamp;
use crate::sqlite::{DbResult, one};

/// Table, column, key, and the most seconds after now that a time in the column can have. A process that has
/// ended renews no lease, so its leases must not last longer than those that are taken now.
const TIMES: [(&str, &str, &str, i64); 6] = [
    ("pack", "doomed_at", "id", 0),
    ("hole", "freed_at", "pack, pos", 0),
    ("unnamed", "doomed_at", "ino", 0),
    ("staged", "lease", "id", LEASE),
    ("lease", "until", "ino, holder", open_nodes::LEASE),
    ("past_lease", "until", "holder, seq", open_nodes::LEASE),
];

/// Returns true if a time is later than one that could be written now.
pub(crate) fn any(conn: &Connection, now: Timestamp) -> DbResult<bool> {
    for (table, column, _, after) in TIMES {
        let sql = format!("SELECT 1 FROM {table} WHERE {column} > ?1 LIMIT 1");
        if one(conn, &sql, [now.plus_seconds(after).0], |_| Ok(()))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sets such times to the latest ones that could be written now, at most `limit` of each table. Returns their
/// number.
pub(crate) fn correct(conn: &Connection, now: Timestamp, limit: usize) -> DbResult<usize> {
    let mut corrected = 0;
    for (table, column, key, after) in TIMES {
        let sql = format!(
            "UPDATE {table} SET {column} = ?1 WHERE ({key}) IN
             (SELECT {key} FROM {table} WHERE {column} > ?1 LIMIT ?2)"
        );
        let latest = now.plus_seconds(after).0;
        corrected += conn.prepare_cached(&sql)?.execute(params![latest, limit])?;
    }
    Ok(corrected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;
    use crate::engine::sqlite::tables::{leases, past_leases};
    use crate::sqlite::steps;

    #[test]
    fn times_of_a_clock_ahead_are_corrected() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let (now, ahead) = (Timestamp(1000), Timestamp(1001).plus_seconds(LEASE).0);
        let rows = format!(
            "INSERT INTO pack (file, size, doomed_at) VALUES ('a', 1, {ahead});
             INSERT INTO hole (pack, pos, len, freed_at) VALUES (1, 0, 1, {ahead}), (1, 5, 1, 1001);
             INSERT INTO unnamed (ino, doomed_at) VALUES (7, {ahead}), (8, NULL), (9, 1000);
             INSERT INTO staged (id, pieces, lease, owner) VALUES (x'00', NULL, {ahead}, '');
             INSERT INTO lease (ino, holder, until) VALUES (7, x'00', {ahead});
             INSERT INTO past_lease (holder, seq, until) VALUES (x'00', 1, {ahead}), (x'00', 2, 1001)"
        );
        assert!(!any(&conn, now).unwrap());
        conn.execute_batch(&rows).unwrap();
        assert!(any(&conn, now).unwrap());
        assert_eq!([1, 5, 5].map(|limit| correct(&conn, now, limit).unwrap()), [6, 1, 0]);
        assert!(!any(&conn, now).unwrap());
        assert!(any(&conn, Timestamp(999)).unwrap());
        // Not for as long as an upload waits.
        past_leases::remove_ended(&conn, now.plus_seconds(open_nodes::LEASE).0).unwrap();
        assert_eq!(past_leases::of_others(&conn, &[1; 16], 0).unwrap(), [0; 0]);
    }

    #[test]
    fn cost_does_not_depend_on_times_in_order() {
        let now = Timestamp(1000);
        let folder = tempfile::tempdir().unwrap();
        let conn = schema::database(folder.path()).connect_or_create().unwrap();
        schema::make_tables(&conn);
        steps::assert_same([10, 1000], |rows| {
            let fill = format!(
                "WITH RECURSIVE number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < {rows})
                 INSERT OR IGNORE INTO unnamed (ino, doomed_at) SELECT n, iif(n % 2, 1000, NULL) FROM number;
                 INSERT OR IGNORE INTO lease (ino, holder, until) SELECT ino, x'00', 2000 FROM unnamed;
                 INSERT OR IGNORE INTO past_lease (holder, seq, until) SELECT x'00', ino, 2000 FROM unnamed;
                 INSERT OR IGNORE INTO hole (pack, pos, len, freed_at) SELECT ino, 0, 1, 1000 FROM unnamed;
                 INSERT OR IGNORE INTO pack (file, size, doomed_at) SELECT ino, 1, 1000 FROM unnamed;
                 INSERT OR IGNORE INTO staged (id, pieces, lease, owner)
                     SELECT CAST(ino AS BLOB), NULL, 2000, '' FROM unnamed"
            );
            conn.execute_batch(&fill).unwrap();
            let look = || {
                assert!(!any(&conn, now).unwrap());
                leases::remove_ended(&conn, now.0).unwrap();
                past_leases::remove_ended(&conn, now.0).unwrap();
            };
            // SQLite counts jumps backwards, and a look without one costs least.
            1 + steps::here(look).1
        });
    }
}
