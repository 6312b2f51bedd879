//! Runtime of an open data folder: its clock, threads, timers, bound on connections, and the failpoints of
//! tests. It ends with the data folder.

pub(crate) mod budget;
pub(crate) mod disk;
pub mod failpoint;
pub(crate) mod fault_injection;
pub(crate) mod permits;
pub(crate) mod span;
pub(crate) mod ticker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::budget::IdleBudget;
use self::failpoint::Failpoints;
use self::fault_injection::Fault;
use self::permits::Permits;
use self::span::AccountSpan;
use self::ticker::Ticker;
use crate::env::Env;
use crate::error::Result;
use crate::stats::{Counters, HomeStats};
use crate::threads::executor::Executor;
use crate::threads::turns::Turns;

/// Limits of an open data folder, for all of its accounts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Threads that write. They mostly wait for fsync, so there are more of them than cores.
    pub(crate) writer_threads: usize,
    /// Threads for long reads: more than one account may use, so that no account blocks others.
    pub(crate) reader_threads: usize,
    /// Time limit of a long read.
    pub(crate) read_time: Duration,
    /// Idle connections.
    pub(crate) idle_connections: usize,
    /// Open connections, idle or not.
    pub(crate) open_connections: usize,
    /// True if open accounts are collected in the background.
    pub(crate) collecting: bool,
}

/// Interval of the timer, which looks at leases.
const MINUTE: Duration = Duration::from_secs(60);
/// Interval of looking for commits of other processes, while anybody waits for one. A look reads one row.
const WATCH: Duration = Duration::from_millis(100);
/// Threads that open accounts and change control data. They mostly wait for fsync.
const BLOCKING_THREADS: usize = 4;
/// Threads that write the files of uploads. They mostly wait for the disk, for a few MiB at a time.
pub(crate) const UPLOAD_THREADS: usize = 4;
/// Accounts maintained at once: about as many as the disk can serve.
const MAINTAINER_THREADS: usize = 4;

impl Default for Limits {
    fn default() -> Self {
        Self {
            writer_threads: 8,
            reader_threads: 8,
            // Clients and proxies give up after 30 s or more; the slowest read that is meant to succeed takes
            // 0.2 s.
            read_time: Duration::from_secs(10),
            idle_connections: 64,
            open_connections: 256,
            collecting: false,
        }
    }
}

/// Resources shared by everything of one open data folder. Clones share them; the threads end when the last
/// is dropped.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
    /// Account whose tree uses this handle; `None` for a tree without a name.
    account: Option<Arc<AccountSpan>>,
    /// Turns of the account on the threads that write the files of uploads.
    upload_turns: Arc<Turns>,
}

struct Inner {
    env: Env,
    executor: Executor,
    readers: Executor,
    blocking: Executor,
    uploads: Executor,
    maintainers: Executor,
    deleter: Executor,
    read_time: Duration,
    collecting: bool,
    timer: Ticker,
    maintenance: Arc<Permits>,
    watch: Ticker,
    conns: Arc<IdleBudget>,
    fault: Fault,
    failpoints: Failpoints,
    counters: Counters,
}

impl Runtime {
    /// Returns a runtime with the default limits.
    pub fn new(env: Env) -> Self {
        Self::with_limits(env, Limits::default())
    }

    pub(crate) fn with_limits(env: Env, limits: Limits) -> Self {
        let inner = Inner {
            executor: Executor::new("garth-writer", limits.writer_threads),
            readers: Executor::new("garth-reader", limits.reader_threads),
            blocking: Executor::new("garth-blocking", BLOCKING_THREADS),
            uploads: Executor::new("garth-upload", UPLOAD_THREADS),
            maintainers: Executor::new("garth-maintainer", MAINTAINER_THREADS),
            // One after another: two at once would not end sooner on one disk.
            deleter: Executor::new("garth-deleter", 1),
            read_time: limits.read_time,
            collecting: limits.collecting,
            timer: Ticker::new("garth-timer", MINUTE),
            // The other half stays free for commits.
            maintenance: Permits::new(limits.writer_threads / 2),
            watch: Ticker::new("garth-watch", WATCH),
            conns: IdleBudget::new(limits.idle_connections, limits.open_connections),
            fault: Fault::from_environment(),
            failpoints: Failpoints::default(),
            counters: Counters::default(),
            env,
        };
        Self { inner: Arc::new(inner), account: None, upload_turns: Arc::default() }
    }

    /// Returns the same runtime for the tree of an account. Events of its threads name the account.
    pub(crate) fn of_account(&self, account: &str) -> Self {
        let account = Some(Arc::new(AccountSpan::new(account)));
        Self { inner: Arc::clone(&self.inner), account, upload_turns: Arc::default() }
    }

    /// Runs work of a thread that serves many accounts within the span of this one.
    pub(crate) fn in_account<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.account {
            Some(account) => account.in_scope(work),
            None => work(),
        }
    }

    /// Runs the work of a caller within a span that names the account, below the span of the caller.
    pub(crate) fn in_account_of_caller<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.account {
            Some(account) => span::account(account.name()).in_scope(work),
            None => work(),
        }
    }

    /// Returns the clock and randomness.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Returns the points at which tests make this data folder fail. In a release build none can be armed.
    pub fn failpoints(&self) -> &Failpoints {
        &self.inner.failpoints
    }

    /// Runs the tasks of the minute timer now.
    #[cfg(debug_assertions)]
    pub fn tick(&self) {
        self.inner.timer.tick();
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.inner.executor
    }

    pub(crate) fn readers(&self) -> &Executor {
        &self.inner.readers
    }

    /// Returns the executor for calls that wait for the disk, but not for long: opening an account, changing
    /// control data.
    pub(crate) fn blocking(&self) -> &Executor {
        &self.inner.blocking
    }

    /// Runs a job on the files of uploads while the caller waits without a thread. Commits and reads never
    /// wait for such a job, and the jobs of one account leave threads to the others.
    pub(crate) async fn upload<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.upload_turns.run(&self.inner.uploads, job).await
    }

    /// Returns the executor for work that reads a whole account. Such work queues only after other such work.
    pub(crate) fn maintainers(&self) -> &Executor {
        &self.inner.maintainers
    }

    /// Returns the executor that removes the files of deleted accounts. Nothing else waits for it.
    pub(crate) fn deleter(&self) -> &Executor {
        &self.inner.deleter
    }

    pub(crate) fn read_time(&self) -> Duration {
        self.inner.read_time
    }

    /// Returns true if open accounts are collected in the background.
    pub(crate) fn collects(&self) -> bool {
        self.inner.collecting
    }

    /// Returns the timer that runs once a minute.
    pub(crate) fn timer(&self) -> &Ticker {
        &self.inner.timer
    }

    /// Returns the permits to occupy a writer thread with anything but a commit: steps of maintenance and
    /// checkpoints. At most half of the threads do so at once, so that commits of other accounts find one.
    pub(crate) fn maintenance(&self) -> &Arc<Permits> {
        &self.inner.maintenance
    }

    /// Returns the timer that looks for changes of other processes, several times a second.
    pub(crate) fn watch(&self) -> &Ticker {
        &self.inner.watch
    }

    pub(crate) fn conns(&self) -> &Arc<IdleBudget> {
        &self.inner.conns
    }

    pub(crate) fn fault(&self) -> Fault {
        self.inner.fault
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// Returns the counts of all work of the open data folder.
    pub fn stats(&self) -> HomeStats {
        let Inner { env, executor, readers, blocking, uploads, maintainers, deleter, .. } = &*self.inner;
        let mut stats = HomeStats {
            queues: vec![
                executor.stats("writer"),
                readers.stats("reader"),
                blocking.stats("blocking"),
                uploads.stats("upload"),
                maintainers.stats("maintainer"),
                deleter.stats("deleter"),
            ],
            ..HomeStats::default()
        };
        self.counters().read_into(&mut stats);
        env.read_into(&mut stats);
        let (open, idle) = self.conns().counts();
        (stats.connections, stats.idle_connections) = (open as u64, idle as u64);
        stats
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}
