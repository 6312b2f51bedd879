//! Resets of sessions that are due by the settings of their agents, and memories that could not be written
//! then because the model did not answer. A model takes long, so both run in tasks of their own. The visits
//! of the courier only find out what is due.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use garth_agent::workspace::{Reset, Workspace, due_resets, next_job, run_jobs};
use garth_engine::model::FindCursor;
use garth_engine::{AccountStore, Env, Result};
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use crate::chat_model::ServedModel;
use crate::collect::Left;
use crate::compute::compute;
use crate::limits::{Limits, after as later};
use crate::metrics::{Metrics, WorkKind};

/// Resets of a server.
#[derive(Clone, Debug)]
pub(crate) struct Resets {
    model: Option<ServedModel>,
    /// Permits for accounts that are worked on at the same time. Most of them wait for a model, which takes
    /// no thread.
    room: Arc<Semaphore>,
    /// Time until an account is visited again that found no room, or is being worked on.
    retry: Duration,
    /// Accounts that are being worked on.
    busy: Arc<Mutex<HashSet<String>>>,
    metrics: Metrics,
}

impl Resets {
    pub(crate) fn new(model: Option<ServedModel>, limits: &Limits) -> Self {
        let room = Arc::new(Semaphore::new(limits.resets));
        let (busy, metrics) = Default::default();
        Self { model, room, retry: limits.resets_retry, busy, metrics }
    }

    /// Sets the metrics that count the resets and the calls of the model.
    pub(crate) fn metrics(self, metrics: &Metrics) -> Self {
        let model = self.model.map(|model| metrics.model(model));
        Self { model, metrics: metrics.clone(), ..self }
    }

    /// Sets the limits.
    pub(crate) fn limits(self, limits: &Limits) -> Self {
        Self::new(self.model, limits)
    }

    /// Finds the sessions of an account after a position that are due for a reset, and starts the resets if
    /// there is room.
    pub(crate) async fn step(
        &self,
        tree: &Arc<dyn AccountStore>,
        account: &str,
        env: &Env,
        after: Option<FindCursor>,
    ) -> Result<Left> {
        let now = env.now();
        let due = due_resets(&**tree, now, after.as_ref()).await?;
        let job = match &self.model {
            Some(_) => next_job(&**tree).await?,
            None => None,
        };
        if due.sessions.is_empty() && job.is_none_or(|job| job > now) {
            let next = [due.next, job].into_iter().flatten().min();
            return Ok(Left { more: false, next, after: due.after });
        }
        self.begin(Arc::clone(tree), account, env, after.clone());
        // Visited again later even if the work has started, because it may find no room or fail. Until then
        // the due sessions must not be passed.
        let after = if due.sessions.is_empty() { due.after } else { after };
        Ok(Left { more: false, next: Some(later(now, self.retry)), after })
    }

    fn begin(&self, tree: Arc<dyn AccountStore>, account: &str, env: &Env, after: Option<FindCursor>) {
        // Without room, the account is visited again after `retry`.
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else { return };
        let busy = || self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        // The work of an earlier visit may still wait for a model; a second run would reset the same
        // sessions.
        if !busy().insert(account.to_owned()) {
            return;
        }
        let (resets, account, env) = (self.clone(), account.to_owned(), env.clone());
        let span = tracing::error_span!("reset", account);
        let resetting = async move {
            // Held until the work ends.
            let _room = room;
            let _working = resets.metrics.working(WorkKind::Reset);
            let (threads, model) = (env.clone(), resets.model.clone());
            let work = async move { run(&*tree, &env, model.as_ref(), after.as_ref()).await };
            let reset = compute(&threads, &account, 0, work).await.flatten();
            resets.metrics.worked(WorkKind::Reset, reset.is_ok());
            if let Err(error) = reset {
                tracing::warn!(%error, "sessions cannot be reset");
            }
            resets.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&account);
        };
        tokio::spawn(resetting.instrument(span));
    }
}

/// Resets the due sessions of an account after a position, and runs its waiting jobs.
async fn run(
    tree: &dyn AccountStore,
    env: &Env,
    model: Option<&ServedModel>,
    after: Option<&FindCursor>,
) -> Result<()> {
    let allowance = ServedModel::allowance(model, tree, env).await?;
    let asking = ServedModel::asking(model, allowance.as_ref());
    // Looked up again, because an earlier run may have reset some of them.
    for one in due_resets(tree, env.now(), after).await?.sessions {
        let workspace = Workspace::new(tree, &one.agent)?.env(env.clone());
        let how = Reset::default().asking(asking);
        match workspace.reset_if_due(&one.user, &one.session, &how).await {
            Ok(Some(done)) => tracing::info!(session = %one, next = done.next.name, "reset"),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(session = %one, %error, "a session cannot be reset");
                // Postponed, or the same session would fail again on each visit and keep the others waiting.
                if let Err(error) = workspace.postpone_reset(&one.user, &one.session).await {
                    tracing::warn!(session = %one, %error, "the reset of a session cannot be postponed");
                }
            }
        }
    }
    if let Some(asking) = asking {
        run_jobs(tree, env, asking).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use garth_agent::session::{Append, Create, Draft, Sessions};
    use garth_engine::engine::sqlite::SqliteFs;
    use garth_engine::model::{Batch, Op, SetAttrs, Timestamp};
    use garth_engine::{FileSystem as _, TreePath};

    use super::*;

    #[tokio::test]
    async fn failing_resets_are_postponed() {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(Timestamp(1_769_506_200_000_000_000));
        let fs = SqliteFs::open(folder.path(), env.clone(), garth_agent::registry()).unwrap();
        let write = |path: &str, text: &str| {
            Op::write(TreePath::parse(path).unwrap(), text.to_owned()).with_parents()
        };
        // A session that is due, and has nothing that a reset could read.
        let mark = SetAttrs::new().metadata("garth.reset_at", "2026-01-01T00:00:00Z");
        let ops = [
            write("/agents/coder/settings.json", r#"{"reset":{"policy":"idle","minutes":30}}"#),
            write("/users/default/agents/coder/session/bad/created_at", "").with_attrs(mark),
        ];
        fs.commit(Batch::new(ops).by_garth()).await.unwrap();
        let sessions = Sessions::new(&*fs, "default", "coder").unwrap().env(env.clone());
        let key = "agent:coder:main".parse().unwrap();
        sessions.create(&Create::new("work").key(key)).await.unwrap();
        sessions.append("work", &Append::messages([Draft::user("hi")])).await.unwrap();
        let workspace = Workspace::new(&*fs, "coder").unwrap().env(env.clone());
        workspace.reset_if_due("default", "work", &Reset::default()).await.unwrap();
        let due = async || {
            let due = due_resets(&*fs, env.now(), None).await.unwrap().sessions;
            due.into_iter().map(|one| one.session).collect::<Vec<_>>()
        };
        clock.advance(Duration::from_secs(1800));
        assert_eq!(due().await, ["bad", "work"]);
        run(&*fs, &env, None, None).await.unwrap();
        assert!(sessions.get("work").await.unwrap().state.is_final());
        assert!(due().await.is_empty());
        clock.advance(Duration::from_secs(3600));
        assert!(due().await.contains(&"bad".to_owned()));
    }
}
