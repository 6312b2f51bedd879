//! Parts of a handle that maintenance of its account uses.

use std::sync::Arc;

use garth_engine::Env;
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::engine::relational::open_pasts::OpenPasts;
use garth_engine::rule::Registry;

use super::PgStore;
use crate::client::Pool;

impl PgStore {
    /// Returns the connections.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.inner.pool
    }

    /// Returns the number of the account.
    pub(crate) fn account(&self) -> i64 {
        self.inner.account
    }

    /// Returns the clock of this process, which measures times but does not decide them.
    pub(crate) fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Returns the rules and projections that every account has.
    pub(crate) fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// Returns the nodes that this process holds open.
    pub(crate) fn open_nodes(&self) -> &Arc<OpenNodes> {
        &self.inner.open
    }

    /// Returns the states of the past that this process holds open.
    pub(crate) fn open_pasts(&self) -> &Arc<OpenPasts> {
        &self.inner.pasts
    }
}
