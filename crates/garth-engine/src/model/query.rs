//! Queries and answers of reads: pages, ranges, versions.

use std::ops::{Range, RangeFrom};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::author::Author;
use super::commit::{CommitInfo, Snapshot, SnapshotKey};
use super::entry::{Attributes, Entry, Kind};
use super::id::{Ino, Seq, Timestamp, VersionId};
use crate::error::{Error, Result};
use crate::path::{Name, TreePath};

/// Limit on the items of one page.
pub const MAX_PAGE: usize = 10_000;
/// Limit on the bytes of one page by [`Weigh`], 8 MiB: [`MAX_PAGE`] entries of a usual size. A page has at
/// least one item, whatever its size.
pub const MAX_PAGE_BYTES: usize = 8 << 20;
/// Limit on the bytes of one `read`, 16 MiB; longer content is streamed through a handle.
pub const MAX_READ: usize = 16 << 20;

/// Page to read of a directory; as [`WalkPage`], of a subtree; as [`NamesPage`], of a node's names; as
/// [`SnapshotsPage`], of the snapshots.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<K = Name> {
    /// Name after which the page starts (for a walk a path, below its root). It need not exist.
    #[doc(hidden)]
    pub after: Option<K>,
    /// Limit on the items, 1 to [`MAX_PAGE`]. A page has no more than [`MAX_PAGE_BYTES`] either.
    #[doc(hidden)]
    pub limit: usize,
    /// True if each item of a listing or walk is to carry its [`Entry`].
    #[doc(hidden)]
    pub entries: bool,
}

/// Page to read of a subtree.
pub type WalkPage = Page<TreePath>;

/// Page to read of a node's names.
pub type NamesPage = Page<TreePath>;

/// Page to read of the snapshots.
pub type SnapshotsPage = Page<SnapshotKey>;

impl<K> Default for Page<K> {
    fn default() -> Self {
        Self { after: None, limit: 1000, entries: false }
    }
}

impl<K> Page<K> {
    /// Starts the page after this name or path.
    #[must_use]
    pub fn after(self, after: impl Into<Option<K>>) -> Self {
        Self { after: after.into(), ..self }
    }

    /// Sets the limit on the items, 1 to [`MAX_PAGE`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Makes each item carry its [`Entry`].
    #[must_use]
    pub fn with_entries(self) -> Self {
        Self { entries: true, ..self }
    }
}

/// Checks the limit of a page.
///
/// # Errors
/// `InvalidArgument` for no items, or more than [`MAX_PAGE`].
#[doc(hidden)]
pub fn check_limit(limit: usize) -> Result<()> {
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(());
    }
    Err(Error::invalid(format!("the limit of a page is 1 to {MAX_PAGE}")))
}

/// Name in a directory.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "DirectoryItem")]
#[non_exhaustive]
pub struct Item {
    /// Name.
    pub name: Name,
    /// Inode of the node.
    pub ino: Ino,
    /// Kind of the node.
    pub kind: Kind,
    /// The complete node, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Box<Entry>>,
}

/// Page of a directory, in byte order of names, or of other items that are read in pages.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listing<T = Item> {
    /// Items of the page.
    pub items: Vec<T>,
    /// True if there may be more after the last item.
    pub more: bool,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: Vec::new(), more: false }
    }
}

/// Type whose values count towards [`MAX_PAGE_BYTES`].
pub trait Weigh {
    /// Returns the approximate size in memory, in bytes.
    fn weight(&self) -> usize;
}

/// Page that is being filled, up to its limits on items and bytes.
#[derive(Debug)]
pub struct Filling<T> {
    listing: Listing<T>,
    limit: usize,
    bytes: usize,
}

impl<T: Weigh> Filling<T> {
    /// Returns an empty page of at most `limit` items.
    pub fn new(limit: usize) -> Self {
        Self { listing: Listing { items: Vec::new(), more: false }, limit, bytes: 0 }
    }

    /// Adds an item. Returns false if the page is full: the item belongs to the next page.
    pub fn push(&mut self, item: T) -> bool {
        let items = &mut self.listing.items;
        self.bytes = self.bytes.saturating_add(item.weight());
        // At least one item, whatever its size, so that the caller gets further.
        self.listing.more = items.len() >= self.limit || (self.bytes > MAX_PAGE_BYTES && !items.is_empty());
        if !self.listing.more {
            items.push(item);
        }
        !self.listing.more
    }

    /// Returns the number of items that still fit.
    pub fn room(&self) -> usize {
        if self.listing.more { 0 } else { self.limit - self.listing.items.len() }
    }

    /// Returns the page.
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

/// Path of a walk.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WalkItem {
    /// Path.
    pub path: TreePath,
    /// Inode of the node.
    pub ino: Ino,
    /// Kind of the node.
    pub kind: Kind,
    /// The complete node, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Box<Entry>>,
}

/// Page of everything below a directory, without itself. Order: bytes of the parent's path
/// ([`TreePath::key`]), then bytes of the name. A directory comes before its entries.
pub type Walk = Listing<WalkItem>;

/// Bytes of a file: from `offset`, at most `length`. A range after the end is empty, which is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Limit on the bytes.
    pub length: u64,
}

impl ByteRange {
    /// The complete file.
    pub const ALL: Self = Self { offset: 0, length: u64::MAX };
}

/// Converts `10..20`. An end before the start gives no bytes.
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

/// Answer of [`fetch_many`](crate::FileSystem::fetch_many). The files that could be read are all of one state.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// Commit after which the files were read. The remaining items can be read in the same state by `as_of`
    /// this commit, except for entries that have expired since. `None` if all items together have no such
    /// state: in the tree of several accounts, if they are of more than one, or of one that cannot be read.
    pub seq: Option<Seq>,
    /// One answer for each of the first items asked for, in their order. Fewer than asked for if the answers
    /// would hold more than [`MAX_READ`] bytes of content and attributes; the first item is always answered.
    pub items: Vec<Result<(Entry, Bytes)>>,
}

impl Fetched {
    /// Returns answers to the first items, as of commit `seq`.
    pub fn new(seq: Seq, items: Vec<Result<(Entry, Bytes)>>) -> Self {
        Self { seq: Some(seq), items }
    }

    /// Returns answers to the first items, for items without a common state.
    #[doc(hidden)]
    pub fn of_no_state(items: Vec<Result<(Entry, Bytes)>>) -> Self {
        Self { seq: None, items }
    }
}

/// Checks the number of items for [`fetch_many`](crate::FileSystem::fetch_many).
///
/// # Errors
/// `InvalidArgument` for more than [`MAX_PAGE`].
#[doc(hidden)]
pub fn check_items(items: usize) -> Result<()> {
    if items <= MAX_PAGE {
        return Ok(());
    }
    Err(Error::invalid(format!("at most {MAX_PAGE} items are fetched at once")))
}

/// State of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The state after this commit. Beyond the last: `NotFound`; before retention: `Gone`.
    Seq(Seq),
    /// The state after the last commit whose time is not later. Before the first commit: the empty tree.
    Time(Timestamp),
    /// The state of a snapshot, by name.
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

/// Page to read of a history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HistoryPage {
    /// Only versions that are older than this one: of an earlier commit, or of the same commit and a node
    /// with a smaller inode. It need not exist.
    #[doc(hidden)]
    pub before: Option<VersionId>,
    /// Limit on the versions, 1 to [`MAX_PAGE`]. A page has no more than [`MAX_PAGE_BYTES`] either.
    #[doc(hidden)]
    pub limit: usize,
}

impl Default for HistoryPage {
    fn default() -> Self {
        Self { before: None, limit: 100 }
    }
}

impl HistoryPage {
    /// Selects versions that are older than this one. The next page continues before the last of
    /// [`Listing::items`].
    #[must_use]
    pub fn before(self, version: impl Into<Option<VersionId>>) -> Self {
        Self { before: version.into(), ..self }
    }

    /// Selects versions of commits before this one.
    #[must_use]
    pub fn before_commit(self, seq: Seq) -> Self {
        self.before(VersionId { seq, ino: Ino::NONE })
    }

    /// Sets the limit on the versions, 1 to [`MAX_PAGE`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// Version of a node, or of the node that a path named.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "NodeVersion")]
#[non_exhaustive]
pub struct Version {
    /// Id of the version.
    pub id: VersionId,
    /// Commit that created it.
    pub commit: CommitInfo,
    /// Node after that commit; `None` if the commit ended it or moved it away from the path.
    pub entry: Option<Box<Entry>>,
}

/// Newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Head {
    /// Last commit; 0 before the first.
    pub seq: Seq,
    /// Time of the commit.
    pub time: Timestamp,
}
