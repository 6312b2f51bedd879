//! Mutexes whose data stays consistent when their holder panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic of its holder. Everything that garth guards with one changes in a single
/// step, or in steps none of which can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
