//! Copies a live account: the database through SQLite, since opening and closing the file any other way would
//! drop SQLite's POSIX locks on it, and then the pack files that the copy refers to.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::read::content::PACKS;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::schema::{DATABASE, SUBJECT};
use crate::error::{Error, Result};
use crate::runtime::disk::{self, dir_of, new_dir, sync_dir};
use crate::sqlite::migrate::finish_copy;
use crate::sqlite::{DbResult, all};

/// What a backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// The last commit in it.
    pub seq: u64,
    /// Bytes written.
    pub bytes: u64,
}

fn failed(error: std::io::Error) -> Error {
    disk::failed("the backup could not be written")(error)
}

impl SqliteFs {
    /// Writes a copy of the account as it is at one moment into `folder`, which must not exist, and waits
    /// until it is durable. Commits go on meanwhile. Blocks; not for an async worker thread.
    ///
    /// # Errors
    /// `AlreadyExists` if the folder is there; from the storage.
    pub fn backup(&self, folder: &Path) -> Result<Backup> {
        new_dir(folder).map_err(failed)?;
        let copy = folder.join(DATABASE);
        let target = copy.to_str().ok_or_else(|| Error::invalid("the backup's path is not UTF-8"))?;
        // outside a transaction: `VACUUM INTO` reads in one of its own
        self.inner.pool.with(|conn| {
            conn.execute("VACUUM INTO ?1", [target])?;
            Ok(())
        })?;
        let (seq, packs) = finish_copy(&copy, keep_packs).map_err(|error| error.describe(&SUBJECT))?;
        let mut bytes = sync(&copy)?;
        if !packs.is_empty() {
            new_dir(&folder.join(PACKS)).map_err(failed)?;
        }
        for pack in packs {
            let to = folder.join(PACKS).join(&pack);
            fs::copy(self.inner.packs.folder().join(&pack), &to).map_err(failed)?;
            bytes += sync(&to)?;
        }
        for dir in [&folder.join(PACKS), folder, dir_of(folder)] {
            if dir.exists() {
                sync_dir(dir).map_err(failed)?;
            }
        }
        Ok(Backup { seq, bytes })
    }
}

/// Takes out of the copy what has no file there: packs without content. Returns its last commit and the pack
/// files to copy.
fn keep_packs(conn: &Connection) -> DbResult<(u64, Vec<String>)> {
    conn.execute("DELETE FROM pack WHERE id NOT IN (SELECT pack FROM chunk WHERE pack IS NOT NULL)", [])?;
    Ok((rows::head(conn)?.seq, all(conn, "SELECT file FROM pack", [], |row| row.get(0))?))
}

/// Syncs a file; returns its size.
fn sync(path: &Path) -> Result<u64> {
    let file = File::open(path).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    file.metadata().map(|data| data.len()).map_err(failed)
}
