//! Takes a subtree out, entry by entry, to whatever [`Target`] there is.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use garth::fs::resolve::Follow;
use garth::model::{At, Entry, Ino, Kind};
use garth::{Error, ErrorKind, FileSystem, OpenFile};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::{Count, Report};
use crate::app::stat_path;
use crate::fail::{Failure, Result, carry};
use crate::walk::DepthFirst;

/// Where a subtree goes. Paths are relative, with `/` between names; directories come before what is in them.
pub(crate) trait Target {
    /// A directory.
    fn directory(&mut self, path: &str, entry: &Entry) -> Result;
    /// A file with its content.
    fn file(&mut self, path: &str, entry: &Entry, content: &mut dyn Read) -> Result;
    /// A symbolic link.
    fn symlink(&mut self, path: &str, entry: &Entry, target: &str) -> Result;
    /// One more name for the file at `first`.
    fn hard_link(&mut self, path: &str, entry: &Entry, first: &str) -> Result;
    /// Nothing more comes.
    fn finish(&mut self) -> Result;
}

/// Copies what is below `path` (or the file there, under its own name) to `target`.
pub(crate) async fn save(
    fs: Arc<dyn FileSystem>,
    path: &str,
    target: &mut dyn Target,
    report: &mut Report,
) -> Result<Count> {
    let (top, entry) = stat_path(&*fs, path, Follow::Yes).await?;
    let mut count = Count::default();
    let mut links: HashMap<Ino, String> = HashMap::new();
    // A file alone is as if it were all that its directory holds.
    let (base, mut alone) = match entry.kind {
        Kind::Directory => (top.clone(), None),
        _ => (top.parent().unwrap_or_default(), Some((top.clone(), entry))),
    };
    let mut below = DepthFirst::new(Arc::clone(&fs), &top);
    let is_alone = alone.is_some();
    loop {
        let next = if is_alone { alone.take() } else { below.next().await? };
        let Some((path, entry)) = next else { break };
        let relative = path.key()[base.key().len()..].trim_start_matches('/').to_owned();
        report.step(&relative);
        let outcome = match entry.kind {
            Kind::Directory => target.directory(&relative, &entry).map(|()| count.directories += 1),
            Kind::Symlink => {
                let to = entry.target.as_deref().unwrap_or_default();
                target.symlink(&relative, &entry, to).map(|()| count.symlinks += 1)
            }
            Kind::File => match links.get(&entry.ino) {
                Some(first) => target.hard_link(&relative, &entry, first).map(|()| count.hard_links += 1),
                None => {
                    let file = fs.open(&At::Path(path.clone())).await?;
                    let outcome = target.file(&relative, &entry, &mut Content::new(file));
                    if outcome.is_ok() && entry.nlink > 1 {
                        links.insert(entry.ino, relative.clone());
                    }
                    outcome.map(|()| {
                        count.files += 1;
                        count.bytes += entry.size;
                    })
                }
            },
            Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice | Kind::Whiteout => {
                let message = "not exported, neither file, directory nor symbolic link";
                Err(Error::at(ErrorKind::Unsupported, &path, message).into())
            }
        };
        match outcome {
            Ok(()) => {}
            // Only what this one entry is can be passed over; a target or a tree that fails ends it.
            Err(Failure::Tree(error)) if error.is(ErrorKind::Unsupported) => report.fail(error.into())?,
            Err(failure) => return Err(failure),
        }
    }
    target.finish()?;
    Ok(count)
}

/// The content of a file for code that reads and waits.
struct Content {
    file: Arc<dyn OpenFile>,
    offset: u64,
    chunk: Bytes,
}

impl Content {
    /// Read at once: the largest extent.
    const STEP: usize = 1 << 20;

    fn new(file: Arc<dyn OpenFile>) -> Self {
        Self { file, offset: 0, chunk: Bytes::new() }
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.chunk.is_empty() {
            let read = self.file.read_at(self.offset, Self::STEP);
            self.chunk = block_in_place(|| Handle::current().block_on(read)).map_err(carry)?;
            self.offset += self.chunk.len() as u64;
        }
        let length = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
