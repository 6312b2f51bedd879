//! Waits of commits, alone and beside other work.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::model::Op;
use garth_engine::{Env, FileSystem};

use super::{Broken, Proven, path};

/// Waits of commits.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Vec<Duration>);

impl Waits {
    pub(super) fn add(&mut self, wait: Duration) {
        self.0.push(wait);
    }

    /// Adds the waits of another writer.
    pub(super) fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the wait that this share of the commits did not exceed; 0 without commits.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = (sorted.len() as f64 * share) as usize;
        sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, p999, worst] =
            [0.5, 0.99, 0.999, 1.0].map(|share| self.quantile(share).as_secs_f64() * 1e3);
        let commits = self.count();
        write!(
            f,
            "{commits} commits, p50 {p50:.1} ms, p99 {p99:.1} ms, p99.9 {p999:.1} ms, worst {worst:.1} ms"
        )
    }
}

/// Runs `work` while a thread makes durable commits to `fs`, with `pause` after each. Returns the time that
/// the work took, and the waits of the commits.
pub(super) fn commit_beside(
    fs: &dyn FileSystem,
    pause: Duration,
    work: &mut dyn FnMut() -> Proven<()>,
) -> Proven<(Duration, Waits)> {
    let (env, done) = (Env::system(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let committer = scope.spawn(|| -> Proven<Waits> {
            let mut waits = Waits::default();
            while !done.load(Ordering::Relaxed) {
                let begun = env.instant();
                block_on(fs.commit(Op::append(path("/log")?, "a line of a log\n").into()))?;
                waits.add(env.instant() - begun);
                env.sleep(pause);
            }
            Ok(waits)
        });
        let begun = env.instant();
        let worked = work();
        let took = env.instant() - begun;
        done.store(true, Ordering::Relaxed);
        let waits = committer.join().map_err(|_| Broken::because("the committer panicked"))?;
        worked?;
        Ok((took, waits?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_a_wait_of_the_list() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5), Duration::ZERO);
        (1..=100).rev().for_each(|wait| waits.add(Duration::from_millis(wait)));
        let of = |share| waits.quantile(share).as_millis();
        assert_eq!([of(0.0), of(0.5), of(0.99), of(1.0)], [1, 51, 100, 100]);
    }
}
