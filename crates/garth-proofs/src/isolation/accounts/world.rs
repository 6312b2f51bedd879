//! Accounts that tries are made on, and the one that they must not reach.

use std::sync::Arc;

use garth_engine::{AccountStore, DataDir};

/// Name of the account, and of the agent, that no try is given.
pub(super) const VICTIM: &str = "victim";
/// Account whose tree the tries go through.
pub(super) const TREES: &str = "trees";
/// Account whose keys the tries go through.
pub(super) const KEYS: &str = "keys";

/// Opened accounts, and texts that tries may guess.
pub(super) struct World {
    pub(super) home: DataDir,
    pub(super) trees: Arc<dyn AccountStore>,
    pub(super) keys: Arc<dyn AccountStore>,
    /// Token of the other account.
    pub(super) token: String,
    /// Names and paths of files of the host, which no path must reach.
    pub(super) folders: Vec<String>,
}
