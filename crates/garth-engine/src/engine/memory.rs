//! Executable specification: everything that the contract promises, on ordered maps in memory, written to
//! be read. Other engines are compared with it, so it shares no code with them, except for the ranking of
//! searches ([`search`]).
//!
//! Names are stored by the inode of their directory, nodes by their own; each has all of its values by
//! sequence number ([`state`]). A reader sees them through a view of one sequence number and time
//! ([`tree`]). A commit first collects its changes on top of them ([`scratch`], [`ops`]).

mod content;
mod find;
mod handle;
mod history;
mod instance;
mod judged;
mod log;
mod ops;
mod quota;
mod retention;
mod scratch;
mod search;
mod state;
mod text_index;
mod tree;

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::channel::oneshot;

pub use self::instance::MemoryFs;

use self::handle::{Handle, Staging, VersionHandle};
use self::scratch::Scratch;
use self::state::{Node, State};
use self::tree::{Tree, View};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{Lowering, Store, StoreId, StoreLowering};
use crate::fs::{Capabilities, FileSystem, OpenFile, OpenNode, Upload, ViewBase};
use crate::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, CommitInfo, Confinement, Entry,
    Fetched, Filling, FindAnswer, FindQuery, Head, HistoryPage, Idempotency, Ino, Item, KeyRecord, KeySpace,
    Kind, Listing, MAX_PAGE, MAX_READ, Moment, NamesPage, Owner, Page, SearchAnswer, SearchQuery, Seq,
    Snapshot, SnapshotKey, SnapshotsPage, StagedBody, Version, VersionId, Walk, WalkItem, WalkPage, Weigh,
    Within, check_items,
};
use crate::path::{MAX_PATH, Name, TreePath};

/// Returns the first page of the remaining items.
fn fill<T: Weigh>(limit: usize, items: impl IntoIterator<Item = T>) -> Listing<T> {
    let mut filling = Filling::new(limit);
    // The first item that does not fit ends the page, even if a later one would fit.
    items.into_iter().all(|item| filling.push(item));
    filling.done()
}

fn check_limit(limit: usize) -> Result<()> {
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(());
    }
    Err(Error::invalid(format!("a page has 1 to {MAX_PAGE} items")))
}

impl View<'_> {
    /// Returns a node as it shows. A node that only open handles reach has no names.
    fn entry(&mut self, ino: Ino) -> Option<Entry> {
        let named = self.is_named(ino);
        let entry = self.node(ino)?.entry();
        Some(if named { entry } else { Entry { nlink: 0, ..entry } })
    }

    /// Returns a file, by name or inode.
    fn file(&mut self, at: &At) -> Result<Ino> {
        let ino = self.find(at)?;
        match check_file(self.get(ino)) {
            Ok(()) => Ok(ino),
            Err(kind) => Err(self.about(at, ino, kind, "is not a file")),
        }
    }

    fn fetch(&mut self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let ino = self.file(at)?;
        self.check_content(at, ino)?;
        let content = &self.get(ino).content;
        let length = content.size().saturating_sub(range.offset).min(range.length);
        let bytes = match usize::try_from(length) {
            Ok(length) if length <= MAX_READ => content.read(range.offset, length),
            _ => {
                let message = format!("one read takes at most {MAX_READ} bytes; read ranges, or stream");
                return Err(self.about(at, ino, ErrorKind::TooLarge, &message));
            }
        };
        let entry = self.entry(ino).ok_or_else(Error::no_node)?;
        Ok((entry, bytes))
    }

    /// Returns the first path of a node that has a name.
    fn name_of(&mut self, ino: Ino) -> Option<TreePath> {
        self.is_named(ino).then(|| self.path_of(ino)).flatten()
    }

    /// Returns an error about the requested path, or about the first name of a requested node.
    fn about(&mut self, at: &At, ino: Ino, kind: ErrorKind, message: &str) -> Error {
        let path = match at {
            At::Path(path) => Some(path.clone()),
            At::Child(dir, name) => self.child_path(*dir, name).ok(),
            At::Node(_) => self.name_of(ino),
        };
        match path {
            Some(path) => Error::at(kind, &path, message),
            None => Error::new(kind, message),
        }
    }

    /// Returns the error for a version whose content is gone, with the first path of its node: the present
    /// one in this view, or else the one in the state `seq`, which shows the version.
    fn version_gone(&mut self, version: VersionId, seq: Seq) -> Error {
        let gone = Error::content_gone(version.seq.0);
        let mut then = View { seq, now: self.state.time_of(seq), ..*self };
        match self.name_of(version.ino).or_else(|| then.name_of(version.ino)) {
            Some(path) => gone.about(&path),
            None => gone,
        }
    }

    /// Returns a directory and its path; `None` as path if it was removed while it is held open.
    fn directory(&mut self, at: &At) -> Result<(Option<TreePath>, Ino)> {
        let ino = self.find(at)?;
        let path = match at {
            At::Path(path) => Some(path.clone()),
            At::Child(dir, name) => Some(self.child_path(*dir, name)?),
            At::Node(_) => self.name_of(ino),
        };
        match path {
            path if self.is_directory(ino) => Ok((path, ino)),
            Some(path) => Err(Error::not_a_directory(&path)),
            None => Err(Error::new(ErrorKind::NotADirectory, "not a directory")),
        }
    }
}

/// Fails with the error kind for reading the content of a node that is not a file.
fn check_file(node: &Node) -> Result<(), ErrorKind> {
    match node.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(ErrorKind::IsADirectory),
        Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice | Kind::Whiteout => {
            Err(ErrorKind::NotPermitted)
        }
    }
}

#[async_trait]
impl FileSystem for MemoryFs {
    fn capabilities(&self, _at: &TreePath) -> Capabilities {
        let now = self.past.is_none();
        Capabilities { write: now, find: now, search: now, durable: false, ..Capabilities::ALL }
    }

    async fn head(&self) -> Result<Head> {
        self.read_view(|view| Ok(Head { seq: view.seq, time: view.state.time_of(view.seq) }))
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.read_view(|view| {
            let ino = view.find(at)?;
            view.entry(ino).ok_or_else(Error::no_node)
        })
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        check_limit(page.limit)?;
        self.read_view(|view| {
            let ino = view.find(at)?;
            let mut paths = if view.is_named(ino) { view.paths(ino) } else { Vec::new() };
            paths.retain(|path| page.after.as_ref().is_none_or(|after| path.split() > after.split()));
            Ok(fill(page.limit, paths))
        })
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        check_limit(page.limit)?;
        self.read_view(|view| {
            let (path, dir) = view.directory(dir)?;
            // A directory that was removed while it is held open has no path and no entries.
            let Some(path) = path else { return Ok(Listing { items: Vec::new(), more: false }) };
            let mut children = view.children(dir);
            let there = |name: &Name| self.within.contains(&TreePath::from_row(path.key(), name.as_str()));
            children.retain(|(name, _)| page.after.as_ref().is_none_or(|after| name > after) && there(name));
            let item = |(name, ino)| {
                let entry = view.get(ino).entry();
                Item { name, ino, kind: entry.kind, entry: page.entries.then(|| Box::new(entry)) }
            };
            Ok(fill(page.limit, children.into_iter().map(item)))
        })
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        check_limit(page.limit)?;
        self.read_view(|view| {
            let (path, dir) = view.directory(dir)?;
            let Some(path) = path else { return Ok(Walk { items: Vec::new(), more: false }) };
            if page.after.as_ref().is_some_and(|after| *after == path || !after.is_within(&path)) {
                return Err(Error::invalid("`after` must be a path below the directory of the walk"));
            }
            let mut found = view.below(&path, dir);
            if let Some(after) = &page.after {
                found.retain(|found| found.path.split() > after.split());
            }
            let item = |found: tree::SubtreeName| {
                let entry = view.get(found.ino).entry();
                let kind = entry.kind;
                let entry = page.entries.then(|| Box::new(entry));
                WalkItem { path: found.path, ino: found.ino, kind, entry }
            };
            Ok(fill(page.limit, found.into_iter().map(item)))
        })
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        self.read_view(|view| view.fetch(at, range))
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        self.read_view(|view| {
            let (mut answers, mut left) = (Vec::new(), MAX_READ);
            for (at, range) in items {
                let answer = view.fetch(at, *range);
                let size = answer.as_ref().map_or(0, |(entry, bytes)| bytes.len() + entry.attributes.bytes());
                // The first answer is given whatever its size, or a caller could never get past it.
                if size > left && !answers.is_empty() {
                    break;
                }
                left = left.saturating_sub(size);
                answers.push(answer);
            }
            Ok(Fetched::new(view.seq, answers))
        })
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        let (node, gone) = self.read_view(|view| {
            let ino = view.find(at)?;
            Ok((view.get(ino).clone(), view.check_content(at, ino).err()))
        })?;
        Ok(match self.past {
            None => Arc::new(Handle::open(self, node.ino)),
            Some(_) => Arc::new(VersionHandle { node: Arc::new(node), gone, _hold: self.hold.clone() }),
        })
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let (node, gone) = self.read_view(|view| {
            let ino = view.file(at)?;
            Ok((view.get(ino).clone(), view.check_content(at, ino).err()))
        })?;
        Ok(match self.past {
            None => Arc::new(Handle::open(self, node.ino)),
            Some(_) => Arc::new(VersionHandle { node: Arc::new(node), gone, _hold: self.hold.clone() }),
        })
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        self.read_view(|view| {
            view.check_history()?;
            let node = view.state.nodes.get(&version.ino).and_then(|versions| versions.exactly(version.seq));
            // The version must have been visible to this view when it was current: the caller gives its id.
            let shown = version.seq <= view.seq
                && view.state.is_kept(version.ino, version.seq)
                && view.is_shown(version.ino, version.seq);
            let Some(node) = node.filter(|node| shown && !node.end) else {
                // Also if it never existed: nothing is left that could tell.
                view.state.check_readable(version.seq)?;
                return Err(Error::new(ErrorKind::NotFound, "no such version"));
            };
            check_file(node).map_err(|kind| Error::new(kind, "not a version of a file"))?;
            // The oldest state shows this version if that of its commit is no longer readable.
            let seq = version.seq.max(view.state.oldest);
            let mut node = node.clone();
            if view.state.is_content_gone(version.ino, seq) {
                return Err(view.version_gone(version, seq));
            }
            if node.is_expired(view.state.time_of(seq)) {
                // The expiry took effect with this very commit, so the node has no names in it.
                node.names = Arc::default();
            }
            let hold = Some(view.state.open_past(seq));
            let handle = VersionHandle { node: Arc::new(node), gone: None, _hold: hold };
            Ok(Arc::new(handle) as Arc<dyn OpenFile>)
        })
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        check_limit(page.limit)?;
        self.read_view(|view| view.history(at, page))
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        check_limit(limit)?;
        self.read_view(|view| {
            let ino = view.file(at)?;
            view.check_content(at, ino)?;
            let end = range.offset.saturating_add(range.length);
            let (mut blame, mut before) = (Blame::new(), 0);
            view.get(ino).content.each_writer(&mut |length, by| {
                let after = before + length;
                blame.push(ByteRange::from(range.offset.max(before)..end.min(after)), by);
                before = after;
            });
            blame.with_commits(limit, |seq| {
                let commit = view.own_id(&view.state.commit_info(seq).ok_or_else(Error::no_node)?);
                // The file was out of reach at that commit, so its author is not disclosed.
                let outside = !view.within.is_everything() && !view.was_within(ino, seq);
                Ok(if outside { commit.unsigned() } else { commit })
            })
        })
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        self.read_view(|view| view.changes(query))
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        loop {
            let head = self.head().await?;
            if head.seq > since {
                return Ok(head);
            }
            if self.past.is_some() {
                return Err(Error::new(ErrorKind::Unsupported, "a past view receives no new commits"));
            }
            let (told, hear) = oneshot::channel();
            {
                let mut state = self.write();
                state.waiting.retain(|told| !told.is_canceled());
                if state.head() == head.seq {
                    state.waiting.push(told);
                }
            }
            // An error means that a commit came in between.
            let _ = hear.await;
        }
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let (past, hold) = self.read_view(|view| {
            let seq = view.state.seq_of(moment, view.seq, self.owner_key())?;
            let commit = view.state.time_of(seq);
            // A view by time judges expiry by that time. One of a time to come judges by the present:
            // nothing later is known.
            let now = if let Moment::Time(time) = moment { view.now.min(*time) } else { commit };
            Ok(((seq, now), view.state.open_past(seq)))
        })?;
        Ok(Arc::new(Self { past: Some(past), hold: Some(hold), ..self.clone() }))
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        to.reject_gates()?;
        if to.within.tops().iter().any(|top| top.as_str().len() > MAX_PATH) {
            return Err(Error::new(ErrorKind::NameTooLong, "the path of a view is too long"));
        }
        let owner = Some(to.owner.inside(self.owner.as_ref())?);
        // The reach can only become narrower: a view of a view reaches only paths that both allow.
        let within = Arc::new(self.within.intersect(&to.within));
        let mut state = self.write();
        // A holder of its own: nodes that others hold open are out of its reach.
        state.next_holder += 1;
        let holders = Arc::from([state.next_holder]);
        let author = self.author.clone().or(&to.author);
        let read_only = self.read_only.union(&to.read_only);
        Ok(Arc::new(Self { within, read_only, owner, author, holders, joined: Vec::new(), ..self.clone() }))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        check_limit(page.limit)?;
        self.read_view(|view| {
            let all = view.state.snapshots.values().filter(|snapshot| snapshot.seq <= view.seq);
            let mut shown: Vec<Snapshot> = match &self.owner {
                // To its owner, a snapshot has no owner; the account sees those of all owners.
                None => all.cloned().collect(),
                own => all
                    .filter(|snapshot| snapshot.owner == *own)
                    .map(|snapshot| Snapshot { owner: None, ..snapshot.clone() })
                    .collect(),
            };
            shown.sort_by_key(Snapshot::key);
            let behind = |after: &SnapshotKey, snapshot: &Snapshot| match &self.owner {
                None => snapshot.key() > *after,
                Some(_) => snapshot.name > after.name,
            };
            shown.retain(|snapshot| page.after.as_ref().is_none_or(|after| behind(after, snapshot)));
            Ok(fill(page.limit, shown))
        })
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        if self.past.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "search finds current files only; use grep on the past",
            ));
        }
        self.read_view(|view| view.search(query))
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        query.check()?;
        if self.past.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "past keys are not stored"));
        }
        self.read_view(|view| view.find_keys(query))
    }

    async fn stage(&self, _at: &At) -> Result<Box<dyn Upload>> {
        self.check_writable()?;
        Ok(Box::new(Staging::new(self)))
    }

    async fn discard(&self, _at: &At, staged: &StagedBody) -> Result<()> {
        let mut state = self.write();
        if state.staged.get(&staged.id).is_some_and(|(owner, _)| owner == self.owner_key()) {
            state.staged.remove(&staged.id);
        }
        Ok(())
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.check_writable()?;
        batch.check()?;
        let owner = match &batch.owner {
            Some(owner) => Some(owner.inside(self.owner.as_ref())?),
            None => self.owner.clone(),
        };
        let author = self.author.clone().or(&batch.author);
        let joined = self.joined.clone();
        let batch = Batch { owner, author, joined, ..batch.inside(&self.within, &self.read_only) };
        batch.check_keys(&self.state)?;
        self.write().commit(&self.env, batch, &self.holders)
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        self.read_view(|view| {
            Ok(view.state.committed(self.owner_key(), id).filter(|commit| commit.seq <= view.seq))
        })
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        self.read_view(|view| {
            let found = view.state.recorded(self.owner_key(), key, view.now);
            Ok(found.filter(|record| record.commit.seq <= view.seq))
        })
    }

    async fn sync(&self) -> Result<Seq> {
        self.check_writable()?;
        Ok(self.read().head())
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for MemoryFs {
    fn joined(&self, with: &dyn FileSystem) -> Option<Arc<dyn FileSystem>> {
        let with = (with.view_base() as &dyn Any).downcast_ref::<Self>()?;
        if !Arc::ptr_eq(&self.state, &with.state) || self.past.is_some() || with.past.is_some() {
            return None;
        }
        Some(Arc::new(Self {
            within: Arc::new(self.within.union(&with.within)),
            holders: self.holders.iter().chain(&*with.holders).copied().collect(),
            joined: self.joined.iter().chain([&with.owner]).chain(&with.joined).cloned().collect(),
            ..self.clone()
        }))
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        Box::new(StoreLowering(Store {
            id: StoreId::of(&self.state, self.past.map(|(seq, _)| seq)),
            fs: Arc::new(self.clone()),
            within: Within::clone(&self.within),
            gates: Vec::new(),
            keys: Some(KeySpace::new(&self.state, self.owner.clone())),
            registry: Some(self.read().registry.clone()),
        }))
    }

    fn link_root(&self, _: &TreePath) -> TreePath {
        TreePath::root()
    }
}

impl State {
    /// Runs steps 2 to 5 of a commit, in the order that [`crate::model::batch`] gives.
    fn commit(&mut self, env: &Env, batch: Batch, holders: &[u64]) -> Result<Commit> {
        let reaches = batch.reaches();
        let mut scratch = Scratch::new(self, env.now(), &reaches.added, holders, &batch);
        let (seq, time) = (scratch.seq, scratch.time);
        if let Some(first) = self.previous_commit(&batch, time)? {
            return Ok(first);
        }
        for (at, assumption) in &batch.assumptions {
            scratch.check(at, assumption).map_err(|error| match error.kind() {
                ErrorKind::Conflict => {
                    Error::new(ErrorKind::Stale, "entries that the view has read have changed")
                }
                _ => error,
            })?;
        }
        scratch.within = &reaches.own;
        for (at, precondition) in &batch.preconditions {
            scratch.check(at, precondition)?;
        }
        let mut outcomes = Vec::with_capacity(batch.ops.len());
        for (place, op) in batch.ops.iter().enumerate() {
            scratch.within = reaches.of(place);
            outcomes.push(scratch.apply(op)?);
        }
        scratch.within = &reaches.own;
        // Before rules: expired nodes may end here to make room, and rules judge what is left.
        scratch.count()?;
        scratch.judge(&batch)?;
        let outcomes = batch.told(outcomes);
        let mut laid = scratch.finish();

        let changes = std::mem::take(&mut laid.changes);
        let commit = Commit { seq, time, outcomes, replayed: false, durable: false, note: String::new() };
        self.apply_changes(seq, laid);
        let keeper = batch.record_owner_key().to_owned();
        let Batch { id, author, message, overrides_rules, .. } = batch;
        let info = CommitInfo { seq, time, id, author, message, overrides_rules, folded: false };
        self.log.push((info, changes));
        // Only these can be asked for again.
        if batch.id.is_some() || batch.idempotency.is_some() {
            self.answers.insert(seq, commit.clone());
        }
        let owner = batch.owner.as_ref().map_or("", Owner::key);
        self.owners.push(owner.to_owned());
        self.commit_ids.extend(batch.id.map(|id| ((owner.to_owned(), id), seq)));
        let keyed = |asked: Idempotency| ((keeper, asked.key.clone()), (asked, seq));
        self.idempotency.extend(batch.idempotency.map(keyed));
        for told in self.waiting.drain(..) {
            // A waiter that gave up has dropped its end.
            let _ = told.send(());
        }
        Ok(commit)
    }
}
