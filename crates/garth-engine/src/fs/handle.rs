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
    /// Returns the inode of the node.
    fn ino(&self) -> Ino;

    /// Returns the node as it is now; through the handle of a version, as it was in that version.
    async fn stat(&self) -> Result<Entry>;
}

/// A file held open.
#[async_trait]
pub trait OpenFile: OpenNode {
    /// Returns `length` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// `TooLarge` for more than `MAX_READ` bytes; `Gone` for content that is no longer stored, with the path
    /// in the tree that opened the file.
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes>;

    /// Returns the offset of the first byte at or after `offset` outside of a hole (`SEEK_DATA`).
    ///
    /// # Errors
    /// `NoSuchOffset` at or after the end, and where only a hole follows.
    async fn next_data(&self, offset: u64) -> Result<u64>;

    /// Returns the offset of the first hole at or after `offset` (`SEEK_HOLE`); the end of the file counts as
    /// one.
    ///
    /// # Errors
    /// `NoSuchOffset` at or after the end.
    async fn next_hole(&self, offset: u64) -> Result<u64>;

    /// Streams the bytes of `range`, at most 1 MiB at a time. Through a POSIX handle, a write during the
    /// stream may show in part; through the handle of a version nothing can change.
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
            // No bytes: the file ended before the range did.
            Ok((!bytes.is_empty()).then_some((bytes, (file, next))))
        });
        Box::pin(steps)
    }
}

/// An upload in progress. Dropped before `finish`, it is abandoned.
#[async_trait]
pub trait Upload: Send + fmt::Debug {
    /// Says how many bytes the upload will have, as far as that is known. From then on they count as uploads
    /// of its owner, before they arrive. A later number replaces it.
    fn expects(&mut self, _length: u64) {}

    /// Adds bytes at the end.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;

    /// Ends the upload; when this returns, the content is as safe as a durable commit.
    async fn finish(self: Box<Self>) -> Result<StagedBody>;
}

/// Content that a service is about to receive for a file, as far as it knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    /// Least number of bytes that arrive.
    pub length: u64,
    /// Least size that the file will have, in bytes.
    pub size: u64,
    /// Least number of bytes by which the content below the path will grow.
    pub growth: u64,
    /// Limit on the bytes of uploads that arrive, that no commit has used, or that were given up and are not
    /// yet removed.
    pub room: u64,
    /// Bytes that take room as well: those that the upload of this content does not expect yet.
    pub arrives: u64,
    /// True if the upload of this content has begun. It is counted with the others then.
    pub has_begun: bool,
}

/// Limit on the uploads of one owner that arrive or that no commit has used, for content that is admitted.
pub const MAX_UPLOADS: u64 = 1000;

/// Bytes that one step of [`OpenFile::stream`] reads: the size of the largest extent.
const STREAM_STEP: usize = 1 << 20;
