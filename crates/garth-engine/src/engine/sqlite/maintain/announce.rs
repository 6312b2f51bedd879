//! Raises the first commit whose state is readable, as the retention of the account says. From then on new
//! readers of earlier states are refused; the rows are removed later ([`super::fold`]).

use std::time::Duration;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::maintain::holds;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{commit_log, head};
use crate::error::Result;
use crate::model::Timestamp;
use crate::rule::retention::Retention;
use crate::sqlite::DbResult;

/// Least time and number of commits that are removed together without an operator: a pass has fixed costs.
const SLACK: (Duration, u64) = (Duration::from_secs(60), 1000);

impl SqliteFs {
    /// Raises the first readable commit, and returns it. Unless the limits are to be met exactly, it is only
    /// raised once a sixteenth more than they allow is stored.
    pub(super) fn announce(&self, now: Timestamp, exact: bool) -> Result<u64> {
        let fs = self.whole();
        let (before, seen, next) = fs.with_view(|view| {
            let head = head::get(view.conn)?;
            Ok((head.oldest, head.seq, next_oldest(view, now, exact)?))
        })?;
        let Some(oldest) = next else { return Ok(before) };
        self.step(move |conn, _| {
            // The state of an overlay that was created meanwhile would be lost. The next run knows it.
            if !holds::may_have_new_fork(&fs.view_on(conn, None)?, seen)? {
                head::raise_oldest(conn, oldest, now.0)?;
            }
            fs.inner.runtime.failpoints().pass("fold-announce")?;
            Ok(head::get(conn)?.oldest)
        })
    }
}

/// Returns the commit that becomes the first readable one; `None` if that stays the same.
pub(super) fn next_oldest(view: &ReadView<'_>, now: Timestamp, exact: bool) -> DbResult<Option<u64>> {
    let head = head::get(view.conn)?;
    let control = view.control.at(view.conn, head.control)?;
    let allowed = |retention: &Retention| -> DbResult<u64> {
        let until = |time| commit_log::last_until(view.conn, time, head.oldest, head.seq);
        retention.oldest(head.seq, now, None, until)
    };
    if !exact && allowed(&with_slack(&control.retention))? <= head.oldest {
        return Ok(None);
    }
    let mut oldest = allowed(&control.retention)?;
    // Only now: there may be many overlays.
    if oldest > head.oldest
        && let Some((kept, _)) = holds::first_kept(view)?
    {
        oldest = oldest.min(kept);
    }
    Ok(Some(oldest).filter(|oldest| *oldest > head.oldest))
}

/// Returns limits that allow a sixteenth more.
pub(super) fn with_slack(retention: &Retention) -> Retention {
    Retention {
        age: retention.age.map(|age| age.saturating_add((age / 16).max(SLACK.0))),
        commits: retention.commits.map(|commits| commits.saturating_add((commits / 16).max(SLACK.1))),
        ..Retention::default()
    }
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
}
