//! Background work on the index, in steps that each fit into a short transaction: text that was too much for
//! its commit, files that `reindex` indexes again, and passages of the index of an older garth (before format
//! 3).

use rusqlite::{Connection, params};

use crate::engine::search::{Passage, reindexing};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::fulltext::changed_files::{IndexedFile, current_bytes};
use crate::engine::sqlite::fulltext::index_writer::{IndexWriter, leave};
use crate::engine::sqlite::fulltext::line_counts;
use crate::engine::sqlite::fulltext::passages::{COLUMNS, old_until, passage};
use crate::engine::sqlite::tables::nodes;
use crate::model::Ino;
use crate::sqlite::{DbResult, all, one};
use crate::text::Tokenizer;
use crate::text::passage::{Edit, MAX_TEXT};

/// Bytes of text that one step indexes: about 20 ms of work, because no step may hold the writer for more
/// than 50.
const STEP: u64 = 256 << 10;
/// Most files that one step examines.
const FILES: usize = 128;
/// Most rows of the index without a passage that one step removes.
const STRAYS: usize = 2048;
/// Pages of the index, of 4 KiB, that one step merges or frees.
const PAGES: u32 = 500;
/// Segments of the index that accumulate before they are merged. Each makes a search look up its words once
/// more.
const SEGMENTS: u64 = 16;

/// State of the background work between steps.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// Segments that were left when there was nothing more to merge.
    settled: u64,
}

impl Chores {
    /// Returns true if there is work to do.
    pub(crate) fn due(&self, conn: &Connection) -> DbResult<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM unindexed) OR EXISTS (SELECT 1 FROM old_index)
            OR EXISTS (SELECT 1 FROM recut)";
        let waiting: bool = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        // FTS5 leaves some segments when there is nothing more to merge, so the limit counts from these.
        Ok(waiting || segments(conn)? >= self.settled + SEGMENTS)
    }

    /// Does one step of the work.
    pub(crate) fn step(
        &mut self,
        conn: &Connection,
        packs: &Packs,
        tokenizer: &mut Tokenizer,
    ) -> DbResult<()> {
        if !catch_up(conn, packs, tokenizer)? {
            self.settled = segments(conn)?;
        }
        Ok(())
    }
}

/// Does one step of the remaining work. Returns true if there was any.
pub(crate) fn catch_up(conn: &Connection, packs: &Packs, tokenizer: &mut Tokenizer) -> DbResult<bool> {
    Ok(index_left(conn, packs, tokenizer)?
        || bring_forward(conn, packs, tokenizer)?
        || recut(conn, packs)?
        || merge(conn)?)
}

/// Returns true if passages of an older garth are not cut again yet.
pub(crate) fn recut_is_due(conn: &Connection) -> DbResult<bool> {
    Ok(conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM recut)")?.query_row([], |row| row.get(0))?)
}

/// Cuts some files again whose passages an older garth (before format 8) has cut. Returns true if there were
/// any.
fn recut(conn: &Connection, packs: &Packs) -> DbResult<bool> {
    let at = one(conn, "SELECT ino, off FROM recut", [], |row| {
        Ok(Progress { ino: row.get(0)?, off: row.get(1)?, ..Progress::default() })
    })?;
    let Some(at) = at else { return Ok(false) };
    let reached = rebuild_files(conn, packs, at)?;
    if reached.done {
        conn.execute("DELETE FROM recut", [])?;
    } else {
        conn.execute("UPDATE recut SET ino = ?1, off = ?2", [reached.ino, reached.off])?;
    }
    Ok(true)
}

/// Merges some segments of the index, if a few of one size exist. Returns true if there were any.
fn merge(conn: &Connection) -> DbResult<bool> {
    let before = conn.total_changes();
    conn.prepare_cached("INSERT INTO passage_word (passage_word, rank) VALUES ('merge', ?1)")?
        .execute([PAGES])?;
    // The insert itself counts as one change.
    Ok(conn.total_changes() - before > 1)
}

/// Returns the number of segments of the index, which FTS5 stores in its structure record.
fn segments(conn: &Connection) -> DbResult<u64> {
    let sql = "SELECT block FROM passage_word_data WHERE id = 10";
    let block: Option<Vec<u8>> = one(conn, sql, [], |row| row.get(0))?;
    let block = block.unwrap_or_default();
    // Four bytes of a cookie, four more that mark later versions of the record, then the number of levels.
    let rest = block.get(4..).unwrap_or_default();
    let rest = rest.strip_prefix(&[0xff, 0, 0, 1]).unwrap_or(rest);
    let Some((_, rest)) = varint(rest) else { return Ok(0) };
    Ok(varint(rest).map_or(0, |(segments, _)| segments))
}

/// Reads a number in the format of SQLite. Returns it and the bytes after it.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        // The ninth byte has eight bits.
        if at == 8 {
            return Some((value << 8 | u64::from(*byte), &bytes[9..]));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// Indexes text that its commit left. Returns true if there was any.
fn index_left(conn: &Connection, packs: &Packs, tokenizer: &mut Tokenizer) -> DbResult<bool> {
    let mut room = STEP;
    let sql = "SELECT ino, off FROM unindexed ORDER BY ino LIMIT ?1";
    let left: Vec<(u64, u64)> = all(conn, sql, params![FILES], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (ino, off) in &left {
        if room == 0 {
            break;
        }
        room = room.saturating_sub(rebuild(conn, packs, tokenizer, Ino(*ino), *off)?.bytes);
    }
    Ok(!left.is_empty())
}

/// Indexes passages again that are in the index of format 2, and removes that index once none is left.
/// Returns true if there was anything to do.
fn bring_forward(conn: &Connection, packs: &Packs, tokenizer: &mut Tokenizer) -> DbResult<bool> {
    let Some(until) = old_until(conn)? else { return Ok(false) };
    let mut room = STEP;
    let mut files = 0;
    while let Some(first) = first_old(conn, until)? {
        if room == 0 || files == FILES {
            return Ok(true);
        }
        let done = rebuild(conn, packs, tokenizer, first.ino, first.span.off)?;
        room = room.saturating_sub(done.bytes);
        files += 1;
    }
    // In three phases, each of which a crash may interrupt: searches stop reading the old index, its pages
    // are freed, and its tables are dropped.
    if until > 0 {
        conn.execute("UPDATE old_index SET until = 0", [])?;
    } else if !empty_old(conn)? {
        conn.execute_batch("DROP TABLE old_vocabulary; DROP TABLE passage_text; DELETE FROM old_index;")?;
    }
    Ok(true)
}

fn first_old(conn: &Connection, until: i64) -> DbResult<Option<Passage>> {
    let sql = format!("SELECT {COLUMNS} FROM passage WHERE id <= ?1 ORDER BY id LIMIT 1");
    one(conn, &sql, [until], passage)
}

/// Frees some pages of the index of format 2: dropped at once, a large one would hold up commits. Returns
/// true if there were any.
fn empty_old(conn: &Connection) -> DbResult<bool> {
    for sql in [
        "DELETE FROM passage_text_data WHERE id IN (SELECT id FROM passage_text_data LIMIT ?1)",
        "DELETE FROM passage_text_docsize WHERE id IN (SELECT id FROM passage_text_docsize LIMIT 16 * ?1)",
        "DELETE FROM passage_text_idx WHERE (segid, term) IN
             (SELECT segid, term FROM passage_text_idx LIMIT 4 * ?1)",
    ] {
        if conn.prepare_cached(sql)?.execute([PAGES])? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Progress of a step with a file.
pub(crate) struct RebuiltPart {
    /// Bytes that were indexed again, plus an amount for the work on each file.
    bytes: u64,
    /// Byte to continue from; `None` if the file is done.
    next: Option<u64>,
    /// True for a file that search may see.
    searchable: bool,
}

/// Cost of examining a file, in bytes of text.
const PER_FILE: u64 = 2 << 10;

/// Indexes the passages of a file again from byte `off` on, at most [`STEP`] bytes: stored passages are
/// replaced by those that should exist. Between two steps the passages cover the file as before.
fn rebuild(
    conn: &Connection,
    packs: &Packs,
    tokenizer: &mut Tokenizer,
    ino: Ino,
    off: u64,
) -> DbResult<RebuiltPart> {
    let mut writer = IndexWriter::new(conn)?;
    let file = IndexedFile::of(conn, ino.0)?.filter(|file| file.searchable);
    let read = &mut |ino, range| current_bytes(conn, packs, ino, range);
    let state = file.as_ref().map(|file| (file.size, file.content_type.as_deref()));
    let part = reindexing::rebuild(&mut writer.text(ino, read), state, (off, STEP), tokenizer)?;
    let removed = part.removed.len() as u64;
    writer.delete(part.removed)?;
    part.added.iter().try_for_each(|passage| writer.insert(ino, passage))?;
    match &part.bytes {
        Some(bytes) => {
            let size = file.as_ref().map_or(0, |file| file.size.min(MAX_TEXT));
            line_counts::update(conn, ino, bytes.clone(), Edit::replace(size, size))?;
        }
        None => line_counts::forget(conn, ino, 0)?,
    }
    match part.next {
        None => all_indexed(conn, ino)?,
        Some(end) if !part.follows => leave(conn, ino, end)?,
        Some(_) => {}
    }
    let bytes = part.bytes.map_or(removed * 128, |bytes| bytes.end - bytes.start) + PER_FILE;
    Ok(RebuiltPart { bytes, next: part.next, searchable: part.searchable })
}

fn all_indexed(conn: &Connection, ino: Ino) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM unindexed WHERE ino = ?1")?.execute([ino.0])?;
    Ok(())
}

/// Progress of `reindex`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Node being indexed.
    ino: u64,
    /// Byte of its text to continue from.
    off: u64,
    /// Files indexed so far that search may see.
    pub(crate) files: u64,
    /// True at the end.
    pub(crate) done: bool,
}

/// Does one step of indexing all files again.
pub(crate) fn rebuild_files(conn: &Connection, packs: &Packs, from: Progress) -> DbResult<Progress> {
    let mut tokenizer = Tokenizer::default();
    let mut at = from;
    let mut room = STEP;
    for _ in 0..FILES {
        if room == 0 {
            break;
        }
        // Only between files: a file in progress continues at `off`.
        if at.off == 0 {
            let Some(ino) = next_node(conn, at.ino)? else { return Ok(Progress { done: true, ..at }) };
            at.ino = ino;
        }
        let made = rebuild(conn, packs, &mut tokenizer, Ino(at.ino), at.off)?;
        room = room.saturating_sub(made.bytes);
        at.off = made.next.unwrap_or(0);
        at.files += u64::from(made.searchable && at.off == 0);
    }
    Ok(at)
}

/// Returns the next inode that has a node or passages.
fn next_node(conn: &Connection, after: u64) -> DbResult<Option<u64>> {
    let least = |sql: &str| -> DbResult<Option<u64>> {
        Ok(conn.prepare_cached(sql)?.query_row([after], |row| row.get(0))?)
    };
    let node = nodes::next_ino(conn, after)?;
    let passage = least("SELECT min(ino) FROM passage WHERE ino > ?1")?;
    Ok(node.into_iter().chain(passage).min())
}

/// Returns rows of the index that belong to no passage.
pub(crate) fn strays(conn: &Connection) -> DbResult<Vec<i64>> {
    let sql = "SELECT id FROM passage_word_docsize WHERE id NOT IN (SELECT id FROM passage) LIMIT ?1";
    all(conn, sql, [STRAYS], |row| row.get(0))
}

/// Removes rows that still belong to no passage.
pub(crate) fn remove_strays(conn: &Connection, strays: &[i64]) -> DbResult<()> {
    let sql = "DELETE FROM passage_word WHERE rowid = ?1 AND ?1 NOT IN (SELECT id FROM passage)";
    for id in strays {
        conn.prepare_cached(sql)?.execute([id])?;
    }
    Ok(())
}

/// Empties the index at once: nothing less helps if its structure is damaged.
pub(crate) fn clear(conn: &Connection) -> DbResult<()> {
    Ok(conn.execute_batch(
        "DELETE FROM passage WHERE id > (SELECT coalesce(max(until), 0) FROM old_index);
         DELETE FROM passage_lines;
         INSERT INTO passage_word (passage_word) VALUES ('delete-all');",
    )?)
}
