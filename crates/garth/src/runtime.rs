//! What an open data folder runs on: its clock, its threads, its timer, the bound on its connections, and the
//! switches by which tests make it fail. It ends with the data folder that it belongs to.

pub(crate) mod budget;
pub(crate) mod disk;
pub(crate) mod executor;
pub mod failpoint;
pub(crate) mod fault_injection;
pub(crate) mod lock;
pub(crate) mod timer;
pub(crate) mod watch;

use std::fmt;
use std::sync::Arc;

use self::budget::IdleBudget;
use self::executor::Executor;
use self::failpoint::Failpoints;
use self::fault_injection::Fault;
use self::timer::Timer;
use self::watch::Watch;
use crate::env::Env;

/// What an open data folder may use in all, whatever the number of its accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Threads that write. They mostly wait for fsync, so there are more of them than cores.
    pub(crate) writer_threads: usize,
    /// Reading connections that are open and unused.
    pub(crate) idle_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { writer_threads: 8, idle_connections: 64 }
    }
}

/// Shared by everything of one open data folder. Clones are the same one; threads end
/// when the last is dropped.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    env: Env,
    executor: Executor,
    timer: Timer,
    watch: Watch,
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
            executor: Executor::new(limits.writer_threads),
            timer: Timer::new(),
            watch: Watch::new(),
            conns: IdleBudget::new(limits.idle_connections),
            fault: Fault::from_environment(),
            failpoints: Failpoints::default(),
            env,
        }))
    }

    /// Clock and randomness.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// The points at which tests make it fail. Without the feature `faults` none can be armed.
    pub fn failpoints(&self) -> &Failpoints {
        &self.0.failpoints
    }

    /// Runs what is due once a minute now.
    #[cfg(feature = "faults")]
    pub fn tick(&self) {
        self.0.timer.tick();
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.0.executor
    }

    pub(crate) fn timer(&self) -> &Timer {
        &self.0.timer
    }

    pub(crate) fn watch(&self) -> &Watch {
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
