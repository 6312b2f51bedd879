//! Storage of the accounts of a proof. A proof that names no engine runs on each.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use garth_engine::rule::Registry;
use garth_engine::{AccountStore, DataDir, Env, Home};

use super::outcome::Proven;
use super::support::account;

/// Storage engine that proofs run on. A folder names what is stored, and may stay empty.
pub trait Storage: fmt::Debug + Sync {
    /// Opens an account as a process of its own, with the registry of the engine's tests. It is created by
    /// the first call for the folder.
    ///
    /// # Errors
    /// Errors of the storage.
    fn account(&self, folder: &Path) -> Proven<Arc<dyn AccountStore>>;

    /// Opens a home as a process of its own. It is created by the first call for the folder.
    ///
    /// # Errors
    /// Errors of the storage.
    fn home(&self, folder: &Path, registry: Registry) -> Proven<Arc<dyn Home>>;
}

/// Data folders, on SQLite.
#[derive(Clone, Copy, Debug)]
pub struct Folders;

impl Storage for Folders {
    fn account(&self, folder: &Path) -> Proven<Arc<dyn AccountStore>> {
        Ok(account(folder, Env::system())?)
    }

    fn home(&self, folder: &Path, registry: Registry) -> Proven<Arc<dyn Home>> {
        Ok(Arc::new(DataDir::open(folder, Env::system(), registry)?))
    }
}
