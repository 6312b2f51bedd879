//! Task: a future that is polled on a compute thread when it is woken, in the turns of its account.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, Weak};
use std::task::Context;

use futures::future::BoxFuture;
use futures::task::{ArcWake, waker_ref};

use super::place::{Here, Piece};
use super::pool::Pool;
use crate::error::{Error, ErrorKind};
use crate::threads::lock::lock;
use crate::threads::turns::Turns;

pub(super) struct Task {
    /// Weak: a waker held elsewhere must not keep the threads alive.
    pool: Weak<Pool>,
    turns: Arc<Turns>,
    piece: Arc<Piece>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// `None` while it is polled and after its end.
    work: Option<BoxFuture<'static, ()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits to be woken.
    Asleep,
    /// Waits for its turn.
    InLine,
    Running,
    /// Woken while it ran; it queues again after this poll.
    Woken,
    Ended,
}

/// Handle of the caller that waits for a task. Dropping it ends the work.
pub(super) struct Waiter {
    task: Weak<Task>,
    piece: Arc<Piece>,
}

impl Task {
    pub(super) fn new(
        pool: &Arc<Pool>,
        turns: Arc<Turns>,
        work: BoxFuture<'static, ()>,
    ) -> (Arc<Self>, Waiter) {
        let piece = Arc::new(Piece::new(Arc::clone(&pool.tally), pool.max_steps));
        let pool = Arc::downgrade(pool);
        let state = Mutex::new(State { phase: Phase::Asleep, work: Some(work) });
        let task = Arc::new(Self { pool, turns, piece: Arc::clone(&piece), state });
        let waiter = Waiter { task: Arc::downgrade(&task), piece };
        (task, waiter)
    }

    /// Queues the task for its first turn. Returns false if the system provides no thread.
    pub(super) fn begin(self: &Arc<Self>) -> bool {
        lock(&self.state).phase = Phase::InLine;
        self.line_up()
    }

    fn line_up(self: &Arc<Self>) -> bool {
        let Some(pool) = self.pool.upgrade() else { return false };
        let task = Arc::clone(self);
        self.turns.submit(&pool.executor, Box::new(move || task.run()))
    }

    fn run(self: Arc<Self>) {
        let work = {
            let mut state = lock(&self.state);
            // Its waiter was dropped while it was in line.
            if state.phase != Phase::InLine {
                return;
            }
            state.phase = Phase::Running;
            state.work.take()
        };
        let Some(mut work) = work else { return };
        let polled = {
            // Polled without the lock: the future may wake itself, which takes it.
            let _entered = Here::Computing(Arc::clone(&self.piece)).enter();
            let waker = waker_ref(&self);
            let mut context = Context::from_waker(&waker);
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context)))
        };
        // `check` ends work that only waits from now on, but has used up its steps or lost its caller.
        let is_over = !matches!(&polled, Ok(poll) if poll.is_pending()) || self.piece.check().is_err();
        let mut state = lock(&self.state);
        if is_over || state.phase == Phase::Ended {
            state.phase = Phase::Ended;
            drop(state);
            // Dropped without the lock: its destructor may wake this task.
            drop(work);
        } else {
            state.work = Some(work);
            let is_woken = state.phase == Phase::Woken;
            state.phase = if is_woken { Phase::InLine } else { Phase::Asleep };
            // A wake during the poll must not be lost: the future may have seen the state of before.
            drop(state);
            if is_woken {
                self.line_up();
            }
        }
        // After the state is consistent; the executor reports it, and `Turns` survives it.
        if let Err(panic) = polled {
            resume_unwind(panic);
        }
    }
}

impl ArcWake for Task {
    fn wake_by_ref(task: &Arc<Self>) {
        // One turn per wake at most: a task in line polls once for all wakes before that.
        let mut state = lock(&task.state);
        match state.phase {
            Phase::Asleep => state.phase = Phase::InLine,
            Phase::Running => {
                state.phase = Phase::Woken;
                return;
            }
            Phase::InLine | Phase::Woken | Phase::Ended => return,
        }
        drop(state);
        task.line_up();
    }
}

impl Waiter {
    /// Returns the reason why a task ended without a result.
    pub(super) fn why_lost(&self) -> Error {
        let lost = || Error::new(ErrorKind::Io, "the work ended without a result");
        self.piece.check().err().unwrap_or_else(lost)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.piece.abandon();
        let Some(task) = self.task.upgrade() else { return };
        let mut state = lock(&task.state);
        state.phase = Phase::Ended;
        // Work that is being polled is dropped by its thread.
        let work = state.work.take();
        drop(state);
        drop(work);
    }
}
