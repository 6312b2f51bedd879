//! A bound on how many do something at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::threads::lock::lock;

/// See the module.
pub(crate) struct Permits {
    free: Mutex<usize>,
    more: Condvar,
}

/// Leave to do it, until dropped.
pub(crate) struct Permit(Arc<Permits>);

impl Permits {
    /// For `count` at once, at least one.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count.max(1)), more: Condvar::new() })
    }

    /// Blocks until it is this caller's turn.
    pub(crate) fn acquire(self: &Arc<Self>) -> Permit {
        let mut free =
            self.more.wait_while(lock(&self.free), |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(Arc::clone(self))
    }

    /// `None` if as many as may do it already.
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
