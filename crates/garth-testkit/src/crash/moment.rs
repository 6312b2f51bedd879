//! When the blow falls, shared between the writers and whoever strikes, and with it which acknowledgements count.
//!
//! After a kill all of them do: the system keeps what it was given. A power cut made by an ioctl is not that clean: an
//! `fdatasync` that is under way at that moment may report success though nothing was written (with ext4 of Linux 6.18 a
//! file that is only appended to loses its last acknowledged block in 4 of 100 cuts; none of those acknowledged before the
//! call). A real machine is off by then and tells nobody. So such an acknowledgement is doubtful, but one for a write
//! begun when the disk was gone already is a lie and counts.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where the blow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Still to come.
    #[default]
    Working,
    /// Under way.
    Striking,
    /// The disk, or the process, is gone.
    Struck,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    acknowledged: u64,
}

/// The moment of the blow, and the acknowledgements before it.
#[derive(Debug)]
pub(super) struct Moment {
    /// Whether what is acknowledged while the blow falls may be untrue.
    doubtful: bool,
    state: Mutex<State>,
    more: Condvar,
}

impl Moment {
    pub(super) fn new(doubtful: bool) -> Self {
        Self { doubtful, state: Mutex::default(), more: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Whether the blow has begun: from then on a failing write is no surprise.
    pub(super) fn has_come(&self) -> bool {
        self.phase() != Phase::Working
    }

    /// A writer has been told that a write, begun in that phase, is safe. Gives whether that is sure.
    pub(super) fn acknowledged(&self, begun: Phase) -> bool {
        let mut state = self.state();
        state.acknowledged += 1;
        self.more.notify_all();
        !self.doubtful || state.phase == Phase::Working || begun == Phase::Struck
    }

    /// Waits for the next acknowledgement, at most this long: the worst moment for one that was given too early.
    pub(super) fn await_acknowledgement(&self, longest: Duration) {
        let state = self.state();
        let before = state.acknowledged;
        drop(self.more.wait_timeout_while(state, longest, |now| now.acknowledged == before));
    }

    /// The blow has come this far.
    pub(super) fn advance(&self, phase: Phase) {
        self.state().phase = phase;
    }
}
