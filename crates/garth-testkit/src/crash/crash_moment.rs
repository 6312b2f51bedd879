//! Phase of a crash, shared by the writers and the thread that crashes them: it decides which
//! acknowledgements count.
//!
//! After a kill all of them count: the kernel keeps what it was given. A power cut by an ioctl is less clean:
//! an `fdatasync` that runs at that time may report success although nothing was written (with ext4 of Linux
//! 6.18 a file that is only appended to loses its last acknowledged block in 4 of 100 cuts; none of those
//! acknowledged before the call). A real machine is off by then and acknowledges nothing. So such an
//! acknowledgement counts as in flight; an acknowledgement of a write that started after the cut counts as
//! given, and its loss is a finding.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Phase of a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not begun.
    #[default]
    Working,
    /// In progress.
    Crashing,
    /// The disk or the process is gone.
    Crashed,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    acknowledged: u64,
}

/// Phase of the crash, and the number of acknowledgements.
#[derive(Debug)]
pub(super) struct Moment {
    /// True if an acknowledgement given during the crash may be wrong.
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

    /// Returns true once the crash has begun: from then on writes may fail.
    pub(super) fn has_come(&self) -> bool {
        self.phase() != Phase::Working
    }

    /// Counts an acknowledgement of a write that started in the phase `begun`. Returns true if it must hold.
    pub(super) fn acknowledged(&self, begun: Phase) -> bool {
        let mut state = self.state();
        state.acknowledged += 1;
        self.more.notify_all();
        !self.doubtful || state.phase == Phase::Working || begun == Phase::Crashed
    }

    /// Waits up to `longest` for the next acknowledgement: a crash right after it catches one that was given
    /// too early.
    pub(super) fn await_acknowledgement(&self, longest: Duration) {
        let state = self.state();
        let before = state.acknowledged;
        drop(self.more.wait_timeout_while(state, longest, |now| now.acknowledged == before));
    }

    /// Enters a phase.
    pub(super) fn advance(&self, phase: Phase) {
        self.state().phase = phase;
    }
}
