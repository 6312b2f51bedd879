//! Data and holes of a file: `SEEK_DATA` and `SEEK_HOLE`.

use crate::engine::planner::{ExtentRow, MAX_EXTENT, NodeRow};
use crate::engine::relational::reads::tree_rows::{Read, TreeRows};
use crate::engine::relational::reads::tree_view::TreeView;

/// Bytes of a past file that are examined at first.
const PIECE: u64 = MAX_EXTENT as u64;
/// Factor by which the piece grows after one that is a hole.
const LONGER: u64 = 16;

impl<R: TreeRows> TreeView<'_, R> {
    /// Returns the first byte of a file at or after `offset` that is in no hole.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn next_data(&self, node: &NodeRow, offset: u64) -> Read<R, Option<u64>> {
        let mut data = None;
        self.each_extent(node, offset, |extent| {
            data = extent.map(|extent| extent.off.max(offset));
            data.is_none()
        })?;
        Ok(data)
    }

    /// Returns the start of the first hole of a file at or after `offset`. The end of the file counts as one.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn next_hole(&self, node: &NodeRow, offset: u64) -> Read<R, u64> {
        let mut hole = offset;
        self.each_extent(node, offset, |extent| {
            // Extents follow each other without a gap up to the first hole.
            let adjacent = extent.filter(|extent| extent.off <= hole);
            hole = adjacent.map_or(hole, |extent| extent.end());
            adjacent.is_some()
        })?;
        // An extent that was merged later may reach beyond the end that the file had.
        Ok(hole.min(node.size))
    }

    /// Passes the extents after `offset` to `take`, in order, until it returns false; `None` for a long hole.
    /// For the newest state, no more rows are read than passed. For the past, ended extents are read only
    /// where live ones do not cover a piece of the file.
    fn each_extent(
        &self,
        node: &NodeRow,
        offset: u64,
        mut take: impl FnMut(Option<ExtentRow>) -> bool,
    ) -> Read<R, ()> {
        let Some(seq) = self.as_of else { return self.each_extent_now(node, offset, take) };
        let (mut at, mut piece) = (offset, PIECE);
        while at < node.size {
            let to = node.size.min(at.saturating_add(piece));
            let extents = self.rows.extents_at(node.ino, seq, at, to)?;
            if extents.is_empty() {
                // A long hole is crossed in a few steps.
                piece = piece.saturating_mul(LONGER);
                if !take(None) {
                    return Ok(());
                }
            }
            for extent in extents {
                if !take(Some(extent)) {
                    return Ok(());
                }
            }
            at = to;
        }
        Ok(())
    }

    fn each_extent_now(
        &self,
        node: &NodeRow,
        offset: u64,
        mut take: impl FnMut(Option<ExtentRow>) -> bool,
    ) -> Read<R, ()> {
        let range = (offset, node.size);
        self.rows.each_extent_now(node.ino, range, &mut |extent| take(Some(extent)))
    }
}
