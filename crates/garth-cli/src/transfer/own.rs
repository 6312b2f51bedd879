//! garth's own data folder in the way of an import or export: only its engine opens, replaces or removes what
//! is in it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use garth_engine::DataDir;

use crate::fail::{Failure, Result};

/// The data folder in use.
pub(crate) struct Own {
    /// Its path without links.
    folder: PathBuf,
    /// Device and inode.
    node: (u64, u64),
}

impl Own {
    pub(crate) fn new(data_dir: &DataDir) -> Result<Self> {
        let folder = data_dir.folder().to_owned();
        let meta = fs::metadata(&folder).map_err(Failure::host(&folder))?;
        Ok(Self { folder, node: (meta.dev(), meta.ino()) })
    }

    /// Whether an entry of a folder is the data folder.
    pub(crate) fn is(&self, meta: &Metadata) -> bool {
        (meta.dev(), meta.ino()) == self.node
    }

    /// Whether the data folder lies in `folder`, or is it.
    pub(crate) fn is_within(&self, folder: &Path) -> bool {
        folder.canonicalize().is_ok_and(|folder| self.folder.starts_with(folder))
    }

    /// Refuses a source or destination that is the data folder or lies in it, whether it is there yet or not.
    pub(crate) fn refuse(&self, path: &Path) -> Result {
        let absolute = std::path::absolute(path).map_err(Failure::host(path))?;
        let there = absolute.ancestors().find_map(|above| above.canonicalize().ok());
        if there.is_none_or(|there| !there.starts_with(&self.folder)) {
            return Ok(());
        }
        let path = path.display();
        Err(Failure::Usage(format!(
            "{path}: in garth's own data folder, which only garth changes; `garth backup` copies it"
        )))
    }

    /// What is said of it where a walk meets it.
    pub(crate) fn skipped(path: &Path) -> Failure {
        let message = "skipped, it is garth's own data folder";
        Failure::Host(path.to_owned(), io::Error::new(io::ErrorKind::Unsupported, message))
    }
}
