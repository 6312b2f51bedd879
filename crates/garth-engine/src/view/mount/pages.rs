//! Pages of a mounted tree: listings, walks, and names of a node.

use std::collections::{BTreeSet, VecDeque};

use futures::FutureExt;

use super::part::{Part, Source};
use super::{Mount, Place};
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::fs::FileSystem;
use crate::model::{
    At, Entry, Filling, Ino, Item, Kind, Listing, NamesPage, Page, Timestamp, VersionId, Walk, WalkItem,
    WalkPage, check_limit,
};
use crate::path::{Name, TreePath};
use crate::view::merge::{Piece, Stream, key, merged};

impl Mount {
    /// Returns the entry of a directory that nobody created: one that leads to a part, or the root.
    pub(super) fn made_up(&self, path: &TreePath) -> Entry {
        let ino = if path.is_root() { Ino::ROOT } else { self.parts.own_number(path) };
        let version = VersionId { seq: crate::model::Seq(0), ino };
        Entry {
            ino,
            kind: Kind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: 2,
            size: 0,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            birthtime: Timestamp::default(),
            target: None,
            attributes: crate::model::Attributes::default(),
            expires_at: None,
            version,
            etag: version,
        }
    }

    /// Returns the entry of a directory that leads to a part.
    async fn leading(&self, path: &TreePath) -> Result<Entry> {
        self.stat(&At::Path(path.clone())).await
    }

    pub(super) async fn list_page(&self, dir: &At, page: &Page) -> Result<Listing> {
        check_limit(page.limit)?;
        let place = self.place(dir).await?;
        let path = match &place.path {
            Some(path) => Some(path.clone()),
            None => self.leading_directory(&place).await?,
        };
        let leading: BTreeSet<&Name> = match &path {
            Some(path) => {
                let there = |name: &&Name| path.join(name).is_ok_and(|path| self.within.contains(&path));
                self.parts.leading_in(path).filter(there).collect()
            }
            None => BTreeSet::new(),
        };
        let listed = self.fs(place.part)?.list(&place.at, page).await;
        let listing = match (self.told(place.part, listed), &path) {
            // The part shows a file here.
            (Err(error), Some(path)) if error.is(ErrorKind::NotADirectory) && self.may_be_file(path) => {
                return Err(error);
            }
            // Nobody created the directory: it only has names that lead to parts.
            (Err(error), Some(path))
                if self.is_empty_root(path, &error) || (self.leads(path) && error.is_absent()) =>
            {
                Listing { items: Vec::new(), more: false }
            }
            (listing, _) => listing?,
        };
        let more = listing.more;
        let last = listing.items.last().map(|item| item.name.clone());
        let mut own: VecDeque<Item> = listing.items.into();
        let mut leading: VecDeque<&Name> = leading
            .into_iter()
            .filter(|name| page.after.as_ref().is_none_or(|after| *name > after))
            // Past the end of the page, the part may have names that come before those that lead on.
            .filter(|name| !more || last.as_ref().is_some_and(|last| *name <= last))
            .collect();
        let mut filling = Filling::new(page.limit);
        loop {
            let takes_leading = match (own.front(), leading.front()) {
                (Some(item), Some(name)) => **name <= item.name,
                (None, Some(_)) => true,
                (Some(_), None) => false,
                (None, None) => break,
            };
            let item = match (takes_leading, &path) {
                (true, Some(path)) => {
                    let Some(name) = leading.pop_front() else { break };
                    let known = own.pop_front_if(|item| item.name == *name);
                    self.leading_item(&path.join(name)?, known, page.entries).await?
                }
                _ => {
                    let Some(item) = own.pop_front() else { break };
                    self.item(place.part, item)
                }
            };
            if !filling.push(item) {
                return Ok(filling.done());
            }
        }
        let mut listing = filling.done();
        listing.more = more;
        Ok(listing)
    }

    /// Returns the path of a directory by inode, if parts may be shown in it.
    async fn leading_directory(&self, place: &Place<'_>) -> Result<Option<TreePath>> {
        let names = self.fs(place.part)?.names(&place.at, &NamesPage::default().limit(1)).await;
        let names = self.told(place.part, names)?;
        let path = names.items.first().and_then(|path| self.up(place.part, path));
        Ok(path.filter(|path| self.parts.has_below(path)))
    }

    /// Returns the item of a directory that leads to a part. `known` is the item that the part below has
    /// there.
    async fn leading_item(&self, path: &TreePath, known: Option<Item>, entries: bool) -> Result<Item> {
        let name = path.split().map(|(_, name)| name).ok_or_else(Error::no_node)?;
        let of = self.parts.of(path);
        match known {
            // The part below has the directory itself. Any other node is hidden by the directory, or by the
            // part shown there.
            Some(item) if item.kind == Kind::Directory && !self.parts.is_point(path) => {
                Ok(self.item(of, item))
            }
            _ => {
                let entry = self.leading(path).await?;
                let (ino, kind) = (entry.ino, entry.kind);
                Ok(Item { name, ino, kind, entry: entries.then(|| Box::new(entry)) })
            }
        }
    }

    fn item(&self, part: &Part, item: Item) -> Item {
        let ino = self.parts.shown(part, item.ino);
        let entry = item.entry.map(|entry| Box::new(self.entry(part, *entry)));
        Item { ino, entry, ..item }
    }

    pub(super) async fn walk_page(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        check_limit(page.limit)?;
        let place = self.place(dir).await?;
        let path = match &place.path {
            Some(path) => path.clone(),
            None => match self.leading_directory(&place).await? {
                Some(path) => path,
                // No other part is shown below the directory.
                None => return self.walk_part(&place, page).await,
            },
        };
        // Reports a missing directory, or anything else than a directory, before the walk.
        if !self.stat(dir).await?.is_dir() {
            return Err(Error::not_a_directory(&path));
        }
        let after = page.after.as_ref();
        if after.is_some_and(|after| !after.is_within(&path) || *after == path) {
            return Err(Error::invalid("a walk continues after a path below its directory"));
        }
        let shown = self.parts.all().iter().filter(|part| part.at.is_within(&path) && part.at != path);
        let shown = shown.filter(|part| !self.is_repeated(&path, &part.at));
        let tops = shown.map(|part| (part.index, part.at.clone())).collect::<Vec<_>>();
        // The part that the directory belongs to, and all parts that are shown below it.
        let own = Stream::new(place.part.index, &path, after);
        let mut streams: Vec<_> = own
            .into_iter()
            .chain(tops.iter().filter_map(|(part, top)| Stream::new(*part, top, after)))
            .collect();
        let behind = |found: &TreePath| after.is_none_or(|after| key(found) > key(after));
        let mut leading = Vec::new();
        for found in self.parts.leading_below(&path).filter(behind) {
            if !self.within.contains(&found) || self.is_repeated(&path, &found) {
                continue;
            }
            let path = found;
            let entry = self.leading(&path).await?;
            let (ino, kind) = (entry.ino, entry.kind);
            leading.push(WalkItem { path, ino, kind, entry: page.entries.then(|| Box::new(entry)) });
        }
        // Last: where a part has such a directory itself, its entry counts.
        streams.push(Stream::of(usize::MAX, leading));
        let read = |id: usize, after: Option<TreePath>, limit: usize| {
            let (path, entries) = (&path, page.entries);
            async move { self.walk_piece(id, path, after, limit, entries).await }.boxed()
        };
        merged(streams, page.limit, &read).await
    }

    /// Walks a directory in which no other part is shown.
    async fn walk_part(&self, place: &Place<'_>, page: &WalkPage) -> Result<Walk> {
        let mut after = page.after.as_ref().map(|after| self.parts.of(after).down(after)).transpose()?;
        let shown = |item: WalkItem| {
            let path = self.up(place.part, &item.path)?;
            Some(self.walk_item(place.part, path, item))
        };
        loop {
            let walk = self.fs(place.part)?.walk(&place.at, &page.clone().after(after)).await;
            let walk = self.told(place.part, walk)?;
            let last = walk.items.last().filter(|_| walk.more).map(|item| item.path.clone());
            let items: Vec<WalkItem> = walk.items.into_iter().filter_map(shown).collect();
            match last {
                // The next page could not continue after an empty one.
                Some(last) if items.is_empty() => after = Some(last),
                last => return Ok(Listing { items, more: last.is_some() }),
            }
        }
    }

    /// Returns a piece of the walk of a part, below a directory of the tree or below the part's own path if
    /// that is deeper.
    async fn walk_piece(
        &self,
        id: usize,
        dir: &TreePath,
        after: Option<TreePath>,
        limit: usize,
        entries: bool,
    ) -> Result<Piece<WalkItem>> {
        let part = &self.parts.all()[id];
        if matches!(part.source, Source::NoPast) {
            return Ok(Piece { items: Vec::new(), next: None });
        }
        let top = if part.at.is_within(dir) { part.root() } else { part.down(dir)? };
        let mut page = WalkPage::default().limit(limit);
        page.entries = entries;
        page.after = after.map(|after| part.down(&after)).transpose()?;
        let walk = self.fs(part)?.walk(&At::Path(top), &page).await.optional();
        // The part shows a directory that nobody created yet.
        let Some(walk) = self.told(part, walk)? else { return Ok(Piece { items: Vec::new(), next: None }) };
        let next = walk.items.last().filter(|_| walk.more).and_then(|item| part.up(&item.path));
        let shown = |item: WalkItem| {
            let path = self.parts.shown_by(part, &item.path)?;
            // A file cannot lead on to a part: the tree shows a directory there, from the stream of those.
            let hidden = item.kind != Kind::Directory && self.leads(&path);
            (!hidden).then(|| self.walk_item(part, path, item))
        };
        Ok(Piece { items: walk.items.into_iter().filter_map(shown).collect(), next })
    }

    fn walk_item(&self, part: &Part, path: TreePath, item: WalkItem) -> WalkItem {
        let ino = self.parts.shown(part, item.ino);
        let entry = item.entry.map(|entry| Box::new(self.entry(part, *entry)));
        WalkItem { path, ino, entry, ..item }
    }

    pub(super) async fn names_page(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        check_limit(page.limit)?;
        let place = self.place(at).await?;
        if let Some(path) = place.path.as_ref().filter(|path| path.is_root() || self.leads(path)) {
            // A directory has one name.
            if self.stat(at).await?.is_dir() {
                let behind = page.after.as_ref().is_none_or(|after| key(path) > key(after));
                return Ok(Listing { items: Vec::from_iter(behind.then(|| path.clone())), more: false });
            }
        }
        let fs = self.fs(place.part)?;
        if !place.part.is_base() {
            let mut after = page.after.as_ref().map(|after| place.part.down(after)).transpose()?;
            loop {
                let names = self.told(place.part, fs.names(&place.at, &page.clone().after(after)).await)?;
                let last = names.items.last().filter(|_| names.more).cloned();
                let shown = names.items.iter().filter_map(|path| self.up(place.part, path));
                let items: Vec<TreePath> = shown.collect();
                match last {
                    // The next page could not continue after an empty one.
                    Some(last) if items.is_empty() => after = Some(last),
                    last => return Ok(Listing { items, more: last.is_some() }),
                }
            }
        }
        // By inode, which also finds a node whose name another part hides.
        let ino = self.told(place.part, fs.stat(&place.at).await)?.ino;
        // A marked inode belongs to one part; the others are shared by all directories of the base.
        let same = |part: &&Part| match place.part.tagged {
            true => part.index == place.part.index,
            false => part.is_base() && !part.tagged,
        };
        let parts = self.parts.all().iter().filter(same);
        let streams =
            parts.filter_map(|part| Stream::new(part.index, &part.at, page.after.as_ref())).collect();
        let read = |id: usize, after: Option<TreePath>, limit: usize| {
            async move { self.names_piece(id, ino, after, limit).await }.boxed()
        };
        merged(streams, page.limit, &read).await
    }

    /// Returns the names that one part shows of a node of the base.
    async fn names_piece(
        &self,
        id: usize,
        ino: Ino,
        after: Option<TreePath>,
        limit: usize,
    ) -> Result<Piece<TreePath>> {
        let part = &self.parts.all()[id];
        let after = after.map(|after| part.down(&after)).transpose()?;
        let only = self.only(part).await?;
        let names = match only.names(&At::Node(ino), &NamesPage::default().after(after).limit(limit)).await {
            Err(error) if error.is(ErrorKind::NotFound) => {
                return Ok(Piece { items: Vec::new(), next: None });
            }
            names => self.told(part, names)?,
        };
        let next = names.items.last().filter(|_| names.more).and_then(|path| part.up(path));
        let shown = |path: &TreePath| self.parts.shown_by(part, path);
        Ok(Piece { items: names.items.iter().filter_map(shown).collect(), next })
    }
}
