//! Protection of the data folder of garth from imports and exports: only the engine may open, replace or
//! delete its files.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use garth_engine::Home;

use crate::fail::{Failure, Result};

/// Data folder in use. Nothing is protected for a home elsewhere.
pub(crate) struct CurrentFolder {
    /// Canonical path.
    folder: Option<PathBuf>,
    /// Device and inode.
    node: Option<(u64, u64)>,
}

impl CurrentFolder {
    pub(crate) fn new(home: &dyn Home) -> Result<Self> {
        let Some(folder) = home.folder() else { return Ok(Self { folder: None, node: None }) };
        let meta = fs::metadata(folder).map_err(Failure::host(folder))?;
        Ok(Self { folder: Some(folder.to_owned()), node: Some((meta.dev(), meta.ino())) })
    }

    /// Returns true if an entry of a folder is the data folder.
    pub(crate) fn is(&self, meta: &Metadata) -> bool {
        Some((meta.dev(), meta.ino())) == self.node
    }

    /// Returns true if the data folder is `folder`, or is below it.
    pub(crate) fn is_within(&self, folder: &Path) -> bool {
        let Some(own) = &self.folder else { return false };
        folder.canonicalize().is_ok_and(|folder| own.starts_with(folder))
    }

    /// Fails for a source or destination that is the data folder or is below it, whether it exists or not.
    pub(crate) fn refuse(&self, path: &Path) -> Result {
        let Some(own) = &self.folder else { return Ok(()) };
        let absolute = std::path::absolute(path).map_err(Failure::host(path))?;
        // The path may not exist yet, so the nearest existing directory above it counts.
        let there = absolute.ancestors().find_map(|above| above.canonicalize().ok());
        if there.is_none_or(|there| !there.starts_with(own)) {
            return Ok(());
        }
        let path = path.display();
        Err(Failure::Usage(format!(
            "{path}: this is in the data folder of garth, which only garth may change; use `garth backup` to copy it"
        )))
    }

    /// Returns the failure for the data folder in a walk.
    pub(crate) fn skipped(path: &Path) -> Failure {
        let message = "skipped, this is the data folder of garth";
        Failure::Host(path.to_owned(), io::Error::new(io::ErrorKind::Unsupported, message))
    }
}
