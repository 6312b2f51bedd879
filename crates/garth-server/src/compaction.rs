//! Compacts sessions whose last prompt came near the end of their model's window, beside the requests.

use std::sync::Arc;

use garth::agent::workspace::{Trim, Workspace};
use garth::{AccountStore, Env, Result};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::chat_model::ServedModel;

/// Compactions of a server at a time. One that finds no room is begun by the next answer of its session.
const AT_ONCE: usize = 4;

/// The compactions of a server.
#[derive(Clone, Debug)]
pub(crate) struct Compactions {
    room: Arc<Semaphore>,
}

/// A session that may be due.
#[derive(Clone, Debug)]
pub(crate) struct Of {
    pub(crate) agent: String,
    pub(crate) user: String,
    pub(crate) session: String,
}

impl Compactions {
    pub(crate) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Compacts a session if it is due, some time.
    pub(crate) fn begin(&self, tree: Arc<dyn AccountStore>, env: Env, model: Option<ServedModel>, of: Of) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else { return };
        let runtime = Handle::current();
        // it reads and counts for long: not on a worker of the runtime
        tokio::task::spawn_blocking(move || {
            runtime.block_on(async {
                let _room = room;
                match compact(&*tree, &env, model.as_ref(), &of).await {
                    Ok(0) => {}
                    Ok(messages) => tracing::info!(session = of.session, messages, "compacted"),
                    Err(error) => {
                        tracing::warn!(session = of.session, %error, "a session cannot be compacted");
                    }
                }
            });
        });
    }
}

/// How many messages left the packs of a session.
async fn compact(tree: &dyn AccountStore, env: &Env, model: Option<&ServedModel>, of: &Of) -> Result<u64> {
    let workspace = Workspace::new(tree, &of.agent, env.clone())?;
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
