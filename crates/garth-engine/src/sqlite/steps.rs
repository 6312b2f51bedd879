//! Counts steps of the virtual machine of SQLite, for tests of the cost of calls. Steps are the same on every
//! run and machine, unlike time. Every connection of [`Database`](super::Database) is counted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

/// Steps of this process.
static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Steps of this thread.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Counts one step.
pub(super) fn count() {
    ALL.fetch_add(1, Ordering::SeqCst);
    HERE.set(HERE.get() + 1);
}

/// Returns the connection with its steps counted.
pub(super) fn counted(mut conn: Connection) -> rusqlite::Result<Connection> {
    let look = || {
        count();
        // False lets the statement continue.
        false
    };
    conn.progress_handler(1, Some(look))?;
    Ok(conn)
}

/// Returns the result of `work` and its steps on this thread, without those of other threads.
pub(crate) fn here<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HERE.get();
    let answer = work();
    (answer, HERE.get() - before)
}

/// Returns the steps of a call on all threads of this process once its statements are prepared. It is the
/// least of four runs, because the end of a commit or a timer may run at the same time. `call` gets the
/// number of its run.
pub(crate) fn of_call(call: impl Fn(u32)) -> u64 {
    let took = (1..=4).map(|n| {
        let before = ALL.load(Ordering::SeqCst);
        call(n);
        ALL.load(Ordering::SeqCst) - before
    });
    took.min().expect("four calls")
}

/// Asserts that a cost is the same at both sizes, except for a few steps.
#[track_caller]
pub(crate) fn assert_same(sizes: [u64; 2], cost: impl Fn(u64) -> u64) {
    let [small, large] = sizes.map(cost);
    assert!(
        small > 0 && large.abs_diff(small) <= 8,
        "{small} steps at {}, {large} at {}",
        sizes[0],
        sizes[1]
    );
}
