//! Compaction of sessions whose last prompt almost filled the context window of their model, in the
//! background.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use garth_agent::workspace::{Trim, Workspace};
use garth_engine::{AccountStore, Env, Result};
use tracing::Instrument as _;

use crate::chat_model::ServedModel;
use crate::compute::compute;
use crate::limits::Limits;
use crate::metrics::{Metrics, WorkKind};

/// Compactions of a server, bounded in number because a model may hang. If there is no room for one, the next
/// answer of its session starts it.
#[derive(Clone, Debug)]
pub(crate) struct Compactions {
    /// Running compactions of each account.
    under_way: Arc<Mutex<HashMap<String, usize>>>,
    at_once: usize,
    of_account: usize,
    metrics: Metrics,
}

/// Room for a compaction, until dropped.
struct Room {
    compactions: Compactions,
    account: String,
}

/// Session that may be due for compaction.
#[derive(Clone, Debug)]
pub(crate) struct Of {
    pub(crate) account: String,
    pub(crate) agent: String,
    pub(crate) user: String,
    pub(crate) session: String,
}

impl Compactions {
    pub(crate) fn new(limits: &Limits) -> Self {
        let (at_once, of_account) = (limits.compactions, limits.compactions_per_account);
        Self { under_way: Arc::default(), at_once, of_account, metrics: Metrics::default() }
    }

    /// Sets the metrics that count the compactions.
    pub(crate) fn metrics(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    fn room(&self, account: &str) -> Option<Room> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // Both limits count compactions that wait for a model.
        let own = under_way.get(account).copied().unwrap_or_default();
        if own >= self.of_account || under_way.values().sum::<usize>() >= self.at_once {
            return None;
        }
        under_way.insert(account.to_owned(), own + 1);
        Some(Room { compactions: self.clone(), account: account.to_owned() })
    }

    /// Starts the compaction of a session in the background, if it is due and there is room.
    pub(crate) fn begin(&self, tree: Arc<dyn AccountStore>, env: Env, model: Option<ServedModel>, of: Of) {
        let Some(room) = self.room(&of.account) else { return };
        let Of { account, agent, user, session } = &of;
        // At level `ERROR`, so that every filter that shows an event shows its span.
        let span = tracing::error_span!("compaction", account, agent, user, session);
        let compacting = async move {
            // Held until the compaction ends.
            let _working = room.compactions.metrics.working(WorkKind::Compaction);
            let metrics = room.compactions.metrics.clone();
            let _room = room;
            let (account, threads) = (of.account.clone(), env.clone());
            let work = async move { compact(&*tree, &env, model.as_ref(), &of).await };
            let compacted = compute(&threads, &account, 0, work).await.flatten();
            metrics.worked(WorkKind::Compaction, compacted.is_ok());
            match compacted {
                Ok(0) => {}
                Ok(messages) => tracing::info!(messages, "compacted"),
                Err(error) => tracing::warn!(%error, "a session cannot be compacted"),
            }
        };
        tokio::spawn(compacting.instrument(span));
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut under_way = self.compactions.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = under_way.get_mut(&self.account) {
            *own -= 1;
        }
        // Without this, every account that was ever compacted would stay in the map.
        under_way.retain(|_, own| *own > 0);
    }
}

/// Compacts a session if it is due. Returns the number of messages that left its packs.
async fn compact(tree: &dyn AccountStore, env: &Env, model: Option<&ServedModel>, of: &Of) -> Result<u64> {
    let workspace = Workspace::new(tree, &of.agent)?.env(env.clone());
    let allowance = ServedModel::allowance(model, tree, env).await?;
    let asking = ServedModel::asking(model, allowance.as_ref());
    let (mut how, mut messages) = (Trim::default().asking(asking).if_due(), 0);
    while let Some(done) = workspace.compact(&of.user, &of.session, &how).await? {
        messages += done.messages;
        if !done.more {
            break;
        }
        // One step may stop before the end. The rest is no longer due by size, but belongs to the same
        // compaction.
        how.if_due = false;
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_leaves_compactions_for_others() {
        let limits = Limits::default();
        let compactions = Compactions::new(&limits);
        let mut held: Vec<_> =
            (0..limits.compactions_per_account).map(|_| compactions.room("a").unwrap()).collect();
        assert!(compactions.room("a").is_none());
        for other in 0..limits.compactions - limits.compactions_per_account {
            held.push(compactions.room(&other.to_string()).unwrap());
        }
        assert!(compactions.room("b").is_none());
        held.remove(0);
        assert!(compactions.room("a").is_some());
    }
}
