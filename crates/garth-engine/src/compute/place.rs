//! Place of a thread: one that computes, or one for which others wait. Functions that compute report the
//! bytes that they read here, which reveals a call on the wrong thread.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use super::tally::Tally;
use crate::error::{Error, ErrorKind, Result};

/// Bytes that one poll may process in place where others wait: about half a millisecond of counting tokens,
/// the slowest work by bytes. Below that a hop to another thread costs more.
pub const IN_PLACE: usize = 16 << 10;

thread_local! {
    static HERE: RefCell<Here> = const { RefCell::new(Here::Anywhere) };
}

/// Place of this thread while it polls.
#[derive(Debug)]
pub(super) enum Here {
    /// Unknown: a thread of the program, which may use it as it likes.
    Anywhere,
    /// Others wait for the next step of this thread. Holds the bytes processed in this poll.
    Serving(Arc<Tally>, usize),
    Computing(Arc<Piece>),
}

/// Steps and limits of a piece of work while it runs.
#[derive(Debug)]
pub(super) struct Piece {
    tally: Arc<Tally>,
    steps: AtomicU64,
    max_steps: u64,
    abandoned: AtomicBool,
}

/// Restores the previous place when dropped, also in a panic.
pub(super) struct Entered(Option<Here>);

/// Reports that the caller is about to process `bytes` of input. Functions whose cost grows with their input
/// call this first. It counts their steps; in a debug build it panics if they run where others wait and the
/// input of the poll exceeds [`IN_PLACE`].
pub fn working(bytes: usize) {
    HERE.with_borrow_mut(|here| match here {
        Here::Anywhere => {}
        Here::Serving(tally, sum) => {
            *sum = sum.saturating_add(bytes);
            tally.count_in_place(bytes as u64);
            debug_assert!(
                *sum <= IN_PLACE,
                "{sum} bytes are processed on a thread that others wait for: call this within `Env::compute`"
            );
        }
        Here::Computing(piece) => piece.count(bytes as u64),
    });
}

/// Checks that the piece of work on this thread may continue. Long loops call it; outside of a piece it
/// returns `Ok`.
///
/// # Errors
/// `TimedOut` once the piece has made more steps than it may, or nobody waits for it any more.
pub fn go_on() -> Result<()> {
    HERE.with_borrow(|here| match here {
        Here::Computing(piece) => piece.check(),
        Here::Anywhere | Here::Serving(..) => Ok(()),
    })
}

/// Polls a future on a thread for which others wait.
pub(super) async fn serving<T>(tally: Arc<Tally>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(move |context| -> Poll<T> {
        // On every poll: an executor may poll the future on another thread each time.
        let _entered = Here::Serving(Arc::clone(&tally), 0).enter();
        work.as_mut().poll(context)
    })
    .await
}

impl Here {
    pub(super) fn enter(self) -> Entered {
        Entered(Some(HERE.replace(self)))
    }

    pub(super) fn is_computing() -> bool {
        HERE.with_borrow(|here| matches!(here, Self::Computing(_)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // The place left is dropped outside of the borrow: this may be the last owner of its piece.
        let left = self.0.take().map(|before| HERE.replace(before));
        drop(left);
    }
}

impl Piece {
    pub(super) fn new(tally: Arc<Tally>, max_steps: u64) -> Self {
        Self { tally, steps: AtomicU64::new(0), max_steps, abandoned: AtomicBool::new(false) }
    }

    fn count(&self, steps: u64) {
        // Relaxed: the counts order no other memory.
        self.steps.fetch_add(steps, Ordering::Relaxed);
        self.tally.count(steps);
    }

    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.steps.load(Ordering::Relaxed) > self.max_steps
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.is_spent() {
            let message = "the call computes for longer than its limit; ask for less at a time";
            return Err(Error::new(ErrorKind::TimedOut, message));
        }
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::TimedOut, "the caller no longer waits for this call"));
        }
        Ok(())
    }
}
