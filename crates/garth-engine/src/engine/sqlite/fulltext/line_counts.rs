//! Line numbers of passages. For each [`BLOCK`] of a file but the last, `passage_lines` has the number of
//! line feeds in the passages that begin there: a hit far down needs neither the file nor all passages before
//! it, and an edit counts only the blocks that it touches again.

use std::ops::Range;

use rusqlite::{Connection, params};

use crate::engine::search::Passage;
use crate::engine::search::reindexing::MAX_OFFSET;
use crate::engine::sqlite::fulltext::passages::last_before;
use crate::model::Ino;
use crate::sqlite::{DbResult, all};
use crate::text::passage::{self, Edit};

/// Bytes of a block, 128 KiB: of the 64 MiB that search sees of a file, at most 511 blocks are added up, and
/// some 64 passages in the last one.
const BLOCK: u64 = 128 << 10;

/// Returns the lines of a passage in its file: the first line is 1, the end is excluded.
///
/// # Errors
/// Errors of SQLite.
pub(crate) fn of(conn: &Connection, passage: &Passage) -> DbResult<Range<u64>> {
    let off = passage.span.off;
    // Most passages are in the first block, or begin their file: there is nothing to look up.
    let (blocks, before) = match off / BLOCK {
        0 => (0, 0),
        block => blocks_before(conn, passage.ino, block)?,
    };
    // An older garth wrote no blocks: if some are missing, the passages after the last known one are counted.
    let rest = blocks * BLOCK..off;
    let before = before + if rest.is_empty() { 0 } else { count(conn, passage.ino, rest)? };
    Ok(passage::lines(before, passage.line_feeds, passage.span.newline))
}

/// Returns the number of known blocks before one, and the number of line feeds in them.
fn blocks_before(conn: &Connection, ino: Ino, block: u64) -> DbResult<(u64, u64)> {
    let sql = "SELECT count(*), coalesce(sum(lines), 0) FROM passage_lines WHERE ino = ?1 AND block < ?2";
    let mut statement = conn.prepare_cached(sql)?;
    Ok(statement.query_row(params![ino.0, block], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

fn count(conn: &Connection, ino: Ino, bytes: Range<u64>) -> DbResult<u64> {
    let sql = "SELECT coalesce(sum(lines), 0) FROM passage WHERE ino = ?1 AND off >= ?2 AND off < ?3";
    Ok(conn.prepare_cached(sql)?.query_row(params![ino.0, bytes.start, bytes.end], |row| row.get(0))?)
}

/// Counts again after the passages in `region` were replaced by `edit`.
pub(crate) fn update(conn: &Connection, ino: Ino, region: Range<u64>, edit: Edit) -> DbResult<()> {
    // A file of one block needs no counts.
    if edit.old_size <= BLOCK && edit.new_size <= BLOCK {
        return Ok(());
    }
    let last = last_before(conn, ino, MAX_OFFSET)?.map_or(0, |passage| passage.span.off / BLOCK);
    let sql = "SELECT count(*) FROM passage_lines WHERE ino = ?1";
    let known: u64 = conn.prepare_cached(sql)?.query_row([ino.0], |row| row.get(0))?;
    let touched = region.start / BLOCK..(region.end / BLOCK + 1).min(last);
    // Blocks before the edit that were never counted are counted now, so that the counts have no gap.
    for block in touched.start.min(known)..last {
        if touched.contains(&block) || block >= known {
            let lines = count(conn, ino, block * BLOCK..(block + 1) * BLOCK)?;
            conn.prepare_cached(
                "INSERT OR REPLACE INTO passage_lines (ino, block, lines) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![ino.0, block, lines])?;
        }
    }
    // The file is shorter now.
    if known > last {
        forget_blocks(conn, ino, last)?;
    }
    Ok(())
}

/// Returns the first byte of a block whose count is wrong.
pub(crate) fn verify(conn: &Connection, ino: Ino) -> DbResult<Option<u64>> {
    let sql = "SELECT block, lines FROM passage_lines WHERE ino = ?1 ORDER BY block";
    let blocks: Vec<(u64, u64)> = all(conn, sql, [ino.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (place, (block, lines)) in (0..).zip(blocks) {
        if block != place || lines != count(conn, ino, block * BLOCK..(block + 1) * BLOCK)? {
            return Ok(Some(place * BLOCK));
        }
    }
    Ok(None)
}

/// Removes the blocks from byte `from` on, whose passages are being removed.
pub(crate) fn forget(conn: &Connection, ino: Ino, from: u64) -> DbResult<()> {
    forget_blocks(conn, ino, from / BLOCK)
}

fn forget_blocks(conn: &Connection, ino: Ino, from: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM passage_lines WHERE ino = ?1 AND block >= ?2")?
        .execute(params![ino.0, from])?;
    Ok(())
}
