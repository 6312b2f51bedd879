//! The tree of an account in the database: implements [`FileSystem`] and
//! [`AccountStore`](garth_engine::AccountStore).
//!
//! [`PgStore`] is the handle. What a call answers is decided by the reads that all engines on relational
//! databases share (`garth_engine::engine::relational::reads`), on rows that were fetched. A read first runs
//! on no rows, to note those that it asks for; it runs again on those that a round trip has fetched, until it
//! lacks none. The rows are of one snapshot of the database. Most calls take one trip or two.
//!
//! Nothing is kept between calls, except judgements of the files of gates, which hold for good.
//!
//! - `reader`: transactions that fetch rows until a read is complete;
//! - `calls`, `open_file`, `uploads`, `view_base`: the interfaces;
//! - `records`: commits that are found again by an id or key;
//! - `rules`, `quotas`: what operators set for commits to obey;
//! - `maintenance`: what collections use of a handle.

mod calls;
mod maintenance;
mod open_file;
mod past_reads;
mod quotas;
mod reader;
mod records;
mod rules;
mod uploads;
mod view_base;

use std::fmt;
use std::sync::Arc;

use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::gate_judgements::Judgements;
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::engine::relational::open_pasts::{OpenPasts, Past};
use garth_engine::fs::lower::StoreId;
use garth_engine::fs::store::SYSTEM_MARK;
use garth_engine::model::{At, Seq, Within};
use garth_engine::path::{SYSTEM, TreePath};
use garth_engine::rule::Registry;
use garth_engine::{Env, Error, ErrorKind, FileSystem, Result};

use crate::client::Pool;
use crate::commit::Committer;
use crate::holds::{Holds, Instance};

/// The tree of an account, now or as of a commit.
#[derive(Clone, Debug)]
pub struct PgStore {
    pub(crate) inner: Arc<Inner>,
    /// The state that is shown; `None` for the newest.
    as_of: Option<Arc<Past>>,
    /// Part of the tree that it reaches.
    pub(crate) reach: Arc<Reach>,
}

/// State that the handles of an account share.
pub(crate) struct Inner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) account: i64,
    pub(crate) env: Env,
    pub(crate) registry: Registry,
    pub(crate) judgements: Arc<Judgements>,
    pub(crate) open: Arc<OpenNodes>,
    pub(crate) pasts: Arc<OpenPasts>,
    pub(crate) holds: Arc<Holds>,
    /// Renews the leases as long as the tree is used.
    _instance: Arc<Instance>,
    pub(crate) committer: Committer,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("account", &self.account).finish_non_exhaustive()
    }
}

impl PgStore {
    /// Returns the handle of everything in an account, as a server of its own, whose leases do not count. A
    /// tree of a [`PgHome`](crate::home::PgHome) has leases. Nothing is read.
    pub fn new(pool: Arc<Pool>, account: i64, env: Env, registry: Registry) -> Arc<Self> {
        // Without random bytes, nothing can be written either.
        let holder = env.random().unwrap_or_default();
        Self::of(&Instance::with_id(pool, env, holder), account, registry)
    }

    /// Returns the handle of everything in an account at this server. Nothing is read.
    pub(crate) fn of(instance: &Arc<Instance>, account: i64, registry: Registry) -> Arc<Self> {
        let holds = instance.of(account);
        let (pool, env) = (Arc::clone(holds.pool()), holds.env().clone());
        let (open, pasts) = (Arc::clone(&holds.open), Arc::clone(&holds.pasts));
        let judgements = Arc::<Judgements>::default();
        let committer = Committer::of_server(&holds, registry.clone(), Arc::clone(&judgements));
        let instance = Arc::clone(instance);
        let inner = Inner {
            pool,
            account,
            env,
            registry,
            judgements,
            open,
            pasts,
            holds,
            _instance: instance,
            committer,
        };
        Arc::new(Self { inner: Arc::new(inner), as_of: None, reach: Arc::new(Reach::everything()) })
    }

    /// Returns the account without the directory in which garth stores its own data.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn without_system(self: Arc<Self>) -> Result<Arc<Self>> {
        let system = TreePath::parse(SYSTEM)?;
        let is_ours = match self.stat(&At::Path(system.clone())).await {
            Ok(entry) => entry.is_dir() && entry.attributes.xattrs.contains_key(SYSTEM_MARK),
            // Not created yet. Hidden all the same, so that no one else takes the name.
            Err(error) if error.is(ErrorKind::NotFound) => true,
            Err(error) => return Err(error),
        };
        // A user may have created a directory of this name before garth used it. It stays visible.
        if !is_ours {
            return Ok(self);
        }
        Ok(Arc::new(self.with_reach(Reach::account(Within::everything().without([system])))))
    }

    pub(crate) fn with_reach(&self, reach: Reach) -> Self {
        Self { reach: Arc::new(reach), ..self.clone() }
    }

    fn store_id(&self) -> StoreId {
        StoreId::of(&self.inner, self.as_of.as_deref().map(|past| Seq(past.seq)))
    }

    fn writable(&self) -> Result<()> {
        match self.as_of {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::ReadOnly, "a view of the past cannot be written")),
        }
    }
}
