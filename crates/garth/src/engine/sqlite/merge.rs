//! Merging: small extents that lie side by side become one, so that a file made of ten thousand appends is read in a few steps.
//! Every version stays byte for byte what it was.
//!
//! Why it may: a version shows the extents that began by then and have not ended, up to its size. The merged extent begins with
//! the first of its run and ends with them all. It so shows more than before only in the versions between the first and the last of the
//! run, and in those only bytes behind their size; a run is cut where that does not hold.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::content::Packs;
use super::fail;
use super::read::{self, MAX, all, one};
use crate::engine::planner::NAMED_FROM;
use crate::error::{ErrorKind, Result};

/// Extents below this many bytes are small; a run of them ends once it has as many.
const SMALL: u64 = NAMED_FROM as u64;
/// Most extents looked at and most bytes merged in one transaction, which holds up the writers.
const STEP_EXTENTS: usize = 4096;
const STEP_BYTES: u64 = 4 << 20;

/// The extent behind which a step goes on: node, `till`, offset.
pub(super) type Place = (u64, u64, u64);

/// What a step did.
pub(super) struct Step {
    /// Extents that are one with the one before them now.
    pub(super) merged: u64,
    /// Where the next step begins; `None` at the end.
    pub(super) next: Option<Place>,
}

/// A small extent that has its chunk for itself.
#[derive(Clone, Copy)]
struct Small {
    ino: u64,
    till: u64,
    off: u64,
    len: u64,
    since: u64,
    chunk: u64,
}

/// Chunks that several extents use, through copies or what is left around a patch. Merging their extents would free nothing.
pub(super) fn shared(conn: &Connection) -> Result<HashSet<u64>> {
    let sql = "SELECT chunk FROM extent GROUP BY chunk HAVING count(*) > 1";
    Ok(all(conn, sql, [], |row| row.get(0))?.into_iter().collect())
}

/// Merges what lies behind `from`, as much as one transaction should.
pub(super) fn step(conn: &Connection, packs: &Packs, shared: &HashSet<u64>, from: Place) -> Result<Step> {
    let (runs, next) = runs(conn, shared, from)?;
    let mut merged = 0;
    for run in runs.iter().filter(|run| run.len() > 1) {
        merged += merge(conn, packs, run)?;
    }
    fail::point("gc-merge")?;
    Ok(Step { merged, next })
}

/// Runs of extents, and where to look for more.
fn runs(conn: &Connection, shared: &HashSet<u64>, from: Place) -> Result<(Vec<Vec<Small>>, Option<Place>)> {
    let mut statement = conn.prepare_cached(
        "SELECT extent.ino, till, off, extent.len, since, chunk FROM extent JOIN chunk ON chunk.id = chunk
         WHERE (extent.ino, till, off) > (?1, ?2, ?3) AND extent.len < ?4 AND skip = 0 AND chunk.len = extent.len
         ORDER BY extent.ino, till, off",
    )?;
    let (ino, till, off) = from;
    let mut rows = statement.query(params![ino, till, off, SMALL])?;
    let (mut runs, mut seen, mut bytes) = (Vec::<Vec<Small>>::new(), 0, 0);
    while let Some(row) = rows.next()? {
        let extent = Small {
            ino: row.get(0)?,
            till: row.get(1)?,
            off: row.get(2)?,
            len: row.get(3)?,
            since: row.get(4)?,
            chunk: row.get(5)?,
        };
        if shared.contains(&extent.chunk) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if follows(conn, run, &extent)? => run.push(extent),
            Some(run) if seen >= STEP_EXTENTS || bytes >= STEP_BYTES => {
                let next = run.last().map(|last| (last.ino, last.till, last.off));
                return Ok((runs, next));
            }
            _ => runs.push(vec![extent]),
        }
        seen += 1;
        bytes += extent.len;
    }
    Ok((runs, None))
}

/// Whether `extent` may be one with the run before it.
fn follows(conn: &Connection, run: &[Small], extent: &Small) -> Result<bool> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(false) };
    let end = last.off + last.len;
    let beside = (last.ino, last.till, end) == (extent.ino, extent.till, extent.off);
    if !beside || end - first.off >= SMALL || extent.since < last.since {
        return Ok(false);
    }
    // the versions before the last of the run were looked at when that was added, for a smaller offset
    let sql = "SELECT max(size) FROM node WHERE ino = ?1 AND seq >= ?2 AND seq < ?3";
    let tallest: Option<Option<u64>> =
        one(conn, sql, params![extent.ino, last.since, extent.since], |row| row.get(0))?;
    Ok(tallest.flatten().is_none_or(|size| size <= extent.off))
}

/// Makes one extent of a run; how many that spares.
fn merge(conn: &Connection, packs: &Packs, run: &[Small]) -> Result<u64> {
    let Some((first, rest)) = run.split_first() else { return Ok(0) };
    // `gc` may take back what was written to a file without a name, extent by extent
    if read::node(conn, first.ino, MAX)?.is_none_or(|node| node.nlink == 0) {
        return Ok(0);
    }
    let mut data = Vec::new();
    for part in run {
        match packs.chunk(conn, part.chunk) {
            Ok(bytes) => data.extend_from_slice(&bytes),
            // damage stays where it is, for `fsck` to find
            Err(error) if error.is(ErrorKind::Corrupt) => return Ok(0),
            Err(error) => return Err(error),
        }
    }
    let chunk = packs.keep_bytes(conn, &data)?;
    conn.prepare_cached("UPDATE extent SET len = ?4, chunk = ?5 WHERE ino = ?1 AND till = ?2 AND off = ?3")?
        .execute(params![first.ino, first.till, first.off, data.len(), chunk])?;
    let mut remove = conn.prepare_cached("DELETE FROM extent WHERE ino = ?1 AND till = ?2 AND off = ?3")?;
    for part in rest {
        remove.execute(params![part.ino, part.till, part.off])?;
    }
    Ok(rest.len() as u64)
}
