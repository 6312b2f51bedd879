//! Time and end of a run, which its threads share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use garth_engine::Env;
use garth_testkit::proof::Proven;

/// Longest sleep at a time, so that the end of a run is noticed.
const STEP: Duration = Duration::from_millis(200);

/// Run of many threads. Its time ends first, then the changes of keys, then everything else, so that calls
/// are made after the last change.
pub(super) struct Run {
    env: Env,
    begun: Instant,
    time: Duration,
    is_last: AtomicBool,
    has_failed: AtomicBool,
}

impl Run {
    /// Returns a run that begins now.
    pub(super) fn new(time: Duration) -> Self {
        let env = Env::system();
        let begun = env.instant();
        Self { env, begun, time, is_last: AtomicBool::new(false), has_failed: AtomicBool::new(false) }
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> Instant {
        self.env.instant()
    }

    /// Returns the time since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.now().duration_since(self.begun)
    }

    /// Returns the time at which the run began.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns the planned length.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// Returns true after the time of the run, or if a thread has failed.
    pub(super) fn is_over(&self) -> bool {
        self.has_failed() || self.elapsed() >= self.time
    }

    /// Returns true once the keys no longer change, or if a thread has failed.
    pub(super) fn is_ending(&self) -> bool {
        self.is_last.load(Ordering::SeqCst) || self.has_failed()
    }

    /// Returns true if a thread has failed: the others need not go on.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    /// Ends the run, after the last change of keys.
    pub(super) fn end(&self) {
        self.is_last.store(true, Ordering::SeqCst);
    }

    /// Passes on the outcome of a thread, and ends the run if it is a failure.
    pub(super) fn watch<T>(&self, outcome: Proven<T>) -> Proven<T> {
        if outcome.is_err() {
            self.has_failed.store(true, Ordering::SeqCst);
        }
        outcome
    }

    /// Sleeps, at most until the run ends.
    pub(super) fn sleep(&self, time: Duration) {
        self.sleep_until(self.now() + time);
    }

    /// Sleeps until a time, at most until the run ends.
    pub(super) fn sleep_until(&self, time: Instant) {
        loop {
            let left = time.saturating_duration_since(self.now());
            if left.is_zero() || self.is_ending() {
                return;
            }
            self.env.sleep(left.min(STEP));
        }
    }
}
