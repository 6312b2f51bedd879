//! Uploads that no commit will use: given up by their owners, or past the end of their leases.

use std::collections::BTreeMap;
use std::sync::Arc;

use garth_engine::engine::planner::{MAX_EXTENT, Staged};
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use crate::arriving::{LEASE_NANOS, remove};
use crate::client::{Param, param};
use crate::holds::Holds;
use crate::rows::references;
use crate::values::columns::{column, number};
use crate::values::labels;
use crate::values::parameters::ints;

/// Uploads that one call collects.
pub(crate) const AT_ONCE: usize = 100;
/// References that one transaction gives up.
const PIECES: usize = 256;

/// Ends the lease of a finished upload of an owner, unless it was ended before. Returns its size.
const END_LEASE: &str = "UPDATE garth.staged SET lease = 0
    WHERE account = $1 AND id = $2::text::uuid AND pieces IS NOT NULL AND lease > 0
        AND owner = CASE WHEN octet_length($3::bytea) = 0 THEN 0
            ELSE (SELECT id FROM garth.owner WHERE account = $1 AND hash = $3) END
    RETURNING length";
/// A finished upload whose lease has ended.
const ENDED: &str = "SELECT pieces FROM garth.staged
    WHERE account = $1 AND id = $2::text::uuid AND pieces IS NOT NULL AND lease <= garth.now()";
/// Ends uploads that are due: those whose leases have ended, and finished ones whose leases end within `$2`.
const END_DUE: &str = "UPDATE garth.staged s SET lease = 0 WHERE s.account = $1 AND s.id = ANY(ARRAY(
        SELECT d.id FROM garth.staged d WHERE d.account = $1 AND d.lease <= (SELECT garth.now()) + greatest($2, 0)
            AND (d.pieces IS NOT NULL OR d.lease <= garth.now()) ORDER BY d.lease LIMIT $3))
        AND (s.pieces IS NOT NULL OR s.lease <= garth.now())
    RETURNING replace(s.id::text, '-', ''), s.pieces IS NOT NULL";
/// Uploads, as many as one call collects and one more.
const ANY: &str = "SELECT FROM garth.staged WHERE account = $1 LIMIT 101";
/// Removes chunks without a reference.
const UNUSED: &str = "WITH unused AS (DELETE FROM garth.chunk_refs
        WHERE account = $1 AND chunk = ANY($2) AND count = 0 RETURNING chunk),
    origins AS (DELETE FROM garth.origin WHERE account = $1 AND chunk IN (SELECT chunk FROM unused)),
    chunks AS (DELETE FROM garth.chunk c USING unused u
        WHERE c.account = $1 AND c.id = u.chunk AND c.id = ANY($2) RETURNING c.len)
    UPDATE garth.head SET stored = stored - (SELECT coalesce(sum(len), 0)::bigint FROM chunks) WHERE account = $1";
/// From now on the pieces are shorter than the upload.
const SHORTEN: &str =
    "UPDATE garth.staged SET pieces = $3, lease = 0 WHERE account = $1 AND id = $2::text::uuid";
const FORGET: &str = "DELETE FROM garth.staged WHERE account = $1 AND id = $2::text::uuid";

/// Gives up a finished upload of an owner, and removes what nothing else uses. Its room stays taken for an
/// hour, whatever is removed. Runs to its end even if this future is dropped.
///
/// # Errors
/// Errors of the database: the lease may have ended, and a collection removes the upload then.
pub(crate) async fn discard(holds: &Arc<Holds>, owner: &str, id: u128) -> Result<()> {
    let (holds, owner, now) = (Arc::clone(holds), owner.to_owned(), holds.env().now());
    let pool = Arc::clone(holds.pool());
    let done = async move {
        let Some(size) = end_lease(&holds, &owner, id).await? else { return Ok(()) };
        // The number of uploads bounds the bytes of those of one chunk.
        let bytes = if size > MAX_EXTENT as u64 { size } else { 0 };
        holds.uploads.discard(&owner, bytes, now);
        while give_up_some(&holds, id).await? {}
        Ok(())
    };
    pool.run(done).await
}

/// Removes uploads whose leases have ended, and, with `grace`, those that were finished more than as many
/// nanoseconds ago. Returns their number. A call removes at most [`AT_ONCE`], so repeat it until it returns
/// fewer.
///
/// # Errors
/// Errors of the database: a part may be left, to be removed by another call.
pub(crate) async fn collect(holds: &Holds, grace: Option<i64>) -> Result<usize> {
    let conn = holds.pool().connection().await?;
    let mut statements = holds.statements(&conn);
    statements.begin();
    // A commit that uses one of them has locked the account.
    statements.lock();
    // The lease of a finished upload began with its end.
    let (grace, lease) = (grace.unwrap_or(LEASE_NANOS).max(0), LEASE_NANOS);
    let limit = i64::try_from(AT_ONCE).unwrap_or(i64::MAX);
    let params = [lease.saturating_sub(grace), limit].map(|number| param(number, Type::INT8));
    let ended = statements.query(END_DUE, params.into());
    let left = statements.query(ANY, Vec::new());
    statements.commit();
    let answers = statements.run().await;
    let answers = conn.settle(answers).await?;
    for row in answers.rows(ended) {
        let damaged = |e| Error::new(ErrorKind::Corrupt, "the id of an upload is damaged").with_source(e);
        let id = u128::from_str_radix(column(row, 0)?, 16).map_err(damaged)?;
        match column(row, 1)? {
            true => while give_up_some(holds, id).await? {},
            false => remove(holds, id).await?,
        }
    }
    let count = answers.rows(ended).len();
    // Others are due later.
    holds.set_uploads(answers.rows(left).len() > count);
    Ok(count)
}

async fn end_lease(holds: &Holds, owner: &str, id: u128) -> Result<Option<u64>> {
    let conn = holds.pool().connection().await?;
    let mut statements = holds.statements(&conn);
    statements.begin();
    // A commit that uses it has locked the account.
    statements.lock();
    let owner = param(labels::owner(owner), Type::BYTEA);
    let ended = statements.query(END_LEASE, vec![id_of(id), owner]);
    statements.commit();
    let answers = statements.run().await;
    conn.settle(answers).await?.first(ended).map(|row| number(row, 0)).transpose()
}

/// Gives up references of a finished upload whose lease has ended, from its end, and removes chunks without
/// one. Returns true if some are left.
async fn give_up_some(holds: &Holds, id: u128) -> Result<bool> {
    let conn = holds.pool().connection().await?;
    let step = async {
        let mut statements = holds.statements(&conn);
        statements.begin();
        statements.lock();
        let ended = statements.query(ENDED, vec![id_of(id)]);
        let answers = statements.run().await?;
        let pieces =
            answers.first(ended).map(|row| column::<&str>(row, 0)).transpose()?.map(parse).transpose()?;
        let mut statements = holds.statements(&conn);
        let is_left = pieces.is_some_and(|mut pieces| {
            let given_up = pieces.0.split_off(pieces.0.len().saturating_sub(PIECES));
            let mut refs: BTreeMap<u64, i64> = BTreeMap::new();
            given_up.iter().for_each(|(chunk, _)| *refs.entry(*chunk).or_default() -= 1);
            for (sql, params) in references::change(&refs) {
                statements.query(sql, params);
            }
            if !refs.is_empty() {
                statements.query(UNUSED, vec![ints(refs.keys().copied())]);
            }
            match serde_json::to_string(&pieces) {
                Ok(json) if !pieces.0.is_empty() => {
                    statements.query(SHORTEN, vec![id_of(id), param(json, Type::TEXT)]);
                    true
                }
                _ => {
                    statements.query(FORGET, vec![id_of(id)]);
                    false
                }
            }
        });
        statements.commit();
        statements.run().await?;
        Ok(is_left)
    };
    let done = step.await;
    conn.settle(done).await
}

fn id_of(id: u128) -> Param {
    param(labels::uuid(id), Type::TEXT)
}

fn parse(json: &str) -> Result<Staged> {
    let damaged = |e| Error::new(ErrorKind::Corrupt, "a staged body's record is damaged").with_source(e);
    serde_json::from_str(json).map_err(damaged)
}
