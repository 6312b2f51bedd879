//! Folder of the host as a filesystem, without an import: the folder of a skill, a checkout. The kernel
//! confines every lookup to the folder (`openat2`), even while other processes change it.
//!
//! A folder is no database: other processes write to it, it has no log, and a batch is performed operation by
//! operation. `docs/specs/host.md` specifies how far it fulfils the contract; [`Capabilities`] declare what
//! is missing.

mod failed;
mod file;
mod listing;
mod lookup;
mod node;
mod ops;
mod scratch;
mod upload;
mod writer;

use std::any::Any;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::{CWD, Mode as Permissions, OFlags, openat};
use rustix::io::Errno;

use self::failed::{failed, failed_without_path, unsupported};
use self::file::{HostFile, SHORT};
use self::lookup::{Tree, path_of};
use self::node::{Node, open_dir};
use self::ops::check_supported;
use self::scratch::{SCRATCH, Scratch};
use self::upload::HostUpload;
use self::writer::{Uploads, Writer};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{Lowering, Store, StoreId, StoreLowering};
use crate::fs::{Capabilities, FileSystem, OpenFile, OpenNode, Upload, ViewBase};
use crate::model::{
    At, Batch, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Durability, Entry, Fetched,
    Head, HistoryPage, KeyRecord, Listing, MAX_PAGE, MAX_READ, Moment, NamesPage, Owner, Page, SearchAnswer,
    SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody, Timestamp, Version, VersionId, Walk, WalkPage,
    Within, check_items,
};
use crate::path::{MAX_PATH, TreePath};
use crate::runtime::fault_injection::Fault;
use crate::threads::executor::Executor;
use crate::threads::lock::lock;

/// Threads for listings, long reads and uploads.
const THREADS: usize = 4;

/// Mode in which [`HostFs`] opens a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing in the folder is changed, and nothing is added to it.
    ReadOnly,
    /// The folder can be changed. Unfinished files are stored in its directory `.garth-tmp`.
    Writable,
}

/// Folder of the host. Clones share one instance.
#[derive(Clone)]
pub struct HostFs {
    folder: Arc<Folder>,
    /// Paths that the view reaches.
    within: Arc<Within>,
    /// Owner of the view; `None` for the folder itself.
    owner: Option<Owner>,
    /// Owners of the views that it was joined with.
    joined: Vec<Option<Owner>>,
}

/// Open folder.
struct Folder {
    root: OwnedFd,
    mode: Mode,
    env: Env,
    /// Fault that tests inject.
    fault: Fault,
    state: Mutex<State>,
    uploads: Arc<Mutex<Uploads>>,
    /// Threads for everything that takes long, except commits.
    threads: Arc<Executor>,
    /// A single thread, so that the commits of an instance are serial.
    writer: Executor,
}

/// State that an instance remembers.
#[derive(Clone, Copy)]
struct State {
    /// Head. Only commits of this instance count; those of others are not known.
    head: Head,
    /// True if an acknowledged commit may not survive loss of power.
    unsynced: bool,
}

impl fmt::Debug for HostFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFs")
            .field("mode", &self.folder.mode)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

impl HostFs {
    /// Opens an existing folder. If it is writable, removes the remains of a crash from its `.garth-tmp`.
    ///
    /// # Errors
    /// - `NotFound`, `NotADirectory`, `AccessDenied`: the folder cannot be opened.
    /// - `Unsupported`: the kernel is older than Linux 5.8, or `/proc` is missing.
    pub fn open(folder: &Path, mode: Mode, env: Env) -> Result<Arc<Self>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, folder, flags, Permissions::empty()).map_err(|errno| match errno {
            Errno::NOENT => Error::new(ErrorKind::NotFound, "the folder does not exist; create it first"),
            Errno::NOTDIR => Error::new(ErrorKind::NotADirectory, "not a folder"),
            errno => failed_without_path(errno),
        })?;
        // Tries both system calls that everything else needs: `openat2`, and opening a descriptor again by
        // `/proc`.
        let works =
            Node::below(root.as_fd(), "").and_then(|node| node.reopen(OFlags::RDONLY | OFlags::DIRECTORY));
        works.map_err(|errno| match errno {
            Errno::NOSYS | Errno::NOENT => unsupported("needs Linux 5.8 or newer, and /proc"),
            errno => failed_without_path(errno),
        })?;
        if mode == Mode::Writable {
            // Without a turn, this would remove files of a commit that another process is running.
            match Scratch::existing(root.as_fd(), &env) {
                Ok(scratch) => scratch.clean(&scratch.turn()?)?,
                Err(error) if error.is(ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let head = Head { seq: Seq(0), time: Timestamp(0) };
        let folder = Folder {
            root,
            mode,
            env,
            fault: Fault::from_environment(),
            state: Mutex::new(State { head, unsynced: false }),
            uploads: Arc::default(),
            threads: Arc::new(Executor::new("garth-host", THREADS)),
            writer: Executor::new("garth-host-writer", 1),
        };
        Ok(Arc::new(Self {
            folder: Arc::new(folder),
            within: Arc::new(Within::everything()),
            owner: None,
            joined: Vec::new(),
        }))
    }

    fn tree(&self) -> Tree<'_> {
        Tree { root: &self.folder.root, within: &self.within }
    }

    /// Runs a long read on a thread of its own, so that it does not hold up the caller's.
    async fn long<T: Send + 'static>(
        &self,
        read: impl FnOnce(Tree<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let fs = self.clone();
        self.folder.threads.run(move || read(fs.tree())).await
    }

    /// Returns the entry at a path. The root counts only the directories that are shown.
    fn stat_path(&self, path: &TreePath) -> Result<Entry> {
        let mut entry = self.tree().find(path)?.entry().map_err(|errno| failed(errno, path))?;
        let hidden = || Node::below(self.folder.root.as_fd(), SCRATCH).is_ok_and(|node| node.is_dir());
        // Filesystems that do not count directories as links report fewer than 3.
        if path.is_root() && entry.nlink > 2 && hidden() {
            entry.nlink -= 1;
        }
        Ok(entry)
    }

    fn check_writable(&self) -> Result<()> {
        match self.folder.mode {
            Mode::Writable => Ok(()),
            Mode::ReadOnly => {
                Err(Error::new(ErrorKind::ReadOnly, "the folder was opened for reading; open it writable"))
            }
        }
    }
}

impl Folder {
    /// Runs steps 2 to 4 of a commit, in the order that [`crate::model::batch`] gives. There are no records
    /// and no rules.
    fn commit(&self, batch: &Batch) -> Result<Commit> {
        let scratch = Scratch::open(self.root.as_fd(), &self.env)?;
        let _turn = scratch.turn()?;
        let State { head, unsynced } = *lock(&self.state);
        let (seq, time) = (Seq(head.seq.0 + 1), self.env.now().max(Timestamp(head.time.0 + 1)));
        let durable = batch.durability == Durability::Durable;
        let reaches = batch.reaches();
        let tree = Tree { root: &self.root, within: &reaches.own };
        let (scratch, uploads, fault) = (&scratch, &*self.uploads, self.fault);
        let stagers = batch.stagers();
        let (hashed, copied, given) = Default::default();
        let mut writer =
            Writer { tree, scratch, uploads, stagers, seq, time, durable, fault, hashed, copied, given };
        let done = writer.run(batch, &reaches, unsynced);
        let mut state = lock(&self.state);
        // Operations before the one that failed stay done, durable or not.
        state.unsynced = !durable || (unsynced && done.is_err());
        let outcomes = batch.told(done?);
        state.head = Head { seq, time };
        Ok(Commit { seq, time, outcomes, replayed: false, durable, note: String::new() })
    }
}

/// Fails a call that needs a log.
fn no_past<T>() -> Result<T> {
    Err(unsupported("has no history and no change log"))
}

fn check_limit(limit: usize) -> Result<()> {
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(());
    }
    Err(Error::invalid(format!("a page has 1 to {MAX_PAGE} items")))
}

#[async_trait]
impl FileSystem for HostFs {
    fn capabilities(&self, _at: &TreePath) -> Capabilities {
        let write = self.folder.mode == Mode::Writable;
        let none = Capabilities::default();
        Capabilities { write, durable: write, links: true, special: true, confinement: true, ..none }
    }

    async fn head(&self) -> Result<Head> {
        Ok(lock(&self.folder.state).head)
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.stat_path(path_of(at)?)
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        check_limit(page.limit)?;
        let (path, page) = (path_of(at)?.clone(), page.clone());
        self.long(move |tree| tree.names(&path, &page)).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        check_limit(page.limit)?;
        let (path, page) = (path_of(dir)?.clone(), page.clone());
        self.long(move |tree| tree.list(&path, &page)).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        check_limit(page.limit)?;
        let (path, page) = (path_of(dir)?.clone(), page.clone());
        self.long(move |tree| tree.walk(&path, &page)).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let path = path_of(at)?;
        let node = self.tree().file(path)?;
        // Short reads stay on the caller's thread, see `SHORT`.
        if Tree::length(&node, path, range)? <= SHORT {
            return Tree::fetch(node, path, range);
        }
        let path = path.clone();
        self.long(move |_| Tree::fetch(node, &path, range)).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        let items = items.iter().map(|(at, range)| Ok((path_of(at)?.clone(), *range)));
        let items = items.collect::<Result<Vec<_>>>()?;
        let seq = self.head().await?.seq;
        let read = move |tree: Tree<'_>| {
            let (mut answers, mut left) = (Vec::new(), MAX_READ);
            for (path, range) in &items {
                let answer = tree.file(path).and_then(|node| Tree::fetch(node, path, *range));
                let size = answer.as_ref().map_or(0, |(_, bytes)| bytes.len());
                if size > left && !answers.is_empty() {
                    break;
                }
                left = left.saturating_sub(size);
                answers.push(answer);
            }
            Ok(Fetched::new(seq, answers))
        };
        self.long(read).await
    }

    async fn hold(&self, _at: &At) -> Result<Arc<dyn OpenNode>> {
        Err(unsupported("cannot open nodes by inode"))
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let path = path_of(at)?;
        let node = self.tree().file(path)?;
        Ok(Arc::new(HostFile::open(node, path, Arc::clone(&self.folder.threads))?))
    }

    async fn open_version(&self, _version: VersionId) -> Result<Arc<dyn OpenFile>> {
        no_past()
    }

    async fn history(&self, _at: &At, _page: &HistoryPage) -> Result<Listing<Version>> {
        no_past()
    }

    async fn changes(&self, _query: &ChangesQuery) -> Result<Changes> {
        no_past()
    }

    async fn wait(&self, _since: Seq) -> Result<Head> {
        no_past()
    }

    async fn as_of(&self, _moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        no_past()
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        to.reject_gates()?;
        if to.within.tops().iter().any(|top| top.as_str().len() > MAX_PATH) {
            return Err(Error::new(ErrorKind::NameTooLong, "the path of a view is too long"));
        }
        if !to.read_only.is_nothing() {
            return Err(unsupported("cannot make a part of a folder read-only"));
        }
        let owner = Some(to.owner.inside(self.owner.as_ref())?);
        let within = Arc::new(self.within.intersect(&to.within));
        Ok(Arc::new(Self { folder: Arc::clone(&self.folder), within, owner, joined: Vec::new() }))
    }

    async fn snapshots(&self, _page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        no_past()
    }

    async fn search(&self, _query: &SearchQuery) -> Result<SearchAnswer> {
        Err(unsupported("has no search index"))
    }

    async fn stage(&self, _at: &At) -> Result<Box<dyn Upload>> {
        self.check_writable()?;
        let folder = &self.folder;
        let scratch = Scratch::open(folder.root.as_fd(), &folder.env)?;
        let owner = self.owner.as_ref().map_or("", Owner::key).to_owned();
        let (id, uploads) = (u128::from_le_bytes(folder.env.random()?), Arc::clone(&folder.uploads));
        Ok(Box::new(HostUpload::new(scratch, id, owner, uploads, Arc::clone(&folder.threads))?))
    }

    async fn discard(&self, _at: &At, staged: &StagedBody) -> Result<()> {
        self.check_writable()?;
        let (folder, owner) = (&self.folder, self.owner.as_ref().map_or("", Owner::key));
        let is_own = |(of, _): &(String, u64)| of == owner;
        if !lock(&folder.uploads).get(&staged.id).is_some_and(is_own) {
            return Ok(());
        }
        lock(&folder.uploads).remove(&staged.id);
        let (scratch, name) = (Scratch::open(folder.root.as_fd(), &folder.env)?, Scratch::staged(staged.id));
        // On failure it is removed when the folder is opened again.
        let remove = move || {
            scratch.discard(name.as_str(), false).ok();
            Ok(())
        };
        folder.threads.run(remove).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.check_writable()?;
        batch.check()?;
        check_supported(&batch)?;
        let owner = match &batch.owner {
            Some(owner) => Some(owner.inside(self.owner.as_ref())?),
            None => self.owner.clone(),
        };
        let batch =
            Batch { owner, joined: self.joined.clone(), ..batch.inside(&self.within, &Within::nothing()) };
        let folder = Arc::clone(&self.folder);
        let commit = move || folder.commit(&batch);
        self.folder.writer.run(commit).await
    }

    async fn committed(&self, _id: CommitId) -> Result<Option<Commit>> {
        no_past()
    }

    async fn recorded(&self, _key: &str) -> Result<Option<KeyRecord>> {
        no_past()
    }

    async fn sync(&self) -> Result<Seq> {
        self.check_writable()?;
        let folder = Arc::clone(&self.folder);
        let sync = move || {
            // On the writer's thread: no commit runs between the sync and the change of `unsynced`.
            let root = open_dir(folder.root.as_fd(), "");
            root.and_then(rustix::fs::syncfs).map_err(failed_without_path)?;
            let mut state = lock(&folder.state);
            state.unsynced = false;
            Ok(state.head.seq)
        };
        self.folder.writer.run(sync).await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for HostFs {
    fn joined(&self, with: &dyn FileSystem) -> Option<Arc<dyn FileSystem>> {
        let with = (with.view_base() as &dyn Any).downcast_ref::<Self>()?;
        if !Arc::ptr_eq(&self.folder, &with.folder) {
            return None;
        }
        Some(Arc::new(Self {
            within: Arc::new(self.within.union(&with.within)),
            joined: self.joined.iter().chain([&with.owner]).chain(&with.joined).cloned().collect(),
            ..self.clone()
        }))
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        Box::new(StoreLowering(Store {
            id: StoreId::of(&self.folder, None),
            fs: Arc::new(self.clone()),
            within: Within::clone(&self.within),
            gates: Vec::new(),
            keys: None,
            registry: None,
        }))
    }

    fn link_root(&self, _: &TreePath) -> TreePath {
        TreePath::root()
    }
}
