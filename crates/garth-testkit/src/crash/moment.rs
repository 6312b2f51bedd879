//! When the blow falls, shared between the writers and whoever strikes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The moment of the blow, and the acknowledgements before it.
#[derive(Debug, Default)]
pub(super) struct Moment {
    struck: AtomicBool,
    acknowledged: Mutex<u64>,
    more: Condvar,
}

impl Moment {
    /// A writer has been told that a put is safe.
    pub(super) fn acknowledged(&self) {
        *self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_all();
    }

    /// Waits for the next acknowledgement, at most this long: the worst moment for one that was given too early.
    pub(super) fn await_acknowledgement(&self, longest: Duration) {
        let count = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *count;
        drop(self.more.wait_timeout_while(count, longest, |now| *now == before));
    }

    /// From here on a failing write is no surprise.
    pub(super) fn strike(&self) {
        self.struck.store(true, Ordering::SeqCst);
    }

    /// Whether the blow has fallen.
    pub(super) fn has_struck(&self) -> bool {
        self.struck.load(Ordering::SeqCst)
    }
}
