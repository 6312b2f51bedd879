//! A folder of this machine and a directory of the tree side by side, so that a sync needs no look-up for
//! each entry and holds a page of the tree in memory.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use garth::model::{At, Entry, MAX_PAGE, Walk, WalkPage};
use garth::{FileSystem, TreePath};
use tokio::task::JoinHandle;

use super::host::{HostEntry, HostWalk, Step, order};
use crate::fail::{Failure, Result};

/// What stands at one path.
pub(crate) enum Pair {
    /// Only in the folder.
    Host(HostEntry),
    /// Only in the tree.
    Tree(String, Box<Entry>),
    /// In both.
    Both(HostEntry, Box<Entry>),
    /// An entry or directory of the folder that cannot be read.
    Lost(Option<String>, Failure),
}

/// Both sides.
pub(crate) struct Pairs {
    pub(crate) host: HostWalk,
    tree: TreeWalk,
    ahead: Option<HostEntry>,
}

impl Pairs {
    pub(crate) fn new(host: HostWalk, tree: TreeWalk) -> Self {
        Self { host, tree, ahead: None }
    }

    /// What stands at the next path of either side.
    pub(crate) async fn next(&mut self) -> Result<Option<Pair>> {
        if self.ahead.is_none() {
            match self.host.next() {
                Some(Step::Entry(entry)) => self.ahead = Some(entry),
                Some(Step::Lost(path, failure)) => return Ok(Some(Pair::Lost(path, failure))),
                None => {}
            }
        }
        let first = match (&self.ahead, self.tree.peek().await?) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(host), Some(tree)) => order(&host.path, tree),
        };
        let host = if first.is_le() { self.ahead.take() } else { None };
        let tree = if first.is_ge() { self.tree.ready.pop_front() } else { None };
        Ok(match (host, tree) {
            (Some(host), Some((_, entry))) => Some(Pair::Both(host, entry)),
            (Some(host), None) => Some(Pair::Host(host)),
            (None, Some((path, entry))) => Some(Pair::Tree(path, entry)),
            (None, None) => None,
        })
    }
}

/// Everything below a directory of the tree; the next page is read while one is in use.
pub(crate) struct TreeWalk {
    fs: Arc<dyn FileSystem>,
    top: TreePath,
    ready: VecDeque<(String, Box<Entry>)>,
    coming: Option<JoinHandle<garth::Result<Walk>>>,
}

impl TreeWalk {
    /// Begins below `top`, or if that is not there, ends at once.
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

    /// The next path, relative to the top.
    async fn peek(&mut self) -> Result<Option<&str>> {
        while self.ready.is_empty() {
            let Some(page) = self.coming.take() else { return Ok(None) };
            let walk = page.await.map_err(|error| Failure::stdio(error.into()))??;
            if walk.more {
                self.fetch(walk.items.last().map(|item| item.path.clone()));
            }
            let start = self.top.key().len() + 1;
            let relative = |path: &TreePath| path.key()[start..].to_owned();
            self.ready
                .extend(walk.items.into_iter().filter_map(|item| Some((relative(&item.path), item.entry?))));
        }
        Ok(self.ready.front().map(|(path, _)| path.as_str()))
    }
}
