//! Table `chunk_refs`: the number of extents and staged bodies that refer to each chunk. A chunk without a
//! row has one reference, so that an append writes no row. `gc` collects chunks with 0. Why:
//! `docs/decisions/counted-references.md`.

use rusqlite::{Connection, params};

use crate::error::Error;
use crate::sqlite::{DbResult, one};

/// Adds `by` to the count of references to a chunk.
pub(crate) fn change(conn: &Connection, chunk: u64, by: i64) -> DbResult<()> {
    // Without a row the count is 1. A count that is 1 again loses its row.
    let sql = "INSERT INTO chunk_refs (chunk, count) VALUES (?1, 1 + ?2)
               ON CONFLICT (chunk) DO UPDATE SET count = count + ?2 RETURNING count";
    match conn.prepare_cached(sql)?.query_row(params![chunk, by], |row| row.get::<_, i64>(0))? {
        1 => drop(conn.prepare_cached("DELETE FROM chunk_refs WHERE chunk = ?1")?.execute([chunk])?),
        ..=-1 => return Err(Error::damaged("the reference count of a chunk is too low").into()),
        _ => {}
    }
    Ok(())
}

/// Returns true if a chunk has exactly one reference.
pub(crate) fn is_single(conn: &Connection, chunk: u64) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM chunk_refs WHERE chunk = ?1", [chunk], |_| Ok(()))?.is_none())
}

/// Returns true if nothing refers to a chunk.
pub(crate) fn is_unused(conn: &Connection, chunk: u64) -> DbResult<bool> {
    let sql = "SELECT 1 FROM chunk_refs WHERE chunk = ?1 AND count = 0";
    Ok(one(conn, sql, [chunk], |_| Ok(()))?.is_some())
}

/// Returns a chunk that nothing refers to.
pub(crate) fn any_unused(conn: &Connection) -> DbResult<Option<u64>> {
    one(conn, "SELECT chunk FROM chunk_refs WHERE count = 0 LIMIT 1", [], |row| row.get(0))
}

/// Removes the count of a chunk that is being removed.
pub(crate) fn remove(conn: &Connection, chunk: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM chunk_refs WHERE chunk = ?1")?.execute([chunk])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;
    use crate::error::ErrorKind;

    #[test]
    fn only_counts_other_than_one_have_a_row() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let singles = || [7, 8].map(|chunk| is_single(&conn, chunk).unwrap());
        change(&conn, 7, 2).unwrap();
        change(&conn, 8, -1).unwrap();
        assert_eq!((singles(), any_unused(&conn).unwrap()), ([false, false], Some(8)));
        change(&conn, 7, -2).unwrap();
        change(&conn, 8, 1).unwrap();
        assert_eq!((singles(), any_unused(&conn).unwrap()), ([true, true], None));
    }

    #[test]
    fn count_below_zero_is_damage() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        change(&conn, 7, 1).unwrap();
        for (chunk, by) in [(7, -3), (8, -2)] {
            assert_eq!(change(&conn, chunk, by).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
