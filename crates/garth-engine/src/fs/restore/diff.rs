//! What differs between two moments of a directory: names, told by the number of their directory, so that a
//! directory that was moved differs by its own name only.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{Entry, Ino, Kind, MAX_OPS, Timestamp, VersionId, WalkItem, WalkPage};
use crate::path::{Name, TreePath};

/// Items of one page of a walk.
const PAGE: usize = 1000;
/// Most names that are kept in memory because they differ, or may. A directory that was moved has all below
/// it differ until both of its places have been read.
const MAX_DIFFERENT: usize = 10 * MAX_OPS;

/// A name by the number of its directory.
pub(super) type Key = (Ino, Name);

/// One name at one moment.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) path: TreePath,
    pub(super) key: Key,
    pub(super) entry: Box<Entry>,
}

impl Item {
    pub(super) fn ino(&self) -> Ino {
        self.entry.ino
    }

    pub(super) fn is_dir(&self) -> bool {
        self.entry.kind == Kind::Directory
    }

    /// Whether the node may have other names.
    fn linked(&self) -> bool {
        !self.is_dir() && self.entry.nlink > 1
    }
}

/// A node of now under one of its names.
#[derive(Clone, Debug)]
pub(super) struct There {
    pub(super) path: TreePath,
    pub(super) entry: Box<Entry>,
}

/// A directory of now as it was before its names were read: if any of them has changed since, its version
/// has.
#[derive(Clone, Debug)]
pub(super) struct Dir {
    pub(super) path: TreePath,
    pub(super) version: VersionId,
    pub(super) mtime: Timestamp,
}

impl Dir {
    pub(super) fn of(path: &TreePath, entry: &Entry) -> Self {
        Self { path: path.clone(), version: entry.version, mtime: entry.mtime }
    }
}

/// The differences of a directory.
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// Names of then that are not there now, or name another node.
    pub(super) past: Vec<Item>,
    /// Names of now that were not there then, or named another node.
    pub(super) now: HashMap<Key, Item>,
    /// Names of the same node at both moments whose node has changed: then and now.
    pub(super) changed: Vec<(Item, Item)>,
    /// Nodes with several names of which one at least is the same at both moments: that name, and what they
    /// are now.
    pub(super) linked: HashMap<Ino, There>,
    /// How many names below the directory a node with several names has now, and the version that all of them
    /// showed.
    pub(super) inside: HashMap<Ino, (u64, VersionId)>,
    /// Directories of now.
    pub(super) dirs: HashMap<Ino, Dir>,
    /// Names that are as they were.
    pub(super) unchanged: u64,
}

/// Compares what was below directory `then` with what is below `now`, the same path at both moments.
pub(super) async fn diff<P, F>(past: &P, fs: &F, path: &TreePath, then: Ino, now: Ino) -> Result<Diff>
where
    P: FileSystem + ?Sized,
    F: FileSystem + ?Sized,
{
    let mut diff = Diff::default();
    let mut waiting: HashMap<Key, Item> = HashMap::new();
    let mut left = Cursor::new(past, path, then);
    let mut right = Cursor::new(fs, path, now);
    let (mut before, mut after) = (left.next().await?, right.next().await?);
    loop {
        // Both walks are in the same order: taking the smaller keeps them in step, and
        // little waits for its other half.
        let take_past = match (&before, &after) {
            (None, None) => break,
            (Some(before), Some(after)) => order(&before.path) <= order(&after.path),
            (before, _) => before.is_some(),
        };
        if take_past {
            if let Some(item) = before.take() {
                let key = same_directory(&item.key, then, now);
                match diff.now.entry(key.clone()) {
                    Slot::Occupied(slot) if slot.get().ino() == item.ino() => {
                        let other = slot.remove();
                        diff.pair(item, other);
                    }
                    _ => drop(waiting.insert(key, item)),
                }
            }
            before = left.next().await?;
        } else {
            if let Some(item) = after.take() {
                diff.count(&item, path)?;
                match waiting.entry(item.key.clone()) {
                    Slot::Occupied(slot) if slot.get().ino() == item.ino() => {
                        let other = slot.remove();
                        diff.pair(other, item);
                    }
                    _ => drop(diff.now.insert(item.key.clone(), item)),
                }
            }
            after = right.next().await?;
        }
        if waiting.len() + diff.now.len() + diff.changed.len() > MAX_DIFFERENT {
            return Err(too_much(path));
        }
    }
    diff.past = waiting.into_values().collect();
    diff.past.sort_by(|a, b| order(&a.path).cmp(&order(&b.path)));
    Ok(diff)
}

/// The order of a walk.
pub(super) fn order(path: &TreePath) -> Option<(&str, &str)> {
    path.key().rsplit_once('/')
}

/// The directory itself may be another node now: what was in the one is compared with what is in the other.
fn same_directory(key: &Key, then: Ino, now: Ino) -> Key {
    let dir = match key.0 {
        dir if dir == then => now,
        dir if dir == now => Ino::NONE,
        dir => dir,
    };
    (dir, key.1.clone())
}

/// The error of a restore that a batch cannot hold.
pub(super) fn too_much(path: &TreePath) -> Error {
    let message = format!(
        "too much differs to be restored in one commit of at most {MAX_OPS} operations; \
         restore the directories below it one by one"
    );
    Error::at(ErrorKind::TooLarge, path, message)
}

impl Diff {
    /// Counts a name of now. What shows twice and differs, or is a directory, moved while it was read.
    fn count(&mut self, item: &Item, top: &TreePath) -> Result<()> {
        if item.is_dir() {
            let dir = Dir::of(&item.path, &item.entry);
            return self.dirs.insert(item.ino(), dir).map_or(Ok(()), |_| Err(changing(top)));
        }
        if item.linked() {
            let version = item.entry.version;
            let (count, seen) = self.inside.entry(item.ino()).or_insert((0, version));
            if *seen != version {
                return Err(changing(top));
            }
            *count += 1;
        }
        Ok(())
    }

    fn pair(&mut self, past: Item, now: Item) {
        if past.linked() || now.linked() {
            let there = There { path: now.path.clone(), entry: now.entry.clone() };
            self.linked.insert(now.ino(), there);
        }
        if past.entry.version == now.entry.version {
            self.unchanged += 1;
        } else {
            self.changed.push((past, now));
        }
    }

    /// Every node that a past name differs by.
    pub(super) fn past_nodes(&self) -> HashSet<Ino> {
        self.past.iter().map(Item::ino).chain(self.linked.keys().copied()).collect()
    }
}

/// A walk, page by page, that knows the number of each directory.
struct Cursor<'a, F: ?Sized> {
    fs: &'a F,
    top: &'a TreePath,
    dirs: HashMap<TreePath, Ino>,
    ready: VecDeque<WalkItem>,
    after: Option<TreePath>,
    more: bool,
}

impl<'a, F: FileSystem + ?Sized> Cursor<'a, F> {
    fn new(fs: &'a F, top: &'a TreePath, ino: Ino) -> Self {
        let dirs = HashMap::from([(top.clone(), ino)]);
        Self { fs, top, dirs, ready: VecDeque::new(), after: None, more: true }
    }

    async fn next(&mut self) -> Result<Option<Item>> {
        while self.ready.is_empty() {
            if !self.more {
                return Ok(None);
            }
            let page = WalkPage { after: self.after.take(), limit: PAGE, entries: true };
            let walk = self.fs.walk(&self.top.into(), &page).await?;
            self.more = walk.more;
            self.after = walk.items.last().map(|item| item.path.clone());
            self.ready.extend(walk.items);
        }
        let Some(WalkItem { path, entry: Some(entry), .. }) = self.ready.pop_front() else {
            return Err(Error::at(
                ErrorKind::Corrupt,
                self.top,
                "a walk left out the entries that it was asked for",
            ));
        };
        let Some((dir, name)) = path.split() else { return Err(changing(self.top)) };
        // A directory that was made while the walk was on its way may be missing.
        let dir = *self.dirs.get(&dir).ok_or_else(|| changing(self.top))?;
        if entry.kind == Kind::Directory {
            self.dirs.insert(path.clone(), entry.ino);
        }
        Ok(Some(Item { path, key: (dir, name), entry }))
    }
}

/// The error of a tree that changed while it was read; the restore is planned again.
pub(super) fn changing(path: &TreePath) -> Error {
    Error::at(ErrorKind::Conflict, path, "changed while it was read")
}
