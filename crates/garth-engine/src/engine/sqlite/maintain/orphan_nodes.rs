//! Removes content that was written to files after they had lost their last name. Only open handles saw it,
//! no version of the tree does. The version that lost the name stays while a readable state of the past shows
//! the node; then the node is removed.

use rusqlite::Connection;

use crate::engine::relational::open_nodes::OpenNodes;
use crate::engine::sqlite::maintain::fold::{RemovedPast, remove_ended};
use crate::engine::sqlite::maintain::step::{Times, Turn};
use crate::engine::sqlite::tables::{MAX, chunk_refs, extents, fold, leases, nodes};
use crate::sqlite::DbResult;

/// Rows fetched or removed at a time.
const PIECE: usize = 256;

/// Place to continue in the next step: a node, and the next of its extents by `till` and offset.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    ino: u64,
    at: (u64, u64),
}

/// Result of a step.
#[derive(Default)]
pub(crate) struct TakeBackStep {
    /// Versions removed.
    pub(crate) versions: u64,
    /// Rows of nodes removed that no readable state shows.
    pub(crate) ended: RemovedPast,
    /// Files that are as they were when they lost their name, which the past shows.
    pub(crate) done: Vec<u64>,
    /// Place to continue; `None` at the end.
    pub(crate) next: Option<Place>,
}

/// Marks the nodes that no process holds open, and takes back those marked for longer than the grace period.
/// `open` are the nodes that this process holds open, also those without a lease.
pub(crate) fn take_back(
    conn: &Connection,
    open: &OpenNodes,
    times: Times,
    from: Place,
    turn: &mut Turn,
) -> DbResult<TakeBackStep> {
    let (mut taken, mut place) = (TakeBackStep::default(), from);
    let reached = fold::reached(conn)?;
    while let Some((ino, doomed_at)) = leases::next_unleased(conn, place.ino)? {
        if place.ino != ino {
            place = Place { ino, at: (0, 0) };
        }
        if doomed_at.is_none() {
            // The grace period begins when a run first finds the node without a lease.
            leases::mark(conn, ino, times.now.0)?;
        }
        // With a grace period of 0 a file that was marked just now is due as well.
        if doomed_at.unwrap_or(times.now.0) <= times.removed_before.0 {
            if !take_back_one(conn, &mut place, turn, &mut taken.versions)? {
                taken.next = Some(place);
                return Ok(taken);
            }
            if nodes::last_unlink(conn, ino)?.is_none_or(|last| last > reached) {
                leases::remove_unnamed(conn, ino)?;
                taken.done.push(ino);
            } else if !open.is_open(ino) {
                if !remove_node(conn, ino, &mut taken.ended, turn)? {
                    taken.next = Some(place);
                    return Ok(taken);
                }
                leases::remove_unnamed(conn, ino)?;
            }
        }
        place = Place { ino: ino + 1, at: (0, 0) };
        if turn.is_over() {
            taken.next = Some(place);
            return Ok(taken);
        }
    }
    Ok(taken)
}

/// Removes a node that no readable state shows. Returns false if the turn ended before.
fn remove_node(conn: &Connection, ino: u64, ended: &mut RemovedPast, turn: &mut Turn) -> DbResult<bool> {
    // The version without a name goes last: until then an interrupted removal is found again.
    while remove_ended(conn, ino, MAX, ended)? {
        if turn.is_over() {
            return Ok(false);
        }
    }
    loop {
        let live = extents::live(conn, ino, PIECE)?;
        if live.is_empty() {
            break;
        }
        ended.remove_extents(conn, ino, &live)?;
        if turn.is_over() {
            return Ok(false);
        }
    }
    ended.versions += nodes::remove(conn, ino)? as u64;
    Ok(true)
}

/// Returns false if the turn ended before everything was taken back. The past shows the same at any such
/// point, and the rows are consistent: first the added extents are removed, then the versions, then the
/// extents that ended meanwhile become live again.
fn take_back_one(
    conn: &Connection,
    place: &mut Place,
    turn: &mut Turn,
    versions: &mut u64,
) -> DbResult<bool> {
    let ino = place.ino;
    // The version that lost the last name.
    let Some(last) = nodes::last_unlink(conn, ino)? else { return Ok(true) };
    loop {
        let extents = extents::since(conn, ino, last, place.at, PIECE)?;
        let Some((till, row)) = extents.last() else { break };
        place.at = (*till, row.off + 1);
        for (till, row) in &extents {
            // Older extents were part of the file when it lost its name.
            if row.since > last {
                extents::remove(conn, ino, (*till, row.off))?;
                chunk_refs::change(conn, row.chunk, -1)?;
            }
        }
        if turn.is_over() {
            return Ok(false);
        }
    }
    // A later step of this node skips the extents, which are done.
    place.at = (MAX, MAX);
    type Step = fn(&Connection, u64, u64, usize) -> DbResult<usize>;
    let steps: [(Step, bool); 3] = [
        // Versions before attributes: a version must not refer to attributes that are removed.
        (nodes::remove_after, true),
        (nodes::remove_attributes_after, false),
        (extents::reopen_after, false),
    ];
    for (step, removes_versions) in steps {
        loop {
            let changed = step(conn, ino, last, PIECE)?;
            *versions += if removes_versions { changed as u64 } else { 0 };
            if changed == 0 {
                break;
            }
            if turn.is_over() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
