//! Directories and subtrees page by page, so that no verb holds a large one in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use garth::model::query::{Item, Page, WalkPage};
use garth::model::{At, Entry, Kind};
use garth::{FileSystem, Name, Result, TreePath};

use crate::app::find;
use garth::resolve::Follow;

/// Items of one page: enough that the paging costs little.
const PAGE: usize = 1000;

/// A path and its node, and everything below it, in the order of `walk`.
pub(crate) struct Walker {
    fs: Arc<dyn FileSystem>,
    top: TreePath,
    ready: VecDeque<(TreePath, Entry)>,
    after: Option<TreePath>,
    more: bool,
}

impl Walker {
    /// Starts at a path that a person wrote. With `itself`, the path is the first item.
    pub(crate) async fn new(
        fs: Arc<dyn FileSystem>,
        path: &str,
        follow: Follow,
        itself: bool,
    ) -> Result<Self> {
        let (top, entry) = find(&*fs, path, follow).await?;
        let more = entry.kind == Kind::Directory;
        let ready = if itself { VecDeque::from([(top.clone(), entry)]) } else { VecDeque::new() };
        Ok(Self { fs, top, ready, after: None, more })
    }

    /// The canonical path it started at.
    pub(crate) fn top(&self) -> &TreePath {
        &self.top
    }

    /// The next path.
    pub(crate) async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if !self.more {
                return Ok(None);
            }
            let page = WalkPage { after: self.after.take(), limit: PAGE, entries: true };
            let walk = self.fs.walk(&At::Path(self.top.clone()), &page).await?;
            self.more = walk.more;
            self.after = walk.items.last().map(|item| item.path.clone());
            self.ready.extend(walk.items.into_iter().filter_map(|item| Some((item.path, *item.entry?))));
        }
    }
}

/// The names of one directory.
pub(crate) struct Lister<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a TreePath,
    after: Option<Name>,
    more: bool,
}

impl<'a> Lister<'a> {
    pub(crate) fn new(fs: &'a dyn FileSystem, dir: &'a TreePath) -> Self {
        Self { fs, dir, after: None, more: true }
    }

    /// The next page, each item with its entry; empty only at the end.
    pub(crate) async fn page(&mut self) -> Result<Vec<Item>> {
        if !self.more {
            return Ok(Vec::new());
        }
        let page = Page { after: self.after.take(), limit: PAGE, entries: true };
        let listing = self.fs.list(&At::Path(self.dir.clone()), &page).await?;
        self.more = listing.more;
        self.after = listing.items.last().map(|item| item.name.clone());
        Ok(listing.items)
    }
}
