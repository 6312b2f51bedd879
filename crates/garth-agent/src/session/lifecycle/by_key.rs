//! Looks up the session to continue by its session key.

use super::create::Create;
use crate::boxed;
use crate::ids::uuid;
use crate::once::Outcome;
use crate::registry::projections;
use crate::registry::projections::sessions::open_key;
use crate::retry::ATTEMPTS_AT_NAMES;
use crate::session::handle::Sessions;
use crate::session::store::list::Listed;
use crate::session::store::session_key::SessionKey;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::FindQuery;

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
        Err(Error::new(ErrorKind::Conflict, format!("{key}: its sessions change all the time; try again")))
    }

    /// Returns the names of the sessions with a key that the index has as unfinished.
    async fn open_under(&self, key: &SessionKey) -> Result<Vec<String>> {
        let home = match &self.only {
            Some(only) => self.directory(only)?,
            None => self.home()?,
        };
        let query = FindQuery::new(projections::SESSION).equal(&open_key(key.as_str())).limit(MAX_OPEN);
        let answer = self.fs.find(&query.within(home)).await?;
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
                if !found.state.is_final() && is_newer {
                    newest = Some(found);
                }
            }
        }
        Ok(newest)
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

    /// Looks the session up or creates it, and records what `outcome` makes of it.
    pub(crate) async fn by_key_as<T: Outcome>(
        &self,
        key: &SessionKey,
        create: &Create,
        outcome: impl Fn((Listed, bool)) -> T + Send + Sync,
    ) -> Result<T> {
        if let Some(current) = self.current(key).await? {
            let batch = self.batch(&current.name, Vec::new(), "continue session");
            return self.once.unchanged(self.fs, batch, outcome((current, false))).await;
        }
        let mut create = create.clone().key(key.clone());
        if create.name.is_empty() {
            create.name = uuid(&self.env)?;
        }
        self.create_as(&create, |made| outcome((made, true))).await
    }
}
