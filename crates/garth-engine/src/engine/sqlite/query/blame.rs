//! The commit that wrote each byte of a file. An extent names one commit; for a merged extent, the runs
//! stored with its chunk name several.

use std::ops::Range;

use crate::engine::planner::{ExtentRow, NodeRow};
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{extents, origins};
use crate::model::{At, Blame, ByteRange, Seq};
use crate::sqlite::DbResult;

/// Bytes examined in one query. This and the next two bound the cost of a file with many extents or one long
/// hole.
const WINDOW: u64 = 1 << 20;
/// Most queries of one call.
const WINDOWS: usize = 1024;
/// Extents after which a call ends.
const EXTENTS: usize = 20_000;

impl ReadView<'_> {
    /// Returns the commits of a range of the file at an address.
    pub(crate) fn blame(
        &self,
        node: &NodeRow,
        address: &At,
        range: ByteRange,
        limit: usize,
    ) -> DbResult<Blame> {
        self.check_content(node.ino).map_err(|error| self.about(error, node, address))?;
        let end = range.offset.saturating_add(range.length).min(node.size);
        let (mut at, mut seen, mut blame) = (range.offset, 0, Blame::new());
        for _ in 0..WINDOWS {
            if at >= end || seen >= EXTENTS || blame.runs.len() > limit {
                break;
            }
            let to = end.min(at + WINDOW);
            // Window by window, because the extents of a query are held in memory.
            let extents = match self.as_of {
                None => extents::overlapping(self.conn, node.ino, at, to)?,
                Some(seq) => extents::overlapping_at(self.conn, node.ino, seq, at, to)?,
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

    fn blame_extent(&self, part: &ExtentRow, blame: &mut Blame) -> DbResult<()> {
        let runs = match part.written {
            0 => origins::runs(self.conn, part.chunk, part.skip, part.skip + part.len)?,
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
