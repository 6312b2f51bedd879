//! Restores a `meta.json` that cannot be read: from the newest version of it that can, else from the place of
//! the session.

use serde::Serialize;
use serde_json::Map;

use crate::boxed;
use crate::identity::Class;
use crate::ids::uuid;
use crate::retry::{retry, yield_now};
use crate::session::handle::Sessions;
use crate::session::store::files::META;
use crate::session::store::meta::{MAX_FILE, Meta, Usage};
use crate::small_file::{File, as_read, read_all};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Author, HistoryPage, Kind, Op, Page};
use garth_engine::path::{Name, TreePath, check_id};

/// Versions examined for one that can be read.
const MAX_VERSIONS: usize = 1000;

/// Sessions whose `meta.json` is read at a time.
const READ: usize = 100;

/// A session whose `meta.json` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Damaged {
    /// Path of the file.
    pub path: String,
    /// Reason why it cannot be read.
    pub why: String,
    /// True if it was restored; false for a dry run.
    pub mended: bool,
}

impl Sessions<'_> {
    /// Restores the `meta.json` of a session if it cannot be read. It becomes the newest version that can be
    /// read. Without one, id and times of use are new, name, agent and user are those of the place, and the
    /// class is `main`, which the fewest see. Returns the damage, or `None`.
    ///
    /// # Errors
    /// `NotFound` for a session without the file; `InvalidArgument` for an invalid id; from the filesystem.
    #[boxed]
    pub async fn mend(&self, session: &str) -> Result<Option<Damaged>> {
        retry(|| self.mend_once(session, false)).await
    }

    async fn mend_once(&self, session: &str, dry_run: bool) -> Result<Option<Damaged>> {
        let error = match self.meta(session).await {
            Err(error) if error.is(ErrorKind::Corrupt) => error,
            other => return other.map(|_| None),
        };
        let path = self.file(session, META)?;
        if !dry_run {
            let (file, meta, _) = self.meta_or_restored(session).await?;
            let mut ops = vec![self.meta_op(session, &meta)?];
            // A directory or link by this name cannot be written over.
            if !file.is_file {
                ops.insert(0, Op::remove_tree(path.clone()));
            }
            let batch = self.unchecked_batch(session, ops, "restore meta.json of session");
            self.fs.commit(batch.require(path.clone(), as_read(Some(&file)))).await?;
        }
        Ok(Some(Damaged { path: path.to_string(), why: error.message().to_owned(), mended: !dry_run }))
    }

    /// Returns `meta.json` of a session; if it is damaged, the contents that restore it, and true.
    pub(crate) async fn meta_or_restored(&self, session: &str) -> Result<(File, Meta, bool)> {
        match self.meta(session).await {
            Err(error) if error.is(ErrorKind::Corrupt) => {}
            found => return found.map(|(file, meta)| (file, meta, false)),
        }
        let path = self.file(session, META)?;
        let file = read_all(self.fs, std::slice::from_ref(&path), MAX_FILE).await?.pop().flatten();
        let file = file.ok_or_else(|| Error::new(ErrorKind::Conflict, "changed meanwhile; try again"))?;
        let mut meta = match self.earlier_meta(&path).await? {
            Some(meta) => meta,
            None => self.new_meta(session)?,
        };
        // The place decides whose the session is: a version may be from before the directory was moved.
        (meta.agent, meta.user) = (self.agent.clone(), self.user.clone());
        Ok((file, meta, true))
    }

    /// Returns the newest version of a `meta.json` that can be read.
    async fn earlier_meta(&self, path: &TreePath) -> Result<Option<Meta>> {
        let (mut page, mut left) = (HistoryPage::default(), MAX_VERSIONS);
        loop {
            let versions = match self.fs.history(&At::from(path), &page).await {
                // Views show no past, and some engines have none. The rest of it may end meanwhile.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Gone)
                        || error.is_absent() =>
                {
                    return Ok(None);
                }
                versions => versions?,
            };
            for version in &versions.items {
                let Some(entry) = version.entry.as_ref().filter(|entry| entry.kind == Kind::File) else {
                    continue;
                };
                if entry.size > MAX_FILE as u64 {
                    continue;
                }
                let content = match self.fs.open_version(version.id).await {
                    Ok(file) => file.read_at(0, MAX_FILE).await,
                    Err(error) => Err(error),
                };
                // If a version was collected or is damaged in storage, the older one before it is tried.
                if let Some(meta) = content.ok().and_then(|content| Meta::parse(&content).ok()) {
                    return Ok(Some(meta));
                }
            }
            // A file can have any number of damaged versions; the search has to end.
            left = left.saturating_sub(versions.items.len());
            match versions.items.last().filter(|_| versions.more && left > 0) {
                Some(last) => page = page.before(last.id),
                None => return Ok(None),
            }
        }
    }

    fn new_meta(&self, session: &str) -> Result<Meta> {
        Ok(Meta {
            id: uuid(&self.env)?,
            name: session.to_owned(),
            // It is unknown who listened, so the fewest see what was said. No key leads here from a group.
            class: Class::Main.into(),
            agent: self.agent.clone(),
            user: self.user.clone(),
            session_key: None,
            model: None,
            context_window: None,
            title: None,
            usage: Usage::default(),
            last_input_tokens: None,
            compacted_to: None,
            last_part: None,
            previous: None,
            next: None,
            archive: None,
            finished_at: None,
            other: Map::new(),
        })
    }
}

/// Restores each `meta.json` of an account's sessions that cannot be read, as [`Sessions::mend`] does; a dry
/// run changes nothing. Calls `tell` for each.
///
/// # Errors
/// From the filesystem.
pub async fn mend_all(
    fs: &dyn FileSystem,
    env: &Env,
    author: &Author,
    dry_run: bool,
    mut tell: impl FnMut(&Damaged) + Send,
) -> Result<Vec<Damaged>> {
    let mut found = Vec::new();
    for user in directories(fs, &TreePath::parse("/users")?, "user").await? {
        for agent in directories(fs, &TreePath::parse(&format!("/users/{user}/agents"))?, "agent").await? {
            let sessions = Sessions::new(fs, &user, &agent)?.env(env.clone()).author(author.clone());
            let names = directories(fs, &sessions.home()?, "session").await?;
            for some in names.chunks(READ) {
                for (name, read) in some.iter().zip(sessions.read(some).await?) {
                    if !matches!(read, Some(Err(error)) if error.is(ErrorKind::Corrupt)) {
                        continue;
                    }
                    let damaged = match retry(|| sessions.mend_once(name, dry_run)).await {
                        Ok(None) => continue,
                        Ok(Some(damaged)) => damaged,
                        // One session that cannot be restored must not keep those after it from being
                        // restored.
                        Err(error) => match error.path() {
                            Some(path) => {
                                let (path, why) = (path.to_string(), error.message().to_owned());
                                Damaged { path, why, mended: false }
                            }
                            None => return Err(error),
                        },
                    };
                    tell(&damaged);
                    found.push(damaged);
                }
                yield_now().await;
            }
        }
    }
    Ok(found)
}

/// Returns the names of the directories in one that are ids.
async fn directories(fs: &dyn FileSystem, dir: &TreePath, what: &str) -> Result<Vec<String>> {
    let (mut names, mut page) = (Vec::new(), Page::default());
    loop {
        let Some(listing) = fs.list(&At::from(dir), &page).await.optional()? else { return Ok(names) };
        let found = listing.items.iter().filter(|item| item.kind == Kind::Directory).map(|item| &item.name);
        let ids = found.map(Name::as_str).filter(|name| check_id(what, name).is_ok());
        names.extend(ids.map(str::to_owned));
        match listing.items.into_iter().next_back().filter(|_| listing.more) {
            Some(last) => page = page.after(last.name),
            None => return Ok(names),
        }
    }
}
