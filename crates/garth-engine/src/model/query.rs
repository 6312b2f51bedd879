//! What reads ask and answer: pages, ranges, versions.

use std::ops::{Range, RangeFrom};

use bytes::Bytes;

use super::author::Author;
use super::commit::{CommitInfo, Snapshot, SnapshotKey};
use super::entry::{Attributes, Entry, Kind};
use super::id::{Ino, Seq, Timestamp, VersionId};
use crate::error::{Error, Result};
use crate::path::{Name, TreePath};

/// Most items of one page.
pub const MAX_PAGE: usize = 10_000;
/// Most bytes of one page by [`Weigh`], 8 MiB: [`MAX_PAGE`] entries of a usual size. A page has at least one
/// item, whatever its size.
pub const MAX_PAGE_BYTES: usize = 8 << 20;
/// Most bytes of one `read`; longer content is streamed through a handle. 16 MiB.
pub const MAX_READ: usize = 16 << 20;

/// Which part of a directory to list; as [`WalkPage`], of a subtree; as [`NamesPage`], of a node's names; as
/// [`SnapshotsPage`], of the snapshots.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<K = Name> {
    /// Start behind this name (of a walk: path, below its root); it need not exist.
    pub after: Option<K>,
    /// Most items, 1 to [`MAX_PAGE`]; a page has no more than [`MAX_PAGE_BYTES`] either.
    pub limit: usize,
    /// Of a listing or walk: whether each item carries its [`Entry`].
    pub entries: bool,
}

/// Which part of a subtree to walk.
pub type WalkPage = Page<TreePath>;

/// Which of a node's names to give.
pub type NamesPage = Page<TreePath>;

/// Which snapshots to give.
pub type SnapshotsPage = Page<SnapshotKey>;

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

/// Refuses a page of no items, or of more than [`MAX_PAGE`].
pub(crate) fn check_limit(limit: usize) -> Result<()> {
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(());
    }
    Err(Error::invalid(format!("the limit of a page is 1 to {MAX_PAGE}")))
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

/// A page of a directory, in byte order of names; of anything else that is given in pages, its own items.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listing<T = Item> {
    /// The items.
    pub items: Vec<T>,
    /// Whether there may be more behind the last item.
    pub more: bool,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: Vec::new(), more: false }
    }
}

/// What counts towards [`MAX_PAGE_BYTES`].
pub trait Weigh {
    /// About as many bytes as it takes in memory.
    fn weight(&self) -> usize;
}

/// A page being filled, up to its limits in items and bytes.
#[derive(Debug)]
pub struct Filling<T> {
    listing: Listing<T>,
    limit: usize,
    bytes: usize,
}

impl<T: Weigh> Filling<T> {
    /// An empty page of at most `limit` items.
    pub fn new(limit: usize) -> Self {
        Self { listing: Listing { items: Vec::new(), more: false }, limit, bytes: 0 }
    }

    /// Adds an item. False if the page is full: then the item is left to the next one.
    pub fn push(&mut self, item: T) -> bool {
        let items = &mut self.listing.items;
        self.bytes = self.bytes.saturating_add(item.weight());
        self.listing.more = items.len() >= self.limit || (self.bytes > MAX_PAGE_BYTES && !items.is_empty());
        if !self.listing.more {
            items.push(item);
        }
        !self.listing.more
    }

    /// How many items it still takes.
    pub fn room(&self) -> usize {
        if self.listing.more { 0 } else { self.limit - self.listing.items.len() }
    }

    /// The page.
    pub fn done(self) -> Listing<T> {
        self.listing
    }
}

impl Weigh for String {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.len()
    }
}

impl Weigh for TreePath {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.key().len()
    }
}

impl Weigh for Attributes {
    fn weight(&self) -> usize {
        let texts = self.content_type.iter().chain(&self.tags).chain(self.metadata.keys());
        let texts = texts.chain(self.metadata.values()).chain(self.xattrs.keys()).map(Weigh::weight);
        let bytes = self.xattrs.values().map(|value| size_of::<Vec<u8>>() + value.len());
        texts.chain(bytes).sum()
    }
}

impl Weigh for Entry {
    fn weight(&self) -> usize {
        let target = self.target.as_ref().map_or(0, String::len);
        size_of::<Self>() + target + self.attributes.weight()
    }
}

impl Weigh for Item {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.name.as_str().len() + self.entry.as_deref().map_or(0, Weigh::weight)
    }
}

impl Weigh for WalkItem {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.path.key().len() + self.entry.as_deref().map_or(0, Weigh::weight)
    }
}

impl Weigh for Version {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.commit.weight() + self.entry.as_deref().map_or(0, Weigh::weight)
    }
}

impl Weigh for CommitInfo {
    fn weight(&self) -> usize {
        let Author { key, user, agent, session, class, audience } = &self.author;
        self.message.len()
            + [key, user, agent, session, class, audience]
                .into_iter()
                .flatten()
                .map(String::len)
                .sum::<usize>()
    }
}

impl Weigh for Snapshot {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.owner.as_ref().map_or(0, |owner| owner.key().len())
    }
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
    /// Only versions that are older than this one: of an earlier commit, or of the same commit and a node
    /// with a smaller number. It need not exist.
    pub before: Option<VersionId>,
    /// Most versions, 1 to [`MAX_PAGE`]; a page has no more than [`MAX_PAGE_BYTES`] either.
    pub limit: usize,
}

impl Default for HistoryPage {
    fn default() -> Self {
        Self { before: None, limit: 100 }
    }
}

impl HistoryPage {
    /// Only versions that are older than this one; [`Listing::items`] of a page ends with the one to go on
    /// from.
    #[must_use]
    pub fn before(self, version: impl Into<Option<VersionId>>) -> Self {
        Self { before: version.into(), ..self }
    }

    /// Only versions of commits before this one.
    #[must_use]
    pub fn before_commit(self, seq: Seq) -> Self {
        self.before(VersionId { seq, ino: Ino::NONE })
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
