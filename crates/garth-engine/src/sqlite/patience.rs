//! How long a read may take: so many steps on its caller's thread, so long elsewhere. SQLite asks every few
//! hundred instructions of its virtual machine; what reads bytes says so itself.

use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use rusqlite::{Connection, ffi};

use super::error::DbResult;
use crate::env::Env;
use crate::threads::lock::lock;

/// Instructions between two looks: about 50 µs. Tests count each.
const LOOK: i32 = if cfg!(test) { 1 } else { 500 };
/// Steps on the thread of the caller, which may have others to serve: about 0.4 ms. A list of 100 names takes
/// 1,500, and going to another thread and back costs as much as 200.
pub(crate) const SHORT: u64 = 4000;
/// Steps of looking a small file up and reading it.
pub(crate) const FILE: u64 = 90;
/// Bytes of content that count as a step: checked and copied, 1 MiB takes some 200 µs, as 2,000 steps do.
pub(crate) const BYTES_PER_STEP: u64 = 512;

/// What bounds the work on a connection.
pub(crate) enum Bound {
    /// Nothing.
    None,
    /// This many steps.
    Steps(u64),
    /// A moment, and that anybody still waits for the answer.
    Until { env: Env, deadline: Instant, asked: Weak<()> },
}

/// Interrupts the work on a connection when it goes beyond a bound.
#[derive(Clone)]
pub(crate) struct Patience(Arc<Mutex<Bound>>);

impl Patience {
    /// Watches over a connection, without a bound yet.
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

    /// Counts work on so many bytes of content, before it is done.
    pub(crate) fn spend_on(&self, bytes: u64) -> DbResult<()> {
        if lock(&self.0).is_over(bytes / BYTES_PER_STEP) {
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
            Self::Until { env, deadline, asked } => asked.strong_count() == 0 || env.instant() >= *deadline,
        }
    }
}
