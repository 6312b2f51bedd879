//! Accounts of the proofs, opened with the registry of agents, and their threads.

use std::path::Path;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::{AccountStore, Env, ErrorKind};
use garth_testkit::proof::{Broken, Proven};

/// Creates the folder of an account and opens it.
///
/// # Errors
/// As [`std::fs::create_dir_all`] and [`SqliteFs::open`].
pub(crate) fn account(folder: &Path, env: Env) -> Proven<Arc<SqliteFs>> {
    std::fs::create_dir_all(folder)?;
    Ok(SqliteFs::open(folder, env, garth_agent::registry())?)
}

/// Opens the account `default` of a data folder. Creates it if it does not exist.
///
/// # Errors
/// Errors of opening a data folder.
pub(crate) fn opened(folder: &Path) -> Proven<Arc<dyn AccountStore>> {
    let data = garth_engine::DataDir::builder(garth_agent::registry()).open(folder)?;
    match block_on(data.create_account("default")) {
        Err(error) if !error.is(ErrorKind::AlreadyExists) => return Err(error.into()),
        _ => {}
    }
    Ok(block_on(data.account("default"))?)
}

/// Returns what a thread has proven.
///
/// # Errors
/// The outcome of the thread; a panic of it.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, Proven<T>>) -> Proven<T> {
    thread.join().unwrap_or_else(|_| Err(Broken::because("a thread of the proof panicked")))
}
