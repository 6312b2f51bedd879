//! Points at which a test can make one open data folder fail: with an error, a panic, or the end of the
//! process. In a release build a point is nothing.

use crate::error::Result;

/// The failpoints of one [`Runtime`](super::Runtime).
#[derive(Debug, Default)]
pub struct Failpoints {
    #[cfg(debug_assertions)]
    armed: std::sync::Mutex<Option<Armed>>,
}

#[cfg(not(debug_assertions))]
impl Failpoints {
    /// Passes a point.
    #[inline(always)]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)] // in a debug build it can fail
    pub(crate) fn pass(&self, _point: &'static str) -> Result<()> {
        Ok(())
    }
}

#[cfg(debug_assertions)]
pub use armed::{CHECKPOINT, Failure, MIGRATE, POINTS};

#[cfg(debug_assertions)]
use armed::Armed;

#[cfg(debug_assertions)]
mod armed {
    use std::sync::PoisonError;

    use rusqlite::ffi;

    use super::{Failpoints, Result};
    use crate::error::{Error, ErrorKind};

    /// Every point: those of a commit in order, then those of an upload, then those of `gc`.
    pub const POINTS: [&str; 14] = [
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
    ];
    /// The one that only opening data of an older format passes.
    pub const MIGRATE: &str = "migrate";
    /// After a checkpoint: only what has grown long passes it, and what opens an account that was not closed.
    pub const CHECKPOINT: &str = "checkpoint";

    /// How a point fails.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Failure {
        /// The storage answers an error.
        Io,
        /// A sync fails.
        Sync,
        /// A panic on the thread that passes.
        Panic,
        /// The process ends at once.
        Abort,
    }

    /// The point, how it fails, and how many passes succeed before.
    #[derive(Debug)]
    pub(super) struct Armed {
        point: &'static str,
        failure: Failure,
        after: u32,
    }

    impl Failpoints {
        /// Makes it fail once, at a point of [`POINTS`], [`MIGRATE`] or [`CHECKPOINT`], after it was passed
        /// `after` times.
        ///
        /// # Panics
        /// If there is no such point.
        pub fn arm(&self, point: &str, failure: Failure, after: u32) {
            let known = POINTS.into_iter().chain([MIGRATE, CHECKPOINT]).find(|known| *known == point);
            let point = known.expect("a point that the engine has");
            *self.armed.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Armed { point, failure, after });
        }

        /// Takes back what was armed; whether it was still to come.
        pub fn disarm(&self) -> bool {
            self.armed.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
        }

        /// Passes a point; fails there if a test asked for it.
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
            *armed = None;
            drop(armed);
            match failure {
                Failure::Io => Err(Error::new(ErrorKind::Io, "the storage failed, as a test asked")),
                Failure::Sync => {
                    let code = ffi::Error::new(ffi::SQLITE_IOERR_FSYNC);
                    let error = rusqlite::Error::SqliteFailure(code, None);
                    Err(Error::new(ErrorKind::Io, "a sync failed, as a test asked").with_source(error))
                }
                Failure::Panic => panic!("a panic that a test asked for at `{name}`"),
                Failure::Abort => std::process::abort(),
            }
        }
    }
}
