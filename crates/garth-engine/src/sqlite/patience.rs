//! Bounds on reads: steps on the thread of the caller, time on other threads. SQLite asks every few hundred
//! instructions of its virtual machine; code that reads bytes reports them itself.

use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use rusqlite::{Connection, ffi};

use super::error::DbResult;
use crate::env::Env;
use crate::threads::lock::lock;

/// Instructions between two checks: about 50 µs. Tests count each.
const LOOK: i32 = if cfg!(test) { 1 } else { 500 };
/// Steps allowed on the thread of the caller, which may have others to serve: about 0.4 ms. A list of 100
/// names takes 1,000 steps, and going to another thread and back costs as much as 200.
pub(crate) const SHORT: u64 = 4000;
/// Steps of looking up and reading a small file.
pub(crate) const FILE: u64 = 90;
/// Steps of reading a name of a directory, 8, after 3 for counting it.
pub(crate) const NAME: u64 = 11;
/// Steps of reading a name with its node, 54, after 3 for counting it.
pub(crate) const ENTRY: u64 = 57;
/// Bytes of content that count as a step: checked and copied, 1 MiB takes some 200 µs, as 2,000 steps do.
pub(crate) const BYTES_PER_STEP: u64 = 512;
/// Steps between two looks at the clock: some 20 µs. A look costs as much as reading a row of an index.
const UNCHECKED: u64 = 64;

/// Bound on the work on a connection.
pub(crate) enum Bound {
    /// Unbounded.
    None,
    /// Remaining steps.
    Steps(u64),
    /// A deadline, and a token that the caller holds: the work also ends when the caller drops it.
    Until {
        env: Env,
        deadline: Instant,
        asked: Weak<()>,
        /// Steps since the last look at the clock and the caller.
        unchecked: u64,
    },
}

/// Interrupts the work on a connection when it goes beyond a bound.
#[derive(Clone)]
pub(crate) struct Patience(Arc<Mutex<Bound>>);

impl Patience {
    /// Installs the check on a connection, without a bound yet.
    pub(crate) fn watch(conn: &mut Connection) -> rusqlite::Result<Self> {
        let patience = Self(Arc::new(Mutex::new(Bound::None)));
        let watching = patience.clone();
        let look = move || {
            #[cfg(test)]
            super::steps::count();
            lock(&watching.0).is_over(LOOK.unsigned_abs().into())
        };
        conn.progress_handler(LOOK, Some(look))?;
        Ok(patience)
    }

    pub(crate) fn set(&self, bound: Bound) {
        *lock(&self.0) = bound;
    }

    /// Returns the steps that are left; `None` without a bound in steps.
    pub(crate) fn steps_left(&self) -> Option<u64> {
        match &*lock(&self.0) {
            Bound::Steps(left) => Some(*left),
            Bound::None | Bound::Until { .. } => None,
        }
    }

    /// Counts work on `bytes` of content, before it is done. Fails with the interrupt error of SQLite beyond
    /// the bound.
    pub(crate) fn spend_on(&self, bytes: u64) -> DbResult<()> {
        self.spend(bytes / BYTES_PER_STEP)
    }

    /// Counts steps before they are taken. Fails as [`Self::spend_on`] does.
    pub(crate) fn spend(&self, steps: u64) -> DbResult<()> {
        if lock(&self.0).is_over(steps) {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None).into());
        }
        Ok(())
    }
}

impl Bound {
    fn is_over(&mut self, steps: u64) -> bool {
        match self {
            Self::None => false,
            Self::Steps(left) => match left.checked_sub(steps) {
                Some(rest) => {
                    *left = rest;
                    false
                }
                None => true,
            },
            Self::Until { env, deadline, asked, unchecked } => {
                *unchecked = unchecked.saturating_add(steps);
                // No steps: the caller asks whether to go on.
                if steps > 0 && *unchecked < UNCHECKED {
                    return false;
                }
                *unchecked = 0;
                asked.strong_count() == 0 || env.instant() >= *deadline
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn long_work_ends_soon_after_deadline_or_caller() {
        let (env, asking) = (Env::system(), Arc::new(()));
        let until = |deadline: Instant| {
            let (env, asked) = (env.clone(), Arc::downgrade(&asking));
            Bound::Until { env, deadline, asked, unchecked: 0 }
        };
        let rows = |bound: &mut Bound| (1..=UNCHECKED).find(|_| bound.is_over(1));
        let (now, later) = (env.instant(), env.instant() + Duration::from_secs(3600));
        assert!(until(now).is_over(0) && until(now).is_over(UNCHECKED), "at once");
        assert_eq!([now, later].map(|deadline| rows(&mut until(deadline))), [Some(UNCHECKED), None]);
        let mut left = until(later);
        assert_eq!(rows(&mut left), None);
        drop(asking);
        assert_eq!(rows(&mut left), Some(UNCHECKED));
    }
}
