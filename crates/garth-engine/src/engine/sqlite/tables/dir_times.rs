//! Tables `dir_time` and `dir_time_past`: when the names in a directory changed. What only gives a directory
//! the times of a commit is no row of its node but a few bytes in a small table, so that a commit in one of
//! many directories writes few pages; what was before is found by its fork, as past names are.

use rusqlite::{Connection, params};

use crate::engine::planner::NodeRow;
use crate::sqlite::{DbResult, one};

/// A version of a directory that another followed, one of the two made by its times alone.
struct Ended {
    since: u64,
    till: u64,
    time: i64,
}

/// Returns the version after commit `seq` of a directory whose row is the last until then; `forks` are of
/// that commit.
pub(crate) fn with_times(
    conn: &Connection,
    mut node: NodeRow,
    seq: u64,
    forks: impl Iterator<Item = u64>,
) -> DbResult<NodeRow> {
    let times = match newest(conn, node.ino)?.filter(|(since, _)| *since <= seq) {
        Some(newest) => Some(newest),
        None => ended(conn, node.ino, seq, forks)?.map(|it| (it.since, it.time)),
    };
    times.filter(|(since, _)| *since > node.seq).into_iter().for_each(|times| node.touch(times));
    Ok(node)
}

/// Returns the commit that ended a version of a directory, unless both it and what followed are rows of the
/// node; `forks` are of the version's commit, of the first for the tree before it.
pub(crate) fn end_of(
    conn: &Connection,
    version: &NodeRow,
    forks: impl Iterator<Item = u64>,
) -> DbResult<Option<u64>> {
    let ended = ended(conn, version.ino, version.seq.max(1), forks)?;
    Ok(ended.filter(|it| it.since == version.seq).map(|it| it.till))
}

/// Returns the times that a directory got since the newest row of its node: commit and time.
pub(crate) fn newest(conn: &Connection, ino: u64) -> DbResult<Option<(u64, i64)>> {
    one(conn, "SELECT seq, time FROM dir_time WHERE ino = ?1", [ino], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn ended(conn: &Connection, ino: u64, seq: u64, forks: impl Iterator<Item = u64>) -> DbResult<Option<Ended>> {
    let sql = "SELECT since, till, time FROM dir_time_past
         WHERE fork = ?1 AND ino = ?2 AND since <= ?3 AND till > ?3";
    for fork in forks {
        let found = one(conn, sql, params![fork, ino, seq], |row| {
            Ok(Ended { since: row.get(0)?, till: row.get(1)?, time: row.get(2)? })
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Writes the times that a directory gets by commit `seq`.
pub(super) fn put(conn: &Connection, ino: u64, seq: u64, time: i64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO dir_time (ino, seq, time) VALUES (?1, ?2, ?3)")?
        .execute(params![ino, seq, time])?;
    Ok(())
}

/// Removes the times of a directory, which a row of its node replaces.
pub(super) fn remove(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM dir_time WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

/// Keeps the times of a version that has ended.
pub(super) fn put_ended(conn: &Connection, ino: u64, (since, till): (u64, u64), time: i64) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT INTO dir_time_past (fork, ino, since, till, time) VALUES (fork(?2, ?3), ?1, ?2, ?3, ?4)",
    )?
    .execute(params![ino, since, till, time])?;
    Ok(())
}
