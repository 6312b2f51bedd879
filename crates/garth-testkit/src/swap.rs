//! A filesystem on which another client turns a file into a link between the resolving of a path and its use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use garth::model::{
    At, Batch, ByteRange, Changes, Commit, Entry, Head, HistoryPage, Hit, Listing, Moment, Page, Remove,
    SearchQuery, Seq, Snapshot, Version, VersionId, Walk, WalkPage,
};
use garth::{Capabilities, FileSystem, OpenFile, Result, TreePath, Upload};

use crate::tools::{given, remove, symlink};

/// Passes everything on; before its second lookup, `/f` becomes a link to `/real`.
#[derive(Debug)]
pub(crate) struct SwapBeforeLookup {
    pub(crate) inner: Arc<dyn FileSystem>,
    pub(crate) lookups: AtomicUsize,
}

#[async_trait]
impl FileSystem for SwapBeforeLookup {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        if self.lookups.fetch_add(1, Ordering::SeqCst) == 1 {
            given(&*self.inner, [remove("/f", Remove::Any), symlink("/f", "/real")]).await;
        }
        self.inner.stat(at).await
    }

    async fn head(&self) -> Result<Head> {
        self.inner.head().await
    }

    async fn names(&self, at: &At) -> Result<Vec<TreePath>> {
        self.inner.names(at).await
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

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        self.inner.open(at).await
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        self.inner.open_version(version).await
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Vec<Version>> {
        self.inner.history(at, page).await
    }

    async fn changes(&self, since: Seq, limit: usize) -> Result<Changes> {
        self.inner.changes(since, limit).await
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        self.inner.as_of(moment).await
    }

    async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.inner.snapshots().await
    }

    async fn search(&self, query: &SearchQuery) -> Result<Vec<Hit>> {
        self.inner.search(query).await
    }

    async fn stage(&self) -> Result<Box<dyn Upload>> {
        self.inner.stage().await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.inner.commit(batch).await
    }

    async fn sync(&self) -> Result<Seq> {
        self.inner.sync().await
    }
}
