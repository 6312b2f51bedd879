//! A filesystem that ends in the middle of its work, as a folder of the host does in a crash: the first
//! operations are done, the rest is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    FindAnswer, FindQuery, Head, HistoryPage, Listing, Moment, NamesPage, Op, Page, SearchAnswer,
    SearchQuery, Seq, Snapshot, SnapshotsPage, Version, VersionId, Walk, WalkPage,
};
use garth_engine::{
    Capabilities, Error, ErrorKind, FileSystem, Lowering, OpenFile, OpenNode, Result, TreePath, Upload,
};

/// Does so many operations, then nothing any more.
#[derive(Debug)]
pub struct CutShort {
    inner: Arc<dyn FileSystem>,
    left: AtomicUsize,
    /// Whether the operation that is not done has made the directories above its name.
    with_parents: bool,
}

impl CutShort {
    /// Does the first `left` operations.
    pub fn new(inner: &Arc<dyn FileSystem>, left: usize, with_parents: bool) -> Self {
        Self { inner: Arc::clone(inner), left: AtomicUsize::new(left), with_parents }
    }

    /// How many operations it would still do.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    async fn cut(&self, mut batch: Batch) -> Result<Commit> {
        let (left, many) = (self.left(), batch.ops.len());
        if many <= left {
            self.left.store(left - many, Ordering::SeqCst);
            return self.inner.commit(batch).await;
        }
        self.left.store(0, Ordering::SeqCst);
        let undone = batch.ops.split_off(left);
        if let Some(Op::Write { at: At::Path(path), parents: true, .. }) = undone.first()
            && self.with_parents
        {
            batch.ops.extend(path.parent().map(Op::mkdir_all));
        }
        if !batch.ops.is_empty() {
            self.inner.commit(batch).await?;
        }
        Err(Error::new(ErrorKind::Io, "the machine has stopped"))
    }
}

#[async_trait]
impl FileSystem for CutShort {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        self.inner.capabilities(at)
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
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
        self.cut(batch).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        self.inner.committed(id).await
    }

    async fn sync(&self) -> Result<Seq> {
        self.inner.sync().await
    }
}
