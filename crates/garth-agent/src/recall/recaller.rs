//! Account to recall from: a tree, and the places of its memories.

use std::sync::LazyLock;

use super::request::Recall;
use crate::memory::{Prefix, Uri};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{PatternBelow, SearchQuery};
use garth_engine::path::TreePath;
use garth_engine::rule::PathPattern;

/// Files of an account that garth writes for itself. They are no evidence, whatever words they contain.
static MACHINE_FILES: LazyLock<Vec<PathPattern>> = LazyLock::new(|| {
    let session = "/users/*/agents/*/session/*";
    let of_sessions = ["meta.json", "events.jsonl", "state", "cwd", "created_at", "updated_at", "latest.md"];
    let of_sessions = of_sessions.iter().map(|name| format!("{session}/{name}"));
    let derived = ["budget", "refs.jsonl", "pack*", "pack/**", "swap/**", "dedup/**"];
    let derived = derived.iter().map(|name| format!("{session}/context/{name}"));
    let anywhere = ["/**/.meta.json", "/**/.relations.json", "/**/.outbox/**", "/agents/*/settings.json"];
    let others = anywhere.iter().map(|pattern| (*pattern).to_owned());
    of_sessions.chain(derived).chain(others).map(|pattern| PathPattern::built_in(&pattern)).collect()
});

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
    account: String,
    pub(super) env: Env,
    /// Directories of the account with their paths in `fs`, if these differ.
    places: Option<Vec<(TreePath, TreePath)>>,
}

impl<'a> Recaller<'a> {
    /// Returns a handle to recall from the tree of `account`.
    pub fn new(fs: &'a dyn FileSystem, account: &str) -> Self {
        Self { fs, account: account.to_owned(), env: Env::system(), places: None }
    }

    /// Sets the clock, the randomness and the threads to compute on. The default is those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets the directories of the account's tree that a view contains: the path of each in the view, and in
    /// the account.
    #[must_use]
    pub fn places(self, places: Vec<(TreePath, TreePath)>) -> Self {
        Self { places: Some(places), ..self }
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
            // In a view, a directory of the account is one of its places, or contains some.
            let shown: Vec<TreePath> = match &self.places {
                None => vec![own],
                Some(places) => places
                    .iter()
                    .filter_map(|(shown, place)| match place.is_within(&own) {
                        true => Some(Ok(shown.clone())),
                        false => own.rebase(place, shown),
                    })
                    .collect::<std::result::Result<_, _>>()?,
            };
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
            && self.places.is_none()
            && query.patterns.is_empty()
        {
            // Only for speed: `is_evidence` decides.
            let below = |pattern| PatternBelow { from: TreePath::root(), pattern };
            query.patterns =
                vec![below(format!("/agents/{agent}/**")), below(format!("/users/*/agents/{agent}/**"))];
        }
        Ok(Some(query))
    }

    /// Returns the directory of the account that a prefix of URIs names.
    fn dir_of(&self, prefix: &str) -> Result<TreePath> {
        let (account, prefix) = Prefix::parse(prefix)?;
        if account != self.account {
            let message = format!("the prefix belongs to another account; this one is {}", self.account);
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
        let own = self.own_path(path);
        if MACHINE_FILES.iter().any(|pattern| pattern.has(&own)) {
            return false;
        }
        let names: Vec<&str> = own.segments().collect();
        let is_user = asked.user.as_ref().is_none_or(|user| names.starts_with(&["users", user]));
        let is_agent = asked.agent.as_ref().is_none_or(
            |agent| matches!(names[..], ["agents", id, ..] | ["users", _, "agents", id, ..] if id == agent),
        );
        is_user && is_agent
    }

    /// Returns the path in the account of a path of the view. Paths outside of its places stay.
    fn own_path(&self, path: &TreePath) -> TreePath {
        let places = self.places.iter().flatten();
        let own = places.filter_map(|(shown, own)| path.rebase(shown, own)).find_map(Result::ok);
        own.unwrap_or_else(|| path.clone())
    }

    /// Returns the memory in a directory of the view.
    pub(super) fn memory_at(&self, dir: &TreePath) -> Option<Uri> {
        let Some(places) = &self.places else { return Uri::of_dir(&self.account, dir) };
        let dir = places.iter().find_map(|(shown, own)| dir.rebase(shown, own))?.ok()?;
        Uri::of_dir(&self.account, &dir)
    }
}

/// Returns the paths that are within one of each list.
fn both(one: &[TreePath], other: &[TreePath]) -> Vec<TreePath> {
    let deeper = |(one, other): (&TreePath, &TreePath)| match one.is_within(other) {
        true => Some(one.clone()),
        false => other.is_within(one).then(|| other.clone()),
    };
    one.iter().flat_map(|one| other.iter().map(move |other| (one, other))).filter_map(deeper).collect()
}

fn user_dir(user: &str) -> TreePath {
    TreePath::from_row("/users", user)
}
