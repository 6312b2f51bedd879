//! Engine whose confined handles leak on purpose: the negative control of the isolation proof, which must
//! detect each leak.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::fs::lower::{Store, StoreId, StoreLowering};
use garth_engine::fs::resolve::{Follow, resolve};
use garth_engine::model::{
    At, Batch, Blame, Body, ByteRange, Commit, CommitId, Confinement, Entry, HistoryPage, Ino, KeyRecord,
    Listing, NamesPage, Op, Page, Snapshot, SnapshotsPage, Version, VersionId, Walk, WalkPage, Within,
};
use garth_engine::{FileSystem, Lowering, OpenFile, OpenNode, Result, TreePath, ViewBase};

use super::forward::forward_filesystem;

/// Check that is omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leak {
    /// Reads by inode: that the node has a name within.
    Number,
    /// Reads by inode: that a node which once had a name within still has one, after a move.
    NumberKept,
    /// Location of a version.
    Version,
    /// Location of the source of a copy from the past.
    PastCopy,
    /// Owner of a snapshot.
    Snapshot,
    /// Owner of a commit id.
    CommitId,
    /// Owner of an idempotency key.
    IdempotencyKey,
    /// Owner of a staged body.
    StagedBody,
    /// Exclusions of a subtree.
    LeftOut,
    /// Links in a path: reads follow them.
    Link,
    /// Commits by inode.
    Write,
    /// Links in a host folder: reads follow them.
    HostRead,
    /// Links in a host folder: writes follow them.
    HostWrite,
}

impl Leak {
    /// Leaks of any engine.
    pub const ALL: [Self; 11] = [
        Self::Number,
        Self::NumberKept,
        Self::Version,
        Self::PastCopy,
        Self::Snapshot,
        Self::CommitId,
        Self::IdempotencyKey,
        Self::StagedBody,
        Self::LeftOut,
        Self::Link,
        Self::Write,
    ];
    /// Leaks of a host folder.
    pub const OF_HOST: [Self; 2] = [Self::HostRead, Self::HostWrite];
}

/// Handle of an engine, and the handle that it was first confined from.
#[derive(Clone, Debug)]
pub struct Leaky {
    inner: Arc<dyn FileSystem>,
    whole: Arc<dyn FileSystem>,
    leak: Option<Leak>,
    within: Within,
    /// Inodes that were found.
    seen: Arc<Mutex<HashSet<Ino>>>,
    /// Host folder that it shows, if any.
    folder: PathBuf,
}

impl Leaky {
    /// Wraps an engine without a leak.
    pub fn new(engine: Arc<dyn FileSystem>) -> Self {
        let (inner, whole) = (Arc::clone(&engine), engine);
        Self {
            inner,
            whole,
            leak: None,
            within: Within::everything(),
            seen: Arc::default(),
            folder: PathBuf::new(),
        }
    }

    /// Wraps a host folder without a leak.
    pub fn on_host(engine: Arc<dyn FileSystem>, folder: PathBuf) -> Self {
        Self { folder, ..Self::new(engine) }
    }

    /// Returns the host path that the kernel would resolve.
    fn on_disk(&self, path: &TreePath) -> PathBuf {
        self.folder.join(path.key().trim_start_matches('/'))
    }

    /// Returns another handle of the same store, which leaks once it is confined.
    #[must_use]
    pub fn with(&self, leak: Leak) -> Self {
        Self { leak: Some(leak), ..self.clone() }
    }

    fn is(&self, leak: Leak) -> bool {
        self.leak == Some(leak)
    }

    /// Returns the target of a read that follows links, if the path has any.
    async fn followed(&self, at: &At) -> Option<At> {
        let At::Path(path) = at else { return None };
        if !self.is(Leak::Link) {
            return None;
        }
        // Resolved in the complete tree, so a link may lead out of the view.
        let found = resolve(&*self.whole, path.as_str(), Follow::Yes).await.ok()?;
        (found != *path).then_some(At::Path(found))
    }

    /// Returns the filesystem that serves a read at an address.
    fn reader(&self, at: &At) -> &dyn FileSystem {
        let leaks = match (self.leak, at) {
            (Some(Leak::Number), At::Node(_) | At::Child(..)) => true,
            (Some(Leak::NumberKept), At::Node(ino) | At::Child(ino, _)) => self.seen().contains(ino),
            (Some(Leak::LeftOut), At::Path(path)) => self.within.is_excluded(path),
            _ => false,
        };
        if leaks { &*self.whole } else { &*self.inner }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashSet<Ino>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true for a batch whose owner or extent is not checked.
    fn leaks(&self, batch: &Batch) -> bool {
        let staged = |op: &Op| matches!(op.body(), Some(Body::Staged(_)));
        let by_number = |op: &Op| op.clone().addresses().iter().any(|(at, _)| !matches!(at, At::Path(_)));
        match self.leak {
            Some(Leak::CommitId) => batch.id.is_some(),
            Some(Leak::IdempotencyKey) => batch.idempotency.is_some(),
            Some(Leak::StagedBody) => batch.ops.iter().any(staged),
            Some(Leak::PastCopy) => batch.ops.iter().any(|op| matches!(op, Op::Copy { as_of: Some(_), .. })),
            Some(Leak::Write) => batch.ops.iter().any(by_number),
            _ => false,
        }
    }
}

#[async_trait]
impl FileSystem for Leaky {
    forward_filesystem!(inner: capabilities head fetch_many changes wait as_of search find stage sync);

    async fn stat(&self, at: &At) -> Result<Entry> {
        if let Some(at) = self.followed(at).await {
            return self.whole.stat(&at).await;
        }
        let entry = self.reader(at).stat(at).await?;
        self.seen().insert(entry.ino);
        Ok(entry)
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.reader(at).names(at, page).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        if let Some(dir) = self.followed(dir).await {
            return self.whole.list(&dir, page).await;
        }
        self.reader(dir).list(dir, page).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        let walk = self.reader(dir).walk(dir, page).await?;
        self.seen().extend(walk.items.iter().map(|item| item.ino));
        Ok(walk)
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        if let (true, At::Path(path)) = (self.is(Leak::HostRead), at)
            && self.within.contains(path)
            && let Ok(bytes) = std::fs::read(self.on_disk(path))
        {
            let entry = match self.whole.stat(at).await {
                Ok(entry) => entry,
                // The engine rejects the link, but the leak needs any entry to return with the bytes.
                Err(_) => self.whole.stat(&At::Path(TreePath::root())).await?,
            };
            return Ok((entry, bytes.into()));
        }
        if let Some(at) = self.followed(at).await {
            return self.whole.fetch(&at, range).await;
        }
        self.reader(at).fetch(at, range).await
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        self.reader(at).hold(at).await
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        if let Some(at) = self.followed(at).await {
            return self.whole.open(&at).await;
        }
        self.reader(at).open(at).await
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let fs = if self.is(Leak::Version) { &self.whole } else { &self.inner };
        fs.open_version(version).await
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        self.reader(at).history(at, page).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.reader(at).blame(at, range, limit).await
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        let inner = self.inner.confined(to).await?;
        Ok(Arc::new(Self { inner, within: self.within.intersect(&to.within), ..self.clone() }))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        let fs = if self.is(Leak::Snapshot) { &self.whole } else { &self.inner };
        fs.snapshots(page).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        for op in batch.ops.iter().filter(|_| self.is(Leak::HostWrite)) {
            if let Op::Write { at: At::Path(path), body: Body::Bytes(bytes), .. } = op
                && self.within.contains(path)
            {
                // In place, like a program would; repeated for a while, in which others swap in links.
                for _ in 0..20 {
                    let _ = std::fs::OpenOptions::new()
                        .write(true)
                        .open(self.on_disk(path))
                        .and_then(|mut file| file.write_all(bytes));
                    garth_engine::Env::system().sleep(Duration::from_micros(200));
                }
            }
        }
        match self.leaks(&batch) {
            true => self.whole.commit(Batch { within: None, ..batch }).await,
            false => self.inner.commit(batch).await,
        }
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        let fs = if self.is(Leak::CommitId) { &self.whole } else { &self.inner };
        fs.committed(id).await
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        let fs = if self.is(Leak::IdempotencyKey) { &self.whole } else { &self.inner };
        fs.recorded(key).await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for Leaky {
    forward_filesystem!(inner: link_root);

    fn lowering(&self) -> Box<dyn Lowering> {
        // A store of its own: lowered to the inner store, batches would pass by the leak.
        let (id, fs) = (StoreId::of(&self.seen, None), Arc::new(self.clone()));
        let home = self.inner.view_base().lowering().home();
        Box::new(StoreLowering(Store { id, fs, within: self.within.clone(), ..home }))
    }
}
