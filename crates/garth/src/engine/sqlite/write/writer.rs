//! The one writer of an account in this process: groups the commits that wait into one transaction and one fsync.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

// not tokio's, whose receivers stop being ready within a task that waits for many of them on its thread
use futures::channel::oneshot;
use rusqlite::Connection;

use crate::engine::planner::{Planned, plan};
use crate::engine::sqlite::read::content::Packs;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::schema;
use crate::engine::sqlite::write::apply;
use crate::engine::sqlite::write::open_nodes::OpenNodes;
use crate::engine::sqlite::write::row_cache::RowCache;
use crate::engine::sqlite::write::txn_rows::TxnRows;
use crate::engine::sqlite::write::writer_lock::WriterLock;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Batch, Commit, Durability};
use crate::runtime::executor::{self, Work};
use crate::runtime::failpoint;
use crate::runtime::fault_injection::Fault;
use crate::sqlite::pool::ConnPool;

/// Most commits of one group, and most bytes of content: keeps the first of them from waiting long for the last.
const GROUP_COMMITS: usize = 512;
const GROUP_BYTES: u64 = 16 << 20;
/// How long a group waits to become as large as the last one. Less than a sync takes, which a second group would cost.
const GATHER: Duration = Duration::from_micros(100);
/// Once the log holds this many pages that the database does not, they are copied beside the commits; once it is this long in all, what
/// is left is copied before the next commit, so that the log begins anew and stays short under a steady load. 2 and 8 MiB: pages
/// that many commits touch are copied once for all of them.
const CHECKPOINT_BESIDE: i64 = 512;
const CHECKPOINT_BEFORE: i64 = 2048;
/// How long a checkpoint before a commit waits for readers of old pages.
const CHECKPOINT_WAIT: Duration = Duration::from_millis(200);

/// Work inside a write transaction of its own.
type Task = Box<dyn FnOnce(&Connection) -> Result<()> + Send>;

enum Job {
    Commit(Box<Batch>, oneshot::Sender<Result<Commit>>),
    Task(bool, Task, oneshot::Sender<Result<()>>),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Whether a thread of the pool is at it, or will be.
    busy: bool,
    /// How many jobs the last group had: who got an answer often writes again at once.
    last: usize,
    /// Whether the next group waits for as many.
    gathering: bool,
}

/// The connection that writes.
struct WriteConn {
    conn: Connection,
    /// Whether it waits for the disk; `None` before its first transaction.
    durable: Option<bool>,
    row_cache: RowCache,
}

impl WriteConn {
    fn new(conn: Connection) -> Self {
        Self { conn, durable: None, row_cache: RowCache::default() }
    }
}

/// See the module.
pub(crate) struct Writer {
    pub(crate) folder: PathBuf,
    pub(crate) env: Env,
    pub(crate) packs: Arc<Packs>,
    pub(crate) open: Arc<OpenNodes>,
    pub(crate) fault: Fault,
    writer_lock: WriterLock,
    queue: Mutex<Queue>,
    gathered: Condvar,
    conn_pool: Arc<ConnPool>,
    conn: Mutex<Option<WriteConn>>,
    poisoned: AtomicBool,
    checkpointing: AtomicBool,
    /// Pages that the log had when it could not begin anew; 0 if it could.
    refused: AtomicI64,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn poisoned() -> Error {
    let message = "the storage failed before; open the account again (restart) and check what was committed";
    Error::new(ErrorKind::Poisoned, message)
}

impl Writer {
    pub(crate) fn new(
        folder: PathBuf,
        writer_lock: WriterLock,
        env: Env,
        packs: Arc<Packs>,
        open: Arc<OpenNodes>,
        conn_pool: Arc<ConnPool>,
    ) -> Self {
        Self {
            writer_lock,
            folder,
            env,
            packs,
            open,
            conn_pool,
            fault: Fault::from_environment(),
            queue: Mutex::default(),
            gathered: Condvar::new(),
            conn: Mutex::default(),
            poisoned: AtomicBool::new(false),
            checkpointing: AtomicBool::new(false),
            refused: AtomicI64::new(0),
        }
    }

    /// Commits a batch, together with whatever else waits.
    pub(crate) async fn commit(self: &Arc<Self>, batch: Batch) -> Result<Commit> {
        let (answer, wait) = oneshot::channel();
        self.enqueue(Job::Commit(Box::new(batch), answer))?;
        wait.await.unwrap_or_else(|_| Err(poisoned()))
    }

    /// Runs `task` in a write transaction of its own; what it gives is given once the transaction is kept.
    pub(crate) async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        durable: bool,
        task: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (value, mut given) = oneshot::channel();
        let task: Task = Box::new(move |conn| {
            // the receiver waits for the answer below, which comes after the commit
            let _ = value.send(task(conn)?);
            Ok(())
        });
        let (answer, wait) = oneshot::channel();
        self.enqueue(Job::Task(durable, task, answer))?;
        wait.await.unwrap_or_else(|_| Err(poisoned()))?;
        given.try_recv().ok().flatten().ok_or_else(poisoned)
    }

    /// Runs `task` some time soon; nobody waits for it.
    pub(crate) fn transact_later(
        self: &Arc<Self>,
        task: impl FnOnce(&Connection) -> Result<()> + Send + 'static,
    ) {
        let (answer, _) = oneshot::channel();
        if let Err(error) = self.enqueue(Job::Task(false, Box::new(task), answer)) {
            tracing::warn!(%error, "background write was not done");
        }
    }

    fn enqueue(self: &Arc<Self>, job: Job) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(poisoned());
        }
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        if queue.busy {
            if queue.gathering && queue.jobs.len() >= queue.last {
                self.gathered.notify_one();
            }
            return Ok(());
        }
        queue.busy = true;
        drop(queue);
        if executor::submit(Arc::clone(self) as Arc<dyn Work>) {
            return Ok(());
        }
        let mut queue = lock(&self.queue);
        queue.busy = false;
        queue.jobs.clear();
        Err(Error::new(ErrorKind::Io, "the system gives no thread to write with; try again"))
    }

    /// Takes what the next transaction does: commits in order, or one task.
    fn next_group(&self) -> Vec<Job> {
        let mut queue = lock(&self.queue);
        if queue.last > 1 && queue.jobs.len() < queue.last && executor::is_free() {
            queue.gathering = true;
            let few = |queue: &mut Queue| queue.jobs.len() < queue.last;
            queue = match self.gathered.wait_timeout_while(queue, GATHER, few) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
            queue.gathering = false;
        }
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(job) = queue.jobs.front() {
            match job {
                Job::Task(..) if !group.is_empty() => break,
                Job::Commit(batch, _) => {
                    bytes += batch.ops.iter().filter_map(|op| op.body()).map(|body| body.size()).sum::<u64>();
                    if !group.is_empty() && (group.len() >= GROUP_COMMITS || bytes > GROUP_BYTES) {
                        break;
                    }
                }
                Job::Task(..) => {}
            }
            let alone = matches!(job, Job::Task(..));
            group.extend(queue.jobs.pop_front());
            if alone {
                break;
            }
        }
        queue.last = group.len();
        if group.is_empty() {
            queue.busy = false;
        }
        group
    }

    /// Does a group's work on the writer's connection and answers its members.
    fn do_group(&self, group: Vec<Job>) {
        let mut slot = lock(&self.conn);
        if self.poisoned.load(Ordering::Acquire) {
            return refuse(group, &poisoned());
        }
        let connected = match slot.take() {
            Some(conn) => Ok(conn),
            None => schema::connect(&self.folder).map(WriteConn::new),
        };
        let mut conn = match connected {
            Ok(conn) => conn,
            Err(error) => return refuse(group, &error),
        };
        if self.write_group(&mut conn, group) {
            *slot = Some(conn);
        } else {
            self.poisoned.store(true, Ordering::Release);
        }
    }

    /// `false` if the storage failed in a way that leaves open what it holds.
    fn write_group(&self, conn: &mut WriteConn, group: Vec<Job>) -> bool {
        let turn = match self.writer_lock.acquire() {
            Ok(turn) => turn,
            Err(error) => {
                refuse(group, &error);
                return true;
            }
        };
        let mut batches = Vec::new();
        let mut answers = Vec::new();
        for job in group {
            match job {
                Job::Commit(batch, answer) => {
                    batches.push(*batch);
                    answers.push(Some(answer));
                }
                Job::Task(durable, task, answer) => {
                    let outcome = transaction(conn, durable, self.fault, |conn, _| task(conn));
                    conn.row_cache.forget();
                    drop(turn);
                    let sound = !outcome.as_ref().is_err_and(|error| error.is(ErrorKind::Io));
                    let _ = answer.send(outcome);
                    return sound;
                }
            }
        }
        let durable = batches.iter().any(|batch| batch.durability == Durability::Durable);
        let outcome = transaction(conn, durable, self.fault, |conn, row_cache| {
            let results = self.plan_group(&TxnRows { conn, packs: &self.packs, row_cache }, &batches)?;
            if self.fault == Fault::AckEarly {
                for (answer, result) in answers.iter_mut().zip(&results) {
                    if let (Some(answer), Ok(commit)) = (answer.take(), result) {
                        let _ = answer.send(Ok(commit.clone()));
                    }
                }
            }
            Ok(results)
        });
        drop(turn);
        let outcome = outcome.and_then(|results| failpoint::point("answer").map(|()| results));
        let sound = !outcome.as_ref().is_err_and(|error| error.is(ErrorKind::Io));
        match outcome {
            Ok(results) => {
                for (answer, result) in answers.into_iter().zip(results) {
                    if let Some(answer) = answer {
                        // a caller that has gone away does not want to know
                        let _ = answer.send(result);
                    }
                }
            }
            // damage or a lack of space that one of them met is not the others' fault
            Err(error) if batches.len() > 1 && is_of_one(&error) => {
                let mut sound = true;
                for (batch, answer) in batches.into_iter().zip(answers) {
                    if let Some(answer) = answer {
                        let alone = vec![Job::Commit(Box::new(batch), answer)];
                        sound = sound && self.write_group(conn, alone);
                    }
                }
                return sound;
            }
            Err(error) => {
                tracing::error!(%error, source = ?std::error::Error::source(&error), "a group of commits failed");
                for answer in answers.into_iter().flatten() {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
        sound
    }

    /// Plans and writes the members of a group in order. A member that fails planning leaves nothing.
    fn plan_group(&self, state: &TxnRows<'_>, batches: &[Batch]) -> Result<Vec<Result<Commit>>> {
        let conn = state.conn;
        let mut head = rows::head(conn)?;
        let first = head.seq;
        let mut edits = apply::Edits::new();
        let mut results = Vec::with_capacity(batches.len());
        let mut replayed = false;
        for batch in batches {
            let open = |ino| self.open.is_open(ino);
            failpoint::point("plan")?;
            match plan(state, head, self.env.now(), &open, batch) {
                Ok(Planned::Replay(commit)) => {
                    replayed = true;
                    results.push(Ok(commit));
                }
                Ok(Planned::Apply { delta, head: next, commit }) => {
                    apply::delta(conn, &delta, &next, batch, &commit)?;
                    state.row_cache.apply(&delta, next.seq);
                    failpoint::point("apply")?;
                    self.open.lease(conn, delta.unnamed.iter().copied(), self.env.now())?;
                    for (ino, edit) in &delta.index {
                        edits
                            .entry(*ino)
                            .and_modify(|row_cache| *row_cache = row_cache.then(*edit))
                            .or_insert(*edit);
                    }
                    head = next;
                    results.push(Ok(commit));
                }
                Err(error) if error.is(ErrorKind::Io) => return Err(error),
                Err(error) => results.push(Err(error)),
            }
        }
        if replayed {
            // the first answer may have been `Visible`: a write makes this transaction, and with it that one, durable
            touch(conn)?;
        }
        if head.seq > first {
            apply::head(conn, &head)?;
        }
        failpoint::point("index")?;
        apply::index(state, &edits)?;
        Ok(results)
    }

    /// Copies the log into the database: beside the commits when much of it is new, before the next one when it is too long.
    fn checkpoint(self: &Arc<Self>) {
        let slot = lock(&self.conn);
        let Some(WriteConn { conn, .. }) = &*slot else { return };
        if let Err(error) = self.checkpoint_if_due(conn) {
            tracing::warn!(%error, "checkpoint failed");
        }
    }

    fn checkpoint_if_due(self: &Arc<Self>, conn: &Connection) -> Result<()> {
        let (_, log, copied) = checkpoint(conn, "PRAGMA wal_checkpoint(NOOP)")?;
        let mut refused = self.refused.load(Ordering::Relaxed);
        if log < refused {
            // it has begun anew by itself
            refused = 0;
        }
        if log > copied && log - refused >= CHECKPOINT_BEFORE {
            conn.busy_timeout(CHECKPOINT_WAIT)?;
            let began_anew = checkpoint(conn, "PRAGMA wal_checkpoint(RESTART)");
            conn.busy_timeout(schema::BUSY)?;
            // a reader of old pages or another checkpoint was in the way: not again at once
            refused = if matches!(began_anew, Ok((0, ..))) { 0 } else { log };
            self.refused.store(refused, Ordering::Relaxed);
            began_anew?;
        } else {
            self.refused.store(refused, Ordering::Relaxed);
            if log - copied >= CHECKPOINT_BESIDE && !self.checkpointing.swap(true, Ordering::AcqRel) {
                let _ = executor::submit(Arc::new(Checkpoint(Arc::clone(self))));
            }
        }
        Ok(())
    }
}

/// Runs a checkpoint: whether somebody was in the way, pages of the log, and how many of them are copied; -1 if that is not known.
fn checkpoint(conn: &Connection, sql: &str) -> Result<(i64, i64, i64)> {
    Ok(conn.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?)
}

impl Work for Writer {
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
        let group = self.next_group();
        if group.is_empty() {
            return None;
        }
        // the group's callers learn of a panic by the loss of their answer; what it left in memory is not to be trusted
        let work = || {
            self.do_group(group);
            self.checkpoint();
        };
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("a panic while commits were written; the account is closed for writing");
            self.poisoned.store(true, Ordering::Release);
        }
        Some(self)
    }
}

/// A checkpoint on a reader's connection, which holds up nobody.
struct Checkpoint(Arc<Writer>);

impl Work for Checkpoint {
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
        let copied = self.0.conn_pool.alone(|conn| {
            // readers commit nothing, so that whoever has the connection next need not care
            schema::set_synchronous(conn, true, self.0.fault)?;
            checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)")
        });
        if let Err(error) = copied {
            tracing::warn!(%error, "checkpoint failed");
        }
        None
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        self.0.checkpointing.store(false, Ordering::Release);
    }
}

/// Gives a transaction a frame to sync. What it writes must be new: SQLite writes no row over an equal one, and with nothing
/// written nothing is synced.
pub(crate) fn touch(conn: &Connection) -> Result<()> {
    conn.prepare_cached("UPDATE head SET syncs = syncs + 1")?.execute([])?;
    Ok(())
}

/// Runs `work` in a write transaction.
fn transaction<T>(
    write: &mut WriteConn,
    durable: bool,
    fault: Fault,
    work: impl FnOnce(&Connection, &RowCache) -> Result<T>,
) -> Result<T> {
    let WriteConn { conn, row_cache, .. } = write;
    if write.durable.take() != Some(durable) {
        schema::set_synchronous(conn, durable, fault)?;
    }
    write.durable = Some(durable);
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let outcome = row_cache.begin(conn).and_then(|()| work(conn, row_cache)).and_then(|value| {
        failpoint::point("before-commit")?;
        conn.prepare_cached("COMMIT")?.execute([])?;
        failpoint::point("after-commit")?;
        Ok(value)
    });
    row_cache.end();
    if outcome.is_err() {
        row_cache.forget();
        if !conn.is_autocommit() {
            // the error that led here is the one to tell
            let _ = conn.execute_batch("ROLLBACK");
        }
    }
    outcome
}

/// Whether a failure of a group may be of one member alone.
fn is_of_one(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NoSpace)
}

fn refuse(group: Vec<Job>, error: &Error) {
    for job in group {
        match job {
            Job::Commit(_, answer) => drop(answer.send(Err(error.clone()))),
            Job::Task(_, _, answer) => drop(answer.send(Err(error.clone()))),
        }
    }
}
