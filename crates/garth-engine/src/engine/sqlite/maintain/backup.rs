//! Copies a live account: the database through SQLite, because opening and closing the file in any other way
//! would drop SQLite's POSIX locks on it, and then the pack files that the copy refers to.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use rusqlite::Connection;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::chunk_store::{PACKS, remove_chunk};
use crate::engine::sqlite::schema::{DATABASE, SUBJECT};
use crate::engine::sqlite::tables::staged::{self, Due};
use crate::engine::sqlite::tables::{chunk_refs, chunks, head, packs};
use crate::error::{Error, Result};
use crate::fs::store::Backup;
use crate::model::Timestamp;
use crate::runtime::disk::{self, dir_of, new_dir, sync_dir};
use crate::sqlite::DbResult;
use crate::sqlite::migrate::{copy as copy_database, finish_copy};

fn failed(error: std::io::Error) -> Error {
    disk::failed("the backup could not be written")(error)
}

/// Returns the error of a pack that cannot be copied. A missing or short one is damage of the account, and
/// not of the disk of the copy.
fn failed_pack(error: io::Error) -> Error {
    if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) {
        return failed(error);
    }
    Error::damaged("a pack file of the account is missing or incomplete").with_source(error)
}

impl SqliteFs {
    /// Writes a copy of the account, in its state of one commit, into `folder`, which must not exist, and
    /// waits until it is durable. Commits go on concurrently. Blocks.
    ///
    /// # Errors
    /// `AlreadyExists` if the folder exists; `Corrupt` for a pack that is missing or incomplete; errors of
    /// the storage.
    pub(crate) fn backup(&self, folder: &Path) -> Result<Backup> {
        new_dir(folder).map_err(failed)?;
        let copy = folder.join(DATABASE);
        let target = copy.to_str().ok_or_else(|| Error::invalid("the backup's path is not UTF-8"))?;
        // Outside a transaction, because `VACUUM INTO` reads in one of its own.
        self.inner.pool.with(|conn| copy_database(conn, target))?;
        let (seq, packs) = finish_copy(&copy, keep_packs).map_err(|error| error.describe(&SUBJECT))?;
        let mut bytes = sync(&copy)?;
        if !packs.is_empty() {
            new_dir(&folder.join(PACKS)).map_err(failed)?;
        }
        for pack in packs {
            // A pack that becomes unused meanwhile keeps its file for the grace period of `gc`.
            let from = self.inner.packs.folder().join(&pack.file);
            bytes += pack.copy(&from, &folder.join(PACKS).join(&pack.file)).map_err(failed_pack)?;
        }
        // Names last: a folder is synced after the files in it, and the folder above after it.
        for dir in [&folder.join(PACKS), folder, dir_of(folder)] {
            if dir.exists() {
                sync_dir(dir).map_err(failed)?;
            }
        }
        Ok(Backup { seq, bytes })
    }
}

/// Removes uploads from the copy, whose files may be removed at any time, and packs without content, which
/// get no file there. Returns its last commit and the pack files to copy.
fn keep_packs(conn: &Connection) -> DbResult<(u64, Vec<Pack>)> {
    let changes = conn.unchecked_transaction()?;
    while staged::forget_ended(conn, Due::leases(Timestamp(i64::MAX)), || false)?.is_some() {}
    while let Some(id) = chunk_refs::any_unused(conn)? {
        remove_chunk(conn, id, Timestamp(0))?;
    }
    packs::remove_empty(conn)?;
    changes.commit()?;
    let rows = packs::all_files(conn)?;
    let packs = rows.into_iter().map(|(id, file, size)| Pack::of(conn, id, file, size));
    Ok((head::get(conn)?.seq, packs.collect::<DbResult<_>>()?))
}

/// A pack file that the copy refers to, with the places of its chunks.
struct Pack {
    file: String,
    size: u64,
    chunks: Vec<(u64, u64)>,
}

impl Pack {
    fn of(conn: &Connection, id: i64, file: String, size: u64) -> DbResult<Self> {
        let chunks = chunks::places_in(conn, id)?;
        Ok(Self { file, size, chunks })
    }

    /// Copies the chunks. Ranges without a chunk become holes. Returns the number of bytes written.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<u64> {
        let (mut from, mut to) = (File::open(from)?, File::create_new(to)?);
        to.set_len(self.size)?;
        let mut bytes = 0;
        for (pos, len) in &self.chunks {
            from.seek(SeekFrom::Start(*pos))?;
            to.seek(SeekFrom::Start(*pos))?;
            let copied = io::copy(&mut (&mut from).take(*len), &mut to)?;
            // A pack that lost its end must not become a backup with zeros in their place.
            if copied < *len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes += copied;
        }
        // A backup that is reported must survive a power cut.
        to.sync_all()?;
        Ok(bytes)
    }
}

/// Syncs a file; returns its size.
fn sync(path: &Path) -> Result<u64> {
    let file = File::open(path).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    file.metadata().map(|data| data.len()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::maintain::sample_account::{SampleAccount, at};
    use crate::fs::FileSystem as _;
    use crate::model::{Batch, Body, ByteRange, Op};

    /// Bytes that are too long for one chunk, so that their upload has a pack file.
    const LONG: usize = 1_200_000;

    #[test]
    fn new_uploads_of_a_copy_keep_their_bytes() {
        let account = SampleAccount::new();
        // The copy has no file of this upload, but the ranges that its chunks had.
        account.upload("/waits", vec![1; LONG]);
        let copy = account.folder.path().join("copy");
        account.fs.backup(&copy).unwrap();
        let env = account.fs.inner.runtime.env().clone();
        let fs = SqliteFs::open(&copy, env, crate::rule::sample::registry()).unwrap();
        let mut upload = block_on(fs.stage(&at("/new"))).unwrap();
        block_on(upload.write(vec![2; LONG].into())).unwrap();
        let body = Body::Staged(block_on(upload.finish()).unwrap());
        block_on(fs.commit(Batch::new([Op::write(at("/new"), body)]))).unwrap();
        fs.collect(Duration::ZERO).unwrap();
        assert!(block_on(fs.read(&at("/new"), ByteRange::ALL)).unwrap() == vec![2; LONG]);
        assert_eq!(fs.check().unwrap().findings, []);
    }
}
