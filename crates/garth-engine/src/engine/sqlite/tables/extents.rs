//! Table `extent`: the bytes of a chunk that a file shows at an offset, now (`till` is 0) and in the past.

use rusqlite::{Connection, Row, params};

use crate::engine::planner::ExtentRow;
use crate::engine::sqlite::tables::MAX;
use crate::sqlite::{DbResult, all, one};

/// Returns the commit that wrote the bytes of an extent, from its column `older`; 0 if several commits did.
pub(crate) fn written(since: u64, older: i64) -> u64 {
    u64::try_from(older).map_or(0, |older| since.saturating_sub(older))
}

/// Returns the column `older` of an extent.
fn older(row: &ExtentRow) -> i64 {
    // -1: several commits wrote them, which table `origin` has.
    if row.written == 0 { -1 } else { row.since.saturating_sub(row.written).cast_signed() }
}

fn extent_row(row: &Row<'_>) -> rusqlite::Result<ExtentRow> {
    Ok(ExtentRow {
        off: row.get(0)?,
        len: row.get(1)?,
        since: row.get(2)?,
        chunk: row.get(3)?,
        skip: row.get(4)?,
        written: written(row.get(2)?, row.get(5)?),
    })
}

/// Extents of node `?1` that overlap `?4..?3`, now or after commit `?5`. `?2` is [`first_overlap`]: without
/// that bound the index would be read from the first byte of the file on. Extents of the past come in the
/// order of their ends, and those that cover the range come first.
macro_rules! extents_sql {
    (now, $columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM extent WHERE ino = ?1 AND till = 0 AND off > ?2 AND off < ?3 AND off + len > ?4"
        )
    };
    (as_of, $columns:literal) => {
        concat!(
            extents_sql!(now, $columns),
            " AND since <= ?5 UNION ALL SELECT ",
            $columns,
            // Through the primary key these rows come in the order of `till`.
            " FROM extent WHERE ino = ?1 AND till > ?5 AND since <= ?5 AND off < ?3 AND off + len > ?4"
        )
    };
}
pub(super) use extents_sql;

/// Returns the offset after which the first live extent begins that overlaps `from`: just before the last one
/// that begins at or before `from`, because live extents do not overlap.
pub(super) fn first_overlap(conn: &Connection, ino: u64, from: u64) -> DbResult<i64> {
    if from == 0 {
        return Ok(-1);
    }
    let sql = "SELECT max(off) FROM extent WHERE ino = ?1 AND till = 0 AND off <= ?2";
    let off: Option<Option<u64>> = one(conn, sql, params![ino, from.min(MAX)], |row| row.get(0))?;
    Ok(off.flatten().unwrap_or(from.min(MAX)).cast_signed() - 1)
}

/// Returns the live extents that overlap `from..to`.
pub(crate) fn overlapping(conn: &Connection, ino: u64, from: u64, to: u64) -> DbResult<Vec<ExtentRow>> {
    const SQL: &str = concat!(extents_sql!(now, "off, len, since, chunk, skip, older"), " ORDER BY off");
    all(conn, SQL, params![ino, first_overlap(conn, ino, from)?, to.min(MAX), from], extent_row)
}

/// Returns the extents after commit `seq` that overlap `from..to`.
pub(crate) fn overlapping_at(
    conn: &Connection,
    ino: u64,
    seq: u64,
    from: u64,
    to: u64,
) -> DbResult<Vec<ExtentRow>> {
    const SQL: &str = extents_sql!(as_of, "off, len, since, chunk, skip, older");
    let mut statement = conn.prepare_cached(SQL)?;
    let mut rows = statement.query(params![ino, first_overlap(conn, ino, from)?, to.min(MAX), from, seq])?;
    // Extents of one state do not overlap: once their lengths add up to the range, it is covered.
    let (mut found, mut left) = (Vec::new(), to.saturating_sub(from));
    while left > 0
        && let Some(row) = rows.next()?
    {
        let row = extent_row(row)?;
        left = left.saturating_sub(row.cut(from, to).len);
        found.push(row);
    }
    found.sort_unstable_by_key(|row| row.off);
    Ok(found)
}

/// Returns at most `limit` extents of a node from `(till, off)` on, each with its `till`: the live ones, then
/// those that ended after commit `since`.
pub(crate) fn since(
    conn: &Connection,
    ino: u64,
    since: u64,
    (till, off): (u64, u64),
    limit: usize,
) -> DbResult<Vec<(u64, ExtentRow)>> {
    let with_till = |row: &Row<'_>| Ok((row.get(6)?, extent_row(row)?));
    let mut rows = Vec::new();
    if till == 0 {
        let sql = "SELECT off, len, since, chunk, skip, older, till FROM extent
             WHERE ino = ?1 AND till = 0 AND off >= ?2 ORDER BY off LIMIT ?3";
        rows = all(conn, sql, params![ino, off, limit], with_till)?;
    }
    // Never before `since + 1`: extents that ended earlier were examined by an earlier run.
    let (till, off) = (till, off).max((since + 1, 0));
    let sql = "SELECT off, len, since, chunk, skip, older, till FROM extent
         WHERE ino = ?1 AND (till, off) >= (?2, ?3) ORDER BY till, off LIMIT ?4";
    if rows.len() < limit {
        rows.extend(all(conn, sql, params![ino, till, off, limit - rows.len()], with_till)?);
    }
    Ok(rows)
}

/// Calls `take` for each live extent that overlaps `from..to`, in order, until it returns false. Only offset
/// and length are read.
pub(crate) fn each_live(
    conn: &Connection,
    ino: u64,
    (from, to): (u64, u64),
    take: &mut dyn FnMut(ExtentRow) -> bool,
) -> DbResult<()> {
    const SQL: &str = concat!(extents_sql!(now, "off, len"), " ORDER BY off");
    let mut statement = conn.prepare_cached(SQL)?;
    let mut rows = statement.query(params![ino, first_overlap(conn, ino, from)?, to, from])?;
    while let Some(row) = rows.next()? {
        let extent =
            ExtentRow { off: row.get(0)?, len: row.get(1)?, since: 0, chunk: 0, skip: 0, written: 0 };
        if !take(extent) {
            break;
        }
    }
    Ok(())
}

/// Returns the offset of the first live extent at or after `off`.
pub(crate) fn next_offset(conn: &Connection, ino: u64, off: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT off FROM extent WHERE ino = ?1 AND till = 0 AND off >= ?2 ORDER BY off LIMIT 1";
    one(conn, sql, [ino, off], |row| row.get(0))
}

/// Returns the extent of a node with this `till` and offset.
pub(crate) fn get(conn: &Connection, ino: u64, (till, off): (u64, u64)) -> DbResult<Option<ExtentRow>> {
    let sql = "SELECT off, len, since, chunk, skip, older FROM extent
         WHERE ino = ?1 AND till = ?2 AND off = ?3";
    one(conn, sql, params![ino, till, off], extent_row)
}

/// Writes a live extent.
pub(crate) fn put(conn: &Connection, ino: u64, row: &ExtentRow) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT INTO extent (ino, till, off, len, since, chunk, skip, older) VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![ino, row.off, row.len, row.since, row.chunk, row.skip, older(row)])?;
    Ok(())
}

/// Ends a live extent with commit `seq`.
pub(crate) fn close(conn: &Connection, ino: u64, off: u64, seq: u64) -> DbResult<()> {
    conn.prepare_cached("UPDATE extent SET till = ?3 WHERE ino = ?1 AND till = 0 AND off = ?2")?
        .execute(params![ino, off, seq])?;
    Ok(())
}

/// Gives the extent at the offset of `row` the length, the chunk (from its first byte) and the writer of
/// `row`.
pub(crate) fn replace(conn: &Connection, ino: u64, till: u64, row: &ExtentRow) -> DbResult<()> {
    conn.prepare_cached(
        "UPDATE extent SET len = ?4, chunk = ?5, skip = 0, older = ?6 WHERE ino = ?1 AND till = ?2 AND off = ?3",
    )?
    .execute(params![ino, till, row.off, row.len, row.chunk, older(row)])?;
    Ok(())
}

pub(crate) fn remove(conn: &Connection, ino: u64, (till, off): (u64, u64)) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM extent WHERE ino = ?1 AND till = ?2 AND off = ?3")?
        .execute(params![ino, till, off])?;
    Ok(())
}

/// An extent of a node that is to be removed.
pub(crate) struct Removable {
    /// `till` and offset.
    pub(crate) key: (u64, u64),
    pub(crate) chunk: u64,
    pub(crate) len: u64,
}

impl From<(u64, ExtentRow)> for Removable {
    fn from((till, row): (u64, ExtentRow)) -> Self {
        Self { key: (till, row.off), chunk: row.chunk, len: row.len }
    }
}

fn removable(row: &Row<'_>) -> rusqlite::Result<Removable> {
    Ok(Removable { key: (row.get(0)?, row.get(1)?), chunk: row.get(2)?, len: row.get(3)? })
}

/// Returns at most `limit` extents of a node that ended at or before commit `till`.
pub(crate) fn ended_until(conn: &Connection, ino: u64, till: u64, limit: usize) -> DbResult<Vec<Removable>> {
    // Live extents have `till` 0.
    let sql = "SELECT till, off, chunk, len FROM extent WHERE ino = ?1 AND till > 0 AND till <= ?2
         ORDER BY till, off LIMIT ?3";
    all(conn, sql, params![ino, till, limit], removable)
}

/// Returns true if a node has an extent that ended, and that only states after the commits from `since` up to
/// but excluding `till` show.
pub(crate) fn is_any_within(conn: &Connection, ino: u64, (since, till): (u64, u64)) -> DbResult<bool> {
    // Those that ended earlier are shown by earlier states.
    let sql = "SELECT 1 FROM extent WHERE ino = ?1 AND till > ?2 AND till <= ?3 AND since >= ?2 LIMIT 1";
    Ok(one(conn, sql, [ino, since, till], |_| Ok(()))?.is_some())
}

/// Returns at most `limit` live extents of a node.
pub(crate) fn live(conn: &Connection, ino: u64, limit: usize) -> DbResult<Vec<Removable>> {
    let sql = "SELECT till, off, chunk, len FROM extent WHERE ino = ?1 AND till = 0 ORDER BY off LIMIT ?2";
    all(conn, sql, params![ino, limit], removable)
}

/// Calls `take` with the extents of a node: first commit, end (0 for a live one) and length. Without
/// `with_live` those of the past only.
pub(crate) fn each_span(
    conn: &Connection,
    ino: u64,
    with_live: bool,
    take: &mut dyn FnMut(u64, u64, u64),
) -> DbResult<()> {
    let mut statement =
        conn.prepare_cached("SELECT since, till, len FROM extent WHERE ino = ?1 AND till >= ?2")?;
    let mut rows = statement.query(params![ino, u64::from(!with_live)])?;
    while let Some(row) = rows.next()? {
        take(row.get(0)?, row.get(1)?, row.get(2)?);
    }
    Ok(())
}

/// Makes at most `limit` extents that ended after commit `seq` live again. Returns their number.
pub(crate) fn reopen_after(conn: &Connection, ino: u64, seq: u64, limit: usize) -> DbResult<usize> {
    let sql = "UPDATE extent SET till = 0 WHERE ino = ?1 AND (till, off) IN
         (SELECT till, off FROM extent WHERE ino = ?1 AND till > ?2 LIMIT ?3)";
    Ok(conn.prepare_cached(sql)?.execute(params![ino, seq, limit])?)
}
