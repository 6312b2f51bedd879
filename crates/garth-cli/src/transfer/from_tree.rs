//! Copy from one store of the tree to another, which is not possible in one commit.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Entry, Ino, Kind, SetAttrs, Special, VersionId};
use garth_engine::{Error, ErrorKind, FileSystem, OpenFile, TreePath};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::load::{Loader, Source, What, keep};
use super::to_tar::Content;
use crate::fail::Result;
use crate::walk::Walker;

/// Prefix of attributes that views keep for themselves. They are not copied.
const NOTED: &str = "garth.";

/// Copies `top` and everything below it to `to`, which does not exist, or is the file `onto`.
pub(crate) async fn from_tree(
    loader: &mut Loader<'_>,
    (top, entry): (&TreePath, &Entry),
    to: &TreePath,
    onto: Option<&Entry>,
) -> Result {
    let fs = Arc::clone(&loader.tree.fs);
    let above = directories_above(&*fs, to).await?;
    // One directory may be shown at several paths, so inodes are compared.
    let into_itself = |entry: &Entry| entry.kind == Kind::Directory && above.contains(&entry.ino);
    let mut links = HashMap::new();
    let mut walker = Walker::new(Arc::clone(&fs), top.as_str(), Follow::No, false).await?;
    let mut next = Some((top.clone(), entry.clone()));
    while let Some((path, entry)) = next {
        if into_itself(&entry) {
            let message = "a directory cannot be copied into itself";
            return Err(Error::at(ErrorKind::InvalidArgument, to, message).into());
        }
        if let Some(copy) = path.rebase(top, to) {
            // Only the top may replace a file.
            let onto = onto.filter(|_| path == *top);
            let copied = match copy {
                Ok(copy) => one(loader, &*fs, &path, &entry, copy, onto, &mut links).await,
                Err(error) => Err(error.into()),
            };
            if let Err(failure) = copied {
                loader.fail(failure)?;
            }
        }
        next = walker.next().await?;
    }
    Ok(())
}

/// Returns the inodes of the directories above a path.
async fn directories_above(fs: &dyn FileSystem, path: &TreePath) -> Result<HashSet<Ino>> {
    let mut above = HashSet::new();
    for dir in path.ancestors() {
        match fs.stat(&At::Path(dir)).await {
            Ok(entry) => drop(above.insert(entry.ino)),
            // Directories below a missing one are missing, too.
            Err(error) if error.is(ErrorKind::NotFound) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(above)
}

async fn one(
    loader: &mut Loader<'_>,
    fs: &dyn FileSystem,
    path: &TreePath,
    entry: &Entry,
    copy: TreePath,
    onto: Option<&Entry>,
    links: &mut HashMap<Ino, TreePath>,
) -> Result {
    let mut content;
    let name = Path::new(path.as_str());
    // A directory has one name.
    let several = entry.kind != Kind::Directory && entry.nlink > 1;
    let what = match (links.get(&entry.ino).filter(|_| several), entry.kind) {
        (Some(first), _) => What::HardLink(first.clone()),
        (None, Kind::Directory) => What::Directory,
        (None, Kind::File) => {
            let file = Unchanged::new(fs.open(&path.into()).await?, path, entry);
            content = loader.report.interrupt().guard(file);
            What::File { size: entry.size, content: &mut content, name }
        }
        (None, Kind::Symlink) => What::Symlink(entry.target.clone().unwrap_or_default()),
        (None, Kind::Fifo) => What::Special(Special::Fifo),
        (None, Kind::Socket) => What::Special(Special::Socket),
        (None, Kind::CharDevice) => What::Special(Special::CharDevice(entry.rdev)),
        (None, Kind::BlockDevice) => What::Special(Special::BlockDevice(entry.rdev)),
        (None, Kind::Whiteout) => What::Special(Special::Whiteout),
    };
    if several {
        links.entry(entry.ino).or_insert_with(|| copy.clone());
    }
    let more = carried(entry, onto);
    let source = Source { what, mode: entry.mode, mtime: entry.mtime, whole_seconds: false, more };
    // A copy replaces the file completely, so the contents are not compared.
    loader.add(copy, None, source).await.map(drop)
}

/// Content of a file that must not change while it is copied.
struct Unchanged {
    content: Content,
    file: Arc<dyn OpenFile>,
    path: TreePath,
    etag: VersionId,
}

impl Unchanged {
    fn new(file: Arc<dyn OpenFile>, path: &TreePath, entry: &Entry) -> Self {
        Self { content: Content::new(Arc::clone(&file)), file, path: path.clone(), etag: entry.etag }
    }

    fn check(&self) -> garth_engine::Result<()> {
        // A reader is synchronous, but the tree is read asynchronously.
        let now = block_in_place(|| Handle::current().block_on(self.file.stat()))?;
        if now.etag == self.etag {
            return Ok(());
        }
        let message = "changed while it was copied; copy it again";
        Err(Error::at(ErrorKind::Conflict, &self.path, message))
    }
}

impl Read for Unchanged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        // Checked at the end: the copy is committed only if the content was read from one state.
        if read == 0 && !buffer.is_empty() {
            self.check().map_err(io::Error::other)?;
        }
        Ok(read)
    }
}

/// Returns the attributes of a copy besides mode and time. Those that only `onto` has are removed.
fn carried(entry: &Entry, onto: Option<&Entry>) -> SetAttrs {
    let mut attrs = SetAttrs { uid: Some(entry.uid), gid: Some(entry.gid), ..SetAttrs::new() };
    if entry.kind != Kind::Directory {
        attrs.expires_at = Some(entry.expires_at);
    }
    keep(&entry.attributes, &mut attrs);
    for key in onto.iter().flat_map(|onto| onto.attributes.metadata.keys()) {
        attrs.metadata.entry(key.clone()).or_insert(None);
    }
    for name in onto.iter().flat_map(|onto| onto.attributes.xattrs.keys()) {
        attrs.xattrs.entry(name.clone()).or_insert(None);
    }
    attrs.xattrs.retain(|name, _| !name.starts_with(NOTED));
    attrs.metadata.retain(|name, _| !name.starts_with(NOTED));
    attrs
}
