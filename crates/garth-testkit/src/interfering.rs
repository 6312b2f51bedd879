//! A filesystem on which another client commits between two calls of the one under test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    FindAnswer, FindQuery, Head, HistoryPage, Listing, Moment, NamesPage, Op, Page, SearchAnswer,
    SearchQuery, Seq, Snapshot, SnapshotsPage, Version, VersionId, Walk, WalkPage,
};
use garth_engine::{Capabilities, FileSystem, Lowering, OpenFile, OpenNode, Result, TreePath, Upload};

/// A call that another client comes in before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `stat`.
    Stat,
    /// `walk`.
    Walk,
    /// `commit`.
    Commit,
}

/// Passes everything on; right before one of the calls, another client commits.
#[derive(Debug)]
pub struct Interfering {
    inner: Arc<dyn FileSystem>,
    before: Call,
    /// Calls to let through first.
    skip: AtomicUsize,
    ops: Mutex<Vec<Op>>,
}

impl Interfering {
    /// Commits `ops` before one of these calls, the first but `skip`.
    pub fn new(inner: &Arc<dyn FileSystem>, before: Call, skip: usize, ops: Vec<Op>) -> Self {
        Self { inner: Arc::clone(inner), before, skip: AtomicUsize::new(skip), ops: Mutex::new(ops) }
    }

    async fn interfere(&self, call: Call) -> Result<()> {
        if call != self.before || self.skip.fetch_sub(1, Ordering::SeqCst) != 0 {
            return Ok(());
        }
        let ops = std::mem::take(&mut *self.ops.lock().expect("no test panics in between"));
        self.inner.commit(Batch::new(ops)).await.map(drop)
    }
}

#[async_trait]
impl FileSystem for Interfering {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        self.inner.capabilities(at)
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.interfere(Call::Stat).await?;
        self.inner.stat(at).await
    }

    async fn head(&self) -> Result<Head> {
        self.inner.head().await
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.inner.names(at, page).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.inner.list(dir, page).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        self.interfere(Call::Walk).await?;
        self.inner.walk(dir, page).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        self.inner.fetch(at, range).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        self.inner.fetch_many(items).await
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        self.inner.hold(at).await
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        self.inner.open(at).await
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        self.inner.open_version(version).await
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        self.inner.history(at, page).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.inner.blame(at, range, limit).await
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
        self.inner.confined(to).await
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        self.inner.lowering()
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        self.inner.snapshots(page).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        self.inner.search(query).await
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        self.inner.find(query).await
    }

    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>> {
        self.inner.stage(at).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.interfere(Call::Commit).await?;
        self.inner.commit(batch).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        self.inner.committed(id).await
    }

    async fn sync(&self) -> Result<Seq> {
        self.inner.sync().await
    }
}
