//! Queries and answers of searches.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::id::{Ino, Seq, Timestamp, VersionId};
use crate::error::{Error, Result};
use crate::path::TreePath;

/// Limit on the hits of one [`SearchQuery`].
pub const MAX_HITS: usize = 1000;
/// Limit on the passages of one file that a [`SearchQuery`] returns.
pub const MAX_PER_FILE: usize = 20;
/// Limit on the lines that a [`SearchQuery`] returns before the best line of a hit, and after it.
pub const MAX_CONTEXT: usize = 20;
/// Limit on the bytes of a file in one [`HitContext`], 8 KiB. The contexts of [`MAX_HITS`] hits together are
/// as large as a page of other reads.
pub const MAX_CONTEXT_BYTES: usize = 8 << 10;
/// Limit on the patterns of one [`SearchQuery`]: each name that it may show is compared with all of them.
pub const MAX_PATTERNS: usize = 64;

/// Search over the text of current files.
///
/// ```
/// # use garth_engine as garth;
/// use garth::TreePath;
/// use garth::model::SearchQuery;
///
/// let query = SearchQuery::new("how does she take her coffee")
///     .within(TreePath::parse("/notes")?)
///     .tag("alice")
///     .pattern("/**/*.md")
///     .per_file(3)
///     .limit(10);
/// # let _ = query;
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchQuery {
    /// Words to look for; any characters are accepted.
    #[doc(hidden)]
    pub text: String,
    /// Only these paths and everything below them; empty for everywhere.
    #[doc(hidden)]
    pub within: Vec<TreePath>,
    /// Only files with one of these tags; empty for any.
    #[doc(hidden)]
    pub tags_any: Vec<String>,
    /// Only files with each of these keys in their custom metadata, with exactly this value.
    #[doc(hidden)]
    pub metadata: BTreeMap<String, String>,
    /// Only paths that one of these patterns matches, [`MAX_PATTERNS`] at most; empty for any.
    #[doc(hidden)]
    pub patterns: Vec<PatternBelow>,
    /// Only files whose content was last changed at this time or later.
    #[doc(hidden)]
    pub since: Option<Timestamp>,
    /// Only files whose content was last changed before this time.
    #[doc(hidden)]
    pub until: Option<Timestamp>,
    /// Limit on the hits, 1 to [`MAX_HITS`].
    #[doc(hidden)]
    pub limit: usize,
    /// Limit on the passages of one file, each a hit of its own, 1 to [`MAX_PER_FILE`].
    #[doc(hidden)]
    pub per_file: usize,
    /// Number of lines of the file to return before the best line of each hit and after it, up to
    /// [`MAX_CONTEXT`]; 0 for no [`Hit::context`].
    #[doc(hidden)]
    pub context: usize,
    /// Features by which passages are compared.
    #[doc(hidden)]
    pub mode: SearchMode,
    /// True if a passage gains from those before and after it, because in a conversation the answer is next
    /// to the question, and from the names of its file and directory. The end of a file is beside the
    /// beginning of the next one if files of a directory are numbered.
    #[doc(hidden)]
    pub neighbours: bool,
    /// True for a quick search, for hits that nobody asked for. At most the six longest words count, without
    /// variations; if many passages contain a word, only the newest are examined.
    #[doc(hidden)]
    pub quick: bool,
    /// True if the abstracts and overviews of memories are shown, each as a hit of its own path.
    #[doc(hidden)]
    pub layers: bool,
    /// Position of the first hit with a snippet and a context, from 0. The hits before it have neither. Their
    /// text is read only to compare its meaning.
    #[doc(hidden)]
    pub text_from: usize,
}

/// Glob pattern of paths, relative to a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternBelow {
    /// Directory that is the root for the pattern.
    pub from: TreePath,
    /// Pattern, as [`PathPattern`](crate::rule::PathPattern) reads it.
    pub pattern: String,
}

impl SearchQuery {
    /// Returns a search for the ten best files for these words, in the complete tree.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Selects this path and everything below it, in addition to paths that were selected before.
    #[must_use]
    pub fn within(mut self, path: impl Into<TreePath>) -> Self {
        self.within.push(path.into());
        self
    }

    /// Selects files with this tag, in addition to tags that were selected before.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags_any.push(tag.into());
        self
    }

    /// Selects these paths and everything below them; everywhere if there are none.
    #[must_use]
    pub fn within_any(self, paths: impl IntoIterator<Item = TreePath>) -> Self {
        Self { within: paths.into_iter().collect(), ..self }
    }

    /// Selects files with one of these tags; any if there are none.
    #[must_use]
    pub fn tags_any<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        Self { tags_any: tags.into_iter().map(Into::into).collect(), ..self }
    }

    /// Selects files with this value of this key in their custom metadata; called again, files with both.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Selects paths that this pattern matches, such as `/agents/*/notes/**` or `/**/*.md`, in addition to
    /// patterns that were selected before.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(PatternBelow { from: TreePath::root(), pattern: pattern.into() });
        self
    }

    /// Selects files whose content was last changed at this time or later.
    #[must_use]
    pub fn since(self, time: impl Into<Option<Timestamp>>) -> Self {
        Self { since: time.into(), ..self }
    }

    /// Selects files whose content was last changed before this time.
    #[must_use]
    pub fn until(self, time: impl Into<Option<Timestamp>>) -> Self {
        Self { until: time.into(), ..self }
    }

    /// Sets the limit on the hits, 1 to [`MAX_HITS`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sets the limit on the passages of one file, 1 to [`MAX_PER_FILE`].
    #[must_use]
    pub fn per_file(self, per_file: usize) -> Self {
        Self { per_file, ..self }
    }

    /// Sets the number of lines before and after the best line of each hit, 0 to [`MAX_CONTEXT`].
    #[must_use]
    pub fn context(self, context: usize) -> Self {
        Self { context, ..self }
    }

    /// Sets whether a passage gains from those next to it and from names (default: true).
    #[must_use]
    pub fn neighbours(self, neighbours: bool) -> Self {
        Self { neighbours, ..self }
    }

    /// Sets the features by which passages are compared (default: [`SearchMode::Meaning`]).
    #[must_use]
    pub fn mode(self, mode: SearchMode) -> Self {
        Self { mode, ..self }
    }

    /// Makes the search quick: see [`quick`](Self::quick).
    #[must_use]
    pub fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    /// Sets whether abstracts and overviews of memories are shown (default: false).
    #[must_use]
    pub fn layers(self, layers: bool) -> Self {
        Self { layers, ..self }
    }

    /// Sets the position of the first hit with a snippet and a context (default: 0): the start of a page, for
    /// a caller that does not show the hits before it.
    #[doc(hidden)]
    #[must_use]
    pub fn text_from(self, text_from: usize) -> Self {
        Self { text_from, ..self }
    }

    /// Asks for hits without snippets and contexts.
    #[doc(hidden)]
    #[must_use]
    pub fn without_text(self) -> Self {
        self.text_from(usize::MAX)
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to [`MAX_HITS`], passages of a file outside 1 to
    /// [`MAX_PER_FILE`], more than [`MAX_CONTEXT`] lines, or more than [`MAX_PATTERNS`] patterns. The search
    /// itself checks the patterns.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        let wrong = if !(1..=MAX_HITS).contains(&self.limit) {
            format!("the limit of a search is 1 to {MAX_HITS}")
        } else if !(1..=MAX_PER_FILE).contains(&self.per_file) {
            format!("a search gives 1 to {MAX_PER_FILE} passages of a file")
        } else if self.context > MAX_CONTEXT {
            format!("a search gives at most {MAX_CONTEXT} lines before and after a hit")
        } else if self.patterns.len() > MAX_PATTERNS {
            format!("a search is for at most {MAX_PATTERNS} patterns of paths")
        } else {
            return Ok(());
        };
        Err(Error::invalid(wrong))
    }
}

impl Default for SearchQuery {
    fn default() -> Self {
        Self {
            text: String::new(),
            within: Vec::new(),
            tags_any: Vec::new(),
            metadata: BTreeMap::new(),
            patterns: Vec::new(),
            since: None,
            until: None,
            limit: 10,
            per_file: 1,
            context: 0,
            mode: SearchMode::default(),
            neighbours: true,
            quick: false,
            layers: false,
            text_from: 0,
        }
    }
}

/// Features by which a search compares passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchMode {
    /// The words of the question alone.
    Words,
    /// Words, words near in meaning to them, and the meaning of the passage: it also finds answers in other
    /// words. The meaning is known of English words; texts in other languages are found by their words.
    #[default]
    Meaning,
}

/// Answer of a search.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchAnswer {
    /// Hits, the best first: by [`Hit::rank`], then those of files that were created later. Each file has its
    /// best passages, one unless [more](SearchQuery::per_file) are asked for.
    pub hits: Vec<Hit>,
    /// True if there may be more: the limit was reached, or there are more matches than one search examines.
    pub more: bool,
    /// Number of files with text that is not indexed yet, counted up to 1,000.
    pub missing: u64,
}

/// Passage of a file that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FileHit")]
#[non_exhaustive]
pub struct Hit {
    /// Path of the file: of its names that the query allows, the first in the order of a walk.
    pub path: TreePath,
    /// Inode.
    pub ino: Ino,
    /// Version of the node that was searched.
    pub version: VersionId,
    /// Share of the question that the passage contains, above 0 and up to 1: the weight of its words, divided
    /// by the weight of all words of the question. A long question is divided at its sentences, and the one
    /// that the passage fits best counts: completely, or half if it asks nothing and another one has a
    /// question mark. A word that only a passage next to it contains counts half. A word weighs
    /// `ln(1 + (N + 20) / (n + 20 p))`, where `n` of all `N` passages contain it, and a share `p` of those
    /// of general English, so rare words count most, even those that no passage contains. 1 means that the
    /// passage contains every word, however common the words are. Scores of different questions can be
    /// compared. A word that was found by its beginning alone counts half.
    pub score: f64,
    /// Addends of the score.
    pub parts: ScoreParts,
    /// Number by which hits are ordered: BM25 of the passage, and what it gains by its neighbours and its
    /// meaning, divided by the weight of the question, or of the part of it that counts. Unlike the score it
    /// has no upper limit, and depends on how often the passage contains a word and on its length. Those of
    /// different stores can be compared.
    #[serde(skip)]
    #[doc(hidden)]
    pub rank: f64,
    /// Short form of the passage, cut at words; empty if the query does not ask for it.
    pub snippet: String,
    /// Position of the passage in bytes.
    pub bytes: Range<u64>,
    /// Position of the passage in lines; the first line is 1, the end is excluded.
    pub lines: Range<u64>,
    /// Lines around the passage, if the query asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<HitContext>,
}

impl Hit {
    /// Returns a hit that only says that a node is at a path.
    pub(crate) fn at(path: TreePath, ino: Ino) -> Self {
        Self {
            path,
            ino,
            version: VersionId { seq: Seq(0), ino },
            score: 1.0,
            parts: ScoreParts { words: 1.0, neighbours: 0.0, meaning: 0.0 },
            rank: 1.0,
            snippet: String::new(),
            bytes: 0..0,
            lines: 0..0,
            context: None,
        }
    }
}

/// Addends of a [`Hit::score`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ScoreParts {
    /// Share of the words that the passage itself contains.
    pub words: f64,
    /// Half the share of the words that only the passage before or after it or the name of its file contains,
    /// and a fifth of the share of those that only other passages of the file or the name of its directory
    /// contain.
    pub neighbours: f64,
    /// Gain of a passage that is near in meaning to the question.
    pub meaning: f64,
}

impl ScoreParts {
    /// Returns the score.
    #[doc(hidden)]
    pub fn sum(&self) -> f64 {
        self.words + self.neighbours + self.meaning
    }
}

/// Best line of a hit, which contains the largest number of distinct words of the question, with the lines
/// before and after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct HitContext {
    /// Text of the lines; invalid UTF-8 is U+FFFD. At most [`MAX_CONTEXT_BYTES`] of the file: the lines
    /// farthest from the best one are left out first, and a very long line is cut.
    pub text: String,
    /// Number of the best line; the first of the file is 1.
    pub best: u64,
    /// Range of the lines; the end is excluded.
    pub lines: Range<u64>,
    /// Range of the bytes.
    pub bytes: Range<u64>,
}
