//! A folder or a file of this machine as a source of entries.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use garth::model::{Entry, Kind, MAX_PAGE, SetAttrs, WalkItem, WalkPage};
use garth::{Error, ErrorKind, FileSystem, TreePath};

use super::exclude::{Exclude, HOLDS_EXCLUDED};
use super::host::{HostEntry, HostWalk, mtime, not_utf8, parts};
use super::load::{Loader, Source, What};
use super::own::Own;
use super::pairs::{Pair, Pairs, TreeWalk};
use crate::fail::{Failure, Result};
use crate::progress::{Guarded, Interrupt};

/// A folder on its way into the tree.
struct Import<'l, 'a> {
    loader: &'l mut Loader<'a>,
    fs: Arc<dyn FileSystem>,
    exclude: Rc<Exclude>,
    own: &'l Own,
    /// Hard links so far: device and inode of this machine, and the path first given to them.
    links: HashMap<(u64, u64), TreePath>,
    /// Directories of the tree whose entries are passed over: kept, or removed as the
    /// one with this number is.
    passed: HashMap<String, Option<usize>>,
    /// What the source does not have, and the number of entries below it.
    gone: Vec<(String, u64)>,
}

/// Imports everything below `top`, which itself becomes `base`.
pub(crate) async fn from_folder(
    loader: &mut Loader<'_>,
    top: &Path,
    base: &TreePath,
    is_there: bool,
    exclude: Exclude,
    own: &Own,
) -> Result {
    let exclude = Rc::new(exclude);
    let meta = fs::metadata(top).map_err(Failure::host(top))?;
    let host = HostWalk::new(top, Rc::clone(&exclude))?;
    loader.copy_top(meta.mode(), mtime(&meta));
    let fs = Arc::clone(&loader.tree.fs);
    let mut pairs = Pairs::new(host, TreeWalk::new(Arc::clone(&fs), base.clone(), is_there));
    let (links, passed, gone) = (HashMap::new(), HashMap::new(), Vec::new());
    let mut import = Import { loader, fs, exclude, own, links, passed, gone };
    while let Some(pair) = pairs.next().await? {
        match pair {
            Pair::Host(entry) => import.bring(entry, None, &mut pairs.host).await?,
            Pair::Both(entry, there) => import.bring(entry, Some(&*there), &mut pairs.host).await?,
            Pair::Tree(path, entry) => import.only_in_tree(path, &entry).await?,
            Pair::Lost(path, failure) => {
                import.passed.extend(path.map(|path| (path, None)));
                import.loader.fail(failure)?;
            }
        }
    }
    let Import { loader, gone, .. } = import;
    for (path, below) in gone {
        loader.remove(loader.path_of(&path)?, below).await?;
    }
    Ok(())
}

/// Imports one file to `path`.
pub(crate) async fn from_file(loader: &mut Loader<'_>, from: &Path, path: TreePath) -> Result {
    let meta = fs::metadata(from).map_err(Failure::host(from))?;
    let there = loader.look_up(&path).await?;
    let mut content = Lazy::new(from, loader.report.interrupt());
    let what = What::File { size: meta.len(), content: &mut content, name: from };
    let source =
        Source { what, mode: meta.mode(), mtime: mtime(&meta), whole_seconds: false, more: SetAttrs::new() };
    match loader.add(path, there.as_ref(), source).await {
        Ok(_) => Ok(()),
        Err(failure) => loader.fail(failure),
    }
}

impl Import<'_, '_> {
    async fn bring(&mut self, entry: HostEntry, there: Option<&Entry>, host: &mut HostWalk) -> Result {
        let relative = entry.path.clone();
        match self.one(entry, there).await {
            Ok(true) => host.enter(&relative),
            Ok(false) => {}
            Err(failure) => {
                // What the tree has there stays.
                self.passed.insert(relative, None);
                self.loader.fail(failure)?;
            }
        }
        Ok(())
    }

    /// Imports one entry; gives whether it is a directory to go into.
    async fn one(&mut self, entry: HostEntry, there: Option<&Entry>) -> Result<bool> {
        let HostEntry { path, source, meta } = entry;
        let (kind, mode, mtime) = (meta.file_type(), meta.mode(), mtime(&meta));
        let to = self.loader.path_of(&path).map_err(|error| {
            Failure::Host(
                source.clone(),
                io::Error::new(io::ErrorKind::InvalidInput, error.message().to_owned()),
            )
        })?;
        let refuse =
            |why: &str| Failure::Host(source.clone(), io::Error::new(io::ErrorKind::Unsupported, why));
        let mut content = Lazy::new(&source, self.loader.report.interrupt());
        let what = if kind.is_dir() {
            if self.own.is(&meta) {
                return Err(Own::skipped(&source));
            }
            What::Directory
        } else if kind.is_symlink() {
            let target = fs::read_link(&source).map_err(Failure::host(&source))?;
            What::Symlink(target.to_str().ok_or_else(|| not_utf8(&source))?.to_owned())
        } else if !kind.is_file() {
            return Err(refuse("skipped, neither file, directory nor symbolic link"));
        } else if let Some(first) = self.first_name(&meta, &to) {
            What::HardLink(first)
        } else {
            What::File { size: meta.len(), content: &mut content, name: &source }
        };
        if there.is_some_and(|there| there.kind == Kind::Directory) && !kind.is_dir() {
            if self.loader.policy.delete && self.holds_excluded(&path).await? {
                return Err(Error::at(ErrorKind::IsADirectory, &to, HOLDS_EXCLUDED).into());
            }
            // It stays with all that is in it, or is replaced; either way its entries are no concern.
            self.passed.insert(path, None);
        }
        self.loader
            .add(to, there, Source { what, mode, mtime, whole_seconds: false, more: SetAttrs::new() })
            .await?;
        Ok(kind.is_dir())
    }

    /// The path that a file with several names was first given.
    fn first_name(&mut self, meta: &fs::Metadata, path: &TreePath) -> Option<TreePath> {
        if meta.nlink() == 1 {
            return None;
        }
        let first = self.links.entry((meta.dev(), meta.ino())).or_insert_with(|| path.clone());
        (first != path).then(|| first.clone())
    }

    async fn only_in_tree(&mut self, path: String, entry: &Entry) -> Result {
        let is_directory = entry.kind == Kind::Directory;
        let passed = self.passed.get(&path).or_else(|| self.passed.get(parts(&path).0)).copied();
        if let Some(top) = passed {
            if let Some((_, below)) = top.and_then(|top| self.gone.get_mut(top)) {
                *below += 1;
            }
            if is_directory {
                self.passed.insert(path, top);
            }
            return Ok(());
        }
        if !self.loader.policy.delete || self.exclude.leaves_out_above(&path, is_directory) {
            if is_directory {
                self.passed.insert(path, None);
            }
            return Ok(());
        }
        if is_directory {
            if self.holds_excluded(&path).await? {
                return Ok(()); // its entries are judged one by one
            }
            self.passed.insert(path.clone(), Some(self.gone.len()));
        }
        self.gone.push((path, 0));
        Ok(())
    }

    /// Whether a directory of the tree has something below it that is left out, and so stays.
    async fn holds_excluded(&self, path: &str) -> Result<bool> {
        if self.exclude.is_empty() {
            return Ok(false);
        }
        let top = self.loader.path_of(path)?;
        let mut page = WalkPage::default().limit(MAX_PAGE);
        loop {
            let walk = self.fs.walk(&(&top).into(), &page).await?;
            let start = top.key().len() - path.len();
            let leaves_out = |item: &WalkItem| {
                self.exclude.leaves_out(&item.path.key()[start..], item.kind == Kind::Directory)
            };
            if walk.items.iter().any(leaves_out) {
                return Ok(true);
            }
            if !walk.more {
                return Ok(false);
            }
            page.after = walk.items.last().map(|item| item.path.clone());
        }
    }
}

/// A file that is opened when it is first read.
struct Lazy {
    path: PathBuf,
    interrupt: Interrupt,
    open: Option<Guarded<File>>,
}

impl Lazy {
    fn new(path: &Path, interrupt: &Interrupt) -> Self {
        Self { path: path.to_owned(), interrupt: interrupt.clone(), open: None }
    }
}

impl Read for Lazy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.open.is_none() {
            self.open = Some(self.interrupt.guard(File::open(&self.path)?));
        }
        self.open.as_mut().map_or(Ok(0), |file| file.read(buffer))
    }
}
