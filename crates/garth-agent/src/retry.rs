//! Attempts of a change that loses a race with other writers, and yields to other tasks in a long scan.

use std::future::{Future, poll_fn};
use std::task::Poll;

use garth_engine::error::{Error, ErrorKind, Result};

/// Limit on the attempts of a change. Each failed attempt is one in which another writer succeeded, so only
/// many writers of one file can reach it.
pub(crate) const ATTEMPTS: usize = 1000;

/// Limit on the attempts of a change that fails because other writers create or remove names concurrently.
pub(crate) const ATTEMPTS_AT_NAMES: usize = 8;

/// Makes a change, and repeats it with its reads each time that another writer was faster.
///
/// # Errors
/// From the change; `Conflict` of the last attempt if others are faster each time.
pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(attempt: impl FnMut() -> F) -> Result<T> {
    retry_at_most(ATTEMPTS, attempt).await
}

/// Makes a change in at most `attempts` attempts, for one that reads or writes much.
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
    // The last attempt returns its conflict to the caller.
    attempt().await
}

/// Returns true for a conflict with another writer. A conflict without a path is about the request of the
/// caller: another attempt would fail the same way.
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
