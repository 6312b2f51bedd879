//! Walk of a directory of the tree, as a side of a sync.

use std::collections::VecDeque;
use std::sync::Arc;

use garth_engine::model::{At, Entry, MAX_PAGE, Walk, WalkPage};
use garth_engine::{FileSystem, TreePath};
use tokio::task::JoinHandle;

use crate::fail::{Failure, Result};

/// Entry below the top.
pub(crate) struct TreeItem {
    /// Path from the top, with `/` between names.
    pub(crate) path: String,
    /// Path at which it is stored in the tree.
    pub(crate) at: TreePath,
    pub(crate) entry: Box<Entry>,
    /// True if it is stored at another path than it is shown: media that a reset moved, and directories that
    /// exist only for these.
    pub(crate) elsewhere: bool,
}

/// Walk of everything below a directory of the tree. The next page is read while one is in use.
pub(crate) struct TreeWalk {
    fs: Arc<dyn FileSystem>,
    top: TreePath,
    ready: VecDeque<TreeItem>,
    coming: Option<JoinHandle<garth_engine::Result<Walk>>>,
}

impl TreeWalk {
    /// Starts below `top`. Ends at once if `top` does not exist.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, top: TreePath, is_there: bool) -> Self {
        let mut walk = Self { fs, top, ready: VecDeque::new(), coming: None };
        if is_there {
            walk.fetch(None);
        }
        walk
    }

    fn fetch(&mut self, after: Option<TreePath>) {
        let (fs, top) = (Arc::clone(&self.fs), At::Path(self.top.clone()));
        let page = WalkPage::default().after(after).limit(MAX_PAGE).with_entries();
        self.coming = Some(tokio::spawn(async move { fs.walk(&top, &page).await }));
    }

    /// Returns the next path, relative to the top.
    pub(crate) async fn peek(&mut self) -> Result<Option<&str>> {
        while self.ready.is_empty() {
            let Some(page) = self.coming.take() else { return Ok(None) };
            let walk = page.await.map_err(|error| Failure::stdio(error.into()))??;
            if walk.more {
                self.fetch(walk.items.last().map(|item| item.path.clone()));
            }
            let start = self.top.key().len() + 1;
            self.ready.extend(walk.items.into_iter().filter_map(|item| {
                let path = item.path.key()[start..].to_owned();
                Some(TreeItem { path, at: item.path, entry: item.entry?, elsewhere: false })
            }));
        }
        Ok(self.ready.front().map(|item| item.path.as_str()))
    }

    /// Takes the entry whose path [`TreeWalk::peek`] returned.
    pub(crate) fn pop(&mut self) -> Option<TreeItem> {
        self.ready.pop_front()
    }
}
