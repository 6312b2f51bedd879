//! Nodes held open.

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::engine::planner::NodeRow;
use garth_engine::fs::{OpenFile, OpenNode};
use garth_engine::model::{At, ByteRange, Entry, Ino, MAX_READ};
use garth_engine::{Error, ErrorKind, Result};

use super::PgStore;
use super::reader::View;

/// A node held open, now or in the past.
#[derive(Debug)]
pub(super) struct Handle {
    fs: PgStore,
    ino: u64,
    /// Address that errors name: the one that was opened in the past, where names never change, and the inode
    /// in the newest state.
    at: At,
    /// True if it is counted in `OpenNodes`. The state of a handle of the past is in `OpenPasts`.
    is_held: bool,
}

impl Handle {
    /// Returns a handle to a node that was found at an address.
    pub(super) fn new(fs: PgStore, ino: u64, at: &At) -> Self {
        let is_held = fs.as_of.is_none();
        if is_held {
            fs.reach.hold(ino, &fs.inner.open);
        }
        let at = if is_held { At::Node(Ino(ino)) } else { at.clone() };
        Self { fs, ino, at, is_held }
    }

    /// Returns the node. Fails if it has no name and may have been removed.
    fn node(&self, view: &View<'_>) -> Result<NodeRow> {
        let holds = &self.fs.inner.holds;
        match view.row(self.ino)? {
            Some(node) => {
                if self.is_held {
                    holds.check_node(&node)?;
                }
                Ok(node)
            }
            None if self.is_held => Err(holds.check_nameless(self.ino).err().unwrap_or_else(Error::no_node)),
            None => Err(Error::no_node()),
        }
    }

    /// Adds the path to an error about content that is no longer stored.
    fn about(&self, view: &View<'_>, node: &NodeRow, error: Error) -> Error {
        if error.is(ErrorKind::Gone) { view.about(error, node, &self.at) } else { error }
    }

    /// Looks for data or a hole after an offset, which must be in the file.
    async fn behind(&self, offset: u64, look: fn(&View<'_>, &NodeRow, u64) -> Result<u64>) -> Result<u64> {
        let read = |view: &View<'_>| {
            let node = self.node(view)?;
            view.check_content(node.ino).map_err(|error| self.about(view, &node, error))?;
            view.check_unnamed(&node)?;
            if offset >= node.size {
                return Err(Error::no_such_offset());
            }
            look(view, &node, offset)
        };
        self.fs.reading(|_| {}, read).await
    }
}

#[async_trait]
impl OpenNode for Handle {
    fn ino(&self) -> Ino {
        Ino(self.ino)
    }

    async fn stat(&self) -> Result<Entry> {
        let read = |view: &View<'_>| view.entry(view.as_held(self.node(view)?));
        self.fs.reading(|_| {}, read).await
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
        let read = |view: &View<'_>| {
            let node = self.node(view)?;
            view.check_unnamed(&node)?;
            view.read(node.ino, node.size, range).map_err(|error| self.about(view, &node, error))
        };
        let node = At::Node(Ino(self.ino));
        self.fs.reading(|rows| self.fs.announce_content(rows, &node, range), read).await
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.behind(offset, |view, node, offset| {
            view.next_data(node, offset)?.ok_or_else(Error::no_such_offset)
        })
        .await
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.behind(offset, |view, node, offset| view.next_hole(node, offset)).await
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_held && self.fs.reach.release(self.ino, &self.fs.inner.open) {
            self.fs.inner.holds.release(self.ino);
        }
    }
}
