//! Handles of an overlay. One to a node of the lower layer sees what is written after the node was copied up.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::Overlay;
use super::layers::{self, Found};
use crate::error::Result;
use crate::fs::{FileSystem as _, OpenFile, OpenNode};
use crate::model::{At, Entry, Ino};
use crate::path::TreePath;

/// A file of the lower layer, until it is copied up.
#[derive(Debug)]
pub(super) struct LowerFile {
    pub(super) overlay: Overlay,
    /// Its number in the lower layer, and the one that shows.
    pub(super) raw: Ino,
    pub(super) ino: Ino,
    pub(super) below: Arc<dyn OpenFile>,
    pub(super) above: Mutex<Option<Arc<dyn OpenFile>>>,
}

impl LowerFile {
    /// The file where it is now.
    async fn now(&self) -> Result<Arc<dyn OpenFile>> {
        let known = self.above.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(above) = known {
            return Ok(above);
        }
        match self.overlay.upper.open(&At::Path(self.overlay.node_name(self.raw))).await {
            Ok(above) => {
                *self.above.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&above));
                Ok(above)
            }
            Err(error) if layers::is_missing(&error) => Ok(Arc::clone(&self.below)),
            Err(error) => Err(self.overlay.of_upper(error)),
        }
    }
}

#[async_trait]
impl OpenNode for LowerFile {
    fn ino(&self) -> Ino {
        self.ino
    }

    async fn stat(&self) -> Result<Entry> {
        let now = self.now().await?;
        let entry = now.stat().await?;
        let is_below = Arc::ptr_eq(&now, &self.below);
        let found = if is_below { Found::Lower(entry) } else { Found::Upper(entry) };
        Ok(self.overlay.entry(found, None))
    }
}

#[async_trait]
impl OpenFile for LowerFile {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.now().await?.read_at(offset, length).await
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.now().await?.next_data(offset).await
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.now().await?.next_hole(offset).await
    }
}

/// A node of the upper layer.
#[derive(Debug)]
pub(super) struct Upper<T: ?Sized> {
    pub(super) overlay: Overlay,
    pub(super) ino: Ino,
    pub(super) path: Option<TreePath>,
    pub(super) inner: Arc<T>,
}

#[async_trait]
impl<T: OpenNode + ?Sized> OpenNode for Upper<T> {
    fn ino(&self) -> Ino {
        self.ino
    }

    async fn stat(&self) -> Result<Entry> {
        let root = self.path.as_ref().filter(|path| path.is_root());
        Ok(self.overlay.entry(Found::Upper(self.inner.stat().await?), root))
    }
}

#[async_trait]
impl OpenFile for Upper<dyn OpenFile> {
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

/// A directory or special node of the lower layer, by the path that it was found at.
#[derive(Debug)]
pub(super) struct LowerNode {
    pub(super) overlay: Overlay,
    pub(super) ino: Ino,
    pub(super) inner: Arc<dyn OpenNode>,
}

#[async_trait]
impl OpenNode for LowerNode {
    fn ino(&self) -> Ino {
        self.ino
    }

    async fn stat(&self) -> Result<Entry> {
        match self.overlay.stat(&At::Node(self.ino)).await {
            Err(error) if layers::is_missing(&error) => {
                Ok(self.overlay.entry(Found::Lower(self.inner.stat().await?), None))
            }
            entry => entry,
        }
    }
}
