//! Helpers that proofs share: accounts, operations, and figures of this process.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, Body, ByteRange, Op};
use garth_engine::{AccountStore, Env, FileSystem, TreePath};

use super::outcome::{Broken, Proven, hold};

/// Runs the calls of a proof on a few threads.
///
/// # Errors
/// Errors of the proof.
pub fn run<T>(proof: impl Future<Output = Proven<T>>) -> Proven<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?.block_on(proof)
}

/// Creates the folder of an account and opens it with the registry of the engine's tests.
///
/// # Errors
/// Errors of the folder and the engine.
pub fn account(folder: &Path, env: Env) -> Proven<Arc<SqliteFs>> {
    std::fs::create_dir_all(folder)?;
    Ok(SqliteFs::open(folder, env, garth_engine::rule::sample::registry())?)
}

/// Drops an account and waits until nobody has it open: closing its last connection removes the log of the
/// database. Returns the path of the database.
pub fn closed(fs: Arc<SqliteFs>, folder: &Path) -> Proven<PathBuf> {
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

/// Returns a number of `/proc/self/status`.
///
/// # Errors
/// The system has no such number.
pub fn process_status(field: &str) -> Proven<u64> {
    status_of("self", field)
}

/// Returns a number of `/proc/PROCESS/status`. `process` is the id of a process, or `self`.
///
/// # Errors
/// The system has no such number, or no such process.
pub fn status_of(process: &str, field: &str) -> Proven<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Broken::because(format!("this system does not tell `{field}` of a process")))
}

/// Returns the peak memory of this process, in bytes (`VmHWM`).
///
/// # Errors
/// The system does not report it.
pub fn peak_memory() -> Proven<u64> {
    Ok(process_status("VmHWM:")? << 10)
}

/// Checks that `fsck` finds nothing.
///
/// # Errors
/// The findings.
pub fn sound(fs: &dyn AccountStore) -> Proven<()> {
    let findings = block_on(fs.fsck())?.findings;
    hold(findings.is_empty(), || format!("fsck finds {findings:?}"))
}

/// Parses a path.
///
/// # Errors
/// The text is not a path.
pub fn path(text: &str) -> Proven<TreePath> {
    Ok(TreePath::parse(text)?)
}

/// Parses a path into the address of an operation.
///
/// # Errors
/// The text is not a path.
pub fn at(text: &str) -> Proven<At> {
    Ok(At::Path(path(text)?))
}

/// Returns the write of a file. It creates missing parents.
///
/// # Errors
/// `to` is not a path.
pub fn write(to: &str, body: impl Into<Body>) -> Proven<Op> {
    Ok(Op::write(path(to)?, body).with_parents())
}

/// Returns an append to a file. It creates missing parents.
///
/// # Errors
/// `to` is not a path.
pub fn append(to: &str, body: impl Into<Body>) -> Proven<Op> {
    Ok(Op::append(path(to)?, body).with_parents())
}

/// Returns the removal of a tree.
///
/// # Errors
/// `what` is not a path.
pub fn remove(what: &str) -> Proven<Op> {
    Ok(Op::remove_tree(at(what)?))
}

/// Reads a complete file as text.
///
/// # Errors
/// Errors of the filesystem; the content is not UTF-8.
pub async fn read(fs: &dyn FileSystem, from: &str) -> Proven<String> {
    let bytes = fs.read(&at(from)?, ByteRange::ALL).await?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Broken::because(format!("{from} is no text")))
}

/// Returns the bytes of all files below a folder.
///
/// # Errors
/// Errors of the host.
pub fn bytes_below(folder: &Path) -> Proven<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() { bytes_below(&entry.path())? } else { data.len() };
    }
    Ok(bytes)
}

/// Converts nanoseconds to milliseconds, for reports.
pub fn millis(nanos: i64) -> f64 {
    nanos as f64 / 1e6
}
