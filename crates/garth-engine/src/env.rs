//! Clock, randomness, sleep and compute threads. No other module touches those of the machine, so that tests
//! decide what time it is.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::compute::{Compute, ComputeLimits, Computed};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Timestamp;
use crate::stats::HomeStats;

trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    // The only place that may call it: everything else asks `Env`.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Timestamp {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)),
            Err(before) => Timestamp(-i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX)),
        }
    }
}

/// Clock that stands still until it is moved. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<ManualTime>);

/// Time of a manual clock, and the clocks elsewhere that follow it.
struct ManualTime {
    nanos: AtomicI64,
    followers: Mutex<Vec<Follower>>,
}

/// Sets another clock.
type Follower = Box<dyn Fn(Timestamp) + Send + Sync>;

impl fmt::Debug for ManualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualTime").field("nanos", &self.nanos).finish_non_exhaustive()
    }
}

impl ManualClock {
    fn new(start: Timestamp) -> Self {
        Self(Arc::new(ManualTime { nanos: AtomicI64::new(start.0), followers: Mutex::default() }))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.nanos.fetch_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX), Ordering::SeqCst);
        self.follow();
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, to: Timestamp) {
        self.0.nanos.store(to.0, Ordering::SeqCst);
        self.follow();
    }

    /// Has another clock follow this one, such as that of a database: `set` gets the time now, and whenever
    /// this clock is moved, before the call that moves it returns.
    #[doc(hidden)]
    pub fn followed_by(&self, set: impl Fn(Timestamp) + Send + Sync + 'static) {
        set(self.now());
        self.0.followers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(set));
    }

    fn follow(&self) {
        // The time is read under the lock, so that the last call sets the last time.
        let followers = self.0.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.iter().for_each(|set| set(self.now()));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.nanos.load(Ordering::SeqCst))
    }
}

/// Access to the outside world: time, random bytes, sleep, and threads to compute on. Clones share the
/// threads.
#[derive(Clone, Debug)]
pub struct Env {
    clock: Arc<dyn Clock>,
    compute: Compute,
}

impl Env {
    /// Returns an environment with the clock and randomness of the machine.
    pub fn system() -> Self {
        Self { clock: Arc::new(SystemClock), compute: Compute::new() }
    }

    /// Returns an environment with a clock that starts at `start` and that the caller moves. Randomness is
    /// that of the machine.
    pub fn manual(start: Timestamp) -> (Self, ManualClock) {
        let clock = ManualClock::new(start);
        (Self { clock: Arc::new(clock.clone()), compute: Compute::new() }, clock)
    }

    /// Returns the same clock, with threads of its own that compute within `limits`.
    #[must_use]
    pub fn computing_within(self, limits: ComputeLimits) -> Self {
        Self { compute: Compute::within(limits), ..self }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns `N` random bytes of the operating system.
    ///
    /// # Errors
    /// `Io` if the system provides none.
    // The only place that may call it: everything else asks `Env`.
    #[allow(clippy::disallowed_methods)]
    pub fn random<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::new(ErrorKind::Io, "the system provided no random bytes").with_source(e))?;
        Ok(bytes)
    }

    /// Runs `work` for an account on the compute threads. Accounts take turns on them, and none takes all.
    /// `bytes` is the length of the input that the work holds.
    ///
    /// The work is polled on those threads and occupies none while it waits. Dropping this future ends the
    /// work. Any executor may poll this future. Inside such work, a call runs in place.
    ///
    /// ```
    /// # use garth_engine as garth;
    /// use garth::Env;
    ///
    /// # futures::executor::block_on(async {
    /// let (env, text) = (Env::system(), "a long text ".repeat(1000));
    /// let words = env.compute("acme", text.len(), async move { text.split(' ').count() }).await?;
    /// assert_eq!(words, 3001);
    /// # Ok::<(), garth::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// - `TooLarge`: `bytes` exceeds the limit of one piece of work.
    /// - `WouldBlock`: too much work waits already.
    /// - `TimedOut`: the work makes more steps than it may.
    /// - `Unavailable`: the system provides no thread.
    pub async fn compute<T: Send + 'static>(
        &self,
        account: &str,
        bytes: usize,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.compute.run(account, bytes, work).await
    }

    /// Polls `work` on a thread for whose next step others wait, such as a worker of a server. In a debug
    /// build, functions that compute panic there if their input is longer than
    /// [`IN_PLACE`](crate::compute::IN_PLACE), unless they run inside [`Env::compute`].
    #[doc(hidden)]
    pub async fn serving<T>(&self, work: impl Future<Output = T>) -> T {
        self.compute.serving(work).await
    }

    /// Returns counts of the work computed so far by this environment and its clones.
    #[doc(hidden)]
    pub fn computed(&self) -> Computed {
        self.compute.computed()
    }

    /// Adds the counts of the compute threads to `stats`.
    #[doc(hidden)]
    pub fn read_into(&self, stats: &mut HomeStats) {
        self.compute.read_into(stats);
    }

    /// Returns a point in time for measurements. This is always real time, whatever the clock says.
    // The only place that may call it: everything else asks `Env`.
    #[allow(clippy::disallowed_methods)]
    #[doc(hidden)]
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Blocks this thread for `time`. This is always real time, whatever the clock says.
    // The only place that may call it: everything else asks `Env`.
    #[allow(clippy::disallowed_methods)]
    #[doc(hidden)]
    pub fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl Default for Env {
    fn default() -> Self {
        Self::system()
    }
}
