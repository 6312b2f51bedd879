//! Paged walks of directories and subtrees, so that no verb holds a large one in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use garth_engine::model::{At, Entry, Kind, Page, WalkPage};
use garth_engine::{FileSystem, Name, Result, TreePath};

use crate::app::stat_path;
use garth_engine::fs::resolve::Follow;

/// Items of one page: enough that paging costs little.
const PAGE: usize = 1000;

/// Walk of a path and everything below it, in the order of `walk`.
pub(crate) struct Walker {
    fs: Arc<dyn FileSystem>,
    top: TreePath,
    ready: VecDeque<(TreePath, Entry)>,
    after: Option<TreePath>,
    more: bool,
}

impl Walker {
    /// Starts at a path as the user wrote it. With `itself`, the path is the first item.
    pub(crate) async fn new(
        fs: Arc<dyn FileSystem>,
        path: &str,
        follow: Follow,
        itself: bool,
    ) -> Result<Self> {
        let (top, entry) = stat_path(&*fs, path, follow).await?;
        let more = entry.kind == Kind::Directory;
        let ready = if itself { VecDeque::from([(top.clone(), entry)]) } else { VecDeque::new() };
        Ok(Self { fs, top, ready, after: None, more })
    }

    /// Returns the next path.
    pub(crate) async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if !self.more {
                return Ok(None);
            }
            let page = WalkPage::default().after(self.after.take()).limit(PAGE).with_entries();
            let walk = self.fs.walk(&At::from(&self.top), &page).await?;
            self.more = walk.more;
            self.after = walk.items.last().map(|item| item.path.clone());
            self.ready.extend(walk.items.into_iter().filter_map(|item| Some((item.path, *item.entry?))));
        }
    }
}

/// Paged listing of one directory.
pub(crate) struct Lister {
    dir: TreePath,
    after: Option<Name>,
    more: bool,
}

impl Lister {
    pub(crate) fn new(dir: &TreePath) -> Self {
        Self { dir: dir.clone(), after: None, more: true }
    }

    /// Returns the next page of paths and entries; it is empty only at the end.
    pub(crate) async fn page(&mut self, fs: &dyn FileSystem) -> Result<Vec<(TreePath, Entry)>> {
        if !self.more {
            return Ok(Vec::new());
        }
        let page = Page::default().after(self.after.take()).limit(PAGE).with_entries();
        let listing = fs.list(&At::from(&self.dir), &page).await?;
        self.more = listing.more;
        self.after = listing.items.last().map(|item| item.name.clone());
        let items = listing.items.into_iter().filter_map(|item| Some((item.name, *item.entry?)));
        items.map(|(name, entry)| Ok((self.dir.join(&name)?, entry))).collect()
    }
}

/// Depth-first walk of a directory, each directory before its contents. Archives need this order: an unpacker
/// sets the time of a directory after its contents are complete.
pub(crate) struct DepthFirst {
    fs: Arc<dyn FileSystem>,
    /// Directories on the way down, each with the rest of its page.
    open: Vec<(Lister, VecDeque<(TreePath, Entry)>)>,
    depth: usize,
}

impl DepthFirst {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, top: &TreePath) -> Self {
        Self { fs, open: vec![(Lister::new(top), VecDeque::new())], depth: 0 }
    }

    /// Returns the next path.
    pub(crate) async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        while let Some((lister, ready)) = self.open.last_mut() {
            if let Some((path, entry)) = ready.pop_front() {
                self.depth = self.open.len();
                if entry.kind == Kind::Directory {
                    self.open.push((Lister::new(&path), VecDeque::new()));
                }
                return Ok(Some((path, entry)));
            }
            ready.extend(lister.page(&*self.fs).await?);
            if ready.is_empty() {
                self.open.pop();
            }
        }
        Ok(None)
    }

    /// Returns the depth of the last path below the top; 1 for a name in the top.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Skips the contents of the last path.
    pub(crate) fn skip(&mut self) {
        // `next` opened the directory that it returned, one level below its own.
        self.open.truncate(self.depth);
    }

    /// Returns true if the last path is the last name in its directory.
    pub(crate) async fn is_last(&mut self) -> Result<bool> {
        let Some((lister, ready)) = self.depth.checked_sub(1).and_then(|at| self.open.get_mut(at)) else {
            return Ok(true);
        };
        // The last name of a page may not be the last of the directory.
        if ready.is_empty() {
            ready.extend(lister.page(&*self.fs).await?);
        }
        Ok(ready.is_empty())
    }
}
