//! Filesystem on which another client commits between two calls of the client under test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
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

/// Forwards every call; right before one of them, another client commits.
#[derive(Debug)]
pub struct Interfering {
    inner: Arc<dyn FileSystem>,
    before: Call,
    /// Calls that pass first.
    skip: AtomicUsize,
    ops: Mutex<Vec<Op>>,
}

impl Interfering {
    /// Wraps a filesystem. Commits `ops` before a call of the kind `before`, after `skip` of them.
    pub fn new(inner: &Arc<dyn FileSystem>, before: Call, skip: usize, ops: Vec<Op>) -> Self {
        Self { inner: Arc::clone(inner), before, skip: AtomicUsize::new(skip), ops: Mutex::new(ops) }
    }

    async fn interfere(&self, call: Call) -> Result<()> {
        // The counter wraps around after 0, so the other client commits only once.
        if call != self.before || self.skip.fetch_sub(1, Ordering::SeqCst) != 0 {
            return Ok(());
        }
        let ops = std::mem::take(&mut *self.ops.lock().expect("no test panics in between"));
        // The interfering client may be garth itself.
        self.inner.commit(Batch::new(ops).by_garth()).await.map(drop)
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
    forward_filesystem!(inner: lowering);
}
