//! What an open data folder runs on: its clock, its threads, its timer, the bound on its connections, and the
//! switches by which tests make it fail. It ends with the data folder that it belongs to.

pub(crate) mod budget;
pub(crate) mod disk;
pub mod failpoint;
pub(crate) mod fault_injection;
pub(crate) mod permits;
pub(crate) mod ticker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::budget::IdleBudget;
use self::failpoint::Failpoints;
use self::fault_injection::Fault;
use self::permits::Permits;
use self::ticker::Ticker;
use crate::env::Env;
use crate::threads::executor::Executor;

/// What an open data folder may use in all, whatever the number of its accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Threads that write. They mostly wait for fsync, so there are more of them than cores.
    pub(crate) writer_threads: usize,
    /// Threads that read at length. More than may run for one account, so that no account stops others.
    pub(crate) reader_threads: usize,
    /// How long a read may take, once it is long.
    pub(crate) read_time: Duration,
    /// Connections that are open and unused.
    pub(crate) idle_connections: usize,
    /// Connections that are open, used or not.
    pub(crate) open_connections: usize,
}

/// How often leases are looked at.
const MINUTE: Duration = Duration::from_secs(60);
/// How often commits of other processes are looked for, while anybody waits for one. A look is one row read.
const WATCH: Duration = Duration::from_millis(100);
/// Threads that open accounts and change control data. They mostly wait for fsync.
const BLOCKING_THREADS: usize = 4;
/// Accounts that are maintained at once: about as many as there is disk for.
const MAINTAINER_THREADS: usize = 4;

impl Default for Limits {
    fn default() -> Self {
        Self {
            writer_threads: 8,
            reader_threads: 8,
            // clients and proxies give up after 30 s or more; the slowest read that is meant to be takes 0.2
            // s
            read_time: Duration::from_secs(10),
            idle_connections: 64,
            open_connections: 256,
        }
    }
}

/// Shared by everything of one open data folder. Clones are the same one; threads end
/// when the last is dropped.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    env: Env,
    executor: Executor,
    readers: Executor,
    blocking: Executor,
    maintainers: Executor,
    read_time: Duration,
    timer: Ticker,
    maintenance: Arc<Permits>,
    watch: Ticker,
    conns: Arc<IdleBudget>,
    fault: Fault,
    failpoints: Failpoints,
}

impl Runtime {
    /// With the default limits.
    pub fn new(env: Env) -> Self {
        Self::with_limits(env, Limits::default())
    }

    pub(crate) fn with_limits(env: Env, limits: Limits) -> Self {
        Self(Arc::new(Inner {
            executor: Executor::new("garth-writer", limits.writer_threads),
            readers: Executor::new("garth-reader", limits.reader_threads),
            blocking: Executor::new("garth-blocking", BLOCKING_THREADS),
            maintainers: Executor::new("garth-maintainer", MAINTAINER_THREADS),
            read_time: limits.read_time,
            timer: Ticker::new("garth-timer", MINUTE),
            maintenance: Permits::new(limits.writer_threads / 2),
            watch: Ticker::new("garth-watch", WATCH),
            conns: IdleBudget::new(limits.idle_connections, limits.open_connections),
            fault: Fault::from_environment(),
            failpoints: Failpoints::default(),
            env,
        }))
    }

    /// Clock and randomness.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// Points at which tests make it fail. In a release build none can be armed.
    pub fn failpoints(&self) -> &Failpoints {
        &self.0.failpoints
    }

    /// Runs what is due once a minute now.
    #[cfg(debug_assertions)]
    pub fn tick(&self) {
        self.0.timer.tick();
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.0.executor
    }

    pub(crate) fn readers(&self) -> &Executor {
        &self.0.readers
    }

    /// For what keeps its caller waiting for the disk, though not for long: opening an account, changing
    /// control data.
    pub(crate) fn blocking(&self) -> &Executor {
        &self.0.blocking
    }

    /// For what goes through a whole account. Others wait in line, and nothing else does.
    pub(crate) fn maintainers(&self) -> &Executor {
        &self.0.maintainers
    }

    pub(crate) fn read_time(&self) -> Duration {
        self.0.read_time
    }

    /// For what is done once a minute.
    pub(crate) fn timer(&self) -> &Ticker {
        &self.0.timer
    }

    /// Leave to occupy a writer thread with what is no commit: steps of maintenance and checkpoints. At most
    /// half of the threads do so at once, so that commits of other accounts find one.
    pub(crate) fn maintenance(&self) -> &Arc<Permits> {
        &self.0.maintenance
    }

    /// For what looks many times a second at what other processes may have changed.
    pub(crate) fn watch(&self) -> &Ticker {
        &self.0.watch
    }

    pub(crate) fn conns(&self) -> &Arc<IdleBudget> {
        &self.0.conns
    }

    pub(crate) fn fault(&self) -> Fault {
        self.0.fault
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}
