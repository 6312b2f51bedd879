//! Compacts sessions whose last prompt came near the end of their model's window, beside the requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use garth_agent::workspace::{Trim, Workspace};
use garth_engine::{AccountStore, Env, Result};

use crate::chat_model::ServedModel;
use crate::compute::compute;

/// Compactions of a server at a time, and of an account: they wait for a model, which may hang. One that
/// finds no room is begun by the next answer of its session.
const AT_ONCE: usize = 8;
const OF_ACCOUNT: usize = 2;

/// The compactions of a server: how many each account has under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compactions(Arc<Mutex<HashMap<String, usize>>>);

/// Room for a compaction, until dropped.
struct Room {
    compactions: Compactions,
    account: String,
}

/// A session that may be due.
#[derive(Clone, Debug)]
pub(crate) struct Of {
    pub(crate) account: String,
    pub(crate) agent: String,
    pub(crate) user: String,
    pub(crate) session: String,
}

impl Compactions {
    fn room(&self, account: &str) -> Option<Room> {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = under_way.get(account).copied().unwrap_or_default();
        if own >= OF_ACCOUNT || under_way.values().sum::<usize>() >= AT_ONCE {
            return None;
        }
        under_way.insert(account.to_owned(), own + 1);
        Some(Room { compactions: self.clone(), account: account.to_owned() })
    }

    /// Compacts a session if it is due, some time.
    pub(crate) fn begin(&self, tree: Arc<dyn AccountStore>, env: Env, model: Option<ServedModel>, of: Of) {
        let Some(room) = self.room(&of.account) else { return };
        tokio::spawn(async move {
            let _room = room;
            let (account, session, threads) = (of.account.clone(), of.session.clone(), env.clone());
            let work = async move { compact(&*tree, &env, model.as_ref(), &of).await };
            match compute(&threads, &account, 0, work).await.flatten() {
                Ok(0) => {}
                Ok(messages) => tracing::info!(session, messages, "compacted"),
                Err(error) => tracing::warn!(session, %error, "a session cannot be compacted"),
            }
        });
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut under_way = self.compactions.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = under_way.get_mut(&self.account) {
            *own -= 1;
        }
        under_way.retain(|_, own| *own > 0);
    }
}

/// How many messages left the packs of a session.
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
        // what is left is due as well
        how.if_due = false;
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_leaves_room_for_others() {
        let compactions = Compactions::default();
        let mut held: Vec<_> = (0..OF_ACCOUNT).map(|_| compactions.room("a").unwrap()).collect();
        assert!(compactions.room("a").is_none());
        for other in 0..AT_ONCE - OF_ACCOUNT {
            held.push(compactions.room(&other.to_string()).unwrap());
        }
        assert!(compactions.room("b").is_none());
        held.remove(0);
        assert!(compactions.room("a").is_some());
    }
}
