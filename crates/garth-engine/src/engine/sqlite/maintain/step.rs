//! Steps of maintenance: each a write transaction of its own, so short that commits hardly wait for it. Long
//! work is divided into as many steps as it takes.

use std::time::Duration;

use futures::executor::block_on;
use rusqlite::Connection;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::control::check_version;
use crate::engine::sqlite::tables::head;
use crate::engine::sqlite::tables::staged::Due;
use crate::env::Env;
use crate::error::Result;
use crate::model::Timestamp;
use crate::sqlite::DbResult;

/// Time that a step works. It holds the writer for at most 50 ms: the rest is for the current row and COMMIT.
const WORK: Duration = Duration::from_millis(20);
/// Most rows of a step, for clocks that stand still or are set back.
const ROWS: usize = 4096;
/// Longest pause after a step in the background. A pause is three times as long as its step, so that a
/// quarter of the writer's time goes to such steps at most.
const PAUSE: Duration = Duration::from_millis(150);
/// Time for which a finished upload stays, however short the grace period is: a write uploads long content
/// and commits it a little later.
const UNUSED: i64 = 2 * 60;

/// The times of a garbage collection.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) now: Timestamp,
    /// Items that were marked until then are removed.
    pub(crate) removed_before: Timestamp,
}

impl Times {
    pub(crate) fn new(now: Timestamp, grace: Duration) -> Self {
        let grace = i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX);
        Self { now, removed_before: Timestamp(now.0.saturating_sub(grace)) }
    }

    /// Returns the times of a later step, with the same grace period.
    pub(crate) fn at(self, now: Timestamp) -> Self {
        let grace = self.now.0.saturating_sub(self.removed_before.0);
        Self { now, removed_before: Timestamp(now.0.saturating_sub(grace)) }
    }

    /// Returns the uploads that are removed: those whose leases have ended, and those that no commit has used
    /// since before the grace period.
    pub(crate) fn uploads(self) -> Due {
        Due::leases(self.now).and_finished_until(self.removed_before.min(self.now.plus_seconds(-UNUSED)))
    }
}

/// Time budget of a step, during which it holds the writer.
pub(crate) struct Turn {
    env: Env,
    until: Timestamp,
    rows: usize,
}

impl Turn {
    pub(crate) fn begin(env: &Env) -> Self {
        let until = Timestamp(env.now().0.saturating_add(i64::try_from(WORK.as_nanos()).unwrap_or(i64::MAX)));
        Self { env: env.clone(), until, rows: ROWS }
    }

    /// Counts a row of work. Returns true if the step has to end.
    pub(crate) fn is_over(&mut self) -> bool {
        self.rows = self.rows.saturating_sub(1);
        self.rows == 0 || self.env.now() >= self.until
    }
}

impl SqliteFs {
    /// Runs one step of maintenance, and returns once it is committed, though perhaps not durable. The
    /// permits limit concurrent steps of all accounts, so that threads are left for commits. Row changes
    /// count up `head.epoch`, because they are no commits. Blocks.
    pub(crate) fn step<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &mut Turn) -> DbResult<T> + Send + 'static,
    ) -> Result<T> {
        // Acquired before the step is queued, so that waiting steps take no thread of the writers.
        let permit = self.inner.runtime.maintenance().acquire();
        let (env, registry) = (self.inner.runtime.env().clone(), self.inner.control.registry().clone());
        let begun = env.instant();
        let outcome = block_on(self.inner.writer.transact(false, move |conn| {
            // Another process may have registered a newer set of projections.
            check_version(head::get(conn)?.projections, &registry)?;
            let before = conn.total_changes();
            let value = work(conn, &mut Turn::begin(&env))?;
            // Caches that are valid for a head compare the epoch as well. A step that found nothing to do
            // must not empty them.
            if conn.total_changes() > before {
                head::next_epoch(conn)?;
            }
            Ok(value)
        }));
        drop(permit);
        if self.is_slow {
            let env = self.inner.runtime.env();
            env.sleep((env.instant().duration_since(begun) * 3).min(PAUSE));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;
    use crate::env::ManualClock;
    use crate::fs::FileSystem;
    use crate::model::{At, Batch, Op};
    use crate::path::TreePath;
    use crate::runtime::{Limits, Runtime};

    fn turn() -> (Turn, ManualClock) {
        let (env, clock) = Env::manual(Timestamp(0));
        (Turn::begin(&env), clock)
    }

    #[test]
    fn later_times_have_the_same_grace_period() {
        let times = Times::new(Timestamp(100), Duration::from_nanos(30)).at(Timestamp(150));
        assert_eq!((times.now, times.removed_before), (Timestamp(150), Timestamp(120)));
    }

    #[test]
    fn turn_ends_by_clock_or_rows() {
        let (mut turn, clock) = turn();
        assert!(!turn.is_over());
        clock.advance(WORK);
        assert!(turn.is_over());
        let (mut turn, _clock) = self::turn();
        assert_eq!((1..).find(|_| turn.is_over()), Some(ROWS));
    }

    #[test]
    fn maintenance_leaves_threads_for_commits() {
        let limits = Limits { writer_threads: 2, ..Limits::default() };
        let runtime = Runtime::with_limits(Env::system(), limits);
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            SqliteFs::open_on(&folder, &runtime, crate::rule::sample::registry()).unwrap()
        };
        let other = open("other");
        let begun = Arc::new(Barrier::new(2));
        let (go_on, told) = mpsc::channel::<()>();
        let told = Arc::new(std::sync::Mutex::new(told));
        // As many steps as there are threads. The second waits for the first, which waits for the commit.
        let long: Vec<_> = ["one", "two"]
            .map(|name| {
                let (fs, begun, told) = (open(name), Arc::clone(&begun), Arc::clone(&told));
                std::thread::spawn(move || {
                    fs.step(move |_, _| {
                        begun.wait();
                        told.lock().unwrap().recv().unwrap();
                        Ok(())
                    })
                })
            })
            .into();
        begun.wait();
        let path = At::Path(TreePath::parse("/a").unwrap());
        block_on(other.commit(Batch::new([Op::write(path, "x")]))).unwrap();
        go_on.send(()).unwrap();
        begun.wait();
        go_on.send(()).unwrap();
        for thread in long {
            thread.join().unwrap().unwrap();
        }
    }

    #[test]
    fn changing_rows_without_commit_increments_epoch() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let epoch = || fs.with_view(|view| head::epoch(view.conn)).unwrap();
        let path = |path: &str| At::Path(TreePath::parse(path).unwrap());
        for op in [Op::append(path("/a"), "one"), Op::append(path("/a"), "two")] {
            block_on(fs.commit(Batch::new([op]))).unwrap();
        }
        assert_eq!(epoch(), 0);
        assert_eq!(fs.collect(Duration::ZERO).unwrap().merged, 1);
        let merged = epoch();
        assert!(merged > 0);
        fs.collect(Duration::ZERO).unwrap();
        assert_eq!(epoch(), merged, "nothing was collected");
    }
}
