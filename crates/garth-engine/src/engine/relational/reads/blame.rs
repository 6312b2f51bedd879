//! The commit that wrote each byte of a file. An extent names one commit; for a merged extent, the runs
//! stored with its chunk name several.

use std::ops::Range;

use crate::engine::planner::ExtentRow;
use crate::engine::relational::origin_column;
use crate::engine::relational::reads::tree_rows::{Read, TreeRows};
use crate::engine::relational::reads::tree_view::{TreeView, check_limit};
use crate::model::{At, Blame, ByteRange, Seq};

/// Bytes examined in one query. This and the next two bound the cost of a file with many extents or one long
/// hole.
const WINDOW: u64 = 1 << 20;
/// Most queries of one call.
const WINDOWS: usize = 1024;
/// Extents after which a call ends.
const EXTENTS: usize = 20_000;
/// Most queries that a run asks for before their rows are fetched: it does not know yet where to end.
const AHEAD: usize = 32;

impl<R: TreeRows> TreeView<'_, R> {
    /// Returns the commits of a range of the file at an address.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit that is no page size; `NotFound`, `IsADirectory` and their like for an
    /// address that leads to no file; `Gone` for content that is no longer stored; errors of the database.
    pub fn blame(&self, address: &At, range: ByteRange, limit: usize) -> Read<R, Blame> {
        check_limit(limit)?;
        let node = &self.at(address)?;
        self.check_file(node, address)?;
        self.check_content(node.ino).map_err(|error| self.about(error, node, address))?;
        let end = range.offset.saturating_add(range.length).min(node.size);
        let (mut at, mut seen, mut blame) = (range.offset, 0, Blame::new());
        let misses = self.rows.misses();
        for _ in 0..WINDOWS {
            let is_ahead = self.rows.misses() - misses >= AHEAD;
            if at >= end || seen >= EXTENTS || blame.runs.len() > limit || is_ahead {
                break;
            }
            let to = end.min(at + WINDOW);
            // Window by window, because the extents of a query are held in memory.
            let extents = match self.as_of {
                None => self.rows.extents_now(node.ino, at, to)?,
                Some(seq) => self.rows.extents_at(node.ino, seq, at, to)?,
            };
            seen += extents.len();
            let mut from = at;
            for extent in extents {
                let part = extent.cut(at, to);
                // A gap before an extent is a hole, which no commit wrote.
                blame.push(ByteRange::from(from..part.off), None);
                self.blame_extent(&part, &mut blame)?;
                from = part.end();
            }
            blame.push(ByteRange::from(from..to), None);
            at = to;
        }
        blame.next = (at < end).then_some(at);
        blame.with_commits(limit, |seq| {
            let commit = self.commit(seq.0)?;
            // A commit from outside of this view shows only number and time.
            Ok(if self.was_outside(node.ino, seq.0)? { commit.unsigned() } else { commit })
        })
    }

    fn blame_extent(&self, part: &ExtentRow, blame: &mut Blame) -> Read<R, ()> {
        let runs = match part.written {
            0 => {
                let misses = self.rows.misses();
                let column = self.rows.origin(part.chunk)?;
                if self.rows.misses() > misses {
                    // Other extents may lead to further rows, which are then fetched with this one.
                    return Ok(());
                }
                origin_column::runs(column.as_deref(), part.skip, part.skip + part.len)?
            }
            commit => vec![(part.len, commit)],
        };
        let mut at = part.off;
        for (len, commit) in runs {
            let range: Range<u64> = at..at + len;
            blame.push(range.into(), Some(Seq(commit)));
            at += len;
        }
        Ok(())
    }
}
