//! Attempts of a change that loses a race against other writers, and turns for other tasks in a long scan.

use std::future::{Future, poll_fn};
use std::task::Poll;

use garth_engine::error::{Error, ErrorKind, Result};

/// Attempts of a change. Each attempt that fails is one in which another writer succeeded, so that only many
/// writers of one file could use this number up.
const ATTEMPTS: usize = 1000;

/// Attempts of a change that fails because of names which others create or remove at the same moment.
pub(crate) const ATTEMPTS_AT_NAMES: usize = 8;

/// Makes a change, again with what it reads each time that another writer was faster.
///
/// # Errors
/// Those of the change; `Conflict` of the last attempt if others are faster each time.
pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(attempt: impl FnMut() -> F) -> Result<T> {
    retry_at_most(ATTEMPTS, attempt).await
}

/// Makes a change in at most `attempts` attempts: for one that reads or writes much.
///
/// # Errors
/// As [`retry`].
pub(crate) async fn retry_at_most<T, F: Future<Output = Result<T>>>(
    attempts: usize,
    mut attempt: impl FnMut() -> F,
) -> Result<T> {
    for _ in 1..attempts {
        match attempt().await {
            Err(error) if is_lost(&error) => {}
            done => return done,
        }
    }
    attempt().await
}

/// Returns true for a conflict with another writer. A conflict that has no path is about what the caller
/// asked for: another attempt would fail the same way.
fn is_lost(error: &Error) -> bool {
    error.is(ErrorKind::Conflict) && error.path().is_some()
}

/// Yields to other tasks once. A long scan reads on the caller's thread and would otherwise hold it.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
