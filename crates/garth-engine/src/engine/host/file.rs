//! Reading files, at once and through handles.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::io::Errno;

use super::failed::{errno, failed, failed_without_path, unsupported};
use super::lookup::Tree;
use super::node::Node;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{OpenFile, OpenNode};
use crate::model::{ByteRange, Entry, Ino, MAX_READ};
use crate::path::TreePath;
use crate::threads::executor::Executor;

/// Maximum length, in bytes, of a read on the caller's thread: a switch to another thread costs about as
/// much.
pub(super) const SHORT: usize = 64 << 10;
/// Attempts to read a file that changes while it is read.
const TRIES: usize = 4;

impl Tree<'_> {
    /// Returns the length of a range within a file. Fails with `TooLarge` if it exceeds `MAX_READ`.
    pub(super) fn length(node: &Node, path: &TreePath, range: ByteRange) -> Result<usize> {
        let length = node.size().saturating_sub(range.offset).min(range.length);
        match usize::try_from(length) {
            Ok(length) if length <= MAX_READ => Ok(length),
            _ => Err(Error::at(ErrorKind::TooLarge, path, too_much())),
        }
    }

    /// Returns the entry of a file that was found, and bytes of it. Both are of the same time, unless other
    /// processes keep writing to the file in place.
    pub(super) fn fetch(mut node: Node, path: &TreePath, range: ByteRange) -> Result<(Entry, Bytes)> {
        let of_path = |errno| failed(errno, path);
        let file = node.open().map_err(of_path)?;
        for _ in 0..TRIES {
            let bytes = read(&file, range.offset, Self::length(&node, path, range)?).map_err(of_path)?;
            let (entry, version) = (node.entry().map_err(of_path)?, node.version());
            // No write came in between: times and size are unchanged.
            node = node.again().map_err(of_path)?;
            if node.version() == version {
                return Ok((entry, bytes));
            }
        }
        // The file keeps changing. Bytes that may not fit the entry are better than no answer.
        let entry = node.entry().map_err(of_path)?;
        let bytes = read(&file, range.offset, Self::length(&node, path, range)?).map_err(of_path)?;
        Ok((entry, bytes))
    }
}

fn too_much() -> String {
    format!("one read takes at most {MAX_READ} bytes; read ranges, or stream")
}

/// Reads at most `length` bytes from `offset` on; fewer only at the end.
fn read(file: &File, offset: u64, length: usize) -> Result<Bytes, Errno> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno(&error)),
        }
    }
    // The file may have become shorter since its size was read.
    bytes.truncate(filled);
    Ok(bytes.into())
}

/// File that is held open. It sees writes in place. A write that replaces the file by another one leaves it
/// unchanged.
pub(super) struct HostFile {
    opened: Arc<Opened>,
    readers: Arc<Executor>,
}

#[derive(Debug)]
struct Opened {
    node: Node,
    file: File,
}

impl HostFile {
    pub(super) fn open(node: Node, path: &TreePath, readers: Arc<Executor>) -> Result<Self> {
        let file = node.open().map_err(|errno| failed(errno, path))?;
        Ok(Self { opened: Arc::new(Opened { node, file }), readers })
    }
}

impl fmt::Debug for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opened.fmt(f)
    }
}

impl Opened {
    fn now(&self) -> Result<Node> {
        self.node.now().map_err(failed_without_path)
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        // Clipped to the size first, so that no more memory is taken than there are bytes.
        let left = self.now()?.size().saturating_sub(offset);
        let length = usize::try_from(left).map_or(length, |left| left.min(length));
        read(&self.file, offset, length).map_err(failed_without_path)
    }
}

#[async_trait]
impl OpenNode for HostFile {
    fn ino(&self) -> Ino {
        self.opened.node.ino()
    }

    async fn stat(&self) -> Result<Entry> {
        self.opened.now()?.entry().map_err(failed_without_path)
    }
}

#[async_trait]
impl OpenFile for HostFile {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length > MAX_READ {
            return Err(Error::new(ErrorKind::TooLarge, too_much()));
        }
        if length <= SHORT {
            return self.opened.read_at(offset, length);
        }
        let opened = Arc::clone(&self.opened);
        self.readers.run(move || opened.read_at(offset, length)).await
    }

    async fn next_data(&self, _offset: u64) -> Result<u64> {
        Err(unsupported("does not report holes"))
    }

    async fn next_hole(&self, _offset: u64) -> Result<u64> {
        Err(unsupported("does not report holes"))
    }
}
