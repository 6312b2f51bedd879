//! Retention of an account's past: limits on the log, on its stored bytes, and on old content by path.
//! Pure: engines look up times in their logs, and remove what these types say.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::PathPattern;
use crate::error::{Advice, Error, Result};
use crate::model::Timestamp;
use crate::path::TreePath;

/// Limit on the path classes of an account: `gc` compares each name of a file with all of them.
pub const MAX_CLASSES: usize = 64;

/// Limit on the names of a file that are compared with the path classes. Content of a file with more names
/// stays with the log.
pub const MAX_JUDGED_NAMES: usize = if cfg!(test) { 10 } else { 1000 };

/// Limit on the durations of a retention: times are nanoseconds in 64 bits.
pub const MAX_AGE: Duration = Duration::from_secs(i64::MAX as u64 / 1_000_000_000);

/// Retention of an account: how much of its past it keeps, and how much it stores. The default keeps
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Age from which commits leave the log, in whole seconds.
    pub age: Option<Duration>,
    /// Number of commits that the log keeps. With both limits, the one that keeps less counts.
    pub commits: Option<u64>,
    /// Limit on the stored bytes of the account.
    pub stored: Option<u64>,
    /// Time that old content is kept, by path class; at most [`MAX_CLASSES`]. In answers, they are in the
    /// order of their patterns.
    pub content: Vec<ContentLimit>,
}

/// Time that old content of the files of a path class is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentLimit {
    /// Path class.
    pub pattern: PathPattern,
    /// Time after the replacement, in whole seconds; 0 keeps no old content.
    pub keep: Duration,
}

/// Time that old content of a node is kept. The order is from strict to generous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// This long after it was replaced.
    For(Duration),
    /// As long as the log has the commits that show it.
    WithLog,
}

impl Retention {
    /// Checks that the limits can be stored and do not contradict each other.
    ///
    /// # Errors
    /// `InvalidArgument` for more than [`MAX_CLASSES`] path classes, two of one pattern, fractions of a
    /// second, times above [`MAX_AGE`], and numbers that are too large.
    pub fn check(&self) -> Result<()> {
        if self.content.len() > MAX_CLASSES {
            let message = format!("an account has content limits for at most {MAX_CLASSES} path classes");
            let advice = "remove one with `garth retention rm PATTERN`";
            return Err(Error::invalid(message).advising(Advice::Command, advice));
        }
        let mut known = HashSet::new();
        for limit in &self.content {
            if !known.insert(limit.pattern.as_str()) {
                let message = format!("there are two content limits for {}", limit.pattern.as_str());
                return Err(Error::invalid(message));
            }
        }
        for time in self.age.into_iter().chain(self.content.iter().map(|limit| limit.keep)) {
            if time.subsec_nanos() != 0 || time > MAX_AGE {
                let message =
                    format!("retention times are whole seconds, at most {} of them", MAX_AGE.as_secs());
                return Err(Error::invalid(message));
            }
        }
        if self.commits.into_iter().chain(self.stored).any(|number| i64::try_from(number).is_err()) {
            return Err(Error::invalid(format!("retention limits are at most {}", i64::MAX)));
        }
        Ok(())
    }

    /// Returns the path classes that `before` has no limit for.
    #[doc(hidden)]
    pub fn classes_beyond<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a PathPattern> {
        let classes = self.content.iter().map(|limit| &limit.pattern);
        classes.filter(move |class| before.content.iter().all(|known| known.pattern != **class))
    }

    /// Returns it with the content limits in the order of their patterns.
    #[doc(hidden)]
    pub fn in_order(mut self) -> Self {
        self.content.sort_unstable_by(|one, other| one.pattern.as_str().cmp(other.pattern.as_str()));
        self
    }

    /// Returns the first commit whose state stays readable, of a log that ends at `head`. `held` is the first
    /// commit that something still needs, such as a snapshot. `last_until` returns the last commit that is
    /// not later than a time.
    ///
    /// # Errors
    /// Errors of `last_until`.
    pub fn oldest<E>(
        &self,
        head: u64,
        now: Timestamp,
        held: Option<u64>,
        last_until: impl FnOnce(i64) -> Result<u64, E>,
    ) -> Result<u64, E> {
        let by_number = self.commits.map_or(0, |commits| head.saturating_sub(commits));
        let by_age = match self.age {
            // The state that was current at that time is readable, so its commit stays.
            Some(age) => last_of_age(age, head, now, last_until)?,
            None => 0,
        };
        Ok(by_number.max(by_age).min(held.unwrap_or(head)).min(head))
    }
}

/// Content limits in force, for the names of nodes.
#[derive(Clone, Debug, Default)]
pub struct ContentLimits(Vec<ContentLimit>);

impl ContentLimits {
    /// Returns the limits of an account.
    pub fn new(own: &[ContentLimit]) -> Self {
        Self(own.to_vec())
    }

    /// Returns how long old content of a node with these names is kept. A name that several classes match has
    /// the strictest of them, a node with several names the most generous of its names. A node without names,
    /// or with more than [`MAX_JUDGED_NAMES`], keeps its content with the log.
    pub fn keep_of<'a>(&self, names: impl IntoIterator<Item = &'a TreePath>) -> Keep {
        let mut keep = None;
        for (judged, name) in names.into_iter().enumerate() {
            if judged == MAX_JUDGED_NAMES {
                return Keep::WithLog;
            }
            keep = keep.max(Some(self.keep_of_name(name)));
        }
        keep.unwrap_or(Keep::WithLog)
    }

    fn keep_of_name(&self, name: &TreePath) -> Keep {
        let classes = self.0.iter().filter(|limit| limit.pattern.has(name));
        classes.map(|limit| Keep::For(limit.keep)).min().unwrap_or(Keep::WithLog)
    }

    /// Returns the times at which the limits end more content than those before did.
    pub fn stricter_ages(&self, before: &Self) -> BTreeSet<Duration> {
        self.0.iter().filter(|limit| !before.0.contains(limit)).map(|limit| limit.keep).collect()
    }

    /// Returns the distinct times of the limits.
    pub fn ages(&self) -> BTreeSet<Duration> {
        self.0.iter().map(|limit| limit.keep).collect()
    }
}

/// Returns the last commit, of a log that ends at `head`, that has reached an age. `last_until` returns the
/// last commit that is not later than a time.
///
/// # Errors
/// Errors of `last_until`.
pub(crate) fn last_of_age<E>(
    age: Duration,
    head: u64,
    now: Timestamp,
    last_until: impl FnOnce(i64) -> Result<u64, E>,
) -> Result<u64, E> {
    // Not by time: commits made while the clock was ahead, and all after them, have times to come.
    if age.is_zero() { Ok(head) } else { last_until(now.0.saturating_sub(nanoseconds(age))) }
}

/// Returns a duration in the unit of [`Timestamp`]. Saturates.
#[doc(hidden)]
pub fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const DAY: Duration = Duration::from_secs(86_400);

    fn limit(pattern: &str, keep: Duration) -> ContentLimit {
        ContentLimit { pattern: PathPattern::parse(pattern).unwrap(), keep }
    }

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    /// Returns the first readable commit of a log of 100 commits, one a second, at second 100.
    fn oldest(retention: &Retention, held: Option<u64>) -> u64 {
        let last_until = |time: i64| Ok::<_, Error>((time / 1_000_000_000).clamp(0, 100) as u64);
        retention.oldest(100, Timestamp(100_000_000_000), held, last_until).unwrap()
    }

    #[test]
    fn limit_that_keeps_less_counts() {
        let of = |age: Option<u64>, commits| {
            let age = age.map(Duration::from_secs);
            oldest(&Retention { age, commits, ..Retention::default() }, None)
        };
        assert_eq!(of(None, None), 0);
        assert_eq!(of(Some(30), None), 70);
        assert_eq!(of(None, Some(20)), 80);
        assert_eq!(of(Some(30), Some(20)), 80);
        assert_eq!(of(Some(10), Some(20)), 90);
        assert_eq!(of(Some(1000), Some(1000)), 0, "longer than the log");
        assert_eq!(of(Some(0), None), 100, "only the newest state");
        assert_eq!(of(None, Some(0)), 100, "only the newest state");
    }

    #[test]
    fn held_commit_stays_readable() {
        let retention = Retention { commits: Some(20), ..Retention::default() };
        assert_eq!(oldest(&retention, Some(50)), 50);
        assert_eq!(oldest(&retention, Some(90)), 80);
        assert_eq!(oldest(&retention, Some(0)), 0);
        assert_eq!(oldest(&Retention::default(), Some(50)), 0, "nothing is removed without a limit");
    }

    #[test]
    fn clock_that_is_set_back_keeps_more() {
        let retention = Retention { age: Some(MAX_AGE), ..Retention::default() };
        let earliest = |time: i64| {
            assert!(time < 0, "{time}");
            Ok::<_, Error>(0)
        };
        assert_eq!(retention.oldest(100, Timestamp(i64::MIN), None, earliest).unwrap(), 0);
        let ahead = Retention { age: Some(Duration::ZERO), ..Retention::default() };
        let beyond = ahead.oldest(5, Timestamp(0), None, |_| Ok::<_, Error>(9));
        assert_eq!(beyond.unwrap(), 5, "never beyond the log");
    }

    #[test]
    fn age_of_zero_ignores_times() {
        let never = |_| Err::<u64, _>(());
        assert_eq!(last_of_age(Duration::ZERO, 7, Timestamp(i64::MIN), never), Ok(7));
        assert_eq!(last_of_age(DAY, 7, Timestamp(0), |time| Ok::<_, ()>(u64::from(time >= 0))), Ok(0));
        let newest = Retention { age: Some(Duration::ZERO), ..Retention::default() };
        assert_eq!(newest.oldest(7, Timestamp(0), None, never), Ok(7));
    }

    #[test]
    fn strictest_class_and_most_generous_name_count() {
        let limits = ContentLimits::new(&[
            limit("/a/**", DAY),
            limit("/a/off/**", Duration::ZERO),
            limit("/b/*", 2 * DAY),
        ]);
        let of = |names: &[&str]| limits.keep_of(&names.iter().map(|name| path(name)).collect::<Vec<_>>());
        assert_eq!(of(&["/a/x"]), Keep::For(DAY));
        assert_eq!(of(&["/a/off/x"]), Keep::For(Duration::ZERO));
        assert_eq!(of(&["/b/x"]), Keep::For(2 * DAY));
        assert_eq!(of(&["/c"]), Keep::WithLog);
        assert_eq!(of(&["/a/off/x", "/a/x"]), Keep::For(DAY));
        assert_eq!(of(&["/a/x", "/c"]), Keep::WithLog);
        assert_eq!(of(&[]), Keep::WithLog);
        assert_eq!(of(&["/a/x"; MAX_JUDGED_NAMES]), Keep::For(DAY));
        assert_eq!(of(&["/a/x"; MAX_JUDGED_NAMES + 1]), Keep::WithLog);
        assert_eq!(limits.ages(), BTreeSet::from([Duration::ZERO, DAY, 2 * DAY]));
    }

    #[test]
    fn ages_with_a_new_class_are_stricter() {
        let before = ContentLimits::new(&[limit("/a", DAY), limit("/b", 2 * DAY)]);
        let after = ContentLimits::new(&[limit("/a", 3 * DAY), limit("/b", 2 * DAY), limit("/c", DAY)]);
        assert_eq!(after.stricter_ages(&before), BTreeSet::from([DAY, 3 * DAY]));
        assert_eq!(ContentLimits::default().stricter_ages(&before), BTreeSet::new());
    }

    #[test]
    fn rejects_limits_that_cannot_be_stored() {
        let second = Duration::from_secs(1);
        let with = |content| Retention { content, ..Retention::default() };
        let most = |n| (0..n).map(|n| limit(&format!("/{n}"), second)).collect::<Vec<_>>();
        let sound = Retention {
            age: Some(MAX_AGE),
            commits: Some(i64::MAX as u64),
            stored: Some(0),
            content: most(MAX_CLASSES),
        };
        sound.check().unwrap();
        Retention::default().check().unwrap();
        let part = Duration::from_millis(1500);
        for wrong in [
            Retention { age: Some(part), ..Retention::default() },
            Retention { age: Some(MAX_AGE + second), ..Retention::default() },
            Retention { commits: Some(1 << 63), ..Retention::default() },
            Retention { stored: Some(u64::MAX), ..Retention::default() },
            with(most(MAX_CLASSES + 1)),
            with(vec![limit("/a", second), limit("a", DAY)]),
            with(vec![limit("/a", part)]),
        ] {
            assert_eq!(wrong.check().unwrap_err().kind(), ErrorKind::InvalidArgument, "{wrong:?}");
        }
        let many = with(most(MAX_CLASSES + 1)).check().unwrap_err();
        assert!(many.message().contains("`garth retention rm PATTERN`"), "{many}");
    }
}
