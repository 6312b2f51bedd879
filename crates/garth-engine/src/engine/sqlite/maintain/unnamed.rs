//! Takes back what was written to files after they had lost their last name. No version of the tree shows it,
//! only open handles did. What the file was when it lost its name stays: the past shows that.

use rusqlite::{Connection, params};

use super::step::{Times, Turn};
use crate::engine::sqlite::read::rows::{self, MAX};
use crate::engine::sqlite::write::refs;
use crate::sqlite::{DbResult, one};

/// Rows fetched or removed at a time.
const PIECE: usize = 256;

/// Where a step goes on: a node, and the extents of it that were looked at, by `till` and offset.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    ino: u64,
    at: (u64, u64),
}

/// What a step did.
#[derive(Default)]
pub(crate) struct TakenBack {
    /// Versions removed.
    pub(crate) versions: u64,
    /// Files that are as they were when they lost their name.
    pub(crate) done: Vec<u64>,
    /// Where the next step goes on; `None` at the end.
    pub(crate) next: Option<Place>,
}

/// Marks the files that nobody holds, and takes back those marked for longer than the grace.
pub(crate) fn take_back(
    conn: &Connection,
    times: Times,
    from: Place,
    turn: &mut Turn,
) -> DbResult<TakenBack> {
    let (mut taken, mut place) = (TakenBack::default(), from);
    let sql = "SELECT ino, doomed_at FROM unnamed
         WHERE ino >= ?1 AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.ino = unnamed.ino) ORDER BY ino LIMIT 1";
    while let Some((ino, doomed_at)) =
        one(conn, sql, [place.ino], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, Option<i64>>(1)?)))?
    {
        if place.ino != ino {
            place = Place { ino, at: (0, 0) };
        }
        if doomed_at.is_none() {
            conn.prepare_cached("UPDATE unnamed SET doomed_at = ?2 WHERE ino = ?1")?
                .execute(params![ino, times.now.0])?;
        }
        if doomed_at.unwrap_or(times.now.0) <= times.gone_before.0 {
            if !take_back_one(conn, &mut place, turn, &mut taken.versions)? {
                taken.next = Some(place);
                return Ok(taken);
            }
            conn.prepare_cached("DELETE FROM unnamed WHERE ino = ?1")?.execute([ino])?;
            taken.done.push(ino);
        }
        place = Place { ino: ino + 1, at: (0, 0) };
        if turn.is_over() {
            taken.next = Some(place);
            return Ok(taken);
        }
    }
    Ok(taken)
}

/// Whether it came to the end. Whatever is left to do, the past shows the same, and the rows fit each other:
/// first what was added goes, then the versions, then the extents that ended meanwhile are live again.
fn take_back_one(
    conn: &Connection,
    place: &mut Place,
    turn: &mut Turn,
    versions: &mut u64,
) -> DbResult<bool> {
    let ino = place.ino;
    let sql = "SELECT min(seq) FROM node WHERE ino = ?1 AND seq >
         coalesce((SELECT seq FROM node WHERE ino = ?1 AND nlink > 0 ORDER BY seq DESC LIMIT 1), -1)";
    let last: Option<Option<u64>> = one(conn, sql, [ino], |row| row.get(0))?;
    // the version that lost the last name
    let Some(last) = last.flatten() else { return Ok(true) };
    loop {
        let extents = rows::extents_since(conn, ino, last, place.at, PIECE)?;
        let Some((till, row)) = extents.last() else { break };
        place.at = (*till, row.off + 1);
        for (till, row) in &extents {
            if row.since > last {
                conn.prepare_cached("DELETE FROM extent WHERE ino = ?1 AND till = ?2 AND off = ?3")?
                    .execute(params![ino, till, row.off])?;
                refs::change(conn, row.chunk, -1)?;
            }
        }
        if turn.is_over() {
            return Ok(false);
        }
    }
    place.at = (MAX, MAX);
    let newest = "DELETE FROM node WHERE ino = ?1 AND seq IN
         (SELECT seq FROM node WHERE ino = ?1 AND seq > ?2 ORDER BY seq DESC LIMIT ?3)";
    let attributes = "DELETE FROM attribute WHERE ino = ?1 AND seq IN
         (SELECT seq FROM attribute WHERE ino = ?1 AND seq > ?2 ORDER BY seq DESC LIMIT ?3)";
    let reopened = "UPDATE extent SET till = 0 WHERE ino = ?1 AND (till, off) IN
         (SELECT till, off FROM extent WHERE ino = ?1 AND till > ?2 LIMIT ?3)";
    for sql in [newest, attributes, reopened] {
        loop {
            let changed = conn.prepare_cached(sql)?.execute(params![ino, last, PIECE])?;
            *versions += if sql == newest { changed as u64 } else { 0 };
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
