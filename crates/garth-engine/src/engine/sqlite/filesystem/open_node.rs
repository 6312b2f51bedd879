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
use crate::sqlite::{DbError, DbResult};

/// Node of a handle.
#[derive(Clone, Debug)]
pub(super) struct HeldNode {
    pub(super) ino: u64,
    /// Address that errors name: the one that was opened in the past, where names never change, and the inode
    /// in the newest state.
    pub(super) at: At,
}

impl HeldNode {
    /// Adds the path to an error about content that is no longer stored.
    fn about(&self, view: &ReadView<'_>, node: &NodeRow, error: DbError) -> DbError {
        let is_gone = matches!(&error, DbError::Other(error) if error.is(ErrorKind::Gone));
        if is_gone { view.about(error, node, &self.at) } else { error }
    }
}

/// A node held open, now or in the past.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) fs: SqliteFs,
    pub(super) node: HeldNode,
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
        let at = if held { At::Node(Ino(ino)) } else { at.clone() };
        Ok(Handle { fs: self.clone(), node: HeldNode { ino, at }, held })
    }
}

#[async_trait]
impl OpenNode for Handle {
    fn ino(&self) -> Ino {
        Ino(self.node.ino)
    }

    async fn stat(&self) -> Result<Entry> {
        let read = |view: &ReadView<'_>, held: &HeldNode| {
            let node = view.as_held(view.row(held.ino)?.ok_or_else(Error::no_node)?);
            view.entry(node)
        };
        self.fs.reading(&self.node, read).await
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
        let read = move |view: &ReadView<'_>, held: &HeldNode| {
            let node = view.row(held.ino)?.ok_or_else(Error::no_node)?;
            view.check_unnamed(&node)?;
            view.read(node.ino, node.size, range).map_err(|error| held.about(view, &node, error))
        };
        self.fs.reading(&self.node, read).await
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
        let read = move |view: &ReadView<'_>, held: &HeldNode| {
            let node = view.row(held.ino)?.ok_or_else(Error::no_node)?;
            view.check_content(node.ino).map_err(|error| held.about(view, &node, error))?;
            view.check_unnamed(&node)?;
            if offset >= node.size {
                return Err(Error::no_such_offset().into());
            }
            look(view, &node, offset)
        };
        self.fs.reading(&self.node, read).await
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.held && self.fs.reach.release(self.node.ino, &self.fs.inner.open) {
            let (open, ino) = (Arc::clone(&self.fs.inner.open), self.node.ino);
            self.fs.inner.writer.transact_later(move |conn| open.release(conn, ino));
        }
    }
}
