//! How a data folder is opened: whether it may be made, and what it may use in all.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::DataDir;
use super::control::database::DATABASE;
use super::folder::{ACCOUNTS, Folder};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::rule::Registry;
use crate::runtime::disk::{failed, make_dir};
use crate::runtime::{Limits, Runtime};

/// Most descriptors that a connection takes: database and WAL, and of a writer the shared memory and two lock
/// files. A reader's database file stays open until the account's other connections are closed.
const DESCRIPTORS_PER_CONNECTION: u64 = 5;
/// Most trees kept open. One that nobody uses holds no descriptor when others need it.
const OPEN_TREES: usize = 1000;
/// Most connections, used or not, and of these idle, however many descriptors there are: each takes up to
/// 8 MiB of page cache.
const OPEN_CONNECTIONS: u64 = 1000;
const IDLE_CONNECTIONS: usize = 256;

/// Opens a [`DataDir`]. The limits hold for the whole data folder, whatever the number of its accounts.
///
/// ```
/// # use garth_engine as garth;
/// # fn main() -> garth::Result<()> { futures::executor::block_on(async {
/// # let home = tempfile::tempdir().expect("a temporary folder");
/// # let folder = home.path().join("data");
/// use garth::rule::Registry;
/// use garth::{DataDir, ErrorKind};
///
/// let missing = DataDir::builder(Registry::empty()).create(false).open(&folder);
/// assert!(missing.is_err_and(|error| error.is(ErrorKind::NotFound)));
///
/// let data = DataDir::builder(Registry::empty()).open_trees(100).writer_threads(4).open(&folder)?;
/// assert!(data.control().accounts().await?.is_empty());
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `open` is called"]
pub struct DataDirBuilder {
    registry: Registry,
    env: Env,
    create: bool,
    open_trees: usize,
    writer_threads: usize,
    reader_threads: usize,
    read_time: Duration,
    idle_connections: usize,
}

impl DataDir {
    /// Opens a data folder with default limits; makes it if it is missing. See
    /// [`DataDir::builder`] for more choice.
    ///
    /// # Errors
    /// Errors of [`DataDirBuilder::open`].
    pub fn open(folder: &Path, env: Env, registry: Registry) -> Result<Self> {
        Self::builder(registry).env(env).open(folder)
    }

    /// Returns a builder for a data folder whose trees have the rules and projections of `registry`.
    pub fn builder(registry: Registry) -> DataDirBuilder {
        DataDirBuilder::new(registry)
    }
}

impl DataDirBuilder {
    fn new(registry: Registry) -> Self {
        Self {
            registry,
            env: Env::system(),
            create: true,
            open_trees: OPEN_TREES,
            writer_threads: Limits::default().writer_threads,
            reader_threads: Limits::default().reader_threads,
            read_time: Limits::default().read_time,
            idle_connections: IDLE_CONNECTIONS,
        }
    }

    /// Takes clock and randomness from `env`. Default: those of the machine.
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Whether a missing data folder is made. Default: yes.
    pub fn create(self, create: bool) -> Self {
        Self { create, ..self }
    }

    /// Keeps at most this many trees open that nobody uses just now, at least 1. Default: 1,000. How many
    /// files they hold open is bounded by half of the process's limit of open files (`RLIMIT_NOFILE`).
    pub fn open_trees(self, limit: usize) -> Self {
        Self { open_trees: limit.max(1), ..self }
    }

    /// Writes with at most this many threads, at least 1. Default: 8.
    pub fn writer_threads(self, limit: usize) -> Self {
        Self { writer_threads: limit.max(1), ..self }
    }

    /// Runs reads that are long (searches, large pages and ranges) on at most this many threads, at least 1;
    /// one account takes at most 2 of them. Default: 8.
    pub fn reader_threads(self, limit: usize) -> Self {
        Self { reader_threads: limit.max(1), ..self }
    }

    /// Ends a read that takes longer than this, its turn waited for, with `TimedOut`; at most a day. Default:
    /// 10 s.
    pub fn read_time(self, limit: Duration) -> Self {
        Self { read_time: limit.min(Duration::from_secs(24 * 60 * 60)), ..self }
    }

    /// Keeps at most this many connections open that nobody uses just now, at least 1. Default: 256, or what
    /// half of the process's limit of open files allows.
    pub fn idle_connections(self, limit: usize) -> Self {
        Self { idle_connections: limit.max(1), ..self }
    }

    /// Opens the data folder. Blocks: a program does it once, as it starts. Where it is made, so are the
    /// folders above it, with mode 0700. Deletions of accounts that a crash interrupted are finished.
    ///
    /// # Errors
    /// `NotFound` if there is no data folder and none may be made; `NotEmpty` if the folder has other things
    /// in it; `Format` for data of a newer garth; `Unavailable`, `NoSpace`, `Io`, `Corrupt` from the storage.
    pub fn open(self, folder: &Path) -> Result<DataDir> {
        let folder = self.make_ready(folder)?;
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let open = (descriptors / 2 / DESCRIPTORS_PER_CONNECTION).clamp(8, OPEN_CONNECTIONS) as usize;
        let limits = Limits {
            writer_threads: self.writer_threads,
            reader_threads: self.reader_threads,
            read_time: self.read_time,
            idle_connections: self.idle_connections.min(open),
            open_connections: open,
        };
        let runtime = Runtime::with_limits(self.env, limits);
        Ok(DataDir::new(Folder::open(folder, runtime, self.registry, self.open_trees)?))
    }

    /// Makes the folder if it is missing and may be made; its absolute path without links.
    fn make_ready(&self, folder: &Path) -> Result<PathBuf> {
        let failed = failed("the data folder cannot be opened");
        check_control(folder)?;
        if !folder.join(DATABASE).try_exists().map_err(&failed)? {
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

/// Refuses a folder that has accounts and no control data, or control data without a byte. It is made before
/// the first account, so that it was lost: made anew, it would know none of the accounts that are there.
fn check_control(folder: &Path) -> Result<()> {
    let failed = failed("the data folder cannot be opened");
    let is_there = match fs::metadata(folder.join(DATABASE)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        found => found.map_err(&failed)?.len() > 0,
    };
    let accounts = || match fs::read_dir(folder.join(ACCOUNTS)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        found => Ok(found?.next().transpose()?.is_some()),
    };
    if is_there || !accounts().map_err(&failed)? {
        return Ok(());
    }
    let message = format!(
        "the folder has accounts and its `{DATABASE}` is missing or empty; restore a backup, or put the file \
         back with those beside it"
    );
    Err(Error::new(ErrorKind::Corrupt, message))
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
        if name != ACCOUNTS && name != "lost+found" && !name.starts_with(DATABASE) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
