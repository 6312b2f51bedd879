//! Request for a recall: the question, its filters and its limits.

use std::collections::BTreeMap;

use garth_engine::error::{Error, Result};
use garth_engine::model::{Moment, PatternBelow, SearchQuery, Timestamp};
use garth_engine::path::TreePath;

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

/// Hits of the one search.
const HITS: usize = 200;

/// Question to an account.
#[derive(Clone, Debug)]
pub struct Recall {
    /// In plain words.
    #[doc(hidden)]
    pub question: String,
    /// Only these paths and what is below them; empty: everywhere.
    #[doc(hidden)]
    pub within: Vec<TreePath>,
    /// Only memories and files with one of these tags; empty: any.
    #[doc(hidden)]
    pub tags_any: Vec<String>,
    /// Only what has each of these values in its custom metadata.
    #[doc(hidden)]
    pub metadata: BTreeMap<String, String>,
    /// Only paths that one of these patterns matches; empty for any.
    #[doc(hidden)]
    pub patterns: Vec<PatternBelow>,
    /// Only what was last changed at this time or later.
    #[doc(hidden)]
    pub since: Option<Timestamp>,
    /// Only what was last changed before this time.
    #[doc(hidden)]
    pub until: Option<Timestamp>,
    /// Most tokens of the whole answer, fences included; [`MIN_BUDGET`] to [`MAX_BUDGET`].
    #[doc(hidden)]
    pub budget: usize,
    /// Most sources, 1 to [`MAX_SOURCES`].
    #[doc(hidden)]
    pub limit: usize,
    /// Recalls what was true at this time, instead of now. Restricts the answer to memories.
    #[doc(hidden)]
    pub valid_at: Option<Timestamp>,
    /// Recalls what was known at this moment: memories that are found now, as they were then. Restricts the
    /// answer to memories.
    #[doc(hidden)]
    pub as_of: Option<Moment>,
}

impl<Q: Into<String>> From<Q> for Recall {
    fn from(question: Q) -> Self {
        Self::new(question)
    }
}

impl Recall {
    /// Asks for what is known about a question, in [`BUDGET`] tokens.
    pub fn new(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            within: Vec::new(),
            tags_any: Vec::new(),
            metadata: BTreeMap::new(),
            patterns: Vec::new(),
            since: None,
            until: None,
            budget: BUDGET,
            limit: 20,
            valid_at: None,
            as_of: None,
        }
    }

    /// Sets the most tokens of the answer.
    #[must_use]
    pub fn budget(self, budget: usize) -> Self {
        Self { budget, ..self }
    }

    /// Limits the answer to a path and everything below it; several calls allow any of their paths.
    #[must_use]
    pub fn within(mut self, path: TreePath) -> Self {
        self.within.push(path);
        self
    }

    /// Limits the answer to memories and files with a tag; several calls allow any of their tags.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags_any.push(tag.into());
        self
    }

    /// Limits the answer to what has this value in its custom metadata.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Limits the answer to the paths of a pattern. Several calls allow the paths of any of their patterns.
    #[must_use]
    pub fn pattern(mut self, pattern: PatternBelow) -> Self {
        self.patterns.push(pattern);
        self
    }

    /// Limits the answer to what was last changed at this time or later.
    #[must_use]
    pub fn since(self, time: Timestamp) -> Self {
        Self { since: Some(time), ..self }
    }

    /// Limits the answer to what was last changed before this time.
    #[must_use]
    pub fn until(self, time: Timestamp) -> Self {
        Self { until: Some(time), ..self }
    }

    /// Sets the limit on the sources.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Recalls what was true at this time. Limits the answer to memories.
    #[must_use]
    pub fn valid_at(self, time: Timestamp) -> Self {
        Self { valid_at: Some(time), ..self }
    }

    /// Recalls what was known at this moment. Limits the answer to memories.
    #[must_use]
    pub fn as_of(self, moment: Moment) -> Self {
        Self { as_of: Some(moment), ..self }
    }

    /// Returns the search for the question.
    pub(super) fn query(&self) -> SearchQuery {
        let query = SearchQuery::new(self.question.as_str()).within_any(self.within.iter().cloned());
        let query = query.tags_any(self.tags_any.iter().cloned()).since(self.since).until(self.until);
        let mut query = query.layers(true).limit(HITS);
        query.metadata = self.metadata.clone();
        query.patterns = self.patterns.clone();
        query
    }

    pub(super) fn check(&self) -> Result<()> {
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
