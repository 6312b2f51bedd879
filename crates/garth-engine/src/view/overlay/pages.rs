//! Pages of an overlay: entries of both layers, without those of the lower one that are hidden.

use std::collections::{BTreeSet, VecDeque};

use futures::FutureExt;

use super::Overlay;
use super::layered_tree::LOWER;
use super::layers::{Node, ShownEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{
    At, Filling, Item, Kind, Listing, MAX_PAGE, NamesPage, Page, Walk, WalkItem, WalkPage, check_limit,
};
use crate::path::{Name, TreePath};
use crate::view::merge::{Piece, Stream, key, merged};

/// Streams of a walk, one for each layer. The entry of `ABOVE` counts where both have a path.
const ABOVE: usize = 0;
const BELOW: usize = 1;

/// Layers that have a directory.
struct Directory {
    above: bool,
    below: bool,
}

impl Overlay {
    /// Returns which layers have entries to show in a directory.
    async fn directory(&self, path: &TreePath) -> Result<Directory> {
        match self.look(path).await? {
            ShownEntry::Upper(entry) if !entry.is_dir() => Err(Error::not_a_directory(path)),
            ShownEntry::Lower(entry) if !entry.is_dir() => Err(Error::not_a_directory(path)),
            ShownEntry::Lower(_) => Ok(Directory { above: false, below: true }),
            ShownEntry::Upper(_) => {
                let below = self.below(path).await?.is_some_and(|entry| entry.is_dir());
                Ok(Directory { above: true, below })
            }
        }
    }

    /// Returns the path of an address; `None` for a node without a name.
    pub(super) async fn path_at(&self, at: &At) -> Result<Option<TreePath>> {
        match at {
            At::Path(path) => Ok(Some(path.clone())),
            At::Node(ino) => self.path_of(*ino).await,
            At::Child(dir, name) => match self.path_of(*dir).await? {
                Some(dir) => Ok(Some(dir.join(name)?)),
                None => Err(Error::no_node()),
            },
        }
    }

    pub(super) async fn list_page(&self, dir: &At, page: &Page) -> Result<Listing> {
        check_limit(page.limit)?;
        let Some(path) = self.path_at(dir).await? else {
            // Held open without a name: such a directory is empty.
            return match self.stat(dir).await?.is_dir() {
                true => Ok(Listing { items: Vec::new(), more: false }),
                false => Err(Error::new(ErrorKind::NotADirectory, "not a directory")),
            };
        };
        let directory = self.directory(&path).await?;
        let mut filling = Filling::new(page.limit);
        let mut after = page.after.clone();
        loop {
            // Entries in any case: a copy has the inode that its origin note names.
            let part = Page { after: after.clone(), limit: page.limit, entries: true };
            let empty = || Listing { items: Vec::new(), more: false };
            let above = match directory.above {
                true => self.upper.list(&At::Path(self.tree(&path)?), &part).await,
                false => Ok(empty()),
            };
            let above = above.map_err(|error| self.of_upper(error))?;
            let part = Page { entries: page.entries, ..part };
            let below = match directory.below {
                true => self.lower.list(&At::Path(path.clone()), &part).await?,
                false => empty(),
            };
            // Past the end of the shorter page, the other layer may have names that have not been read.
            let ends = [&above, &below].map(|page| page.items.last().filter(|_| page.more));
            let end = ends.into_iter().flatten().map(|item| item.name.clone()).min();
            let gone = self.hidden_in(&path, after.as_ref(), end.as_ref(), directory.below).await?;
            let shows = |item: &Item| path.join(&item.name).is_ok_and(|path| self.within.contains(&path));
            let known = |item: &Item| end.as_ref().is_none_or(|end| item.name <= *end) && shows(item);
            let mut above: VecDeque<Item> = above.items.into_iter().filter(known).collect();
            let below = below.items.into_iter().filter(known).filter(|item| !gone.contains(&item.name));
            let mut below: VecDeque<Item> = below.collect();
            while let Some(item) = next_of(&mut above, &mut below) {
                let item = match item {
                    (Item { entry: Some(entry), name, kind, .. }, true) => {
                        let entry = self.upper_entry(*entry, Some(&path.join(&name)?)).await?;
                        let ino = entry.ino;
                        Item { name, kind, ino, entry: page.entries.then(|| Box::new(entry)) }
                    }
                    (mut item, _) => {
                        item.ino = self.numbers.shown(LOWER, item.ino);
                        item.entry = item.entry.map(|entry| Box::new(self.lower_entry(*entry, None)));
                        item
                    }
                };
                if !filling.push(item) {
                    return Ok(filling.done());
                }
            }
            match end {
                Some(end) => after = Some(end),
                None => return Ok(filling.done()),
            }
        }
    }

    /// Returns the names of a directory, after `after` up to `end`, that the upper layer hides. Returns none
    /// unless `wanted`.
    async fn hidden_in(
        &self,
        dir: &TreePath,
        after: Option<&Name>,
        end: Option<&Name>,
        wanted: bool,
    ) -> Result<BTreeSet<Name>> {
        let mut names = BTreeSet::new();
        let mut page = Page::default().after(after.cloned());
        if !wanted {
            return Ok(names);
        }
        loop {
            let listing = match self.upper.list(&At::Path(self.hidden(dir)?), &page).await {
                Err(error) if error.is(ErrorKind::NotFound) => break,
                listing => listing.map_err(|error| self.of_upper(error))?,
            };
            let last = listing.items.last().map(|item| item.name.clone());
            // A directory only leads to hidden paths below it.
            let hides = listing.items.into_iter().filter(|item| item.kind != Kind::Directory);
            names.extend(hides.map(|item| item.name));
            match last.filter(|last| listing.more && end.is_none_or(|end| last < end)) {
                Some(last) => page = page.after(last),
                None => break,
            }
        }
        Ok(names)
    }

    pub(super) async fn walk_page(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        check_limit(page.limit)?;
        let Some(path) = self.path_at(dir).await? else {
            // Only checks that it is a directory.
            self.list_page(dir, &Page::default()).await?;
            return Ok(Walk { items: Vec::new(), more: false });
        };
        let directory = self.directory(&path).await?;
        let after = page.after.as_ref();
        if after.is_some_and(|after| !after.is_within(&path) || *after == path) {
            return Err(Error::invalid("a walk continues after a path below its directory"));
        }
        let mut streams = Vec::new();
        if directory.above {
            streams.extend(Stream::new(ABOVE, &path, after));
        }
        if directory.below {
            streams.extend(Stream::new(BELOW, &path, after));
        }
        let read = |id: usize, after: Option<TreePath>, limit: usize| {
            let (path, entries) = (&path, page.entries);
            async move {
                match id {
                    ABOVE => self.walk_above(path, after, limit, entries).await,
                    _ => self.walk_below(path, after, limit, entries).await,
                }
            }
            .boxed()
        };
        merged(streams, page.limit, &read).await
    }

    async fn walk_above(
        &self,
        dir: &TreePath,
        after: Option<TreePath>,
        limit: usize,
        entries: bool,
    ) -> Result<Piece<WalkItem>> {
        let after = after.as_ref().map(|path| self.tree(path)).transpose()?;
        // Entries in any case, as in `list_page`.
        let page = WalkPage { after, limit, entries: true };
        let walk = self.upper.walk(&At::Path(self.tree(dir)?), &page).await;
        let walk = walk.map_err(|error| self.of_upper(error))?;
        let next = walk.items.last().filter(|_| walk.more).and_then(|item| self.in_tree(&item.path));
        let mut items = Vec::with_capacity(walk.items.len());
        for WalkItem { path, kind, entry, .. } in walk.items {
            let path = self.in_tree(&path).filter(|path| self.within.contains(path));
            if let (Some(path), Some(entry)) = (path, entry) {
                let entry = self.upper_entry(*entry, Some(&path)).await?;
                let ino = entry.ino;
                items.push(WalkItem { path, ino, kind, entry: entries.then(|| Box::new(entry)) });
            }
        }
        Ok(Piece { items, next })
    }

    async fn walk_below(
        &self,
        dir: &TreePath,
        after: Option<TreePath>,
        limit: usize,
        entries: bool,
    ) -> Result<Piece<WalkItem>> {
        let page = WalkPage { after, limit, entries };
        let walk = self.lower.walk(&At::Path(dir.clone()), &page).await?;
        let next = walk.items.last().filter(|_| walk.more).map(|item| item.path.clone());
        let (mut items, mut known): (_, Option<(String, bool, BTreeSet<Name>)>) = (Vec::new(), None);
        for mut item in walk.items {
            let (above, name) = key(&item.path);
            // The walk is ordered by directory, so that each directory is looked up once.
            if known.as_ref().is_none_or(|(dir, ..)| dir != above) {
                let at = TreePath::from_key(above.to_owned());
                // Entries of a lower directory show where the tree has a directory too, and nothing hides
                // them.
                let shows = self.directory(&at).await.is_ok_and(|directory| directory.below);
                known = Some((above.to_owned(), shows, self.hidden_in(&at, None, None, shows).await?));
            }
            let shows = known.as_ref().is_some_and(|(_, shows, gone)| *shows && !gone.contains(name));
            let shows = shows && self.within.contains(&item.path);
            if shows {
                item.ino = self.numbers.shown(LOWER, item.ino);
                item.entry = item.entry.map(|entry| Box::new(self.lower_entry(*entry, None)));
                items.push(item);
            }
        }
        Ok(Piece { items, next })
    }

    pub(super) async fn names_page(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        check_limit(page.limit)?;
        let (is_above, below) = match at {
            At::Node(ino) if *ino != crate::model::Ino::ROOT => match self.node(*ino).await? {
                Node::Upper(raw) => (true, At::Node(raw)),
                Node::Lower(raw, _) => (false, At::Node(raw)),
            },
            _ => {
                let path = self.path_at(at).await?.unwrap_or_default();
                match self.look(&path).await? {
                    ShownEntry::Upper(_) => (true, At::Path(self.tree(&path)?)),
                    ShownEntry::Lower(_) => (false, At::Path(path)),
                }
            }
        };
        let mut filling = Filling::new(page.limit);
        // Position in the layer's own paths: the upper layer has names that are not the tree's.
        let mut from = match &page.after {
            Some(after) if is_above => Some(self.tree(after)?),
            after => after.clone(),
        };
        loop {
            let limit = page.limit.min(MAX_PAGE);
            let layer = if is_above { &self.upper } else { &self.lower };
            let names = layer.names(&below, &NamesPage::default().after(from).limit(limit)).await;
            let names = names.map_err(|error| if is_above { self.of_upper(error) } else { error })?;
            let last = names.items.last().cloned();
            for path in names.items {
                let path = match is_above {
                    true => self.in_tree(&path).filter(|path| self.within.contains(path)),
                    false => match self.look(&path).await {
                        Ok(ShownEntry::Lower(_)) => Some(path),
                        _ => None,
                    },
                };
                if let Some(path) = path
                    && !filling.push(path)
                {
                    return Ok(filling.done());
                }
            }
            match last.filter(|_| names.more) {
                Some(last) => from = Some(last),
                None => return Ok(filling.done()),
            }
        }
    }
}

/// Removes the next item of two pages in the order of names, and returns true with it if it is from the upper
/// layer. Of equal names only the upper layer's is returned.
fn next_of(above: &mut VecDeque<Item>, below: &mut VecDeque<Item>) -> Option<(Item, bool)> {
    let is_above = match (above.front(), below.front()) {
        (Some(above), Some(below)) => above.name <= below.name,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => return None,
    };
    if is_above {
        let item = above.pop_front()?;
        below.pop_front_if(|other| other.name == item.name);
        return Some((item, true));
    }
    Some((below.pop_front()?, false))
}
