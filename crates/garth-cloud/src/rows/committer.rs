//! Commits of an account as the rows of their transactions see them: batches with their reach, and what this
//! process knows of the account.

use std::sync::Arc;

use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::gate_judgements::Judgements;
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::model::Batch;
use garth_engine::rule::Registry;

use crate::control::ControlCache;
use crate::holds::Holds;

/// A batch, with the reach of the handle that it was committed through.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Batch, confined to the reach.
    pub batch: &'a Batch,
    /// Reach of the handle.
    pub reach: &'a Reach,
}

/// Commits of an account, with what this process knows of it.
pub struct Committer {
    pub(crate) account: i64,
    pub(crate) control: ControlCache,
    /// Nodes that this process holds open.
    pub(crate) open: Arc<OpenNodes>,
    /// Leases on these nodes; `None` without a server.
    pub(crate) holds: Option<Arc<Holds>>,
    /// Judgements of the files of gates.
    pub(crate) judgements: Arc<Judgements>,
}

impl Committer {
    /// Returns the commits of an account of which this process holds nothing open, so they take no leases.
    pub(crate) fn of(account: i64, registry: &Registry) -> Self {
        let open = Arc::new(OpenNodes::new([0; 16]));
        Self::new(account, registry.clone(), open, Arc::default())
    }

    /// Returns the commits of an account. `open` are the nodes that this process holds open, `judgements`
    /// those of the files of gates.
    pub fn new(account: i64, registry: Registry, open: Arc<OpenNodes>, judgements: Arc<Judgements>) -> Self {
        Self { account, control: ControlCache::new(registry), open, holds: None, judgements }
    }

    /// Returns the commits of an account at a server.
    pub(crate) fn of_server(holds: &Arc<Holds>, registry: Registry, judgements: Arc<Judgements>) -> Self {
        let committer = Self::new(holds.account(), registry, Arc::clone(&holds.open), judgements);
        Self { holds: Some(Arc::clone(holds)), ..committer }
    }
}
