//! Engines with a planted fault, to prove that the model test would notice it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use garth::engine::memory::Memory;
use garth::model::{
    At, Batch, Body, ByteRange, Changes, Commit, Entry, Head, HistoryPage, Hit, Listing, Moment, Op, Page,
    SearchQuery, Seq, Snapshot, Version, VersionId, Walk, WalkPage,
};
use garth::{Capabilities, FileSystem, OpenFile, Result, TreePath, Upload};

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Acknowledges about one append in 200 without its bytes.
    LostAppend,
    /// `as_of` gives the commit before, for one commit in four.
    StalePast,
    /// A batch that fails leaves its first operation behind.
    HalfBatch,
    /// A range read at a border of 64 KiB is one byte short.
    ShortRead,
    /// History leaves its oldest version out.
    ForgottenVersion,
}

impl Fault {
    pub(super) const ALL: [Self; 5] =
        [Self::LostAppend, Self::StalePast, Self::HalfBatch, Self::ShortRead, Self::ForgottenVersion];
}

#[derive(Debug)]
pub(super) struct Broken {
    inner: Memory,
    fault: Fault,
}

impl Broken {
    pub(super) fn new(inner: Memory, fault: Fault) -> Self {
        Self { inner, fault }
    }
}

#[async_trait]
impl FileSystem for Broken {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn head(&self) -> Result<Head> {
        self.inner.head().await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.inner.stat(at).await
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
        let (entry, bytes) = self.inner.fetch(at, range).await?;
        let short = matches!(self.fault, Fault::ShortRead) && bytes.len() == 1 << 16;
        Ok((entry, if short { bytes.slice(1..) } else { bytes }))
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        self.inner.open(at).await
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        self.inner.open_version(version).await
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Vec<Version>> {
        let mut versions = self.inner.history(at, page).await?;
        if matches!(self.fault, Fault::ForgottenVersion) && versions.len() > 1 {
            versions.pop();
        }
        Ok(versions)
    }

    async fn changes(&self, since: Seq, limit: usize) -> Result<Changes> {
        self.inner.changes(since, limit).await
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let stale = match moment {
            Moment::Seq(seq) if matches!(self.fault, Fault::StalePast) && seq.0 % 4 == 3 => {
                Moment::Seq(Seq(seq.0 - 1))
            }
            moment => moment.clone(),
        };
        self.inner.as_of(&stale).await
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

    async fn commit(&self, mut batch: Batch) -> Result<Commit> {
        if matches!(self.fault, Fault::LostAppend) {
            for op in &mut batch.ops {
                if let Op::Append { body, .. } = op
                    && body.size() % 200 == 57
                {
                    *body = Body::Bytes(Bytes::new());
                }
            }
        }
        let first = batch.ops.first().cloned();
        let result = self.inner.commit(batch.clone()).await;
        if matches!(self.fault, Fault::HalfBatch) && result.is_err() && batch.ops.len() > 1 {
            let _ = self.inner.commit(Batch::new(first)).await;
        }
        result
    }

    async fn sync(&self) -> Result<Seq> {
        self.inner.sync().await
    }
}
