//! Request for a recall: the question, its filters and its limits.

use std::collections::BTreeMap;

use garth_engine::error::{Error, Result};
use garth_engine::model::{MAX_PER_FILE, Moment, PatternBelow, SearchMode, SearchQuery, Timestamp};
use garth_engine::path::TreePath;

/// Default token budget of an answer.
pub const BUDGET: usize = 2_000;
/// Largest token budget.
pub const MAX_BUDGET: usize = 32_000;
/// Smallest token budget: about one sentence with its fence.
pub const MIN_BUDGET: usize = 100;
/// Limit on the sources of an answer, which is also that on the sources that are read.
pub const MAX_SOURCES: usize = 100;
/// Limit on the bytes of a question.
pub const MAX_QUESTION: usize = 8 << 10;

/// Limit on the days of a half-life.
pub const MAX_DAYS: u32 = 36_500;

/// Number of hits of the search.
const HITS: usize = 200;

/// Question to an account.
#[derive(Clone, Debug)]
pub struct Recall {
    /// Question in plain words.
    #[doc(hidden)]
    pub question: String,
    /// Restricts the answer to these paths and everything below them; empty: everywhere.
    #[doc(hidden)]
    pub within: Vec<TreePath>,
    /// Restricts the answer to memories and files with one of these tags; empty: any.
    #[doc(hidden)]
    pub tags_any: Vec<String>,
    /// Restricts the answer to files with each of these values in their custom metadata.
    #[doc(hidden)]
    pub metadata: BTreeMap<String, String>,
    /// Restricts the answer to paths that match one of these patterns; empty: any.
    #[doc(hidden)]
    pub patterns: Vec<PatternBelow>,
    /// Restricts the answer to what belongs to this user: memories, and sessions with any agent.
    #[doc(hidden)]
    pub user: Option<String>,
    /// Restricts the answer to what belongs to this agent: its memories and files, and sessions with any
    /// user.
    #[doc(hidden)]
    pub agent: Option<String>,
    /// Restricts the answer to memories whose URI begins with these complete segments.
    #[doc(hidden)]
    pub prefix: Option<String>,
    /// Days in which the weight of age halves. `None`: age does not count.
    #[doc(hidden)]
    pub half_life: Option<u32>,
    /// Restricts the answer to messages that were said, and files last changed, at this time or later.
    #[doc(hidden)]
    pub since: Option<Timestamp>,
    /// Restricts the answer to messages that were said, and files last changed, before this time.
    #[doc(hidden)]
    pub until: Option<Timestamp>,
    /// Features by which texts are compared with the question.
    #[doc(hidden)]
    pub mode: SearchMode,
    /// Limit on the tokens of the complete answer, fences included; [`MIN_BUDGET`] to [`MAX_BUDGET`].
    #[doc(hidden)]
    pub budget: usize,
    /// Limit on the sources, 1 to [`MAX_SOURCES`]. `None`: only the budget limits them.
    #[doc(hidden)]
    pub limit: Option<usize>,
    /// Recalls memories that were valid at this time, instead of now. Restricts the answer to memories.
    #[doc(hidden)]
    pub valid_at: Option<Timestamp>,
    /// Recalls memories as they were at this point in time. They are found by their current text. Restricts
    /// the answer to memories.
    #[doc(hidden)]
    pub as_of: Option<Moment>,
}

impl<Q: Into<String>> From<Q> for Recall {
    fn from(question: Q) -> Self {
        Self::new(question)
    }
}

impl Recall {
    /// Returns a request for a question, with a budget of [`BUDGET`] tokens.
    pub fn new(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            within: Vec::new(),
            tags_any: Vec::new(),
            metadata: BTreeMap::new(),
            patterns: Vec::new(),
            user: None,
            agent: None,
            prefix: None,
            half_life: None,
            since: None,
            until: None,
            mode: SearchMode::default(),
            budget: BUDGET,
            limit: None,
            valid_at: None,
            as_of: None,
        }
    }

    /// Sets the token budget of the answer.
    #[must_use]
    pub fn budget(self, budget: usize) -> Self {
        Self { budget, ..self }
    }

    /// Restricts the answer to a path and everything below it; several calls allow any of their paths.
    #[must_use]
    pub fn within(mut self, path: TreePath) -> Self {
        self.within.push(path);
        self
    }

    /// Restricts the answer to memories and files with a tag; several calls allow any of their tags.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags_any.push(tag.into());
        self
    }

    /// Restricts the answer to files with this value in their custom metadata.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Restricts the answer to paths that match a pattern; several calls allow any of their patterns.
    #[must_use]
    pub fn pattern(mut self, pattern: PatternBelow) -> Self {
        self.patterns.push(pattern);
        self
    }

    /// Restricts the answer to what belongs to a user: memories, and sessions with any agent.
    #[must_use]
    pub fn user(self, id: impl Into<String>) -> Self {
        Self { user: Some(id.into()), ..self }
    }

    /// Restricts the answer to what belongs to an agent: its memories and files, and sessions with any user.
    #[must_use]
    pub fn agent(self, id: impl Into<String>) -> Self {
        Self { agent: Some(id.into()), ..self }
    }

    /// Restricts the answer to memories whose URI begins with these complete segments, such as
    /// `ctx://default/users/alice/memories/preferences`.
    #[must_use]
    pub fn prefix(self, uri: impl Into<String>) -> Self {
        Self { prefix: Some(uri.into()), ..self }
    }

    /// Prefers what is newer. Half of the rank halves each time this number of days passes, 1 to
    /// [`MAX_DAYS`]; the other half stays.
    #[must_use]
    pub fn half_life(self, days: u32) -> Self {
        Self { half_life: Some(days), ..self }
    }

    /// Restricts the answer to messages that were said, and files last changed, at this time or later.
    #[must_use]
    pub fn since(self, time: Timestamp) -> Self {
        Self { since: Some(time), ..self }
    }

    /// Restricts the answer to messages that were said, and files last changed, before this time.
    #[must_use]
    pub fn until(self, time: Timestamp) -> Self {
        Self { until: Some(time), ..self }
    }

    /// Sets the features by which texts are compared (default: [`SearchMode::Meaning`]).
    #[must_use]
    pub fn mode(self, mode: SearchMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the limit on the sources, 1 to [`MAX_SOURCES`]. Without it, sources are added while the budget
    /// has tokens for them.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Recalls memories that were valid at this time. Restricts the answer to memories.
    #[must_use]
    pub fn valid_at(self, time: Timestamp) -> Self {
        Self { valid_at: Some(time), ..self }
    }

    /// Recalls memories as they were at this point in time. Restricts the answer to memories.
    #[must_use]
    pub fn as_of(self, moment: Moment) -> Self {
        Self { as_of: Some(moment), ..self }
    }

    /// Returns the search for the question.
    pub(super) fn query(&self) -> SearchQuery {
        let query = SearchQuery::new(self.question.as_str()).within_any(self.within.iter().cloned());
        // Not `until`: a session that was continued after that time has messages from before.
        let query = query.tags_any(self.tags_any.iter().cloned()).since(self.since);
        let query = query.layers(true).limit(HITS).per_file(MAX_PER_FILE).mode(self.mode);
        // Recall reads the text of the hits itself.
        let mut query = query.without_text();
        query.metadata = self.metadata.clone();
        query.patterns = self.patterns.clone();
        query
    }

    pub(super) fn check(&self) -> Result<()> {
        let wrong = if !(MIN_BUDGET..=MAX_BUDGET).contains(&self.budget) {
            format!(
                "a budget of {} tokens is out of range: it is {MIN_BUDGET} to {MAX_BUDGET}; {}",
                self.budget,
                match self.budget < MIN_BUDGET {
                    true => "a smaller answer has no room for a sentence with its source",
                    false => "ask several questions instead",
                }
            )
        } else if self.half_life.is_some_and(|days| !(1..=MAX_DAYS).contains(&days)) {
            format!("a half-life is 1 to {MAX_DAYS} days")
        } else if self.limit.is_some_and(|limit| !(1..=MAX_SOURCES).contains(&limit)) {
            format!("a recall has 1 to {MAX_SOURCES} sources")
        } else if self.question.len() > MAX_QUESTION {
            format!("a question has at most {MAX_QUESTION} bytes")
        } else if self.question.trim().is_empty() {
            "a question has at least one word".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::invalid(wrong))
    }
}
