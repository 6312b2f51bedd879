//! Handles of a mounted tree: those of its parts, with the inodes that the tree shows.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::check_body;
use crate::error::Result;
use crate::fs::{OpenFile, OpenNode, Upload};
use crate::model::{At, Entry, Ino, StagedBody};
use crate::view::inode_map::renumbered;

/// Handle to a node that has another inode in the tree.
#[derive(Debug)]
pub(super) struct Renumbered<T: ?Sized> {
    pub(super) ino: Ino,
    pub(super) inner: Arc<T>,
}

#[async_trait]
impl<T: OpenNode + ?Sized> OpenNode for Renumbered<T> {
    fn ino(&self) -> Ino {
        self.ino
    }

    async fn stat(&self) -> Result<Entry> {
        Ok(renumbered(self.inner.stat().await?, self.ino))
    }
}

#[async_trait]
impl OpenFile for Renumbered<dyn OpenFile> {
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

/// Handle to a directory that leads to a part and that nobody created.
#[derive(Debug)]
pub(super) struct Leading(pub(super) Entry);

#[async_trait]
impl OpenNode for Leading {
    fn ino(&self) -> Ino {
        self.0.ino
    }

    async fn stat(&self) -> Result<Entry> {
        Ok(self.0.clone())
    }
}

/// Upload to a tree that limits the size of uploads.
#[derive(Debug)]
pub(super) struct LimitedUpload {
    pub(super) inner: Box<dyn Upload>,
    pub(super) largest: Option<u64>,
    /// Address to be written, for errors.
    pub(super) at: At,
    pub(super) size: u64,
}

#[async_trait]
impl Upload for LimitedUpload {
    fn expects(&mut self, length: u64) {
        self.inner.expects(length);
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.size += bytes.len() as u64;
        // Before the bytes are stored.
        check_body(self.largest, self.size, Some(&self.at))?;
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<StagedBody> {
        self.inner.finish().await
    }
}
