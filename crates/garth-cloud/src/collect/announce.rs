//! Raises the first commit whose state is readable, as the retention of the account says. From then on new
//! readers of earlier states are refused; the rows are removed later ([`super::fold`]).

use garth_engine::Result;
use garth_engine::engine::relational::retention::{ignores_time, nanoseconds, with_slack};
use garth_engine::rule::retention::Retention;
use tokio_postgres::types::Type;

use super::limits::Limits;
use super::step::{Run, read};
use super::{kept, overlays};
use crate::client::param;
use crate::store::PgStore;
use crate::values::columns::{column, int, number};

/// Last commit that is not later than a time, up to commit `$3`. Times increase with sequence numbers.
const LAST_UNTIL: &str = "SELECT seq FROM garth.log WHERE account = $1
        AND time <= least($2, (SELECT time FROM garth.log WHERE account = $1 AND seq = $3))
    ORDER BY time DESC LIMIT 1";
const TIME_OF: &str = "SELECT time FROM garth.log WHERE account = $1 AND seq = $2";
const RAISE: &str = "UPDATE garth.head SET oldest = $2, oldest_since = $3 WHERE account = $1 AND oldest < $2";

/// Raises the first readable commit. Unless the limits are to be met exactly, it is only raised once a
/// sixteenth more than they allow is stored.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn announce(run: &mut Run<'_>) -> Result<()> {
    let limits = Limits::read(run.store).await?;
    let next = next_oldest(run.store, &limits, run.exact).await?;
    run.collected.oldest = match next {
        Some(oldest) => raise(run, oldest, &limits).await?,
        None => limits.head.oldest,
    };
    Ok(())
}

/// Raises the first readable commit to one that was chosen by `limits`, unless these or the overlays may have
/// changed. Returns the first readable commit.
async fn raise(run: &mut Run<'_>, oldest: u64, limits: &Limits) -> Result<u64> {
    let (mut step, [changed]) = run.step([overlays::statement()?]).await?;
    // The state of an overlay that was created meanwhile would be lost, or what limits that were set
    // meanwhile keep. The next run knows them.
    let is_same = step.head.control == limits.head.control && overlays::changed(&changed)? <= limits.head.seq;
    let before = step.head.oldest;
    if is_same {
        // The grace period begins now: the collection may have begun long before.
        let now = param(step.times.now.0, Type::INT8);
        step.add(RAISE, vec![param(int(oldest), Type::INT8), now]);
    }
    run.commit(step).await?;
    Ok(if is_same { before.max(oldest) } else { before })
}

/// Returns the commit that becomes the first readable one; `None` if that stays the same.
///
/// # Errors
/// Errors of the database.
pub(super) async fn next_oldest(store: &PgStore, limits: &Limits, exact: bool) -> Result<Option<u64>> {
    let head = &limits.head;
    if !exact
        && allowed(store, limits, &with_slack(&limits.set)).await? <= head.oldest
        && !is_ahead(store, limits).await?
    {
        return Ok(None);
    }
    let mut oldest = allowed(store, limits, &limits.set).await?;
    // Only now: there may be many overlays.
    if oldest > head.oldest
        && let Some((kept, _)) = kept::first_kept(store).await?
    {
        oldest = oldest.min(kept);
    }
    Ok(Some(oldest).filter(|oldest| *oldest > head.oldest))
}

/// Returns the first commit that a retention keeps readable, whatever holds the past.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn allowed(store: &PgStore, limits: &Limits, retention: &Retention) -> Result<u64> {
    let head = &limits.head;
    let mut until = 0;
    if let Some(age) = retention.age.filter(|age| !age.is_zero()) {
        let time = limits.now.0.saturating_sub(nanoseconds(age));
        let params = vec![param(time, Type::INT8), param(int(head.seq), Type::INT8)];
        let [rows] = read(store, [(LAST_UNTIL, params)]).await?;
        let found = rows.first().map(|row| number(row, 0)).transpose()?.unwrap_or(0);
        until = found.clamp(head.oldest.min(head.seq), head.seq);
    }
    retention.oldest(head.seq, limits.now, None, |_| Ok(until))
}

/// Returns true if an age of 0 ends a commit of a clock that was ahead.
pub(super) async fn is_ahead(store: &PgStore, limits: &Limits) -> Result<bool> {
    if limits.set.age.is_none_or(|age| !age.is_zero()) || limits.head.oldest >= limits.head.seq {
        return Ok(false);
    }
    let next = time_of(store, limits.head.oldest + 1).await?;
    ignores_time(&limits.head, &limits.set, limits.now, || Ok(next))
}

/// Returns the time of a commit that must be in the log; 0 for the empty tree.
///
/// # Errors
/// `Corrupt` if the commit is missing; errors of the database.
pub(crate) async fn time_of(store: &PgStore, seq: u64) -> Result<i64> {
    if seq == 0 {
        return Ok(0);
    }
    let [rows] = read(store, [(TIME_OF, vec![param(int(seq), Type::INT8)])]).await?;
    let missing = || garth_engine::Error::damaged("a commit is missing from the log");
    column(rows.first().ok_or_else(missing)?, 0)
}
