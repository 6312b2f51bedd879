//! Garbage collection of sessions: deletes what their policies no longer keep.

use garth_agent::session::{Collect, Due, DueSession, Sessions};
use garth_engine::model::{FindCursor, Timestamp};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, Result};

/// Scope of garbage collection that an operator permits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collecting {
    /// True to delete messages and events, too, where the policy of a session permits it.
    pub history: bool,
}

/// Time of the next collection for an account: at once if `more`, else at `next`, if any.
pub(crate) struct Left {
    pub(crate) more: bool,
    pub(crate) next: Option<Timestamp>,
    /// Position at which the next look for due sessions continues.
    pub(crate) after: Option<FindCursor>,
}

/// Collects the sessions of an account that are due, at most `sessions` of them, of those after a position.
pub(crate) async fn step(
    tree: &dyn AccountStore,
    env: &Env,
    collecting: Collecting,
    sessions: usize,
    after: Option<FindCursor>,
) -> Result<Left> {
    let due = Due::find(tree, env.now(), after.as_ref()).await?;
    let mut how = Collect::default();
    how.keep_history = !collecting.history;
    for one in due.sessions.iter().take(sessions) {
        let mut done = of(tree, one, env)?.collect(&one.session, &how).await;
        if collecting.history && done.as_ref().is_err_and(|error| error.is(ErrorKind::RuleViolation)) {
            // Messages and events are append-only by rule, which collection must override.
            let fs = tree.overriding_rules();
            done = of(&*fs, one, env)?.collect(&one.session, &how).await;
        }
        match done {
            Ok(done) => {
                for gone in &done.removed {
                    tracing::info!(
                        session = %one, file = gone.name, bytes = gone.bytes, reason = &*gone.reason,
                        "collected"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(session = %one, %error, "a session cannot be collected");
                // Postponed, or the same session would fail again on each visit and keep the others waiting.
                if let Err(error) = of(tree, one, env)?.postpone(&one.session).await {
                    tracing::warn!(session = %one, %error, "the collection of a session cannot be postponed");
                }
            }
        }
    }
    let more = due.sessions.len() > sessions;
    // The next look must not pass the sessions that were left.
    Ok(Left { more, next: due.next, after: if more { after } else { due.after } })
}

/// Returns the sessions among which `one` is.
fn of<'a>(fs: &'a dyn FileSystem, one: &DueSession, env: &Env) -> Result<Sessions<'a>> {
    Ok(Sessions::new(fs, &one.user, &one.agent)?.env(env.clone()))
}
