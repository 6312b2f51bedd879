//! Lists keys level by level. A directory is listed only while a value is below it, so that expired
//! values leave no trace.

use std::collections::BTreeMap;

use super::Kv;
use super::error::KvResult;
use super::key::{Key, MAX_KEY_SEGMENT, SUFFIX, segment_of};
use super::page::{PageRequest, Paged, unknown_cursor};
use crate::retry::yield_now;
use garth_engine::error::{ErrorKind, OptionalExt as _};
use garth_engine::model::{Kind, Listing, Page, Walk, WalkPage};
use garth_engine::path::{Name, TreePath};

/// Limit on the keys in a page of `list` or `glob`.
pub const MAX_LISTED: usize = 500;
/// Smallest number of names that one read of a directory asks for, because some are not keys.
const MIN_NAMES: usize = 64;
/// Number of names in one read of a subtree.
pub(super) const SCAN: usize = 1000;

/// Kind of a listed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Key with a value; it may also have keys below it.
    Value,
    /// Key without a value, with keys below it.
    Directory,
}

/// Key of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyItem {
    /// Key path.
    pub path: String,
    /// Kind of the key.
    pub kind: KeyKind,
}

impl Kv<'_> {
    /// Lists the keys one segment below `prefix`, in byte order. At most [`MAX_LISTED`] in a page.
    ///
    /// # Errors
    /// `InvalidPath`; `Validation` for the limit or the cursor; errors of the filesystem.
    pub async fn list(&self, prefix: &str, page: PageRequest<'_>) -> KvResult<Paged<KeyItem>> {
        let prefix = Key::parse(prefix)?;
        page.check(MAX_LISTED)?;
        let dir = self.base.directory(&prefix)?;
        let start = page.cursor.map(|cursor| child_of(&prefix, cursor)).transpose()?;
        let key_of = |segment: &str| format!("{}/{segment}", prefix.as_str());
        let mut keys: BTreeMap<String, KeyKind> = BTreeMap::new();
        let mut after = start.clone();
        // One extra key shows if there is another page.
        let wanted = page.limit + 1;
        // The file of the cursor itself follows the cursor.
        let names = (wanted + 1).max(MIN_NAMES);
        loop {
            let listing = self.list_page(&dir, after, names).await?;
            for item in &listing.items {
                let is_directory = item.kind == Kind::Directory;
                let Some(segment) = segment_of(item) else { continue };
                // The file of a key that an earlier page returned can follow the cursor: `a.json` comes
                // after `a-b.json`.
                if start.as_ref().is_some_and(|start| segment <= start.as_str())
                    || Key::parse(&key_of(segment)).is_err()
                {
                    continue;
                }
                if !is_directory {
                    keys.insert(segment.to_owned(), KeyKind::Value);
                } else if !keys.contains_key(segment) && self.has_value(&dir, &item.name).await? {
                    keys.insert(segment.to_owned(), KeyKind::Directory);
                }
            }
            after = listing.items.last().map(|item| item.name.clone());
            let Some(last) = after.as_ref().filter(|_| listing.more) else { break };
            if keys.len() >= wanted {
                // Keys whose files are not read yet can precede the last name. They would be missing from
                // this page, and the next one starts after them.
                for segment in self.files_behind(&dir, last).await? {
                    if start.as_ref().is_none_or(|start| segment > start.as_str()) {
                        keys.insert(segment.to_owned(), KeyKind::Value);
                    }
                }
                break;
            }
            yield_now().await;
        }
        let more = keys.len() > page.limit;
        let item = |(segment, kind): (String, KeyKind)| KeyItem { path: key_of(&segment), kind };
        let items: Vec<KeyItem> = keys.into_iter().take(page.limit).map(item).collect();
        let next = items.last().filter(|_| more).map(|item| item.path.clone());
        Ok(Paged { items, next })
    }

    /// Returns the segments whose value files come after the name `last`, but which precede it in key
    /// order.
    ///
    /// Names are ordered by file, keys by segment: `a-b.json` is before `a.json`, and `a` before `a-b`. A
    /// segment that precedes `last` while its file follows it must be a prefix of `last`, so only its
    /// prefixes are looked up.
    pub(super) async fn files_behind<'n>(&self, dir: &TreePath, last: &'n Name) -> KvResult<Vec<&'n str>> {
        let last = last.as_str();
        let mut found = Vec::new();
        for (end, _) in last.char_indices().skip(1).take_while(|(end, _)| *end <= MAX_KEY_SEGMENT) {
            let file = format!("{}{SUFFIX}", &last[..end]);
            if file.as_str() > last
                && let Ok(name) = Name::parse(&file)
                && self.is_value(&dir.join(&name)?).await?
            {
                found.push(&last[..end]);
            }
        }
        Ok(found)
    }

    pub(super) async fn is_value(&self, file: &TreePath) -> KvResult<bool> {
        Ok(self.kind_of(file).await? == Some(Kind::File))
    }

    /// Returns the kind of the file at a path, if it exists.
    pub(super) async fn kind_of(&self, path: &TreePath) -> KvResult<Option<Kind>> {
        Ok(self.fs.stat(&path.into()).await.optional()?.map(|entry| entry.kind))
    }

    /// Returns true if a value is below a directory. Most often it is among the first few names.
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
            limit = SCAN;
            yield_now().await;
        }
    }

    pub(super) async fn list_page(
        &self,
        dir: &TreePath,
        after: Option<Name>,
        limit: usize,
    ) -> KvResult<Listing> {
        let page = Page::default().after(after).limit(limit);
        Ok(self.fs.list(&dir.into(), &page).await.optional()?.unwrap_or_default())
    }

    pub(super) async fn walk_page(
        &self,
        top: &TreePath,
        after: Option<TreePath>,
        limit: usize,
    ) -> KvResult<Walk> {
        let page = WalkPage::default().after(after).limit(limit);
        match self.fs.walk(&top.into(), &page).await {
            // A name that is too long for its place cannot exist.
            Err(error) if error.is_absent() || error.is(ErrorKind::NameTooLong) => Ok(Walk::default()),
            answer => Ok(answer?),
        }
    }
}

/// Returns the last segment of a cursor of `list`, which is the last key of the page before.
fn child_of(prefix: &Key, cursor: &str) -> KvResult<Name> {
    let segment = cursor.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_prefix('/'));
    segment.and_then(|segment| Name::parse(segment).ok()).ok_or_else(unknown_cursor)
}
