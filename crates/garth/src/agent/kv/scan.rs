//! Listing and matching keys. A directory shows only while a value is below it, so that what expired leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::task::Poll;

use super::error::KvResult;
use super::key::{Key, MAX_KEY_SEGMENT, SUFFIX, segment_of};
use super::pattern::{Pattern, Semantics};
use super::{Kv, is_missing};
use crate::error::ErrorKind;
use crate::model::{At, Kind, Listing, Page, Walk, WalkPage};
use crate::path::{Name, TreePath};

/// Most items of a `list` and most paths of a `glob`. Seed 4.
pub const MAX_LISTED: usize = 500;
/// Names of one look at a directory or subtree.
const PAGE: usize = 1000;

/// What a key of a listing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// It has a value; maybe keys below it, too.
    Value,
    /// It has keys below it only.
    Directory,
}

/// A key of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyItem {
    /// The key path.
    pub path: String,
    /// What it is.
    pub kind: KeyKind,
}

impl Kv<'_> {
    /// The keys one segment below `prefix`, in byte order, at most [`MAX_LISTED`]: the first ones.
    ///
    /// # Errors
    /// `InvalidPath`; those of the filesystem.
    pub async fn list(&self, prefix: &str) -> KvResult<Vec<KeyItem>> {
        let prefix = Key::parse(prefix)?;
        let dir = self.base.directory(&prefix)?;
        let mut keys: BTreeMap<String, KeyKind> = BTreeMap::new();
        let mut after = None;
        loop {
            let listing = self.list_page(&dir, after).await?;
            for item in &listing.items {
                let is_directory = item.kind == Kind::Directory;
                if !(is_directory || item.kind == Kind::File) {
                    continue;
                }
                let Some(segment) = segment_of(&item.name, is_directory) else { continue };
                if !is_directory {
                    keys.insert(segment.to_owned(), KeyKind::Value);
                } else if !keys.contains_key(segment) && self.has_value(&dir, &item.name).await? {
                    keys.insert(segment.to_owned(), KeyKind::Directory);
                }
            }
            after = listing.items.last().map(|item| item.name.clone());
            let Some(last) = after.as_ref().filter(|_| listing.more) else { break };
            if keys.len() >= MAX_LISTED {
                self.add_stragglers(&dir, last, &mut keys).await?;
                break;
            }
            breathe().await;
        }
        let item = |(segment, kind)| KeyItem { path: format!("{}/{segment}", prefix.as_str()), kind };
        let items = keys.into_iter().take(MAX_LISTED).map(item);
        Ok(items.filter(|item| Key::parse(&item.path).is_ok()).collect())
    }

    /// The keys with a value that match `pattern`, in byte order, at most [`MAX_LISTED`]: the first ones.
    ///
    /// # Errors
    /// `InvalidGlob`; those of the filesystem.
    pub async fn glob(&self, pattern: &str, semantics: Semantics) -> KvResult<Vec<String>> {
        let pattern = Pattern::parse(pattern, semantics)?;
        if let Some(key) = pattern.literal() {
            let is_there = self.is_value(&self.base.file(key)?).await?;
            return Ok(is_there.then(|| key.as_str().to_owned()).into_iter().collect());
        }
        let top = self.base.directory(pattern.directory())?;
        let mut paths = BTreeSet::new();
        let mut after = None;
        loop {
            let walk = self.walk_page(&top, after, PAGE).await?;
            for item in walk.items.iter().filter(|item| item.kind == Kind::File) {
                let Some(key) = self.base.key_of(&item.path) else { continue };
                if pattern.matches(key.as_str()) {
                    paths.insert(key.as_str().to_owned());
                    if paths.len() > MAX_LISTED {
                        paths.pop_last();
                    }
                }
            }
            after = walk.items.last().map(|item| item.path.clone());
            if !walk.more || after.is_none() {
                return Ok(paths.into_iter().collect());
            }
            breathe().await;
        }
    }

    /// Names come in the order of files, keys in their own: `a-b.json` is before `a.json`, and `a` before `a-b`.
    /// A key that is before those found but whose file is behind `last` is a beginning of `last`: looked up here.
    async fn add_stragglers(
        &self,
        dir: &TreePath,
        last: &Name,
        keys: &mut BTreeMap<String, KeyKind>,
    ) -> KvResult<()> {
        let last = last.as_str();
        for (end, _) in last.char_indices().skip(1).take_while(|(end, _)| *end <= MAX_KEY_SEGMENT) {
            let file = format!("{}{SUFFIX}", &last[..end]);
            if file.as_str() > last
                && let Ok(name) = Name::parse(&file)
                && self.is_value(&dir.join(&name)?).await?
            {
                keys.insert(last[..end].to_owned(), KeyKind::Value);
            }
        }
        Ok(())
    }

    async fn is_value(&self, file: &TreePath) -> KvResult<bool> {
        match self.fs.stat(&At::Path(file.clone())).await {
            Ok(entry) => Ok(entry.kind == Kind::File),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether any value is below a directory. Most often among the first few names.
    async fn has_value(&self, parent: &TreePath, name: &Name) -> KvResult<bool> {
        let Ok(dir) = parent.join(name) else { return Ok(false) };
        let (mut after, mut limit) = (None, 16);
        loop {
            let walk = self.walk_page(&dir, after, limit).await?;
            if walk.items.iter().any(|item| item.kind == Kind::File && self.base.key_of(&item.path).is_some())
            {
                return Ok(true);
            }
            after = walk.items.last().map(|item| item.path.clone());
            if !walk.more || after.is_none() {
                return Ok(false);
            }
            limit = PAGE;
            breathe().await;
        }
    }

    async fn list_page(&self, dir: &TreePath, after: Option<Name>) -> KvResult<Listing> {
        let page = Page { after, limit: PAGE, entries: false };
        match self.fs.list(&At::Path(dir.clone()), &page).await {
            Err(error) if is_missing(&error) => Ok(Listing { items: Vec::new(), more: false }),
            answer => Ok(answer?),
        }
    }

    async fn walk_page(&self, top: &TreePath, after: Option<TreePath>, limit: usize) -> KvResult<Walk> {
        let page = WalkPage { after, limit, entries: false };
        match self.fs.walk(&At::Path(top.clone()), &page).await {
            // A name too long for its place cannot be there.
            Err(error) if is_missing(&error) || error.is(ErrorKind::NameTooLong) => {
                Ok(Walk { items: Vec::new(), more: false })
            }
            answer => Ok(answer?),
        }
    }
}

/// Lets others run: a long scan reads on the caller's thread and would otherwise hold it.
async fn breathe() {
    let mut breathed = false;
    poll_fn(|context| {
        if breathed {
            return Poll::Ready(());
        }
        breathed = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
