//! Reads of the table of passages.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use crate::model::Ino;
use crate::sqlite::{DbResult, one};
use crate::text::passage::Span;

/// Behind every offset: the largest number that SQLite takes.
pub(crate) const MAX_OFFSET: u64 = i64::MAX as u64;
/// A passage in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// Its row.
    pub(crate) id: i64,
    /// The file.
    pub(crate) ino: Ino,
    /// Where it lies in bytes.
    pub(crate) span: Span,
    /// How many line feeds it holds.
    pub(crate) line_feeds: u64,
    /// Whether it is indexed as JSON.
    pub(crate) json: bool,
}

/// Up to which row passages are in the index of format 2; `None` if it is gone. 0 while it goes: nothing
/// reads it any more.
pub(crate) fn old_until(conn: &Connection) -> DbResult<Option<i64>> {
    one(conn, "SELECT until FROM old_index", [], |row| row.get(0))
}

/// The columns that [`passage`] reads.
pub(crate) const COLUMNS: &str = "id, ino, off, len, lines, newline, json";

pub(crate) fn passage(row: &Row<'_>) -> rusqlite::Result<Passage> {
    let span = Span { off: row.get(2)?, len: row.get(3)?, newline: row.get(5)? };
    Ok(Passage { id: row.get(0)?, ino: Ino(row.get(1)?), span, line_feeds: row.get(4)?, json: row.get(6)? })
}

fn prepare<'c>(conn: &'c Connection, rest: &str) -> rusqlite::Result<CachedStatement<'c>> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM passage WHERE ino = ?1 {rest}"))
}

/// The passages of a file that begin from `from` up to and including `to`, in order.
pub(crate) fn passages(conn: &Connection, ino: Ino, from: u64, to: u64) -> rusqlite::Result<Vec<Passage>> {
    let mut statement = prepare(conn, "AND off BETWEEN ?2 AND ?3 ORDER BY off")?;
    statement.query_map(params![ino.0, from, to], passage)?.collect()
}

/// The last passage of a file that begins before `off`.
pub(crate) fn last_before(conn: &Connection, ino: Ino, off: u64) -> rusqlite::Result<Option<Passage>> {
    let mut statement = prepare(conn, "AND off < ?2 ORDER BY off DESC LIMIT 1")?;
    statement.query_row(params![ino.0, off], passage).optional()
}
