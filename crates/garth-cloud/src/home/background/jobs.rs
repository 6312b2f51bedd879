//! Jobs of a server in their order: each account has one step at a time, and waits behind the others after
//! it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// First pause of a job without work, or whose step failed. Each further one is twice as long.
const SHORT_REST: Duration = Duration::from_secs(2);
/// Longest pause.
const LONG_REST: Duration = Duration::from_secs(60);

/// Work on an account, in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) account: i64,
    pub(super) kind: Kind,
}

/// Kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Index text that commits have left.
    Index,
    /// Merge the index of words.
    Merge,
    /// Collect what is due.
    Collect,
}

impl Kind {
    /// Returns its name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Merge => "merge",
            Self::Collect => "collect",
        }
    }
}

/// Jobs that wait or have a step under way, and those that rest.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    waiting: VecDeque<Job>,
    /// Waiting jobs, and those with a step under way.
    known: HashSet<Job>,
    /// Accounts with a step under way.
    busy: HashSet<i64>,
    rests: HashMap<Job, Rest>,
}

/// Pause of a job.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Instant,
    time: Duration,
}

impl Jobs {
    /// Adds a job. Returns false if it rests, waits already or has a step under way.
    pub(super) fn add(&mut self, job: Job, now: Instant) -> bool {
        if self.rests.get(&job).is_some_and(|rest| now < rest.until) || !self.known.insert(job) {
            return false;
        }
        self.waiting.push_back(job);
        true
    }

    /// Takes the next job whose account has no step under way.
    pub(super) fn begin(&mut self) -> Option<Job> {
        // At most as many accounts are busy as steps run at once, so few jobs are passed over.
        let at = self.waiting.iter().position(|job| !self.busy.contains(&job.account))?;
        let job = self.waiting.remove(at)?;
        self.busy.insert(job.account);
        Some(job)
    }

    /// Ends a step of a job that has more to do: it waits behind the others.
    pub(super) fn go_on(&mut self, job: Job) {
        self.busy.remove(&job.account);
        self.rests.remove(&job);
        self.waiting.push_back(job);
    }

    /// Ends a job.
    pub(super) fn end(&mut self, job: Job) {
        self.busy.remove(&job.account);
        self.known.remove(&job);
        self.rests.remove(&job);
    }

    /// Ends a job that is not to be added again for a while: the longer, the more often this happens.
    pub(super) fn rest(&mut self, job: Job, now: Instant) {
        let before = self.rests.get(&job).map(|rest| rest.time);
        self.end(job);
        let time = before.map_or(SHORT_REST, |time| (time * 2).min(LONG_REST));
        self.rests.insert(job, Rest { until: now + time, time });
    }

    /// Forgets pauses that are long over.
    pub(super) fn forget_rests(&mut self, now: Instant) {
        self.rests.retain(|_, rest| now < rest.until + LONG_REST);
    }

    /// Returns the number of jobs of some kinds that wait or have a step under way.
    pub(super) fn count(&self, is_counted: impl Fn(Kind) -> bool) -> usize {
        self.known.iter().filter(|job| is_counted(job.kind)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn job(account: i64, kind: Kind) -> Job {
        Job { account, kind }
    }

    #[test]
    fn each_account_has_one_step_at_a_time() {
        let (mut jobs, now) = (Jobs::default(), Instant::now());
        let (slow, merge) = (job(1, Kind::Index), job(1, Kind::Merge));
        for added in [slow, merge, job(2, Kind::Index), job(3, Kind::Collect)] {
            assert!(jobs.add(added, now));
        }
        assert!(!jobs.add(slow, now), "it waits already");
        assert_eq!(jobs.begin(), Some(slow));
        assert!(!jobs.add(slow, now), "its step is under way");
        // Its account is passed over while its step lasts.
        assert_eq!(jobs.begin(), Some(job(2, Kind::Index)));
        assert_eq!(jobs.begin(), Some(job(3, Kind::Collect)));
        assert_eq!(jobs.begin(), None);
        jobs.go_on(slow);
        assert_eq!(jobs.begin(), Some(merge));
        jobs.end(merge);
        assert_eq!(jobs.begin(), Some(slow));
        assert_eq!(jobs.count(|kind| kind == Kind::Index), 2);
    }

    #[test]
    fn job_with_more_work_waits_behind_others() {
        let (mut jobs, now) = (Jobs::default(), Instant::now());
        let (long, other) = (job(1, Kind::Index), job(2, Kind::Index));
        jobs.add(long, now);
        jobs.begin();
        jobs.add(other, now);
        jobs.go_on(long);
        assert_eq!([jobs.begin(), jobs.begin()], [Some(other), Some(long)]);
    }

    #[test]
    fn job_without_work_rests_ever_longer() {
        let (mut jobs, mut now, idle) = (Jobs::default(), Instant::now(), job(1, Kind::Index));
        let mut rests = Vec::new();
        for _ in 0..7 {
            assert!(jobs.add(idle, now));
            jobs.begin();
            jobs.rest(idle, now);
            let begun = now;
            while !jobs.add(idle, now) {
                now += Duration::from_secs(1);
            }
            jobs.begin();
            jobs.busy.clear();
            jobs.known.clear();
            rests.push((now - begun).as_secs());
        }
        assert_eq!(rests, [2, 4, 8, 16, 32, 60, 60]);
        // Work that was found ends the rests.
        jobs.add(idle, now);
        jobs.begin();
        jobs.go_on(idle);
        jobs.begin();
        jobs.rest(idle, now);
        assert!(jobs.add(idle, now + SHORT_REST));
        jobs.end(idle);
        jobs.rest(idle, now);
        jobs.forget_rests(now + SHORT_REST + LONG_REST);
        assert!(jobs.rests.is_empty());
    }
}
