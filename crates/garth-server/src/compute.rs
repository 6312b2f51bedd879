//! Work that computes, run outside the worker threads of the runtime, which serve all connections.

use garth_engine::{Env, Result};
use tokio::runtime::Handle;
use tracing::Instrument as _;

/// Runs work for an account as [`Env::compute`] does. The work may use timers and tasks of the runtime.
///
/// # Errors
/// As [`Env::compute`].
pub(crate) fn compute<'a, T: Send + 'static>(
    env: &'a Env,
    account: &'a str,
    bytes: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T>> + 'a {
    // Each future below contains the one that it waits for, and the work alone can take 20 KiB.
    let mut work = Box::pin(work);
    async move {
        let runtime = Handle::current();
        let in_runtime = std::future::poll_fn(move |context| {
            // `Env::compute` polls on a thread of its own, where timers and `spawn` would panic outside the
            // runtime.
            let _entered = runtime.enter();
            work.as_mut().poll(context)
        });
        env.compute(account, bytes, in_runtime.in_current_span()).await
    }
}
