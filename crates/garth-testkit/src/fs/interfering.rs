//! Filesystem on which another client commits between two calls of the client under test.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use garth_engine::model::{At, Batch, ByteRange, Commit, Entry, Fetched, Op, Walk, WalkPage};
use garth_engine::{FileSystem, Result, ViewBase};

use super::forward::forward_filesystem;

/// Call before which the other client commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `stat`.
    Stat,
    /// `walk`.
    Walk,
    /// `fetch_many`.
    FetchMany,
    /// `commit`.
    Commit,
}

/// Calls of the other client.
type Other = Box<dyn FnOnce(Arc<dyn FileSystem>) -> BoxFuture<'static, Result<()>> + Send>;

/// Forwards every call; right before one of them, another client commits.
pub struct Interfering {
    inner: Arc<dyn FileSystem>,
    before: Call,
    /// Calls that pass first.
    skip: AtomicUsize,
    other: Mutex<Option<Other>>,
}

impl Interfering {
    /// Wraps a filesystem. Commits `ops` before a call of the kind `before`, after `skip` of them.
    pub fn new(inner: &Arc<dyn FileSystem>, before: Call, skip: usize, ops: Vec<Op>) -> Self {
        Self::running(inner, before, skip, |fs: Arc<dyn FileSystem>| async move {
            // The interfering client may be garth itself.
            fs.commit(Batch::new(ops).by_garth()).await.map(drop)
        })
    }

    /// Wraps a filesystem. Runs all of `other` before a call of the kind `before`, after `skip` of them.
    pub fn running<F: Future<Output = Result<()>> + Send + 'static>(
        inner: &Arc<dyn FileSystem>,
        before: Call,
        skip: usize,
        other: impl FnOnce(Arc<dyn FileSystem>) -> F + Send + 'static,
    ) -> Self {
        let other: Other = Box::new(move |fs| Box::pin(other(fs)));
        let (skip, other) = (AtomicUsize::new(skip), Mutex::new(Some(other)));
        Self { inner: Arc::clone(inner), before, skip, other }
    }

    async fn interfere(&self, call: Call) -> Result<()> {
        // The counter wraps around after 0, so the other client commits only once.
        if call != self.before || self.skip.fetch_sub(1, Ordering::SeqCst) != 0 {
            return Ok(());
        }
        let other = self.other.lock().expect("no test panics in between").take();
        match other {
            Some(other) => other(Arc::clone(&self.inner)).await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Interfering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Interfering");
        shown.field("inner", &self.inner).field("before", &self.before).finish_non_exhaustive()
    }
}

#[async_trait]
impl FileSystem for Interfering {
    forward_filesystem!(inner: capabilities head names list fetch hold open open_version
        history blame changes wait as_of confined snapshots search find stage committed recorded sync);

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.interfere(Call::Stat).await?;
        self.inner.stat(at).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        self.interfere(Call::Walk).await?;
        self.inner.walk(dir, page).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        self.interfere(Call::FetchMany).await?;
        self.inner.fetch_many(items).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.interfere(Call::Commit).await?;
        self.inner.commit(batch).await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for Interfering {
    forward_filesystem!(inner: lowering link_root);
}
