//! Filesystem that counts calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::model::{
    At, Blame, ByteRange, Entry, Fetched, FindAnswer, FindQuery, Hit, Listing, Moment, NamesPage, Page,
    SearchAnswer, SearchQuery, Walk, WalkPage,
};
use garth_engine::{FileSystem, OpenFile, OpenNode, Result, TreePath, ViewBase};

use super::forward::forward_filesystem;

/// Counts the reads of another filesystem and of its past, the names that they look at, the hits of its
/// searches, and the bytes of text that fetches and searches return.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn FileSystem>,
    reads: Arc<AtomicUsize>,
    names: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
    hits: Arc<AtomicUsize>,
}

impl Counting {
    /// Wraps a filesystem.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        Self {
            inner,
            reads: Arc::default(),
            names: Arc::default(),
            bytes: Arc::default(),
            hits: Arc::default(),
        }
    }

    /// Returns the number of reads since the last call of this method.
    pub fn reads_since(&self) -> usize {
        self.reads.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of names looked at since the last call of this method.
    pub fn names_since(&self) -> usize {
        self.names.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of bytes of files, snippets and contexts since the last call of this method.
    pub fn bytes_since(&self) -> usize {
        self.bytes.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of hits that searches returned since the last call of this method.
    pub fn hits_since(&self) -> usize {
        self.hits.swap(0, Ordering::Relaxed)
    }

    fn called(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, names: usize) {
        self.names.fetch_add(names, Ordering::Relaxed);
    }

    fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[async_trait]
impl FileSystem for Counting {
    forward_filesystem!(inner: capabilities head open_version history changes wait confined
        snapshots stage commit committed recorded sync);

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.called();
        self.add(1);
        self.inner.stat(at).await
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        self.called();
        self.inner.find(query).await
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.called();
        let listing = self.inner.names(at, page).await?;
        self.add(listing.items.len());
        Ok(listing)
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.called();
        let listing = self.inner.list(dir, page).await?;
        self.add(1 + listing.items.len());
        Ok(listing)
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        self.called();
        let walk = self.inner.walk(dir, page).await?;
        self.add(1 + walk.items.len());
        Ok(walk)
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        self.called();
        let (entry, bytes) = self.inner.fetch(at, range).await?;
        self.add_bytes(bytes.len());
        Ok((entry, bytes))
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        self.called();
        let fetched = self.inner.fetch_many(items).await?;
        self.add_bytes(fetched.items.iter().flatten().map(|(_, bytes)| bytes.len()).sum());
        Ok(fetched)
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        let answer = self.inner.search(query).await?;
        let context = |hit: &Hit| hit.context.as_ref().map_or(0, |context| context.text.len());
        self.add_bytes(answer.hits.iter().map(|hit| hit.snippet.len() + context(hit)).sum());
        self.hits.fetch_add(answer.hits.len(), Ordering::Relaxed);
        Ok(answer)
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        self.called();
        self.inner.hold(at).await
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        self.called();
        self.inner.open(at).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.called();
        self.inner.blame(at, range, limit).await
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let inner = self.inner.as_of(moment).await?;
        // The past shares the counters, so its reads count as well.
        let (reads, names) = (Arc::clone(&self.reads), Arc::clone(&self.names));
        let (bytes, hits) = (Arc::clone(&self.bytes), Arc::clone(&self.hits));
        Ok(Arc::new(Self { inner, reads, names, bytes, hits }))
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

#[async_trait]
impl ViewBase for Counting {
    forward_filesystem!(inner: lowering link_root);

    async fn stat_first(&self, places: [&At; 2]) -> (usize, Result<Entry>) {
        self.called();
        // One call that looks at up to two names.
        self.add(2);
        self.inner.view_base().stat_first(places).await
    }
}
