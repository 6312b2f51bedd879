//! State that all requests to one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garth_agent::access::OpenTrees;
use garth_agent::media::Hydrator;
use garth_agent::models::VectorCache;
use garth_agent::workspace::PromptCache;
use garth_engine::home::Admitted;
use garth_engine::{AccountStore, ErrorKind, Home};
use tokio::time::sleep;

use super::twins::Twins;
use crate::answers::Rooms;
use crate::auth::Tries;
use crate::call_limits::CallLimits;
use crate::chat_model::ServedModel;
use crate::compaction::Compactions;
use crate::consumers::Consumers;
use crate::embedder::ServedEmbedder;
use crate::errors::Refusal;
use crate::limits::Limits;
use crate::maintenance::Maintenance;
use crate::operations::Operations;
use crate::seal::SealingKey;
use crate::stopping::Stopping;

/// Pause between two looks for trees that no call uses.
const CLOSING: Duration = Duration::from_secs(10);

/// State as the routes get it. Each request takes a reference to all of it instead of one to each part.
pub(crate) type SharedState = Arc<Served>;

/// State that all requests to one server share.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) home: Arc<dyn Home>,
    pub(crate) answers: Arc<Rooms>,
    pub(crate) bodies: Arc<Rooms>,
    pub(super) transfers: Arc<Rooms>,
    pub(super) recalls: Arc<Rooms>,
    pub(super) model_calls: Arc<Rooms>,
    pub(super) consumers: Arc<Consumers>,
    pub(super) model: Option<ServedModel>,
    pub(super) embedder: Option<ServedEmbedder>,
    pub(super) vectors: Arc<VectorCache>,
    pub(super) compactions: Compactions,
    pub(super) maintenance: Maintenance,
    pub(super) hydrator: Arc<Hydrator>,
    pub(super) prompts: Arc<PromptCache>,
    pub(super) twins: Arc<Twins>,
    pub(super) tries: Arc<Tries>,
    pub(crate) calls: Arc<CallLimits>,
    pub(super) sealing_key: Arc<SealingKey>,
    pub(crate) limits: Arc<Limits>,
    pub(super) stopping: Stopping,
    pub(super) operations: Arc<Operations>,
    /// Parts of accounts that identities reach, open between their calls.
    pub(super) trees: Arc<OpenTrees>,
    /// True while a task closes trees that no call uses.
    pub(super) closes_trees: Arc<AtomicBool>,
}

impl Served {
    /// Returns the state of a server without an embedding service and without limits on calls.
    pub(super) fn new(home: Arc<dyn Home>, model: Option<ServedModel>, limits: Arc<Limits>) -> Self {
        let sealing_key = Arc::new(SealingKey::new(home.sealing_key()));
        Self {
            home,
            answers: Arc::new(Rooms::for_answers(&limits)),
            bodies: Arc::new(Rooms::for_bodies(&limits)),
            transfers: Arc::new(Rooms::for_transfers(&limits)),
            recalls: Arc::new(Rooms::for_recalls(&limits)),
            model_calls: Arc::new(Rooms::for_models(&limits)),
            consumers: Arc::new(Consumers::new(&limits)),
            model,
            embedder: None,
            vectors: Arc::new(VectorCache::with_budget(limits.embedder_cache)),
            compactions: Compactions::new(&limits),
            maintenance: Maintenance::default(),
            hydrator: Arc::new(Hydrator::with_budget(limits.media_cache)),
            prompts: Arc::default(),
            twins: Arc::default(),
            tries: Arc::default(),
            calls: Arc::default(),
            sealing_key,
            limits,
            stopping: Stopping::default(),
            operations: Arc::default(),
            trees: Arc::default(),
            closes_trees: Arc::default(),
        }
    }

    /// Returns the tree of the account of a caller. If the account was deleted after the key was admitted,
    /// the key is no longer valid. A key of the data folder opens none.
    pub(super) async fn tree(&self, admitted: &Admitted) -> Result<Arc<dyn AccountStore>, Refusal> {
        match self.home.open_admitted(admitted).await {
            Err(error) if error.is(ErrorKind::NotFound) => Err(Refusal::unauthorized()),
            tree => Ok(tree?),
        }
    }

    /// Starts the task that closes trees which no call uses, unless it runs. It ends with the last tree, and
    /// with the server.
    pub(crate) fn close_unused_trees(&self) {
        if self.closes_trees.swap(true, Ordering::AcqRel) {
            return;
        }
        let (trees, env) = (Arc::downgrade(&self.trees), self.home.env().clone());
        let closes = Arc::clone(&self.closes_trees);
        tokio::spawn(async move {
            loop {
                sleep(CLOSING).await;
                let Some(trees) = trees.upgrade() else { return };
                trees.close_unused(&env);
                if trees.is_empty() {
                    closes.store(false, Ordering::Release);
                    return;
                }
            }
        });
    }
}
