//! Looks up the session to continue by its session key.

use super::create::Create;
use crate::boxed;
use crate::identity::SessionKey;
use crate::ids::uuid;
use crate::once::Outcome;
use crate::registry::projections;
use crate::registry::projections::sessions::{id_key, open_key};
use crate::retry::{ATTEMPTS_AT_NAMES, retry};
use crate::session::handle::Sessions;
use crate::session::store::files::META;
use crate::session::store::list::Listed;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, FindQuery, Precondition};
use garth_engine::path::check_id;

/// Limit on the unfinished sessions with one key.
const MAX_OPEN: usize = 1000;

impl Sessions<'_> {
    /// Returns the newest unfinished session with a key.
    ///
    /// # Errors
    /// `TooLarge` if there are more than 1,000; `Conflict` if they change all the time; from the filesystem.
    #[boxed]
    pub async fn current(&self, key: &SessionKey) -> Result<Option<Listed>> {
        let mut seen = None;
        for _ in 0..ATTEMPTS_AT_NAMES {
            let names = self.open_under(key).await?;
            let newest = self.newest_open(&names).await?;
            // A session that was found and has an end now was reset meanwhile: then its successor is found
            // next time. Or its state was written as a file, which the index does not know.
            if newest.is_some() || names.is_empty() || seen.as_ref() == Some(&names) {
                return Ok(newest);
            }
            seen = Some(names);
        }
        Err(Error::new(ErrorKind::Conflict, format!("{key}: its sessions keep changing; try again")))
    }

    /// Returns the names of the sessions with a key that the index has as unfinished.
    async fn open_under(&self, key: &SessionKey) -> Result<Vec<String>> {
        let found = open_key((&self.user, &self.agent), key.as_str());
        let query = FindQuery::new(projections::SESSION).equal(&found).limit(MAX_OPEN);
        let answer = self.fs.find(&query.within(self.home()?)).await?;
        if answer.next.is_some() {
            let message = format!("{key}: more than {MAX_OPEN} sessions have this key; end some of them");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let dirs = answer.items.iter().filter_map(|item| item.path.parent());
        Ok(dirs.filter_map(|dir| Some(dir.name()?.to_owned())).collect())
    }

    /// Returns the newest of some sessions that has no end.
    async fn newest_open(&self, names: &[String]) -> Result<Option<Listed>> {
        let mut newest: Option<Listed> = None;
        for some in names.chunks(32) {
            for found in self.read(some).await?.into_iter().flatten().flatten() {
                let is_newer = newest.as_ref().is_none_or(|newest| newest.created_at < found.created_at);
                // The index knows only `meta.json`. Other interfaces can end a session by its `state` file.
                if !found.state.is_final() && is_newer {
                    newest = Some(found);
                }
            }
        }
        Ok(newest)
    }

    /// Returns the session that a key of media names: the current one of a session key, or the one with a
    /// UUID.
    ///
    /// # Errors
    /// `InvalidArgument`; `NotFound`; as [`Sessions::current`].
    #[boxed]
    #[doc(hidden)]
    pub async fn by_media_key(&self, key: &str) -> Result<Listed> {
        let missing = || {
            let message = format!("{key}: no session is open under this key; create it first");
            Error::new(ErrorKind::NotFound, message)
        };
        if key.starts_with("agent:") {
            return self.current(&key.parse()?).await?.ok_or_else(missing);
        }
        check_id("session", key)?;
        let query = FindQuery::new(projections::SESSION).equal(&id_key(key)).within(self.home()?).limit(1);
        let found = self.fs.find(&query).await?;
        let dir = found.items.first().and_then(|item| item.path.parent()).ok_or_else(missing)?;
        self.get(dir.name().unwrap_or_default()).await
    }

    /// Returns true if another session of the account has this id: a copy that was made as files, or the
    /// session that was copied. Media belong to both.
    pub(crate) async fn shares_id(&self, session: &str, id: &str) -> Result<bool> {
        let own = self.file(session, META)?;
        // Of two sessions, at least one is another.
        let query = FindQuery::new(projections::SESSION).equal(&id_key(id)).limit(2);
        let found = self.whole().find(&query).await?;
        // Without the end of the list, there may be another.
        Ok(found.next.is_some() || found.items.iter().any(|item| item.path != own))
    }

    /// Returns the current session of a key, or creates one, and true if it was created. Without a name in
    /// `create`, the new session is named by a UUID.
    ///
    /// # Errors
    /// As [`Sessions::current`] and [`Sessions::create`].
    #[boxed]
    pub async fn by_key(&self, key: &SessionKey, create: &Create) -> Result<(Listed, bool)> {
        self.once.run(self.by_key_as(key, create, |found| found)).await
    }

    /// Looks the session up or creates it, and records the outcome that `outcome` builds.
    pub(crate) async fn by_key_as<T: Outcome>(
        &self,
        key: &SessionKey,
        create: &Create,
        outcome: impl Fn((Listed, bool)) -> T + Send + Sync,
    ) -> Result<T> {
        let mut create = create.clone().key(key.clone());
        if create.name.is_empty() {
            create.name = uuid(&self.env)?;
        }
        retry(|| self.by_key_once(key, &create, &outcome)).await
    }

    async fn by_key_once<T: Outcome>(
        &self,
        key: &SessionKey,
        create: &Create,
        outcome: &(impl Fn((Listed, bool)) -> T + Send + Sync),
    ) -> Result<T> {
        // A session that another caller creates meanwhile is a new name in this directory, which fails the
        // commit: of several that find none, one creates.
        let home = self.home()?;
        // Of the account: a view that hides some sessions does not show when others are created.
        let seen = self
            .whole()
            .lookup(&home)
            .await?
            .map_or(Precondition::Absent, |home| Precondition::Version(home.version));
        if let Some(current) = self.current(key).await? {
            let batch = self.unchecked_batch(&current.name, Vec::new(), "continue session");
            return self.once.unchanged(self.fs, batch, outcome((current, false))).await;
        }
        let conditions = vec![(At::from(home), seen)];
        self.create_if(create, conditions, &|made| outcome((made, true))).await
    }
}
