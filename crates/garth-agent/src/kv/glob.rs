//! Glob over keys: returns those that match a pattern, in byte order of complete keys, starting after
//! any key. A page costs in proportion to its items, however many keys precede it.
//!
//! In byte order the keys below `/a` lie between `/a.` and `/a0`, so a directory takes the place `a/`
//! among the keys next to it. The tree orders names by file (`a.json`), so each level of directories is
//! read in that order and put into key order here. A subtree that fits into one read is read at once.

use std::collections::BTreeMap;

use super::Kv;
use super::error::KvResult;
use super::key::{Key, check_key, segment_of};
use super::page::{PageRequest, Paged, unknown_cursor};
use super::pattern::{Pattern, Semantics};
use super::scan::{MAX_LISTED, SCAN};
use crate::retry::yield_now;
use garth_engine::model::Kind;
use garth_engine::path::{Name, TreePath};

impl Kv<'_> {
    /// Lists the keys with a value that match `pattern`, in byte order. At most [`MAX_LISTED`] in a page.
    ///
    /// # Errors
    /// `InvalidGlob`; `Validation` for the limit or the cursor; errors of the filesystem.
    pub async fn glob(
        &self,
        pattern: &str,
        semantics: Semantics,
        page: PageRequest<'_>,
    ) -> KvResult<Paged<String>> {
        let pattern = Pattern::parse(pattern, semantics)?;
        page.check(MAX_LISTED)?;
        let start = page.cursor.map(|cursor| Key::parse_value(cursor).map_err(|_| unknown_cursor()));
        let start = start.transpose()?;
        // Without a wildcard only one key can match: a single lookup replaces the walk.
        if let Some(key) = pattern.literal() {
            let wanted = start.is_none_or(|start| start.as_str() < key.as_str());
            let found = wanted && self.is_value(&self.base.file(key)?).await?;
            return Ok(Paged {
                items: found.then(|| key.as_str().to_owned()).into_iter().collect(),
                next: None,
            });
        }
        let mut scan = Scan::open(self, &pattern, start).await?;
        let mut items = Vec::new();
        while let Some(key) = scan.next().await? {
            if items.len() == page.limit {
                return Ok(Paged { next: items.last().cloned(), items });
            }
            items.push(key);
        }
        Ok(Paged { items, next: None })
    }
}

/// Walk over the keys that match a pattern, in byte order.
struct Scan<'a> {
    kv: &'a Kv<'a>,
    pattern: &'a Pattern,
    /// Directories from the top down to the one being read. Never more than a key has segments.
    levels: Vec<Level>,
}

/// Directory on the path of the walk.
struct Level {
    dir: TreePath,
    /// Key of the directory.
    key: String,
    /// Entries not yet returned, by their place among the keys of this level: `a` for a value, `a/` for a
    /// directory. For a subtree that was read at once also `a/b`.
    entries: BTreeMap<String, ScanMatch>,
    /// Name up to which the places are complete; `None` if all are.
    complete_to: Option<Name>,
    /// Lower bound: only places after this one are added, and the directory that leads to it.
    start: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanMatch {
    Value,
    Directory,
}

impl<'a> Scan<'a> {
    /// Opens a walk over the keys after `start`.
    async fn open(kv: &'a Kv<'a>, pattern: &'a Pattern, start: Option<Key>) -> KvResult<Self> {
        let top = pattern.directory();
        let mut scan = Self { kv, pattern, levels: Vec::new() };
        let below = format!("{}/", top.as_str());
        let start = match start.as_ref().map(Key::as_str) {
            None => "",
            Some(start) => match start.strip_prefix(&below) {
                Some(rest) => rest,
                None if *start < *below => "",
                None => return Ok(scan), // everything is before it
            },
        };
        scan.enter(kv.base.directory(top)?, top.as_str().to_owned(), start.to_owned()).await?;
        Ok(scan)
    }

    /// Returns the next key that matches; `None` at the end.
    async fn next(&mut self) -> KvResult<Option<String>> {
        while let Some(level) = self.levels.last_mut() {
            let Some((place, found, below)) = level.pop() else {
                match level.complete_to.take() {
                    Some(after) => self.read_on(after).await?,
                    None => drop(self.levels.pop()),
                }
                continue;
            };
            let key = format!("{}/{place}", level.key);
            match found {
                // Files of other interfaces can have names that no key path reaches, so each key is checked.
                ScanMatch::Value if self.pattern.matches(&key) && check_key(&key).is_ok() => {
                    return Ok(Some(key));
                }
                ScanMatch::Value => {}
                ScanMatch::Directory => {
                    let segment = place.trim_end_matches('/');
                    let directory = format!("{}/{segment}", level.key);
                    // Prunes directories that no match can be below, so that a page does not read the
                    // complete store.
                    if check_key(&directory).is_ok() && self.pattern.can_begin(&key) {
                        let dir = level.dir.join(&Name::parse(segment)?)?;
                        self.enter(dir, directory, below).await?;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Enters a directory and skips its places up to `start`.
    async fn enter(&mut self, dir: TreePath, key: String, start: String) -> KvResult<()> {
        yield_now().await;
        let mut level = Level { dir, key, entries: BTreeMap::new(), complete_to: None, start };
        let walk = self.kv.walk_page(&level.dir, None, SCAN).await?;
        // One read held the complete subtree: all its values become places of this level, and no directory
        // below is entered.
        if !walk.more {
            let below = format!("{}/", level.key);
            for item in walk.items.iter().filter(|item| item.kind == Kind::File) {
                let Some(key) = self.kv.base.key_of(&item.path) else { continue };
                let Some(place) = key.as_str().strip_prefix(&below) else { continue };
                level.add(place.to_owned(), ScanMatch::Value);
            }
            self.levels.push(level);
            return Ok(());
        }
        // Names up to the first segment of `start` are not read again. Directories there whose place follows
        // `start` (their names are prefixes of it) or leads to it are looked up.
        let first = level.start.split('/').next().unwrap_or_default().to_owned();
        for (end, _) in first.char_indices().skip(1).chain([(first.len(), '/')]) {
            if let Ok(name) = Name::parse(&first[..end])
                && self.kv.kind_of(&level.dir.join(&name)?).await? == Some(Kind::Directory)
            {
                level.add(format!("{}/", name.as_str()), ScanMatch::Directory);
            }
        }
        self.levels.push(level);
        match Name::parse(&first) {
            Ok(after) => self.read_on(after).await,
            Err(_) => self.read(None).await,
        }
    }

    /// Continues the read of the last level after a name.
    async fn read_on(&mut self, after: Name) -> KvResult<()> {
        yield_now().await;
        self.read(Some(after)).await
    }

    /// Reads the next names of the last level.
    async fn read(&mut self, after: Option<Name>) -> KvResult<()> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        let listing = self.kv.list_page(&level.dir, after, SCAN).await?;
        for item in &listing.items {
            match segment_of(item) {
                Some(segment) if item.kind == Kind::Directory => {
                    level.add(format!("{segment}/"), ScanMatch::Directory);
                }
                Some(segment) => level.add(segment.to_owned(), ScanMatch::Value),
                None => {}
            }
        }
        let Some(last) = listing.items.last().map(|item| item.name.clone()).filter(|_| listing.more) else {
            return Ok(());
        };
        // The file of a key may follow `last` although its place precedes it, as `a.json` follows
        // `a-b.json`. Without these, places up to `last` would not be complete.
        for segment in self.kv.files_behind(&level.dir, &last).await? {
            level.add(segment.to_owned(), ScanMatch::Value);
        }
        level.complete_to = Some(last);
        Ok(())
    }
}

impl Level {
    /// Adds a place, unless it precedes the start of this level.
    fn add(&mut self, place: String, found: ScanMatch) {
        let leads_to_start = self.start.len() > place.len() && self.start.starts_with(&place);
        if place > self.start || (leads_to_start && found == ScanMatch::Directory) {
            self.entries.insert(place, found);
        }
    }

    /// Removes and returns the first place, with the start within it if it is a directory. Returns `None`
    /// if a place before it may still be unread.
    fn pop(&mut self) -> Option<(String, ScanMatch, String)> {
        let first = self.entries.first_entry()?;
        if self.complete_to.as_ref().is_some_and(|last| first.key().as_str() > last.as_str()) {
            return None;
        }
        let (place, found) = first.remove_entry();
        let below = self.start.strip_prefix(&place).unwrap_or_default().to_owned();
        // Later reads of this level add no place that was returned already.
        self.start.clone_from(&place);
        Some((place, found, below))
    }
}
