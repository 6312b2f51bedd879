//! State of a home.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use garth_engine::Env;
use garth_engine::home::Hasher;
use garth_engine::home::open_trees::OpenTrees;
use garth_engine::rule::Registry;
use garth_engine::stats::IndexStats;

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
    /// Counts of the work on search indexes.
    pub(super) indexing: Arc<IndexCounts>,
}

/// Counts of the work on search indexes.
#[derive(Debug, Default)]
pub(super) struct IndexCounts {
    behind: AtomicU64,
    steps: AtomicU64,
    failures: AtomicU64,
}

impl IndexCounts {
    /// Sets the number of accounts whose index is behind, as far as this server knows.
    pub(super) fn set_behind(&self, accounts: usize) {
        self.behind.store(u64::try_from(accounts).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts a step.
    pub(super) fn count(&self, is_ok: bool) {
        let of = if is_ok { &self.steps } else { &self.failures };
        of.fetch_add(1, Ordering::Relaxed);
    }

    /// Copies the counts to those of a home.
    pub(super) fn read_into(&self, stats: &mut IndexStats) {
        stats.behind = self.behind.load(Ordering::Relaxed);
        stats.steps = self.steps.load(Ordering::Relaxed);
        stats.failures = self.failures.load(Ordering::Relaxed);
    }
}
