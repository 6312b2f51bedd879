//! Merging: small extents that lie side by side become one, so that a file made of ten thousand appends is
//! read in a few steps. Every version stays byte for byte what it was.
//!
//! Why it may: a version shows the extents that began by then and have not ended, up to its size. The
//! merged extent begins with the first of its run and ends with them all. It so shows more than before only
//! in the versions between the first and the last of the run, and in those only bytes behind their size; a
//! run is cut where that does not hold.

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{ExtentRow, NAMED_FROM, NodeRow};
use crate::engine::sqlite::read::content::Packs;
use crate::engine::sqlite::read::rows::{self, MAX};
use crate::error::ErrorKind;
use crate::runtime::Runtime;
use crate::sqlite::{DbResult, all, one};

/// Extents below this many bytes are small; a run of them ends once it has as many.
const SMALL: u64 = NAMED_FROM as u64;
/// Most extents looked at and most bytes merged in one step.
const STEP_EXTENTS: usize = 65_536;
const STEP_BYTES: u64 = 4 << 20;

/// The extent behind which a step goes on: node, `till`, offset.
pub(crate) type Cursor = (u64, u64, u64);

/// What there is to merge, found without holding up anybody.
pub(crate) struct Found {
    /// Small extents side by side; more than one in each.
    pub(crate) runs: Vec<Vec<Small>>,
    /// The count of copies when the shared chunks were looked for.
    copies: u64,
    /// Where the next step begins; `None` at the end.
    pub(crate) next: Option<Cursor>,
}

/// An extent that has its chunk for itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Small {
    ino: u64,
    till: u64,
    row: ExtentRow,
}

/// Chunks that several extents use, through copies or what is left around a patch. Merging
/// their extents would free nothing.
pub(crate) struct Shared {
    chunks: HashSet<u64>,
    /// The count of copies then: as long as it is the same, no other small chunk has come to be shared.
    copies: u64,
}

/// Looks which chunks are shared.
pub(crate) fn shared(conn: &Connection) -> DbResult<Shared> {
    let sql = "SELECT chunk FROM extent GROUP BY chunk HAVING count(*) > 1";
    let chunks = all(conn, sql, [], |row| row.get(0))?.into_iter().collect();
    Ok(Shared { chunks, copies: rows::head(conn)?.copies })
}

/// Looks for runs behind `from`, as many as one transaction should merge.
pub(crate) fn find(conn: &Connection, shared: &Shared, from: Cursor) -> DbResult<Found> {
    let mut statement = conn.prepare_cached(
        "SELECT ino, till, off, len, since, chunk, skip FROM extent
         WHERE (ino, till, off) > (?1, ?2, ?3) AND len < ?4 ORDER BY ino, till, off",
    )?;
    let (ino, till, off) = from;
    let mut rows = statement.query(params![ino, till, off, SMALL])?;
    let (mut runs, mut seen, mut bytes, mut next) = (Vec::<Vec<Small>>::new(), 0, 0, None);
    while let Some(row) = rows.next()? {
        let small = small(row)?;
        seen += 1;
        if shared.chunks.contains(&small.row.chunk) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if follows(conn, run, &small)? => run.push(small),
            Some(run) if seen >= STEP_EXTENTS || bytes >= STEP_BYTES => {
                next = run.last().map(|last| (last.ino, last.till, last.row.off));
                break;
            }
            _ => runs.push(vec![small]),
        }
        bytes += small.row.len;
    }
    runs.retain(|run| run.len() > 1);
    Ok(Found { runs, copies: shared.copies, next })
}

fn small(row: &Row<'_>) -> rusqlite::Result<Small> {
    let (off, len, since) = (row.get(2)?, row.get(3)?, row.get(4)?);
    let extent = ExtentRow { off, len, since, chunk: row.get(5)?, skip: row.get(6)? };
    Ok(Small { ino: row.get(0)?, till: row.get(1)?, row: extent })
}

/// Whether an extent may be one with the run before it.
fn follows(conn: &Connection, run: &[Small], small: &Small) -> DbResult<bool> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(false) };
    let end = last.row.end();
    let beside = (last.ino, last.till, end) == (small.ino, small.till, small.row.off);
    if !beside || end - first.row.off >= SMALL || small.row.since < last.row.since {
        return Ok(false);
    }
    // the versions before the last of the run were looked at when that was added, for a smaller offset
    let sql = "SELECT max(size) FROM node WHERE ino = ?1 AND seq >= ?2 AND seq < ?3";
    let tallest: Option<Option<u64>> =
        one(conn, sql, params![small.ino, last.row.since, small.row.since], |row| row.get(0))?;
    Ok(tallest.flatten().is_none_or(|size| size <= small.row.off))
}

/// What merging spared: extents, and chunks that went at once, with their bytes.
#[derive(Default)]
pub(crate) struct Merged {
    pub(crate) extents: u64,
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
}

/// Merges what was found, where it is still so. Nothing, if a copy since may have come to
/// share a chunk: `gc` comes again.
pub(crate) fn merge(conn: &Connection, packs: &Packs, runtime: &Runtime, found: &Found) -> DbResult<Merged> {
    let mut merged = Merged::default();
    if rows::head(conn)?.copies == found.copies {
        for run in &found.runs {
            merge_run(conn, packs, run, &mut merged)?;
        }
    }
    runtime.failpoints().pass("gc-merge")?;
    Ok(merged)
}

fn merge_run(conn: &Connection, packs: &Packs, run: &[Small], merged: &mut Merged) -> DbResult<()> {
    let Some((first, rest)) = run.split_first() else { return Ok(()) };
    if may_be_taken_back(conn, first.ino)? {
        return Ok(());
    }
    let sql = "SELECT ino, till, off, len, since, chunk, skip FROM extent WHERE ino = ?1 AND till = ?2 AND off = ?3";
    let mut data = Vec::new();
    for part in run {
        if one(conn, sql, params![part.ino, part.till, part.row.off], small)? != Some(*part) {
            return Ok(());
        }
        let range = part.row.skip as usize..(part.row.skip + part.row.len) as usize;
        match packs.chunk(conn, part.row.chunk) {
            // a chunk that has a name may be used by that name at any time
            Ok(bytes) if bytes.len() as u64 >= SMALL => return Ok(()),
            Ok(bytes) if bytes.len() >= range.end => data.extend_from_slice(&bytes[range]),
            // damage stays where it is, for `fsck` to find
            Ok(_) => return Ok(()),
            Err(error) if error.is(ErrorKind::Corrupt) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    let chunk = packs.keep_bytes(conn, &data)?;
    conn.prepare_cached(
        "UPDATE extent SET len = ?4, chunk = ?5, skip = 0 WHERE ino = ?1 AND till = ?2 AND off = ?3",
    )?
    .execute(params![first.ino, first.till, first.row.off, data.len(), chunk])?;
    for part in rest {
        conn.prepare_cached("DELETE FROM extent WHERE ino = ?1 AND till = ?2 AND off = ?3")?
            .execute(params![part.ino, part.till, part.row.off])?;
    }
    for part in run {
        let sql = "DELETE FROM chunk WHERE id = ?1 RETURNING len";
        merged.bytes += conn.prepare_cached(sql)?.query_row([part.row.chunk], |row| row.get::<_, u64>(0))?;
        merged.chunks += 1;
    }
    merged.extents += rest.len() as u64;
    Ok(())
}

/// Whether a file was written after its last name had gone: `gc` takes that back extent by extent.
fn may_be_taken_back(conn: &Connection, ino: u64) -> DbResult<bool> {
    let Some(node) = rows::node(conn, ino, MAX)? else { return Ok(true) };
    let unnamed = |node: &NodeRow| node.nlink == 0;
    Ok(unnamed(&node) && rows::node(conn, ino, node.seq.saturating_sub(1))?.as_ref().is_some_and(unnamed))
}
