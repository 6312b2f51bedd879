//! Permits: a bound on how many threads do something at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::threads::lock::lock;

pub(crate) struct Permits {
    free: Mutex<usize>,
    more: Condvar,
}

/// One permit, returned when dropped.
pub(crate) struct Permit(Arc<Permits>);

impl Permits {
    /// Returns `count` permits, at least one.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count.max(1)), more: Condvar::new() })
    }

    /// Blocks until a permit is free.
    pub(crate) fn acquire(self: &Arc<Self>) -> Permit {
        let mut free =
            self.more.wait_while(lock(&self.free), |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(Arc::clone(self))
    }

    /// Returns a permit, or `None` if none is free.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        let mut free = lock(&self.free);
        *free = free.checked_sub(1)?;
        Some(Permit(Arc::clone(self)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.more.notify_one();
    }
}
