//! Import of a folder or a file of this machine.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use garth_agent::workspace::layout;
use garth_engine::model::{Attributes, Entry, Kind, MAX_PAGE, SetAttrs, WalkItem, WalkPage};
use garth_engine::{Error, ErrorKind, FileSystem, TreePath};

use super::exclude::{Exclude, HOLDS_EXCLUDED};
use super::host::{HostEntry, HostWalk, mtime, not_utf8, parts};
use super::layout::{is_sidecar, read_sidecar};
use super::layout_walk::LayoutWalk;
use super::load::{Loader, Source, What};
use super::own::CurrentFolder;
use super::pairs::{Pair, Pairs, Side};
use super::tree_walk::{TreeItem, TreeWalk};
use crate::fail::{Failure, Result};
use crate::progress::{Interrupt, StoppableReader};

/// Import of a folder in progress.
struct Import<'l, 'a> {
    loader: &'l mut Loader<'a>,
    fs: Arc<dyn FileSystem>,
    exclude: Rc<Exclude>,
    own: &'l CurrentFolder,
    /// Hard links so far: device and inode on this machine, and the path of the first name.
    links: HashMap<(u64, u64), TreePath>,
    /// Directories of the tree whose entries are skipped: kept, or deleted with the directory at this index
    /// of `gone`.
    passed: HashMap<String, Option<usize>>,
    /// Paths that the source does not have, each with the number of entries below it.
    gone: Vec<(TreePath, u64)>,
}

/// Imports everything below `top`, which becomes `base`.
pub(crate) async fn from_folder(
    loader: &mut Loader<'_>,
    top: &Path,
    base: &TreePath,
    is_there: bool,
    exclude: Exclude,
    own: &CurrentFolder,
) -> Result {
    let exclude = Rc::new(exclude);
    let meta = fs::metadata(top).map_err(Failure::host(top))?;
    let host = HostWalk::new(top, Rc::clone(&exclude))?;
    loader.copy_top(meta.mode(), mtime(&meta));
    let fs = Arc::clone(&loader.tree.fs);
    let side = if loader.policy.layout {
        Side::Layout(LayoutWalk::new(Arc::clone(&fs)).await?)
    } else {
        Side::Whole(TreeWalk::new(Arc::clone(&fs), base.clone(), is_there))
    };
    let mut pairs = Pairs::new(host, side);
    let (links, passed, gone) = (HashMap::new(), HashMap::new(), Vec::new());
    let mut import = Import { loader, fs, exclude, own, links, passed, gone };
    while let Some(pair) = pairs.next().await? {
        match pair {
            Pair::Host(entry) => import.bring(entry, None, &mut pairs.host).await?,
            Pair::Both(entry, there) => import.bring(entry, Some(there), &mut pairs.host).await?,
            Pair::Tree(item) => import.only_in_tree(item).await?,
            Pair::Lost(path, failure) => {
                // Entries of a directory that cannot be read stay in the tree.
                import.passed.extend(path.map(|path| (path, None)));
                import.loader.fail(failure)?;
            }
        }
    }
    let Import { loader, gone, .. } = import;
    // At the end, so that an entry is deleted only after its replacement elsewhere was imported.
    for (path, below) in gone {
        loader.remove(path, below).await?;
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
    async fn bring(&mut self, entry: HostEntry, there: Option<TreeItem>, host: &mut HostWalk) -> Result {
        if self.loader.policy.layout && is_sidecar(&entry.source) {
            // A sidecar is imported with its file.
            return match there {
                Some(item) => self.only_in_tree(item).await,
                None => Ok(()),
            };
        }
        let relative = entry.path.clone();
        match self.one(entry, there.as_ref()).await {
            Ok(true) => host.enter(&relative),
            Ok(false) => {}
            Err(failure) => {
                // The tree keeps what it has there.
                self.passed.insert(relative, None);
                self.loader.fail(failure)?;
            }
        }
        Ok(())
    }

    /// Imports one entry. Returns true for a directory whose entries are to be imported.
    async fn one(&mut self, entry: HostEntry, item: Option<&TreeItem>) -> Result<bool> {
        let HostEntry { path, source, meta } = entry;
        let (kind, mode, mtime) = (meta.file_type(), meta.mode(), mtime(&meta));
        let there = item.map(|item| &*item.entry);
        let to = item.map_or_else(|| self.loader.path_of(&path), |item| Ok(item.at.clone()));
        let to = to.map_err(|error| {
            Failure::Host(
                source.clone(),
                io::Error::new(io::ErrorKind::InvalidInput, error.message().to_owned()),
            )
        })?;
        let refuse =
            |why: &str| Failure::Host(source.clone(), io::Error::new(io::ErrorKind::Unsupported, why));
        let mut content = Lazy::new(&source, self.loader.report.interrupt());
        let mut more = SetAttrs::new();
        let what = if kind.is_dir() {
            if self.own.is(&meta) {
                return Err(CurrentFolder::skipped(&source));
            }
            if item.is_some_and(|item| item.elsewhere) {
                return Ok(true); // a directory shown only for its entries
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
            if self.loader.policy.layout {
                more = attrs(&source, &path, there)?;
            }
            What::File { size: meta.len(), content: &mut content, name: &source }
        };
        if let Some(item) = item.filter(|item| item.entry.kind == Kind::Directory && !kind.is_dir()) {
            if self.loader.policy.delete && self.holds_excluded(item).await? {
                return Err(Error::at(ErrorKind::IsADirectory, &to, HOLDS_EXCLUDED).into());
            }
            // Whether the directory is kept or replaced, its entries need no comparison.
            self.passed.insert(path, None);
        }
        self.loader.add(to, there, Source { what, mode, mtime, whole_seconds: false, more }).await?;
        Ok(kind.is_dir())
    }

    /// Returns the path of the first name of a file, if `path` is another name of it.
    fn first_name(&mut self, meta: &fs::Metadata, path: &TreePath) -> Option<TreePath> {
        // Each object of a bucket has content and metadata of its own.
        if meta.nlink() == 1 || self.loader.policy.layout {
            return None;
        }
        let first = self.links.entry((meta.dev(), meta.ino())).or_insert_with(|| path.clone());
        (first != path).then(|| first.clone())
    }

    async fn only_in_tree(&mut self, item: TreeItem) -> Result {
        let is_directory = item.entry.kind == Kind::Directory;
        let path = &item.path;
        let passed = self.passed.get(path).or_else(|| self.passed.get(parts(path).0)).copied();
        // An entry that is stored elsewhere is not deleted with the directory that shows it.
        if let Some(top) = passed.filter(|top| top.is_none() || !item.elsewhere) {
            if let Some((_, below)) = top.and_then(|top| self.gone.get_mut(top)) {
                *below += 1;
            }
            if is_directory {
                self.passed.insert(item.path, top);
            }
            return Ok(());
        }
        if !self.loader.policy.delete || self.exclude.leaves_out_above(path, is_directory) {
            if is_directory {
                self.passed.insert(item.path, None);
            }
            return Ok(());
        }
        if is_directory {
            if self.holds_excluded(&item).await? {
                return Ok(()); // its entries are compared one by one
            }
            self.passed.insert(item.path, Some(self.gone.len()));
        }
        self.gone.push((item.at, 0));
        Ok(())
    }

    /// Returns true if a directory of the tree contains excluded entries, and so must be kept.
    async fn holds_excluded(&self, dir: &TreeItem) -> Result<bool> {
        let is_layout = self.loader.policy.layout;
        if dir.elsewhere {
            return Ok(true);
        }
        if self.exclude.is_empty() && !is_layout {
            return Ok(false);
        }
        let mut page = WalkPage::default().limit(MAX_PAGE);
        page.entries = is_layout;
        loop {
            let walk = self.fs.walk(&(&dir.at).into(), &page).await?;
            // Patterns match paths from the top of the import.
            let start = dir.at.key().len() - dir.path.len();
            let leaves_out = |item: &WalkItem| {
                self.exclude.leaves_out(&item.path.key()[start..], item.kind == Kind::Directory)
                    || is_layout && item.entry.as_ref().is_some_and(|entry| stays(&item.path, entry))
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

/// Returns true if the entry is not part of the layout, or is shown elsewhere in it.
fn stays(path: &TreePath, entry: &Entry) -> bool {
    layout::is_own(path, entry.target.as_deref()) || layout::moved_from(path, &entry.attributes).is_some()
}

/// Returns the attributes that the sidecar of a file sets. `path` is the path in the layout.
fn attrs(source: &Path, path: &str, there: Option<&Entry>) -> Result<SetAttrs> {
    let key = TreePath::parse(&format!("/{path}"))?;
    let none = Attributes::default();
    let there = there.map_or(&none, |entry| &entry.attributes);
    Ok(read_sidecar(source)?.attrs(layout::media_id(&key), there))
}

/// File that is opened at the first read, because most files are not read.
struct Lazy {
    path: PathBuf,
    interrupt: Interrupt,
    open: Option<StoppableReader<File>>,
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
