//! The handle of an account: implements [`FileSystem`] on the pool of readers and the writer.
//!
//! One field decides whether a handle shows the present or the past ([`SqliteFs::as_of`]), another which part
//! of the tree ([`SqliteFs::reach`]).

mod calls;
mod open_node;
mod view_base;

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::channel::oneshot;
use rusqlite::Connection;
use tracing::Span;

use crate::engine::relational::confinement::Reach;
use crate::engine::relational::open_nodes::OpenNodes;
use crate::engine::relational::open_pasts::{OpenPasts, Past};
use crate::engine::relational::reads::gated_facts::GatedFacts;
use crate::engine::relational::reads::tree_view::TreeView;
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::collecting::Collecting;
use crate::engine::sqlite::commit::writer::Writer;
use crate::engine::sqlite::control::ControlCache;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{fold, head};
use crate::engine::sqlite::tree_rows::SqliteRows;
use crate::engine::sqlite::writer_lock::WriterLock;
use crate::engine::sqlite::{projections, schema};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::lower::StoreId;
use crate::fs::store::SYSTEM_MARK;
use crate::model::{At, Head, Seq, Timestamp, Within};
use crate::path::{SYSTEM, TreePath};
use crate::rule::Registry;
use crate::runtime::Runtime;
use crate::runtime::budget::IdleOwner as _;
use crate::sqlite::patience::{Bound, Patience, SHORT};
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
    pub(super) collecting: Collecting,
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
        let collecting = Collecting::default();
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
            let bound = Bound::Until { env, deadline, asked, unchecked: 0 };
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
            Some(past) => {
                let head = head::get(conn)?;
                // A process that was stopped for a long time has lost its leases.
                if past.seq < head.oldest && past.seq < fold::reached(conn)? {
                    return Err(Error::gone(head.oldest).into());
                }
                // After the last commit both show the same, and the newest state is read faster.
                Some(past.seq).filter(|seq| head.seq > *seq)
            }
            None => None,
        };
        let (packs, control) = (&*inner.packs, &*inner.control);
        let tree = TreeView {
            rows: SqliteRows { conn, packs, control, patience },
            open: &inner.open,
            reach: &self.reach,
            as_of,
            is_past: self.as_of.is_some(),
            oldest: OnceCell::new(),
            time: self.time(),
            opened: self.as_of.as_deref().map_or(i64::MAX, |past| past.opened),
            gated: GatedFacts::default(),
        };
        Ok(ReadView { conn, packs, control, tree })
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

#[cfg(test)]
mod tests;
