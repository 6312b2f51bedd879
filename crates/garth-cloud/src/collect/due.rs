//! Time from which a collection of an account is due, and collections without an operator: as `gc`, once
//! something is due, and slowly.

use std::time::Duration;

use garth_engine::Result;
use garth_engine::engine::relational::retention::{nanoseconds, with_slack};
use garth_engine::model::Timestamp;
use garth_engine::rule::retention::ContentLimits;
use tokio_postgres::Row;

use super::announce::{is_ahead, next_oldest, time_of};
use super::limits::Limits;
use super::step::read;

use crate::store::PgStore;
use crate::values::columns::{column, number};

/// Grace period of a collection without an operator. Servers look for marks once a minute.
const GRACE: Duration = Duration::from_secs(600);
/// Commits after the last merge of small extents from which on another one is due.
const UNMERGED: u64 = 4096;
/// Nanoseconds for which ended records of idempotency keys may wait.
const RECORDS: i64 = 3_600_000_000_000;

/// First times of the queues, the removal of the past in progress, and the last search for old content. Of
/// unnamed nodes, the first one that no server has a lease on; without a mark it is due at once.
const QUEUES: &str = "SELECT
    (SELECT at FROM garth.expiry WHERE account = $1 ORDER BY at, ino LIMIT 1),
    (SELECT keep_until FROM garth.idempotency WHERE account = $1 ORDER BY keep_until LIMIT 1),
    EXISTS (SELECT FROM garth.chunk_refs WHERE account = $1 AND count = 0 AND marked IS NULL),
    (SELECT marked FROM garth.chunk_refs
        WHERE account = $1 AND count = 0 AND marked IS NOT NULL ORDER BY marked, chunk LIMIT 1),
    (SELECT lease FROM garth.staged WHERE account = $1 AND pieces IS NOT NULL ORDER BY lease LIMIT 1),
    (SELECT coalesce(u.doomed_at, 0) FROM garth.unnamed u WHERE u.account = $1
        AND NOT EXISTS (SELECT FROM garth.lease l
            JOIN garth.instance i ON i.holder = l.holder AND i.until > garth.now()
            WHERE l.account = $1 AND l.ino = u.ino) ORDER BY u.ino LIMIT 1),
    (SELECT marked FROM garth.content_gone WHERE account = $1 AND marked IS NOT NULL ORDER BY marked LIMIT 1),
    (SELECT searched FROM garth.collecting WHERE account = $1),
    (SELECT phase FROM garth.fold WHERE account = $1),
    (SELECT at FROM garth.fold WHERE account = $1),
    seq - least(merged, seq),
    greatest(folded, (SELECT till FROM garth.fold WHERE account = $1 AND phase > 0))
    FROM garth.head WHERE account = $1";
/// Commits up to which the log was searched for old content, by age in seconds.
const SEARCHED: &str = "SELECT keep, seq FROM garth.content_age WHERE account = $1";

/// Starts the collection that is due, if any. Returns the time from which the next one is due; `None` if only
/// a change can make one due.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn collect_next(store: &PgStore) -> Result<Option<Timestamp>> {
    let store = store.whole();
    let (due, now) = due(&store).await?;
    if due.is_some_and(|due| due <= now)
        && let Some(permit) = store.pool().background()
    {
        let pool = store.pool().clone();
        pool.run_later(async move {
            // Another server may be collecting the account.
            if let Err(error) = super::collect(&store, GRACE, false).await {
                tracing::warn!(%error, "the account could not be collected");
            }
            drop(permit);
        });
    }
    Ok(due)
}

/// Returns the time from which a collection is due, and the time of the database.
async fn due(store: &PgStore) -> Result<(Option<Timestamp>, Timestamp)> {
    let limits = Limits::read(store).await?;
    let [queues, searched] = read(store, [(QUEUES, Vec::new()), (SEARCHED, Vec::new())]).await?;
    let now = limits.now;
    let Some(row) = queues.first() else { return Ok((None, now)) };
    let mut times = of_queues(row, now)?;
    times.push(of_the_past(store, &limits, row).await?);
    times.push(of_content(store, &limits, (row, &searched)).await?);
    Ok((times.into_iter().flatten().min().map(Timestamp), now))
}

fn of_queues(row: &Row, now: Timestamp) -> Result<Vec<Option<i64>>> {
    let time = |at| column::<Option<i64>>(row, at);
    let unnamed = time(5)?.map(|marked| if marked == 0 { now.0 } else { after_grace(marked, now) });
    Ok(vec![
        time(0)?,
        time(1)?.map(|end| end.saturating_add(RECORDS)),
        column::<bool>(row, 2)?.then_some(now.0),
        time(3)?.map(|marked| after_grace(marked, now)),
        time(4)?,
        unnamed,
        (number(row, 10)? >= UNMERGED).then_some(now.0),
    ])
}

/// Returns the end of the grace period that began with a mark. A mark of a clock that was ahead is due: the
/// collection sets it again.
fn after_grace(marked: i64, now: Timestamp) -> i64 {
    if marked > now.0 { now.0 } else { marked.saturating_add(nanoseconds(GRACE)) }
}

/// Returns the time from which a part of the past goes.
async fn of_the_past(store: &PgStore, limits: &Limits, row: &Row) -> Result<Option<i64>> {
    let (head, now) = (&limits.head, limits.now);
    match column::<Option<i64>>(row, 8)? {
        // In the first phase, the removal waits for the grace period.
        Some(0) => return Ok(Some(after_grace(column(row, 9)?, now))),
        Some(_) => return Ok(Some(now.0)),
        None if head.oldest > head.folded => return Ok(Some(now.0)),
        None => {}
    }
    if next_oldest(store, limits, false).await?.is_some() {
        return Ok(Some(now.0));
    }
    let Some(age) = with_slack(&limits.set).age.filter(|_| head.oldest < head.seq) else { return Ok(None) };
    // The commit after the oldest one has to reach that age. If it has, or need not, something else keeps it.
    let next = time_of(store, head.oldest + 1).await?.saturating_add(nanoseconds(age));
    let is_kept = next <= now.0 || is_ahead(store, limits).await?;
    Ok(Some(next).filter(|_| !is_kept))
}

/// Returns the time from which old content goes. Searches for it are far enough apart that a busy account is
/// not collected all the time.
async fn of_content(
    store: &PgStore,
    limits: &Limits,
    (row, searched): (&Row, &[Row]),
) -> Result<Option<i64>> {
    let (head, now) = (&limits.head, limits.now);
    // Some content is in use: an open file keeps what was marked, and an open view of the past what each
    // search then looks for again.
    let last = column::<Option<i64>>(row, 7)?.filter(|at| *at <= now.0).unwrap_or_default();
    let next_run = last.saturating_add(nanoseconds(GRACE));
    let mut first = column::<Option<i64>>(row, 6)?.map(|marked| after_grace(marked, now).max(next_run));
    for age in ContentLimits::new(&limits.set.content).ages() {
        let known = searched.iter().find(|row| number(row, 0).is_ok_and(|keep| keep == age.as_secs()));
        let known = known.map_or(Ok(0), |row| number(row, 1))?;
        // A removal of the past in progress may have taken the commits up to there from the log.
        let from = known.max(number(row, 11)?);
        if from >= head.seq {
            continue;
        }
        let replaced = time_of(store, from + 1).await?;
        let slack = age.saturating_add((age / 16).max(GRACE));
        // An age of 0 does not wait for the time of a commit made while the clock was ahead.
        let next = match age.is_zero() && replaced > now.0 {
            true => next_run,
            false => replaced.saturating_add(nanoseconds(slack)).max(next_run),
        };
        first = Some(first.map_or(next, |first| first.min(next)));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_of_a_clock_that_was_ahead_is_due() {
        let now = Timestamp(1000);
        assert_eq!([900, 1000].map(|marked| after_grace(marked, now)), [600_000_000_900, 600_000_001_000]);
        assert_eq!(after_grace(1001, now), 1000);
    }
}
