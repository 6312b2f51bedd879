//! Group commit. The one writer of an account in this process puts all waiting commits into one transaction,
//! because an fsync costs far more than planning them. Limits of a group: `group.rs`. Why:
//! `docs/decisions/single-writer-group-commit.md`.

mod run_group;

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};

// Not tokio's: its receivers stop being ready within a task that awaits many of them on one thread.
use futures::channel::oneshot;
use futures::lock::Mutex as AsyncMutex;
use rusqlite::Connection;

use crate::engine::relational::confinement::Reach;
use crate::engine::relational::open_nodes::OpenNodes;
use crate::engine::relational::open_pasts::OpenPasts;
use crate::engine::relational::upload_counts::UploadCounts;
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::commit::checkpoint::Checkpoints;
use crate::engine::sqlite::commit::group::{BatchRequest, GATHER, Task, WriteConn, fits, weight};
use crate::engine::sqlite::commit::stored;
use crate::engine::sqlite::commit::waiters::CommitWaiters;
use crate::engine::sqlite::control::ControlCache;
use crate::engine::sqlite::schema;
use crate::engine::sqlite::tables::head;
use crate::engine::sqlite::writer_lock::WriterLock;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Batch, Commit, Seq};
use crate::runtime::Runtime;
use crate::runtime::budget::IdleOwner;
use crate::runtime::ticker::Tick;
use crate::sqlite::{ConnPool, Database, DbResult};
use crate::stats::Waiting;
use crate::threads::executor::Work;
use crate::threads::lock::lock;

/// Groups of commits after which background work on the search index goes before further commits; otherwise
/// it waits until no commit does. The index is then in some 32 more pieces, which slows a search down only
/// slightly.
const GROUPS_PER_CHORE: u32 = 16;

type ResultSender<T> = oneshot::Sender<Result<T>>;

enum Job {
    Commit(Box<BatchRequest>, ResultSender<Commit>),
    Task { durable: bool, task: Task, answer: ResultSender<()> },
}

/// Work of one transaction.
enum Group {
    Commits(Vec<(BatchRequest, ResultSender<Commit>)>),
    Task {
        durable: bool,
        task: Task,
        answer: ResultSender<()>,
    },
    /// A step of background work on the search index.
    Chore,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Waiting, Job)>,
    /// True while this writer runs on the executor or is queued there: it must not be submitted twice.
    busy: bool,
    /// Number of commits of the last group.
    last: usize,
    /// True while a thread waits for the next group to become as large.
    gathering: bool,
    /// True if there is background work on the search index.
    chores: bool,
    /// Groups committed after the last step of it.
    since_chore: u32,
    /// True once the last handle was dropped or a step failed.
    no_chores: bool,
}

impl Queue {
    /// Returns true if a step of index work is next. It waits for `groups` groups of commits.
    fn takes_chore(&mut self, groups: u32) -> bool {
        let takes = self.chores && !self.no_chores && self.since_chore >= groups;
        if takes {
            self.since_chore = 0;
        }
        takes
    }
}

/// The writer of one account in this process.
pub(crate) struct Writer {
    database: Database,
    runtime: Runtime,
    packs: Arc<Packs>,
    open: Arc<OpenNodes>,
    pasts: Arc<OpenPasts>,
    control: Arc<ControlCache>,
    lock: WriterLock,
    queue: Mutex<Queue>,
    gathered: Condvar,
    /// `None` before the first group, after a panic in one, and after it was closed to make room for others.
    conn: Mutex<Option<WriteConn>>,
    pool: Arc<ConnPool>,
    /// Tick of the budget at which the connection was last used.
    used: AtomicU64,
    checkpoints: Arc<Checkpoints>,
    waiters: Arc<CommitWaiters>,
    /// Last commit that a sync of this process has covered. The WAL is one file, so each sync covers all
    /// earlier commits, also those of other processes.
    durable: AtomicU64,
    /// Held by the caller of `settle` that syncs for all others.
    settling: AsyncMutex<()>,
    uploads: UploadCounts,
    /// Stored bytes with which the account is counted in the metrics.
    counted_bytes: AtomicU64,
    /// True once a group has run: the next tick counts them again.
    has_written: AtomicBool,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

fn poisoned() -> Error {
    let message =
        "the storage has failed; restart to open the account again, and check which commits were made";
    Error::new(ErrorKind::Poisoned, message)
}

/// Returns the error for callers whose result was lost to a panic.
fn interrupted() -> Error {
    let message =
        "a fault inside garth interrupted the write; check whether it was committed, then try again";
    Error::new(ErrorKind::Io, message)
}

impl Writer {
    pub(crate) fn new(
        folder: &Path,
        runtime: &Runtime,
        lock: WriterLock,
        packs: &Arc<Packs>,
        (open, pasts): (&Arc<OpenNodes>, &Arc<OpenPasts>),
        pool: &Arc<ConnPool>,
        control: &Arc<ControlCache>,
    ) -> Arc<Self> {
        let writer = Arc::new(Self {
            database: schema::database(folder),
            runtime: runtime.clone(),
            packs: Arc::clone(packs),
            open: Arc::clone(open),
            pasts: Arc::clone(pasts),
            control: Arc::clone(control),
            lock,
            queue: Mutex::default(),
            gathered: Condvar::new(),
            conn: Mutex::default(),
            pool: Arc::clone(pool),
            used: AtomicU64::new(0),
            checkpoints: Checkpoints::new(runtime, pool),
            waiters: CommitWaiters::new(pool),
            durable: AtomicU64::new(0),
            settling: AsyncMutex::new(()),
            uploads: UploadCounts::default(),
            counted_bytes: AtomicU64::new(0),
            has_written: AtomicBool::new(false),
        });
        runtime.counters().open_accounts.add(1);
        writer.count_bytes(pool.with(stored::used).ok());
        // Without a thread for the timer, the next account that is opened tries again.
        runtime.timer().add(&writer);
        let owner: Weak<dyn IdleOwner> = Arc::downgrade(&writer) as _;
        runtime.conns().register(owner);
        writer
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Ends the use of an account that is being deleted: wakes all waiters, and closes all files. If a group
    /// runs, its end closes the connection.
    pub(crate) fn abandon(&self) {
        self.stop_chores();
        self.close_one();
        self.lock.close();
        self.waiters.wake();
    }

    /// Returns the error to report for a failure: see [`ConnPool::explained`].
    pub(crate) fn explained(&self, error: Error) -> Error {
        self.pool.explained(error)
    }

    /// Returns the error of all writes, if nothing can be written.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.pool.removed().or_else(|| self.pool.is_poisoned().then(poisoned))
    }

    /// Leaves background work on the search index to the next process that opens the account.
    pub(crate) fn stop_chores(&self) {
        lock(&self.queue).no_chores = true;
    }

    pub(crate) fn packs(&self) -> &Arc<Packs> {
        &self.packs
    }

    /// Counts the stored bytes in the metrics; `None` leaves the last count.
    fn count_bytes(&self, bytes: Option<u64>) {
        let Some(bytes) = bytes else { return };
        let before = self.counted_bytes.swap(bytes, Ordering::Relaxed);
        let counted = &self.runtime.counters().stored_bytes;
        counted.add(bytes);
        counted.sub(before);
    }

    /// Counts an upload in progress of an owner with `bytes` instead of the `before` that it had. Returns
    /// false if the account has no room for it beside the others; its bytes count no longer then.
    pub(crate) fn fit_upload(&self, owner: &str, before: u64, bytes: u64) -> Result<bool> {
        let room = || {
            self.pool.read(|conn| {
                let limit = self.control.at(conn, head::get(conn)?.control)?.retention.stored;
                // Without a limit, nothing has to be counted.
                let Some(limit) = limit else { return Ok(u64::MAX) };
                Ok(limit.saturating_sub(stored::used(conn)?))
            })
        };
        self.uploads.fit(owner, before, bytes, room)
    }

    /// Returns the counts of uploads.
    pub(crate) fn uploads(&self) -> &UploadCounts {
        &self.uploads
    }

    pub(crate) fn waiters(&self) -> &Arc<CommitWaiters> {
        &self.waiters
    }

    /// Returns the last commit that is known to be durable.
    ///
    /// # Errors
    /// The error of all writes, if nothing can be written.
    pub(crate) fn known_durable(&self) -> Result<Seq> {
        match self.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(Seq(self.durable.load(Ordering::Acquire))),
        }
    }

    /// Copies the WAL into the database as far as readers allow. Blocks.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.checkpoints.copy_all()
    }

    /// Makes every commit durable. Returns the last one.
    pub(crate) async fn sync(self: &Arc<Self>) -> Result<Seq> {
        let touch = |conn: &Connection| {
            head::touch(conn)?;
            Ok(Seq(head::get(conn)?.seq))
        };
        let last = self.transact(true, touch).await?;
        self.durable.fetch_max(last.0, Ordering::AcqRel);
        Ok(last)
    }

    /// Makes the commits up to `seq` durable, unless they are known to be.
    pub(crate) async fn settle(self: &Arc<Self>, seq: Seq) -> Result<()> {
        if self.known_durable()? >= seq {
            return Ok(());
        }
        let _turn = self.settling.lock().await;
        // Another caller may have synced meanwhile.
        if self.known_durable()? < seq {
            self.sync().await?;
        }
        Ok(())
    }

    /// Commits a batch, in one transaction with the other waiting batches.
    pub(crate) async fn commit(self: &Arc<Self>, batch: Batch, reach: &Arc<Reach>) -> Result<Commit> {
        let (answer, wait) = oneshot::channel();
        let asked = BatchRequest { batch, reach: Arc::clone(reach) };
        self.enqueue(Job::Commit(Box::new(asked), answer))?;
        let commit = wait.await.unwrap_or_else(|_| Err(interrupted()))?;
        // In the span of the caller: the group commits in that of the account.
        tracing::debug!(seq = commit.seq.0, durable = commit.durable, "committed");
        Ok(commit)
    }

    /// Runs `task` in a write transaction of its own. Returns once that is committed.
    pub(crate) async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        durable: bool,
        task: impl FnOnce(&Connection) -> DbResult<T> + Send + 'static,
    ) -> Result<T> {
        let (value, mut given) = oneshot::channel();
        let task: Task = Box::new(move |conn| {
            // The receiver reads the value only after the result below, hence after the commit. The task is
            // executed even if nobody waits for its value any more.
            let _ = value.send(task(conn)?);
            Ok(())
        });
        let (answer, wait) = oneshot::channel();
        self.enqueue(Job::Task { durable, task, answer })?;
        wait.await.unwrap_or_else(|_| Err(interrupted()))?;
        given.try_recv().ok().flatten().ok_or_else(interrupted)
    }

    /// Queues `task` without waiting for it. For work that may be lost, because leases end and `gc` runs
    /// again.
    pub(crate) fn transact_later(
        self: &Arc<Self>,
        task: impl FnOnce(&Connection) -> DbResult<()> + Send + 'static,
    ) {
        let (answer, _) = oneshot::channel();
        if let Err(error) = self.enqueue(Job::Task { durable: false, task: Box::new(task), answer })
            // In a deleted account there is nothing left to do.
            && !error.is(ErrorKind::NotFound)
        {
            self.runtime.in_account(|| tracing::warn!(%error, "background write was not done"));
        }
    }

    /// Returns true if the storage has failed. Nothing is written until the account is opened again.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.pool.is_poisoned()
    }

    fn enqueue(self: &Arc<Self>, job: Job) -> Result<()> {
        // Checked again in `run_group`: the storage may fail while the job waits.
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let mut queue = lock(&self.queue);
        queue.jobs.push_back((self.runtime.counters().commit_queue.enter(), job));
        if queue.busy {
            // Wakes the thread only for a full group; `GATHER` ends its wait otherwise.
            if queue.gathering && queue.jobs.len() >= queue.last {
                self.gathered.notify_one();
            }
            return Ok(());
        }
        queue.busy = true;
        drop(queue);
        if self.runtime.executor().submit(Arc::clone(self) as Arc<dyn Work>) {
            return Ok(());
        }
        // Other callers may have queued jobs meanwhile. They rely on the submission that failed.
        let jobs = {
            let mut queue = lock(&self.queue);
            queue.busy = false;
            std::mem::take(&mut queue.jobs)
        };
        let error =
            Error::new(ErrorKind::Unavailable, "the system cannot start a thread for writing; try again");
        for (_, job) in jobs {
            match job {
                Job::Commit(_, answer) => drop(answer.send(Err(error.clone()))),
                Job::Task { answer, .. } => drop(answer.send(Err(error.clone()))),
            }
        }
        Err(error)
    }

    /// Takes the next group from the queue: commits in the order of their arrival, one task, or a step of
    /// index work that is due.
    fn next_group(&self) -> Option<Group> {
        let mut queue = lock(&self.queue);
        if queue.takes_chore(GROUPS_PER_CHORE) {
            return Some(Group::Chore);
        }
        // Waiting pays only while no other account could use this thread.
        if queue.last > 1 && queue.jobs.len() < queue.last && self.runtime.executor().is_free() {
            queue.gathering = true;
            let few = |queue: &mut Queue| queue.jobs.len() < queue.last;
            queue = match self.gathered.wait_timeout_while(queue, GATHER, few) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
            queue.gathering = false;
        }
        let (mut commits, mut bytes) = (Vec::new(), 0);
        // A task counts as a group of one: the next group does not wait to become larger.
        queue.last = 1;
        while let Some((waiting, job)) = queue.jobs.pop_front() {
            match job {
                // A task has its own transaction, so commits before it end their group, and order is kept.
                Job::Task { durable, task, answer } if commits.is_empty() => {
                    waiting.end();
                    return Some(Group::Task { durable, task, answer });
                }
                // The first commit always fits, however large; otherwise the queue would never move on.
                Job::Commit(asked, answer)
                    if commits.is_empty() || fits(&asked.batch, commits.len(), bytes) =>
                {
                    bytes += weight(&asked.batch);
                    waiting.end();
                    commits.push((*asked, answer));
                }
                next => {
                    queue.jobs.push_front((waiting, next));
                    break;
                }
            }
        }
        queue.last = commits.len();
        if commits.is_empty() {
            // The queue is empty: index work delays no one.
            if queue.takes_chore(0) {
                return Some(Group::Chore);
            }
            queue.busy = false;
            return None;
        }
        queue.since_chore = queue.since_chore.saturating_add(1);
        Some(Group::Commits(commits))
    }
}

impl Work for Writer {
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
        let group = self.next_group()?;
        self.runtime.in_account(|| {
            // Callers of the group notice a panic because their senders are dropped. The connection is
            // dropped too, which rolls back the transaction.
            if catch_unwind(AssertUnwindSafe(|| self.run_group(group))).is_err() {
                tracing::error!("panic while writing commits");
            }
        });
        Some(self)
    }
}

/// Closes the connection and the lock files when others need the descriptors.
impl IdleOwner for Writer {
    fn idle_since(&self) -> Option<u64> {
        // A locked slot is in use.
        let idle = self.conn.try_lock().is_ok_and(|conn| conn.is_some());
        idle.then(|| self.used.load(Ordering::Relaxed))
    }

    fn close_one(&self) -> bool {
        let Some(conn) = self.conn.try_lock().ok().and_then(|mut conn| conn.take()) else { return false };
        self.runtime.conns().remove(1);
        self.lock.close();
        drop(conn);
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let counters = self.runtime.counters();
        counters.open_accounts.sub(1);
        counters.stored_bytes.sub(self.counted_bytes.load(Ordering::Relaxed));
        if lock(&self.queue).chores {
            counters.index_behind.sub(1);
        }
        if lock(&self.conn).is_some() {
            self.runtime.conns().remove(1);
        }
    }
}

/// Renews leases of nodes and past states that this process holds open, and takes leases on nodes that `gc`
/// has marked. Counts the stored bytes if a group has run.
impl Tick for Writer {
    fn tick(self: Arc<Self>) -> bool {
        // Only groups change them. An account that is idle need not open a connection for this.
        if self.has_written.swap(false, Ordering::Relaxed) {
            // Not on the thread of the timer, which serves all accounts. What waits keeps no account open.
            let writer = Arc::downgrade(&self);
            self.runtime.maintainers().run_later(move || {
                if let Some(writer) = writer.upgrade() {
                    writer.count_bytes(writer.pool.read(stored::used).ok());
                }
            });
        }
        if self.open.any() || self.pasts.any() {
            let (open, pasts) = (Arc::clone(&self.open), Arc::clone(&self.pasts));
            let now = self.runtime.env().now();
            self.transact_later(move |conn| {
                open.renew(conn, now)?;
                pasts.renew(conn, now)
            });
        }
        true
    }
}

#[cfg(test)]
mod tests;
