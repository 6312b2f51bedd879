//! Filesystem with a planted bug: the negative control of a check, which must detect it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::model::{
    At, Author, Batch, Blame, Body, ByteRange, Commit, Entry, Fetched, HistoryPage, Listing, Moment, Op, Seq,
    Version, VersionId,
};
use garth_engine::{ErrorKind, FileSystem, Result, ViewBase};

use super::forward::forward_filesystem;

/// One call in this many meets a bug of concurrent calls.
const EVERY: u64 = 10;

/// Bug of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// About one append in 20 is acknowledged without its bytes.
    LostAppend,
    /// For one commit in four, `as_of` returns the state before it.
    StalePast,
    /// A failed batch leaves its first operation applied.
    HalfBatch,
    /// A range of 64 KiB is read one byte short.
    ShortRead,
    /// History omits the oldest version.
    ForgottenVersion,
    /// Reads return a state of a few commits ago.
    StaleRead,
    /// A write is acknowledged and not applied.
    LostWrite,
    /// A precondition is ignored.
    IgnoredPrecondition,
    /// A write is rejected although its precondition holds.
    FalseConflict,
    /// A state that retention removed shows the present, instead of failing.
    PresentForGone,
    /// Content that retention removed reads as zeros, instead of failing.
    HoleForGone,
    /// Bytes lose their author once their commit has left the log.
    LostAuthor,
}

impl Bug {
    /// Bugs that a single caller meets; the others appear among concurrent calls with preconditions.
    pub const SEQUENTIAL: [Self; 5] =
        [Self::LostAppend, Self::StalePast, Self::HalfBatch, Self::ShortRead, Self::ForgottenVersion];
    /// Bugs that a single caller meets once retention has removed some of the past.
    pub const RETAINED: [Self; 3] = [Self::PresentForGone, Self::HoleForGone, Self::LostAuthor];
}

/// Filesystem that has a bug.
#[derive(Debug)]
pub struct Planted {
    inner: Arc<dyn FileSystem>,
    bug: Bug,
    calls: AtomicU64,
}

impl Planted {
    /// Wraps a filesystem with a bug.
    pub fn new(inner: Arc<dyn FileSystem>, bug: Bug) -> Self {
        Self { inner, bug, calls: AtomicU64::new(0) }
    }

    fn now(&self, bug: Bug) -> bool {
        self.bug == bug && self.calls.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// Commits without the part that the bug loses.
    async fn commit_in_part(&self, mut batch: Batch) -> Result<Commit> {
        if self.bug == Bug::LostAppend {
            for op in &mut batch.ops {
                if let Op::Append { body, .. } = op
                    && body.size() % 20 == 17
                {
                    *body = Body::Bytes(Bytes::new());
                }
            }
        }
        let first = batch.ops.first().filter(|_| batch.ops.len() > 1).cloned();
        let result = self.inner.commit(batch).await;
        if self.bug == Bug::HalfBatch && result.is_err() && first.is_some() {
            let _ = self.inner.commit(Batch::new(first)).await;
        }
        result
    }

    /// Returns the filesystem that serves a read.
    async fn source(&self) -> Result<Arc<dyn FileSystem>> {
        if !self.now(Bug::StaleRead) {
            return Ok(Arc::clone(&self.inner));
        }
        // Never before the files were created.
        let head = self.inner.head().await?.seq.0;
        self.inner.as_of(&Moment::Seq(Seq(head.saturating_sub(20).max(3).min(head)))).await
    }
}

#[async_trait]
impl FileSystem for Planted {
    forward_filesystem!(inner: capabilities head names list walk hold open open_version changes wait
        confined snapshots search find stage committed recorded sync);

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.source().await?.stat(at).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let fetched = self.source().await?.fetch(at, range).await;
        if self.bug == Bug::HoleForGone && fetched.as_ref().is_err_and(|error| error.is(ErrorKind::Gone)) {
            let entry = self.inner.stat(at).await?;
            let length = entry.size.saturating_sub(range.offset).min(range.length);
            return Ok((entry, Bytes::from(vec![0_u8; usize::try_from(length).unwrap_or_default()])));
        }
        let (entry, bytes) = fetched?;
        let short = self.bug == Bug::ShortRead && bytes.len() == 1 << 16;
        Ok((entry, if short { bytes.slice(1..) } else { bytes }))
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        self.source().await?.fetch_many(items).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        let mut blame = self.inner.blame(at, range, limit).await?;
        if self.bug == Bug::LostAuthor {
            for commit in blame.commits.iter_mut().filter(|commit| commit.folded) {
                commit.author = Author::default();
            }
        }
        Ok(blame)
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let mut versions = self.inner.history(at, page).await?;
        if self.bug == Bug::ForgottenVersion && versions.items.len() > 1 {
            versions.items.pop();
        }
        Ok(versions)
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let stale = match moment {
            Moment::Seq(seq) if self.bug == Bug::StalePast && seq.0 % 4 == 3 => Moment::Seq(Seq(seq.0 - 1)),
            moment => moment.clone(),
        };
        let then = match self.inner.as_of(&stale).await {
            Err(error) if self.bug == Bug::PresentForGone && error.is(ErrorKind::Gone) => {
                let head = self.inner.head().await?.seq;
                self.inner.as_of(&Moment::Seq(head)).await?
            }
            then => then?,
        };
        Ok(match self.bug {
            // Such a bug is one of past states as well.
            Bug::HoleForGone | Bug::LostAuthor => Arc::new(Self::new(then, self.bug)),
            _ => then,
        })
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        if self.now(Bug::LostWrite)
            && let Some((at, _)) = batch.preconditions.first()
        {
            // Checked and numbered, but not written.
            let there = self.inner.stat(at).await?;
            let mut commit = self.inner.commit(Batch { ops: Vec::new(), ..batch }).await?;
            let version = VersionId { seq: commit.seq, ino: there.ino };
            commit.outcomes = vec![garth_engine::model::Outcome::changed(version, there.size)];
            return Ok(commit);
        }
        if self.now(Bug::IgnoredPrecondition) {
            return self.inner.commit(Batch { preconditions: Vec::new(), ..batch }).await;
        }
        if self.now(Bug::FalseConflict) && !batch.preconditions.is_empty() {
            return Err(garth_engine::Error::new(ErrorKind::Conflict, "refused for no reason"));
        }
        self.commit_in_part(batch).await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for Planted {
    forward_filesystem!(inner: lowering link_root);
}
