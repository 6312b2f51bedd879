//! Steps of SQLite's machine, counted for tests of what calls cost. Steps and not time: they are the same on
//! every run and machine. Every connection of [`Database`](super::Database) is counted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

/// Those of this process.
static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Those of this thread.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Counts one.
pub(super) fn count() {
    ALL.fetch_add(1, Ordering::SeqCst);
    HERE.set(HERE.get() + 1);
}

/// A connection whose steps are counted.
pub(super) fn counted(mut conn: Connection) -> rusqlite::Result<Connection> {
    let look = || {
        count();
        false
    };
    conn.progress_handler(1, Some(look))?;
    Ok(conn)
}

/// What `work` gives, and the steps that it takes on this thread, whatever others do beside it.
pub(crate) fn here<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HERE.get();
    let answer = work();
    (answer, HERE.get() - before)
}

/// The steps that a call takes on all threads of this process once its statements are prepared: the least of
/// a few, since what ends a commit and what a timer does may run beside it. Each is given its number.
pub(crate) fn of_call(call: impl Fn(u32)) -> u64 {
    let took = (1..=4).map(|n| {
        let before = ALL.load(Ordering::SeqCst);
        call(n);
        ALL.load(Ordering::SeqCst) - before
    });
    took.min().expect("four calls")
}

/// Asserts that a cost is the same at both sizes of what is not asked for, but for a step or two.
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
