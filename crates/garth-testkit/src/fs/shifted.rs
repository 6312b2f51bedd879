//! Filesystem that counts its numbers from where it began: a scope in an account with commits and nodes shows
//! 1 for 3, like a fresh tree. So the two can be compared.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, CommitInfo, Confinement, Entry,
    Fetched, FindAnswer, FindQuery, Head, HistoryPage, Ino, KeyRecord, Listing, Moment, NamesPage, Op, Page,
    Precondition, SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage, Timestamp, Version, VersionId,
    Walk, WalkPage,
};
use garth_engine::{FileSystem, OpenFile, OpenNode, Result, TreePath, Upload, ViewBase};

use super::forward::forward_filesystem;

/// Offsets of numbers.
#[derive(Clone, Copy, Debug)]
struct Shift {
    /// Last commit before the tree began.
    seq: u64,
    /// Difference of inodes; the root is 1.
    ino: u64,
    /// Times of the root, which are 0 in a fresh tree.
    root: [Timestamp; 3],
}

/// Filesystem with its numbers counted from where it began.
#[derive(Debug)]
pub struct Shifted {
    inner: Arc<dyn FileSystem>,
    by: Shift,
}

impl Shifted {
    /// Wraps an empty tree as if it were fresh. `last` is the last node created.
    ///
    /// # Errors
    /// Errors of the tree.
    pub async fn new(inner: Arc<dyn FileSystem>, last: Ino) -> Result<Self> {
        // The next node gets the inode after `last`, which has to be shown as 2.
        let (seq, ino) = (inner.head().await?.seq.0, last.0 - Ino::ROOT.0);
        let root = inner.stat(&At::Path(TreePath::root())).await?;
        let root = [root.birthtime, root.mtime, root.ctime];
        Ok(Self { inner, by: Shift { seq, ino, root } })
    }

    /// Wraps another state of the same tree.
    #[must_use]
    pub fn again(&self, inner: Arc<dyn FileSystem>) -> Self {
        Self { inner, by: self.by }
    }
}

/// Numbers of calls.
impl Shift {
    fn seq(self, seq: Seq) -> Seq {
        Seq(seq.0.saturating_add(self.seq))
    }

    fn ino(self, ino: Ino) -> Ino {
        // The root has the inode 1 everywhere, and 0 stands for no node.
        if ino.0 > 1 { Ino(ino.0.saturating_add(self.ino)) } else { ino }
    }

    fn version(self, version: VersionId) -> VersionId {
        VersionId { seq: self.seq(version.seq), ino: self.ino(version.ino) }
    }

    fn at(self, at: &At) -> At {
        match at {
            At::Path(_) => at.clone(),
            At::Node(ino) => At::Node(self.ino(*ino)),
            At::Child(ino, name) => At::Child(self.ino(*ino), name.clone()),
        }
    }

    fn condition(self, that: &mut Precondition) {
        // Conditions may be nested or have several versions.
        for version in that.versions() {
            *version = self.version(*version);
        }
    }

    fn batch(self, mut batch: Batch) -> Batch {
        for op in &mut batch.ops {
            if let Op::Copy { as_of: Some(seq), .. } = op {
                *seq = self.seq(*seq);
            }
            if let Op::Check { that, .. } = op {
                self.condition(that);
            }
            for (at, _) in op.addresses() {
                *at = self.at(at);
            }
        }
        for (at, that) in batch.preconditions.iter_mut().chain(&mut batch.assumptions) {
            *at = self.at(at);
            self.condition(that);
        }
        for answer in batch.answers.iter_mut().flatten() {
            answer.ino = answer.ino.map(|ino| self.ino(ino));
        }
        batch
    }
}

/// Numbers of results.
impl Shift {
    fn seq_out(self, seq: Seq) -> Seq {
        Seq(seq.0.saturating_sub(self.seq))
    }

    fn ino_out(self, ino: Ino) -> Ino {
        if ino.0 > 1 { Ino(ino.0.saturating_sub(self.ino)) } else { ino }
    }

    fn version_out(self, version: VersionId) -> VersionId {
        VersionId { seq: self.seq_out(version.seq), ino: self.ino_out(version.ino) }
    }

    fn time_out(self, time: Timestamp) -> Timestamp {
        // Only the root has these times, because each commit has a time of its own.
        if self.root.contains(&time) { Timestamp(0) } else { time }
    }

    fn entry_out(self, entry: Entry) -> Entry {
        Entry {
            ino: self.ino_out(entry.ino),
            version: self.version_out(entry.version),
            etag: self.version_out(entry.etag),
            atime: self.time_out(entry.atime),
            mtime: self.time_out(entry.mtime),
            ctime: self.time_out(entry.ctime),
            birthtime: self.time_out(entry.birthtime),
            ..entry
        }
    }

    fn boxed_out(self, entry: Option<Box<Entry>>) -> Option<Box<Entry>> {
        entry.map(|entry| Box::new(self.entry_out(*entry)))
    }

    fn commit_out(self, mut commit: Commit) -> Commit {
        commit.seq = self.seq_out(commit.seq);
        for outcome in &mut commit.outcomes {
            (outcome.ino, outcome.version) = (self.ino_out(outcome.ino), self.version_out(outcome.version));
        }
        commit
    }

    fn head_out(self, mut head: Head) -> Head {
        (head.seq, head.time) = (self.seq_out(head.seq), self.time_out(head.time));
        head
    }

    fn info_out(self, mut info: CommitInfo) -> CommitInfo {
        info.seq = self.seq_out(info.seq);
        info
    }
}

#[async_trait]
impl FileSystem for Shifted {
    // `lowering` is that of `inner`: no view is put on this one.
    forward_filesystem!(inner: capabilities);

    async fn head(&self) -> Result<Head> {
        Ok(self.by.head_out(self.inner.head().await?))
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        Ok(self.by.entry_out(self.inner.stat(&self.by.at(at)).await?))
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.inner.names(&self.by.at(at), page).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        let mut listing = self.inner.list(&self.by.at(dir), page).await?;
        for item in &mut listing.items {
            (item.ino, item.entry) = (self.by.ino_out(item.ino), self.by.boxed_out(item.entry.take()));
        }
        Ok(listing)
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        let mut walk = self.inner.walk(&self.by.at(dir), page).await?;
        for item in &mut walk.items {
            (item.ino, item.entry) = (self.by.ino_out(item.ino), self.by.boxed_out(item.entry.take()));
        }
        Ok(walk)
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let (entry, bytes) = self.inner.fetch(&self.by.at(at), range).await?;
        Ok((self.by.entry_out(entry), bytes))
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        let items: Vec<_> = items.iter().map(|(at, range)| (self.by.at(at), *range)).collect();
        let mut found = self.inner.fetch_many(&items).await?;
        let out = |item: Result<(Entry, Bytes)>| item.map(|(entry, bytes)| (self.by.entry_out(entry), bytes));
        found.seq = found.seq.map(|seq| self.by.seq_out(seq));
        found.items = found.items.into_iter().map(out).collect();
        Ok(found)
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        Ok(Arc::new(ShiftedNode { inner: self.inner.hold(&self.by.at(at)).await?, by: self.by }))
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        Ok(Arc::new(ShiftedNode { inner: self.inner.open(&self.by.at(at)).await?, by: self.by }))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let inner = self.inner.open_version(self.by.version(version)).await?;
        Ok(Arc::new(ShiftedNode { inner, by: self.by }))
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let page = page.clone().before(page.before.map(|version| self.by.version(version)));
        let mut versions = self.inner.history(&self.by.at(at), &page).await?;
        // The first state of a tree was created by no commit.
        versions.items.retain(|version| version.id.seq.0 > self.by.seq);
        for version in &mut versions.items {
            version.id = self.by.version_out(version.id);
            version.commit = self.by.info_out(version.commit.clone());
            version.entry = self.by.boxed_out(version.entry.take());
        }
        Ok(versions)
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        let mut blame = self.inner.blame(&self.by.at(at), range, limit).await?;
        for run in &mut blame.runs {
            run.commit = run.commit.map(|seq| self.by.seq_out(seq));
        }
        blame.commits = blame.commits.into_iter().map(|commit| self.by.info_out(commit)).collect();
        Ok(blame)
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        let mut query = query.clone();
        query.since.seq = self.by.seq(query.since.seq);
        let mut changes = self.inner.changes(&query).await?;
        changes.head = self.by.seq_out(changes.head);
        changes.until.seq = self.by.seq_out(changes.until.seq);
        for commit in &mut changes.commits {
            commit.commit = self.by.info_out(commit.commit.clone());
            for change in &mut commit.changes {
                change.ino = self.by.ino_out(change.ino);
            }
        }
        Ok(changes)
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        let head = self.inner.wait(self.by.seq(since)).await?;
        Ok(self.by.head_out(head))
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let moment = match moment {
            Moment::Seq(seq) => Moment::Seq(self.by.seq(*seq)),
            Moment::Time(_) | Moment::Snapshot(_) => moment.clone(),
        };
        Ok(Arc::new(self.again(self.inner.as_of(&moment).await?)))
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.again(self.inner.confined(to).await?)))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        let mut snapshots = self.inner.snapshots(page).await?;
        for snapshot in &mut snapshots.items {
            snapshot.seq = self.by.seq_out(snapshot.seq);
        }
        Ok(snapshots)
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        let mut answer = self.inner.search(query).await?;
        for hit in &mut answer.hits {
            (hit.ino, hit.version) = (self.by.ino_out(hit.ino), self.by.version_out(hit.version));
        }
        Ok(answer)
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        let mut answer = self.inner.find(query).await?;
        for item in &mut answer.items {
            item.ino = self.by.ino_out(item.ino);
        }
        Ok(answer)
    }

    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>> {
        self.inner.stage(&self.by.at(at)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        Ok(self.by.commit_out(self.inner.commit(self.by.batch(batch)).await?))
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        Ok(self.inner.committed(id).await?.map(|commit| self.by.commit_out(commit)))
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        let found = self.inner.recorded(key).await?;
        Ok(found.map(|mut record| {
            record.commit = self.by.commit_out(record.commit);
            record
        }))
    }

    async fn sync(&self) -> Result<Seq> {
        Ok(self.by.seq_out(self.inner.sync().await?))
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for Shifted {
    forward_filesystem!(inner: lowering link_root);
}

#[derive(Debug)]
struct ShiftedNode<T: ?Sized> {
    by: Shift,
    inner: Arc<T>,
}

#[async_trait]
impl<T: OpenNode + ?Sized> OpenNode for ShiftedNode<T> {
    fn ino(&self) -> Ino {
        self.by.ino_out(self.inner.ino())
    }

    async fn stat(&self) -> Result<Entry> {
        Ok(self.by.entry_out(self.inner.stat().await?))
    }
}

#[async_trait]
impl<T: OpenFile + ?Sized> OpenFile for ShiftedNode<T> {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.inner.read_at(offset, length).await
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.inner.next_data(offset).await
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.inner.next_hole(offset).await
    }
}
