//! Nodes held open.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::SqliteFs;
use crate::engine::planner::NodeRow;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{OpenFile, OpenNode};
use crate::model::{At, ByteRange, Entry, Ino, MAX_READ};
use crate::sqlite::DbResult;

/// A node held open, now or in the past.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) fs: SqliteFs,
    pub(super) ino: u64,
    /// True if it is counted in `OpenNodes`. The state of a handle of the past is in `OpenPasts`.
    pub(super) held: bool,
}

impl SqliteFs {
    /// Returns a handle to a node that `check` accepts.
    pub(super) fn handle(
        &self,
        at: &At,
        check: impl FnOnce(&ReadView<'_>, &NodeRow) -> DbResult<()>,
    ) -> Result<Handle> {
        let held = self.as_of.is_none();
        let ino = self.with_view(|view| {
            let node = view.at(at)?;
            check(view, &node)?;
            if held {
                // Inside the transaction that found the node: `gc` could collect it in between.
                self.reach.hold(node.ino, &self.inner.open);
            }
            Ok(node.ino)
        })?;
        Ok(Handle { fs: self.clone(), ino, held })
    }
}

#[async_trait]
impl OpenNode for Handle {
    fn ino(&self) -> Ino {
        Ino(self.ino)
    }

    async fn stat(&self) -> Result<Entry> {
        let read = |view: &ReadView<'_>, ino: &u64| {
            let node = view.as_held(view.row(*ino)?.ok_or_else(Error::no_node)?);
            view.entry(node)
        };
        self.fs.reading(&self.ino, read).await
    }
}

#[async_trait]
impl OpenFile for Handle {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length > MAX_READ {
            let message = format!("more than {MAX_READ} bytes at once; read in steps");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let range = ByteRange { offset, length: length as u64 };
        let read = move |view: &ReadView<'_>, ino: &u64| {
            let node = view.row(*ino)?.ok_or_else(Error::no_node)?;
            view.check_unnamed(&node)?;
            view.read(node.ino, node.size, range)
        };
        self.fs.reading(&self.ino, read).await
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.behind(offset, |view, node, offset| {
            Ok(view.next_data(node, offset)?.ok_or_else(Error::no_such_offset)?)
        })
        .await
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.behind(offset, |view, node, offset| view.next_hole(node, offset)).await
    }
}

impl Handle {
    /// Looks for data or a hole after an offset, which must be in the file.
    async fn behind(
        &self,
        offset: u64,
        look: fn(&ReadView<'_>, &NodeRow, u64) -> DbResult<u64>,
    ) -> Result<u64> {
        let read = move |view: &ReadView<'_>, ino: &u64| {
            let node = view.row(*ino)?.ok_or_else(Error::no_node)?;
            view.check_content(node.ino)?;
            view.check_unnamed(&node)?;
            if offset >= node.size {
                return Err(Error::no_such_offset().into());
            }
            look(view, &node, offset)
        };
        self.fs.reading(&self.ino, read).await
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.held && self.fs.reach.release(self.ino, &self.fs.inner.open) {
            let (open, ino) = (Arc::clone(&self.fs.inner.open), self.ino);
            self.fs.inner.writer.transact_later(move |conn| open.release(conn, ino));
        }
    }
}
