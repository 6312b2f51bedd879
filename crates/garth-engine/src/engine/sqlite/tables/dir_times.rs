//! Tables `dir_time` and `dir_time_past`: the times at which names in a directory changed. A commit that
//! changes only the times of a directory writes no row of `node` but a few bytes in a small table, so that
//! commits in many directories write few pages. The rows that are replaced are found by their fork, as past
//! names are.

use rusqlite::{Connection, params};

use crate::engine::planner::{EndedTimes, NodeRow};
use crate::sqlite::{DbResult, all, one};

/// Returns the version of a directory after commit `seq`. `node` is its last row of `node` until then,
/// `forks` are those of `seq`.
pub(crate) fn with_times(
    conn: &Connection,
    mut node: NodeRow,
    seq: u64,
    forks: impl Iterator<Item = u64>,
) -> DbResult<NodeRow> {
    // The newest times may be from after `seq`: then a version that has ended has those of `seq`.
    let times = match newest(conn, node.ino)?.filter(|(since, _)| *since <= seq) {
        Some(newest) => Some(newest),
        None => ended(conn, node.ino, seq, forks)?.map(|it| (it.since, it.time)),
    };
    // A row of `node` that is newer has its own times.
    times.filter(|(since, _)| *since > node.seq).into_iter().for_each(|times| node.touch(times));
    Ok(node)
}

/// Returns the commit that ended a version of a directory; `None` if this version and the next are both rows
/// of `node`. `forks` are those of the commit of the version, or of commit 1 for a version of the empty tree.
pub(crate) fn end_of(
    conn: &Connection,
    version: &NodeRow,
    forks: impl Iterator<Item = u64>,
) -> DbResult<Option<u64>> {
    let ended = ended(conn, version.ino, version.seq.max(1), forks)?;
    Ok(ended.filter(|it| it.since == version.seq).map(|it| it.till))
}

/// Returns the commit and time of the times that a directory got after its newest row of `node`.
fn newest(conn: &Connection, ino: u64) -> DbResult<Option<(u64, i64)>> {
    one(conn, "SELECT seq, time FROM dir_time WHERE ino = ?1", [ino], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn ended(
    conn: &Connection,
    ino: u64,
    seq: u64,
    forks: impl Iterator<Item = u64>,
) -> DbResult<Option<EndedTimes>> {
    let sql = "SELECT since, till, time FROM dir_time_past
         WHERE fork = ?1 AND ino = ?2 AND since <= ?3 AND till > ?3";
    for fork in forks {
        let found = one(conn, sql, params![fork, ino, seq], |row| {
            Ok(EndedTimes { since: row.get(0)?, till: row.get(1)?, time: row.get(2)? })
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns at most `limit` keys (fork and inode) of versions that ended at or before commit `seq`, in order,
/// after one of them.
pub(crate) fn ended_until(
    conn: &Connection,
    seq: u64,
    after: &(u64, u64),
    limit: usize,
) -> DbResult<Vec<(u64, u64)>> {
    let sql = "SELECT fork, ino FROM dir_time_past WHERE (fork, ino) > (?1, ?2) AND fork < ?3 AND till <= ?3
         ORDER BY fork, ino LIMIT ?4";
    all(conn, sql, params![after.0, after.1, seq, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Removes a version that has ended.
pub(crate) fn remove_ended(conn: &Connection, (fork, ino): (u64, u64)) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM dir_time_past WHERE fork = ?1 AND ino = ?2")?.execute([fork, ino])?;
    Ok(())
}

/// Writes the times that a directory gets in commit `seq`.
pub(super) fn put(conn: &Connection, ino: u64, seq: u64, time: i64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO dir_time (ino, seq, time) VALUES (?1, ?2, ?3)")?
        .execute(params![ino, seq, time])?;
    Ok(())
}

/// Removes the times of a directory, because a row of `node` replaces them.
pub(super) fn remove(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM dir_time WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

/// Stores the times of a version that has ended.
pub(super) fn put_ended(conn: &Connection, ino: u64, ended: &EndedTimes) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT INTO dir_time_past (fork, ino, since, till, time) VALUES (fork(?2, ?3), ?1, ?2, ?3, ?4)",
    )?
    .execute(params![ino, ended.since, ended.till, ended.time])?;
    Ok(())
}
