//! Clock, randomness and sleep: the only place that touches the machine's, so that
//! tests decide what time it is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::model::Timestamp;

trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // this is the one place
    fn now(&self) -> Timestamp {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)),
            Err(before) => Timestamp(-i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX)),
        }
    }
}

/// A clock that stands still until told to move. Clones show the same time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, to: Timestamp) {
        self.0.store(to.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// What the code may know of the outside world: the time, random bytes, and how to wait.
#[derive(Clone, Debug)]
pub struct Env {
    clock: Arc<dyn Clock>,
}

impl Env {
    /// The machine's clock and randomness.
    pub fn system() -> Self {
        Self { clock: Arc::new(SystemClock) }
    }

    /// A clock that the caller moves; randomness stays the machine's.
    pub fn manual(start: Timestamp) -> (Self, ManualClock) {
        let clock = ManualClock(Arc::new(AtomicI64::new(start.0)));
        (Self { clock: Arc::new(clock.clone()) }, clock)
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// `N` random bytes from the operating system.
    ///
    /// # Errors
    /// `Io` if the system has none to give.
    #[allow(clippy::disallowed_methods)] // this is the one place
    pub fn random<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::new(ErrorKind::Io, "the system gave no random bytes").with_source(e))?;
        Ok(bytes)
    }

    /// A point in time to measure with. Always real time, whatever the clock says.
    #[allow(clippy::disallowed_methods)] // this is the one place
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Blocks this thread. Always real time, whatever the clock says.
    #[allow(clippy::disallowed_methods)] // this is the one place
    pub fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl Default for Env {
    fn default() -> Self {
        Self::system()
    }
}
