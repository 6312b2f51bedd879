//! Turns: long work of one account on threads that all accounts share. After every piece an account queues
//! again after the others, and it never takes all threads.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use super::executor::{Executor, Work, answering};
use super::lock::lock;
use crate::error::Result;
use crate::stats::Waiting;

/// Limit on the pieces of one account that run at once: about as many cores as one account may use.
pub(crate) const AT_ONCE: usize = 2;

/// A piece of work, such as a read. It sends its result to its caller itself.
type Piece = Box<dyn FnOnce() + Send>;

/// Long work of one account.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Waiting, Piece)>,
    /// Pieces on the executor or in line for it.
    running: usize,
}

impl Turns {
    /// Queues `piece`. Returns `false` and drops it if the system provides no thread.
    pub(crate) fn submit(self: &Arc<Self>, executor: &Executor, piece: Piece) -> bool {
        let mut state = lock(&self.state);
        state.waiting.push_back((executor.enter(), piece));
        if state.running >= AT_ONCE {
            return true;
        }
        state.running += 1;
        // Counted before it is submitted, and submitted without the lock: `run` takes it, maybe before
        // `submit` returns.
        drop(state);
        if executor.submit(Arc::clone(self) as Arc<dyn Work>) {
            return true;
        }
        let mut state = lock(&self.state);
        state.running -= 1;
        // Others may rely on this one: they saw `running` at its limit and returned. Without any other that
        // runs, they are dropped as well, so that their callers get an error instead of waiting for ever.
        let dropped = if state.running == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        dropped.is_empty()
    }

    /// Runs `job` in a turn of the account, as [`Executor::run`] does.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        executor: &Executor,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = answering(job);
        let is_begun = self.submit(executor, job);
        answer.wait(is_begun).await
    }
}

impl Work for Turns {
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
        let (waiting, piece) = {
            let mut state = lock(&self.state);
            let Some(piece) = state.waiting.pop_front() else {
                state.running -= 1;
                return None;
            };
            piece
        };
        waiting.end();
        // The panic hook has reported it, and the caller learns that its result is lost.
        let _ = catch_unwind(AssertUnwindSafe(piece));
        // Even if nothing waits now: the next turn finds that out and counts itself off under the lock.
        Some(self)
    }

    fn counts(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn busy_account_does_not_delay_another() {
        let executor = Executor::new("test", 1);
        let [many, few] = [(); 2].map(|()| Arc::new(Turns::default()));
        let (done, order) = mpsc::channel();
        let (start, started) = mpsc::channel::<()>();
        assert!(many.submit(&executor, Box::new(move || started.recv().unwrap())));
        for (turns, name) in [(&many, 'm'), (&many, 'm'), (&many, 'm'), (&many, 'm'), (&few, 'f')] {
            let done = done.clone();
            assert!(turns.submit(&executor, Box::new(move || done.send(name).unwrap())));
        }
        start.send(()).unwrap();
        let order: String = order.iter().take(5).collect();
        assert!(order.find('f').is_some_and(|at| at <= AT_ONCE), "{order}");
    }

    #[test]
    fn account_never_takes_all_threads() {
        let executor = Executor::new("test", AT_ONCE + 1);
        let [greedy, other] = [(); 2].map(|()| Arc::new(Turns::default()));
        let (start, started) = mpsc::channel::<()>();
        let started = Arc::new(Mutex::new(started));
        for _ in 0..10 {
            let started = Arc::clone(&started);
            assert!(greedy.submit(&executor, Box::new(move || lock(&started).recv().unwrap())));
        }
        let (done, answer) = mpsc::channel();
        assert!(other.submit(&executor, Box::new(move || done.send(()).unwrap())));
        answer.recv().expect("it runs beside the others");
        (0..10).for_each(|_| start.send(()).unwrap());
    }

    #[test]
    fn panicking_piece_costs_no_turn() {
        let executor = Executor::new("test", 1);
        let turns = Arc::new(Turns::default());
        for _ in 0..2 * AT_ONCE {
            assert!(turns.submit(&executor, Box::new(|| panic!("as the test asks"))));
        }
        let (done, answer) = mpsc::channel();
        assert!(turns.submit(&executor, Box::new(move || done.send(()).unwrap())));
        answer.recv().expect("it runs");
    }
}
