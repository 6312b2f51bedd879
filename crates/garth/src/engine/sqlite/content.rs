//! Stored bytes: chunks in the database or in pack files beside it, each checked against its sum whenever it is read.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rusqlite::Connection;

use super::read::one;
use crate::engine::planner::ExtentRow;
use crate::error::{Error, ErrorKind, Result};

/// Folder of the pack files in an account's folder.
pub(super) const PACKS: &str = "packs";
/// Most pack files held open for reading.
const OPEN_PACKS: usize = 64;

/// Pack files, opened as they are needed.
#[derive(Debug)]
pub(super) struct Packs {
    folder: PathBuf,
    /// Whether this instance has seen to it that the folder is there and survives loss of power.
    ready: AtomicBool,
    open: Mutex<HashMap<String, Arc<File>>>,
}

/// The sum that is kept of a chunk: all of its BLAKE3, or the first 8 bytes for short ones.
pub(super) fn sum_matches(data: &[u8], sum: &[u8]) -> bool {
    !sum.is_empty() && blake3::hash(data).as_bytes().starts_with(sum)
}

impl Packs {
    pub(super) fn new(account: &Path) -> Self {
        Self { folder: account.join(PACKS), ready: AtomicBool::new(false), open: Mutex::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder if it is missing, durably.
    pub(super) fn make_folder(&self) -> std::io::Result<()> {
        if !self.ready.load(Ordering::Acquire) {
            fs::create_dir_all(&self.folder)?;
            File::open(self.folder.parent().unwrap_or(&self.folder))?.sync_all()?;
            self.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Result<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(name) {
            return Ok(Arc::clone(file));
        }
        let file = File::open(self.folder.join(name)).map_err(|e| {
            Error::new(ErrorKind::Corrupt, "a pack file is missing; run `garth fsck`").with_source(e)
        })?;
        if open.len() >= OPEN_PACKS {
            open.clear();
        }
        let file = Arc::new(file);
        open.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// A chunk's bytes, checked.
    pub(super) fn chunk(&self, conn: &Connection, id: u64) -> Result<Bytes> {
        let sql = "SELECT chunk.sum, chunk.data, pack.file, chunk.pos, chunk.len
             FROM chunk LEFT JOIN pack ON pack.id = chunk.pack WHERE chunk.id = ?1";
        let found = one(conn, sql, [id], |row| {
            let sum: Vec<u8> = row.get(0)?;
            let data: Option<Vec<u8>> = row.get(1)?;
            let file: Option<String> = row.get(2)?;
            Ok((sum, data, file, row.get::<_, Option<u64>>(3)?, row.get::<_, u64>(4)?))
        })?;
        let damaged =
            |what: &str| Error::new(ErrorKind::Corrupt, format!("stored content {what}; run `garth fsck`"));
        let (sum, data) = match found {
            None => return Err(damaged("is missing")),
            Some((sum, Some(data), _, _, _)) => (sum, data),
            Some((sum, None, Some(file), Some(pos), len)) => {
                let mut data =
                    vec![0; usize::try_from(len).map_err(|_| damaged("has an impossible length"))?];
                self.file(&file)?
                    .read_exact_at(&mut data, pos)
                    .map_err(|e| damaged("is cut off in its pack file").with_source(e))?;
                (sum, data)
            }
            Some((_, None, _, _, _)) => return Err(damaged("has lost its place")),
        };
        if !sum_matches(&data, &sum) {
            return Err(damaged("does not match its checksum"));
        }
        Ok(data.into())
    }

    /// Bytes `from..to` of a file that has these extents there; holes are zeros.
    pub(super) fn assemble(
        &self,
        conn: &Connection,
        extents: &[ExtentRow],
        from: u64,
        to: u64,
    ) -> Result<Bytes> {
        if let [extent] = extents
            && extent.off <= from
            && extent.end() >= to
        {
            let part = extent.cut(from, to);
            let (skip, len) = (part.skip as usize, part.len as usize);
            return slice(&self.chunk(conn, part.chunk)?, skip, len);
        }
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
        for extent in extents {
            let part = extent.cut(from, to);
            let (at, skip, len) = ((part.off - from) as usize, part.skip as usize, part.len as usize);
            let chunk = self.chunk(conn, part.chunk)?;
            bytes[at..at + len].copy_from_slice(&slice(&chunk, skip, len)?);
        }
        Ok(bytes.into())
    }
}

fn slice(chunk: &Bytes, skip: usize, len: usize) -> Result<Bytes> {
    if skip + len > chunk.len() {
        return Err(Error::new(ErrorKind::Corrupt, "an extent reaches beyond its content; run `garth fsck`"));
    }
    Ok(chunk.slice(skip..skip + len))
}
