//! The full-text index in SQLite. It is written in the transaction of the commit that changes the text, so
//! that a hit is never of another version than the tree's.
//!
//! - `passage`: one row a passage, with where it lies. `lines` counts its line feeds, `newline` says whether
//!   its last byte is one, `hash` is of its bytes and lets `fsck` find an index that is behind its file.
//! - `passage_text`: FTS5, rowid = `passage.id`. *Contentless*: the text is in the tree already. With
//!   `contentless_delete`, so that a passage can go without its old text at hand. `detail=full` and the
//!   column sizes stay, as BM25 needs them: without positions a contentless table ranks everything 0.
//!
//! Why: `docs/decisions/contentless-passages.md`.

use std::collections::HashSet;
use std::ops::Range;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use crate::model::Ino;
use crate::sqlite::DbResult;
use crate::text::passage::{Edit, SNIFF, Span, cut, is_text, lines, recut};
use crate::text::question::Question;

/// Behind every offset: the largest number that SQLite takes.
pub(crate) const MAX_OFFSET: u64 = i64::MAX as u64;
/// Bytes of a file read at a time, so that memory does not grow with the file.
const READ: u64 = 256 << 10;

/// A file whose content, type or searchability a commit changed. Each file at most once a call of [`apply`]:
/// several edits are joined by [`Edit::then`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// The file.
    pub(crate) ino: Ino,
    /// Whether search may see it. `false` for a file that is gone, too.
    pub(crate) searchable: bool,
    /// Its content type, if it has one.
    pub(crate) content_type: Option<&'a str>,
    /// What was done to its bytes. [`Edit::replace`] where its type changed or it became searchable.
    pub(crate) edit: Edit,
}

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
}

/// A file's best passage for a question, and what the caller said of the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<T> {
    /// The passage.
    pub(crate) passage: Passage,
    /// Relevance in (0, 1): BM25 `b` as `b / (1 + b)`.
    pub(crate) score: f64,
    /// What `allow` answered.
    pub(crate) file: T,
}

/// Removes everything, as the first step of making the index again.
///
/// # Errors
/// What SQLite says.
pub(crate) fn clear(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("DELETE FROM passage; INSERT INTO passage_text (passage_text) VALUES ('delete-all');")
}

/// Merges the index into one piece. Words of removed text leave the database with it, which `purge` needs.
///
/// # Errors
/// What SQLite says.
pub(crate) fn optimize(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("INSERT INTO passage_text (passage_text) VALUES ('optimize');")
}

/// Brings the index up to date with all that one transaction did to files, once, at its end. `read` gives
/// bytes of the new content; it may give fewer than asked for only at the end of the file.
///
/// All that goes is deleted first, in order of row: FTS5 writes out what it holds in memory whenever a row
/// comes before the last one, at a savepoint and at a search in the same transaction.
///
/// # Errors
/// What SQLite or `read` says. The transaction must then be rolled back.
pub(crate) fn apply(
    conn: &Connection,
    changes: &[Change<'_>],
    read: &mut dyn FnMut(Ino, Range<u64>) -> DbResult<Vec<u8>>,
) -> DbResult<()> {
    let mut gone = Vec::new();
    let mut regions = Vec::new();
    for change in changes {
        let region = plan(conn, change, &mut gone, &mut |range| read(change.ino, range))?;
        regions.push((change.ino, region));
    }
    gone.sort_unstable();
    delete(conn, &gone)?;
    for (ino, region) in regions {
        insert(conn, ino, region, &mut |range| read(ino, range))?;
    }
    Ok(())
}

/// Decides what `change` takes: pushes the rows to delete, and gives the region to index.
fn plan(
    conn: &Connection,
    change: &Change<'_>,
    gone: &mut Vec<i64>,
    read: &mut dyn FnMut(Range<u64>) -> DbResult<Vec<u8>>,
) -> DbResult<Range<u64>> {
    let edit = change.edit.visible();
    // what was empty before has no passages
    let fresh = edit.old_size == 0;
    if !change.searchable || edit.new_size == 0 {
        if fresh {
            return Ok(0..0);
        }
        gone.extend(passages(conn, change.ino, 0, MAX_OFFSET)?.iter().map(|passage| passage.id));
        return Ok(0..0);
    }
    let indexed = !fresh && last_before(conn, change.ino, MAX_OFFSET)?.is_some();
    if !indexed && edit.start >= SNIFF {
        // What is not text by its first bytes does not become text further on.
        return Ok(0..0);
    }
    let mut region = 0..edit.new_size;
    let mut dropped = Vec::new();
    if indexed {
        let from = last_before(conn, change.ino, edit.start)?.map_or(0, |passage| passage.span.off);
        let to = if edit.new_size < edit.old_size { MAX_OFFSET } else { edit.end };
        let old = passages(conn, change.ino, from, to)?;
        let spans: Vec<Span> = old.iter().map(|passage| passage.span).collect();
        let cut = recut(&spans, &edit);
        region = cut.region;
        dropped = old[cut.drop].to_vec();
    }
    if region.start < SNIFF && !region.is_empty() {
        let prefix = read(region.start..edit.new_size.min(SNIFF))?;
        if !is_text(&prefix, change.content_type) {
            dropped = if fresh { Vec::new() } else { passages(conn, change.ino, 0, MAX_OFFSET)? };
            region = 0..0;
        }
    }
    gone.extend(dropped.iter().map(|passage| passage.id));
    Ok(region)
}

fn delete(conn: &Connection, ids: &[i64]) -> rusqlite::Result<()> {
    let mut text = conn.prepare_cached("DELETE FROM passage_text WHERE rowid = ?1")?;
    let mut place = conn.prepare_cached("DELETE FROM passage WHERE id = ?1")?;
    for id in ids {
        text.execute([id])?;
        place.execute([id])?;
    }
    Ok(())
}

fn insert(
    conn: &Connection,
    ino: Ino,
    region: Range<u64>,
    read: &mut dyn FnMut(Range<u64>) -> DbResult<Vec<u8>>,
) -> DbResult<()> {
    let mut off = region.start;
    let mut held: Vec<u8> = Vec::new();
    while off < region.end {
        let from = off + held.len() as u64;
        let more = read(from..region.end.min(from + READ))?;
        let last = more.is_empty() || from + more.len() as u64 >= region.end;
        held.extend_from_slice(&more);
        let mut done = 0;
        for length in cut(&held, last) {
            let bytes = &held[done..done + length];
            insert_one(conn, ino, off, bytes)?;
            done += length;
            off += length as u64;
        }
        held.drain(..done);
        if last {
            break;
        }
    }
    Ok(())
}

fn insert_one(conn: &Connection, ino: Ino, off: u64, bytes: &[u8]) -> rusqlite::Result<()> {
    let line_feeds = bytes.iter().filter(|byte| **byte == b'\n').count();
    let newline = bytes.last() == Some(&b'\n');
    let mut place = conn.prepare_cached(
        "INSERT INTO passage (ino, off, len, lines, newline, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let id =
        place.insert(params![ino.0, off, bytes.len() as u64, line_feeds as u64, newline, hash(bytes)])?;
    let mut text = conn.prepare_cached("INSERT INTO passage_text (rowid, text) VALUES (?1, ?2)")?;
    text.execute(params![id, String::from_utf8_lossy(bytes)])?;
    Ok(())
}

/// Eight bytes of BLAKE3: enough to tell that a passage is not of these bytes.
pub(crate) fn hash(bytes: &[u8]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    i64::from_le_bytes(first)
}

const COLUMNS: &str = "id, ino, off, len, lines, newline";

pub(crate) fn passage(row: &Row<'_>) -> rusqlite::Result<Passage> {
    let span = Span { off: row.get(2)?, len: row.get(3)?, newline: row.get(5)? };
    Ok(Passage { id: row.get(0)?, ino: Ino(row.get(1)?), span, line_feeds: row.get(4)? })
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
fn last_before(conn: &Connection, ino: Ino, off: u64) -> rusqlite::Result<Option<Passage>> {
    let mut statement = prepare(conn, "AND off < ?2 ORDER BY off DESC LIMIT 1")?;
    statement.query_row(params![ino.0, off], passage).optional()
}

/// The files with the best passages for `question`, best first, at most `limit`. `allow` is asked once a
/// file, best first, and answers `None` for one that the caller must not or does not want to see. If the
/// words of the question find nothing allowed, words that begin like them are tried.
///
/// # Errors
/// What SQLite or `allow` says; no question is an error.
pub(crate) fn search<T>(
    conn: &Connection,
    question: &Question,
    limit: usize,
    allow: &mut dyn FnMut(Ino) -> DbResult<Option<T>>,
) -> DbResult<Vec<Found<T>>> {
    let found = matching(conn, &question.any_term(), limit, allow)?;
    if !found.is_empty() {
        return Ok(found);
    }
    matching(conn, &question.any_prefix(), limit, allow)
}

fn matching<T>(
    conn: &Connection,
    expression: &str,
    limit: usize,
    allow: &mut dyn FnMut(Ino) -> DbResult<Option<T>>,
) -> DbResult<Vec<Found<T>>> {
    // Rows leave the sorter one by one, so what ranks behind the last file wanted is never joined. CROSS JOIN
    // keeps SQLite from turning the join around.
    let mut statement = conn.prepare_cached(
        "SELECT p.id, p.ino, p.off, p.len, p.lines, p.newline, passage_text.rank
         FROM passage_text CROSS JOIN passage AS p ON p.id = passage_text.rowid
         WHERE passage_text MATCH ?1 ORDER BY passage_text.rank",
    )?;
    let mut rows = statement.query([expression])?;
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let passage = passage(row)?;
        if !seen.insert(passage.ino) {
            continue;
        }
        let rank: f64 = row.get(6)?;
        if let Some(file) = allow(passage.ino)? {
            found.push(Found { passage, score: score(-rank), file });
        }
    }
    Ok(found)
}

/// BM25 as a number in (0, 1). A word that most passages have weighs next to nothing, but never 0 or less.
fn score(bm25: f64) -> f64 {
    let bm25 = bm25.max(f64::MIN_POSITIVE);
    (bm25 / (1.0 + bm25)).min(1.0 - f64::EPSILON)
}

/// The lines a passage takes up in its file: the first line is 1, the end is excluded.
///
/// # Errors
/// What SQLite says.
pub(crate) fn lines_of(conn: &Connection, passage: &Passage) -> rusqlite::Result<Range<u64>> {
    let mut statement =
        conn.prepare_cached("SELECT coalesce(sum(lines), 0) FROM passage WHERE ino = ?1 AND off < ?2")?;
    let before = statement.query_row(params![passage.ino.0, passage.span.off], |row| row.get(0))?;
    Ok(lines(before, passage.line_feeds, passage.span.newline))
}
