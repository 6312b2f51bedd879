//! Open files and uploads of the memory engine.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::content::Content;
use super::instance::MemoryFs;
use super::state::Node;
use super::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{OpenFile, OpenNode, Upload};
use crate::model::{Entry, Ino, MAX_READ, StagedBody};

/// POSIX handle: it reaches the node whatever becomes of its names.
#[derive(Debug)]
pub(super) struct Handle {
    memory: MemoryFs,
    ino: Ino,
}

impl Handle {
    pub(super) fn open(memory: &MemoryFs, ino: Ino) -> Self {
        // Counted by holder: a view must not reach nodes by the handles of another.
        *memory.write().open.entry((ino, memory.holders[0])).or_default() += 1;
        Self { memory: memory.clone(), ino }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let (mut state, key) = (self.memory.write(), (self.ino, self.memory.holders[0]));
        if let Some(count) = state.open.get_mut(&key) {
            *count -= 1;
            // Only nodes that are held open are in the map, see `is_held`.
            if *count == 0 {
                state.open.remove(&key);
            }
        }
    }
}

#[async_trait]
impl OpenNode for Handle {
    fn ino(&self) -> Ino {
        self.ino
    }

    async fn stat(&self) -> Result<Entry> {
        // Not by `find`: the handle stays valid if the view loses the node, or the node its names.
        self.memory.read_view(|view| view.entry(self.ino).ok_or_else(Error::no_node))
    }
}

#[async_trait]
impl OpenFile for Handle {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        check_length(length)?;
        self.memory.read_view(|view| {
            let node = view.node(self.ino).ok_or_else(Error::no_node)?;
            Ok(node.content.read(offset, length))
        })
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.memory.read_view(|view| next_data(view.get(self.ino), offset))
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.memory.read_view(|view| next_hole(view.get(self.ino), offset))
    }
}

/// Handle to one version.
#[derive(Debug)]
pub(super) struct VersionHandle {
    pub(super) node: Arc<Node>,
    /// Error of its reads, if its content was gone when it was opened.
    pub(super) gone: Option<Error>,
    /// Keeps content that was there.
    pub(super) _hold: Option<Arc<()>>,
}

impl VersionHandle {
    fn check_content(&self) -> Result<()> {
        self.gone.clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl OpenNode for VersionHandle {
    fn ino(&self) -> Ino {
        self.node.ino
    }

    async fn stat(&self) -> Result<Entry> {
        Ok(self.node.entry())
    }
}

#[async_trait]
impl OpenFile for VersionHandle {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        check_length(length)?;
        self.check_content()?;
        Ok(self.node.content.read(offset, length))
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.check_content()?;
        next_data(&self.node, offset)
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.check_content()?;
        next_hole(&self.node, offset)
    }
}

fn next_data(node: &Node, offset: u64) -> Result<u64> {
    node.content.next_data(offset).ok_or_else(Error::no_such_offset)
}

fn next_hole(node: &Node, offset: u64) -> Result<u64> {
    match offset < node.content.size() {
        true => Ok(node.content.next_hole(offset)),
        false => Err(Error::no_such_offset()),
    }
}

fn check_length(length: usize) -> Result<()> {
    if length <= MAX_READ {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TooLarge, format!("one read takes at most {MAX_READ} bytes")))
}

/// Upload in progress.
#[derive(Debug)]
pub(super) struct Staging {
    memory: MemoryFs,
    content: Content,
}

impl Staging {
    pub(super) fn new(memory: &MemoryFs) -> Self {
        Self { memory: memory.clone(), content: Content::default() }
    }
}

#[async_trait]
impl Upload for Staging {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.content = self.content.append(&bytes.into());
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StagedBody> {
        let mut state = self.memory.write();
        // Under the lock, so that two uploads that finish at once get two ids.
        state.next_staged_id += 1;
        let id = state.next_staged_id;
        let size = self.content.size();
        let owner = self.memory.owner_key().to_owned();
        state.staged.insert(id, (owner, self.content.clone()));
        Ok(StagedBody { id, size })
    }
}
