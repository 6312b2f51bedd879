//! The part of `fsck` that checks the search index. It only reads: `reindex` corrects what it finds.

use std::fmt;
use std::ops::Range;

use rusqlite::{Connection, params};

use crate::engine::search::indexing::{describe, hash};
use crate::engine::search::reindexing::MAX_OFFSET;
use crate::engine::sqlite::fulltext::index_writer::unindexed;
use crate::engine::sqlite::fulltext::passages::{old_until, passages};
use crate::engine::sqlite::fulltext::{background, line_counts};
use crate::model::Ino;
use crate::sqlite::DbResult;
use crate::text::passage::{Form, MAX, MAX_TEXT, SNIFF, is_text};

/// A fault of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The structure inside FTS5 is damaged; the report of SQLite.
    Structure(String),
    /// A passage whose words are not in the index.
    WithoutText(i64),
    /// Words in the index that belong to no passage.
    WithoutPassage(i64),
    /// The passages of a file do not cover it: they leave a gap or overlap at this byte, or end there.
    Cover(Ino, u64),
    /// The passage at this byte was made of other bytes than the file has, or its row describes it wrongly.
    Stale(Ino, u64),
    /// The file has passages and must have none, or must have some and has none.
    Presence(Ino),
    /// The line count of the block of the file at this byte is wrong.
    Lines(Ino, u64),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Structure(what) => write!(f, "the full-text index is damaged: {what}"),
            Self::WithoutText(id) => write!(f, "passage {id} is not in the full-text index"),
            Self::WithoutPassage(id) => write!(f, "row {id} of the full-text index belongs to no passage"),
            Self::Cover(ino, at) => write!(f, "the passages of node {} do not cover it at byte {at}", ino.0),
            Self::Stale(ino, at) => write!(f, "the passage of node {} at byte {at} is out of date", ino.0),
            Self::Presence(ino) => {
                write!(f, "node {} is wrongly in the search index, or missing from it", ino.0)
            }
            Self::Lines(ino, at) => write!(f, "the lines of node {} at byte {at} are counted wrongly", ino.0),
        }
    }
}

/// Returns true if the structure inside FTS5 is damaged.
///
/// # Errors
/// Errors of SQLite, except for damage to the index.
pub(crate) fn is_damaged(conn: &Connection) -> DbResult<bool> {
    Ok(!structure(conn)?.is_empty())
}

fn structure(conn: &Connection) -> DbResult<Vec<Fault>> {
    // Unlike FTS5's own command, this is no write to SQLite.
    let mut statement = conn.prepare("PRAGMA integrity_check(passage_word)")?;
    let answers: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(answers.into_iter().filter(|answer| answer != "ok").map(Fault::Structure).collect())
}

/// Returns the faults of the index that do not concern a single file.
///
/// # Errors
/// Errors of SQLite, except for damage to the index.
pub(crate) fn index(conn: &Connection) -> DbResult<Vec<Fault>> {
    let mut faults = structure(conn)?;
    // FTS5 has one row of `passage_word_docsize` for each of its rows. Passages up to `until` are in the
    // index of format 2, whose other rows do not matter.
    let until = old_until(conn)?.unwrap_or(0);
    let without_text =
        "SELECT id FROM passage WHERE id > ?1 AND id NOT IN (SELECT id FROM passage_word_docsize)";
    let without_passage =
        "SELECT id FROM passage_word_docsize WHERE id <= ?1 OR id NOT IN (SELECT id FROM passage)";
    let mut checks = vec![
        (without_text, Fault::WithoutText as fn(i64) -> Fault),
        (without_passage, Fault::WithoutPassage),
    ];
    if until > 0 {
        let without_text =
            "SELECT id FROM passage WHERE id <= ?1 AND id NOT IN (SELECT id FROM passage_text_docsize)";
        checks.push((without_text, Fault::WithoutText));
    }
    for (sql, fault) in checks {
        let mut statement = conn.prepare(sql)?;
        let ids: Vec<i64> =
            statement.query_map([until], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        faults.extend(ids.into_iter().map(fault));
    }
    Ok(faults)
}

/// Returns the faults of the passages of one file of `size` bytes. `read` returns its bytes.
///
/// # Errors
/// Errors of SQLite or `read`.
pub(crate) fn file(
    conn: &Connection,
    ino: Ino,
    searchable: bool,
    content_type: Option<&str>,
    size: u64,
    read: &mut dyn FnMut(Range<u64>) -> DbResult<Vec<u8>>,
) -> DbResult<Vec<Fault>> {
    let size = size.min(MAX_TEXT);
    let prefix = read(0..size.min(SNIFF))?;
    let wanted = searchable && size > 0 && is_text(&prefix, content_type);
    let passages = passages(conn, ino, 0, MAX_OFFSET)?;
    let until = old_until(conn)?.unwrap_or(0);
    // Text that its commit left has no passages yet.
    let end = unindexed(conn, ino)?.map_or(size, |from| from.min(size));
    if passages.is_empty() == (wanted && end > 0) {
        return Ok(vec![Fault::Presence(ino)]);
    }
    let is_recut = !background::recut_is_due(conn)?;
    let mut faults = Vec::new();
    let mut at = 0;
    for passage in &passages {
        let span = passage.span;
        if span.off != at || span.len == 0 || span.len > MAX as u64 || span.end() > size {
            faults.push(Fault::Cover(ino, at));
            return Ok(faults);
        }
        let bytes = read(span.off..span.end())?;
        let mut statement = conn.prepare_cached("SELECT hash FROM passage WHERE id = ?1")?;
        let stored: i64 = statement.query_row(params![passage.id], |row| row.get(0))?;
        let as_stored = (stored, passage.line_feeds, span.newline);
        let (line_feeds, newline) = describe(&bytes);
        // An index of format 2 does not record the form, and that of format 7 only if it is JSON.
        let form = Form::of(&prefix);
        let is_same = if is_recut { passage.form == form } else { passage.form.is_json() == form.is_json() };
        let kind = passage.id <= until || is_same;
        if as_stored != (hash(&bytes), line_feeds, newline) || !kind {
            faults.push(Fault::Stale(ino, at));
        }
        at = span.end();
    }
    if wanted && at != end {
        faults.push(Fault::Cover(ino, at));
    }
    faults.extend(line_counts::verify(conn, ino)?.map(|at| Fault::Lines(ino, at)));
    Ok(faults)
}
