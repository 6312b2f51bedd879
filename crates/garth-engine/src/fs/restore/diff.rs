//! Differences between two states of a directory: names, identified by the inode of their directory, so that
//! a directory that was moved differs by its own name only.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{Entry, Ino, Kind, MAX_OPS, Timestamp, VersionId, WalkItem, WalkPage};
use crate::path::{Name, TreePath};

/// Items in one page of a walk.
const PAGE: usize = 1000;
/// Limit on the names held in memory because they differ, or may. Everything below a directory that was moved
/// may differ until both of its places have been read.
const MAX_DIFFERENT: usize = 10 * MAX_OPS;

/// Name with the inode of its directory.
pub(super) type Key = (Ino, Name);

/// Name in one of the states.
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

    /// Returns true if the node may have other names.
    fn linked(&self) -> bool {
        !self.is_dir() && self.entry.nlink > 1
    }
}

/// Current node, by one of its names.
#[derive(Clone, Debug)]
pub(super) struct CurrentNode {
    pub(super) path: TreePath,
    pub(super) entry: Box<Entry>,
}

/// Current directory as it was before its names were read. A change of one of them changes the version.
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

/// Differences of a directory.
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// Past names that are missing now, or name another node.
    pub(super) past: Vec<Item>,
    /// Current names that were missing then, or named another node.
    pub(super) now: HashMap<Key, Item>,
    /// Names of one node in both states whose node has changed: the past and the current one.
    pub(super) changed: Vec<(Item, Item)>,
    /// Current nodes with several names of which at least one is the same in both states, by that name.
    pub(super) linked: HashMap<Ino, CurrentNode>,
    /// Number of names that a node with several names has below the directory now, and the version that all
    /// of them showed.
    pub(super) inside: HashMap<Ino, (u64, VersionId)>,
    /// Current directories.
    pub(super) dirs: HashMap<Ino, Dir>,
    /// Number of unchanged names.
    pub(super) unchanged: u64,
}

/// Compares the past entries of directory `then` with the current ones of `now`, which is at the same path.
/// Without `now`, all past names are missing.
pub(super) async fn diff<P, F>(past: &P, fs: &F, path: &TreePath, then: Ino, now: Option<Ino>) -> Result<Diff>
where
    P: FileSystem + ?Sized,
    F: FileSystem + ?Sized,
{
    let mut diff = Diff::default();
    let mut waiting: HashMap<Key, Item> = HashMap::new();
    let mut left = Cursor::new(past, path, then);
    let mut right = Cursor::new(fs, path, now.unwrap_or(Ino::NONE));
    right.more = now.is_some();
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
                let key = same_directory(&item.key, then, now.unwrap_or(then));
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
    // From the top down: the plan restores a directory before its entries.
    diff.past.sort_by(|a, b| order(&a.path).cmp(&order(&b.path)));
    Ok(diff)
}

/// Returns the position of a path in the order of a walk.
pub(super) fn order(path: &TreePath) -> Option<(&str, &str)> {
    path.key().rsplit_once('/')
}

/// Replaces the inode of the directory itself, which may be another node now: past entries of one are
/// compared with current entries of the other.
fn same_directory(key: &Key, then: Ino, now: Ino) -> Key {
    let dir = match key.0 {
        dir if dir == then => now,
        // The current node was elsewhere below the path then; its entries were not those of the path.
        dir if dir == now => Ino::NONE,
        dir => dir,
    };
    (dir, key.1.clone())
}

/// Returns the error of a restore that does not fit into a batch.
pub(super) fn too_much(path: &TreePath) -> Error {
    let message = format!(
        "the restore takes more than {MAX_OPS} operations, the limit of one commit; restore the directories below one by one"
    );
    Error::at(ErrorKind::TooLarge, path, message)
}

impl Diff {
    /// Counts a current name. A node that shows with two versions, or a directory that shows twice, moved
    /// while the tree was read.
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
            let there = CurrentNode { path: now.path.clone(), entry: now.entry.clone() };
            self.linked.insert(now.ino(), there);
        }
        if past.entry.version == now.entry.version {
            self.unchanged += 1;
        } else {
            self.changed.push((past, now));
        }
    }

    /// Returns the nodes of the past names that differ, and those of `linked`.
    pub(super) fn past_nodes(&self) -> HashSet<Ino> {
        self.past.iter().map(Item::ino).chain(self.linked.keys().copied()).collect()
    }
}

/// Walk, page by page, that knows the inode of each directory.
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
        // A directory that was created during the walk may be missing.
        let dir = *self.dirs.get(&dir).ok_or_else(|| changing(self.top))?;
        if entry.kind == Kind::Directory {
            self.dirs.insert(path.clone(), entry.ino);
        }
        Ok(Some(Item { path, key: (dir, name), entry }))
    }
}

/// Returns the error of a tree that changed while it was read. The restore is planned again.
pub(super) fn changing(path: &TreePath) -> Error {
    Error::at(ErrorKind::Conflict, path, "changed while it was read")
}
