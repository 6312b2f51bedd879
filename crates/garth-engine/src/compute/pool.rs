//! Pool of compute threads, with the share of each account and the bound on waiting work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::tally::Tally;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::Count;
use crate::threads::executor::Executor;
use crate::threads::lock::lock;
use crate::threads::turns::Turns;

/// Limit on the input of one piece of work, 64 MiB: twice the longest body of a request.
pub const MAX_PIECE: usize = 64 << 20;

/// Default limit on the input of all pieces that run or wait, 256 MiB; half of it for one account.
pub const MAX_QUEUED: usize = 256 << 20;

/// Least size that a piece counts as: its future and its reads take about as much.
const LEAST: usize = 16 << 10;

/// Limits on computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeLimits {
    /// Threads. One account uses two of them at most, so several busy accounts leave room for others.
    pub threads: usize,
    /// Limit on the input of all pieces that run or wait, in bytes; half of it for one account. At least
    /// twice [`MAX_PIECE`].
    pub queued: usize,
    /// Limit on the steps of a piece, in bytes of text that it reads.
    pub steps: u64,
}

impl Default for ComputeLimits {
    /// Returns 8 threads, 256 MiB, and 4 GiB of steps, about a minute of computing.
    fn default() -> Self {
        Self { threads: 8, queued: MAX_QUEUED, steps: 4 << 30 }
    }
}

pub(super) struct Pool {
    pub(super) executor: Executor,
    /// Shares of accounts that have work. Entries without work are removed when another account is added.
    accounts: Mutex<HashMap<String, Weak<Share>>>,
    queued: AtomicUsize,
    /// Pieces that were refused because too much was queued.
    pub(super) refused: Count,
    pub(super) tally: Arc<Tally>,
    /// Limit on the input of all pieces, in bytes.
    max_queued: usize,
    /// Limit on the steps of a piece.
    pub(super) max_steps: u64,
}

/// Turns and queued bytes of an account that has work.
#[derive(Default)]
struct Share {
    turns: Arc<Turns>,
    queued: AtomicUsize,
}

/// Bytes reserved for a piece, released when dropped.
pub(super) struct Admitted {
    pool: Arc<Pool>,
    share: Arc<Share>,
    bytes: usize,
}

impl Pool {
    pub(super) fn new(limits: ComputeLimits) -> Self {
        Self {
            executor: Executor::new("garth-compute", limits.threads),
            accounts: Mutex::default(),
            queued: AtomicUsize::new(0),
            refused: Count::default(),
            tally: Arc::default(),
            max_queued: limits.queued.max(2 * MAX_PIECE),
            max_steps: limits.steps,
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    fn share(&self, account: &str) -> Arc<Share> {
        let mut accounts = lock(&self.accounts);
        if let Some(share) = accounts.get(account).and_then(Weak::upgrade) {
            return share;
        }
        // The map grows with accounts, so it is pruned here, where it would grow.
        accounts.retain(|_, share| share.strong_count() > 0);
        let share = Arc::<Share>::default();
        accounts.insert(account.to_owned(), Arc::downgrade(&share));
        share
    }

    /// Reserves room for a piece.
    pub(super) fn admit(self: &Arc<Self>, account: &str, bytes: usize) -> Result<Admitted> {
        if bytes > MAX_PIECE {
            let message = format!("{bytes} bytes exceed the limit of one call; send at most {MAX_PIECE}");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let (bytes, share) = (bytes.max(LEAST), self.share(account));
        let has_room = add_within(&share.queued, bytes, self.max_queued / 2);
        if has_room && add_within(&self.queued, bytes, self.max_queued) {
            return Ok(Admitted { pool: Arc::clone(self), share, bytes });
        }
        // The account had room but the pool has not: take the reservation back.
        if has_room {
            share.queued.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.refused.add(1);
        let message = "too much work is queued; try again once some of it is finished";
        Err(Error::new(ErrorKind::WouldBlock, message))
    }
}

/// Adds `bytes` to a sum unless that exceeds `most`. Returns false if it would.
fn add_within(sum: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let more = |sum: usize| sum.checked_add(bytes).filter(|sum| *sum <= most);
    // Relaxed: the sum protects no other memory.
    sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

impl Admitted {
    pub(super) fn turns(&self) -> &Arc<Turns> {
        &self.share.turns
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.share.queued.fetch_sub(self.bytes, Ordering::Relaxed);
        self.pool.queued.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
