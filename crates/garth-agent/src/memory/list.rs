//! Lists memories: by prefix of their URIs, category, status and tags.

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

/// Most memories of a page.
pub const MAX_LISTED: usize = 1000;

/// Directories that one page looks at: those of memories, and those that have others.
const LOOKED_AT: usize = if cfg!(test) { 50 } else { 4000 };

/// Meta files that are read at a time.
const READ: usize = 64;

/// Bytes of meta files from which on a page ends, 4 MiB.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Which URIs: those that begin with some whole parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// All of the account.
    Account,
    /// Those below a directory of the account's tree.
    Below(TreePath),
}

impl Prefix {
    fn dir(&self) -> TreePath {
        match self {
            Self::Account => TreePath::root(),
            Self::Below(dir) => dir.clone(),
        }
    }

    /// Reads a prefix such as `ctx://acme/users/alice`; the account is told, too.
    ///
    /// # Errors
    /// `InvalidArgument` for what no URI begins with.
    pub fn parse(text: &str) -> Result<(String, Self)> {
        let bad = || {
            let message =
                "no memory's URI begins with it; write whole parts of one, as ctx://ACCOUNT/users/USER";
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

/// Which memories to list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// Where.
    #[doc(hidden)]
    pub prefix: Prefix,
    /// Only of this category.
    #[doc(hidden)]
    pub category: Option<String>,
    /// Only with this status.
    #[doc(hidden)]
    pub status: Status,
    /// Only with all of these tags.
    #[doc(hidden)]
    pub tags: Vec<String>,
    /// Go on behind what was listed before.
    #[doc(hidden)]
    pub after: Option<String>,
    /// Most memories, 1 to [`MAX_LISTED`].
    #[doc(hidden)]
    pub limit: usize,
}

impl List {
    /// The memories below a prefix that are there, in pages of 100.
    pub fn new(prefix: Prefix) -> Self {
        Self { prefix, category: None, status: Status::Active, tags: Vec::new(), after: None, limit: 100 }
    }

    /// Lists only this category.
    #[must_use]
    pub fn category(self, category: impl Into<String>) -> Self {
        Self { category: Some(category.into()), ..self }
    }

    /// Lists only memories with this status. Default: those that are active.
    #[must_use]
    pub fn status(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// Lists only memories that have all of these tags.
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

/// A page of memories.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listed {
    /// Each with its URI (by its place), in the order of directories.
    pub items: Vec<(Uri, Meta)>,
    /// Where to go on, if there may be more: a page with few items, or none, is not always the last.
    pub next: Option<String>,
}

impl Memories<'_> {
    /// A prefix of this account's URIs.
    ///
    /// # Errors
    /// `InvalidArgument` for what no URI begins with; `AccessDenied` for another account's.
    pub fn prefix(&self, text: &str) -> Result<Prefix> {
        let (account, prefix) = Prefix::parse(text)?;
        if account == self.account {
            return Ok(prefix);
        }
        let message = format!("{text}: belongs to another account; this one is {}", self.account);
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// A page of memories.
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
        let after = match &list.after {
            Some(text) => Some(TreePath::from_str(text).map_err(|_| {
                Error::invalid("the cursor is none of a list of memories; begin again without it")
            })?),
            None => None,
        };
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

    /// Those of `memories` that are asked for.
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
                if items.len() == list.limit || bytes >= MAX_PAGE_BYTES {
                    return Ok(Listed { items, next: Some(uri.dir().to_string()) });
                }
            }
            yield_now().await;
        }
        Ok(Listed { items, next: next.map(|next| next.to_string()) })
    }

    /// What is known of some memories, in their order, each with the length of its file.
    async fn metas(&self, memories: &[Uri]) -> Result<Vec<(Option<Meta>, usize)>> {
        // a longer one has no status that is found, either
        let range = ByteRange { offset: 0, length: MAX_FILE };
        let items: Vec<_> = memories.iter().map(|uri| (At::from(uri.file(META)), range)).collect();
        let mut metas = Vec::with_capacity(items.len());
        while metas.len() < items.len() {
            let fetched = self.fs.fetch_many(&items[metas.len()..]).await?.items;
            if fetched.is_empty() {
                return Err(Error::new(ErrorKind::Io, "the account gave no answer"));
            }
            metas.extend(fetched.into_iter().map(|answer| match answer {
                Ok((_, bytes)) => (Meta::parse(&bytes).ok(), bytes.len()),
                Err(_) => (None, 0),
            }));
        }
        Ok(metas)
    }

    /// Returns the memories with a status, in the order of directories; `None` if one look does not find all
    /// of them. Memories of others have the same status: a walk passes over none of them.
    async fn with_status(&self, list: &List) -> Result<Option<Vec<Uri>>> {
        let mut query = FindQuery::new(projections::MEMORY_STATUS).equal(list.status.as_str());
        if let Prefix::Below(dir) = &list.prefix {
            query = query.within(dir.clone());
        }
        let found = self.fs.find(&query).await?;
        if found.next.is_some() {
            return Ok(None);
        }
        let dirs: BTreeSet<_> =
            found.items.iter().filter_map(|item| item.path.parent()).map(Ordered::from).collect();
        Ok(Some(dirs.into_iter().filter_map(|dir| Uri::of_dir(&self.account, &dir.dir)).collect()))
    }

    /// A page of the directories that may be memories' below a prefix, in order, behind one; and where to go
    /// on.
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

/// A directory in the order in which directories are visited: segment by segment.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ordered {
    segments: Vec<String>,
    dir: TreePath,
}

impl From<TreePath> for Ordered {
    fn from(dir: TreePath) -> Self {
        Self { segments: dir.segments().map(str::to_owned).collect(), dir }
    }
}

fn is_behind(dir: &TreePath, other: &TreePath) -> bool {
    dir.segments().gt(other.segments())
}

/// A visit of the directories that may be memories'.
struct Visit<'a> {
    fs: &'a dyn FileSystem,
    account: &'a str,
    /// Behind this one.
    after: Option<TreePath>,
    memories: Vec<Uri>,
    /// The last that was visited whole.
    done: Option<TreePath>,
    /// Directories that it may still look at.
    left: usize,
}

impl Visit<'_> {
    /// Whether the whole directory was visited.
    async fn visit(&mut self, dir: TreePath) -> Result<bool> {
        if self.after.as_ref().is_some_and(|after| !is_behind(&dir, after) && !after.is_within(&dir)) {
            return Ok(true);
        }
        if self.after.as_ref() == Some(&dir) {
            return Ok(true);
        }
        if self.left == 0 {
            return Ok(false);
        }
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
        if whole {
            self.done = Some(dir);
        }
        Ok(whole)
    }

    async fn each(&mut self, dir: &TreePath, names: &[&str]) -> Result<bool> {
        for name in names {
            if !Box::pin(self.visit(TreePath::from_row(dir.key(), name))).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn listed(&mut self, dir: &TreePath) -> Result<bool> {
        // one of its directories may not have been visited whole
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
