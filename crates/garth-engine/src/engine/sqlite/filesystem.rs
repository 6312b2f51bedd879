//! The handle of an account: implements [`FileSystem`] on the pool of readers and the writer.
//!
//! One field decides whether a handle shows the present or the past ([`SqliteFs::as_of`]), another which part
//! of the tree ([`SqliteFs::reach`]).

use std::any::Any;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::channel::oneshot;
use rusqlite::Connection;
use tracing::Span;

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::commit::staged_upload::SqliteUpload;
use crate::engine::sqlite::commit::writer::Writer;
use crate::engine::sqlite::confinement::Reach;
use crate::engine::sqlite::control::ControlCache;
use crate::engine::sqlite::open_nodes::OpenNodes;
use crate::engine::sqlite::open_pasts::{OpenPasts, Past};
use crate::engine::sqlite::query::gated_facts::GatedFacts;
use crate::engine::sqlite::query::read_view::{self, ReadView, check_kind};
use crate::engine::sqlite::tables::{commit_log, content_gone, head, idempotency};
use crate::engine::sqlite::writer_lock::WriterLock;
use crate::engine::sqlite::{projections, schema};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{Lowering, Store, StoreId, StoreLowering};
use crate::fs::store::SYSTEM_MARK;
use crate::fs::{By, Capabilities, FileSystem, Incoming, OpenFile, OpenNode, Upload, ViewBase};
use crate::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    FindAnswer, FindQuery, Head, HistoryPage, Hit, Ino, KeyRecord, KeySpace, Listing, MAX_READ, Moment,
    NamesPage, Page, SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody, Timestamp, Version,
    VersionId, Walk, WalkPage, Within, check_items,
};
use crate::path::{SYSTEM, TreePath};
use crate::rule::Registry;
use crate::runtime::Runtime;
use crate::runtime::budget::IdleOwner as _;
use crate::sqlite::patience::{Bound, FILE, Patience, SHORT};
use crate::sqlite::{ConnPool, DbResult};
use crate::threads::turns::Turns;

/// The tree of an account in a folder, now or as of a commit.
#[derive(Clone, Debug)]
pub struct SqliteFs {
    pub(super) inner: Arc<Inner>,
    /// The state that is shown; `None` for the newest.
    pub(super) as_of: Option<Arc<Past>>,
    /// Part of the tree that it reaches.
    pub(super) reach: Arc<Reach>,
    /// True if its steps of maintenance leave the writer to others most of the time.
    pub(super) is_slow: bool,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) pool: Arc<ConnPool>,
    pub(super) packs: Arc<Packs>,
    pub(super) open: Arc<OpenNodes>,
    pub(super) pasts: Arc<OpenPasts>,
    pub(super) writer: Arc<Writer>,
    pub(super) long_reads: Arc<Turns>,
    pub(super) control: Arc<ControlCache>,
    /// True if uploads may be left to collect.
    pub(super) has_uploads: AtomicBool,
    /// True while a collection runs in the background.
    pub(super) collecting: AtomicBool,
    pub(super) runtime: Runtime,
}

/// Stops background work on the index. The writer itself lives until its queue is empty.
impl Drop for Inner {
    fn drop(&mut self) {
        self.writer.stop_chores();
    }
}

impl SqliteFs {
    /// Opens the account in `folder`, which must exist, with threads of its own. Creates its database if it
    /// is missing. Other processes may have it open, too. [`DataDir`](crate::DataDir) opens many accounts on
    /// one [`Runtime`].
    ///
    /// # Errors
    /// `Format` for data of a newer garth or of something else; `Io`, `NoSpace`, `Unavailable` from the
    /// storage.
    pub fn open(folder: &Path, env: Env, registry: Registry) -> Result<Arc<Self>> {
        Self::open_on(folder, &Runtime::new(env), registry)
    }

    /// As [`SqliteFs::open`], on a runtime that other accounts may share.
    ///
    /// # Errors
    /// As [`SqliteFs::open`].
    pub fn open_on(folder: &Path, runtime: &Runtime, registry: Registry) -> Result<Arc<Self>> {
        let lock = WriterLock::new(folder);
        let pool = ConnPool::new(schema::database(folder), runtime.conns());
        let packs = Packs::new(folder, runtime.conns());
        schema::make_ready(folder, &pool, &lock, runtime, &registry)?;
        projections::rebuild::make_ready(folder, &pool, &packs, &lock, &registry)?;
        // The files are open only together with a connection that writes, which counts for them in the
        // budget.
        lock.close();
        let holder = runtime.env().random()?;
        let (open, pasts) = (Arc::new(OpenNodes::new(holder)), Arc::new(OpenPasts::new(holder)));
        let control = Arc::new(ControlCache::new(registry));
        let writer = Writer::new(folder, runtime, lock, &packs, (&open, &pasts), &pool, &control);
        let long_reads = Arc::default();
        let (has_uploads, runtime) = (AtomicBool::new(false), runtime.clone());
        let collecting = AtomicBool::new(false);
        let inner =
            Inner { pool, packs, open, pasts, writer, long_reads, control, has_uploads, collecting, runtime };
        let fs = Self::over(Arc::new(inner));
        // Without a thread for the timer, the next account that is opened tries again.
        fs.inner.runtime.timer().add(&fs.inner);
        Ok(Arc::new(fs))
    }

    /// Returns the handle of everything.
    pub(super) fn over(inner: Arc<Inner>) -> Self {
        Self { inner, as_of: None, reach: Arc::new(Reach::everything()), is_slow: false }
    }

    /// Returns the account without the directory in which garth stores its own data.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn without_system(self: Arc<Self>) -> Result<Arc<Self>> {
        let system = TreePath::parse(SYSTEM)?;
        let is_ours = match self.with_view(|view| view.entry(view.at(&At::Path(system.clone()))?)) {
            Ok(entry) => entry.is_dir() && entry.attributes.xattrs.contains_key(SYSTEM_MARK),
            // Not created yet. Hidden all the same, so that no one else takes the name.
            Err(error) if error.is(ErrorKind::NotFound) => true,
            Err(error) => return Err(error),
        };
        // A user may have created a directory of this name before garth used it. It stays visible.
        if !is_ours {
            return Ok(self);
        }
        let reach = Arc::new(Reach::account(Within::everything().without([system])));
        Ok(Arc::new(Self { reach, ..Self::clone(&self) }))
    }

    /// Returns the account with everything in it.
    pub(crate) fn whole(&self) -> Self {
        self.with_reach(Reach::everything())
    }

    pub(super) fn with_reach(&self, reach: Reach) -> Self {
        Self { reach: Arc::new(reach), ..self.clone() }
    }

    /// Returns true if the storage has failed. The account can be read, and written after it is opened again.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.inner.pool.is_poisoned()
    }

    /// Ends the use of an account that is being deleted: from now on every call fails with `NotFound`, also
    /// one that waits for a commit, and no file stays open, whoever holds the tree.
    pub(crate) fn abandon(&self) {
        let Inner { pool, packs, writer, .. } = &*self.inner;
        // The pool comes first: callers that are woken read from it.
        pool.abandon();
        writer.abandon();
        packs.close_one();
    }

    /// Returns the runtime of the account.
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// Runs a read in a transaction of its own, on this thread, with no limit: for maintenance.
    pub(super) fn with_view<T>(&self, read: impl FnOnce(&ReadView<'_>) -> DbResult<T>) -> Result<T> {
        self.inner.pool.read(|conn| read(&self.view_on(conn, None)?))
    }

    /// Runs a read in a transaction of its own. A short read runs on this thread, which other calls may wait
    /// for. A longer one is interrupted and runs again from its start on a thread for long reads.
    pub(super) async fn reading<A, T>(
        &self,
        args: &A,
        read: impl Fn(&ReadView<'_>, &A) -> DbResult<T> + Send + 'static,
    ) -> Result<T>
    where
        A: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        let pool = &self.inner.pool;
        let short = pool.read_within(Bound::Steps(SHORT), |conn, patience| {
            read(&self.view_on(conn, Some(patience))?, args)
        });
        match short {
            Err(error) if error.is(ErrorKind::TimedOut) => self.read_long(args.clone(), read).await,
            outcome => outcome,
        }
    }

    /// Runs a long read on a thread for those. The read ends early if this future is dropped, or at its
    /// deadline.
    async fn read_long<A, T>(
        &self,
        args: A,
        read: impl Fn(&ReadView<'_>, &A) -> DbResult<T> + Send + 'static,
    ) -> Result<T>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        let (runtime, fs) = (&self.inner.runtime, self.clone());
        // Dropped with this future, by which the read notices that no caller waits.
        let (env, asking) = (runtime.env().clone(), Arc::new(()));
        let (deadline, asked) = (env.instant() + runtime.read_time(), Arc::downgrade(&asking));
        let (answer, wait) = oneshot::channel();
        let span = Span::current();
        let job = move || {
            let _entered = span.enter();
            let bound = Bound::Until { env, deadline, asked };
            let outcome = fs.inner.pool.read_within(bound, |conn, patience| {
                // It may have waited in line: past its deadline or without a caller it does not even begin.
                patience.spend_on(0)?;
                read(&fs.view_on(conn, Some(patience))?, &args)
            });
            // A failed send means that nobody waits for the result any more.
            let _ = answer.send(outcome);
        };
        if !self.inner.long_reads.submit(runtime.readers(), Box::new(job)) {
            let message = "the system cannot start a thread for reading; try again";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let lost = |_| Err(Error::new(ErrorKind::Io, "the read ended without a result"));
        let answered = wait.await.unwrap_or_else(lost);
        // Until here the read knows that a caller waits: it holds a weak reference.
        drop(asking);
        answered
    }

    pub(super) fn view_on<'a>(
        &'a self,
        conn: &'a Connection,
        patience: Option<&'a Patience>,
    ) -> DbResult<ReadView<'a>> {
        let inner = &*self.inner;
        let as_of = match self.as_of.as_deref() {
            Some(past) if head::get(conn)?.seq > past.seq => Some(past.seq),
            // After the last commit both show the same, and the newest state is read faster.
            _ => None,
        };
        Ok(ReadView {
            conn,
            patience,
            packs: &inner.packs,
            open: &inner.open,
            reach: &self.reach,
            control: &inner.control,
            as_of,
            is_past: self.as_of.is_some(),
            oldest: OnceCell::new(),
            time: self.time(),
            opened: self.as_of.as_deref().map_or(i64::MAX, |past| past.opened),
            gated: GatedFacts::default(),
        })
    }

    fn now(&self) -> Timestamp {
        self.inner.runtime.env().now()
    }

    /// Returns the time by which entries have expired.
    fn time(&self) -> i64 {
        self.as_of.as_deref().map_or_else(|| self.now().0, |past| past.time)
    }

    /// Returns the head if it is after `since`.
    async fn newer(&self, since: Seq) -> Result<Option<Head>> {
        Ok(Some(self.head().await?).filter(|head| head.seq > since))
    }

    /// Returns a handle to a node that `check` accepts.
    fn handle(&self, at: &At, check: impl FnOnce(&ReadView<'_>, &NodeRow) -> DbResult<()>) -> Result<Handle> {
        let held = self.as_of.is_none();
        let ino = self.with_view(|view| {
            let node = view.at(at)?;
            check(view, &node)?;
            if held {
                // Inside the transaction that found the node: `gc` could collect it in between.
                self.reach.hold(node.ino, &self.inner.open);
            }
            Ok(node.ino)
        })?;
        Ok(Handle { fs: self.clone(), ino, held })
    }

    fn store_id(&self) -> StoreId {
        StoreId::of(&self.inner, self.as_of.as_deref().map(|past| Seq(past.seq)))
    }

    fn writable(&self) -> Result<()> {
        match self.as_of {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::ReadOnly, "a view of the past cannot be written")),
        }
    }
}

#[async_trait]
impl FileSystem for SqliteFs {
    fn capabilities(&self, _at: &TreePath) -> Capabilities {
        let now = self.as_of.is_none();
        Capabilities { write: now, search: now, find: now, ..Capabilities::ALL }
    }

    async fn head(&self) -> Result<Head> {
        if self.as_of.is_none() {
            // Without a transaction: one statement sees one state.
            let row = self.inner.pool.with(head::get)?;
            return Ok(Head { seq: Seq(row.seq), time: Timestamp(row.time) });
        }
        self.reading(&(), |view, ()| {
            let (seq, time) = match view.as_of {
                Some(seq) => (seq, commit_log::moment(view.conn, seq)?),
                None => head::get(view.conn).map(|row| (row.seq, row.time))?,
            };
            Ok(Head { seq: Seq(seq), time: Timestamp(time) })
        })
        .await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        if let (At::Path(path), None) = (at, &self.as_of)
            // Without a transaction: one statement sees one state.
            && let Some(entry) = self.inner.pool.with(|conn| self.view_on(conn, None)?.entry_now(path))?
        {
            return Ok(entry);
        }
        self.reading(at, |view, at| view.entry_at(at)).await
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        let page = page.clone();
        self.reading(at, move |view, at| view.names_page(at, &page)).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        let page = page.clone();
        self.reading(dir, move |view, dir| view.list(dir, &page)).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        let page = page.clone();
        self.reading(dir, move |view, dir| view.walk(dir, &page)).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        if let (At::Path(path), None) = (at, &self.as_of) {
            // Without a transaction: it takes two statements, as many as reading a small file.
            let found = self.inner.pool.within(Bound::Steps(SHORT), |conn, patience| {
                self.view_on(conn, Some(patience))?.fetch_now(path, range)
            });
            match found {
                Ok(None) => {}
                Ok(Some(found)) => return Ok(found),
                Err(error) if error.is(ErrorKind::TimedOut) => {
                    return self.read_long(at.clone(), move |view, at| view.fetch(at, range)).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.reading(at, move |view, at| view.fetch_at(at, range)).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        let fetch = |view: &ReadView<'_>, items: &Vec<_>| view.fetch_many(items);
        // A read that is known to be long does not begin on this thread.
        match items.len() as u64 * FILE > SHORT {
            true => self.read_long(items.to_vec(), fetch).await,
            false => self.reading(&items.to_vec(), fetch).await,
        }
    }

    async fn read(&self, at: &At, range: ByteRange) -> Result<Bytes> {
        let read = move |view: &ReadView<'_>, at: &At| {
            let node = view.at(at)?;
            view.check_file(&node, at)?;
            view.read(node.ino, node.size, range).map_err(|error| view.about(error, &node, at))
        };
        self.reading(at, read).await
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        Ok(Arc::new(self.handle(at, |_, _| Ok(()))?))
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        Ok(Arc::new(self.handle(at, |view, node| view.check_file(node, at))?))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let past = self.with_view(|view| {
            check_kind(view.version_to_open(version)?.kind)?;
            // The oldest state shows this version if the state of its commit is no longer readable.
            let seq = version.seq.0.max(view.oldest()?);
            if content_gone::is_gone(view.conn, version.ino.0, seq, i64::MAX)? {
                return Err(Error::content_gone().into());
            }
            Ok(self.inner.pasts.open(seq, commit_log::moment(view.conn, seq)?, self.now()))
        })?;
        let fs = Self { as_of: Some(past), ..self.clone() };
        Ok(Arc::new(Handle { fs, ino: version.ino.0, held: false }))
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let page = page.clone();
        self.reading(at, move |view, at| view.history(at, &page)).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.reading(at, move |view, at| {
            read_view::check_limit(limit)?;
            let node = view.at(at)?;
            view.check_file(&node, at)?;
            view.blame(&node, range, limit)
        })
        .await
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        let query = query.clone();
        self.reading(&query, |view, query| view.changes(query)).await
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        if let Some(head) = self.newer(since).await? {
            return Ok(head);
        }
        if self.as_of.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "a view of a past view receives no new commits"));
        }
        loop {
            // Registered before the look: a commit in between would wake no one.
            let woken = self.inner.writer.waiters().join(since, self.runtime());
            if let Some(head) = self.newer(since).await? {
                return Ok(head);
            }
            woken.await;
        }
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let past = self.with_view(|view| {
            let seq = view.seq_of(moment)?;
            let time = match moment {
                // A time in the future must not make entries expire early.
                Moment::Time(time) => time.0.min(view.time),
                Moment::Seq(_) | Moment::Snapshot(_) => commit_log::moment(view.conn, seq)?,
            };
            Ok(self.inner.pasts.open(seq, time, self.now()))
        })?;
        Ok(Arc::new(Self { as_of: Some(past), ..self.clone() }))
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(Self { reach: Arc::new(self.reach.confined(to)?), ..self.clone() }))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        self.reading(page, |view, page| view.snapshots(page)).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        if self.as_of.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "search finds current files only; use grep on the past",
            ));
        }
        self.read_long(query.clone(), |view, query| view.search(query)).await
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        self.reading(query, |view, query| view.find_keys(query)).await
    }

    async fn admit(&self, at: &At, content: &Incoming) -> Result<()> {
        self.writable()?;
        let now = self.runtime().env().now();
        let uploads = self.inner.writer.arriving();
        let (arriving, of_all) = (uploads.of(self.reach.owner_key(), now), uploads.bytes());
        let args = (at.clone(), *content);
        self.reading(&args, move |view, (at, content)| view.admit(at, content, arriving, of_all)).await
    }

    async fn discard(&self, _at: &At, staged: &StagedBody) -> Result<()> {
        self.writable()?;
        self.give_up(staged.id).await
    }

    async fn stage(&self, _at: &At) -> Result<Box<dyn Upload>> {
        self.writable()?;
        self.inner.has_uploads.store(true, Ordering::Relaxed);
        Ok(Box::new(SqliteUpload::new(Arc::clone(&self.inner.writer), self.reach.owner_key().to_owned())?))
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.writable()?;
        batch.check()?;
        let batch = self.reach.confine(batch)?;
        batch.check_keys(&self.inner)?;
        self.inner.writer.commit(batch, &self.reach).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        let found = match self.as_of.as_deref() {
            Some(past) => {
                let found =
                    self.with_view(|view| commit_log::committed(view.conn, self.reach.owner_key(), id))?;
                // A view of the past does not know later commits.
                found.filter(|commit| commit.seq.0 <= past.seq)
            }
            // In the writer's queue, after the batches that wait. The durable write makes sure that a commit
            // that is reported stays: it may have been read from a WAL that no sync has reached.
            None => {
                let owner = self.reach.owner_key().to_owned();
                let find = move |conn: &Connection| {
                    let found = commit_log::committed(conn, &owner, id)?;
                    if found.is_some() {
                        head::touch(conn)?;
                    }
                    Ok(found)
                };
                self.inner.writer.transact(true, find).await?
            }
        };
        let durable = self.as_of.is_none();
        Ok(found.map(|commit| Commit { replayed: true, durable, ..commit }))
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        let (owner, key) = (self.reach.owner_key().to_owned(), key.to_owned());
        let last = self.as_of.as_deref().map_or(u64::MAX, |past| past.seq);
        let now = self.time();
        let find = move |conn: &Connection| {
            let found = idempotency::get(conn, &owner, &key)?;
            Ok(found.filter(|record| now < record.keep_until && record.commit.seq.0 <= last))
        };
        let mut found = self.with_view(|view| find(view.conn))?;
        let durable = self.as_of.is_none();
        if durable && found.is_some() {
            // Reported, so it has to stay: see `committed`.
            let kept = move |conn: &Connection| {
                head::touch(conn)?;
                find(conn)
            };
            found = self.inner.writer.transact(true, kept).await?;
        }
        Ok(found.map(|record| KeyRecord {
            request_hash: record.request_hash,
            commit: Commit { replayed: true, durable, ..record.commit },
        }))
    }

    async fn sync(&self) -> Result<Seq> {
        self.writable()?;
        self.inner.writer.sync().await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

#[async_trait]
impl ViewBase for SqliteFs {
    async fn stat_first(&self, places: [&At; 2]) -> (usize, Result<Entry>) {
        let found = self.reading(&places.map(At::clone), |view, [one, other]| view.first(one, other)).await;
        match found {
            Ok((place, found)) => (place, found),
            Err(error) => (0, Err(error)),
        }
    }

    fn joined(&self, with: &dyn FileSystem) -> Option<Arc<dyn FileSystem>> {
        let with = (with.view_base() as &dyn Any).downcast_ref::<Self>()?;
        if !Arc::ptr_eq(&self.inner, &with.inner) || self.as_of.is_some() || with.as_of.is_some() {
            return None;
        }
        if Arc::ptr_eq(&self.reach, &with.reach) {
            return Some(Arc::new(self.clone()));
        }
        Some(Arc::new(Self { reach: Arc::new(self.reach.joined(&with.reach)), ..self.clone() }))
    }

    fn known_durable(&self) -> Result<Seq> {
        self.inner.writer.known_durable()
    }

    async fn settle(&self, seq: Seq) -> Result<()> {
        match self.inner.writer.settle(seq).await {
            // Nothing can be written through such a mount, so no commit waits for a sync.
            Err(error) if error.is(ErrorKind::ReadOnly) => Ok(()),
            settled => settled,
        }
    }

    async fn found(&self, store: StoreId, hit: &Hit, _by: By) -> Result<Vec<Hit>> {
        let is_within = self.store_id() == store && self.reach.within.contains(&hit.path);
        // A handle with other gates may have found it.
        let is_shown = is_within
            && (!self.reach.gates.cover(&hit.path)
                || self.reading(&hit.path, |view, path| view.is_open(path)).await?);
        Ok(Vec::from_iter(is_shown.then(|| hit.clone())))
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        Box::new(StoreLowering(Store {
            id: self.store_id(),
            fs: Arc::new(self.clone()),
            within: self.reach.within.clone(),
            gates: self.reach.gates.all(),
            keys: Some(KeySpace::new(&self.inner, self.reach.owner.clone())),
            registry: Some(self.inner.control.registry().clone()),
        }))
    }

    /// As the default, without a lowering: each call of an agent asks.
    fn keeps_path(&self, _: &TreePath) -> bool {
        true
    }

    fn link_root(&self, _: &TreePath) -> TreePath {
        TreePath::root()
    }
}

/// A node held open, now or in the past.
#[derive(Debug)]
struct Handle {
    fs: SqliteFs,
    ino: u64,
    /// True if it is counted in `OpenNodes`. The state of a handle of the past is in `OpenPasts`.
    held: bool,
}

#[async_trait]
impl OpenNode for Handle {
    fn ino(&self) -> Ino {
        Ino(self.ino)
    }

    async fn stat(&self) -> Result<Entry> {
        let read = |view: &ReadView<'_>, ino: &u64| {
            let node = view.as_held(view.row(*ino)?.ok_or_else(Error::no_node)?);
            view.entry(node)
        };
        self.fs.reading(&self.ino, read).await
    }
}

#[async_trait]
impl OpenFile for Handle {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length > MAX_READ {
            let message = format!("more than {MAX_READ} bytes at once; read in steps");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let range = ByteRange { offset, length: length as u64 };
        let read = move |view: &ReadView<'_>, ino: &u64| {
            let node = view.row(*ino)?.ok_or_else(Error::no_node)?;
            view.read(node.ino, node.size, range)
        };
        self.fs.reading(&self.ino, read).await
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.behind(offset, |view, node, offset| {
            Ok(view.next_data(node, offset)?.ok_or_else(Error::no_such_offset)?)
        })
        .await
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.behind(offset, |view, node, offset| view.next_hole(node, offset)).await
    }
}

impl Handle {
    /// Looks for data or a hole after an offset, which must be in the file.
    async fn behind(
        &self,
        offset: u64,
        look: fn(&ReadView<'_>, &NodeRow, u64) -> DbResult<u64>,
    ) -> Result<u64> {
        let read = move |view: &ReadView<'_>, ino: &u64| {
            let node = view.row(*ino)?.ok_or_else(Error::no_node)?;
            view.check_content(node.ino)?;
            if offset >= node.size {
                return Err(Error::no_such_offset().into());
            }
            look(view, &node, offset)
        };
        self.fs.reading(&self.ino, read).await
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.held && self.fs.reach.release(self.ino, &self.fs.inner.open) {
            let (open, ino) = (Arc::clone(&self.fs.inner.open), self.ino);
            self.fs.inner.writer.transact_later(move |conn| open.release(conn, ino));
        }
    }
}

#[cfg(test)]
mod tests;
