//! State that all requests to one server share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use garth_agent::access::OpenTrees;
use garth_agent::media::Hydrator;
use garth_agent::models::VectorCache;
use garth_agent::workspace::PromptCache;
use garth_engine::home::Admitted;
use garth_engine::{AccountStore, Env, ErrorKind, Home};
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
}

impl Served {
    /// Returns the state of a server without an embedding service and without limits on calls.
    pub(super) fn new(home: Arc<dyn Home>, model: Option<ServedModel>, limits: Arc<Limits>) -> Self {
        let sealing_key = Arc::new(SealingKey::new(home.sealing_key()));
        let trees = Arc::new_cyclic(|trees| OpenTrees::default().on_kept(closing(trees, home.env())));
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
            trees,
        }
    }

    /// Returns the tree of the account of a caller. If the account was deleted after the key was admitted,
    /// the key is no longer valid. A key of the data folder opens none.
    pub(super) async fn tree(&self, admitted: &Admitted) -> Result<Arc<dyn AccountStore>, Refusal> {
        let mut opened = self.home.open_admitted(admitted).await;
        if self.released(&opened) {
            opened = self.home.open_admitted(admitted).await;
        }
        match opened {
            Err(error) if error.is(ErrorKind::NotFound) => Err(Refusal::unauthorized()),
            tree => Ok(tree?),
        }
    }

    /// Returns the tree of an account that an operator names.
    pub(super) async fn tree_named(&self, account: &str) -> garth_engine::Result<Arc<dyn AccountStore>> {
        let opened = self.home.open(account).await;
        match self.released(&opened) {
            true => self.home.open(account).await,
            false => opened,
        }
    }

    /// Returns true if an account could not be opened because trees that are kept held it since its storage
    /// failed. They are closed now.
    fn released<T>(&self, opened: &garth_engine::Result<T>) -> bool {
        opened.as_ref().is_err_and(|error| error.is(ErrorKind::Poisoned)) && self.trees.close_failed()
    }
}

/// Returns work that starts a task which closes trees that no call uses, unless it runs. The task ends with
/// the last tree, and with the server.
fn closing(trees: &Weak<OpenTrees>, env: &Env) -> impl Fn() + Send + Sync + use<> {
    let (trees, env, runs) = (Weak::clone(trees), env.clone(), Arc::new(AtomicBool::new(false)));
    move || {
        if !runs.swap(true, Ordering::SeqCst) {
            tokio::spawn(close_unused(Weak::clone(&trees), env.clone(), Arc::clone(&runs)));
        }
    }
}

async fn close_unused(trees: Weak<OpenTrees>, env: Env, runs: Arc<AtomicBool>) {
    loop {
        sleep(CLOSING).await;
        let Some(trees) = trees.upgrade() else { return };
        trees.close_unused(&env);
        if !trees.is_empty() {
            continue;
        }
        runs.store(false, Ordering::SeqCst);
        // A tree that was opened just before has found this task running.
        if trees.is_empty() || runs.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use garth_agent::Request;
    use garth_agent::access::{Family, Reach};
    use garth_engine::DataDir;
    use garth_engine::model::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unused_tree_is_closed_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
        let data = DataDir::builder(garth_agent::registry()).env(env).open(folder.path()).unwrap();
        data.create_account("acme").await.unwrap();
        let account = data.account("acme").await.unwrap();
        let served = Served::new(Arc::new(data), None, Arc::default());
        for _ in 0..2 {
            let (account, asked) = (Arc::clone(&account), Request::new("scout"));
            let reach = Reach::of_holder(account, served.home.env(), Family::Files, asked);
            reach.kept_in(&served.trees, "tree").open(Family::Files).await.unwrap();
            assert_eq!(served.trees.len(), 1);
            clock.advance(2 * CLOSING);
            sleep(2 * CLOSING).await;
            assert!(served.trees.is_empty());
        }
    }
}
