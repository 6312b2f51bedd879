//! Parts of a handle that maintenance of its account uses.

use std::sync::Arc;

use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::kept_states;
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::engine::relational::open_pasts::OpenPasts;
use garth_engine::fs::store::Hold;
use garth_engine::model::{At, Entry, Kind};
use garth_engine::path::TreePath;
use garth_engine::rule::Registry;
use garth_engine::{Env, Error, FileSystem as _, Result};

use super::PgStore;
use crate::client::Pool;
use crate::control::ControlCache;
use crate::holds::Holds;

impl PgStore {
    /// Returns the handle of the whole account as it is now.
    pub(crate) fn whole(&self) -> Self {
        Self { as_of: None, ..self.with_reach(Reach::everything()) }
    }

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

    /// Returns the control data that commits of this process have read last.
    pub(crate) fn control_cache(&self) -> &ControlCache {
        &self.inner.committer.control
    }

    /// Returns what this server holds open and receives of the account.
    pub(crate) fn holds(&self) -> &Holds {
        &self.inner.holds
    }

    /// Returns the nodes that this process holds open.
    pub(crate) fn open_nodes(&self) -> &Arc<OpenNodes> {
        &self.inner.open
    }

    /// Returns the states of the past that this process holds open.
    pub(crate) fn open_pasts(&self) -> &Arc<OpenPasts> {
        &self.inner.pasts
    }

    /// Returns the first state over which an overlay lies. The handle must reach the whole account.
    ///
    /// # Errors
    /// Errors of the database.
    #[allow(clippy::redundant_closure, reason = "the function itself is not general over lifetimes")]
    pub(crate) async fn first_fork(&self) -> Result<Option<(u64, Hold)>> {
        self.reading(|_| {}, |view| kept_states::first_fork(view)).await
    }

    /// Returns the kinds of the entries at some paths; `None` where there is none.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn kinds_of(&self, paths: Vec<TreePath>) -> Result<Vec<(TreePath, Option<Kind>)>> {
        let mut kinds = Vec::with_capacity(paths.len());
        for path in paths {
            let kind = match self.stat(&At::Path(path.clone())).await {
                Ok(Entry { kind, .. }) => Some(kind),
                Err(error) if error.is_absent() => None,
                Err(error) => return Err::<_, Error>(error),
            };
            kinds.push((path, kind));
        }
        Ok(kinds)
    }
}
