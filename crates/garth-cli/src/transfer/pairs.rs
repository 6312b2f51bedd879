//! Merged walk of a folder of this machine and a directory of the tree. A sync needs no lookup for each
//! entry, and holds one page of the tree in memory.

use std::cmp::Ordering;

use super::host::{HostEntry, HostWalk, Step, order};
use super::layout_walk::LayoutWalk;
use super::tree_walk::{TreeItem, TreeWalk};
use crate::fail::{Failure, Result};

/// Entries with one path.
pub(crate) enum Pair {
    /// Only in the folder.
    Host(HostEntry),
    /// Only in the tree.
    Tree(TreeItem),
    /// In both.
    Both(HostEntry, TreeItem),
    /// Entry or directory of the folder that cannot be read.
    Lost(Option<String>, Failure),
}

/// Tree side of the walk.
pub(crate) enum Side {
    /// All entries.
    Whole(TreeWalk),
    /// Entries of the layout of a bucket.
    Layout(LayoutWalk),
}

impl Side {
    async fn peek(&mut self) -> Result<Option<&str>> {
        match self {
            Self::Whole(walk) => walk.peek().await,
            Self::Layout(walk) => walk.peek().await,
        }
    }

    fn pop(&mut self) -> Option<TreeItem> {
        match self {
            Self::Whole(walk) => walk.pop(),
            Self::Layout(walk) => walk.pop(),
        }
    }
}

/// Merged walk of both sides.
pub(crate) struct Pairs {
    pub(crate) host: HostWalk,
    pub(crate) tree: Side,
    ahead: Option<HostEntry>,
}

impl Pairs {
    pub(crate) fn new(host: HostWalk, tree: Side) -> Self {
        Self { host, tree, ahead: None }
    }

    /// Returns the entries with the next path of either side.
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
        let tree = if first.is_ge() { self.tree.pop() } else { None };
        Ok(match (host, tree) {
            (Some(host), Some(item)) => Some(Pair::Both(host, item)),
            (Some(host), None) => Some(Pair::Host(host)),
            (None, Some(item)) => Some(Pair::Tree(item)),
            (None, None) => None,
        })
    }
}
