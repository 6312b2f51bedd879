//! Room of an account that has a limit on its stored bytes: refuses batches that would exceed it.

use garth_engine::Result;
use garth_engine::engine::planner::{Delta, Rows as _};
use garth_engine::engine::relational::room::{check_room, full_for, growth, index_growth, releases};
use garth_engine::model::Batch;
use tokio_postgres::types::Type;

use super::PgRows;
use crate::client::param;
use crate::rows::spans::{Dirs, dirs};
use crate::rows::writes::Writes;
use crate::values::columns::number;
use crate::values::labels;
use crate::values::parameters::texts;

/// Limit on the uploads whose pieces are added up, and on these pieces.
const COUNTED: i64 = 4096;

/// Number of the names in some ranges of directories, and the bytes of their paths.
const NAMES: &str = "SELECT count(*), coalesce(sum(octet_length(n.dir) + octet_length(n.name)), 0)::bigint
    FROM unnest($2::text[], $3::text[]) k(first, last)
    CROSS JOIN LATERAL (SELECT dir, name FROM garth.name
        WHERE account = $1 AND dir >= k.first AND dir < k.last OFFSET 0) n";
/// Bytes that nothing but finished uploads keeps, apart from some of these. A chunk without a count has one
/// reference, which is that of the upload.
const WAITING: &str = "SELECT coalesce(sum(c.len), 0)::bigint FROM (
        SELECT (p.piece ->> 0)::bigint AS chunk FROM (SELECT pieces FROM garth.staged
            WHERE account = $1 AND pieces IS NOT NULL AND id <> ALL($2::text[]::uuid[]) ORDER BY id LIMIT $3) s
        CROSS JOIN LATERAL json_array_elements(s.pieces::json) p(piece) LIMIT $3) k
    CROSS JOIN LATERAL (SELECT len FROM garth.chunk WHERE account = $1 AND id = k.chunk OFFSET 0) c
    WHERE NOT EXISTS (SELECT FROM garth.chunk_refs r WHERE r.account = $1 AND r.chunk = k.chunk)";

impl PgRows<'_> {
    /// Refuses a batch that the account has no room for. `writes` are those of its group before it. As in
    /// other engines, after planning: the repeat of an earlier commit gets its answer, and conditions that do
    /// not hold are reported first.
    ///
    /// # Errors
    /// Errors of the database. `QuotaExceeded` if there is no room is in the result.
    pub(crate) async fn check_room(
        &mut self,
        (delta, batch): (&Delta, &Batch),
        writes: &mut Writes,
    ) -> Result<Result<()>> {
        let Some(state) = &self.state else { return Ok(Ok(())) };
        let Some(limit) = state.control.stored else { return Ok(Ok(())) };
        if batch.even_when_full || releases(delta, batch) {
            return Ok(Ok(()));
        }
        let used =
            state.stored.saturating_add_signed(writes.stored()).saturating_add(writes.expected_index());
        let moved = self.moved(delta).await?;
        let index = self.index_growth(delta).await?;
        let growth = growth(delta, batch, moved).saturating_add(index);
        if check_room(limit, used, growth).is_err() {
            if delta.staged.is_empty() {
                return Ok(Err(full_for(batch)));
            }
            // Uploads that wait for their commits must not refuse each other: the first commit takes the
            // room.
            let own = texts(delta.staged.iter().map(|(id, _)| labels::uuid(*id)));
            let rows = self.query(WAITING, vec![own, param(COUNTED, Type::INT8)]).await?;
            let waiting = rows.first().map_or(Ok(0), |row| number(row, 0))?;
            if let Err(full) = check_room(limit, used.saturating_sub(waiting), growth) {
                return Ok(Err(full));
            }
        }
        // The index of a group is written after its last member.
        writes.expect_index(index);
        Ok(Ok(()))
    }

    /// Returns the number of names in moved and removed subtrees, which go on in rows of the past, and the
    /// bytes of their paths.
    async fn moved(&mut self, delta: &Delta) -> Result<(u64, u64)> {
        let ranges: Vec<Dirs> =
            delta.subtrees.left().iter().flat_map(|region| dirs(region.ranges())).collect();
        if ranges.is_empty() {
            return Ok((0, 0));
        }
        let params = vec![
            texts(ranges.iter().map(|range| range.0.clone())),
            texts(ranges.iter().map(|range| range.1.clone())),
        ];
        let rows = self.query(NAMES, params).await?;
        rows.first().map_or(Ok((0, 0)), |row| Ok((number(row, 0)?, number(row, 1)?)))
    }

    /// Returns about the bytes that the search index adds. Mostly, the attributes that it asks for are those
    /// that the planner has read.
    async fn index_growth(&mut self, delta: &Delta) -> Result<u64> {
        let growth = index_growth(delta, |ino, seq| self.rows.attributes(ino, seq));
        if !self.rows.missed() {
            return growth;
        }
        self.round().await?;
        index_growth(delta, |ino, seq| self.rows.attributes(ino, seq))
    }
}
