//! In which lines of its file a passage lies. For each [`BLOCK`] of a file but the last, `passage_lines` has
//! the number of line feeds in the passages that begin there: a hit far down needs neither the file nor all
//! passages before it, and an edit counts again only the blocks that it touches.

use std::ops::Range;

use rusqlite::{Connection, params};

use crate::engine::sqlite::fulltext::passages::{MAX_OFFSET, Passage, last_before};
use crate::model::Ino;
use crate::sqlite::{DbResult, all};
use crate::text::passage::{self, Edit};

/// Bytes of a block, 128 KiB: of the 64 MiB that search sees of a file at most 511 blocks are added up, and
/// in the last one some 64 passages.
const BLOCK: u64 = 128 << 10;

/// The lines a passage takes up in its file: the first line is 1, the end is excluded.
///
/// # Errors
/// What SQLite says.
pub(crate) fn of(conn: &Connection, passage: &Passage) -> DbResult<Range<u64>> {
    let (ino, off) = (passage.ino.0, passage.span.off);
    let sql = "SELECT count(*), coalesce(sum(lines), 0) FROM passage_lines WHERE ino = ?1 AND block < ?2";
    let (blocks, before): (u64, u64) = conn
        .prepare_cached(sql)?
        .query_row(params![ino, off / BLOCK], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // what a garth without blocks wrote has none yet: there are fewer, and the passages behind them are
    // counted
    let before = before + count(conn, passage.ino, blocks * BLOCK..off)?;
    Ok(passage::lines(before, passage.line_feeds, passage.span.newline))
}

fn count(conn: &Connection, ino: Ino, bytes: Range<u64>) -> DbResult<u64> {
    let sql = "SELECT coalesce(sum(lines), 0) FROM passage WHERE ino = ?1 AND off >= ?2 AND off < ?3";
    Ok(conn.prepare_cached(sql)?.query_row(params![ino.0, bytes.start, bytes.end], |row| row.get(0))?)
}

/// Counts again after the passages in `region` were made anew by `edit`.
pub(crate) fn update(conn: &Connection, ino: Ino, region: Range<u64>, edit: Edit) -> DbResult<()> {
    if edit.old_size <= BLOCK && edit.new_size <= BLOCK {
        return Ok(());
    }
    let last = last_before(conn, ino, MAX_OFFSET)?.map_or(0, |passage| passage.span.off / BLOCK);
    let sql = "SELECT count(*) FROM passage_lines WHERE ino = ?1";
    let known: u64 = conn.prepare_cached(sql)?.query_row([ino.0], |row| row.get(0))?;
    let touched = region.start / BLOCK..(region.end / BLOCK + 1).min(last);
    for block in touched.start.min(known)..last {
        if touched.contains(&block) || block >= known {
            let lines = count(conn, ino, block * BLOCK..(block + 1) * BLOCK)?;
            conn.prepare_cached(
                "INSERT OR REPLACE INTO passage_lines (ino, block, lines) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![ino.0, block, lines])?;
        }
    }
    if known > last {
        forget_blocks(conn, ino, last)?;
    }
    Ok(())
}

/// The first byte of a block whose count is wrong.
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

/// Forgets the blocks from byte `from` on, where the passages go.
pub(crate) fn forget(conn: &Connection, ino: Ino, from: u64) -> DbResult<()> {
    forget_blocks(conn, ino, from / BLOCK)
}

fn forget_blocks(conn: &Connection, ino: Ino, from: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM passage_lines WHERE ino = ?1 AND block >= ?2")?
        .execute(params![ino.0, from])?;
    Ok(())
}
