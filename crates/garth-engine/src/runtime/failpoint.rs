//! Failpoints: places where a test makes one open data folder fail with an error, a panic, or the end of the
//! process. In a release build they compile to nothing.

use crate::error::Result;

/// Failpoints of one [`Runtime`](super::Runtime).
#[derive(Debug, Default)]
pub struct Failpoints {
    #[cfg(debug_assertions)]
    armed: std::sync::Mutex<Option<Armed>>,
}

#[cfg(not(debug_assertions))]
impl Failpoints {
    /// Passes a point.
    #[inline(always)]
    // The signature of the debug build, where it can fail.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(crate) fn pass(&self, _point: &'static str) -> Result<()> {
        Ok(())
    }
}

#[cfg(debug_assertions)]
pub use armed::{CHECKPOINT, Failure, MIGRATE, POINTS, SHRINK};

#[cfg(debug_assertions)]
use armed::Armed;

#[cfg(debug_assertions)]
mod armed {
    use std::sync::PoisonError;

    use rusqlite::ffi;

    use super::{Failpoints, Result};
    use crate::error::{Error, ErrorKind};

    /// All points of normal operation: those of a commit in order, then those of an upload, then those of
    /// `gc`, the removal of the past last.
    pub const POINTS: [&str; 23] = [
        "plan",
        "apply",
        "index",
        "before-commit",
        "after-commit",
        "answer",
        "stage-write",
        "stage-sync",
        "stage-keep",
        "gc-merge",
        "gc-sweep",
        "gc-unlink",
        "gc-forget",
        "gc-punch",
        "fold-announce",
        "content-mark",
        "content-remove",
        "fold-candidates",
        "fold-names",
        "fold-times",
        "fold-nodes",
        "fold-log",
        "fold-end",
    ];
    /// Point that is only passed when data of an older format is opened.
    pub const MIGRATE: &str = "migrate";
    /// Point after a checkpoint. It is only passed once the log has grown long, and when an account is opened
    /// that was not closed.
    pub const CHECKPOINT: &str = "checkpoint";
    /// Point of a step of `gc` that returns free pages to the disk. It is only passed once much of a database
    /// is free.
    pub const SHRINK: &str = "gc-shrink";

    /// Way in which a point fails.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Failure {
        /// The storage reports an error.
        Io,
        /// A sync fails.
        Sync,
        /// The passing thread panics.
        Panic,
        /// The process ends at once.
        Abort,
    }

    /// Armed point, its failure, and the number of passes that succeed before.
    #[derive(Debug)]
    pub(super) struct Armed {
        point: &'static str,
        failure: Failure,
        after: u32,
    }

    impl Failpoints {
        /// Arms a failure, once, at a point of [`POINTS`], [`MIGRATE`], [`CHECKPOINT`] or [`SHRINK`], after
        /// `after` passes.
        ///
        /// # Panics
        /// If there is no such point.
        pub fn arm(&self, point: &str, failure: Failure, after: u32) {
            let known = POINTS.into_iter().chain([MIGRATE, CHECKPOINT, SHRINK]).find(|known| *known == point);
            let point = known.expect("a point that the engine has");
            *self.armed.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Armed { point, failure, after });
        }

        /// Disarms the failpoints. Returns true if a failure was still armed.
        pub fn disarm(&self) -> bool {
            self.armed.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
        }

        /// Passes a point. Fails there if a test armed it.
        pub(crate) fn pass(&self, name: &'static str) -> Result<()> {
            let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
            let failure = match &mut *armed {
                Some(Armed { point, failure, after: 0 }) if *point == name => *failure,
                Some(Armed { point, after, .. }) if *point == name => {
                    *after -= 1;
                    return Ok(());
                }
                _ => return Ok(()),
            };
            // Before the failure: a panic under the lock would poison it, and the point fails only once.
            *armed = None;
            drop(armed);
            match failure {
                Failure::Io => Err(Error::new(ErrorKind::Io, "the storage failed at a failpoint")),
                Failure::Sync => {
                    let code = ffi::Error::new(ffi::SQLITE_IOERR_FSYNC);
                    let error = rusqlite::Error::SqliteFailure(code, None);
                    Err(Error::new(ErrorKind::Io, "a sync failed, as a test asked").with_source(error))
                }
                Failure::Panic => panic!("a panic at the failpoint `{name}`"),
                Failure::Abort => std::process::abort(),
            }
        }
    }
}
