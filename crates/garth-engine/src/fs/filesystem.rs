//! Traits of all trees, and of what views need of the tree below them. They share a file because each refers
//! to the other: a view is a filesystem, and a lowered address names the filesystem that it ends in.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::capabilities::Capabilities;
use super::handle::{Incoming, OpenFile, OpenNode, Upload};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Access, At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry,
    Fetched, FindAnswer, FindQuery, Gate, Head, HistoryPage, Hit, Ino, KeyRecord, KeySpace, Listing, Moment,
    NamesPage, Op, Page, Precondition, SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody,
    Version, VersionId, Walk, WalkPage, Within,
};
use crate::path::TreePath;
use crate::rule::{Registry, Searchable};

/// A versioned tree of files. See [`crate::model::batch`] for the meaning of every
/// operation and the order of errors.
#[async_trait]
pub trait FileSystem: Any + Send + Sync + fmt::Debug {
    /// Returns the abilities of this implementation at a path, which need not exist. Nothing is looked up: a
    /// view of several stores answers for the store that the path belongs to.
    fn capabilities(&self, at: &TreePath) -> Capabilities;

    /// Returns the last commit.
    async fn head(&self) -> Result<Head>;

    /// Returns a node, without following a link at the end.
    ///
    /// # Errors
    /// `NotFound`, and `NotADirectory` for a path through something else: the errors of a lookup.
    async fn stat(&self, at: &At) -> Result<Entry>;

    /// Returns a page of the paths of a node, in the order of a walk: by directory, then by name. A node that
    /// only open handles keep has none.
    ///
    /// # Errors
    /// Errors of a lookup; `InvalidArgument` for a limit outside 1 to `MAX_PAGE`.
    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>>;

    /// Returns a page of a directory's names.
    ///
    /// # Errors
    /// Errors of a lookup; `NotADirectory` for anything else; `InvalidArgument` for a limit outside 1 to
    /// `MAX_PAGE`.
    async fn list(&self, dir: &At, page: &Page) -> Result<Listing>;

    /// Returns a page of everything below a directory.
    ///
    /// # Errors
    /// As for `list`; `InvalidArgument` also for an `after` that is not below the directory.
    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk>;

    /// Returns a file and bytes of its content, both of one state. A range that begins after the end gives no
    /// bytes.
    ///
    /// # Errors
    /// Errors of a lookup; `IsADirectory`; `NotPermitted` for other kinds (a link's target is in its entry);
    /// `TooLarge` if more than `MAX_READ` bytes would come back; `Corrupt` if stored bytes fail their
    /// checksum.
    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)>;

    /// Returns several files and bytes of each, as [`FileSystem::fetch`] does, all of one state. The answer
    /// is bounded: the caller asks again for what it lacks, see [`Fetched`].
    ///
    /// # Errors
    /// `InvalidArgument` for more than `MAX_PAGE` items; errors of the storage. An error of one item is the
    /// answer to it.
    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched>;

    /// Returns bytes of a file: [`FileSystem::fetch`] without the entry.
    ///
    /// # Errors
    /// As for `fetch`.
    async fn read(&self, at: &At, range: ByteRange) -> Result<Bytes> {
        Ok(self.fetch(at, range).await?.1)
    }

    /// Holds a node of any kind. The handle follows renames and outlives removal and expiry. While it is
    /// held, `At::Node` reaches the node on this instance, with or without a name. A directory that was
    /// removed lists nothing, and a name that is looked up or made in it is `NotFound`.
    ///
    /// # Errors
    /// Errors of a lookup.
    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>>;

    /// Opens a file as POSIX does: [`FileSystem::hold`] with reads. The handle sees later writes.
    ///
    /// # Errors
    /// As for `fetch`.
    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>>;

    /// Opens one version of a file, which never changes.
    ///
    /// # Errors
    /// `NotFound` for a missing version, or one that is the end of a node; `Gone` beyond retention; as for
    /// `fetch`.
    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>>;

    /// Returns a page of versions, newest first. For a path (or child): of all nodes that the path ever
    /// named, through delete and re-create. Each node comes with all of its past from before it was moved
    /// here, and with a version without entry where it left the path and nothing took its place in that
    /// commit. A node's changes after it left are not shown. For a node: all its versions, named or not.
    /// Ordered by sequence number, then inode, both descending.
    ///
    /// # Errors
    /// `NotFound` if the path or node never existed; `InvalidArgument` for a limit outside 1 to `MAX_PAGE`.
    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>>;

    /// Returns the commit that wrote each byte of a range of a file: at most `limit` runs (1 to `MAX_PAGE`),
    /// and fewer if their commits have more than `MAX_BLAME` bytes or much of the file has to be read. A
    /// range after the end has none.
    ///
    /// # Errors
    /// As for `fetch`, but for `TooLarge`; `InvalidArgument` for a limit outside 1 to `MAX_PAGE`;
    /// `Unsupported` without this ability.
    async fn blame(&self, _at: &At, _range: ByteRange, _limit: usize) -> Result<Blame> {
        Err(Error::new(ErrorKind::Unsupported, "blame is not supported here"))
    }

    /// Returns the changes after a position of the log, oldest first. One call reads a bounded part of the
    /// log and returns how far it got ([`Changes::until`]); its cost depends on that part alone.
    ///
    /// With subtrees ([`ChangesQuery::within`]) a change shows if one of its names is inside. A rename over
    /// their border shows as `Created` or `Removed`, without the path outside; so does one over the border of
    /// what is left out. A change of a directory above shows as `Created` of the tops that exist after the
    /// commit, or `Removed` of those that existed before it.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE` or more than `MAX_SUBTREES`; `Gone` if commits
    /// after the position are beyond retention.
    async fn changes(&self, query: &ChangesQuery) -> Result<Changes>;

    /// Waits until there is a commit after `since`, by any client, and returns the last one. It takes no
    /// thread and does not poll; a commit of another process is noticed within a few tenths of a second.
    ///
    /// # Errors
    /// `Unsupported` for a view of the past that ends at `since` or before, where no commit can follow;
    /// errors of the storage.
    async fn wait(&self, since: Seq) -> Result<Head>;

    /// Returns the tree as it was, read-only. Its `history` and `changes` end there. Expiry is judged at the
    /// time asked for (a time in the future means now), and for a sequence number or snapshot at the time of
    /// its commit.
    ///
    /// # Errors
    /// `NotFound` for an unknown sequence number or snapshot; `Gone` beyond retention.
    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>>;

    /// Returns the part of the tree within `to.within`, as a filesystem. Paths outside, and above a top, are
    /// `NotFound` to reads and commits alike, by path, inode, version or in the past. A top itself can be
    /// read, listed and changed, but not created, removed or moved (`Busy`). Paths that `to.within` leaves
    /// out are missing as well: creating a name in them fails with `AccessDenied`; moving, removing or
    /// copying a directory above them fails with `Busy`. Entries that a gate of `to` hides are missing in the
    /// same way ([`Gate`]). Snapshots, commit ids, idempotency keys and staged bodies are
    /// those of `to.owner`, inside the owner of this filesystem. A node without a name is reached only
    /// through the handle that holds it open. `docs/specs/views.md` describes each call.
    ///
    /// # Errors
    /// `NameTooLong` for a top of more than 4,096 bytes; `TooLarge` for too long an owner; `Unsupported`.
    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>>;

    /// Returns a page of the snapshots, by name in byte order. If the filesystem is not confined, those of
    /// views follow its own, by owner and name.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`.
    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>>;

    /// Finds text. See [`SearchQuery`].
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to 1,000.
    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer>;

    /// Finds nodes by the keys that were derived from them in the commits that changed them (see
    /// [`Projection`](crate::model::Projection)), in the order of keys. The cost grows with the keys in the
    /// range, whether or not their nodes are within reach, up to some 10,000 a call ([`FindAnswer::next`]).
    /// An entry is not found after it has expired.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`, or a cursor of another filesystem;
    /// `Unsupported` without this ability, and in a view of the past.
    async fn find(&self, _query: &FindQuery) -> Result<FindAnswer> {
        Err(Error::new(ErrorKind::Unsupported, "nothing is found by key here"))
    }

    /// Starts an upload of content of any size, to be written at `at`. No reader sees it before a commit uses
    /// it. `at` is not looked up: it tells a view of several stores which one is to store the content.
    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>>;

    /// Fails if a commit that writes such content at the path `at` would fail whatever the bytes are: by a
    /// path that is read-only, a limit on sizes or a quota. A service asks before it receives content, so
    /// that refused content is not stored. The commit judges again. Without this ability all is admitted.
    ///
    /// # Errors
    /// As for [`FileSystem::commit`]; `QuotaExceeded` if the uploads of the owner of this filesystem that no
    /// commit has used take more room, or are [`MAX_UPLOADS`](super::MAX_UPLOADS).
    async fn admit(&self, _at: &At, _content: &Incoming) -> Result<()> {
        Ok(())
    }

    /// Gives up content that was staged at `at` and that no commit will use: a later commit of it fails with
    /// `NotFound`. Bytes that other files or uploads have as well stay. Does nothing if a commit has used it.
    /// Without this ability the content stays until its lease ends.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn discard(&self, _at: &At, _staged: &StagedBody) -> Result<()> {
        Ok(())
    }

    /// Applies a batch as one commit. Dropping the future does not cancel the batch once it was polled.
    ///
    /// # Errors
    /// As described in [`crate::model::batch`]; then nothing was applied and no sequence number taken. After
    /// `Io` and `Poisoned` it is unknown until the account is opened again whether the commit exists
    /// ([`FileSystem::committed`] finds it by its id).
    async fn commit(&self, batch: Batch) -> Result<Commit>;

    /// Returns the commit of an id, as it was answered (`replayed`) and durable by now; `None` if there is
    /// none. Waits for earlier batches of this instance, so that after a lost answer `None` means: commit it
    /// again, under the same id. The id is known as long as the log.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn committed(&self, id: CommitId) -> Result<Option<Commit>>;

    /// Returns the record of an idempotency key in this filesystem's key space, with the commit durable by
    /// now; `None` if there is none, or it has expired. A batch that is still waiting is not seen: only a
    /// commit under the key decides.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>>;

    /// Makes every commit acknowledged so far durable, and returns the last of them.
    async fn sync(&self) -> Result<Seq>;

    /// Returns this filesystem as views above it see it.
    #[doc(hidden)]
    fn view_base(&self) -> &dyn ViewBase;
}

/// Methods that views need of the filesystem below them, reached by [`FileSystem::view_base`].
#[doc(hidden)]
#[async_trait]
pub trait ViewBase: FileSystem {
    /// Returns the first of two places where something exists, with its index: the [`FileSystem::stat`] of
    /// the second if that of the first fails with `NotFound`. A store looks both up in one state, at little
    /// more than the cost of one.
    async fn stat_first(&self, places: [&At; 2]) -> (usize, Result<Entry>) {
        match self.stat(places[0]).await {
            Err(error) if error.is(ErrorKind::NotFound) => (1, self.stat(places[1]).await),
            found => (0, found),
        }
    }

    /// Returns a handle that reaches the nodes of this one and of another to the same store, with the content
    /// staged and the nodes held open by either. It commits as this one does: with its owner and author.
    /// `None` if the two are of different stores, or cannot be one.
    fn joined(&self, _with: &dyn FileSystem) -> Option<Arc<dyn FileSystem>> {
        None
    }

    /// Returns the last commit that is known to survive loss of power. Later ones may survive it as well,
    /// such as durable ones of other processes; [`ViewBase::settle`] makes sure. Reads nothing.
    ///
    /// # Errors
    /// `Poisoned` after a failure of the storage; `NotFound` for a deleted account.
    fn known_durable(&self) -> Result<Seq> {
        Ok(Seq(0))
    }

    /// Makes the commits up to `seq` durable, unless they are known to be. Concurrent callers share one sync.
    ///
    /// # Errors
    /// As for [`ViewBase::known_durable`] and [`FileSystem::sync`].
    async fn settle(&self, seq: Seq) -> Result<()> {
        if self.known_durable()? >= seq {
            return Ok(());
        }
        self.sync().await.map(drop)
    }

    /// Begins the lowering of one batch: turning its addresses into those of the store that it ends in.
    fn lowering(&self) -> Box<dyn Lowering>;

    /// Returns true if a path means here what it means in the store: for a store and its parts under their
    /// own paths, and for an overlay of such. Anything registered for a path of the store applies here only
    /// then.
    fn keeps_path(&self, path: &TreePath) -> bool {
        let lowering = self.lowering();
        lowering.raise(lowering.home().id, path).as_ref() == Some(path)
    }

    /// Returns the directory that a path cannot leave once it has followed a symbolic link at `link`: an
    /// absolute target begins there, and `..` stops there, in the target and in the rest of the path. This is
    /// `/`, or the root of the part that the link is in, for a tree whose parts must not lead to each other.
    /// A view returns the answer of the filesystem that shows it the link, in its own paths: a view of such a
    /// tree must not join the parts again.
    fn link_root(&self, link: &TreePath) -> TreePath;

    /// Returns the directories of stores to look in for the paths `within`; none if this filesystem lacks the
    /// ability.
    ///
    /// # Errors
    /// `NameTooLong` for a path that has no place there.
    fn sought(&self, within: &Within, by: By) -> Result<Vec<SearchTarget>> {
        if !by.is_of(self.capabilities(&TreePath::root())) {
            return Ok(Vec::new());
        }
        Ok(vec![SearchTarget { store: self.lowering().home(), tops: within.tops().to_vec() }])
    }

    /// Returns the path at which a file of an alias is shown as well; `None` outside of aliases. A walk that
    /// covers both paths leaves out the alias. A caller that descends by [`FileSystem::list`] must do the
    /// same to meet each file once.
    fn original_of(&self, _path: &TreePath) -> Option<TreePath> {
        None
    }

    /// Returns true if search finds a file at a path, with all of its lines, as far as the path alone
    /// decides. Other files can decide as well, by their keys.
    fn is_searchable(&self, path: &TreePath) -> bool {
        let is_complete = |registry: Registry| {
            registry.searchable(path) != Searchable::No && registry.withheld(path).is_none()
        };
        // A store without a registry excludes nothing.
        self.lowering().home().registry.is_none_or(is_complete)
    }

    /// Returns a hit in a store once for each path at which this tree shows it.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn found(&self, store: StoreId, hit: &Hit, _by: By) -> Result<Vec<Hit>> {
        let home = self.lowering().home();
        let shown = Some(hit).filter(|hit| home.id == store && home.within.contains(&hit.path));
        Ok(shown.into_iter().cloned().collect())
    }
}

/// Identity of a store. Addresses of one store can be in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId {
    instance: usize,
    /// A past state of it is a store of its own, which takes no commit.
    as_of: Option<Seq>,
}

impl StoreId {
    /// Returns the identity of the store with this state, which must be held as long as the id is used.
    pub fn of<T>(state: &Arc<T>, as_of: Option<Seq>) -> Self {
        Self { instance: Arc::as_ptr(state).addr(), as_of }
    }

    /// Returns true if both are of one store, in the same or another state of it: then no two of their nodes
    /// have one inode.
    pub fn is_one_with(self, other: Self) -> bool {
        self.instance == other.instance
    }
}

/// Store: a filesystem that keeps bytes itself, and is no view.
#[derive(Clone, Debug)]
pub struct Store {
    /// Identity.
    pub id: StoreId,
    /// Handle to the store, with the reach of the view that was lowered.
    pub fs: Arc<dyn FileSystem>,
    /// Paths that the handle reaches.
    pub within: Within,
    /// Directories of which the handle reaches some entries.
    pub gates: Vec<Gate>,
    /// Key space of the handle; `None` without a log.
    pub keys: Option<KeySpace>,
    /// Registry that it was opened with; `None` without search.
    pub registry: Option<Registry>,
}

/// Address in terms of a store.
#[derive(Clone, Debug)]
pub struct LoweredAddress {
    /// Store that has the node.
    pub store: Store,
    /// Address in this store.
    pub at: At,
    /// Operations to do before, such as copying up the node that changes.
    pub before: Vec<Op>,
    /// Operations to do after, such as hiding a node of a lower layer.
    pub after: Vec<Op>,
    /// Handles that these operations need in addition to that of the address.
    pub besides: Vec<Store>,
    /// Facts read during the lowering that must still hold at the commit; if not, the batch is lowered again.
    pub assumptions: Vec<(At, Precondition)>,
    /// Differences between the node as the view shows it and as the store has it.
    pub shown: ShownNode,
}

/// Node of a store as a view shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownNode {
    /// Inode in the view, if known.
    pub ino: Option<Ino>,
    /// Added to the store's inode if `ino` is `None`.
    pub tag: u64,
    /// Overrides whether the operation counts as having created it.
    pub created: Option<bool>,
}

impl LoweredAddress {
    /// Returns an address that needs nothing done before or after.
    pub fn new(store: Store, at: At) -> Self {
        let (before, after, besides, assumptions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { store, at, before, after, besides, assumptions, shown: ShownNode::default() }
    }
}

/// Lowering of one batch: it remembers the effects of its earlier operations.
#[async_trait]
pub trait Lowering: Send + Sync + fmt::Debug {
    /// Returns the store for operations without an address: snapshots, and an empty batch. A commit that ends
    /// there belongs to its owner, whatever it addresses first.
    fn home(&self) -> Store;

    /// Refuses an operation that the view never accepts, whatever its address.
    ///
    /// # Errors
    /// `TooLarge` for content above a view's limit.
    fn admit(&self, _op: &Op) -> Result<()> {
        Ok(())
    }

    /// Begins an operation. `expires` is true if the nodes that it writes expire.
    fn begin(&mut self, _expires: bool) {}

    /// Returns an address of the view in terms of its store.
    ///
    /// # Errors
    /// `NameTooLong` if the address has no place there; errors of reads during the lowering. Paths are the
    /// view's.
    async fn lower(&mut self, at: &At, access: Access) -> Result<LoweredAddress>;

    /// Returns a condition in terms of the store. A condition that the view judges itself may become another
    /// one that holds there exactly if the original does.
    ///
    /// # Errors
    /// As for [`Lowering::lower`].
    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(LoweredAddress, Precondition)> {
        // A version names its node, by the inode that the view shows.
        let (lowered, mut that) = (self.lower(at, Access::Read).await?, that.clone());
        for version in that.versions() {
            version.ino = self.number(version.ino).await?;
        }
        Ok((lowered, that))
    }

    /// Returns the inode in the store of a node, or of a version's node, that the view shows as `ino`.
    ///
    /// # Errors
    /// Errors of reads during the lowering.
    async fn number(&mut self, ino: Ino) -> Result<Ino>;

    /// Returns the paths of stores that make up a path of the view and everything below it.
    ///
    /// # Errors
    /// `NameTooLong` if it has no place there; errors of reads during the lowering.
    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>>;

    /// Returns the view's path of a path of the store, for an error about it; `None` if the view does not
    /// show it.
    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath>;
}

/// Kind of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By text: `search`.
    Text,
    /// By key: `find`.
    Key,
}

impl By {
    /// Returns true if an implementation has the ability.
    pub fn is_of(self, has: Capabilities) -> bool {
        match self {
            Self::Text => has.search,
            Self::Key => has.find,
        }
    }
}

/// Directories of a store, and the handle that reaches them.
#[derive(Clone, Debug)]
pub struct SearchTarget {
    /// Handle to the store.
    pub store: Store,
    /// Paths of the directories in the store.
    pub tops: Vec<TreePath>,
}
