//! Accounts of the proofs, opened with the registry of agents.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::{AccountStore, Env, ErrorKind};
use garth_testkit::proof::Proven;

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
