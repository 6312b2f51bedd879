//! Proofs of promises that no single test of a call can show: several processes, many writers, big files,
//! damage, collection, failures at every step. Each takes its size, so that tests run it small and `cargo
//! xtask prove` at full size.

pub mod accounts;
pub mod appends;
pub mod big_file;
mod child;
pub mod collect;
pub mod committed;
pub mod damage;
pub mod failpoints;
pub mod host_cuts;
pub mod isolation;
pub mod linear;
mod model;
pub mod outbox;
pub mod packs;
pub mod processes;
pub mod prompt_isolation;
pub mod prompts;
pub mod repair;
pub mod resets;
pub mod session_gc;
pub mod sessions;
pub mod subtrees;
pub mod view_kills;
pub mod worker;

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, Body, ByteRange, Op};
use garth_engine::{AccountStore, DataDir, Env, ErrorKind, FileSystem, TreePath};

/// Why a promise is not proved: what was seen instead of it.
#[derive(Debug)]
pub struct Broken(String);

/// What a proof gives: its report, or why there is none.
pub type Proven<T> = Result<T, Broken>;

impl Broken {
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

impl From<garth_engine::Error> for Broken {
    fn from(error: garth_engine::Error) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(" ({source})"));
        Self(format!("{:?}: {error}{}", error.kind(), source.unwrap_or_default()))
    }
}

impl From<garth_engine::PathError> for Broken {
    fn from(error: garth_engine::PathError) -> Self {
        Self(error.to_string())
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self(format!("the machine failed: {error}"))
    }
}

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("SQLite failed: {error}"))
    }
}

impl From<tokio::task::JoinError> for Broken {
    fn from(error: tokio::task::JoinError) -> Self {
        Self(format!("a task ended badly: {error}"))
    }
}

/// Gives up unless `holds`.
fn hold(holds: bool, otherwise: impl FnOnce() -> String) -> Proven<()> {
    if holds { Ok(()) } else { Err(Broken(otherwise())) }
}

/// Runs a proof's calls on a few threads.
fn run<T>(proof: impl Future<Output = Proven<T>>) -> Proven<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?.block_on(proof)
}

/// Makes the folder of an account and opens it.
fn account(folder: &Path, env: Env) -> Proven<Arc<SqliteFs>> {
    std::fs::create_dir_all(folder)?;
    Ok(SqliteFs::open(folder, env, garth::agent::registry())?)
}

/// The account of a data folder, which is made if there is none.
fn opened(folder: &Path) -> Proven<Arc<dyn AccountStore>> {
    let data = DataDir::open(folder, Env::system(), garth::agent::registry())?;
    match block_on(data.create_account("default")) {
        Err(error) if !error.is(ErrorKind::AlreadyExists) => return Err(error.into()),
        _ => {}
    }
    Ok(block_on(data.account("default"))?)
}

/// Waits until nobody has the account open any more: whoever closes it last removes the log of the database.
fn closed(fs: Arc<SqliteFs>, folder: &Path) -> Proven<PathBuf> {
    drop(fs);
    let log = folder.join("tree.db-wal");
    for _ in 0..1000 {
        if !log.exists() {
            return Ok(folder.join("tree.db"));
        }
        Env::system().sleep(Duration::from_millis(10));
    }
    Err(Broken::because("the account stays open though nobody holds it"))
}

/// A number of `/proc/self/status`.
fn process_status(field: &str) -> Proven<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Broken::because(format!("this system does not tell `{field}` of a process")))
}

/// Most memory that this process had, in bytes.
fn peak_memory() -> Proven<u64> {
    Ok(process_status("VmHWM:")? << 10)
}

/// Gives up unless `fsck` finds nothing.
fn sound(fs: &dyn AccountStore) -> Proven<()> {
    let findings = block_on(fs.fsck())?.findings;
    hold(findings.is_empty(), || format!("fsck finds {findings:?}"))
}

fn path(text: &str) -> Proven<TreePath> {
    Ok(TreePath::parse(text)?)
}

fn at(text: &str) -> Proven<At> {
    Ok(At::Path(path(text)?))
}

fn write(to: &str, body: impl Into<Body>) -> Proven<Op> {
    Ok(Op::write(path(to)?, body).with_parents())
}

fn append(to: &str, body: impl Into<Body>) -> Proven<Op> {
    Ok(Op::append(path(to)?, body).with_parents())
}

fn remove(what: &str) -> Proven<Op> {
    Ok(Op::remove_tree(at(what)?))
}

async fn read(fs: &dyn FileSystem, from: &str) -> Proven<String> {
    let bytes = fs.read(&at(from)?, ByteRange::ALL).await?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Broken::because(format!("{from} is no text")))
}

/// Bytes of all files below a folder.
fn bytes_below(folder: &Path) -> Proven<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() { bytes_below(&entry.path())? } else { data.len() };
    }
    Ok(bytes)
}

/// Nanoseconds in milliseconds, for reports.
fn millis(nanos: i64) -> f64 {
    nanos as f64 / 1e6
}
