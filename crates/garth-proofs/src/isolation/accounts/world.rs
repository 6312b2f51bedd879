//! Accounts of the attempts, and the one that they must not reach.

use std::sync::Arc;

use garth_engine::{AccountStore, Home};

/// Name of the account, and of the agent, that no attempt gets.
pub(super) const VICTIM: &str = "victim";
/// Account whose tree the attempts use.
pub(super) const TREES: &str = "trees";
/// Account whose keys the attempts use.
pub(super) const KEYS: &str = "keys";

/// Open accounts, and texts that attempts may guess.
pub(super) struct World {
    pub(super) home: Arc<dyn Home>,
    pub(super) trees: Arc<dyn AccountStore>,
    pub(super) keys: Arc<dyn AccountStore>,
    /// Token of the other account.
    pub(super) token: String,
    /// Names and paths of host files, which no path must reach.
    pub(super) folders: Vec<String>,
}
