//! Walk of an account in the layout of a bucket, in the order of a sync. Paths reserved for garth are left
//! out, and media that a reset moved are shown at their old paths.

use std::cmp::Reverse;
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
use std::sync::Arc;

use garth_agent::workspace::layout;
use garth_engine::error::OptionalExt as _;
use garth_engine::model::{At, Entry, Kind, MAX_PAGE, Page};
use garth_engine::{FileSystem, Name, TreePath};

use super::host::parts;
use super::tree_walk::TreeItem;
use crate::fail::Result;

/// Walk of the layout. It enters each directory that belongs to the layout.
pub(crate) struct LayoutWalk {
    fs: Arc<dyn FileSystem>,
    moved: Relocations,
    /// Directories to read. The smallest one is next: everything below a directory is larger than itself.
    pending: BinaryHeap<Reverse<String>>,
    /// Directory being read, and the name after which it continues.
    dir: Option<(String, Option<Name>)>,
    ready: VecDeque<TreeItem>,
    left_out: u64,
}

/// Entries that are shown at another path than they are stored at.
#[derive(Default)]
struct Relocations {
    /// Items by directory and name.
    items: BTreeMap<(String, String), TreeItem>,
    /// Files whose path another file has already taken.
    twins: Vec<TreeItem>,
    /// Directories that contain nothing else.
    hollow: HashSet<TreePath>,
}

impl LayoutWalk {
    /// Starts at the root of an account.
    pub(crate) async fn new(fs: Arc<dyn FileSystem>) -> Result<Self> {
        let moved = Relocations::find(&*fs).await?;
        let dir = Some((String::new(), None));
        Ok(Self { fs, moved, pending: BinaryHeap::new(), dir, ready: VecDeque::new(), left_out: 0 })
    }

    /// Returns the next path.
    pub(crate) async fn peek(&mut self) -> Result<Option<&str>> {
        while self.ready.is_empty() {
            let next = || self.pending.pop().map(|Reverse(dir)| (dir, None));
            let Some((dir, after)) = self.dir.take().or_else(next) else { return Ok(None) };
            self.page(dir, after).await?;
        }
        Ok(self.ready.front().map(|item| item.path.as_str()))
    }

    /// Takes the entry whose path [`LayoutWalk::peek`] returned.
    pub(crate) fn pop(&mut self) -> Option<TreeItem> {
        self.ready.pop_front()
    }

    /// Returns the number of entries left out; a directory with everything below it counts once.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the files that were not shown, because other files have their paths. To be called at the end.
    pub(crate) fn hidden(self) -> impl Iterator<Item = TreeItem> {
        let Relocations { items, twins, .. } = self.moved;
        items.into_values().chain(twins).filter(|item| item.entry.kind == Kind::File)
    }

    /// Reads a page of a directory.
    async fn page(&mut self, dir: String, after: Option<Name>) -> Result {
        let (items, more) = list(&*self.fs, &at(&dir)?, after.clone()).await?;
        // `None` on the last page, which takes all remaining names.
        let last = items.last().filter(|_| more).map(|(name, _)| name.clone());
        let mut page = BTreeMap::new();
        for (name, entry) in items {
            let path = at(&dir)?.join(&name)?;
            if layout::is_own(&path, entry.target.as_deref()) {
                self.left_out += 1;
            } else if !self.moved.has(&path, &entry) {
                let path = path.key()[1..].to_owned();
                let at = at(&path)?;
                let item = TreeItem { path, at, entry: Box::new(entry), elsewhere: false };
                page.insert(name.as_str().to_owned(), item);
            }
        }
        for (name, item) in self.moved.take(&dir, after.as_ref(), last.as_ref(), &page) {
            page.insert(name, item);
        }
        for item in page.into_values() {
            if item.entry.kind == Kind::Directory {
                self.pending.push(Reverse(item.path.clone()));
            }
            self.ready.push_back(item);
        }
        if last.is_some() {
            self.dir = Some((dir, last));
        }
        Ok(())
    }
}

impl Relocations {
    /// Finds the entries. Only archives of sessions have some.
    async fn find(fs: &dyn FileSystem) -> Result<Self> {
        let mut moved = Self::default();
        for (agent, _) in directories(fs, &TreePath::parse("/agents")?).await? {
            for (session, _) in directories(fs, &agent.join(&Name::parse("sessions")?)?).await? {
                let media = session.join(&Name::parse("media")?)?;
                let mut others = false;
                for (path, entry) in all(fs, &session).await? {
                    others |= path != media || !moved.below(fs, &media, &entry).await?;
                }
                // The directory of the session exists only for its media.
                if moved.hollow.contains(&media) && !others {
                    moved.hollow.insert(session);
                }
            }
        }
        Ok(moved)
    }

    /// Finds the entries in the media of a session. Returns true if there is nothing else.
    async fn below(&mut self, fs: &dyn FileSystem, media: &TreePath, entry: &Entry) -> Result<bool> {
        let (mut some, mut others) = (false, false);
        for (path, file) in all(fs, media).await? {
            let key = layout::moved_from(&path, &file.attributes).filter(|_| file.kind == Kind::File);
            let Some(key) = key else {
                others = true;
                continue;
            };
            some = true;
            // Directories of the old path may be missing, so they are shown with the attributes of `media`.
            for dir in key.ancestors().skip(1) {
                self.insert(&dir, media.clone(), entry.clone());
            }
            self.insert(&key, path, file);
        }
        let is_hollow = some && !others;
        if is_hollow {
            self.hollow.insert(media.clone());
        }
        Ok(is_hollow)
    }

    /// Adds an entry. Of two entries with one path, the first one is shown.
    fn insert(&mut self, shown: &TreePath, at: TreePath, entry: Entry) {
        let path = shown.key()[1..].to_owned();
        let (dir, name) = parts(&path);
        let key = (dir.to_owned(), name.to_owned());
        let item = TreeItem { path: path.clone(), at, entry: Box::new(entry), elsewhere: true };
        match self.items.entry(key) {
            Slot::Vacant(slot) => drop(slot.insert(item)),
            // Several files may be in the same directory.
            Slot::Occupied(_) if item.entry.kind == Kind::Directory => {}
            Slot::Occupied(_) => self.twins.push(item),
        }
    }

    /// Returns true if the entry at a path is not shown there.
    fn has(&self, path: &TreePath, entry: &Entry) -> bool {
        match entry.kind {
            Kind::Directory => self.hollow.contains(path),
            Kind::File => layout::moved_from(path, &entry.attributes).is_some(),
            _ => false,
        }
    }

    /// Takes the entries shown in a part of a directory, except where an entry is stored at the same path.
    fn take(
        &mut self,
        dir: &str,
        after: Option<&Name>,
        last: Option<&Name>,
        there: &BTreeMap<String, TreeItem>,
    ) -> Vec<(String, TreeItem)> {
        let of_dir = self.items.range((dir.to_owned(), String::new())..);
        let names = of_dir.map(|(key, _)| key).take_while(|(of, _)| of == dir);
        let names = names.filter(|(_, name)| {
            after.is_none_or(|after| name.as_str() > after.as_str())
                && last.is_none_or(|last| name.as_str() <= last.as_str())
                && !there.contains_key(name)
        });
        let keys: Vec<_> = names.cloned().collect();
        keys.into_iter().filter_map(|key| self.items.remove(&key).map(|item| (key.1, item))).collect()
    }
}

fn at(path: &str) -> garth_engine::Result<TreePath> {
    let mut at = TreePath::root();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = at.join(&Name::parse(name)?)?;
    }
    Ok(at)
}

/// Returns a page of a directory; an empty one if it does not exist.
async fn list(
    fs: &dyn FileSystem,
    dir: &TreePath,
    after: Option<Name>,
) -> Result<(Vec<(Name, Entry)>, bool)> {
    let page = Page::default().after(after).limit(MAX_PAGE).with_entries();
    let listing = fs.list(&At::from(dir), &page).await.optional()?.unwrap_or_default();
    let items = listing.items.into_iter().filter_map(|item| Some((item.name, *item.entry?)));
    Ok((items.collect(), listing.more))
}

/// Returns the entries of a directory that pass the filter.
async fn filtered(
    fs: &dyn FileSystem,
    dir: &TreePath,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<Vec<(TreePath, Entry)>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let (items, more) = list(fs, dir, after).await?;
        after = items.last().filter(|_| more).map(|(name, _)| name.clone());
        for (name, entry) in items.into_iter().filter(|(_, entry)| wanted(entry)) {
            found.push((dir.join(&name)?, entry));
        }
        if after.is_none() {
            return Ok(found);
        }
    }
}

async fn directories(fs: &dyn FileSystem, dir: &TreePath) -> Result<Vec<(TreePath, Entry)>> {
    filtered(fs, dir, |entry| entry.kind == Kind::Directory).await
}

async fn all(fs: &dyn FileSystem, dir: &TreePath) -> Result<Vec<(TreePath, Entry)>> {
    filtered(fs, dir, |_| true).await
}
