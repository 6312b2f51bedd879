//! Nodes and files held open, and uploads in progress.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::error::Result;
use crate::model::{ByteRange, Entry, Ino, StagedBody};

/// A node held open.
#[async_trait]
pub trait OpenNode: Send + Sync + fmt::Debug {
    /// The node.
    fn ino(&self) -> Ino;

    /// The node now (of an immutable handle: in that version).
    async fn stat(&self) -> Result<Entry>;
}

/// A file held open.
#[async_trait]
pub trait OpenFile: OpenNode {
    /// At most `length` bytes from `offset`; fewer only at the end of the file. `TooLarge` above `MAX_READ`.
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes>;

    /// The first byte at or behind `offset` that lies in no hole (`SEEK_DATA`).
    ///
    /// # Errors
    /// `NoSuchOffset` at or behind the end, and where nothing but a hole follows.
    async fn next_data(&self, offset: u64) -> Result<u64>;

    /// Where the first hole at or behind `offset` begins (`SEEK_HOLE`); the end of the file counts as one.
    ///
    /// # Errors
    /// `NoSuchOffset` at or behind the end.
    async fn next_hole(&self, offset: u64) -> Result<u64>;

    /// The bytes of `range`, a step of at most 1 MiB at a time. Over a POSIX handle, a write during the
    /// stream may show in part; over a version's handle nothing can change.
    fn stream<'a>(self: Arc<Self>, range: ByteRange) -> BoxStream<'a, Result<Bytes>>
    where
        Self: 'a,
    {
        let end = range.offset.saturating_add(range.length);
        let steps = futures::stream::try_unfold((self, range.offset), move |(file, offset)| async move {
            let left = usize::try_from(end - offset).unwrap_or(STREAM_STEP).min(STREAM_STEP);
            if left == 0 {
                return Ok(None);
            }
            let bytes = file.read_at(offset, left).await?;
            let next = offset + bytes.len() as u64;
            Ok((!bytes.is_empty()).then_some((bytes, (file, next))))
        });
        Box::pin(steps)
    }
}

/// An upload in progress. Dropped before `finish`, it is abandoned.
#[async_trait]
pub trait Upload: Send + fmt::Debug {
    /// Adds bytes at the end.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;

    /// Ends the upload; when this returns, the content is as safe as a durable commit.
    async fn finish(self: Box<Self>) -> Result<StagedBody>;
}

/// How much of a file one step of [`OpenFile::stream`] reads: the size of the largest extent.
const STREAM_STEP: usize = 1 << 20;
