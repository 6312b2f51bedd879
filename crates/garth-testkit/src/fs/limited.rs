//! Filesystem without optional abilities, as future ones may be: it shows that the contract suite relies on
//! no ability that a filesystem lacks.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    FindAnswer, FindQuery, Head, HistoryPage, KeyRecord, Listing, Moment, NamesPage, Op, Page, SearchAnswer,
    SearchQuery, Seq, SetAttrs, Snapshot, SnapshotsPage, Version, VersionId, Walk, WalkPage,
};
use garth_engine::{
    Capabilities, Error, ErrorKind, FileSystem, OpenFile, OpenNode, Result, TreePath, ViewBase,
};

use super::forward::forward_filesystem;

/// Has the abilities of another filesystem, except for some.
#[derive(Debug)]
pub struct Limited {
    inner: Arc<dyn FileSystem>,
    has: Capabilities,
}

impl Limited {
    /// Wraps a filesystem without its optional abilities: log, inodes, links, special nodes, attributes,
    /// expiry, holes, past, search, find and confinement.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        let mut has = inner.capabilities(&TreePath::root());
        for ability in [
            &mut has.log,
            &mut has.nodes,
            &mut has.links,
            &mut has.special,
            &mut has.attributes,
            &mut has.expiry,
            &mut has.holes,
            &mut has.history,
            &mut has.snapshots,
            &mut has.search,
            &mut has.find,
            &mut has.confinement,
        ] {
            *ability = false;
        }
        Self { inner, has }
    }

    fn at<'a>(&self, at: &'a At) -> Result<&'a At> {
        match at {
            At::Path(_) => Ok(at),
            At::Node(_) | At::Child(..) => need(self.has.nodes).map(|()| at),
        }
    }

    fn attrs(&self, attrs: &SetAttrs) -> Result<()> {
        need(self.has.expiry || attrs.expires_at.is_none())?;
        // Attributes of POSIX are not optional.
        let posix = SetAttrs {
            mode: attrs.mode,
            uid: attrs.uid,
            gid: attrs.gid,
            atime: attrs.atime,
            mtime: attrs.mtime,
            expires_at: attrs.expires_at,
            ..SetAttrs::default()
        };
        need(self.has.attributes || posix == *attrs)
    }

    fn op(&self, op: &Op) -> Result<()> {
        match op {
            Op::Write { at, attrs, .. }
            | Op::Mkdir { at, attrs, .. }
            | Op::Symlink { at, attrs, .. }
            | Op::SetAttrs { at, attrs } => self.at(at).and_then(|_| self.attrs(attrs)),
            Op::Append { at, .. }
            | Op::Patch { at, .. }
            | Op::Truncate { at, .. }
            | Op::Remove { at, .. }
            | Op::Check { at, .. } => self.at(at).map(drop),
            Op::Punch { .. } | Op::CopyRange { .. } => need(self.has.holes),
            Op::Mknod { .. } => need(self.has.special),
            Op::Link { .. } => need(self.has.links),
            Op::Rename { from, to, .. } => self.at(from).and_then(|_| self.at(to)).map(drop),
            Op::Copy { from, as_of, to, .. } => {
                need(self.has.history || as_of.is_none())?;
                self.at(from).and_then(|_| self.at(to)).map(drop)
            }
            Op::Snapshot { .. } | Op::DropSnapshot { .. } => need(self.has.snapshots),
            Op::Misused { .. } => Ok(()),
        }
    }
}

fn need(has: bool) -> Result<()> {
    if has { Ok(()) } else { Err(Error::new(ErrorKind::Unsupported, "this filesystem cannot do that")) }
}

#[async_trait]
impl FileSystem for Limited {
    forward_filesystem!(inner: head stage sync);

    fn capabilities(&self, _at: &TreePath) -> Capabilities {
        self.has
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.inner.stat(self.at(at)?).await
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.inner.names(self.at(at)?, page).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.inner.list(self.at(dir)?, page).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        self.inner.walk(self.at(dir)?, page).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        self.inner.fetch(self.at(at)?, range).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        items.iter().try_for_each(|(at, _)| self.at(at).map(drop))?;
        self.inner.fetch_many(items).await
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        need(self.has.nodes)?;
        self.inner.hold(at).await
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let file = self.inner.open(self.at(at)?).await?;
        Ok(Arc::new(LimitedFile { file, has: self.has }))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        need(self.has.history)?;
        self.inner.open_version(version).await
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        need(self.has.history)?;
        self.inner.history(at, page).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        need(self.has.history)?;
        self.inner.blame(self.at(at)?, range, limit).await
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        need(self.has.history)?;
        self.inner.changes(query).await
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        need(self.has.history)?;
        self.inner.wait(since).await
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        need(self.has.history)?;
        self.inner.as_of(moment).await
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        need(self.has.confinement)?;
        self.inner.confined(to).await
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        need(self.has.snapshots)?;
        self.inner.snapshots(page).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        need(self.has.search)?;
        self.inner.search(query).await
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        need(self.has.find)?;
        self.inner.find(query).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        // First, as an engine does: an invalid batch is invalid whatever the abilities.
        batch.check()?;
        need(self.has.log || (batch.id.is_none() && batch.idempotency.is_none()))?;
        batch.preconditions.iter().try_for_each(|(at, _)| self.at(at).map(drop))?;
        batch.ops.iter().try_for_each(|op| self.op(op))?;
        self.inner.commit(batch).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        need(self.has.log)?;
        self.inner.committed(id).await
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        need(self.has.log)?;
        self.inner.recorded(key).await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for Limited {
    // `lowering` is that of `inner`: no view is put on this one.
    forward_filesystem!(inner: lowering link_root);
}

#[derive(Debug)]
struct LimitedFile {
    file: Arc<dyn OpenFile>,
    has: Capabilities,
}

#[async_trait]
impl OpenNode for LimitedFile {
    fn ino(&self) -> garth_engine::model::Ino {
        self.file.ino()
    }

    async fn stat(&self) -> Result<Entry> {
        self.file.stat().await
    }
}

#[async_trait]
impl OpenFile for LimitedFile {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.file.read_at(offset, length).await
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        need(self.has.holes)?;
        self.file.next_data(offset).await
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        need(self.has.holes)?;
        self.file.next_hole(offset).await
    }
}
