//! A fair writer lock between processes. SQLite's own lock is polled and unfair, so writers queue on two lock
//! files. A waiter holds `turn.lock` while it blocks on `writer.lock`, so the last writer cannot overtake it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::runtime::disk::failed;
use crate::threads::lock::lock;

/// The lock files of an account. They are empty, and created by the first write: a read-only folder has none.
#[derive(Debug)]
pub(crate) struct WriterLock {
    folder: PathBuf,
    files: Mutex<Option<Arc<Files>>>,
}

#[derive(Debug)]
struct Files {
    turn: File,
    writer: File,
}

/// Permission to write, until dropped.
pub(crate) struct WriterGuard(Arc<Files>);

impl WriterLock {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), files: Mutex::default() }
    }

    /// Blocks until no other process writes.
    pub(crate) fn acquire(&self) -> Result<WriterGuard> {
        let locked = self.files().and_then(|files| {
            files.turn.lock()?;
            let acquired = files.writer.lock();
            // Released as soon as this process has the writer lock, so that the next one in the queue can
            // wait for it.
            files.turn.unlock()?;
            acquired.map(|()| WriterGuard(files))
        });
        locked.map_err(failed("the account's lock files cannot be locked"))
    }

    /// Closes the files. A guard keeps its lock.
    pub(crate) fn close(&self) {
        lock(&self.files).take();
    }

    // A lock belongs to an open file, not to its path. A caller that opens the files again while a guard has
    // the old ones waits for their locks as another process would.
    fn files(&self) -> io::Result<Arc<Files>> {
        let mut kept = lock(&self.files);
        if let Some(files) = &*kept {
            return Ok(Arc::clone(files));
        }
        let open = |name: &str| {
            OpenOptions::new().create(true).truncate(false).write(true).open(self.folder.join(name))
        };
        let files = Arc::new(Files { turn: open("turn.lock")?, writer: open("writer.lock")? });
        *kept = Some(Arc::clone(&files));
        Ok(files)
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        // Unlocking an open file cannot fail, and no caller could act on it.
        let _ = self.0.writer.unlock();
    }
}
