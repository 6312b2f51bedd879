//! Recall: the best of what an account knows about a question, within so many tokens, each piece with where
//! it is from, why it was chosen, and a fence around it. Over any tree; `docs/specs/recall.md` says how it
//! chooses.

mod answer;
pub mod fence;
mod gather;
mod read;
mod spend;

use std::collections::BTreeMap;

pub use self::answer::{Evidence, Recalled};
pub use self::fence::Key;

use self::gather::Gathered;
use crate::boxed;
use crate::node::Uri;
use garth_engine::env::Env;
use garth_engine::error::{Error, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Moment, PathClass, SearchQuery, Timestamp};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;

/// Tokens of an answer, if nothing else is asked for.
pub const BUDGET: usize = 2_000;
/// Most tokens that may be asked for.
pub const MAX_BUDGET: usize = 32_000;
/// Fewest: a piece of a sentence takes about as many, with its fence.
pub const MIN_BUDGET: usize = 100;
/// Most sources of an answer.
pub const MAX_SOURCES: usize = 50;
/// Longest question, in bytes.
pub const MAX_QUESTION: usize = 8 << 10;
/// From this score on something fits a question: the share of the question's words, by weight, that a passage
/// has. Words that nothing holds weigh most: one common word beside two of these is less.
pub const FITS: f64 = 0.15;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Recall {
    /// In plain words.
    pub question: String,
    /// Only these paths and what is below them; empty: everywhere.
    pub within: Vec<TreePath>,
    /// Only nodes and files with one of these tags; empty: any.
    pub tags_any: Vec<String>,
    /// Only what has each of these values in its custom metadata.
    pub metadata: BTreeMap<String, String>,
    /// Only paths of one of these classes; empty: any.
    pub classes: Vec<PathClass>,
    /// Only what was last changed at this time or later.
    pub since: Option<Timestamp>,
    /// Only what was last changed before this time.
    pub until: Option<Timestamp>,
    /// Most tokens of the whole answer, fences included; [`MIN_BUDGET`] to [`MAX_BUDGET`].
    pub budget: usize,
    /// Most sources, 1 to [`MAX_SOURCES`].
    pub limit: usize,
    /// What was true then, and not what is true now. Nodes alone.
    pub valid_at: Option<Timestamp>,
    /// What was known then: nodes that are found now, as they were. Nodes alone.
    pub as_of: Option<Moment>,
}

impl Recall {
    /// What is known about this, in [`BUDGET`] tokens.
    pub fn new(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            within: Vec::new(),
            tags_any: Vec::new(),
            metadata: BTreeMap::new(),
            classes: Vec::new(),
            since: None,
            until: None,
            budget: BUDGET,
            limit: 20,
            valid_at: None,
            as_of: None,
        }
    }

    /// In at most so many tokens.
    #[must_use]
    pub fn budget(self, budget: usize) -> Self {
        Self { budget, ..self }
    }

    /// The search for it.
    fn query(&self) -> SearchQuery {
        let query = SearchQuery::new(self.question.as_str()).within_any(self.within.iter().cloned());
        let query = query.tags_any(self.tags_any.iter().cloned()).since(self.since).until(self.until);
        let mut query = query.layers(true).limit(gather::HITS);
        query.metadata = self.metadata.clone();
        query.classes = self.classes.clone();
        query
    }

    fn check(&self) -> Result<()> {
        let wrong = if !(MIN_BUDGET..=MAX_BUDGET).contains(&self.budget) {
            format!("the budget of a recall is {MIN_BUDGET} to {MAX_BUDGET} tokens")
        } else if !(1..=MAX_SOURCES).contains(&self.limit) {
            format!("a recall has 1 to {MAX_SOURCES} sources")
        } else if self.question.len() > MAX_QUESTION {
            format!("a question has at most {MAX_QUESTION} bytes")
        } else {
            return Ok(());
        };
        Err(Error::invalid(wrong))
    }
}

/// What recalls.
///
/// ```
/// use garth::agent::node::{Nodes, Put};
/// use garth::agent::recall::{Key, Recall, Recaller};
/// use garth::{DataDir, Env};
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::open(folder.path().join("data"))?;
/// data.create_account("default").await?;
/// let account = data.account("default").await?;
/// let coffee = "ctx://default/users/alice/memories/preferences/coffee".parse()?;
/// let nodes = Nodes::new(&*account, "default", Env::system());
/// nodes.put(&coffee, &Put::new("Alice likes her coffee black. She has two a day.\n")).await?;
///
/// let recaller = Recaller::new(&*account, "default", Env::system());
/// let key = Key::random(&Env::system())?;
/// let asked = Recall::new("how does Alice take her coffee").budget(500);
/// let answer = recaller.recall(&asked, &key).await?;
/// assert_eq!(answer.items[0].source, coffee.to_string());
/// assert!(answer.tokens <= 500);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Recaller<'a> {
    fs: &'a dyn FileSystem,
    account: String,
    env: Env,
    /// Where directories of the account are in `fs`, if not at their own paths.
    places: Option<Vec<(TreePath, TreePath)>>,
}

impl<'a> Recaller<'a> {
    /// From the tree of `account`.
    pub fn new(fs: &'a dyn FileSystem, account: &str, env: Env) -> Self {
        Self { fs, account: account.to_owned(), env, places: None }
    }

    /// From a view that has these directories of the account's tree: each as the view has it, and as the
    /// account has it.
    #[must_use]
    pub fn places(self, places: Vec<(TreePath, TreePath)>) -> Self {
        Self { places: Some(places), ..self }
    }

    /// Recalls. Fences are made by `key`.
    ///
    /// # Errors
    /// `InvalidArgument` for what no recall takes; `Unsupported` where there is no search, or for `as_of`, no
    /// past; those of the filesystem.
    #[boxed]
    pub async fn recall(&self, asked: &Recall, key: &Key) -> Result<Recalled> {
        asked.check()?;
        let Some(question) = Question::parse(&asked.question) else {
            return Ok(Recalled::nothing(asked, &Gathered::default()));
        };
        let gathered = self.gather(asked, &question).await?;
        if gathered.candidates.is_empty() {
            return Ok(Recalled::nothing(asked, &gathered));
        }
        Ok(spend::spend(asked, gathered, key))
    }

    /// The node that has this directory.
    fn node_at(&self, dir: &TreePath) -> Option<Uri> {
        let Some(places) = &self.places else { return Uri::of_dir(&self.account, dir) };
        let dir = places.iter().find_map(|(shown, own)| dir.rebase(shown, own))?.ok()?;
        Uri::of_dir(&self.account, &dir)
    }
}
