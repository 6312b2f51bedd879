//! How a data folder is opened: whether it may be made, and what it may use in all.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::{ACCOUNTS, DataDir, control};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::disk::{failed, make_dir};
use crate::runtime::{Limits, Runtime};

/// Descriptors that a tree takes while it is open: two lock files, and database, WAL
/// and shared memory of its writer.
const DESCRIPTORS_PER_TREE: u64 = 5;
/// Descriptors that a reading connection takes: database and WAL.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;
/// Most trees kept open, however many descriptors there are: each takes up to 10 MiB of page cache.
const MAX_OPEN_TREES: u64 = 1000;
/// Most reading connections kept open: more than threads that read at once.
const MAX_IDLE_CONNECTIONS: u64 = 256;

/// Opens a [`DataDir`]. The limits hold for the whole data folder, whatever the number of its accounts.
///
/// ```
/// # fn main() -> garth::Result<()> {
/// # let home = tempfile::tempdir().expect("a temporary folder");
/// # let folder = home.path().join("data");
/// use garth::{DataDir, ErrorKind};
///
/// let missing = DataDir::builder().create(false).open(&folder);
/// assert!(missing.is_err_and(|error| error.is(ErrorKind::NotFound)));
///
/// let data = DataDir::builder().open_trees(100).writer_threads(4).open(&folder)?;
/// assert!(data.control().accounts()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `open` is called"]
pub struct DataDirBuilder {
    env: Env,
    create: bool,
    open_trees: Option<usize>,
    writer_threads: usize,
    idle_connections: Option<usize>,
}

impl Default for DataDirBuilder {
    fn default() -> Self {
        Self {
            env: Env::system(),
            create: true,
            open_trees: None,
            writer_threads: Limits::default().writer_threads,
            idle_connections: None,
        }
    }
}

impl DataDirBuilder {
    /// Takes clock and randomness from `env`. Default: those of the machine.
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Whether a missing data folder is made. Default: yes.
    pub fn create(self, create: bool) -> Self {
        Self { create, ..self }
    }

    /// Keeps at most this many trees open that nobody uses just now, at least 1. Default: half of the
    /// process's limit of open files (`RLIMIT_NOFILE`) allows for them, at most 1,000.
    pub fn open_trees(self, limit: usize) -> Self {
        Self { open_trees: Some(limit.max(1)), ..self }
    }

    /// Writes with at most this many threads, at least 1. Default: 8.
    pub fn writer_threads(self, limit: usize) -> Self {
        Self { writer_threads: limit.max(1), ..self }
    }

    /// Keeps at most this many connections open that nobody reads with just now, at least 1. Default: a fifth
    /// of the process's limit of open files allows for them, at most 256.
    pub fn idle_connections(self, limit: usize) -> Self {
        Self { idle_connections: Some(limit.max(1)), ..self }
    }

    /// Opens the data folder. Where it is made, so are the folders above it, with mode 0700. Deletions of
    /// accounts that a crash interrupted are finished.
    ///
    /// # Errors
    /// `NotFound` if there is no data folder and none may be made; `NotEmpty` if the folder has other things
    /// in it; `Format` for data of a newer garth; `Unavailable`, `NoSpace`, `Io`, `Corrupt` from the storage.
    pub fn open(self, folder: &Path) -> Result<DataDir> {
        let folder = self.make_ready(folder)?;
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let trees = (descriptors / 2 / DESCRIPTORS_PER_TREE).clamp(4, MAX_OPEN_TREES) as usize;
        let conns = descriptors / 5 / DESCRIPTORS_PER_CONNECTION;
        let conns = conns.clamp(4, MAX_IDLE_CONNECTIONS) as usize;
        let limits = Limits {
            writer_threads: self.writer_threads,
            idle_connections: self.idle_connections.unwrap_or(conns),
        };
        let runtime = Runtime::with_limits(self.env, limits);
        DataDir::open_with(folder, runtime, self.open_trees.unwrap_or(trees))
    }

    /// Makes the folder if it is missing and may be made; its absolute path without links.
    fn make_ready(&self, folder: &Path) -> Result<PathBuf> {
        let failed = failed("the data folder cannot be opened");
        if !folder.join(control::DATABASE).try_exists().map_err(&failed)? {
            if !self.create {
                let message = "there is no data folder of garth here";
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            if let Some(other) = foreign_entry(folder).map_err(&failed)? {
                return Err(Error::new(
                    ErrorKind::NotEmpty,
                    format!(
                        "the folder is no data folder of garth and holds `{other}`; name an empty or a new one"
                    ),
                ));
            }
            make_dir(&folder.join(ACCOUNTS)).map_err(&failed)?;
        }
        folder.canonicalize().map_err(&failed)
    }
}

/// The name of something in a folder that garth did not put there. What a creation that was cut short left is
/// its own, and `lost+found` is of the file system.
fn foreign_entry(folder: &Path) -> std::io::Result<Option<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != ACCOUNTS && name != "lost+found" && !name.starts_with(control::DATABASE) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
