//! The trait of all trees, and what views need of the tree below them. The two are one file, as each is in
//! the other's terms: a view is a filesystem, and a lowered address names the filesystem that it ends in.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::capabilities::Capabilities;
use super::handle::{OpenFile, OpenNode, Upload};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Access, At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry,
    Fetched, FindAnswer, FindQuery, Head, HistoryPage, Hit, Ino, Listing, Moment, NamesPage, Op, Page,
    Precondition, SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage, Version, VersionId, Walk,
    WalkPage, Within,
};
use crate::path::TreePath;

/// A versioned tree of files. See [`crate::model::batch`] for the meaning of every
/// operation and the order of errors.
#[async_trait]
pub trait FileSystem: Any + Send + Sync + fmt::Debug {
    /// What this implementation has for what is at `at` or would be made there. Nothing is looked up: a view
    /// that is made of several stores answers for the one that the path belongs to.
    fn capabilities(&self, at: &TreePath) -> Capabilities;

    /// The last commit.
    async fn head(&self) -> Result<Head>;

    /// A node, without following a link at the end.
    ///
    /// # Errors
    /// Those of a lookup: `NotFound`, `NotADirectory`.
    async fn stat(&self, at: &At) -> Result<Entry>;

    /// A page of the paths of a node, in the order of a walk: by directory, then by name. None if it lives
    /// only through open handles.
    ///
    /// # Errors
    /// Those of a lookup; `InvalidArgument` for a limit outside 1 to `MAX_PAGE`.
    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>>;

    /// A page of a directory's names.
    ///
    /// # Errors
    /// Those of a lookup; `NotADirectory` for anything else; `InvalidArgument` for a
    /// limit outside 1 to `MAX_PAGE`.
    async fn list(&self, dir: &At, page: &Page) -> Result<Listing>;

    /// A page of everything below a directory.
    ///
    /// # Errors
    /// As for `list`; `InvalidArgument` also for an `after` that is not below the directory.
    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk>;

    /// A file and bytes of its content, both of one moment. A range that begins
    /// behind the end gives no bytes.
    ///
    /// # Errors
    /// Those of a lookup; `IsADirectory`; `NotPermitted` for other kinds (a link's target is in
    /// its entry); `TooLarge` if more than `MAX_READ` bytes would come back; `Corrupt` if
    /// stored bytes fail their checksum.
    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)>;

    /// Several files and bytes of each, as [`FileSystem::fetch`] gives them, all of one moment. Of what the
    /// answer has no room for the rest is asked for again: see [`Fetched`].
    ///
    /// # Errors
    /// `InvalidArgument` for more than `MAX_PAGE` items; from the storage. What is wrong with one item is its
    /// answer.
    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched>;

    /// Bytes of a file: [`FileSystem::fetch`] without the entry.
    ///
    /// # Errors
    /// As for `fetch`.
    async fn read(&self, at: &At, range: ByteRange) -> Result<Bytes> {
        Ok(self.fetch(at, range).await?.1)
    }

    /// Holds a node of any kind: follows renames, outlives removal and expiry. While it is held, `At::Node`
    /// reaches the node on this instance, name or not. A directory that was removed lists nothing, and a name
    /// that is looked up or made in it is `NotFound`.
    ///
    /// # Errors
    /// Those of a lookup.
    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>>;

    /// A POSIX handle to a file: [`FileSystem::hold`] that reads, too. It sees later writes.
    ///
    /// # Errors
    /// As for `fetch`.
    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>>;

    /// A handle to one version of a file: never changes.
    ///
    /// # Errors
    /// `NotFound` for a version that is not there or is the end of a node; `Gone`
    /// beyond retention; as for `fetch`.
    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>>;

    /// A page of versions, newest first. For a path (or child): of all that the path ever named, through
    /// delete and re-create, each node with its whole past from before it was moved here, and with a version
    /// without entry where a node left the path and nothing took its place in that commit. A node's
    /// changes after it left are not shown. For a node: all its versions, named or not. Ordered by
    /// sequence, then node number, both descending.
    ///
    /// # Errors
    /// `NotFound` if the path or node never existed; `InvalidArgument` for a limit outside 1 to `MAX_PAGE`.
    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>>;

    /// Which commit wrote each byte of a range of a file: at most `limit` runs (1 to `MAX_PAGE`), and fewer
    /// where their commits have more than `MAX_BLAME` bytes or much of the file has to be looked at. Behind
    /// the end there is nothing.
    ///
    /// # Errors
    /// As for `fetch`, but for `TooLarge`; `InvalidArgument` for a limit outside 1 to `MAX_PAGE`;
    /// `Unsupported` without this ability.
    async fn blame(&self, _at: &At, _range: ByteRange, _limit: usize) -> Result<Blame> {
        Err(Error::new(ErrorKind::Unsupported, "who wrote which bytes is not known here"))
    }

    /// What changed behind a position of the log, oldest first. One call looks at a bounded part of the log
    /// and tells how far it got ([`Changes::until`]); what it costs depends on that part alone.
    ///
    /// Of subtrees ([`ChangesQuery::within`]) a change shows if a name is inside: a rename over their border
    /// as `Created` or `Removed`, without the path outside; what happened to a directory above, as `Created`
    /// or `Removed` of the tops that it brought or took: those that are there after the commit, or were there
    /// before it. So does what a rename brought out of what is left out, or took there.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE` or more than `MAX_SUBTREES`; `Gone` if commits
    /// behind the position are beyond retention.
    async fn changes(&self, query: &ChangesQuery) -> Result<Changes>;

    /// Waits until there is a commit after `since`, whoever makes it; gives the last. It takes no thread and
    /// asks nobody meanwhile; a commit of another process is noticed within a few tenths of a second.
    ///
    /// # Errors
    /// `Unsupported` for a view of the past that ends at `since` or before: nothing more comes there. From
    /// the storage.
    async fn wait(&self, since: Seq) -> Result<Head>;

    /// The tree as it was: read-only. Its `history` and `changes` end there. Expiry is judged at the
    /// time asked for (one that has not come yet means now), and for a sequence or snapshot at the
    /// time of its commit.
    ///
    /// # Errors
    /// `NotFound` for a sequence or snapshot that is not there; `Gone` beyond retention.
    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>>;

    /// The same tree, of which only a part is there: the paths within `to.within`. What lies outside, and
    /// what is above a top, is `NotFound` to reads and commits alike, by path, number, version or in the
    /// past; a top itself can be read, listed and changed, but not made, removed or moved (`Busy`). What
    /// `to.within` leaves out is not there either: to make a name in it is `AccessDenied`, to move, remove or
    /// copy a directory that has some of it below `Busy`. Its
    /// snapshots, commit ids, idempotency keys and staged bodies are those of `to.owner`, inside the owner of
    /// this filesystem; a node without a name is reached through the handle that holds it open only.
    /// `docs/specs/views.md` says what that means for each call.
    ///
    /// # Errors
    /// `NameTooLong` for a top of more than 4,096 bytes; `TooLarge` for too long an owner; `Unsupported`.
    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>>;

    /// A page of the snapshots, by name in byte order; behind those of the filesystem itself, if it is not
    /// confined, those of views, by owner and name.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`.
    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>>;

    /// Finds text. See [`SearchQuery`].
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to 1,000.
    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer>;

    /// Finds by key: what was derived from nodes in the commits that changed them (see
    /// [`Projection`](crate::model::Projection)), in the order of keys. It costs what it looks at: the keys in
    /// the range, whoever reaches the nodes that have them, up to some 10,000 a call
    /// ([`FindAnswer::next`]). An entry is not found from its expiry on.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`, or a cursor of another filesystem;
    /// `Unsupported` without this ability, and in a view of the past.
    async fn find(&self, _query: &FindQuery) -> Result<FindAnswer> {
        Err(Error::new(ErrorKind::Unsupported, "nothing is found by key here"))
    }

    /// Starts an upload of content of any size, to be written at `at`. Nothing of it shows until a commit
    /// uses it, and `at` is not looked up: a view that is made of several stores learns which one is to keep
    /// it.
    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>>;

    /// Applies a batch as one commit. Dropping the future does not take the batch back once it was polled.
    ///
    /// # Errors
    /// As [`crate::model::batch`] says; then nothing was applied and no sequence taken. `Io` and `Poisoned`
    /// leave it unknown until the account is opened again whether the commit is there
    /// ([`FileSystem::committed`] tells by its id).
    async fn commit(&self, batch: Batch) -> Result<Commit>;

    /// The commit of an id, as it was answered (`replayed`), durable by now; `None` if there is none. It
    /// waits for the batches that this instance was given before, so after a lost answer `None` means: commit
    /// it again, under the same id. The id is known as long as the log.
    ///
    /// # Errors
    /// From the storage.
    async fn committed(&self, id: CommitId) -> Result<Option<Commit>>;

    /// Makes every commit acknowledged so far durable; gives the last of them.
    async fn sync(&self) -> Result<Seq>;

    /// Returns what views above need of this filesystem: itself.
    #[doc(hidden)]
    fn view_base(&self) -> &dyn ViewBase;
}

/// Methods that views need of the filesystem below them, reached by [`FileSystem::view_base`].
#[doc(hidden)]
#[async_trait]
pub trait ViewBase: FileSystem {
    /// The first of two places at which there is something, and which of them that is: what
    /// [`FileSystem::stat`] gives of the second if it gives `NotFound` of the first. A store looks both up at
    /// one moment, at little more than the cost of one.
    async fn stat_first(&self, places: [&At; 2]) -> (usize, Result<Entry>) {
        match self.stat(places[0]).await {
            Err(error) if error.is(ErrorKind::NotFound) => (1, self.stat(places[1]).await),
            found => (0, found),
        }
    }

    /// As one: this filesystem, which reaches what another handle to the same store does as well, with what
    /// that has staged and holds open. What it commits is this one's: its owner, its author. `None` if they
    /// are of two stores, or cannot be one.
    fn joined(&self, _with: &dyn FileSystem) -> Option<Arc<dyn FileSystem>> {
        None
    }

    /// Begins to turn the addresses of one batch into those of the store that it ends in: for views above
    /// this one. See [`Lowering`].
    fn lowering(&self) -> Box<dyn Lowering>;

    /// Where these paths are sought; nowhere for what cannot be. For views above this one.
    ///
    /// # Errors
    /// `NameTooLong` for a path that has no place there.
    fn sought(&self, within: &Within, by: By) -> Result<Vec<Sought>> {
        if !by.is_of(self.capabilities(&TreePath::root())) {
            return Ok(Vec::new());
        }
        Ok(vec![Sought { store: self.lowering().home(), tops: within.tops().to_vec() }])
    }

    /// What a store has found, at each place where this tree shows it.
    ///
    /// # Errors
    /// From the storage.
    async fn found(&self, store: StoreId, hit: &Hit) -> Result<Vec<Hit>> {
        let home = self.lowering().home();
        let shown = Some(hit).filter(|hit| home.id == store && home.within.contains(&hit.path));
        Ok(shown.into_iter().cloned().collect())
    }
}

/// Which store: two addresses with the same can be in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId {
    instance: usize,
    /// A past state of it is a store of its own, which takes no commit.
    as_of: Option<Seq>,
}

impl StoreId {
    /// The store whose state this is; it must be held as long as the id is used.
    pub fn of<T>(state: &Arc<T>, as_of: Option<Seq>) -> Self {
        Self { instance: Arc::as_ptr(state).addr(), as_of }
    }

    /// Whether both are states of one store, whenever: then no two of their nodes have one number.
    pub fn is_one_with(self, other: Self) -> bool {
        self.instance == other.instance
    }
}

/// Where writes end: no view, but what keeps the bytes.
#[derive(Clone, Debug)]
pub struct Store {
    /// Which.
    pub id: StoreId,
    /// It, as far as it may be reached from the view that was lowered.
    pub fs: Arc<dyn FileSystem>,
    /// The paths of it that may be reached.
    pub within: Within,
}

/// An address in terms of a store.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The store.
    pub store: Store,
    /// The address there.
    pub at: At,
    /// What has to be done there before the operation, such as copying up what it changes.
    pub before: Vec<Op>,
    /// What has to be done after it, such as hiding what still lies below.
    pub after: Vec<Op>,
    /// By which handles, and within what, that is done, if not by the address's.
    pub besides: Vec<Store>,
    /// What was read on the way and must still hold at the commit, or the batch is lowered again.
    pub assumptions: Vec<(At, Precondition)>,
    /// What the view calls the node, where that is not as the store does.
    pub shown: Shown,
}

/// What a view calls a node of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its number there, if the view knows it.
    pub ino: Option<Ino>,
    /// What the view adds to the store's number if it does not.
    pub tag: u64,
    /// Whether it counts as made, if not as the operation says.
    pub created: Option<bool>,
}

impl Lowered {
    /// An address of a store as it is.
    pub fn new(store: Store, at: At) -> Self {
        let (before, after, besides, assumptions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { store, at, before, after, besides, assumptions, shown: Shown::default() }
    }
}

/// One batch on its way down: remembers what its earlier operations do.
#[async_trait]
pub trait Lowering: Send + Sync + fmt::Debug {
    /// The store of what has no address: of snapshots, and of a batch that does nothing. A commit that ends
    /// there is its owner's, whatever it addresses first.
    fn home(&self) -> Store;

    /// Refuses an operation that the view takes from nobody, wherever it leads.
    ///
    /// # Errors
    /// `TooLarge` for content above a view's limit.
    fn admit(&self, _op: &Op) -> Result<()> {
        Ok(())
    }

    /// Begins an operation: whether what it writes is to expire.
    fn begin(&mut self, _expires: bool) {}

    /// What an address of the view is in its store.
    ///
    /// # Errors
    /// `NameTooLong` if it has no place there; what reading on the way fails with. Paths are the view's.
    async fn lower(&mut self, at: &At, access: Access) -> Result<Lowered>;

    /// A condition in terms of the store; what can be judged on the way may become one that is as true there.
    ///
    /// # Errors
    /// As for [`Lowering::lower`].
    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(Lowered, Precondition)> {
        let (lowered, mut that) = (self.lower(at, Access::Read).await?, that.clone());
        for version in that.versions() {
            version.ino = self.number(version.ino).await?;
        }
        Ok((lowered, that))
    }

    /// The number in the store of what the view shows by this number; of a version, too.
    ///
    /// # Errors
    /// What reading on the way fails with.
    async fn number(&mut self, ino: Ino) -> Result<Ino>;

    /// What makes up a path of the view and all below it: paths of stores.
    ///
    /// # Errors
    /// `NameTooLong` if it has no place there; what reading on the way fails with.
    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>>;

    /// The view's path of a path of the store, for an error about it; `None` if the view does not show it.
    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath>;
}

/// By what something is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By text: `search`.
    Text,
    /// By key: `find`.
    Key,
}

impl By {
    /// Whether an implementation can.
    pub fn is_of(self, has: Capabilities) -> bool {
        match self {
            Self::Text => has.search,
            Self::Key => has.find,
        }
    }
}

/// Directories of a store, and the handle that reaches them.
#[derive(Clone, Debug)]
pub struct Sought {
    /// The handle.
    pub store: Store,
    /// The paths there.
    pub tops: Vec<TreePath>,
}
