//! Options for opening a data folder: whether it may be created, and its limits.

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

/// Limit on the descriptors of a connection: database and WAL, and for a writer the shared memory and two
/// lock files. The database file of a reader stays open until the other connections of the account are
/// closed.
const DESCRIPTORS_PER_CONNECTION: u64 = 5;
/// Limit on trees kept open. An unused one releases its descriptors when others need them.
const OPEN_TREES: usize = 1000;
/// Limits on open and on idle connections, however many descriptors there are: each connection takes up to 8
/// MiB of page cache.
const OPEN_CONNECTIONS: u64 = 1000;
const IDLE_CONNECTIONS: usize = 256;

/// Configuration of a server, which may lie in the data folder. The engine does not read it.
const CONFIGURATION: &str = "garth.toml";

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
    collecting: bool,
}

impl DataDir {
    /// Opens a data folder with default limits, and creates it if it is missing. See [`DataDir::builder`] for
    /// other options.
    ///
    /// # Errors
    /// As [`DataDirBuilder::open`].
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
            collecting: true,
        }
    }

    /// Sets the clock and randomness. Default: those of the machine.
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets whether a missing data folder is created. Default: yes.
    pub fn create(self, create: bool) -> Self {
        Self { create, ..self }
    }

    /// Sets how many unused trees stay open, at least 1. Default: 1,000. The number of files that they hold
    /// open is bounded by half of the process's limit of open files (`RLIMIT_NOFILE`).
    pub fn open_trees(self, limit: usize) -> Self {
        Self { open_trees: limit.max(1), ..self }
    }

    /// Sets the limit on writer threads, at least 1. Default: 8.
    pub fn writer_threads(self, limit: usize) -> Self {
        Self { writer_threads: limit.max(1), ..self }
    }

    /// Sets the limit on threads for long reads (searches, large pages and ranges), at least 1. One account
    /// uses at most 2 of them. Default: 8.
    pub fn reader_threads(self, limit: usize) -> Self {
        Self { reader_threads: limit.max(1), ..self }
    }

    /// Sets the time after which a read fails with `TimedOut`, the wait for its turn included; at most a day.
    /// Default: 10 s.
    pub fn read_time(self, limit: Duration) -> Self {
        Self { read_time: limit.min(Duration::from_secs(24 * 60 * 60)), ..self }
    }

    /// Sets the limit on idle connections, at least 1. Default: 256, or as many as half of the process's
    /// limit of open files allows.
    pub fn idle_connections(self, limit: usize) -> Self {
        Self { idle_connections: limit.max(1), ..self }
    }

    /// Sets whether open accounts are collected in the background, about once a minute if anything is due: as
    /// [`AccountStore::gc`](crate::AccountStore::gc) does, at a pace that leaves commits most of the writer's
    /// time. Default: yes.
    pub fn collecting(self, collecting: bool) -> Self {
        Self { collecting, ..self }
    }

    /// Opens the data folder. Blocks: a program calls it once, at its start. Creates missing folders above it
    /// as well, with mode 0700.
    ///
    /// # Errors
    /// - `NotFound`: the data folder is missing and may not be created.
    /// - `NotEmpty`: the folder contains other files.
    /// - `Format`: a newer garth wrote the data.
    /// - `Unavailable`, `NoSpace`, `Io` and `Corrupt`: from the storage.
    pub fn open(self, folder: &Path) -> Result<DataDir> {
        let folder = self.make_ready(folder)?;
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // Half of the descriptors: the rest is for sockets and files of the program.
        let open = (descriptors / 2 / DESCRIPTORS_PER_CONNECTION).clamp(8, OPEN_CONNECTIONS) as usize;
        let limits = Limits {
            writer_threads: self.writer_threads,
            reader_threads: self.reader_threads,
            read_time: self.read_time,
            idle_connections: self.idle_connections.min(open),
            open_connections: open,
            collecting: self.collecting,
        };
        let runtime = Runtime::with_limits(self.env, limits);
        Ok(DataDir::new(Folder::open(folder, runtime, self.registry, self.open_trees)?))
    }

    /// Creates the folder if it is missing and may be created. Returns its absolute path without links.
    fn make_ready(&self, folder: &Path) -> Result<PathBuf> {
        let failed = failed("the data folder cannot be opened");
        // First, so that lost control data is not replaced by a new file.
        check_control(folder)?;
        if !folder.join(DATABASE).try_exists().map_err(&failed)? {
            if !self.create {
                let message = "this is not a garth data folder";
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            check_empty(folder)?;
            // Before the control data, which marks a folder as one of garth: a creation that is cut short
            // here can be repeated.
            make_dir(&folder.join(ACCOUNTS)).map_err(&failed)?;
        }
        folder.canonicalize().map_err(&failed)
    }
}

/// Rejects a folder that has accounts, but no control data or an empty file. The control data is created
/// before the first account, so it was lost; a new one would know none of the existing accounts.
pub(super) fn check_control(folder: &Path) -> Result<()> {
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
         back with the files next to it"
    );
    Err(Error::new(ErrorKind::Corrupt, message))
}

/// Rejects a folder that contains other files than those of garth.
pub(super) fn check_empty(folder: &Path) -> Result<()> {
    match foreign_entry(folder).map_err(failed("the data folder cannot be opened"))? {
        Some(other) => Err(Error::new(
            ErrorKind::NotEmpty,
            format!(
                "the folder is not a garth data folder and contains `{other}`; choose an empty or a new one"
            ),
        )),
        None => Ok(()),
    }
}

/// Returns the name of an entry that garth did not create. Leftovers of an interrupted creation are garth's,
/// an operator writes the configuration before the first start, and `lost+found` belongs to the filesystem.
fn foreign_entry(folder: &Path) -> std::io::Result<Option<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_ours = [ACCOUNTS, CONFIGURATION, "lost+found"].contains(&name.as_str());
        if !is_ours && !name.starts_with(DATABASE) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
