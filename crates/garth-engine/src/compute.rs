//! Work that computes: parsing, counting tokens, packing, rendering, extracting. It runs on a few threads of
//! its own, which accounts share by turns, so that no server thread is blocked by one caller.
//!
//! A piece of work is a future. It is polled on these threads and occupies none while it waits for a commit,
//! a model or another read. [`Env::compute`](crate::Env::compute) runs it.

mod place;
mod pool;
mod tally;
mod task;

use std::fmt;
use std::sync::Arc;

use futures::channel::oneshot;

pub use self::place::{IN_PLACE, go_on, working};
pub use self::pool::{ComputeLimits, MAX_PIECE, MAX_QUEUED};
pub use self::tally::Computed;

use self::place::Here;
use self::pool::Pool;
use self::task::Task;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::HomeStats;

/// Compute threads and the work that waits for them. They start when there is work, and end after a while
/// without any.
pub(crate) struct Compute(Arc<Pool>);

impl Compute {
    pub(crate) fn new() -> Self {
        Self::within(ComputeLimits::default())
    }

    pub(crate) fn within(limits: ComputeLimits) -> Self {
        Self(Arc::new(Pool::new(limits)))
    }

    /// See [`Env::compute`](crate::Env::compute).
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        account: &str,
        bytes: usize,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        // The work is part of a piece that was admitted already, with its bytes.
        if Here::is_computing() {
            return Ok(work.await);
        }
        let pool = &self.0;
        let admitted = pool.admit(account, bytes)?;
        pool.tally.begin();
        let (answer, answered) = oneshot::channel();
        let turns = Arc::clone(admitted.turns());
        let piece = async move {
            let outcome = work.await;
            // Before the answer: a caller that has it finds the room free for its next piece.
            drop(admitted);
            // A failed send means that nobody waits for the result any more.
            drop(answer.send(outcome));
        };
        let (task, waiter) = Task::new(pool, turns, Box::pin(piece));
        if !task.begin() {
            let message = "the system provides no thread for this computation; try again";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        // From here on only threads and wakers own the task. If all of them drop it, the sender is dropped
        // with it, and the wait below ends.
        drop(task);
        answered.await.map_err(|_| waiter.why_lost())
    }

    /// See [`Env::serving`](crate::Env::serving).
    pub(crate) async fn serving<T>(&self, work: impl Future<Output = T>) -> T {
        place::serving(Arc::clone(&self.0.tally), work).await
    }

    pub(crate) fn computed(&self) -> Computed {
        self.0.tally.read()
    }

    /// Adds the counts of the compute threads to `stats`.
    pub(crate) fn read_into(&self, stats: &mut HomeStats) {
        stats.queues.push(self.0.executor.stats("compute"));
        stats.compute_bytes = self.0.queued() as u64;
        stats.compute_refused = self.0.refused.get();
    }
}

impl Clone for Compute {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compute").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
