//! What a search asks and answers.

use std::collections::BTreeMap;
use std::ops::Range;

use super::id::{Ino, Seq, Timestamp, VersionId};
use crate::error::{Error, Result};
use crate::path::TreePath;

/// Most hits of one [`SearchQuery`].
pub const MAX_HITS: usize = 1000;
/// Most passages that a [`SearchQuery`] gives of one file.
pub const MAX_PER_FILE: usize = 20;
/// Most lines that a [`SearchQuery`] gives before the best line of a hit, and behind it.
pub const MAX_CONTEXT: usize = 20;
/// Most bytes of a file in one [`HitContext`], 8 KiB: those of [`MAX_HITS`] fit into a page of other reads.
pub const MAX_CONTEXT_BYTES: usize = 8 << 10;
/// Most classes of one [`SearchQuery`]: each name that it may show is compared with all of them.
pub const MAX_CLASSES: usize = 64;

/// A search over the text of current files.
///
/// ```
/// # use garth_engine as garth;
/// use garth::TreePath;
/// use garth::model::SearchQuery;
///
/// let query = SearchQuery::new("how does she take her coffee")
///     .within(TreePath::parse("/notes")?)
///     .tag("alice")
///     .class("/**/*.md")
///     .per_file(3)
///     .limit(10);
/// # let _ = query;
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchQuery {
    /// What to look for, in plain words; any characters are fine.
    pub text: String,
    /// Only these paths and what is below them; empty: everywhere.
    pub within: Vec<TreePath>,
    /// Only files with one of these labels; empty: any.
    pub tags_any: Vec<String>,
    /// Only files that have each of these keys in their custom metadata, with just this value.
    pub metadata: BTreeMap<String, String>,
    /// Only paths of one of these classes, [`MAX_CLASSES`] at most; empty: any.
    pub classes: Vec<PathClass>,
    /// Only files whose content was last changed at this time or later.
    pub since: Option<Timestamp>,
    /// Only files whose content was last changed before this time.
    pub until: Option<Timestamp>,
    /// Most hits, 1 to [`MAX_HITS`].
    pub limit: usize,
    /// Most passages of one file, each a hit of its own, 1 to [`MAX_PER_FILE`].
    pub per_file: usize,
    /// Lines of the file to give before the best line of each hit and behind it, up to [`MAX_CONTEXT`]; 0 for
    /// no [`Hit::context`].
    pub context: usize,
    /// Whether a passage gains from those before and behind it in its file: in a conversation the answer
    /// stands beside what was asked.
    pub neighbours: bool,
    /// Whether to look at little, for what is told besides and was not asked for: of more than six words the
    /// longest, as they are; and if many passages have each of them, the newest.
    pub quick: bool,
    /// Whether the abstracts and overviews of context nodes are shown, each as a hit of its own path.
    pub layers: bool,
}

/// A class of paths, from a directory on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathClass {
    /// The directory that is the root for it.
    pub from: TreePath,
    /// As [`Class`](crate::rule::Class) reads it.
    pub pattern: String,
}

impl SearchQuery {
    /// The ten best files for these words, in the whole tree.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Only this path and what is below it; called again, also another.
    #[must_use]
    pub fn within(mut self, path: impl Into<TreePath>) -> Self {
        self.within.push(path.into());
        self
    }

    /// Only files with this tag; called again, with either.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags_any.push(tag.into());
        self
    }

    /// Only these paths and what is below them; none: everywhere.
    #[must_use]
    pub fn within_any(self, paths: impl IntoIterator<Item = TreePath>) -> Self {
        Self { within: paths.into_iter().collect(), ..self }
    }

    /// Only files with one of these tags; none: any.
    #[must_use]
    pub fn tags_any<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        Self { tags_any: tags.into_iter().map(Into::into).collect(), ..self }
    }

    /// Only files with this value of this key in their custom metadata; called again, with both.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Only paths of this class, as `/agents/*/notes/**` or `/**/*.md`; called again, of either.
    #[must_use]
    pub fn class(mut self, pattern: impl Into<String>) -> Self {
        self.classes.push(PathClass { from: TreePath::root(), pattern: pattern.into() });
        self
    }

    /// Only files whose content was last changed at this time or later.
    #[must_use]
    pub fn since(self, time: impl Into<Option<Timestamp>>) -> Self {
        Self { since: time.into(), ..self }
    }

    /// Only files whose content was last changed before this time.
    #[must_use]
    pub fn until(self, time: impl Into<Option<Timestamp>>) -> Self {
        Self { until: time.into(), ..self }
    }

    /// At most this many hits, 1 to [`MAX_HITS`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// At most this many passages of one file, 1 to [`MAX_PER_FILE`].
    #[must_use]
    pub fn per_file(self, per_file: usize) -> Self {
        Self { per_file, ..self }
    }

    /// So many lines before and behind the best line of each hit, 0 to [`MAX_CONTEXT`].
    #[must_use]
    pub fn context(self, context: usize) -> Self {
        Self { context, ..self }
    }

    /// Whether a passage gains from those beside it; without a word, it does.
    #[must_use]
    pub fn neighbours(self, neighbours: bool) -> Self {
        Self { neighbours, ..self }
    }

    /// Looks at little: see [`quick`](Self::quick).
    #[must_use]
    pub fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    /// Whether abstracts and overviews of context nodes are shown; without a word, they are not.
    #[must_use]
    pub fn layers(self, layers: bool) -> Self {
        Self { layers, ..self }
    }

    /// Refuses what no search takes.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to [`MAX_HITS`], passages of a file outside 1 to
    /// [`MAX_PER_FILE`], more than [`MAX_CONTEXT`] lines, or more than [`MAX_CLASSES`] classes. What is wrong
    /// with a class is told by the search.
    pub fn check(&self) -> Result<()> {
        let wrong = if !(1..=MAX_HITS).contains(&self.limit) {
            format!("the limit of a search is 1 to {MAX_HITS}")
        } else if !(1..=MAX_PER_FILE).contains(&self.per_file) {
            format!("a search gives 1 to {MAX_PER_FILE} passages of a file")
        } else if self.context > MAX_CONTEXT {
            format!("a search gives at most {MAX_CONTEXT} lines before and behind a hit")
        } else if self.classes.len() > MAX_CLASSES {
            format!("a search is for at most {MAX_CLASSES} classes of paths")
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
            classes: Vec::new(),
            since: None,
            until: None,
            limit: 10,
            per_file: 1,
            context: 0,
            neighbours: true,
            quick: false,
            layers: false,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchAnswer {
    /// Best first: by BM25 of the passage, then the newest text. Of each file its best passages, one unless
    /// [more](SearchQuery::per_file) are asked for.
    pub hits: Vec<Hit>,
    /// Whether there may be more: the limit was reached, or there are more matches than one search looks at.
    pub more: bool,
    /// Files of which some text is not indexed yet, counted up to 1,000.
    pub missing: u64,
}

/// A passage of a file that a search found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The file's path (of its names that the query allows the first in the order of a walk).
    pub path: TreePath,
    /// The node.
    pub ino: Ino,
    /// The node's version that was searched.
    pub version: VersionId,
    /// How much of the question the passage holds, above 0 and up to 1: the sum of the weights of the words
    /// that it holds, and of half of those that a passage beside it holds, divided by that of all words asked
    /// for. A word weighs `ln(1 + N / n)`, where `n` of all
    /// `N` passages hold it; so rare words count most, also those that nothing holds. 1 says that it holds
    /// every word, however common they are. Compares hits of different questions, too. A word that was found
    /// by its beginning alone counts half.
    pub score: f64,
    /// What the score is the sum of.
    pub parts: ScoreParts,
    /// The passage in short, cut at words.
    pub snippet: String,
    /// Where the passage lies, in bytes.
    pub bytes: Range<u64>,
    /// Where the passage lies, in lines; the first line is 1, the end is excluded.
    pub lines: Range<u64>,
    /// What stands around, if the query asks for it.
    pub context: Option<HitContext>,
}

impl Hit {
    /// That a node is at a path, and nothing else.
    pub(crate) fn at(path: TreePath, ino: Ino) -> Self {
        Self {
            path,
            ino,
            version: VersionId { seq: Seq(0), ino },
            score: 1.0,
            parts: ScoreParts { words: 1.0, neighbours: 0.0 },
            snippet: String::new(),
            bytes: 0..0,
            lines: 0..0,
            context: None,
        }
    }
}

/// What a [`Hit::score`] is the sum of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ScoreParts {
    /// The share of the words that the passage holds itself.
    pub words: f64,
    /// Half the share of those that it does not hold, and the passage before or behind it in its file does.
    pub neighbours: f64,
}

/// The best line of a hit, which has the most different words of the question, with lines before and behind
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HitContext {
    /// As they stand in the file; what is not UTF-8 is U+FFFD. At most [`MAX_CONTEXT_BYTES`] of the file: the
    /// lines farthest from the best one are left out first, and of a very long one there is a part.
    pub text: String,
    /// Which line is the best one; the first of the file is 1.
    pub best: u64,
    /// Which lines these are; the end is excluded.
    pub lines: Range<u64>,
    /// The same in bytes.
    pub bytes: Range<u64>,
}
