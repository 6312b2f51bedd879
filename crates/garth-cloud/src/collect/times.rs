//! Times of marks and leases that were written while the clock of the database was ahead. They are corrected,
//! so that no grace period and no lease lasts until the clock gets there again. Tables `content_gone` and
//! `fold` have their own corrections, with their steps.

use garth_engine::Result;
use tokio_postgres::types::Type;

use super::step::{Progress, Run};
use crate::client::param;

/// Longest lease, of uploads: 24 hours in nanoseconds. It bounds all times to come.
const LEASE: i64 = 24 * 3600 * 1_000_000_000;

const CHUNKS: &str = "UPDATE garth.chunk_refs SET marked = $2 WHERE account = $1 AND count = 0 AND marked > $2
    AND chunk = ANY(ARRAY(SELECT chunk FROM garth.chunk_refs
        WHERE account = $1 AND count = 0 AND marked IS NOT NULL AND marked > $2 ORDER BY marked LIMIT $3)) RETURNING 1";
const UNNAMED: &str = "UPDATE garth.unnamed SET doomed_at = $2 WHERE account = $1 AND doomed_at > $2
    AND ino = ANY(ARRAY(SELECT ino FROM garth.unnamed WHERE account = $1 AND doomed_at > $2 LIMIT $3)) RETURNING 1";
const UPLOADS: &str = "UPDATE garth.staged SET lease = $2 WHERE account = $1 AND lease > $2
    AND id = ANY(ARRAY(SELECT id FROM garth.staged WHERE account = $1 AND lease > $2 LIMIT $3)) RETURNING 1";

/// Sets some such times to the latest ones that could be written now.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn correct(run: &mut Run<'_>) -> Result<Progress> {
    let rows = run.rows();
    let (mut step, []) = run.step([]).await?;
    let now = step.times.now.0;
    let params = |latest: i64| vec![param(latest, Type::INT8), param(rows, Type::INT8)];
    let corrected = step
        .query([(CHUNKS, params(now)), (UNNAMED, params(now)), (UPLOADS, params(now.saturating_add(LEASE)))])
        .await?;
    let is_any = corrected.iter().any(|rows| !rows.is_empty());
    if is_any {
        step.has_changed();
    }
    run.commit(step).await?;
    Ok(Progress::more_if(is_any))
}
