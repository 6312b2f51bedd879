//! An engine whose confined handles have a leak on purpose: the negative control of the isolation proof,
//! which must notice each.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use garth::fs::lower::{Itself, Store, StoreId};
use garth::model::{
    At, Batch, Blame, Body, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    Head, HistoryPage, Ino, Listing, Moment, NamesPage, Op, Page, SearchAnswer, SearchQuery, Seq, Snapshot,
    SnapshotsPage, Version, VersionId, Walk, WalkPage, Within,
};
use garth::{Capabilities, FileSystem, Lowering, OpenFile, OpenNode, Result, TreePath, Upload};

/// What is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leak {
    /// A read by number, whether the node has a name within.
    Number,
    /// The same, once the node had one: it is kept across a move.
    NumberKept,
    /// Where a version lay.
    Version,
    /// Where the source of a copy from the past lay.
    PastCopy,
    /// Whose a snapshot is.
    Snapshot,
    /// Whose a commit id is.
    CommitId,
    /// Whose an idempotency key is.
    IdempotencyKey,
    /// Whose a staged body is.
    StagedBody,
}

impl Leak {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Number,
        Self::NumberKept,
        Self::Version,
        Self::PastCopy,
        Self::Snapshot,
        Self::CommitId,
        Self::IdempotencyKey,
        Self::StagedBody,
    ];
}

/// An engine's handle, and the one that it was first confined from.
#[derive(Clone, Debug)]
pub struct Leaky {
    inner: Arc<dyn FileSystem>,
    whole: Arc<dyn FileSystem>,
    leak: Leak,
    within: Within,
    /// Numbers that were found.
    seen: Arc<Mutex<HashSet<Ino>>>,
}

impl Leaky {
    /// An engine that leaks once it is confined.
    pub fn new(engine: Arc<dyn FileSystem>, leak: Leak) -> Self {
        let (inner, whole) = (Arc::clone(&engine), engine);
        Self { inner, whole, leak, within: Within::everything(), seen: Arc::default() }
    }

    /// What answers a read at an address.
    fn reader(&self, at: &At) -> &dyn FileSystem {
        let leaks = match (self.leak, at) {
            (Leak::Number, At::Node(_) | At::Child(..)) => true,
            (Leak::NumberKept, At::Node(ino) | At::Child(ino, _)) => self.seen().contains(ino),
            _ => false,
        };
        if leaks { &*self.whole } else { &*self.inner }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashSet<Ino>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a batch goes where its owner or its within is not judged.
    fn leaks(&self, batch: &Batch) -> bool {
        let staged = |op: &Op| matches!(op.body(), Some(Body::Staged(_)));
        match self.leak {
            Leak::CommitId => batch.id.is_some(),
            Leak::IdempotencyKey => batch.idempotency.is_some(),
            Leak::StagedBody => batch.ops.iter().any(staged),
            Leak::PastCopy => batch.ops.iter().any(|op| matches!(op, Op::Copy { as_of: Some(_), .. })),
            Leak::Number | Leak::NumberKept | Leak::Version | Leak::Snapshot => false,
        }
    }
}

#[async_trait]
impl FileSystem for Leaky {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        self.inner.capabilities(at)
    }

    async fn head(&self) -> Result<Head> {
        self.inner.head().await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        let entry = self.reader(at).stat(at).await?;
        self.seen().insert(entry.ino);
        Ok(entry)
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.reader(at).names(at, page).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.reader(dir).list(dir, page).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        let walk = self.reader(dir).walk(dir, page).await?;
        self.seen().extend(walk.items.iter().map(|item| item.ino));
        Ok(walk)
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        self.reader(at).fetch(at, range).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        self.inner.fetch_many(items).await
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        self.reader(at).hold(at).await
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        self.reader(at).open(at).await
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let fs = if self.leak == Leak::Version { &self.whole } else { &self.inner };
        fs.open_version(version).await
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        self.reader(at).history(at, page).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.reader(at).blame(at, range, limit).await
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        self.inner.changes(query).await
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        self.inner.wait(since).await
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        self.inner.as_of(moment).await
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        let inner = self.inner.confined(to).await?;
        Ok(Arc::new(Self { inner, within: self.within.intersect(&to.within), ..self.clone() }))
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        let (id, fs) = (StoreId::of(&self.seen, None), Arc::new(self.clone()));
        Box::new(Itself(Store { id, fs, within: self.within.clone() }))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        let fs = if self.leak == Leak::Snapshot { &self.whole } else { &self.inner };
        fs.snapshots(page).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        self.inner.search(query).await
    }

    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>> {
        self.inner.stage(at).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        match self.leaks(&batch) {
            true => self.whole.commit(Batch { within: None, ..batch }).await,
            false => self.inner.commit(batch).await,
        }
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        let fs = if self.leak == Leak::CommitId { &self.whole } else { &self.inner };
        fs.committed(id).await
    }

    async fn sync(&self) -> Result<Seq> {
        self.inner.sync().await
    }
}
