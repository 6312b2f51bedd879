//! Directory of another filesystem as a tree of its own.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::fs::lower::{LoweredAddress, Lowering, Store, StoreId};
use crate::fs::named_errors::named_errors;
use crate::fs::{By, Capabilities, FileSystem, Incoming, OpenFile, OpenNode, SearchTarget, Upload, ViewBase};
use crate::model::{
    Access, At, Batch, Blame, ByteRange, Change, ChangeKind, Changes, ChangesQuery, Commit, CommitId,
    Confinement, Entry, Fetched, FindAnswer, FindQuery, Head, HistoryPage, Hit, Ino, KeyRecord, Listing,
    Moment, NamesPage, Op, Owner, Page, Precondition, SearchAnswer, SearchQuery, Seq, Snapshot,
    SnapshotsPage, StagedBody, Version, VersionId, Walk, WalkPage, Within,
};
use crate::path::TreePath;
use crate::view::inode_map::renumbered;

/// Directory of another filesystem as a tree of its own. The directory is `/` with inode 1; other nodes keep
/// their inodes. The base is confined to the directory, so that it checks every read and commit in its own
/// transaction, and links and `..` are resolved in the scope's own paths ([`crate::fs::resolve`]): nothing
/// outside can be reached. A scope belongs to a path: a directory that takes its place is shown from then on.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Base, confined to `root`.
    base: Arc<dyn FileSystem>,
    root: TreePath,
}

impl Scope {
    /// Opens the directory `root` of `base`, which must exist, as a tree. Snapshots, commit ids, idempotency
    /// keys and staged bodies are stored under the owner `root`, so that scopes of one directory share them.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory`; as [`FileSystem::confined`].
    pub async fn open(base: &dyn FileSystem, root: &TreePath) -> Result<Arc<dyn FileSystem>> {
        Self::open_as(base, root, Owner::of_path(root)?).await
    }

    /// Opens a scope with another owner.
    ///
    /// # Errors
    /// As [`Scope::open`].
    pub async fn open_as(
        base: &dyn FileSystem,
        root: &TreePath,
        owner: Owner,
    ) -> Result<Arc<dyn FileSystem>> {
        let scope = Self::of(base, root, owner).await?;
        match scope.stat(&At::Path(TreePath::root())).await {
            Ok(entry) if entry.is_dir() => Ok(scope),
            Ok(_) => Err(Error::not_a_directory(root)),
            // The error names paths of the base, which the caller knows.
            Err(error) => Err(error.mapped(|path| root.append(path).ok())),
        }
    }

    /// Returns the scope of a directory without checking that it exists.
    #[doc(hidden)]
    pub async fn of(base: &dyn FileSystem, root: &TreePath, owner: Owner) -> Result<Arc<dyn FileSystem>> {
        let to = Confinement::new(Within::new([root.clone()]), owner);
        Ok(Arc::new(Self { base: base.confined(&to).await?, root: root.clone() }))
    }

    /// Returns the base's path of a path of the scope.
    fn down(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.root.append(path)?)
    }

    /// Returns the scope's path of a path of the base; `None` outside the scope.
    fn up(&self, path: &TreePath) -> Option<TreePath> {
        up_from(&self.root, path)
    }

    /// Returns a file of the base, with paths of errors in terms of the scope.
    fn file(&self, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        let root = self.root.clone();
        named_errors(file, move |error| error.mapped(|path| up_from(&root, path)))
    }

    fn at(&self, at: &At) -> Result<At> {
        Ok(match at {
            At::Path(path) => At::Path(self.down(path)?),
            // By path: a directory that has taken the place of the root since is the root now.
            At::Node(Ino::ROOT) => At::Path(self.root.clone()),
            At::Child(Ino::ROOT, name) => At::Path(self.root.join(name)?),
            At::Node(_) | At::Child(..) => at.clone(),
        })
    }

    fn paths(&self, paths: &[TreePath]) -> Result<Vec<TreePath>> {
        paths.iter().map(|path| self.down(path)).collect()
    }

    /// Returns the paths in the base.
    fn within(&self, within: &Within) -> Result<Within> {
        let named = within.named().into_iter().map(|(path, inside)| Ok((self.down(path)?, inside)));
        Ok(Within::of(named.collect::<Result<Vec<_>>>()?))
    }

    /// Returns an answer of the base with the error's paths in terms of the scope.
    fn told<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.mapped(|path| self.up(path)))
    }

    fn over(&self, base: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        Arc::new(Self { base, root: self.root.clone() })
    }
}

/// Returns the path in the scope of `root` of a path of its base; `None` outside the scope.
fn up_from(root: &TreePath, path: &TreePath) -> Option<TreePath> {
    path.rebase(root, &TreePath::root())?.ok()
}

/// Returns true for an address of the root.
fn is_root(at: &At) -> bool {
    match at {
        At::Path(path) => path.is_root(),
        At::Node(ino) => *ino == Ino::ROOT,
        At::Child(..) => false,
    }
}

/// Returns the root as the scope shows it.
fn as_root(entry: Entry) -> Entry {
    renumbered(entry, Ino::ROOT)
}

fn shown(at: &At, entry: Entry) -> Entry {
    if is_root(at) { as_root(entry) } else { entry }
}

#[async_trait]
impl FileSystem for Scope {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        // A path that is too long for the base has the abilities of the root.
        self.base.capabilities(&self.down(at).unwrap_or_else(|_| self.root.clone()))
    }

    async fn head(&self) -> Result<Head> {
        self.told(self.base.head().await)
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        Ok(shown(at, self.told(self.base.stat(&self.at(at)?).await)?))
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        let after = page.after.as_ref().map(|path| self.down(path)).transpose()?;
        let mut names = self.told(self.base.names(&self.at(at)?, &page.clone().after(after)).await)?;
        names.items = names.items.iter().filter_map(|path| self.up(path)).collect();
        Ok(names)
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.told(self.base.list(&self.at(dir)?, page).await)
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        let after = page.after.as_ref().map(|path| self.down(path)).transpose()?;
        let page = page.clone().after(after);
        let mut walk = self.told(self.base.walk(&self.at(dir)?, &page).await)?;
        walk.items.retain_mut(|item| match self.up(&item.path) {
            Some(path) => {
                item.path = path;
                true
            }
            None => false,
        });
        Ok(walk)
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let (entry, bytes) = self.told(self.base.fetch(&self.at(at)?, range).await)?;
        Ok((shown(at, entry), bytes))
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        // An address that is too long for the base fails alone, not the whole call.
        let below = items.iter().map(|(at, range)| Ok((self.at(at)?, *range))).collect::<Vec<Result<_>>>();
        let asked: Vec<_> = below.iter().filter_map(|item| item.as_ref().ok().cloned()).collect();
        let fetched = self.told(self.base.fetch_many(&asked).await)?;
        let mut found = fetched.items.into_iter();
        // The base may answer only the first of its items. An address that failed here does not end the
        // answer.
        let answers = items.iter().zip(below).map_while(|((at, _), item)| match item {
            Ok(_) => found.next().map(|answer| {
                let (entry, bytes) = self.told(answer)?;
                Ok((shown(at, entry), bytes))
            }),
            Err(error) => Some(Err(error)),
        });
        Ok(Fetched { seq: fetched.seq, items: answers.collect() })
    }

    async fn read(&self, at: &At, range: ByteRange) -> Result<Bytes> {
        self.told(self.base.read(&self.at(at)?, range).await)
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        let node = self.told(self.base.hold(&self.at(at)?).await)?;
        Ok(if is_root(at) { Arc::new(OpenRoot(node)) } else { node })
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        Ok(self.file(self.told(self.base.open(&self.at(at)?).await)?))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        Ok(self.file(self.told(self.base.open_version(version).await)?))
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let mut versions = self.told(self.base.history(&self.at(at)?, page).await)?;
        if is_root(at) {
            for version in &mut versions.items {
                version.id.ino = Ino::ROOT;
                version.entry = version.entry.take().map(|entry| Box::new(as_root(*entry)));
            }
        }
        Ok(versions)
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.told(self.base.blame(&self.at(at)?, range, limit).await)
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        let mut query = query.clone();
        query.within = self.paths(&query.within)?;
        let mut changes = self.told(self.base.changes(&query).await)?;
        for change in changes.commits.iter_mut().flat_map(|commit| &mut commit.changes) {
            let Change { kind, ino, paths, .. } = change;
            *paths = paths.iter().filter_map(|path| self.up(path)).collect();
            if paths.iter().any(TreePath::is_root) {
                *ino = Ino::ROOT;
            }
            if let ChangeKind::Renamed { from } = kind {
                match self.up(from) {
                    Some(path) => *from = path,
                    // The node has come from outside of the scope.
                    None => *kind = ChangeKind::Created,
                }
            }
        }
        Ok(changes)
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        self.told(self.base.wait(since).await)
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        Ok(self.over(self.told(self.base.as_of(moment).await)?))
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        to.reject_gates()?;
        let (within, read_only) = (self.within(&to.within)?, self.within(&to.read_only)?);
        let to = Confinement { within, read_only, ..to.clone() };
        Ok(self.over(self.told(self.base.confined(&to).await)?))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        self.told(self.base.snapshots(page).await)
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        let mut query = query.clone().within_any(self.paths(&query.within)?);
        for pattern in &mut query.patterns {
            // Patterns are relative to a directory, so only that is translated.
            pattern.from = self.down(&pattern.from)?;
        }
        let mut answer = self.told(self.base.search(&query).await)?;
        answer.hits.retain_mut(|hit| match self.up(&hit.path) {
            Some(path) => {
                hit.path = path;
                true
            }
            None => false,
        });
        Ok(answer)
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        let query = query.clone().within_any(self.paths(&query.within)?);
        let mut answer = self.told(self.base.find(&query).await)?;
        answer.items.retain_mut(|item| match self.up(&item.path) {
            Some(path) => {
                item.ino = if path.is_root() { Ino::ROOT } else { item.ino };
                item.path = path;
                true
            }
            None => false,
        });
        Ok(answer)
    }

    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>> {
        self.told(self.base.stage(&self.at(at)?).await)
    }

    async fn admit(&self, at: &At, content: &Incoming) -> Result<()> {
        self.told(self.base.admit(&self.at(at)?, content).await)
    }

    async fn discard(&self, at: &At, staged: &StagedBody) -> Result<()> {
        self.told(self.base.discard(&self.at(at)?, staged).await)
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        super::lower::commit(&|| self.lowering(), &batch).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        self.told(self.base.committed(id).await)
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        self.told(self.base.recorded(key).await)
    }

    async fn sync(&self) -> Result<Seq> {
        self.told(self.base.sync().await)
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

#[async_trait]
impl ViewBase for Scope {
    async fn stat_first(&self, places: [&At; 2]) -> (usize, Result<Entry>) {
        let (one, other) = match (self.at(places[0]), self.at(places[1])) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(error), _) => return (0, Err(error)),
            (_, Err(error)) => return (1, Err(error)),
        };
        let (place, found) = self.base.view_base().stat_first([&one, &other]).await;
        (place, self.told(found).map(|entry| shown(places[place], entry)))
    }

    fn known_durable(&self) -> Result<Seq> {
        self.told(self.base.view_base().known_durable())
    }

    async fn settle(&self, seq: Seq) -> Result<()> {
        self.told(self.base.view_base().settle(seq).await)
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        Box::new(ScopeLowering { scope: self.clone(), base: self.base.view_base().lowering() })
    }

    fn link_root(&self, link: &TreePath) -> TreePath {
        let root = self.down(link).map(|link| self.base.view_base().link_root(&link));
        // A limit above the directory is no limit below it.
        root.ok().and_then(|root| self.up(&root)).unwrap_or_default()
    }

    fn original_of(&self, path: &TreePath) -> Option<TreePath> {
        self.up(&self.base.view_base().original_of(&self.down(path).ok()?)?)
    }

    fn sought(&self, within: &Within, by: By) -> Result<Vec<SearchTarget>> {
        self.base.view_base().sought(&self.within(within)?, by)
    }

    fn is_searchable(&self, path: &TreePath) -> bool {
        self.down(path).is_ok_and(|path| self.base.view_base().is_searchable(&path))
    }

    async fn found(&self, store: StoreId, hit: &Hit, by: By) -> Result<Vec<Hit>> {
        let found = self.base.view_base().found(store, hit, by).await?.into_iter();
        Ok(found.filter_map(|hit| Some(Hit { path: self.up(&hit.path)?, ..hit })).collect())
    }
}

/// Handle to the root.
#[derive(Debug)]
struct OpenRoot(Arc<dyn OpenNode>);

#[async_trait]
impl OpenNode for OpenRoot {
    fn ino(&self) -> Ino {
        Ino::ROOT
    }

    async fn stat(&self) -> Result<Entry> {
        Ok(as_root(self.0.stat().await?))
    }
}

/// Lowering of a batch through a scope.
#[derive(Debug)]
struct ScopeLowering {
    scope: Scope,
    base: Box<dyn Lowering>,
}

#[async_trait]
impl Lowering for ScopeLowering {
    fn home(&self) -> Store {
        self.base.home()
    }

    fn admit(&self, op: &Op) -> Result<()> {
        self.base.admit(op)
    }

    fn begin(&mut self, expires: bool) {
        self.base.begin(expires);
    }

    async fn lower(&mut self, at: &At, access: Access) -> Result<LoweredAddress> {
        let below = match at {
            // By inode, because the store has to refuse operations that take none. It would accept the path.
            At::Node(Ino::ROOT) => At::Node(self.base_root().await?),
            _ => self.scope.at(at)?,
        };
        let mut lowered = self.scope.told(self.base.lower(&below, access).await)?;
        if is_root(at) {
            lowered.shown.ino = Some(Ino::ROOT);
        }
        Ok(lowered)
    }

    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(LoweredAddress, Precondition)> {
        let mut that = that.clone();
        for version in that.versions() {
            // In the base the root has another inode.
            if version.ino == Ino::ROOT {
                version.ino = self.base_root().await?;
            }
        }
        let below = match at {
            At::Node(Ino::ROOT) => At::Node(self.base_root().await?),
            _ => self.scope.at(at)?,
        };
        let (mut lowered, that) = self.scope.told(self.base.condition(&below, &that).await)?;
        if is_root(at) {
            lowered.shown.ino = Some(Ino::ROOT);
        }
        Ok((lowered, that))
    }

    async fn number(&mut self, ino: Ino) -> Result<Ino> {
        let below = if ino == Ino::ROOT { self.base_root().await? } else { ino };
        self.scope.told(self.base.number(below).await)
    }

    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>> {
        self.scope.told(self.base.tops(&self.scope.down(top)?).await)
    }

    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath> {
        self.scope.up(&self.base.raise(store, path)?)
    }
}

impl ScopeLowering {
    async fn base_root(&self) -> Result<Ino> {
        let root = At::Path(self.scope.root.clone());
        Ok(self.scope.told(self.scope.base.stat(&root).await)?.ino)
    }
}
