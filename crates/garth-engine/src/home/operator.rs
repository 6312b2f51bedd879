//! Files of all accounts of a home as one read-only tree, for operators: `/accounts/{account}` is the root of
//! an account. `docs/specs/operators.md` describes it.

mod opened;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use self::opened::Opened;
use super::account::{Account, AccountState};
use super::{FILES_OWNER, Home};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{Lowering, Store, StoreId, StoreLowering};
use crate::fs::search_patterns::SearchPatterns;
use crate::fs::{By, Capabilities, FileSystem, OpenFile, OpenNode, SearchTarget, Upload, ViewBase};
use crate::model::{
    At, Attributes, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry,
    Fetched, Filling, FindAnswer, FindQuery, Head, HistoryPage, Ino, Item, KeyRecord, Kind, Listing, Moment,
    NamesPage, Owner, Page, SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody, Timestamp,
    Version, VersionId, Walk, WalkPage, Within, check_items, check_limit,
};
use crate::path::{Name, TreePath};

/// Name of the directory of all accounts.
const ACCOUNTS: &str = "accounts";

/// Abilities below `/accounts/{account}`. Inodes are those of each account, so that nodes are found by paths
/// only.
const INSIDE: Capabilities = Capabilities {
    write: false,
    atomic: false,
    durable: false,
    nodes: false,
    snapshots: false,
    confinement: false,
    ..Capabilities::ALL
};

/// Files of all accounts as one read-only tree. Each call is answered by the account that its path names, and
/// opens no other one; lists of accounts open none. Calls without a path, such as `head`, need a tree of one
/// account ([`OperatorTree::of_account`]).
///
/// The files of an account are shown as calls on files show them to a key of the account that is bound to
/// nothing. A symbolic link is resolved in its account: no account can lead an operator into another one.
///
/// An account that cannot be read fails the calls on it, with an error about `/accounts/{account}`, and no
/// others.
///
/// ```
/// # use garth_engine as garth;
/// # fn main() -> garth::Result<()> { futures::executor::block_on(async {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// use std::sync::Arc;
///
/// use garth::home::OperatorTree;
/// use garth::rule::Registry;
/// use garth::{DataDir, Env, FileSystemExt};
///
/// let data = DataDir::open(folder.path(), Env::system(), Registry::empty())?;
/// data.create_account("acme").await?;
/// data.account("acme").await?.write("/note.md", "A note.").await?;
///
/// let all = OperatorTree::new(Arc::new(data));
/// assert_eq!(all.read_to_string("/accounts/acme/note.md").await?, "A note.");
/// assert!(all.write("/accounts/acme/note.md", "").await.is_err());
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
pub struct OperatorTree {
    home: Arc<dyn Home>,
    /// Identity as a store.
    id: Arc<()>,
    /// Only account that is shown; `None` for all.
    only: Option<String>,
    /// Moments of the accounts, each in the state of the one before. Empty for the newest state.
    past: Vec<Moment>,
}

/// Place of an address.
enum Place {
    /// `/`.
    Root,
    /// `/accounts`.
    Accounts,
    /// Path in an account.
    Inside { account: String, path: TreePath },
}

impl OperatorTree {
    /// Returns the files of all accounts.
    pub fn new(home: Arc<dyn Home>) -> Self {
        Self { home, id: Arc::new(()), only: None, past: Vec::new() }
    }

    /// Returns the files of one account, under the same paths. Calls without a path are on this account.
    pub fn of_account(home: Arc<dyn Home>, account: impl Into<String>) -> Self {
        Self { only: Some(account.into()), ..Self::new(home) }
    }

    /// Returns the account that a path is in; `None` for the directories above the accounts.
    pub fn account_of(path: &TreePath) -> Option<&str> {
        let mut segments = path.segments();
        segments.next().filter(|first| *first == ACCOUNTS)?;
        segments.next()
    }

    fn place(&self, at: &At) -> Result<Place> {
        let path = match at {
            At::Path(path) => path,
            At::Node(Ino::ROOT) => return Ok(Place::Root),
            At::Node(_) | At::Child(..) => return Err(by_inode()),
        };
        if path.is_root() {
            return Ok(Place::Root);
        }
        match Self::account_of(path) {
            Some(account) if self.only.as_ref().is_none_or(|only| only == account) => {
                let below = path.key()[top_of(account).key().len()..].to_owned();
                Ok(Place::Inside { account: account.to_owned(), path: TreePath::from_key(below) })
            }
            None if path.name() == Some(ACCOUNTS) && path.segments().count() == 1 => Ok(Place::Accounts),
            _ if self.only.is_some() => Err(Error::not_found(path)),
            _ => {
                let message =
                    "no such file or directory: the paths of all accounts begin with /accounts/NAME";
                Err(Error::at(ErrorKind::NotFound, path, message))
            }
        }
    }

    /// Opens the files of an account, in the state that is shown.
    async fn open_account(&self, account: &str) -> Result<Opened> {
        let (top, to) = (top_of(account), Confinement::new(Within::everything(), Owner::new(FILES_OWNER)?));
        let store = self.home.open(account).await.map_err(|error| missing(&top, error).about(&top))?;
        let files = store.confined(&to).await.map_err(|error| error.about(&top))?;
        let fs = self.in_past(files).await.map_err(|error| error.about(&top))?;
        Ok(Opened { fs, top })
    }

    /// Returns a tree of an account in the state that is shown.
    async fn in_past(&self, mut fs: Arc<dyn FileSystem>) -> Result<Arc<dyn FileSystem>> {
        for moment in &self.past {
            fs = fs.as_of(moment).await?;
        }
        Ok(fs)
    }

    /// Returns the commit of a snapshot of the only account: of one of its files, else of any other.
    async fn commit_of(&self, snapshot: &Moment) -> Result<Moment> {
        let Some(account) = &self.only else {
            let message = "a snapshot is one of an account: name a time or a sequence";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let files = self.open_account(account).await?.fs;
        let found = match files.as_of(snapshot).await {
            Err(error) if error.is(ErrorKind::NotFound) => {
                let store =
                    self.home.open(account).await.map_err(|error| missing(&top_of(account), error))?;
                self.in_past(store).await?.as_of(snapshot).await?
            }
            found => found?,
        };
        Ok(Moment::Seq(found.head().await?.seq))
    }

    /// Opens the account of an address. Returns its tree and the address there. `above` is the error for the
    /// directories above the accounts.
    async fn inside(&self, at: &At, above: impl FnOnce() -> Error + Send) -> Result<(Opened, At)> {
        match self.place(at)? {
            Place::Inside { account, path } => Ok((self.open_account(&account).await?, At::Path(path))),
            Place::Root | Place::Accounts => Err(above()),
        }
    }

    /// Opens the account of a call without a path.
    async fn only_account(&self) -> Result<Opened> {
        match &self.only {
            Some(account) => self.open_account(account).await,
            None => Err(no_log()),
        }
    }

    /// Opens the account that paths are in. Returns its tree and the paths there.
    async fn account_with(&self, paths: &[TreePath]) -> Result<(Opened, Vec<TreePath>)> {
        let (mut found, mut below) = (self.only.clone(), Vec::with_capacity(paths.len()));
        for path in paths {
            match self.place(&At::from(path))? {
                Place::Inside { account, path } if found.as_ref().is_none_or(|found| *found == account) => {
                    found = Some(account);
                    below.push(path);
                }
                // All that is shown below is the account.
                Place::Root | Place::Accounts if self.only.is_some() => below.push(TreePath::root()),
                Place::Inside { .. } | Place::Root | Place::Accounts => return Err(several()),
            }
        }
        Ok((self.open_account(&found.ok_or_else(several)?).await?, below))
    }

    /// Reads files of an account. If that fails, the error is the answer to each of them, so that the caller
    /// gets past the account.
    async fn fetch_from(&self, account: &str, asked: &[(At, ByteRange)]) -> Fetched {
        let read = async {
            let opened = self.open_account(account).await?;
            let fetched = opened.told(opened.fs.fetch_many(asked).await)?;
            let items = fetched.items.into_iter().map(|answer| opened.told(answer)).collect();
            Ok::<_, Error>(Fetched { seq: fetched.seq, items })
        };
        let failed = |error: Error| Fetched::of_no_state(asked.iter().map(|_| Err(error.clone())).collect());
        read.await.unwrap_or_else(failed)
    }

    /// Returns the record of an account that is shown. Opens no tree.
    async fn record(&self, account: &str) -> Result<Account> {
        self.home.account(account).await.map_err(|error| missing(&top_of(account), error))
    }

    /// Returns the root of an account, as in the list of accounts. Opens the account only in the past, to
    /// report an unknown moment.
    async fn root_of(&self, account: &str) -> Result<Entry> {
        let record = self.record(account).await?;
        if !self.past.is_empty() {
            self.open_account(account).await?;
        }
        Ok(directory(record.created))
    }

    async fn list_accounts(&self, page: &Page) -> Result<Listing> {
        let mut filling = Filling::new(page.limit);
        let mut after = page.after.as_ref().map_or_else(String::new, |name| name.as_str().to_owned());
        if let Some(only) = &self.only {
            if *only > after {
                filling.push(item(only, self.record(only).await?.created, page)?);
            }
            return Ok(filling.done());
        }
        loop {
            // One more shows whether there are more.
            let accounts = self.home.accounts(&after, filling.room() + 1).await?;
            let Some(last) = accounts.last() else { return Ok(filling.done()) };
            after.clone_from(&last.id);
            let active = accounts.iter().filter(|account| account.state == AccountState::Active);
            for account in active {
                if !filling.push(item(&account.id, account.created, page)?) {
                    return Ok(filling.done());
                }
            }
        }
    }
}

/// Returns the path of an account.
fn top_of(account: &str) -> TreePath {
    TreePath::from_row(&format!("/{ACCOUNTS}"), account)
}

/// Returns the item of an account in the list of all.
fn item(account: &str, created: Timestamp, page: &Page) -> Result<Item> {
    let entry = page.entries.then(|| Box::new(directory(created)));
    Ok(Item { name: Name::parse(account)?, ino: Ino::ROOT, kind: Kind::Directory, entry })
}

/// Returns the entry of a directory that no account stores.
fn directory(created: Timestamp) -> Entry {
    let version = VersionId { seq: Seq(0), ino: Ino::ROOT };
    Entry {
        ino: Ino::ROOT,
        kind: Kind::Directory,
        mode: 0o555,
        uid: 0,
        gid: 0,
        rdev: 0,
        nlink: 2,
        size: 0,
        atime: created,
        mtime: created,
        ctime: created,
        birthtime: created,
        target: None,
        attributes: Attributes::default(),
        expires_at: None,
        version,
        etag: version,
    }
}

fn missing(top: &TreePath, error: Error) -> Error {
    if error.is(ErrorKind::NotFound) { error.about(top) } else { error }
}

fn read_only() -> Error {
    let message =
        "the tree of all accounts is read-only: change an account with a key or the tree of its own";
    Error::new(ErrorKind::ReadOnly, message)
}

fn several() -> Error {
    let message = "accounts are searched and followed one by one: name paths of one account, such as \
                   /accounts/acme";
    Error::new(ErrorKind::Unsupported, message)
}

fn no_log() -> Error {
    let message = "this call needs the log of one account; use a key of that account";
    Error::new(ErrorKind::Unsupported, message)
}

fn no_versions() -> Error {
    let message = "the directories above the files of accounts have no versions: name a path in an account, or \
                   ask for the changes of the account";
    Error::new(ErrorKind::Unsupported, message)
}

fn no_commits() -> Error {
    let message = "the tree of all accounts has no commits of its own, and so no ids of commits: ask with a key \
                   of the account";
    Error::new(ErrorKind::Unsupported, message)
}

fn by_inode() -> Error {
    let message = "the tree of all accounts has no inodes of its own: name a path";
    Error::new(ErrorKind::Unsupported, message)
}

/// Directory above the contents of accounts, held open.
#[derive(Debug)]
struct Above(Entry);

#[async_trait]
impl OpenNode for Above {
    fn ino(&self) -> Ino {
        self.0.ino
    }

    async fn stat(&self) -> Result<Entry> {
        Ok(self.0.clone())
    }
}

#[async_trait]
impl FileSystem for OperatorTree {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        match self.place(&At::from(at)) {
            Ok(Place::Inside { .. }) => INSIDE,
            _ => Capabilities::default(),
        }
    }

    async fn head(&self) -> Result<Head> {
        let opened = self.only_account().await?;
        opened.told(opened.fs.head().await)
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        match self.place(at)? {
            Place::Root | Place::Accounts => Ok(directory(Timestamp::default())),
            Place::Inside { account, path } if path.is_root() => self.root_of(&account).await,
            Place::Inside { account, path } => {
                let opened = self.open_account(&account).await?;
                opened.told(opened.fs.stat(&At::Path(path)).await)
            }
        }
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        check_limit(page.limit)?;
        let above = match self.place(at)? {
            Place::Root => Some(TreePath::root()),
            Place::Accounts => Some(TreePath::from_row("", ACCOUNTS)),
            Place::Inside { account, path } if path.is_root() => {
                self.root_of(&account).await?;
                Some(top_of(&account))
            }
            Place::Inside { .. } => None,
        };
        if let Some(path) = above {
            // A directory has one name.
            let items = Vec::from_iter(page.after.is_none().then_some(path));
            return Ok(Listing { items, more: false });
        }
        let (opened, at) = self.inside(at, several).await?;
        let page = page.clone().after(opened.after(page.after.as_ref())?);
        let names = opened.told(opened.fs.names(&at, &page).await)?;
        let items = names.items.iter().map(|path| opened.up(path)).collect::<Result<_>>()?;
        Ok(Listing { items, more: names.more })
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        check_limit(page.limit)?;
        match self.place(dir)? {
            Place::Root => {
                let is_next = page.after.as_ref().is_none_or(|after| after.as_str() < ACCOUNTS);
                let accounts = is_next.then(|| item(ACCOUNTS, Timestamp::default(), page)).transpose()?;
                Ok(Listing { items: Vec::from_iter(accounts), more: false })
            }
            Place::Accounts => self.list_accounts(page).await,
            Place::Inside { account, path } => {
                let opened = self.open_account(&account).await?;
                opened.told(opened.fs.list(&At::Path(path), page).await)
            }
        }
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        let (opened, at) = self.inside(dir, several).await?;
        let page = page.clone().after(opened.after(page.after.as_ref())?);
        let mut walk = opened.told(opened.fs.walk(&at, &page).await)?;
        for item in &mut walk.items {
            item.path = opened.up(&item.path)?;
        }
        Ok(walk)
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let (opened, at) = self.inside(at, || is_a_directory(at)).await?;
        opened.told(opened.fs.fetch(&at, range).await)
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        let (mut of, mut below) = (None, Vec::with_capacity(items.len()));
        for (at, range) in items {
            below.push(match self.place(at) {
                Ok(Place::Inside { account, path }) if of.as_ref().is_none_or(|of| *of == account) => {
                    of = Some(account);
                    Ok((At::Path(path), *range))
                }
                // Items of one state only. The caller asks again for those of another account.
                Ok(Place::Inside { .. }) => break,
                Ok(Place::Root | Place::Accounts) => Err(is_a_directory(at)),
                Err(error) => Err(error),
            });
        }
        let asked: Vec<_> = below.iter().filter_map(|item| item.as_ref().ok().cloned()).collect();
        let fetched = match &of {
            Some(account) => self.fetch_from(account, &asked).await,
            None => Fetched::of_no_state(Vec::new()),
        };
        // The others would be read as of this commit of another account.
        let seq = fetched.seq.filter(|_| below.len() == items.len());
        let mut found = fetched.items.into_iter();
        let answers = below.into_iter().map_while(|item| match item {
            Ok(_) => found.next(),
            Err(error) => Some(Err(error)),
        });
        Ok(Fetched { seq, items: answers.collect() })
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        match self.place(at)? {
            Place::Inside { account, path } if !path.is_root() => {
                let opened = self.open_account(&account).await?;
                opened.told(opened.fs.hold(&At::Path(path)).await)
            }
            Place::Inside { .. } | Place::Root | Place::Accounts => Ok(Arc::new(Above(self.stat(at).await?))),
        }
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let (opened, at) = self.inside(at, || is_a_directory(at)).await?;
        Ok(opened.file(opened.told(opened.fs.open(&at).await)?))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        // A version names a node of some account by its inode alone.
        if self.only.is_none() {
            return Err(by_inode());
        }
        let opened = self.only_account().await?;
        Ok(opened.file(opened.told(opened.fs.open_version(version).await)?))
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        match self.place(at)? {
            Place::Inside { account, path } if !path.is_root() => {
                let opened = self.open_account(&account).await?;
                opened.told(opened.fs.history(&At::Path(path), page).await)
            }
            Place::Inside { account, .. } => {
                self.root_of(&account).await?;
                Err(no_versions())
            }
            Place::Root | Place::Accounts => Err(no_versions()),
        }
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        let (opened, at) = self.inside(at, || is_a_directory(at)).await?;
        opened.told(opened.fs.blame(&at, range, limit).await)
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        let (opened, within) = self.account_with(&query.within).await?;
        let query = ChangesQuery { within, ..query.clone() };
        let mut changes = opened.told(opened.fs.changes(&query).await)?;
        for commit in &mut changes.commits {
            let shown = std::mem::take(&mut commit.changes).into_iter();
            commit.changes = shown.map(|change| opened.change(change)).collect::<Result<_>>()?;
        }
        Ok(changes)
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        let opened = self.only_account().await?;
        opened.told(opened.fs.wait(since).await)
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let moment = match moment {
            Moment::Snapshot(_) => self.commit_of(moment).await?,
            Moment::Seq(_) | Moment::Time(_) => moment.clone(),
        };
        let past = self.past.iter().cloned().chain([moment]).collect();
        let then = Self { past, ..self.clone() };
        if self.only.is_some() {
            // Reports an unknown moment.
            then.only_account().await?;
        }
        Ok(Arc::new(then))
    }

    async fn confined(&self, _: &Confinement) -> Result<Arc<dyn FileSystem>> {
        Err(Error::new(ErrorKind::Unsupported, "the tree of all accounts has no views"))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        let opened = self.only_account().await?;
        opened.told(opened.fs.snapshots(page).await)
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        // Patterns alone can name the account, too.
        let places = match query.within.is_empty() {
            true => SearchPatterns::of(query)?.places()?,
            false => Within::new(query.within.iter().cloned()),
        };
        let (opened, within) = self.account_with(places.tops()).await?;
        let patterns = SearchPatterns::relative_to(&opened.top, &query.patterns)?;
        if patterns.is_empty() && !query.patterns.is_empty() {
            // They match no path of the account.
            return Ok(SearchAnswer::default());
        }
        let query = SearchQuery { patterns, within, ..query.clone() };
        let mut answer = opened.told(opened.fs.search(&query).await)?;
        for hit in &mut answer.hits {
            hit.path = opened.up(&hit.path)?;
        }
        Ok(answer)
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        let (opened, within) = self.account_with(&query.within).await?;
        let mut answer = opened.told(opened.fs.find(&query.clone().within_any(within)).await)?;
        for item in &mut answer.items {
            item.path = opened.up(&item.path)?;
        }
        Ok(answer)
    }

    async fn stage(&self, _: &At) -> Result<Box<dyn Upload>> {
        Err(read_only())
    }

    async fn discard(&self, _: &At, _: &StagedBody) -> Result<()> {
        Err(read_only())
    }

    async fn commit(&self, _: Batch) -> Result<Commit> {
        Err(read_only())
    }

    async fn committed(&self, _: CommitId) -> Result<Option<Commit>> {
        // `None` would mean: commit it again.
        Err(no_commits())
    }

    async fn recorded(&self, _: &str) -> Result<Option<KeyRecord>> {
        Err(no_commits())
    }

    async fn sync(&self) -> Result<Seq> {
        Err(read_only())
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

fn is_a_directory(at: &At) -> Error {
    match at {
        At::Path(path) => Error::is_a_directory(path),
        At::Node(_) | At::Child(..) => Error::is_a_directory(&TreePath::root()),
    }
}

#[async_trait]
impl ViewBase for OperatorTree {
    fn lowering(&self) -> Box<dyn Lowering> {
        let (id, fs) = (StoreId::of(&self.id, None), Arc::new(self.clone()));
        let (within, gates) = (Within::everything(), Vec::new());
        Box::new(StoreLowering(Store { id, fs, within, gates, keys: None, registry: None }))
    }

    fn sought(&self, _: &Within, _: By) -> Result<Vec<SearchTarget>> {
        Ok(Vec::new())
    }

    fn link_root(&self, link: &TreePath) -> TreePath {
        Self::account_of(link).map_or_else(TreePath::root, top_of)
    }
}
