//! Removes chunks that nothing refers to, and gives the space of unused pack files and ranges back to the
//! disk.

use std::fs;
use std::io;

use futures::executor::block_on;
use rusqlite::Connection;

use crate::engine::sqlite::maintain::step::{Times, Turn};
use crate::engine::sqlite::tables::{chunk_refs, packs};
use crate::engine::sqlite::{SqliteFs, chunk_store};
use crate::error::Result;
use crate::fs::FileSystem;
use crate::fs::store::Collected;
use crate::model::Timestamp;
use crate::runtime::disk::{failed, punch_hole};
use crate::sqlite::DbResult;

/// Rows fetched, or files examined, at a time.
const PIECE: usize = 256;

impl SqliteFs {
    /// Removes the chunks that nothing refers to.
    pub(super) fn remove_chunks(&self, now: Timestamp, collected: &mut Collected) -> Result<()> {
        loop {
            let runtime = self.inner.runtime.clone();
            let (chunks, bytes, more) = self.step(move |conn, turn| {
                let removed = remove_chunks(conn, now, turn)?;
                runtime.failpoints().pass("gc-sweep")?;
                Ok(removed)
            })?;
            collected.chunks += chunks;
            collected.bytes += bytes;
            if !more {
                return Ok(());
            }
        }
    }

    /// Dooms files in the pack folder that have no row.
    pub(super) fn doom_orphans(&self) -> Result<()> {
        self.each_pack_file(|files| {
            // On a reader first: mostly there are none, and the writer is not needed.
            let files = self.with_view(|view| chunk_store::orphan_files(view.conn, files))?;
            if files.is_empty() {
                return Ok(());
            }
            let files: Vec<String> = files.into_iter().cloned().collect();
            self.step(move |conn, _| {
                for file in chunk_store::orphan_files(conn, &files)? {
                    // As old as any: no row has referred to it.
                    packs::insert_doomed(conn, file)?;
                }
                Ok(())
            })
        })
    }

    /// Gives the space of unused pack files and ranges back to the disk.
    pub(super) fn give_back(&self, times: Times, collected: &mut Collected) -> Result<()> {
        // Files and ranges that were marked until then are beyond the grace period.
        let before = times.removed_before.0;
        if self.with_view(|view| packs::any_due(view.conn, before))? {
            // Otherwise a loss of power could bring rows back that refer to the removed files.
            block_on(self.sync())?;
        }
        while self.remove_packs(before, collected)? {}
        while self.punch_holes(before, collected)? {}
        Ok(())
    }

    /// Removes some of the empty pack files. Returns true if there were any.
    fn remove_packs(&self, before: i64, collected: &mut Collected) -> Result<bool> {
        let packs = self.with_view(|view| packs::doomed(view.conn, before, PIECE))?;
        let (failpoints, mut gone) = (self.inner.runtime.failpoints(), Vec::new());
        for (id, file, size) in packs {
            failpoints.pass("gc-unlink")?;
            match fs::remove_file(self.inner.packs.folder().join(&file)) {
                Ok(()) => (collected.packs, collected.freed) = (collected.packs + 1, collected.freed + size),
                // Removed by an earlier run that did not get to its row.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("an unused pack file cannot be removed")(error)),
            }
            // This process may have it open, which would keep its space taken.
            self.inner.packs.close(&file);
            gone.push(id);
        }
        if gone.is_empty() {
            return Ok(false);
        }
        failpoints.pass("gc-forget")?;
        self.step(move |conn, _| {
            for id in gone {
                packs::remove(conn, id)?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Gives some of the unused ranges of pack files back. Returns true if there were any.
    fn punch_holes(&self, before: i64, collected: &mut Collected) -> Result<bool> {
        let holes = self.with_view(|view| packs::holes(view.conn, before, PIECE))?;
        let mut punched = Vec::new();
        for (pack, pos, len, file) in holes {
            self.inner.runtime.failpoints().pass("gc-punch")?;
            if let Some(file) = file {
                let path = self.inner.packs.folder().join(file);
                match fs::File::options().write(true).open(path).and_then(|file| punch_hole(&file, pos, len))
                {
                    Ok(()) => collected.freed += len,
                    // Removed with its file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    // This filesystem cannot punch holes: a pack gives its space back only with its file.
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => break,
                    Err(error) => return Err(failed("a pack file cannot give space back")(error)),
                }
            }
            punched.push((pack, pos));
        }
        if punched.is_empty() {
            return Ok(false);
        }
        self.step(move |conn, _| {
            for (pack, pos) in punched {
                packs::remove_hole(conn, pack, pos)?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Passes the names in the pack folder to `take`, some at a time. Skips names that are not UTF-8: names
    /// that garth gives are ASCII.
    pub(crate) fn each_pack_file(&self, mut take: impl FnMut(&[String]) -> Result<()>) -> Result<()> {
        let failed = failed("the pack files cannot be listed");
        let entries = match fs::read_dir(self.inner.packs.folder()) {
            // No upload has needed a pack file yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(&failed)?,
        };
        let mut files = Vec::with_capacity(PIECE);
        for entry in entries {
            files.extend(entry.map_err(&failed)?.file_name().into_string().ok());
            if files.len() == PIECE {
                take(&files)?;
                files.clear();
            }
        }
        take(&files)
    }
}

#[cfg(test)]
impl SqliteFs {
    /// Returns all names in the folder of pack files.
    pub(crate) fn pack_files(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        self.each_pack_file(|files| {
            all.extend_from_slice(files);
            Ok(())
        })?;
        Ok(all)
    }
}

/// Returns the number of chunks removed, their bytes, and true if there are more.
pub(super) fn remove_chunks(
    conn: &Connection,
    now: Timestamp,
    turn: &mut Turn,
) -> DbResult<(u64, u64, bool)> {
    let (mut chunks, mut bytes) = (0, 0);
    while let Some(id) = chunk_refs::any_unused(conn)? {
        if let Some(len) = chunk_store::remove_chunk(conn, id, now)? {
            (chunks, bytes) = (chunks + 1, bytes + len);
        }
        if turn.is_over() {
            return Ok((chunks, bytes, true));
        }
    }
    Ok((chunks, bytes, false))
}
