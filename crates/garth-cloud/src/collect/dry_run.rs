//! Report of what a collection would remove. It reads only: nothing is marked, so a grace period that has not
//! begun does not begin.

use std::collections::HashMap;
use std::time::Duration;

use garth_engine::engine::planner::Staged;
use garth_engine::engine::relational::retention::nanoseconds;
use garth_engine::fs::store::Collectable;
use garth_engine::{Error, Result};
use tokio_postgres::types::Type;

use super::announce::next_oldest;
use super::collectable_past::count_past;
use super::ended::due_uploads;
use super::limits::Limits;
use super::step::{Times, read};
use crate::client::param;
use crate::store::PgStore;
use crate::values::columns::{column, number};
use crate::values::parameters::ints;

/// Uploads that are read at a time.
const UPLOADS: i64 = 64;

/// Expired nodes, unnamed nodes without a lease that are due, and chunks without a reference that are due.
/// With a grace period of 0, what is marked at once is due as well.
const COUNTS: &str = "SELECT
    (SELECT count(*) FROM garth.expiry WHERE account = $1 AND at <= $2),
    (SELECT count(*) FROM garth.unnamed u WHERE u.account = $1 AND coalesce(u.doomed_at, $2) <= $3
        AND NOT EXISTS (SELECT FROM garth.lease l JOIN garth.instance i ON i.holder = l.holder AND i.until > $2
            WHERE l.account = $1 AND l.ino = u.ino)),
    (SELECT count(*) FROM garth.unnamed u WHERE u.account = $1 AND u.doomed_at > $3)";
const CHUNKS: &str = "SELECT count(*) FILTER (WHERE coalesce(r.marked, $2) <= $3),
    coalesce(sum(c.len) FILTER (WHERE coalesce(r.marked, $2) <= $3), 0)::bigint,
    coalesce(sum(c.len) FILTER (WHERE r.marked > $3), 0)::bigint
    FROM garth.chunk_refs r JOIN garth.chunk c ON c.account = $1 AND c.id = r.chunk
    WHERE r.account = $1 AND r.count = 0";
const DUE: &str = "SELECT id::text, pieces FROM garth.staged
    WHERE account = $1 AND lease <= greatest($2::bigint, $3::bigint) AND (lease <= $2 OR pieces IS NOT NULL)
        AND id > $4::text::uuid ORDER BY id LIMIT $5";
/// Chunks with the numbers of their references; one without a row has one.
const REFERENCES: &str = "SELECT c.id, coalesce(r.count, 1), c.len FROM garth.chunk c
    LEFT JOIN garth.chunk_refs r ON r.account = $1 AND r.chunk = c.id WHERE c.account = $1 AND c.id = ANY($2)";

/// Returns what a collection with a grace period would remove.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn collectable(store: &PgStore, grace: Duration) -> Result<Collectable> {
    let store = store.whole();
    let limits = Limits::read(&store).await?;
    let times = Times::new(limits.now, nanoseconds(grace));
    let both = || [times.now.0, times.removed_before.0].map(|time| param(time, Type::INT8)).into();
    let [counts, chunks] = read(&store, [(COUNTS, both()), (CHUNKS, both())]).await?;
    let mut report = Collectable::default();
    if let (Some(counts), Some(chunks)) = (counts.first(), chunks.first()) {
        (report.expired, report.unnamed, report.waiting) =
            (number(counts, 0)?, number(counts, 1)?, number(counts, 2)?);
        (report.chunks, report.bytes, report.waiting_bytes) =
            (number(chunks, 0)?, number(chunks, 1)?, number(chunks, 2)?);
    }
    count_uploads(&store, times, &mut report).await?;
    report.oldest = next_oldest(&store, &limits, true).await?.unwrap_or(limits.head.oldest);
    report.folded = report.oldest.saturating_sub(limits.head.folded);
    count_past(&store, &mut report).await?;
    Ok(report)
}

/// Counts the uploads that are due, and the chunks without a reference once those are removed, if these are
/// removed at once.
async fn count_uploads(store: &PgStore, times: Times, report: &mut Collectable) -> Result<()> {
    let mut released: HashMap<u64, u64> = HashMap::new();
    let mut after = "00000000-0000-0000-0000-000000000000".to_owned();
    loop {
        let due = due_uploads(times).map(|time| param(time, Type::INT8));
        let page = [param(after.clone(), Type::TEXT), param(UPLOADS, Type::INT8)];
        let [rows] = read(store, [(DUE, due.into_iter().chain(page).collect())]).await?;
        for row in &rows {
            report.staged += 1;
            if let Some(json) = column::<Option<&str>>(row, 1)? {
                let damaged = |e| Error::damaged("a staged body is damaged").with_source(e);
                let pieces: Staged = serde_json::from_str(json).map_err(damaged)?;
                for (chunk, _) in pieces.0 {
                    *released.entry(chunk).or_default() += 1;
                }
            }
        }
        let Some(last) = rows.last() else { break };
        after = column(last, 0)?;
    }
    if times.removed_before < times.now || released.is_empty() {
        return Ok(());
    }
    let [rows] = read(store, [(REFERENCES, vec![ints(released.keys().copied())])]).await?;
    for row in &rows {
        if released.get(&number(row, 0)?).copied() == Some(number(row, 1)?) {
            report.chunks += 1;
            report.bytes += number(row, 2)?;
        }
    }
    Ok(())
}
