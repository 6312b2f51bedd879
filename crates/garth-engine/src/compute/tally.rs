//! Counts of computed work.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the work computed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Computed {
    /// Pieces of work started on the compute threads.
    pub pieces: u64,
    /// Steps made on those threads, in bytes of input.
    pub steps: u64,
    /// Steps made on the caller's thread, where other requests wait for them.
    pub steps_in_place: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pieces: AtomicU64,
    steps: AtomicU64,
    steps_in_place: AtomicU64,
}

impl Tally {
    pub(super) fn begin(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, steps: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    pub(super) fn count_in_place(&self, steps: u64) {
        self.steps_in_place.fetch_add(steps, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Computed {
        let [pieces, steps, steps_in_place] =
            [&self.pieces, &self.steps, &self.steps_in_place].map(|count| count.load(Ordering::Relaxed));
        Computed { pieces, steps, steps_in_place }
    }
}
