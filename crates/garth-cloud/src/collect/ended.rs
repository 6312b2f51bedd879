//! Records whose time has ended: expired entries, leases, results for retries, uploads, and what is known of
//! files under constraints that are gone.

use garth_engine::model::{At, Batch, Op, Precondition};
use garth_engine::path::TreePath;
use garth_engine::{Error, ErrorKind, FileSystem as _, Result};
use tokio_postgres::types::Type;

use super::step::{Progress, Run, Statement, Times};
use crate::client::param;
use crate::control::CONTROL;
use crate::uploads;
use crate::values::columns::{column, int, number};
use crate::values::parameters::list;
use crate::weights::{idempotency_weight, log_more_weight, log_weight};

/// Expired entries recorded in one commit: bounds the time that writers wait for it.
const EXPIRED: i64 = 64;
/// Lease of a finished upload: 24 hours in nanoseconds.
const UPLOAD: i64 = 24 * 3600 * 1_000_000_000;
/// Time for which a finished upload stays, however short the grace period is: a write uploads long content
/// and commits it a little later. 2 minutes in nanoseconds.
const UNUSED: i64 = 120 * 1_000_000_000;
/// Most constraints that are gone whose rows are removed in a step.
const CONSTRAINTS: i64 = 16;

/// Expired nodes, each with its first name: all names of a node expire together.
const DUE: &str = "SELECT n.dir, n.name FROM (SELECT ino FROM garth.expiry
        WHERE account = $1 AND at <= (SELECT garth.now())
        ORDER BY at, ino LIMIT $2) x
    CROSS JOIN LATERAL (SELECT dir, name FROM garth.name
        WHERE account = $1 AND ino = x.ino ORDER BY dir, name LIMIT 1) n";
/// Leases of servers that have vanished.
macro_rules! dead_leases {
    ($table:literal) => {
        concat!(
            "DELETE FROM garth.",
            $table,
            " WHERE account = $1 AND ctid = ANY(ARRAY(SELECT l.ctid FROM garth.",
            $table,
            " l WHERE l.account = $1 AND NOT EXISTS (SELECT FROM garth.instance i
                WHERE i.holder = l.holder AND i.until > $2) LIMIT $3)) RETURNING 1"
        )
    };
}
const NODE_LEASES: &str = dead_leases!("lease");
const PAST_LEASES: &str = dead_leases!("past_lease");
const RECORDS: &str = concat!(
    "DELETE FROM garth.idempotency AS t WHERE account = $1 AND ctid = ANY(ARRAY(
        SELECT ctid FROM garth.idempotency WHERE account = $1 AND keep_until <= $2 ORDER BY keep_until LIMIT $3))
    RETURNING seq, ",
    idempotency_weight!("t"),
    "::bigint"
);
/// Commits that were in the log only for records which are gone: those before the first one that is in the
/// log for its own sake. The removal of the past that is in phase 5 has removed commits up to its place.
const COMMITS: &str = concat!(
    "WITH gone AS (DELETE FROM garth.log AS t WHERE account = $1 AND seq = ANY($2)
            AND seq < coalesce((SELECT at + 1 FROM garth.fold WHERE account = $1 AND phase = 5),
                (SELECT folded FROM garth.head WHERE account = $1))
            AND NOT EXISTS (SELECT FROM garth.idempotency i WHERE i.account = $1 AND i.seq = t.seq)
        RETURNING seq, ",
    log_weight!("t"),
    " AS bytes),
    more AS (DELETE FROM garth.log_more AS t WHERE account = $1 AND seq = ANY(ARRAY(SELECT seq FROM gone)) RETURNING ",
    log_more_weight!("t"),
    " AS bytes)
    SELECT (coalesce((SELECT sum(bytes) FROM gone), 0) + coalesce((SELECT sum(bytes) FROM more), 0))::bigint"
);
/// Constraints with rows that no rule has. From constraint to constraint, because each may have many rows.
const UNKNOWN: &str = "WITH RECURSIVE d(demand) AS (
        (SELECT demand FROM garth.judged WHERE account = $1 ORDER BY demand LIMIT 1)
        UNION ALL SELECT (SELECT demand FROM garth.judged
            WHERE account = $1 AND demand > d.demand ORDER BY demand LIMIT 1) FROM d WHERE d.demand IS NOT NULL)
    SELECT demand FROM d WHERE demand IS NOT NULL AND demand <> ALL($2) LIMIT $3";
const NOT_JUDGED: &str = "DELETE FROM garth.judged WHERE account = $1 AND ctid = ANY(ARRAY(
        SELECT ctid FROM garth.judged WHERE account = $1 AND demand = ANY($2) LIMIT $3)) RETURNING 1";
/// Records the removal of expired entries. Any commit that meets one does so; these commits do nothing else.
///
/// # Errors
/// Errors of the database and of the commits.
pub(super) async fn record_expired(run: &mut Run<'_>) -> Result<()> {
    let mut at_once = EXPIRED;
    loop {
        run.keep_lease().await?;
        let [rows] = run.read([(DUE, vec![param(at_once, Type::INT8)])]).await?;
        let path = |row| Ok::<_, Error>(At::Path(TreePath::from_row(column(row, 0)?, column(row, 1)?)));
        let due = rows.iter().map(path).collect::<Result<Vec<At>>>()?;
        if due.is_empty() {
            return Ok(());
        }
        let ended = u64::try_from(due.len()).unwrap_or(u64::MAX);
        // The check meets the expired entry, which records its removal; then it holds.
        let ops = due.into_iter().map(|at| Op::Check { at, that: Precondition::Absent });
        match run.store.commit(Batch::new(ops).message("expired").even_when_full()).await {
            // The name was written again after it was listed. The next round lists the rest.
            Err(error) if error.is(ErrorKind::Conflict) => {}
            // Entries with very many names. One of them alone is never refused.
            Err(error) if error.is(ErrorKind::TooLarge) && at_once > 1 => at_once = 1,
            Err(error) => return Err(error),
            Ok(_) => run.collected.expired += ended,
        }
    }
}

/// Returns the statements that remove leases of servers which have vanished, and results for retries.
fn ended(times: Times, rows: i64) -> [Statement; 3] {
    let params = || vec![param(times.now.0, Type::INT8), param(rows, Type::INT8)];
    [(NODE_LEASES, params()), (PAST_LEASES, params()), (RECORDS, params())]
}

/// Removes some leases and records whose time has ended.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn forget_records(run: &mut Run<'_>) -> Result<Progress> {
    let rows = run.rows();
    let (mut step, []) = run.step([]).await?;
    let [nodes, pasts, records] = step.query(ended(step.times, rows)).await?;
    if !records.is_empty() {
        let mut freed = 0_u64;
        for record in &records {
            freed = freed.saturating_add(number(record, 1)?);
        }
        let seqs = records.iter().map(|row| column::<i64>(row, 0)).collect::<Result<Vec<_>>>()?;
        let [commits] = step.query([(COMMITS, vec![list(seqs.into_iter(), Type::INT8_ARRAY)])]).await?;
        freed = freed.saturating_add(commits.first().map_or(Ok(0), |row| number(row, 0))?);
        step.frees(freed);
    }
    let most = usize::try_from(rows).unwrap_or(usize::MAX);
    let counts = [nodes.len(), pasts.len(), records.len()];
    if counts.iter().any(|count| *count > 0) {
        step.has_changed();
    }
    run.commit(step).await?;
    Ok(Progress::more_if(counts.iter().any(|count| *count >= most)))
}

/// Removes some rows of constraints that no rule has any more.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn forget_constraints(run: &mut Run<'_>) -> Result<Progress> {
    let (known, rows) = (run.store.control_cache().last(), run.rows());
    let control = (CONTROL, vec![param(int(known.version), Type::INT8)]);
    let (mut step, [control]) = run.step([control]).await?;
    let control = run.store.control_cache().at(&known, step.head.control, &control)?;
    let digests = control.rules.all().map(|rule| rule.digest().to_vec());
    let digests = list(digests, Type::BYTEA_ARRAY);
    let [gone] = step.query([(UNKNOWN, vec![digests, param(CONSTRAINTS, Type::INT8)])]).await?;
    if gone.is_empty() {
        run.commit(step).await?;
        return Ok(Progress::Done);
    }
    let gone = gone.iter().map(|row| column::<Vec<u8>>(row, 0)).collect::<Result<Vec<_>>>()?;
    let params = vec![list(gone.into_iter(), Type::BYTEA_ARRAY), param(rows, Type::INT8)];
    let [_removed] = step.query([(NOT_JUDGED, params)]).await?;
    step.has_changed();
    run.commit(step).await?;
    Ok(Progress::More)
}

/// Returns the latest ends of leases of uploads that are removed: of all, and of finished ones that no commit
/// has used since before the grace period.
pub(super) fn due_uploads(times: Times) -> [i64; 2] {
    let finished = times.removed_before.0.min(times.now.0.saturating_sub(UNUSED));
    [times.now.0, finished.saturating_add(UPLOAD)]
}

/// Removes some of the uploads that are due. Without an operator, finished ones have the time that their
/// clients were told.
///
/// # Errors
/// Errors of the database: a part may be left, to be removed by another call.
pub(super) async fn forget_uploads(run: &mut Run<'_>) -> Result<Progress> {
    run.keep_lease().await?;
    let grace = run.exact.then(|| run.grace().max(UNUSED));
    let removed = uploads::collect(run.store.holds(), grace).await?;
    run.collected.staged += u64::try_from(removed).unwrap_or(u64::MAX);
    Ok(Progress::more_if(removed >= uploads::AT_ONCE))
}
