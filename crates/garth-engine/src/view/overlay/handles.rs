//! Handles of an overlay. A handle to a file of the lower layer sees later writes, which go to a copy.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::Overlay;
use crate::error::{ErrorKind, OptionalExt as _, Result};
use crate::fs::named_errors::named_errors;
use crate::fs::{FileSystem as _, OpenFile, OpenNode};
use crate::model::{At, Entry, Ino, VersionId};
use crate::path::TreePath;
use crate::view::inode_map::renumbered;

/// Handle to a file of the lower layer. It switches to the copy when the file is copied up.
#[derive(Debug)]
pub(super) struct LowerFile {
    pub(super) overlay: Overlay,
    /// Inode in the lower layer.
    pub(super) raw: Ino,
    /// Inode that the overlay shows.
    pub(super) ino: Ino,
    /// Version that the note of an earlier copy had when the handle was opened.
    pub(super) noted: Option<VersionId>,
    pub(super) below: Arc<dyn OpenFile>,
    /// Handle to the copy, once one has been found.
    pub(super) above: Mutex<Option<Arc<dyn OpenFile>>>,
}

impl LowerFile {
    /// Returns the handle to read: that of the copy, if the file was copied up.
    async fn now(&self) -> Result<Arc<dyn OpenFile>> {
        let known = self.above.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(above) = known {
            return Ok(above);
        }
        // An older note is about another node that had the inode, or about the copy of one that was renamed
        // below.
        if self.overlay.noted_at(self.raw).await? == self.noted {
            return Ok(Arc::clone(&self.below));
        }
        let Some(copy) = self.overlay.copy_of(self.raw).await? else { return Ok(Arc::clone(&self.below)) };
        match self.overlay.upper.open(&At::Node(copy)).await {
            Ok(above) => {
                let above = self.overlay.upper_file(above);
                *self.above.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&above));
                Ok(above)
            }
            // The copy lost all its names before this handle opened it. The original is all that can still be
            // read.
            Err(error) if error.is(ErrorKind::NotFound) => Ok(Arc::clone(&self.below)),
            Err(error) => Err(self.overlay.of_upper(error)),
        }
    }
}

impl Overlay {
    /// Returns a file of the upper layer, with errors that name paths of the tree.
    pub(super) fn upper_file(&self, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        let overlay = self.clone();
        named_errors(file, move |error| overlay.of_upper(error))
    }

    /// Returns the version of the note that a node of the lower layer was copied up, if there is one.
    pub(super) async fn noted_at(&self, below: Ino) -> Result<Option<VersionId>> {
        let note = self.upper.stat(&At::Path(self.copy_note(below))).await.optional();
        Ok(note.map_err(|error| self.of_upper(error))?.map(|entry| entry.version))
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
        let entry = match is_below {
            true => self.overlay.lower_entry(entry, None),
            false => self.overlay.upper_entry(entry, None).await?,
        };
        // The inode of an open handle stays, also where the copy shows under another one.
        Ok(renumbered(entry, self.ino))
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

/// Handle to a node of the upper layer.
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
        Ok(renumbered(self.overlay.upper_entry(self.inner.stat().await?, root).await?, self.ino))
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

/// Handle to a directory or special node of the lower layer.
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
        // By inode, which leads to the copy once there is one.
        match self.overlay.stat(&At::Node(self.ino)).await {
            // The node has lost its last name in the tree, but the handle still holds it.
            Err(error) if error.is(ErrorKind::NotFound) => {
                Ok(self.overlay.lower_entry(self.inner.stat().await?, None))
            }
            entry => entry,
        }
    }
}
