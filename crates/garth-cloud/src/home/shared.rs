//! State of a home.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use garth_engine::Env;
use garth_engine::home::Hasher;
use garth_engine::home::open_trees::OpenTrees;
use garth_engine::rule::Registry;

use crate::client::Pool;
use crate::holds::Instance;
use crate::store::PgStore;

/// State of a home, which calls that run to their end hold.
pub(super) struct Shared {
    pub(super) pool: Arc<Pool>,
    pub(super) env: Env,
    /// Rules and projections of every tree.
    pub(super) registry: Registry,
    pub(super) hasher: Hasher,
    pub(super) trees: OpenTrees<PgStore>,
    /// This server, with what it holds open.
    pub(super) instance: Arc<Instance>,
    /// Time before which the rounds do not try again to delete the rows of deleted accounts.
    pub(super) next_removal: Mutex<Option<Instant>>,
    /// Time of the next tick that does something.
    pub(super) next_tick: Mutex<Option<Instant>>,
}
