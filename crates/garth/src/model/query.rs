//! What reads ask and answer: pages, ranges, versions, search.

use std::ops::{Range, RangeFrom};

use bytes::Bytes;

use super::commit::CommitInfo;
use super::entry::{Entry, Kind};
use super::id::{Ino, Seq, Timestamp, VersionId};
use crate::error::{Error, Result};
use crate::path::{Name, TreePath};

/// Most items of one page.
pub const MAX_PAGE: usize = 10_000;
/// Most bytes of one `read`; longer content is streamed through a handle. 16 MiB.
pub const MAX_READ: usize = 16 << 20;

/// Most hits of one [`SearchQuery`].
pub const MAX_HITS: usize = 1000;

/// Which part of a directory to list; as [`WalkPage`], of a subtree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<K = Name> {
    /// Start behind this name (of a walk: path, below its root); it need not exist.
    pub after: Option<K>,
    /// Most items, 1 to [`MAX_PAGE`].
    pub limit: usize,
    /// Whether each item carries its [`Entry`].
    pub entries: bool,
}

/// Which part of a subtree to walk.
pub type WalkPage = Page<TreePath>;

impl<K> Default for Page<K> {
    fn default() -> Self {
        Self { after: None, limit: 1000, entries: false }
    }
}

impl<K> Page<K> {
    /// Starts behind this name or path.
    #[must_use]
    pub fn after(self, after: impl Into<Option<K>>) -> Self {
        Self { after: after.into(), ..self }
    }

    /// At most this many items, 1 to [`MAX_PAGE`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Each item carries its [`Entry`].
    #[must_use]
    pub fn with_entries(self) -> Self {
        Self { entries: true, ..self }
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Item {
    /// The name.
    pub name: Name,
    /// Its node.
    pub ino: Ino,
    /// What the node is.
    pub kind: Kind,
    /// The node in full, where asked for.
    pub entry: Option<Box<Entry>>,
}

/// A page of a directory, in byte order of names; as [`Walk`], of a subtree.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listing<T = Item> {
    /// The names (of a walk: paths).
    pub items: Vec<T>,
    /// Whether there may be more behind the last item.
    pub more: bool,
}

/// One path of a walk.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WalkItem {
    /// The path.
    pub path: TreePath,
    /// Its node.
    pub ino: Ino,
    /// What the node is.
    pub kind: Kind,
    /// The node in full, where asked for.
    pub entry: Option<Box<Entry>>,
}

/// A page of everything below a directory, itself left out. Order: bytes of the parent's path
/// ([`TreePath::key`]), then bytes of the name. A directory comes before what is in it.
pub type Walk = Listing<WalkItem>;

/// Bytes of a file: `offset` and at most `length`. Behind the end there is nothing, which is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Most bytes.
    pub length: u64,
}

impl ByteRange {
    /// The whole file.
    pub const ALL: Self = Self { offset: 0, length: u64::MAX };
}

/// `ByteRange::from(10..20)`: an end before the start is no bytes.
impl From<Range<u64>> for ByteRange {
    fn from(range: Range<u64>) -> Self {
        Self { offset: range.start, length: range.end.saturating_sub(range.start) }
    }
}

impl From<RangeFrom<u64>> for ByteRange {
    fn from(range: RangeFrom<u64>) -> Self {
        Self { offset: range.start, length: u64::MAX }
    }
}

/// What [`fetch_many`](crate::FileSystem::fetch_many) read, all of one moment.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// The commit after which it was read: what is left can be read of the same moment by `as_of` this one,
    /// but for what has expired since that commit.
    pub seq: Seq,
    /// One answer for each of the first items asked for, in their order. Fewer than asked for if the answer
    /// would hold more than [`MAX_READ`] bytes of content and attributes; the first is always answered.
    pub items: Vec<Result<(Entry, Bytes)>>,
}

impl Fetched {
    /// Answers to the first items, as of commit `seq`.
    pub fn new(seq: Seq, items: Vec<Result<(Entry, Bytes)>>) -> Self {
        Self { seq, items }
    }
}

/// Refuses more items than [`fetch_many`](crate::FileSystem::fetch_many) takes.
pub(crate) fn check_items(items: usize) -> Result<()> {
    if items <= MAX_PAGE {
        return Ok(());
    }
    Err(Error::invalid(format!("at most {MAX_PAGE} items are fetched at once")))
}

/// Which past to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After this commit. Beyond the last: `NotFound`; before retention: `Gone`.
    Seq(Seq),
    /// After the last commit whose time is not later. Before the first commit: the empty tree.
    Time(Timestamp),
    /// A snapshot by name.
    Snapshot(String),
}

impl From<Seq> for Moment {
    fn from(seq: Seq) -> Self {
        Self::Seq(seq)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self::Time(time)
    }
}

/// Which versions to show.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HistoryPage {
    /// Only versions of commits before this one.
    pub before: Option<Seq>,
    /// Most versions, 1 to [`MAX_PAGE`].
    pub limit: usize,
}

impl Default for HistoryPage {
    fn default() -> Self {
        Self { before: None, limit: 100 }
    }
}

impl HistoryPage {
    /// Only versions of commits before this one.
    #[must_use]
    pub fn before(self, seq: impl Into<Option<Seq>>) -> Self {
        Self { before: seq.into(), ..self }
    }

    /// At most this many versions, 1 to [`MAX_PAGE`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// One version of a node or of what a path named.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Version {
    /// Its id.
    pub id: VersionId,
    /// The commit that made it.
    pub commit: CommitInfo,
    /// The node after that commit; `None` where the commit ended it or moved it away from the path.
    pub entry: Option<Box<Entry>>,
}

/// The newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The last commit; 0 before the first.
    pub seq: Seq,
    /// Its time.
    pub time: Timestamp,
}

/// A search over the text of current files.
///
/// ```
/// use garth::TreePath;
/// use garth::model::SearchQuery;
///
/// let query = SearchQuery::new("how does she take her coffee")
///     .within(TreePath::parse("/notes")?)
///     .tag("alice")
///     .limit(3);
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
    /// Most hits, 1 to [`MAX_HITS`]. One hit a file: its best passage.
    pub limit: usize,
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

    /// At most this many hits, 1 to [`MAX_HITS`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

impl Default for SearchQuery {
    fn default() -> Self {
        Self { text: String::new(), within: Vec::new(), tags_any: Vec::new(), limit: 10 }
    }
}

/// A file that a search found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// Its path (the first in byte order of its names that the query allows).
    pub path: TreePath,
    /// The node.
    pub ino: Ino,
    /// The node's version that was searched.
    pub version: VersionId,
    /// Relevance in (0, 1): BM25 `b` of the best passage as `b / (1 + b)`. Compares hits of one query only.
    pub score: f64,
    /// The best passage in short, cut at words.
    pub snippet: String,
    /// Where the passage lies, in bytes.
    pub bytes: Range<u64>,
    /// Where the passage lies, in lines; the first line is 1, the end is excluded.
    pub lines: Range<u64>,
}
