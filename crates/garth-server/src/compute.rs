//! Work that computes, run outside the worker threads of the runtime, which serve all connections.

use std::pin::pin;

use garth_engine::{Env, Result};
use tokio::runtime::Handle;
use tracing::Instrument as _;

/// Runs work for an account as [`Env::compute`] does. The work may use timers and tasks of the runtime.
///
/// # Errors
/// As [`Env::compute`].
pub(crate) async fn compute<T: Send + 'static>(
    env: &Env,
    account: &str,
    bytes: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::current();
    let in_runtime = async move {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            // `Env::compute` polls on a thread of its own, where timers and `spawn` would panic outside the
            // runtime.
            let _entered = runtime.enter();
            work.as_mut().poll(context)
        })
        .await
    };
    env.compute(account, bytes, in_runtime.in_current_span()).await
}
