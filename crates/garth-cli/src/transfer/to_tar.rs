//! Export to a tar archive, written as a stream.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use garth_engine::model::{Entry, Ino, Kind};
use garth_engine::{Error, ErrorKind, FileSystem, OpenFile, TreePath};
use tar::{Builder, EntryType, Header};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::Exclude;
use super::report::{Change, Item, Report};
use crate::fail::{Failure, Result};
use crate::walk::DepthFirst;

/// Longest link target in bytes that fits in a header. A longer one is stored before it, as in GNU tar.
const MAX_LINK_NAME: usize = 100;

/// Destination of an archive.
pub(crate) enum Sink<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    /// No destination, for a dry run.
    Nowhere,
}

impl<W: Write> Sink<W> {
    /// Returns a sink that compresses with gzip.
    pub(crate) fn gzip(to: W) -> Self {
        Self::Gzip(GzEncoder::new(to, Compression::default()))
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut to) => to.flush(),
            Self::Gzip(to) => to.finish()?.flush(),
            Self::Nowhere => Ok(()),
        }
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(to) => to.write(bytes),
            Self::Gzip(to) => to.write(bytes),
            Self::Nowhere => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(to) => to.flush(),
            Self::Gzip(to) => to.flush(),
            Self::Nowhere => Ok(()),
        }
    }
}

/// Archive in progress.
struct Tar<'n, W: Write> {
    builder: Builder<Sink<W>>,
    /// Name of the archive in errors.
    name: &'n Path,
    /// Inodes with several names, with the first name in the archive.
    links: HashMap<Ino, PathBuf>,
}

/// Writes everything below `top` (or the file `top`, under its own name) to `to`. `name` names the archive in
/// errors.
pub(crate) async fn to_tar<W: Write>(
    fs: Arc<dyn FileSystem>,
    (top, entry): (&TreePath, Entry),
    exclude: &Exclude,
    (to, name): (Sink<W>, &Path),
    report: &mut Report<'_>,
) -> Result {
    let mut tar = Tar { builder: Builder::new(to), name, links: HashMap::new() };
    if entry.kind == Kind::Directory {
        let mut below = DepthFirst::new(Arc::clone(&fs), top);
        while let Some((path, entry)) = below.next().await? {
            // Without the path of the top and its `/`.
            let relative = path.key()[top.key().len() + 1..].to_owned();
            if !exclude.leaves_out_above(&relative, entry.kind == Kind::Directory) {
                tar.entry(&*fs, &path, &relative, &entry, report).await?;
            }
        }
    } else {
        tar.entry(&*fs, top, top.name().unwrap_or_default(), &entry, report).await?;
    }
    let failure = tar.failure();
    tar.builder.into_inner().and_then(Sink::finish).map_err(failure)
}

impl<W: Write> Tar<'_, W> {
    async fn entry(
        &mut self,
        fs: &dyn FileSystem,
        path: &TreePath,
        relative: &str,
        entry: &Entry,
        report: &mut Report<'_>,
    ) -> Result {
        report.step(relative)?;
        let item = match entry.kind {
            Kind::Directory => self.directory(relative, entry).map(|()| Item::Directory)?,
            Kind::Symlink => self.symlink(relative, entry).map(|()| Item::Symlink)?,
            Kind::File => match self.links.get(&entry.ino).cloned() {
                Some(first) => self.hard_link(relative, entry, &first).map(|()| Item::HardLink)?,
                None => {
                    let file = fs.open(&path.into()).await?;
                    // Known before its header, which promises the content.
                    if let Err(error) = file.read_at(0, 0).await
                        && error.is(ErrorKind::Gone)
                    {
                        return report.fail(Error::at(ErrorKind::Gone, path, error.message()).into());
                    }
                    let content = report.interrupt().guard(Content::new(file));
                    self.file(relative, entry, content)?;
                    if entry.nlink > 1 {
                        self.links.insert(entry.ino, relative.into());
                    }
                    Item::File(entry.size)
                }
            },
            Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice | Kind::Whiteout => {
                return report.fail(unsupported(path));
            }
        };
        report.done(Change::New, item, relative)
    }

    fn failure(&self) -> impl FnOnce(io::Error) -> Failure + use<W> {
        let name = self.name.to_owned();
        move |error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::host(&name)(error),
        }
    }

    fn directory(&mut self, path: &str, entry: &Entry) -> Result {
        let mut header = header(EntryType::Directory, entry, 0);
        let failure = self.failure();
        // By convention, the name of a directory ends with `/`.
        self.builder.append_data(&mut header, format!("{path}/"), io::empty()).map_err(failure)
    }

    fn file(&mut self, path: &str, entry: &Entry, content: impl Read) -> Result {
        let mut header = header(EntryType::Regular, entry, entry.size);
        let failure = self.failure();
        // The header already states the size.
        self.builder.append_data(&mut header, path, content.take(entry.size)).map_err(failure)
    }

    fn symlink(&mut self, path: &str, entry: &Entry) -> Result {
        let target = entry.target.as_deref().unwrap_or_default();
        let mut header = header(EntryType::Symlink, entry, 0);
        let failure = self.failure();
        if target.len() > MAX_LINK_NAME {
            return self.builder.append_link(&mut header, path, target).map_err(failure);
        }
        // `append_link` would normalise a target such as `a//b`.
        let set = header.set_link_name_literal(target);
        set.and_then(|()| self.builder.append_data(&mut header, path, io::empty())).map_err(failure)
    }

    fn hard_link(&mut self, path: &str, entry: &Entry, first: &Path) -> Result {
        let mut header = header(EntryType::Link, entry, 0);
        let failure = self.failure();
        self.builder.append_link(&mut header, path, first).map_err(failure)
    }
}

/// Returns a header without name, target and checksum. Times have whole seconds, and a time before 1970
/// becomes 0.
fn header(kind: EntryType, entry: &Entry, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(entry.mode);
    header.set_uid(entry.uid.into());
    header.set_gid(entry.gid.into());
    header.set_mtime(u64::try_from(entry.mtime.0.div_euclid(1_000_000_000)).unwrap_or(0));
    header
}

/// Returns the failure for a kind of entry that is not exported.
pub(super) fn unsupported(path: &TreePath) -> Failure {
    let message = "skipped, neither file, directory nor symbolic link";
    Error::at(ErrorKind::Unsupported, path, message).into()
}

/// Blocking reader of the content of a file of the tree.
pub(super) struct Content {
    file: Arc<dyn OpenFile>,
    offset: u64,
    chunk: Bytes,
}

impl Content {
    /// Bytes of one read: the largest extent.
    const STEP: usize = 1 << 20;

    pub(super) fn new(file: Arc<dyn OpenFile>) -> Self {
        Self { file, offset: 0, chunk: Bytes::new() }
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() {
            let read = self.file.read_at(self.offset, Self::STEP);
            self.chunk =
                block_in_place(|| Handle::current().block_on(read)).map_err(std::io::Error::other)?;
            self.offset += self.chunk.len() as u64;
        }
        let length = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
