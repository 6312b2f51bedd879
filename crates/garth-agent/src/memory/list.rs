//! Lists memories by URI prefix, category, status and tags.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::Memories;
use super::file_names::META;
use super::meta::{Meta, Status};
use super::uri::{Uri, decoded};
use crate::boxed;
use crate::own_paths;
use crate::registry::projections;
use crate::retry::yield_now;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, FindQuery, Kind, Page};
use garth_engine::path::{Name, TreePath, check_id};
use garth_engine::rule::projection::MAX_FILE;

/// Largest number of memories in a page.
pub const MAX_LISTED: usize = 1000;

/// Limit on the directories that one page visits: those of memories, and those above them.
const LOOKED_AT: usize = if cfg!(test) { 50 } else { 4000 };

/// Number of meta files that are read at a time.
const READ: usize = 64;

/// Number of bytes of meta files after which a page ends, 4 MiB.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// URI prefix, in complete segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// All memories of the account.
    Account,
    /// Memories below a directory of the account's tree.
    Below(TreePath),
}

impl Prefix {
    fn dir(&self) -> TreePath {
        match self {
            Self::Account => TreePath::root(),
            Self::Below(dir) => dir.clone(),
        }
    }

    /// Parses a prefix such as `ctx://acme/users/alice`. Also returns the account.
    ///
    /// # Errors
    /// `InvalidArgument` for a text with which no URI begins.
    pub fn parse(text: &str) -> Result<(String, Self)> {
        let bad = || {
            let message = "not a URI prefix; use complete segments, as ctx://ACCOUNT/users/USER";
            Error::invalid(format!("{text}: {message}"))
        };
        let rest = text.strip_prefix("ctx://").ok_or_else(bad)?;
        let parts: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
        let ids = parts.iter().map(|part| decoded(part)).collect::<Option<Vec<String>>>().ok_or_else(bad)?;
        let (account, below) = ids.split_first().ok_or_else(bad)?;
        check_id("account", account)?;
        let mut path = String::new();
        for part in below {
            path = format!("{path}/{part}");
        }
        let dir = TreePath::parse(if path.is_empty() { "/" } else { &path }).map_err(|_| bad())?;
        let names: Vec<&str> = dir.segments().collect();
        // An encoded `/`, for example, would change the number of segments.
        let is_one = dir.segments().count() == below.len()
            && match *names.as_slice() {
                [] | ["users" | "agents"] | ["users" | "agents", _] | ["users" | "agents", _, "memories"] => {
                    true
                }
                ["users" | "agents", _, "memories", _] | ["agents", _, "skills"] => true,
                _ => Uri::of_dir(account, &dir).is_some(),
            };
        match is_one {
            false => Err(bad()),
            true if names.is_empty() => Ok((account.clone(), Self::Account)),
            true => Ok((account.clone(), Self::Below(dir))),
        }
    }
}

/// Options of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// URI prefix.
    #[doc(hidden)]
    pub prefix: Prefix,
    /// Category; `None` for all.
    #[doc(hidden)]
    pub category: Option<String>,
    /// Status.
    #[doc(hidden)]
    pub status: Status,
    /// Tags that each memory must have.
    #[doc(hidden)]
    pub tags: Vec<String>,
    /// Cursor of the page before.
    #[doc(hidden)]
    pub after: Option<String>,
    /// Limit on the memories of a page, 1 to [`MAX_LISTED`].
    #[doc(hidden)]
    pub limit: usize,
}

impl List {
    /// Lists the active memories below a prefix, in pages of 100.
    pub fn new(prefix: Prefix) -> Self {
        Self { prefix, category: None, status: Status::Active, tags: Vec::new(), after: None, limit: 100 }
    }

    /// Restricts the list to a category.
    #[must_use]
    pub fn category(self, category: impl Into<String>) -> Self {
        Self { category: Some(category.into()), ..self }
    }

    /// Restricts the list to a status. The default is active memories.
    #[must_use]
    pub fn status(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// Restricts the list to memories that have all of these tags.
    #[must_use]
    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { tags: tags.into_iter().map(Into::into).collect(), ..self }
    }

    /// Continues after the page that returned this cursor.
    #[must_use]
    pub fn after(self, cursor: impl Into<String>) -> Self {
        Self { after: Some(cursor.into()), ..self }
    }

    /// Sets the limit on the memories of the page.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// Page of memories.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listed {
    /// Memories with the URIs of their places, in the order of directories.
    pub items: Vec<(Uri, Meta)>,
    /// Cursor of the next page, if there may be more. A page with few items, or none, is not always the last.
    pub next: Option<String>,
}

impl Memories<'_> {
    /// Parses a prefix of this account's URIs.
    ///
    /// # Errors
    /// `InvalidArgument` for a text with which no URI begins; `AccessDenied` for another account.
    pub fn prefix(&self, text: &str) -> Result<Prefix> {
        let (account, prefix) = Prefix::parse(text)?;
        if account == self.account {
            return Ok(prefix);
        }
        let message = format!("{text}: belongs to another account; this one is {}", self.account);
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// Returns a page of memories.
    ///
    /// # Errors
    /// `InvalidArgument`; from the filesystem.
    #[boxed]
    pub async fn list(&self, list: &List) -> Result<Listed> {
        if !(1..=MAX_LISTED).contains(&list.limit) {
            return Err(Error::invalid(format!("the limit of a list of memories is 1 to {MAX_LISTED}")));
        }
        list.category.as_deref().map_or(Ok(()), |category| self.check_category(category))?;
        own_paths::check(self.fs, &list.prefix.dir(), "open it with AgentTree::memories")?;
        // The cursor is a directory, so a page can continue even if the memory was deleted since.
        let after = match &list.after {
            Some(text) => Some(
                TreePath::from_str(text)
                    .map_err(|_| Error::invalid("invalid cursor; start again without one"))?,
            ),
            None => None,
        };
        // Memories that are not active are few, and found by key. For active ones the walk costs no more than
        // the page.
        let by_status = list.status != Status::Active && self.fs.capabilities(&list.prefix.dir()).find;
        if by_status && let Some(memories) = self.with_status(list).await? {
            let memories = memories
                .into_iter()
                .filter(|memory| after.as_ref().is_none_or(|after| is_behind(&memory.dir(), after)));
            return self.select(list, memories.collect(), None).await;
        }
        let (memories, next) = self.candidates(&list.prefix, after).await?;
        self.select(list, memories, next).await
    }

    /// Returns those of `memories` that match `list`.
    async fn select(&self, list: &List, memories: Vec<Uri>, next: Option<TreePath>) -> Result<Listed> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        for some in memories.chunks(READ) {
            for (uri, (meta, length)) in some.iter().zip(self.metas(some).await?) {
                let Some(meta) = meta.filter(|meta| meta.status == list.status) else { continue };
                let of_category = list.category.as_ref().is_none_or(|due| due == uri.category());
                if !of_category || !list.tags.iter().all(|tag| meta.tags.contains(tag)) {
                    continue;
                }
                items.push((uri.clone(), meta));
                bytes += length;
                // A page ends with a match, whose directory is the cursor.
                if items.len() == list.limit || bytes >= MAX_PAGE_BYTES {
                    return Ok(Listed { items, next: Some(uri.dir().to_string()) });
                }
            }
            yield_now().await;
        }
        Ok(Listed { items, next: next.map(|next| next.to_string()) })
    }

    /// Reads the meta of some memories, in their order, each with the length of its file.
    async fn metas(&self, memories: &[Uri]) -> Result<Vec<(Option<Meta>, usize)>> {
        // A longer file has no key of its status either.
        let range = ByteRange { offset: 0, length: MAX_FILE };
        let items: Vec<_> = memories.iter().map(|uri| (At::from(uri.file(META)), range)).collect();
        let mut metas = Vec::with_capacity(items.len());
        while metas.len() < items.len() {
            let fetched = self.fs.fetch_many(&items[metas.len()..]).await?.items;
            if fetched.is_empty() {
                return Err(Error::new(ErrorKind::Io, "the storage returned no answer"));
            }
            metas.extend(fetched.into_iter().map(|answer| match answer {
                Ok((_, bytes)) => (Meta::parse(&bytes).ok(), bytes.len()),
                Err(_) => (None, 0),
            }));
        }
        Ok(metas)
    }

    /// Returns the memories with a status, in the order of directories; `None` if one query does not find all
    /// of them. Then a walk lists them, in the same order.
    async fn with_status(&self, list: &List) -> Result<Option<Vec<Uri>>> {
        let mut query = FindQuery::new(projections::MEMORY_STATUS).equal(list.status.as_str());
        if let Prefix::Below(dir) = &list.prefix {
            query = query.within(dir.clone());
        }
        let found = self.fs.find(&query).await?;
        // Keys of later pages may belong to earlier directories.
        if found.next.is_some() {
            return Ok(None);
        }
        let dirs: BTreeSet<_> =
            found.items.iter().filter_map(|item| item.path.parent()).map(VisitOrder::from).collect();
        Ok(Some(dirs.into_iter().filter_map(|dir| Uri::of_dir(&self.account, &dir.dir)).collect()))
    }

    /// Returns a page of the directories below a prefix that may be memories, in their order, after `after`;
    /// and the cursor of the next page.
    pub(super) async fn candidates(
        &self,
        prefix: &Prefix,
        after: Option<TreePath>,
    ) -> Result<(Vec<Uri>, Option<TreePath>)> {
        let tops = match (prefix, &self.tops) {
            (Prefix::Account, Some(tops)) => tops.clone(),
            _ => vec![prefix.dir()],
        };
        let mut visit = Visit {
            fs: self.fs,
            account: &self.account,
            after,
            memories: Vec::new(),
            done: None,
            left: LOOKED_AT,
        };
        for top in tops {
            if !visit.visit(top).await? {
                return Ok((visit.memories, visit.done));
            }
        }
        Ok((visit.memories, None))
    }
}

/// Directory, ordered segment by segment, as directories are visited.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VisitOrder {
    segments: Vec<String>,
    dir: TreePath,
}

impl From<TreePath> for VisitOrder {
    fn from(dir: TreePath) -> Self {
        Self { segments: dir.segments().map(str::to_owned).collect(), dir }
    }
}

fn is_behind(dir: &TreePath, other: &TreePath) -> bool {
    dir.segments().gt(other.segments())
}

/// Visit of the directories that may be memories.
struct Visit<'a> {
    fs: &'a dyn FileSystem,
    account: &'a str,
    /// Cursor: directories up to this one are skipped.
    after: Option<TreePath>,
    memories: Vec<Uri>,
    /// Last directory that was visited completely.
    done: Option<TreePath>,
    /// Number of directories that may still be visited.
    left: usize,
}

impl Visit<'_> {
    /// Visits a directory. Returns false if it was not visited completely.
    async fn visit(&mut self, dir: TreePath) -> Result<bool> {
        // A directory that contains the cursor was begun by an earlier page, and is continued.
        if self.after.as_ref().is_some_and(|after| !is_behind(&dir, after) && !after.is_within(&dir)) {
            return Ok(true);
        }
        if self.after.as_ref() == Some(&dir) {
            return Ok(true);
        }
        if self.left == 0 {
            return Ok(false);
        }
        // Every directory counts, also one without a memory: a page over a tree full of those ends as well.
        self.left -= 1;
        let memory = Uri::of_dir(self.account, &dir);
        let names: Vec<&str> = dir.segments().collect();
        let whole = match (memory, names.as_slice()) {
            (Some(memory), _) => {
                self.memories.push(memory);
                true
            }
            (None, []) => self.each(&dir, &["agents", "users"]).await?,
            (None, ["users", _]) => self.each(&dir, &["memories"]).await?,
            (None, ["agents", _]) => self.each(&dir, &["memories", "skills"]).await?,
            (None, ["users" | "agents"] | [_, _, "memories" | "skills"] | [_, _, "memories", _]) => {
                self.listed(&dir).await?
            }
            _ => true,
        };
        // The cursor of the next page if the visit ends after this directory.
        if whole {
            self.done = Some(dir);
        }
        Ok(whole)
    }

    /// Visits the directories with these names.
    async fn each(&mut self, dir: &TreePath, names: &[&str]) -> Result<bool> {
        for name in names {
            if !Box::pin(self.visit(TreePath::from_row(dir.key(), name))).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Visits all directories in a directory.
    async fn listed(&mut self, dir: &TreePath) -> Result<bool> {
        // The directory that contains the cursor may not be complete.
        let inside = self.after.as_ref().filter(|after| after.is_within(dir) && *after != dir);
        let first = inside.and_then(|after| after.segments().nth(dir.segments().count()));
        let first = first.map(Name::parse).transpose()?;
        if let Some(first) = &first
            && !Box::pin(self.visit(TreePath::from_row(dir.key(), first.as_str()))).await?
        {
            return Ok(false);
        }
        let mut page = Page::default().after(first);
        loop {
            let Some(listing) = self.fs.list(&dir.into(), &page).await.optional()? else {
                return Ok(true);
            };
            yield_now().await;
            for item in listing.items.iter().filter(|item| item.kind == Kind::Directory) {
                if !Box::pin(self.visit(TreePath::from_row(dir.key(), item.name.as_str()))).await? {
                    return Ok(false);
                }
            }
            match listing.items.into_iter().next_back().filter(|_| listing.more) {
                Some(last) => page.after = Some(last.name),
                None => return Ok(true),
            }
        }
    }
}
