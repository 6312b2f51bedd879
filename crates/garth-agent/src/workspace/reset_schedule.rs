//! The session that goes on under a key, by the policy of the agent's settings; and the sessions that whoever
//! serves an account resets by it, found by a mark and without a look at any other.

use serde::{Deserialize, Serialize};

use super::handle::Workspace;
use super::reset::{Reset, WasReset, due_at};
use crate::boxed;
use crate::once::Outcome;
use crate::session::{Create, Due, Listed, SessionKey};
use crate::settings::Settings;
use garth_engine::error::Result;
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{Commit, Op, SetAttrs, Timestamp};
use garth_engine::path::TreePath;

/// In the custom metadata of [`MARKED`]: when the session is looked at. RFC 3339, UTC.
const RESET_AT: &str = "garth.reset_at";

/// The file of a session that has the mark: nothing else is written to it after the session was made.
const MARKED: &str = "created_at";

/// The session that goes on under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Current {
    /// The session.
    pub session: Listed,
    /// Whether it was made just now, as there was none.
    pub created: bool,
    /// The reset that made it, if the one before was due.
    pub reset: Option<WasReset>,
}

impl Outcome for Option<Current> {
    fn committed(self, commit: &Commit) -> Self {
        self.map(|current| Current { reset: current.reset.committed(commit), ..current })
    }
}

/// Sessions of an account that are to be looked at by now, up to 1,000 at a time.
///
/// # Errors
/// From the filesystem.
#[boxed]
pub async fn due_resets(fs: &dyn FileSystem, now: Timestamp) -> Result<Due> {
    Due::marked(fs, RESET_AT, &[MARKED], now).await
}

impl Workspace<'_> {
    /// The session that goes on under a key: the current one, or one that takes its place if it is due by the
    /// policy; if there is none, a new one made of `create`, if that is given.
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
        // A repeat leaves the marks to what has happened since.
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
                // Whoever listens now is not who listened when it began.
                let due = match session.meta.class == class {
                    true => reset.clone().if_due(),
                    false => Reset { class: Some(class), if_due: false, ..reset.clone() },
                };
                let outcome = |reset: Option<WasReset>| {
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

    /// Resets a session if it is due, and marks it, or the one that takes its place, for the next look.
    ///
    /// # Errors
    /// As [`Workspace::reset`].
    #[boxed]
    pub async fn reset_if_due(
        &self,
        user: &str,
        session: &str,
        reset: &Reset<'_>,
    ) -> Result<Option<WasReset>> {
        let done = self.reset(user, session, &reset.clone().if_due()).await;
        if let Ok(Some(done)) = &done {
            self.schedule_reset(user, &done.next.name).await?;
        }
        self.schedule_reset(user, session).await?;
        done
    }

    /// Marks a session for the time at which it is due if nothing happens until then.
    pub(super) async fn schedule_reset(&self, user: &str, session: &str) -> Result<()> {
        let (sessions, settings) = (self.sessions(self.fs, user)?, self.settings().await?);
        let listed = sessions.get(session).await?;
        let path = self.marked_file(user, session)?;
        let Some(entry) = self.fs.lookup(&path).await? else { return Ok(()) };
        let now = entry.attributes.metadata.get(RESET_AT).and_then(|at| Timestamp::parse_rfc3339(at).ok());
        let due = self.due_of(&listed, &settings)?;
        let is_right = match (now, due) {
            (None, None) => true,
            // it is looked at again then
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
        // one that is due and was not reset has nothing in it, or could not be: it is left alone for a while
        let soon = self.env.now().plus_seconds(PAUSE);
        Ok(due.map(|due| if due <= self.env.now() { soon } else { due }))
    }

    fn marked_file(&self, user: &str, session: &str) -> Result<TreePath> {
        let dir = self.sessions(self.fs, user)?.directory(session)?;
        Ok(TreePath::from_row(dir.key(), MARKED))
    }
}

/// How long a session is left alone that is due and was not reset, in seconds.
const PAUSE: i64 = 60 * 60;
