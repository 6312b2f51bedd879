//! Fair writer lock between processes. SQLite's own lock is polled and unfair, so writers queue on two lock
//! files: a waiter holds `turn.lock` while it blocks on `writer.lock`, so the last writer cannot overtake it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Result;
use crate::runtime::disk::failed;

/// The lock files of an account. They are empty, and made by the first write: a read-only folder has none.
#[derive(Debug)]
pub(crate) struct WriterLock {
    folder: PathBuf,
    files: OnceLock<Files>,
}

#[derive(Debug)]
struct Files {
    turn: File,
    writer: File,
}

/// The right to write, until dropped.
pub(crate) struct WriterGuard<'a>(&'a File);

impl WriterLock {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), files: OnceLock::new() }
    }

    /// Blocks until no other process writes.
    pub(crate) fn acquire(&self) -> Result<WriterGuard<'_>> {
        let locked = self.files().and_then(|Files { turn, writer }| {
            turn.lock()?;
            let acquired = writer.lock();
            turn.unlock()?;
            acquired.map(|()| WriterGuard(writer))
        });
        locked.map_err(failed("the account's lock files cannot be locked"))
    }

    fn files(&self) -> io::Result<&Files> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let open = |name: &str| {
            OpenOptions::new().create(true).truncate(false).write(true).open(self.folder.join(name))
        };
        let files = Files { turn: open("turn.lock")?, writer: open("writer.lock")? };
        // if another thread was faster its files are used: locks belong to the open file, not to the path
        Ok(self.files.get_or_init(|| files))
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        // unlocking cannot fail on an open file; nobody could act on it
        let _ = self.0.unlock();
    }
}
