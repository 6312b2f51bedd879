//! Retention of an account: how it is changed, how far it ends the past, and what an operator sees of that.
//! Engines look up times in their logs, and kinds of entries.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::engine::planner::HeadRow;
use crate::engine::relational::room;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::store::{Hold, RetentionState};
use crate::model::{Kind, Seq, Timestamp};
use crate::path::TreePath;
use crate::rule::PathPattern;
pub use crate::rule::retention::nanoseconds;
use crate::rule::retention::{ContentLimit, ContentLimits, Retention};

/// Least time and number of commits that are removed together without an operator: a pass has fixed costs.
const SLACK: (Duration, u64) = (Duration::from_secs(60), 1000);

/// Returns a content limit from its row: the path class, and the seconds that it keeps content.
///
/// # Errors
/// `Corrupt` for a path class that cannot be read: without its limit, more would be kept than the operator
/// has set.
pub fn content_limit(class: &str, keep: u64) -> Result<ContentLimit> {
    let pattern = PathPattern::parse_stored(class).map_err(|error| {
        let message = format!("the content limit for {class} cannot be read; use the garth that set it");
        Error::new(ErrorKind::Corrupt, message).with_source(error)
    })?;
    Ok(ContentLimit { pattern, keep: Duration::from_secs(keep) })
}

/// Checks a change of the retention `known` to another one. Returns the ages for which the log is searched
/// again, because they end more content than before. `expected` is the retention that the caller has read.
/// `kind_of` returns the kind of the entry at a path.
///
/// # Errors
/// `Conflict` unless the retention is still the expected one; `InvalidArgument` for a new path class that is
/// the path of a directory; errors of `kind_of`.
pub fn check_change<E: From<Error>>(
    known: &Retention,
    expected: Option<&Retention>,
    to: &Retention,
    kind_of: impl Fn(&TreePath) -> Result<Option<Kind>, E>,
) -> Result<BTreeSet<Duration>, E> {
    if expected.is_some_and(|expected| expected.clone().in_order() != *known) {
        let message = "the retention was changed meanwhile; read it again and repeat the change";
        return Err(Error::new(ErrorKind::Conflict, message).into());
    }
    // A class that is set already may stay, also if a directory was created at its path since.
    for class in to.classes_beyond(known) {
        class.refuse_directory(&kind_of)?;
    }
    let before = ContentLimits::new(&known.content);
    Ok(ContentLimits::new(&to.content).stricter_ages(&before))
}

/// Returns limits that allow a sixteenth more.
pub fn with_slack(retention: &Retention) -> Retention {
    Retention {
        age: retention.age.map(|age| age.saturating_add((age / 16).max(SLACK.0))),
        commits: retention.commits.map(|commits| commits.saturating_add((commits / 16).max(SLACK.1))),
        ..Retention::default()
    }
}

/// Returns true if an age of 0 ends a commit of a clock that was ahead. Such a commit gets no slack: that
/// would only end once the clock gets there. `next` returns the time of the commit after the oldest one.
///
/// # Errors
/// Errors of `next`.
pub fn ignores_time<E>(
    head: &HeadRow,
    retention: &Retention,
    now: Timestamp,
    next: impl FnOnce() -> Result<i64, E>,
) -> Result<bool, E> {
    Ok(retention.age.is_some_and(|age| age.is_zero()) && head.oldest < head.seq && next()? > now.0)
}

/// Causes that keep the past of an account, and how far it is gone.
#[derive(Debug)]
pub struct Past {
    /// Head row.
    pub head: HeadRow,
    /// Time of the oldest readable commit.
    pub oldest_time: i64,
    /// First commit that stays readable by the limits alone.
    pub allowed: u64,
    /// First state that a snapshot or an overlay shows.
    pub kept: Option<(u64, Hold)>,
    /// First state that an open view of the past shows.
    pub read: Option<u64>,
    /// Stored bytes of the account.
    pub stored: u64,
}

/// Returns the retention as it was set, and its effect so far. `kind_of` returns the kind of the entry at a
/// path.
///
/// # Errors
/// Errors of `kind_of`.
pub fn state<E>(
    set: Retention,
    past: Past,
    kind_of: impl Fn(&TreePath) -> Result<Option<Kind>, E>,
) -> Result<RetentionState, E> {
    let Past { head, oldest_time, allowed, kept, read, stored } = past;
    let kept = kept.filter(|(seq, _)| *seq < allowed).map(|(_, hold)| hold);
    // A view keeps the rows of its state, not `oldest`.
    let read = read.filter(|seq| *seq < head.oldest).map(|_| Hold::Reader);
    let mut without_file = Vec::new();
    for ContentLimit { pattern, .. } in &set.content {
        if pattern.is_without_file(&kind_of)? {
            without_file.push(pattern.clone());
        }
    }
    Ok(RetentionState {
        full: set.stored.is_some_and(|limit| room::is_full(limit, stored)),
        stored,
        set,
        oldest: Seq(head.oldest),
        oldest_time: (head.oldest > 0).then_some(Timestamp(oldest_time)),
        folded: Seq(head.folded),
        held_by: kept.or(read),
        without_file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_has_a_least_size() {
        let limits = |age, commits| Retention {
            age: Some(Duration::from_secs(age)),
            commits: Some(commits),
            ..Retention::default()
        };
        assert_eq!(with_slack(&limits(0, 0)), limits(60, 1000));
        assert_eq!(with_slack(&limits(1600, 160_000)), limits(1700, 170_000));
        assert_eq!(with_slack(&Retention::default()), Retention::default());
    }

    #[test]
    fn only_new_classes_are_looked_up() {
        let limit = |pattern: &str| content_limit(pattern, 60).unwrap();
        let with = |content| Retention { content, ..Retention::default() };
        let kind_of = |_: &TreePath| Ok::<_, Error>(Some(Kind::Directory));
        let (known, both) = (with(vec![limit("/a")]), with(vec![limit("/a"), limit("/b")]));
        assert_eq!(check_change(&known, Some(&known), &known, kind_of).unwrap(), BTreeSet::new());
        let refused = check_change(&known, None, &both, kind_of).unwrap_err();
        assert!(refused.is(ErrorKind::InvalidArgument), "{refused}");
        let conflict = check_change(&known, Some(&both), &known, kind_of).unwrap_err();
        assert!(conflict.is(ErrorKind::Conflict), "{conflict}");
        let ages = check_change(&known, None, &both, |_| Ok::<_, Error>(None)).unwrap();
        assert_eq!(ages, BTreeSet::from([Duration::from_secs(60)]));
        assert!(content_limit("", 1).unwrap_err().is(ErrorKind::Corrupt));
    }
}
