//! The part of the check for content: chunks, and the extents that show them.

use garth_engine::Result;
use garth_engine::engine::planner::{MAX_EXTENT, SHORT_SUM, sum_of};
use garth_engine::engine::relational::origin_column;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Check, ROWS, count, rows};
use crate::client::param;
use crate::values::columns::{column, number};

/// Bytes of content after which a piece ends.
const BYTES: i64 = 4 << 20;

/// Chunks up to a number of bytes, but at least one.
const CHUNKS: &str = "SELECT w.id, w.len, w.sum, w.data FROM (
        SELECT c.id, c.len, c.sum, c.data, sum(c.len) OVER (ORDER BY c.id) - c.len AS before
        FROM (SELECT id, len, sum, data FROM garth.chunk
            WHERE account = $1 AND id > $2 ORDER BY id LIMIT $3) c) w
    WHERE w.before < $4 ORDER BY w.id";

/// Columns of an extent `e` with what it must fit: its chunk `c`, the commits that wrote it `o`, the newest
/// version `v` of its node, and the end of the live extent before it.
macro_rules! extent_columns {
    ($before:literal) => {
        concat!(
            "SELECT e.ino, e.till, e.off, e.len, e.since, e.chunk, e.skip, e.older, c.len, o.runs, v.size, ",
            $before
        )
    };
}
/// Rows that an extent `e` must fit.
macro_rules! extent_rows {
    () => {
        " LEFT JOIN LATERAL (SELECT len FROM garth.chunk
            WHERE account = $1 AND id = e.chunk OFFSET 0) c ON true
        LEFT JOIN LATERAL (SELECT runs FROM garth.origin
            WHERE account = $1 AND chunk = e.chunk AND e.older < 0 OFFSET 0) o ON true
        LEFT JOIN LATERAL (SELECT size FROM garth.node
            WHERE account = $1 AND ino = e.ino ORDER BY seq DESC LIMIT 1) v ON true"
    };
}
const EXTENTS: &str = concat!(
    extent_columns!("b.till"),
    " FROM (SELECT ino, 0::bigint AS till, off, len, since, chunk, skip, older FROM garth.extent
        WHERE account = $1 AND (ino, off) > ($2, $3) ORDER BY ino, off LIMIT $4) e",
    extent_rows!(),
    " LEFT JOIN LATERAL (SELECT off + len AS till FROM garth.extent
        WHERE account = $1 AND ino = e.ino AND off < e.off ORDER BY off DESC LIMIT 1) b ON true
    ORDER BY e.ino, e.off"
);
const PAST_EXTENTS: &str = concat!(
    extent_columns!("NULL::bigint"),
    " FROM (SELECT ino, till, off, len, since, chunk, skip, older FROM garth.extent_past
        WHERE account = $1 AND (ino, till, off) > ($2, $3, $4) ORDER BY ino, till, off LIMIT $5) e",
    extent_rows!(),
    " ORDER BY e.ino, e.till, e.off"
);

impl Check<'_> {
    /// Checks that each chunk matches its checksum.
    pub(super) async fn chunks(&mut self) -> Result<()> {
        let mut id = 0;
        loop {
            let params = vec![count(id), rows(ROWS), param(BYTES, Type::INT8)];
            let page = self.piece(CHUNKS, params).await?;
            for row in &page {
                self.chunk(row)?;
            }
            let Some(last) = page.last() else { return Ok(()) };
            id = number(last, 0)?;
        }
    }

    fn chunk(&mut self, row: &Row) -> Result<()> {
        let report = &mut self.report;
        let (id, len, sum) = (number(row, 0)?, number(row, 1)?, column::<&[u8]>(row, 2)?);
        (report.chunks, report.bytes) = (report.chunks + 1, report.bytes.saturating_add(len));
        let what = match column::<Option<&[u8]>>(row, 3)? {
            None => format!("chunk {id}: stored content is missing"),
            Some(data) if data.len() as u64 != len => {
                format!("chunk {id} has {} bytes instead of {len}", data.len())
            }
            Some(data) if sum.is_empty() || sum_of(data, sum.len() > SHORT_SUM) != sum => {
                format!("chunk {id}: stored content does not match its checksum")
            }
            Some(_) => return Ok(()),
        };
        report.add("content", what);
        Ok(())
    }

    /// Checks that each extent lies within its chunk and its file, and that live ones do not overlap.
    pub(super) async fn extents(&mut self) -> Result<()> {
        let (mut ino, mut off) = (0, -1_i64);
        loop {
            let params = vec![count(ino), param(off, Type::INT8), rows(ROWS)];
            let page = self.piece(EXTENTS, params).await?;
            for row in &page {
                self.extent(row)?;
            }
            let Some(last) = page.last() else { break };
            (ino, off) = (number(last, 0)?, column(last, 2)?);
        }
        let (mut ino, mut till, mut off) = (0, 0, 0);
        loop {
            let params = vec![count(ino), count(till), count(off), rows(ROWS)];
            let page = self.piece(PAST_EXTENTS, params).await?;
            for row in &page {
                self.extent(row)?;
            }
            let Some(last) = page.last() else { return Ok(()) };
            (ino, till, off) = (number(last, 0)?, number(last, 1)?, number(last, 2)?);
        }
    }

    fn extent(&mut self, row: &Row) -> Result<()> {
        let report = &mut self.report;
        let (ino, till, off) = (number(row, 0)?, number(row, 1)?, number(row, 2)?);
        let (len, since, skip) = (number(row, 3)?, number(row, 4)?, number(row, 6)?);
        let optional =
            |at| Ok::<_, garth_engine::Error>(column::<Option<i64>>(row, at)?.map(i64::cast_unsigned));
        let Some(chunk) = optional(8)? else {
            let id = number(row, 5)?;
            report.add(
                "missing_content",
                format!("node {ino} needs chunk {id} at byte {off}, which is missing"),
            );
            return Ok(());
        };
        let end = off.saturating_add(len);
        // An extent of the past may reach beyond the current size.
        let is_possible = (1..=MAX_EXTENT as u64).contains(&len)
            && skip.saturating_add(len) <= chunk
            && (till == 0 || till > since)
            && optional(10)?.is_some_and(|size| till > 0 || end <= size);
        if !is_possible {
            report.add("extent", format!("the extent of node {ino} at byte {off} is impossible"));
        }
        let is_merged = column::<i64>(row, 7)? < 0;
        let runs = column::<Option<&[u8]>>(row, 9)?;
        if is_merged && origin_column::runs(runs, skip, skip.saturating_add(len)).is_err() {
            report.add("extent", format!("the commit that wrote node {ino} at byte {off} is unknown"));
        }
        if optional(11)?.is_some_and(|before| before > off) {
            report.add("extent", format!("extents of node {ino} overlap at byte {off}"));
        }
        Ok(())
    }
}
