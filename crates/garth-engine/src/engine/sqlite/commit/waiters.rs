//! Callers that wait for the next commit of an account. A commit of this process wakes them. Commits of other
//! processes do not, so the head row is read many times a second, but only while there are waiters.

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
    /// Last commit that each has seen, and its signal. Some have gone away.
    waiting: Vec<(Seq, oneshot::Sender<()>)>,
    /// True while the head row is read at each tick.
    watched: bool,
}

impl CommitWaiters {
    pub(crate) fn new(pool: &Arc<ConnPool>) -> Arc<Self> {
        Arc::new(Self { pool: Arc::clone(pool), state: Mutex::default() })
    }

    /// Waits, from this call on, until there may be a commit after `since`.
    pub(crate) fn join(
        self: &Arc<Self>,
        since: Seq,
        runtime: &Runtime,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (wake, woken) = oneshot::channel();
        let mut state = lock(&self.state);
        if state.waiting.len() == state.waiting.capacity() {
            state.waiting.retain(|(_, wake)| !wake.is_canceled());
        }
        state.waiting.push((since, wake));
        let watch = !std::mem::replace(&mut state.watched, true);
        drop(state);
        if watch && !runtime.watch().add(self) {
            // the next who waits tries again
            lock(&self.state).watched = false;
        }
        // it is dropped only with the account
        woken.map(drop)
    }

    /// Wakes all waiters: there may be a commit.
    pub(crate) fn wake(&self) {
        // they wake outside of the lock: one may wait again at once
        let waiting = std::mem::take(&mut lock(&self.state).waiting);
        for (_, wake) in waiting {
            // who has gone does not listen
            let _ = wake.send(());
        }
    }
}

impl Tick for CommitWaiters {
    fn tick(self: Arc<Self>) -> bool {
        {
            let mut state = lock(&self.state);
            state.waiting.retain(|(_, wake)| !wake.is_canceled());
            state.watched = !state.waiting.is_empty();
            if !state.watched {
                return false;
            }
        }
        // who waits is told of a failure by looking for himself
        let head = self.pool.with(head::get).map_or(u64::MAX, |head| head.seq);
        if lock(&self.state).waiting.iter().any(|(since, _)| since.0 < head) {
            self.wake();
        }
        true
    }
}
