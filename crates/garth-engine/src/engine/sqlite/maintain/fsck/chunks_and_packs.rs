//! The part of `fsck` that checks content: chunks, the extents that show them, the files that hold them.

use std::fs;

use rusqlite::{Connection, Row, params};

use super::{BYTES, Check, Fsck, ROWS};
use crate::engine::planner::{ExtentRow, MAX_EXTENT};
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::{MAX, extents, nodes, origins};
use crate::engine::sqlite::{SqliteFs, chunk_store};
use crate::error::Result;
use crate::sqlite::{DbResult, all, one};

/// The key of an extent: node, `till`, offset.
type Key = (u64, u64, u64);
/// An extent with its key, and the length of its chunk.
type Shown = (Key, ExtentRow, Option<u64>);

/// A pack file as its row has it: id, name, size, and whether it is doomed.
type Pack = (u64, String, u64, bool);

impl Check<'_> {
    /// Checks that each chunk matches its checksum.
    pub(super) fn chunks(&mut self) -> Result<()> {
        let mut suspects = Vec::new();
        self.walk(0, |view, report, from: u64| {
            let sql = "SELECT id, len FROM chunk WHERE id > ?1 ORDER BY id LIMIT ?2";
            let chunks: Vec<(u64, u64)> =
                all(view.conn, sql, params![from, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut bytes = 0;
            for (id, len) in &chunks {
                (report.chunks, report.bytes, bytes) = (report.chunks + 1, report.bytes + len, bytes + len);
                if chunk(view, *id)?.is_some() {
                    suspects.push(*id);
                }
                if bytes >= BYTES {
                    return Ok(Some(*id));
                }
            }
            Ok(chunks.last().map(|(id, _)| *id))
        })?;
        for id in suspects {
            // Checked again: `gc` may have removed the chunk, and then its bytes.
            if let Some(what) = self.fs.with_view(|view| chunk(view, id))? {
                self.report.add("content", what);
            }
        }
        Ok(())
    }

    /// Checks that each extent lies within its chunk and its file, and that live ones do not overlap.
    pub(super) fn extents(&mut self) -> Result<()> {
        self.walk((0, 0, 0), |view, report, (ino, till, off): Key| {
            let sql = "SELECT ino, till, off, extent.len, since, chunk, skip, older, chunk.len FROM extent
                 LEFT JOIN chunk ON chunk.id = extent.chunk
                 WHERE (ino, till, off) > (?1, ?2, ?3) ORDER BY ino, till, off LIMIT ?4";
            let extents = all(view.conn, sql, params![ino, till, off, ROWS], shown)?;
            // End of the live extent before this piece, in the current state.
            let mut end = (ino, live_end(view.conn, ino, off)?);
            let mut size = None;
            for ((ino, till, off), row, chunk) in &extents {
                let known = size.filter(|(of, _)| of == ino);
                let (_, bytes) = known.map_or_else(|| file_size(view.conn, *ino), Ok)?;
                size = Some((*ino, bytes));
                let before = if end.0 == *ino { end.1 } else { 0 };
                extent(report, (*ino, *till, *off), row, *chunk, bytes);
                let origin = || origins::runs(view.conn, row.chunk, row.skip, row.skip + row.len);
                if chunk.is_some() && row.written == 0 && origin().is_err() {
                    report
                        .add("extent", format!("the commit that wrote node {ino} at byte {off} is unknown"));
                }
                if *till == 0 {
                    if before > *off {
                        report.add("extent", format!("extents of node {ino} overlap at byte {off}"));
                    }
                    end = (*ino, row.end());
                }
            }
            Ok(extents.last().map(|(key, ..)| *key))
        })
    }

    /// Checks that each pack file exists, and that nothing in it that is needed is about to be removed.
    pub(super) fn packs(&mut self) -> Result<()> {
        let (fs, mut suspects) = (self.fs, Vec::new());
        self.walk(0, |view, report, from: u64| {
            let packs = all(view.conn, PACKS, params![from, ROWS], pack)?;
            for pack in &packs {
                let needed = "SELECT 1 FROM chunk WHERE pack = ?1";
                if pack.3 && one(view.conn, needed, [pack.0], |_| Ok(()))?.is_some() {
                    report
                        .add("references", format!("pack {} is marked for removal but still needed", pack.1));
                }
                if is_lost(fs, pack) {
                    suspects.push(pack.0);
                }
            }
            Ok(packs.last().map(|(id, ..)| *id))
        })?;
        for id in suspects {
            // Checked again: `gc` may have removed it.
            let pack = fs.with_view(|view| one(view.conn, PACKS, params![id - 1, 1], pack))?;
            if let Some(pack) = pack.filter(|pack| pack.0 == id && is_lost(fs, pack)) {
                let what = format!("pack {} is missing or does not have {} bytes", pack.1, pack.2);
                self.report.add("missing_content", what);
            }
        }
        self.holes()?;
        let report = &mut self.report;
        fs.each_pack_file(|files| {
            for name in fs.with_view(|view| chunk_store::orphan_files(view.conn, files))? {
                // An upload that was given up in the meantime has removed its file before its row.
                if fs.inner.packs.folder().join(name).exists() {
                    report.add("orphan_content", format!("pack {name} is not used; `garth gc` removes it"));
                }
            }
            Ok(())
        })
    }

    fn holes(&mut self) -> Result<()> {
        self.walk((0, 0), |view, report, from: (u64, u64)| {
            let sql =
                "SELECT pack, pos, len FROM hole WHERE (pack, pos) > (?1, ?2) ORDER BY pack, pos LIMIT ?3";
            let holes: Vec<(u64, u64, u64)> = all(view.conn, sql, params![from.0, from.1, ROWS], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            for (pack, pos, len) in &holes {
                let sql = "SELECT id FROM chunk WHERE pack = ?1 AND pos > ?2 AND pos < ?3 AND pos + len > ?4";
                // A chunk that reaches into the hole begins at most one chunk length before it.
                let first = pos.cast_signed() - (MAX_EXTENT as u64).cast_signed();
                let chunk: Option<u64> =
                    one(view.conn, sql, params![pack, first, pos + len, pos], |row| row.get(0))?;
                if let Some(id) = chunk {
                    report.add("references", format!("the bytes of chunk {id} are marked for removal"));
                }
            }
            // Pack ids begin at 1, so the first hole is after `(0, 0)`.
            Ok(holes.last().map(|(pack, pos, _)| (*pack, *pos)))
        })
    }
}

/// Returns the fault of a chunk; `None` for a chunk that is missing.
fn chunk(view: &ReadView<'_>, id: u64) -> DbResult<Option<String>> {
    let len: Option<u64> = one(view.conn, "SELECT len FROM chunk WHERE id = ?1", [id], |row| row.get(0))?;
    let Some(len) = len else { return Ok(None) };
    Ok(match view.packs.chunk(view.conn, id) {
        Ok(data) if data.len() as u64 == len => None,
        Ok(data) => Some(format!("chunk {id} has {} bytes instead of {len}", data.len())),
        Err(error) => Some(format!("chunk {id}: {}", error.describe(&SUBJECT))),
    })
}

fn shown(row: &Row<'_>) -> rusqlite::Result<Shown> {
    let (ino, till, off) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let since = row.get(4)?;
    let written = extents::written(since, row.get(7)?);
    let extent = ExtentRow { off, len: row.get(3)?, since, chunk: row.get(5)?, skip: row.get(6)?, written };
    Ok(((ino, till, off), extent, row.get(8)?))
}

/// Returns the end of the last live extent that begins at or before `off`.
fn live_end(conn: &Connection, ino: u64, off: u64) -> DbResult<u64> {
    let sql =
        "SELECT off + len FROM extent WHERE ino = ?1 AND till = 0 AND off <= ?2 ORDER BY off DESC LIMIT 1";
    Ok(one(conn, sql, [ino, off], |row| row.get(0))?.unwrap_or(0))
}

/// Returns a node and its size; `None` if it is missing.
fn file_size(conn: &Connection, ino: u64) -> DbResult<(u64, Option<u64>)> {
    Ok((ino, nodes::version(conn, ino, MAX)?.map(|node| node.size)))
}

fn extent(report: &mut Fsck, key: Key, row: &ExtentRow, chunk: Option<u64>, size: Option<u64>) {
    let (ino, till, off) = key;
    let Some(chunk) = chunk else {
        let what = format!("node {ino} needs chunk {} at byte {off}, which is missing", row.chunk);
        return report.add("missing_content", what);
    };
    // An extent of the past may reach beyond the current size.
    let possible = (1..=MAX_EXTENT as u64).contains(&row.len)
        && row.skip + row.len <= chunk
        && (till == 0 || till > row.since)
        && size.is_some_and(|size| till > 0 || row.end() <= size);
    if !possible {
        report.add("extent", format!("the extent of node {ino} at byte {off} is impossible"));
    }
}

/// Pack files after an id.
const PACKS: &str =
    "SELECT id, file, size, doomed_at IS NOT NULL FROM pack WHERE id > ?1 ORDER BY id LIMIT ?2";

fn pack(row: &Row<'_>) -> rusqlite::Result<Pack> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

/// Returns true if a pack file that must exist is missing or has another size. One that cannot be examined
/// cannot be read either.
fn is_lost(fs: &SqliteFs, (_, file, size, doomed): &Pack) -> bool {
    let there = fs::metadata(fs.inner.packs.folder().join(file)).ok().map(|file| file.len());
    !doomed && there != Some(*size)
}
