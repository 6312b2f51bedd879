//! Where the bytes of a file lie and where its holes do: `SEEK_DATA` and `SEEK_HOLE`.

use rusqlite::params;

use crate::engine::planner::{ExtentRow, NodeRow};
use crate::engine::sqlite::read::rows::{self, extents_sql};
use crate::engine::sqlite::read::view::ReadView;
use crate::sqlite::DbResult;

impl ReadView<'_> {
    /// The first byte of a file at or behind `offset` that lies in no hole.
    pub(crate) fn next_data(&self, node: &NodeRow, offset: u64) -> DbResult<Option<u64>> {
        let mut data = None;
        self.each_extent(node, offset, |extent| {
            data = Some(extent.off.max(offset));
            false
        })?;
        Ok(data)
    }

    /// Where the first hole of a file at or behind `offset` begins; its end counts as one.
    pub(crate) fn next_hole(&self, node: &NodeRow, offset: u64) -> DbResult<u64> {
        let mut hole = offset;
        self.each_extent(node, offset, |extent| {
            let adjacent = extent.off <= hole;
            if adjacent {
                hole = extent.end();
            }
            adjacent
        })?;
        // one that was merged since reaches beyond what was then the end
        Ok(hole.min(node.size))
    }

    /// Passes the extents that lie behind `offset` to `take`, in order, until it has enough. Of now, no more
    /// rows are read than that.
    fn each_extent(
        &self,
        node: &NodeRow,
        offset: u64,
        mut take: impl FnMut(ExtentRow) -> bool,
    ) -> DbResult<()> {
        const NOW: &str = concat!(extents_sql!(now, "off, len"), " ORDER BY off");
        const AS_OF: &str = concat!(extents_sql!(as_of, "off, len"), " ORDER BY off");
        let first = rows::first_overlap(self.conn, node.ino, offset)?;
        let mut statement = self.conn.prepare_cached(if self.as_of.is_none() { NOW } else { AS_OF })?;
        let mut rows = match self.as_of {
            None => statement.query(params![node.ino, first, node.size, offset])?,
            Some(seq) => statement.query(params![node.ino, first, node.size, offset, seq])?,
        };
        while let Some(row) = rows.next()? {
            let extent =
                ExtentRow { off: row.get(0)?, len: row.get(1)?, since: 0, chunk: 0, skip: 0, written: 0 };
            if !take(extent) {
                break;
            }
        }
        Ok(())
    }
}
