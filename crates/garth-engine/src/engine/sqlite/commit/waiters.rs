//! Callers that wait for the next commit of an account. A commit of this process wakes them. For commits of
//! other processes the head row is read many times a second, but only while there are waiters.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::channel::oneshot;

use crate::engine::sqlite::tables::head;
use crate::model::Seq;
use crate::runtime::Runtime;
use crate::runtime::ticker::Tick;
use crate::sqlite::ConnPool;
use crate::threads::lock::lock;

/// Waiters for commits of one account.
pub(crate) struct CommitWaiters {
    pool: Arc<ConnPool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Waiters: the last commit that each has seen, and its signal. Some no longer wait.
    waiting: Vec<(Seq, oneshot::Sender<()>)>,
    /// True while the head row is read at each tick.
    watched: bool,
}

impl CommitWaiters {
    pub(crate) fn new(pool: &Arc<ConnPool>) -> Arc<Self> {
        Arc::new(Self { pool: Arc::clone(pool), state: Mutex::default() })
    }

    /// Waits until there may be a commit after `since`. Registers the waiter before it returns the future.
    pub(crate) fn join(
        self: &Arc<Self>,
        since: Seq,
        runtime: &Runtime,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (wake, woken) = oneshot::channel();
        let mut state = lock(&self.state);
        // Waiters that went away are removed before the list grows, which keeps it short without a scan for
        // each call.
        if state.waiting.len() == state.waiting.capacity() {
            state.waiting.retain(|(_, wake)| !wake.is_canceled());
        }
        state.waiting.push((since, wake));
        let watch = !std::mem::replace(&mut state.watched, true);
        drop(state);
        if watch && !runtime.watch().add(self) {
            // Without a thread for the ticker, the next waiter tries again.
            lock(&self.state).watched = false;
        }
        // The sender is dropped only with the account.
        woken.map(drop)
    }

    /// Wakes all waiters: there may be a commit.
    pub(crate) fn wake(&self) {
        // Outside of the lock, because a woken waiter may register again at once.
        let waiting = std::mem::take(&mut lock(&self.state).waiting);
        for (_, wake) in waiting {
            // A waiter that went away has dropped its receiver.
            let _ = wake.send(());
        }
    }
}

impl Tick for CommitWaiters {
    fn tick(self: Arc<Self>) -> bool {
        {
            // Decided under the lock: a waiter that registers afterwards finds `watched` false and starts the
            // ticker again.
            let mut state = lock(&self.state);
            state.waiting.retain(|(_, wake)| !wake.is_canceled());
            state.watched = !state.waiting.is_empty();
            if !state.watched {
                return false;
            }
        }
        // On a failed read all are woken: their own reads report the error.
        let head = self.pool.with(head::get).map_or(u64::MAX, |head| head.seq);
        // A waiter that has seen this head keeps waiting.
        if lock(&self.state).waiting.iter().any(|(since, _)| since.0 < head) {
            self.wake();
        }
        true
    }
}
