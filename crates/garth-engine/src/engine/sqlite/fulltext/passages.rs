//! Reads of the table of passages.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use crate::engine::search::Passage;
use crate::model::Ino;
use crate::sqlite::{DbResult, one};
use crate::text::passage::{Form, Span};

/// Returns the row up to which passages are in the index of format 2; `None` if that does not exist. 0 while
/// it is being removed: no search reads it any more.
pub(crate) fn old_until(conn: &Connection) -> DbResult<Option<i64>> {
    one(conn, "SELECT until FROM old_index", [], |row| row.get(0))
}

/// The columns that [`passage`] reads.
pub(crate) const COLUMNS: &str = "id, ino, off, len, lines, newline, json, words";

pub(crate) fn passage(row: &Row<'_>) -> rusqlite::Result<Passage> {
    let span = Span { off: row.get(2)?, len: row.get(3)?, newline: row.get(5)? };
    let form = match row.get(6)? {
        0 => Form::Text,
        1 => Form::Json,
        _ => Form::JsonLines,
    };
    let (id, ino) = (row.get(0)?, Ino(row.get(1)?));
    Ok(Passage { id, ino, span, line_feeds: row.get(4)?, form, words: row.get(7)? })
}

/// Returns the number that stands for a form in the table.
pub(crate) fn form_number(form: Form) -> u64 {
    match form {
        Form::Text => 0,
        Form::Json => 1,
        Form::JsonLines => 2,
    }
}

fn prepare<'c>(conn: &'c Connection, rest: &str) -> rusqlite::Result<CachedStatement<'c>> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM passage WHERE ino = ?1 {rest}"))
}

/// Returns the passages of a file that begin from `from` up to and including `to`, in order.
pub(crate) fn passages(conn: &Connection, ino: Ino, from: u64, to: u64) -> rusqlite::Result<Vec<Passage>> {
    let mut statement = prepare(conn, "AND off BETWEEN ?2 AND ?3 ORDER BY off")?;
    statement.query_map(params![ino.0, from, to], passage)?.collect()
}

/// Returns the last passage of a file that begins before `off`.
pub(crate) fn last_before(conn: &Connection, ino: Ino, off: u64) -> rusqlite::Result<Option<Passage>> {
    let mut statement = prepare(conn, "AND off < ?2 ORDER BY off DESC LIMIT 1")?;
    statement.query_row(params![ino.0, off], passage).optional()
}
