//! Removes chunks that nothing refers to, in two phases: a step marks them, and a step after the grace period
//! removes those that have got no reference since. An upload that waits for its commit has references.

use garth_engine::Result;
use tokio_postgres::types::Type;

use super::step::{Progress, Run};
use crate::client::param;
use crate::values::columns::number;
use crate::values::parameters::ints;

/// Most bytes of the chunks that a step removes: the database deletes about 2 KiB at a time.
const BYTES: u64 = 16 << 20;

const MARK: &str =
    "UPDATE garth.chunk_refs SET marked = $2 WHERE account = $1 AND count = 0 AND marked IS NULL
        AND chunk = ANY(ARRAY(SELECT chunk FROM garth.chunk_refs
            WHERE account = $1 AND count = 0 AND marked IS NULL ORDER BY chunk LIMIT $3))
    RETURNING 1";
/// Chunks that were marked until a time, the ones that wait longest first.
const DUE: &str = "SELECT r.chunk, coalesce(c.len, 0) FROM (SELECT chunk FROM garth.chunk_refs
        WHERE account = $1 AND count = 0 AND marked IS NOT NULL AND marked <= $2 ORDER BY marked, chunk LIMIT $3) r
    LEFT JOIN LATERAL (SELECT len FROM garth.chunk WHERE account = $1 AND id = r.chunk OFFSET 0) c ON true";
const NO_CHUNKS: &str = "DELETE FROM garth.chunk WHERE account = $1 AND id = ANY($2)";
const NO_ORIGINS: &str = "DELETE FROM garth.origin WHERE account = $1 AND chunk = ANY($2)";
const NO_REFERENCES: &str =
    "DELETE FROM garth.chunk_refs WHERE account = $1 AND chunk = ANY($2) AND count = 0";

/// Marks some chunks that nothing refers to.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn mark(run: &mut Run<'_>) -> Result<Progress> {
    let rows = run.rows();
    let (mut step, []) = run.step([]).await?;
    let params = vec![param(step.times.now.0, Type::INT8), param(rows, Type::INT8)];
    let [marked] = step.query([(MARK, params)]).await?;
    if !marked.is_empty() {
        step.has_changed();
    }
    run.commit(step).await?;
    Ok(Progress::more_if(!marked.is_empty()))
}

/// Removes some chunks that were marked before the grace period.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn remove(run: &mut Run<'_>) -> Result<Progress> {
    let rows = run.rows();
    let (mut step, []) = run.step([]).await?;
    let params = vec![param(step.times.removed_before.0, Type::INT8), param(rows, Type::INT8)];
    let [due] = step.query([(DUE, params)]).await?;
    let (mut chunks, mut bytes) = (Vec::new(), 0_u64);
    for row in &due {
        chunks.push(number(row, 0)?);
        bytes = bytes.saturating_add(number(row, 1)?);
        if bytes >= BYTES {
            break;
        }
    }
    if !chunks.is_empty() {
        // The account is locked: no commit refers to one of them meanwhile.
        for sql in [NO_REFERENCES, NO_ORIGINS, NO_CHUNKS] {
            step.add(sql, vec![ints(chunks.iter().copied())]);
        }
        step.frees(bytes);
    }
    run.commit(step).await?;
    run.collected.chunks += u64::try_from(chunks.len()).unwrap_or(u64::MAX);
    run.collected.bytes += bytes;
    Ok(Progress::more_if(!chunks.is_empty()))
}
