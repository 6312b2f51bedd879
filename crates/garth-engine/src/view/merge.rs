//! Merge of several streams in the order of a walk, page by page. Each stream is read only as far as the page
//! needs.

use std::collections::VecDeque;

use futures::future::BoxFuture;

use crate::error::Result;
use crate::model::{Filling, Listing, WalkItem, Weigh};
use crate::path::{MAX_NAME, Name, TreePath};

/// Item with a path.
pub(super) trait Pathed {
    fn path(&self) -> &TreePath;
}

impl Pathed for WalkItem {
    fn path(&self) -> &TreePath {
        &self.path
    }
}

impl Pathed for TreePath {
    fn path(&self) -> &TreePath {
        self
    }
}

/// Returns the position of a path in the order of a walk: the directory, and the name in it.
pub(super) fn key(path: &TreePath) -> (&str, &str) {
    path.key().rsplit_once('/').unwrap_or_default()
}

/// Stream of the items that one source has at and below a directory of the tree.
pub(super) struct Stream<T> {
    /// Identifies the stream for [`Read`].
    pub(super) id: usize,
    /// Lower bound of the items still to come: a directory and a name in it.
    bound: (String, String),
    /// Path of the tree after which the source continues.
    after: Option<TreePath>,
    waiting: VecDeque<T>,
    more: bool,
}

impl<T> Stream<T> {
    /// Returns the stream of the items below `top`, after `after`; `None` if there can be none.
    pub(super) fn new(id: usize, top: &TreePath, after: Option<&TreePath>) -> Option<Self> {
        let mut bound = (top.key().to_owned(), String::new());
        let mut from = None;
        if let Some(after) = after {
            let (dir, _) = key(after);
            let below = format!("{}/", top.key());
            if after.is_within(top) && after != top {
                from = Some(after.clone());
            } else if dir > top.key() && dir < below.as_str() {
                // `/a-` comes between `/a` and `/a/x`: the names in `/a` have passed, those in its
                // subdirectories have not.
                let last = last_name().and_then(|name| top.join(&name).ok());
                from = Some(last?);
            } else if dir > top.key() {
                return None;
            }
        }
        if let Some(from) = &from {
            let (dir, name) = key(from);
            bound = (dir.to_owned(), name.to_owned());
        }
        Some(Self { id, bound, after: from, waiting: VecDeque::new(), more: true })
    }

    /// Returns a stream of items in memory, which are in order.
    pub(super) fn of(id: usize, items: impl IntoIterator<Item = T>) -> Self {
        let waiting = items.into_iter().collect();
        Self { id, bound: Default::default(), after: None, waiting, more: false }
    }
}

impl<T: Pathed> Stream<T> {
    /// Returns the position of the next item; before it has been read, the lower bound.
    fn next(&self) -> Option<(&str, &str)> {
        match self.waiting.front() {
            Some(item) => Some(key(item.path())),
            None => self.more.then_some((self.bound.0.as_str(), self.bound.1.as_str())),
        }
    }
}

/// Returns the name that sorts after all others: 63 characters of 4 bytes, and one of 3.
fn last_name() -> Option<Name> {
    Name::parse(&format!("{}\u{ffff}", "\u{10ffff}".repeat(MAX_NAME / 4))).ok()
}

/// Page of a stream.
pub(super) struct Piece<T> {
    pub(super) items: Vec<T>,
    /// Path of the tree after which the stream continues, if there may be more.
    pub(super) next: Option<TreePath>,
}

/// Reads a page of a stream: its `id`, the path of the tree after which to start, and the limit on the items.
pub(super) type Read<'a, T> =
    dyn Fn(usize, Option<TreePath>, usize) -> BoxFuture<'a, Result<Piece<T>>> + Send + Sync + 'a;

/// Returns a page of several streams. Of items with one path, that of the first stream counts.
pub(super) async fn merged<T: Pathed + Weigh>(
    mut streams: Vec<Stream<T>>,
    limit: usize,
    read: &Read<'_, T>,
) -> Result<Listing<T>> {
    let mut filling = Filling::new(limit);
    let mut last: Option<TreePath> = None;
    loop {
        // A bound counts like an item: nothing may be returned before a stream that could have something
        // smaller. Of equal positions the smaller index wins, so the first stream's item comes first.
        let next = streams.iter().enumerate().filter_map(|(at, stream)| Some((stream.next()?, at)));
        let Some(at) = next.min().map(|(_, at)| at) else { break };
        let stream = &mut streams[at];
        match stream.waiting.pop_front() {
            Some(item) if last.as_ref() == Some(item.path()) => {}
            Some(item) => {
                last = Some(item.path().clone());
                if !filling.push(item) {
                    break;
                }
            }
            None => {
                // A full page still reads one item, which tells whether there is more.
                let page = read(stream.id, stream.after.take(), filling.room().max(1)).await?;
                stream.more = page.next.is_some();
                if let Some(next) = &page.next {
                    let (dir, name) = key(next);
                    stream.bound = (dir.to_owned(), name.to_owned());
                }
                stream.after = page.next;
                stream.waiting = page.items.into();
            }
        }
    }
    Ok(filling.done())
}
