//! The files of this machine, made durable by hand: what one durable file costs without a database.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// A folder.
pub(crate) struct Raw {
    folder: PathBuf,
    handle: File,
}

impl Raw {
    /// Opens the folder, for its entries to be synced too.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        Ok(Self { folder: folder.to_owned(), handle: File::open(folder)? })
    }

    /// Makes a file that survives loss of power when this returns.
    pub(crate) fn create(&self, name: &str, content: &[u8]) -> Result<()> {
        let mut file = File::create_new(self.folder.join(name))?;
        file.write_all(content)?;
        file.sync_all()?;
        Ok(self.handle.sync_all()?)
    }
}
