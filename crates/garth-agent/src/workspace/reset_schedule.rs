//! Current session of a key, by the reset policy of the agent; and the schedule of resets: due sessions are
//! found by a mark, without reading the others.

use serde::{Deserialize, Serialize};

use super::handle::Workspace;
use super::reset::{Reset, ResetOutcome, due_at};
use crate::boxed;
use crate::once::Outcome;
use crate::session::{Create, Due, Listed, SessionKey};
use crate::settings::Settings;
use garth_engine::error::Result;
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{Commit, Entry, FindCursor, Op, SetAttrs, Timestamp};
use garth_engine::path::TreePath;

/// Custom metadata of [`MARKED`]: time of the next check, RFC 3339, UTC.
const RESET_AT: &str = "garth.reset_at";

/// File of a session that has the mark. Nothing else is written to it after the session was created.
const MARKED: &str = "created_at";

/// Current session of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Current {
    /// Session.
    pub session: Listed,
    /// True if it was created by this call.
    pub created: bool,
    /// Reset that created it, if the one before was due.
    pub reset: Option<ResetOutcome>,
}

impl Outcome for Option<Current> {
    fn committed(self, commit: &Commit) -> Self {
        self.map(|current| Current { reset: current.reset.committed(commit), ..current })
    }
}

/// Returns the sessions of an account that are due for a check, up to 1,000 at a time. The next look
/// continues after [`Due::after`] of this one.
///
/// # Errors
/// From the filesystem.
#[boxed]
pub async fn due_resets(fs: &dyn FileSystem, now: Timestamp, after: Option<&FindCursor>) -> Result<Due> {
    Due::marked(fs, (RESET_AT, &[MARKED]), now, after).await
}

/// Returns the mark of a file.
fn mark_of(entry: &Entry) -> Option<Timestamp> {
    entry.attributes.metadata.get(RESET_AT).and_then(|at| Timestamp::parse_rfc3339(at).ok())
}

impl Workspace<'_> {
    /// Returns the current session of a key. A session that is due by the policy is reset, and its successor
    /// returned. If there is none, one is created from `create`, if given.
    ///
    /// # Errors
    /// As [`Workspace::reset`]; `TooLarge` for too many sessions with one key.
    #[boxed]
    pub async fn current(
        &self,
        user: &str,
        key: &SessionKey,
        create: Option<&Create>,
        reset: &Reset<'_>,
    ) -> Result<Option<Current>> {
        let current = self.once.run(self.current_once(user, key, create, reset)).await?;
        // A repeat must not set the mark back: the session may have been used since.
        if let Some(current) = current.as_ref().filter(|_| !self.once.is_repeat()) {
            self.schedule_reset(user, &current.session.name).await?;
        }
        Ok(current)
    }

    async fn current_once(
        &self,
        user: &str,
        key: &SessionKey,
        create: Option<&Create>,
        reset: &Reset<'_>,
    ) -> Result<Option<Current>> {
        let sessions = self.sessions(self.fs, user)?.once(self.once.clone());
        let class = sessions.judged(None, Some(key)).await?;
        match (sessions.current(key).await?, create) {
            (Some(session), _) => {
                // The settings have changed who listens under the key. A conversation with the former
                // listeners must not continue with others.
                let due = match session.meta.class == class {
                    true => reset.clone().if_due(),
                    false => Reset { class: Some(class), if_due: false, ..reset.clone() },
                };
                let outcome = |reset: Option<ResetOutcome>| {
                    let session = reset.as_ref().map_or(&session, |reset| &reset.next).clone();
                    Some(Current { session, created: false, reset })
                };
                self.reset_as(user, &session.name, &due, outcome).await
            }
            (None, Some(create)) => {
                let outcome = |(session, created)| Some(Current { session, created, reset: None });
                sessions.by_key_as(key, create, outcome).await
            }
            (None, None) => Ok(None),
        }
    }

    /// Resets a session if it is due, and marks it, or its successor, for the next check.
    ///
    /// # Errors
    /// As [`Workspace::reset`].
    #[boxed]
    pub async fn reset_if_due(
        &self,
        user: &str,
        session: &str,
        reset: &Reset<'_>,
    ) -> Result<Option<ResetOutcome>> {
        let done = self.reset(user, session, &reset.clone().if_due()).await;
        let next = match &done {
            Ok(Some(done)) => self.schedule_reset(user, &done.next.name).await,
            _ => Ok(()),
        };
        // Also after a failed reset, so that the session is checked again only after a pause.
        let own = self.schedule_reset(user, session).await;
        let done = done?;
        next.and(own)?;
        Ok(done)
    }

    /// Moves the mark of a due session to an hour from now, also if its metadata or the settings of the agent
    /// cannot be read.
    ///
    /// # Errors
    /// From the filesystem.
    #[boxed]
    #[doc(hidden)]
    pub async fn postpone_reset(&self, user: &str, session: &str) -> Result<()> {
        let path = self.marked_file(user, session)?;
        let Some(entry) = self.fs.lookup(&path).await? else { return Ok(()) };
        let now = self.env.now();
        if mark_of(&entry).is_none_or(|at| at > now) {
            return Ok(());
        }
        let attrs = SetAttrs::new().metadata(RESET_AT, now.plus_seconds(PAUSE).to_rfc3339());
        let message = format!("put off reset of session {session}");
        self.fs.commit(self.batch(vec![Op::set_attrs(path, attrs)], &message)).await?;
        Ok(())
    }

    /// Marks a session for the time at which it will be due without further use.
    pub(super) async fn schedule_reset(&self, user: &str, session: &str) -> Result<()> {
        let (sessions, settings) = (self.sessions(self.fs, user)?, self.settings().await?);
        sessions.check_writable(session)?;
        let listed = sessions.get(session).await?;
        let path = self.marked_file(user, session)?;
        let Some(entry) = self.fs.lookup(&path).await? else { return Ok(()) };
        let now = mark_of(&entry);
        let due = self.due_of(&listed, &settings)?;
        let is_right = match (now, due) {
            (None, None) => true,
            // An earlier mark is right: the check then sets the next one. So use of a session does not write
            // to it.
            (Some(now), Some(due)) => now > self.env.now() && now <= due,
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        let attrs = match due {
            Some(due) => SetAttrs::new().metadata(RESET_AT, due.to_rfc3339()),
            None => SetAttrs::new().remove_metadata(RESET_AT),
        };
        let op = Op::set_attrs(path, attrs);
        self.fs.commit(self.batch_of(&listed.meta, vec![op], "mark session")).await?;
        Ok(())
    }

    fn due_of(&self, listed: &Listed, settings: &Settings) -> Result<Option<Timestamp>> {
        if listed.state.is_final() {
            return Ok(None);
        }
        let used = Timestamp::parse_rfc3339(&listed.updated_at).unwrap_or_else(|_| self.env.now());
        let due = due_at(&settings.reset, &settings.zone()?, used);
        // A due session that was not reset has no messages, or could not be reset. It is checked again after
        // a pause.
        let soon = self.env.now().plus_seconds(PAUSE);
        Ok(due.map(|due| if due <= self.env.now() { soon } else { due }))
    }

    fn marked_file(&self, user: &str, session: &str) -> Result<TreePath> {
        let dir = self.sessions(self.fs, user)?.directory(session)?;
        Ok(TreePath::from_row(dir.key(), MARKED))
    }
}

/// Time in seconds before a due session that was not reset is checked again.
const PAUSE: i64 = 60 * 60;
