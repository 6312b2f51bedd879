//! Time from which a collection of an account is due.

use std::time::Duration;

use crate::engine::relational::retention::with_slack;
use crate::engine::sqlite::maintain::announce;
use crate::engine::sqlite::maintain::{content_age, shrink};
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::fold::{self, Phase};
use crate::engine::sqlite::tables::{
    chunk_refs, commit_log, content_gone, expiry, head, idempotency, leases, packs, staged, times_ahead,
};
use crate::model::Timestamp;
use crate::rule::retention::nanoseconds;
use crate::sqlite::DbResult;

/// Grace period of a collection without an operator. Processes look for marks once a minute.
pub(super) const GRACE: Duration = Duration::from_secs(600);
/// Commits after the last merge of small extents from which on another one is due.
const UNMERGED: u64 = 4096;
/// Nanoseconds for which ended records of idempotency keys may wait.
const RECORDS: i64 = 3_600_000_000_000;

/// Returns the time from which a collection is due; `None` if only a change can make one due. This process
/// has last searched for old content, and removed what it could, at `searched_at`.
pub(super) fn due(view: &ReadView<'_>, now: Timestamp, searched_at: i64) -> DbResult<Option<Timestamp>> {
    let conn = view.conn;
    let grace = nanoseconds(GRACE);
    let mut times = vec![of_the_past(view, now)?, of_content(view, now, searched_at)?, expiry::first(conn)?];
    times.push(idempotency::first_end(conn)?.map(|end| end.saturating_add(RECORDS)));
    // Also uploads of a process that has ended.
    times.push(staged::first_end(conn)?);
    times.push(chunk_refs::any_unused(conn)?.map(|_| now.0));
    times.push(shrink::is_due(conn)?.then_some(now.0));
    times.push(times_ahead::any(conn, now)?.then_some(now.0));
    let head = head::get(conn)?;
    times.push((head.seq - head::merged(conn)?.min(head.seq) >= UNMERGED).then_some(now.0));
    if packs::any_due(conn, i64::MAX)? {
        let is_due = packs::any_due(conn, now.0.saturating_sub(grace))?;
        times.push(Some(if is_due { now.0 } else { now.0.saturating_add(grace) }));
    }
    if let Some((_, marked)) = leases::next_unleased(conn, 0)? {
        times.push(Some(marked.map_or(now.0, |marked| marked.saturating_add(grace))));
    }
    Ok(times.into_iter().flatten().min().map(Timestamp))
}

/// Returns the end of the grace period that began with a mark. A mark of a clock that was ahead is due: the
/// collection sets it again.
fn after_grace(marked: i64, now: Timestamp) -> i64 {
    if marked > now.0 { now.0 } else { marked.saturating_add(nanoseconds(GRACE)) }
}

/// Returns the time from which old content goes. Searches for it are far enough apart that a busy account is
/// not collected all the time.
fn of_content(view: &ReadView<'_>, now: Timestamp, searched_at: i64) -> DbResult<Option<i64>> {
    let head = head::get(view.conn)?;
    // Some content is in use: an open file keeps what was marked, and an open view of the past what each
    // search then looks for again.
    let last = Some(searched_at).filter(|at| *at <= now.0).unwrap_or_default();
    let next_run = last.saturating_add(nanoseconds(GRACE));
    let mut first = content_gone::first_mark(view.conn)?;
    first = first.map(|marked| after_grace(marked, now).max(next_run));
    for age in view.control.at(view.conn, head.control)?.limits.ages() {
        let searched = content_age::to_search(view, age, now)?.from;
        if searched < head.seq {
            let replaced = commit_log::moment(view.conn, searched + 1)?;
            let slack = age.saturating_add((age / 16).max(GRACE));
            // An age of 0 does not wait for the time of a commit made while the clock was ahead.
            let next = match age.is_zero() && replaced > now.0 {
                true => next_run,
                false => replaced.saturating_add(nanoseconds(slack)).max(next_run),
            };
            first = Some(first.map_or(next, |first| first.min(next)));
        }
    }
    Ok(first)
}

/// Returns the time from which a part of the past goes.
fn of_the_past(view: &ReadView<'_>, now: Timestamp) -> DbResult<Option<i64>> {
    let head = head::get(view.conn)?;
    match fold::get(view.conn)? {
        Some(pass) if pass.phase == Phase::Waiting => {
            return Ok(Some(after_grace(pass.at.cast_signed(), now)));
        }
        Some(_) => return Ok(Some(now.0)),
        None if head.oldest > head.folded => return Ok(Some(now.0)),
        None => {}
    }
    if announce::next_oldest(view, now, false)?.is_some() {
        return Ok(Some(now.0));
    }
    let control = view.control.at(view.conn, head.control)?;
    let Some(age) = with_slack(&control.retention).age.filter(|_| head.oldest < head.seq) else {
        return Ok(None);
    };
    // The commit after the oldest one has to reach that age. If it has, or need not, something else keeps it.
    let next = commit_log::moment(view.conn, head.oldest + 1)?.saturating_add(nanoseconds(age));
    let is_kept = next <= now.0 || announce::ignores_time(view.conn, &head, &control.retention, now)?;
    Ok(Some(next).filter(|_| !is_kept))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::maintain::sample_account::{SampleAccount, at};
    use crate::fs::AccountStore as _;
    use crate::model::Op;
    use crate::rule::retention::Retention;

    #[test]
    fn age_of_zero_ends_commits_of_a_clock_ahead_without_an_operator() {
        let account = SampleAccount::new();
        let (now, next) = (account.now(), || block_on(account.fs.collect_next()).unwrap());
        let in_grace = Some(now.plus_seconds(600));
        account.clock.advance(Duration::from_secs(86_400));
        for text in ["one", "two"] {
            account.commit([Op::write(at("/a"), text)]);
        }
        account.clock.set(now);
        account.retain(Retention { age: Some(Duration::from_secs(1)), ..Retention::default() });
        assert!(next().unwrap() > now.plus_seconds(86_400), "other ages wait for the clock");
        account.retain(Retention { age: Some(Duration::ZERO), ..Retention::default() });
        assert_eq!(next(), Some(now));
        assert_eq!(account.fs.collect_past(GRACE, false).unwrap().oldest, 2);
        assert_eq!(next(), in_grace);
        account.clock.advance(GRACE);
        account.fs.collect_past(GRACE, false).unwrap();
        // What a snapshot holds is not due, whatever the clock says.
        account.commit([Op::snapshot("then")]);
        account.commit([Op::write(at("/a"), "three")]);
        assert_eq!(next(), Some(account.now()));
        assert_eq!(account.fs.collect_past(GRACE, false).unwrap().oldest, 3);
        account.clock.advance(GRACE);
        account.fs.collect_past(GRACE, false).unwrap();
        assert_eq!(next(), None);
    }

    #[test]
    fn mark_of_a_clock_that_was_ahead_is_due() {
        let now = Timestamp(1000);
        assert_eq!([900, 1000].map(|marked| after_grace(marked, now)), [600_000_000_900, 600_000_001_000]);
        assert_eq!(after_grace(1001, now), 1000);
    }
}
