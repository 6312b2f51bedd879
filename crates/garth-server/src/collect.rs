//! Collects what was made of sessions and is not needed any more, once it is due by their policies.

use garth_agent::session::{Collect, Due, DueSession, Sessions};
use garth_engine::model::Timestamp;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, Result};

/// What an operator lets be collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collecting {
    /// Messages and events, too, where the policy of a session lets go of them.
    pub history: bool,
}

/// When there is something to do again for an account: at once, or at this time if at all.
pub(crate) struct Left {
    pub(crate) more: bool,
    pub(crate) next: Option<Timestamp>,
}

/// Collects what is due of an account, of so many sessions at most.
pub(crate) async fn step(
    tree: &dyn AccountStore,
    env: &Env,
    collecting: Collecting,
    sessions: usize,
) -> Result<Left> {
    let due = Due::find(tree, env.now()).await?;
    let mut how = Collect::default();
    how.keep_history = !collecting.history;
    for one in due.sessions.iter().take(sessions) {
        let mut done = of(tree, one, env)?.collect(&one.session, &how).await;
        if collecting.history && done.as_ref().is_err_and(|error| error.is(ErrorKind::RuleViolation)) {
            // history is append-only by rule
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
                of(tree, one, env)?.postpone(&one.session).await?;
            }
        }
    }
    Ok(Left { more: due.sessions.len() > sessions, next: due.next })
}

/// The sessions that one is of.
fn of<'a>(fs: &'a dyn FileSystem, one: &DueSession, env: &Env) -> Result<Sessions<'a>> {
    Ok(Sessions::new(fs, &one.user, &one.agent)?.env(env.clone()))
}
