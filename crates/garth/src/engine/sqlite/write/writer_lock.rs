//! Whose turn it is to write, between processes. SQLite's own lock is polled and unfair; two lock files make a turnstile: who
//! waits for the writer's lock holds the turn, so that whoever has just written stands behind it.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// The two lock files of an account. They hold nothing.
#[derive(Debug)]
pub(crate) struct WriterLock {
    turn: File,
    writer: File,
}

/// The right to write, until dropped.
pub(crate) struct WriterGuard<'a>(&'a File);

impl WriterLock {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let open = |name: &str| {
            OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(folder.join(name))
                .map_err(|e| Error::new(ErrorKind::Io, "a lock file cannot be opened").with_source(e))
        };
        Ok(Self { turn: open("turn.lock")?, writer: open("writer.lock")? })
    }

    /// Waits for the right to write.
    pub(crate) fn acquire(&self) -> Result<WriterGuard<'_>> {
        let failed = |e| Error::new(ErrorKind::Io, "a lock file cannot be locked").with_source(e);
        self.turn.lock().map_err(failed)?;
        let entered = self.writer.lock();
        self.turn.unlock().map_err(failed)?;
        entered.map_err(failed)?;
        Ok(WriterGuard(&self.writer))
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        // closing the file would release it too; there is nothing to tell anybody
        let _ = self.0.unlock();
    }
}
