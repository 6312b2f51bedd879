//! Files of all accounts of a home as one read-only tree, for operators: `/accounts/{account}` is the root of
//! an account. `docs/specs/operators.md` describes it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::Home;
use super::account::{Account, AccountState};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{Lowering, Store, StoreId, StoreLowering};
use crate::fs::{By, Capabilities, FileSystem, OpenFile, OpenNode, SearchTarget, Upload, ViewBase};
use crate::model::{
    At, Attributes, Batch, Blame, ByteRange, Change, ChangeKind, Changes, ChangesQuery, Commit, CommitId,
    Confinement, Entry, Fetched, Filling, FindAnswer, FindQuery, Head, HistoryPage, Ino, Item, KeyRecord,
    Kind, Listing, Moment, NamesPage, Page, SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage,
    StagedBody, Timestamp, Version, VersionId, Walk, WalkPage, Within, check_items, check_limit,
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
/// A symbolic link is resolved in its account: no account can lead an operator into another one.
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

/// Tree of an account, with its path.
struct Opened {
    fs: Arc<dyn FileSystem>,
    top: TreePath,
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

    /// Opens the tree of an account, in the state that is shown.
    async fn open_account(&self, account: &str) -> Result<Opened> {
        let top = top_of(account);
        let store = self.home.open(account).await.map_err(|error| missing(&top, error))?;
        let mut fs: Arc<dyn FileSystem> = store;
        for moment in &self.past {
            fs = fs.as_of(moment).await?;
        }
        Ok(Opened { fs, top })
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
            None => Err(several()),
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

    /// Returns the record of an account that is shown. Opens no tree.
    async fn record(&self, account: &str) -> Result<Account> {
        self.home.account(account).await.map_err(|error| missing(&top_of(account), error))
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

impl Opened {
    /// Returns an answer of the account, with the path of an error as the operator sees it.
    fn told<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.mapped(|path| self.up(path).ok()))
    }

    fn up(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.top.append(path)?)
    }

    fn down(&self, path: &TreePath) -> Result<TreePath> {
        if !path.is_within(&self.top) {
            return Err(Error::invalid("a page continues after a path of the same account"));
        }
        Ok(TreePath::from_key(path.key()[self.top.key().len()..].to_owned()))
    }

    fn after(&self, after: Option<&TreePath>) -> Result<Option<TreePath>> {
        after.map(|after| self.down(after)).transpose()
    }

    fn change(&self, change: Change) -> Result<Change> {
        let paths = change.paths.iter().map(|path| self.up(path)).collect::<Result<_>>()?;
        let kind = match change.kind {
            ChangeKind::Renamed { from } => ChangeKind::Renamed { from: self.up(&from)? },
            kind => kind,
        };
        Ok(Change { kind, paths, ..change })
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
    match error.is(ErrorKind::NotFound) && error.path().is_none() {
        true => Error::at(ErrorKind::NotFound, top, "there is no such account"),
        false => error,
    }
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
        self.only_account().await?.fs.head().await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        match self.place(at)? {
            Place::Root | Place::Accounts => Ok(directory(Timestamp::default())),
            // As in the list of accounts, which opens none.
            Place::Inside { account, path } if path.is_root() => {
                Ok(directory(self.record(&account).await?.created))
            }
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
                Some(top_of(&self.record(&account).await?.id))
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
        let (mut of, mut asked) = (None, Vec::new());
        for (at, range) in items {
            match self.place(at) {
                Ok(Place::Inside { account, path }) if of.as_ref().is_none_or(|of| *of == account) => {
                    of = Some(account);
                    asked.push((At::Path(path), *range));
                }
                // Items of one state only. The caller asks again for those of another account.
                _ if of.is_some() => break,
                Ok(_) => return Ok(Fetched::new(Seq(0), vec![Err(is_a_directory(at))])),
                Err(error) => return Ok(Fetched::new(Seq(0), vec![Err(error)])),
            }
        }
        let Some(account) = of else { return Ok(Fetched::new(Seq(0), Vec::new())) };
        let opened = match self.open_account(&account).await {
            // Of the first item, which is always answered.
            Err(error) if error.is_absent() => return Ok(Fetched::new(Seq(0), vec![Err(error)])),
            opened => opened?,
        };
        let fetched = opened.told(opened.fs.fetch_many(&asked).await)?;
        let answers = fetched.items.into_iter().map(|answer| opened.told(answer));
        Ok(Fetched::new(fetched.seq, answers.collect()))
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
        opened.told(opened.fs.open(&at).await)
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        // A version names a node of some account by its inode alone.
        if self.only.is_none() {
            return Err(by_inode());
        }
        let opened = self.only_account().await?;
        opened.told(opened.fs.open_version(version).await)
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let (opened, at) = self.inside(at, several).await?;
        opened.told(opened.fs.history(&at, page).await)
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
        self.only_account().await?.fs.wait(since).await
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let past = self.past.iter().chain([moment]).cloned().collect();
        let then = Self { past, ..self.clone() };
        if self.only.is_some() {
            // Reports an unknown moment.
            then.only_account().await?;
        } else if matches!(moment, Moment::Snapshot(_)) {
            let message = "a snapshot is one of an account: name a time or a sequence";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Arc::new(then))
    }

    async fn confined(&self, _: &Confinement) -> Result<Arc<dyn FileSystem>> {
        Err(Error::new(ErrorKind::Unsupported, "the tree of all accounts has no views"))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        self.only_account().await?.fs.snapshots(page).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        // Patterns alone can name the account, too.
        let from: Vec<TreePath> = query.patterns.iter().map(|pattern| pattern.from.clone()).collect();
        let asked: Vec<TreePath> = query.within.iter().chain(&from).cloned().collect();
        let (opened, mut within) = self.account_with(&asked).await?;
        let from = within.split_off(query.within.len());
        let mut query = query.clone().within_any(within);
        for (pattern, from) in query.patterns.iter_mut().zip(from) {
            pattern.from = from;
        }
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
        // Ids belong to the tree that commits under them.
        Ok(None)
    }

    async fn recorded(&self, _: &str) -> Result<Option<KeyRecord>> {
        Ok(None)
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
        Box::new(StoreLowering(Store { id, fs, within: Within::everything(), keys: None, registry: None }))
    }

    fn sought(&self, _: &Within, _: By) -> Result<Vec<SearchTarget>> {
        Ok(Vec::new())
    }

    fn link_root(&self, link: &TreePath) -> TreePath {
        Self::account_of(link).map_or_else(TreePath::root, top_of)
    }
}
