//! Shows sessions, one or a page of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::{CREATED_AT, CWD, META, STATE, UPDATED_AT};
use super::meta::{MAX_FILE, Meta, State};
use crate::boxed;
use crate::once::Outcome;
use crate::retry::yield_now;
use crate::session::handle::{Sessions, missing};
use crate::small_file::{File, read_all};
use garth_engine::error::{Error, OptionalExt as _, Result};
use garth_engine::model::{At, Kind, Page};
use garth_engine::path::{Name, TreePath};

/// Limit on the sessions of a page.
pub const MAX_LISTED: usize = 1000;

/// Directories that one page examines.
const LOOKED_AT: usize = if cfg!(test) { 50 } else { 4000 };

/// Small files of a session besides `meta.json`.
const OTHERS: [&str; 4] = [STATE, CWD, CREATED_AT, UPDATED_AT];

/// Sessions read at a time.
const READ: usize = 32;

/// Bytes of `meta.json` at which a page ends, 4 MiB.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Session, with the contents of its small files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "Session", deny_unknown_fields)]
pub struct Listed {
    /// Name, by which calls name the session.
    pub name: String,
    /// State. An invalid stored state counts as `idle`.
    pub state: State,
    /// Working directory, an absolute path.
    pub cwd: String,
    /// Time of creation; RFC 3339.
    pub created_at: String,
    /// Time of the last append or update; RFC 3339.
    pub updated_at: String,
    /// Contents of `meta.json`.
    pub meta: Meta,
}

impl Outcome for Listed {}

/// Session, and true if the operation created it.
impl Outcome for (Listed, bool) {}

/// Filter and page of a list of sessions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// Returns only sessions in this state.
    #[doc(hidden)]
    pub state: Option<State>,
    /// Continues after the session of this name.
    #[doc(hidden)]
    pub after: Option<String>,
    /// Limit on the sessions of the page, 1 to [`MAX_LISTED`].
    #[doc(hidden)]
    pub limit: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { state: None, after: None, limit: 100 }
    }
}

impl List {
    /// Lists only sessions in this state.
    #[must_use]
    pub fn state(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }

    /// Continues after the session of this name.
    #[must_use]
    pub fn after(self, name: impl Into<String>) -> Self {
        Self { after: Some(name.into()), ..self }
    }

    /// Sets the limit on the sessions of the page.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

impl Sessions<'_> {
    /// Returns a session.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for an invalid id; `Corrupt` if `meta.json` cannot be read; from the
    /// filesystem.
    #[boxed]
    pub async fn get(&self, session: &str) -> Result<Listed> {
        let [found] = self.read(&[session.to_owned()]).await?.try_into().unwrap_or([None]);
        found.ok_or_else(|| missing(session))?
    }

    /// Returns a page of sessions in the order of their names, and the name after which the next page starts.
    /// A page with few sessions, or none, is not always the last. Directories without a valid `meta.json` are
    /// left out.
    ///
    /// # Errors
    /// `InvalidArgument`; from the filesystem.
    #[boxed]
    pub async fn list(&self, list: &List) -> Result<(Vec<Listed>, Option<String>)> {
        if !(1..=MAX_LISTED).contains(&list.limit) {
            return Err(Error::invalid(format!("the limit of a list of sessions is 1 to {MAX_LISTED}")));
        }
        let (names, next) = self.names(list.after.as_deref()).await?;
        let (mut items, mut bytes) = (Vec::new(), 0);
        for some in names.chunks(READ) {
            for found in self.read(some).await?.into_iter().flatten() {
                // One damaged session must not hide the others; `garth repair` names it.
                let Ok(found) = found else { continue };
                if list.state.is_some_and(|state| state != found.state) {
                    continue;
                }
                // `meta.json` keeps fields of others and can have 1 MiB: a page of 1,000 would fill the
                // memory.
                bytes += found.meta.to_json()?.len();
                let name = found.name.clone();
                items.push(found);
                if items.len() == list.limit || bytes >= MAX_PAGE_BYTES {
                    return Ok((items, Some(name)));
                }
            }
            yield_now().await;
        }
        Ok((items, next))
    }

    /// Returns the names of the directories after `after`, and the name after which the next page starts.
    async fn names(&self, after: Option<&str>) -> Result<(Vec<String>, Option<String>)> {
        let mut page = Page::default().after(after.map(Name::parse).transpose()?);
        if self.has_one_session() {
            return Ok((self.only_name(after)?, None));
        }
        let (home, mut names) = (At::from(self.home()?), Vec::new());
        loop {
            let Some(listing) = self.fs.list(&home, &page).await.optional()? else {
                return Ok((names, None));
            };
            for item in &listing.items {
                // A filter by state can pass over any number of sessions: a page ends after some, with few
                // items or none.
                if names.len() == LOOKED_AT {
                    return Ok((names.clone(), names.pop()));
                }
                if item.kind == Kind::Directory {
                    names.push(item.name.as_str().to_owned());
                }
            }
            match listing.items.into_iter().next_back().filter(|_| listing.more) {
                Some(last) => page.after = Some(last.name),
                None => return Ok((names, None)),
            }
        }
    }

    /// Returns the name of the only visible session, if it comes after `after`. Its directory is an island in
    /// the directory of all sessions, which is hidden.
    fn only_name(&self, after: Option<&str>) -> Result<Vec<String>> {
        let home = self.home()?;
        let tops = self.places.iter().flat_map(|places| places.within.tops_below(&home));
        let names = tops.filter(|top| top.parent().as_ref() == Some(&home)).filter_map(TreePath::name);
        let names = names.filter(|name| after.is_none_or(|after| after < *name));
        Ok(names.map(str::to_owned).collect())
    }

    /// Reads some sessions, in the given order. `None` stands for one that does not exist.
    pub(crate) async fn read(&self, sessions: &[String]) -> Result<Vec<Option<Result<Listed>>>> {
        let files: Vec<&str> = [META].into_iter().chain(OTHERS).collect();
        let paths = sessions.iter().flat_map(|session| files.iter().map(|file| self.file(session, file)));
        let paths = paths.collect::<Result<Vec<_>>>()?;
        let read = read_all(self.fs, &paths, MAX_FILE).await?;
        let read = sessions.iter().zip(paths.chunks(files.len()).zip(read.chunks(files.len())));
        Ok(read.map(|(name, (paths, files))| listed(name, paths.first()?, files)).collect())
    }

    /// Returns a session with this `meta.json`, whatever is stored.
    pub(crate) async fn listed_with(&self, session: &str, meta: Meta) -> Result<Listed> {
        let paths = OTHERS.iter().map(|file| self.file(session, file)).collect::<Result<Vec<_>>>()?;
        Ok(with_others(session, meta, &read_all(self.fs, &paths, MAX_FILE).await?))
    }
}

/// Parses the files of a session; `None` without a `meta.json`.
fn listed(name: &str, meta: &TreePath, files: &[Option<File>]) -> Option<Result<Listed>> {
    let (file, others) = files.split_first()?;
    Some(Meta::read(meta, file.as_ref()?).map(|meta| with_others(name, meta, others)))
}

/// Builds a session from its `meta.json` and its other files.
fn with_others(name: &str, meta: Meta, others: &[Option<File>]) -> Listed {
    let value = |at: usize| {
        let file = others.get(at).and_then(Option::as_ref);
        file.and_then(File::text).unwrap_or_default().trim_end_matches('\n').to_owned()
    };
    // Other interfaces can write `state`. A word that is none must not hide the session.
    let state = value(0).parse().unwrap_or(State::Idle);
    let [cwd, created_at, updated_at] = [1, 2, 3].map(value);
    Listed { name: name.to_owned(), state, cwd, created_at, updated_at, meta }
}
