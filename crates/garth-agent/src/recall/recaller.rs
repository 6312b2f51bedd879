//! Account to recall from: a tree, and the places of its memories.

use super::embedding::Embedding;
use super::request::Recall;
use super::untouched::untouched;
use crate::account_paths::{AccountPaths, both};
use crate::boxed;
use crate::memory::{Prefix, Uri};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{PatternBelow, SearchAnswer, SearchMode, SearchQuery};
use garth_engine::path::TreePath;
use garth_engine::text::token::words;

/// Handle to recall from one account.
///
/// ```
/// use garth::memory::{Memories, Put};
/// use garth_agent::recall::{Key, Recall, Recaller};
/// use garth::Env;
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::builder().open(&folder.path().join("data"))?;
/// data.create_account("default").await?;
/// let account = data.account("default").await?;
/// let coffee = "ctx://default/users/alice/memories/preferences/coffee".parse()?;
/// let memories = Memories::new(&account, "default");
/// memories.put(&coffee, &Put::new("Alice likes her coffee black. She has two a day.\n")).await?;
///
/// let recaller = Recaller::new(&account, "default");
/// let key = Key::random(&Env::system())?;
/// let asked = Recall::new("how does Alice take her coffee").budget(500);
/// let answer = recaller.recall(&asked, &key).await?;
/// assert_eq!(answer.items[0].source, coffee.to_string());
/// assert!(answer.tokens <= 500);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Recaller<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) env: Env,
    /// Service that compares texts with the question.
    pub(super) embedding: Option<Embedding<'a>>,
    pub(super) paths: AccountPaths,
}

impl<'a> Recaller<'a> {
    /// Returns a handle to recall from the tree of `account`.
    pub fn new(fs: &'a dyn FileSystem, account: &str) -> Self {
        Self { fs, env: Env::system(), embedding: None, paths: AccountPaths::new(account) }
    }

    /// Sets the clock, the randomness and the threads to compute on. The default is those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets the embedding service. Without one, texts are compared by the table of the program.
    #[must_use]
    pub fn embedding(self, embedding: Option<Embedding<'a>>) -> Self {
        Self { embedding, ..self }
    }

    /// Sets the directories of the account's tree that a view contains: the path of each in the view, and in
    /// the account.
    #[must_use]
    pub fn places(self, places: Vec<(TreePath, TreePath)>) -> Self {
        Self { paths: self.paths.with_places(places), ..self }
    }

    /// Commits the difference between the tokens that the embedding service used and those that were reserved
    /// for it. The next request of the account commits it, too, so only a process that ends needs this call.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn settle(&self) -> Result<()> {
        match &self.embedding {
            Some(embedding) => embedding.settle(&self.paths.account, &self.env).await,
            None => Ok(()),
        }
    }

    /// Returns the search for a question; `None` if no path passes the filters.
    ///
    /// # Errors
    /// `AccessDenied` for a prefix of another account.
    pub(super) fn query(&self, asked: &Recall) -> Result<Option<SearchQuery>> {
        let mut query = asked.query();
        let mut filters = Vec::new();
        if let Some(prefix) = &asked.prefix {
            filters.push(self.dir_of(prefix)?);
        }
        filters.extend(asked.user.as_ref().map(|user| user_dir(user)));
        for own in filters {
            let shown = self.paths.shown(&own)?;
            query.within = match query.within.is_empty() {
                true => shown,
                false => both(&query.within, &shown),
            };
            if query.within.is_empty() {
                return Ok(None);
            }
        }
        let is_plain = |id: &&String| id.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if let Some(agent) = asked.agent.as_ref().filter(is_plain)
            && !self.paths.is_view()
            && query.patterns.is_empty()
        {
            // Only for speed: `is_evidence` decides.
            let below = |pattern| PatternBelow { from: TreePath::root(), pattern };
            query.patterns =
                vec![below(format!("/agents/{agent}/**")), below(format!("/users/*/agents/{agent}/**"))];
        }
        Ok(Some(query))
    }

    /// Returns the answer to a search, without the files of a workspace that nobody has changed.
    pub(super) async fn found(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        let mut found = self.fs.search(query).await?;
        // A search takes one or two words for a name. If nothing has this name, they ask in other words.
        if found.hits.is_empty() && query.mode == SearchMode::Meaning && words(&query.text).nth(2).is_none() {
            let mut question = query.clone();
            question.text.push('?');
            found = self.fs.search(&question).await?;
        }
        let untouched = untouched(&self.paths, self.fs, &found.hits).await?;
        found.hits.retain(|hit| !untouched.contains(&hit.path));
        Ok(found)
    }

    /// Returns the directory of the account that a prefix of URIs names.
    fn dir_of(&self, prefix: &str) -> Result<TreePath> {
        let (account, prefix) = Prefix::parse(prefix)?;
        if account != self.paths.account {
            let message =
                format!("the prefix belongs to another account; this one is {}", self.paths.account);
            return Err(Error::new(ErrorKind::AccessDenied, message));
        }
        Ok(match prefix {
            Prefix::Account => TreePath::root(),
            Prefix::Below(dir) => dir,
        })
    }

    /// Returns true if a file may be shown: it passes the filters, and is not one that garth writes for
    /// itself.
    pub(super) fn is_evidence(&self, asked: &Recall, path: &TreePath) -> bool {
        if self.paths.is_machine_file(path) {
            return false;
        }
        // Paths outside of the places of a view stay.
        let own = self.paths.own(path).unwrap_or_else(|| path.clone());
        let names: Vec<&str> = own.segments().collect();
        let is_user = asked.user.as_ref().is_none_or(|user| names.starts_with(&["users", user]));
        let is_agent = asked.agent.as_ref().is_none_or(
            |agent| matches!(names[..], ["agents", id, ..] | ["users", _, "agents", id, ..] if id == agent),
        );
        is_user && is_agent
    }

    /// Returns the memory in a directory of the view.
    pub(super) fn memory_at(&self, dir: &TreePath) -> Option<Uri> {
        self.paths.memory_at(dir)
    }
}

fn user_dir(user: &str) -> TreePath {
    TreePath::from_row("/users", user)
}
