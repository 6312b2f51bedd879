//! Table `expiry`: the times at which nodes expire.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row, params};

use crate::engine::planner::Region;
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::model::Within;
use crate::sqlite::{DbResult, all, one};

/// Number of expired nodes of the complete tree that are read before the names of a subtree are walked.
const ELSEWHERE: usize = if cfg!(test) { 4 } else { 1000 };

/// Returns at most `limit` nodes that have expired at a time and have a live name within some subtrees, after
/// `after` (time and inode), in that order. If many nodes elsewhere have expired, all names of the subtrees
/// are walked.
pub(crate) fn due(
    conn: &Connection,
    time: i64,
    within: &Within,
    after: (i64, u64),
    limit: usize,
) -> DbResult<Vec<(i64, u64)>> {
    let sql = "SELECT at, ino FROM expiry WHERE at <= ?1 AND (at, ino) > (?2, ?3) ORDER BY at, ino LIMIT ?4";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    // Mostly a few nodes have expired, and asking each for its names is cheaper than walking the subtrees.
    let most = if within.is_everything() { limit } else { ELSEWHERE.max(limit) };
    let due: Vec<(i64, u64)> = all(conn, sql, params![time, after.0, after.1, most], read)?;
    let (mut found, whole) = (Vec::new(), due.len() < most);
    for (at, ino) in due {
        if within.is_everything()
            || !names_of_node::in_span(conn, ino, CommitSpan::NOW, within, 1)?.is_empty()
        {
            found.push((at, ino));
        }
        if found.len() == limit {
            return Ok(found);
        }
    }
    // Complete: no further node has expired anywhere.
    if whole || within.is_everything() {
        return Ok(found);
    }
    let mut found = BTreeSet::new();
    for top in within.tops() {
        for (from, to) in (Region { dir: top.key().to_owned(), ..Region::default() }).ranges() {
            let sql = "SELECT at, expiry.ino FROM name JOIN expiry ON expiry.ino = name.ino
                 WHERE dir >= ?1 AND dir < ?2 AND at <= ?3 AND (at, expiry.ino) > (?4, ?5)";
            let mut names = conn.prepare_cached(sql)?;
            let mut names = names.query(params![from, to, time, after.0, after.1])?;
            while let Some(row) = names.next()? {
                found.insert(read(row)?);
                // Only the first `limit` are kept, so that memory does not grow with the subtree.
                if found.len() > limit {
                    found.pop_last();
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Returns the nodes that have expired and have a live name in a region.
pub(crate) fn in_region(conn: &Connection, region: &Region, time: i64) -> DbResult<Vec<u64>> {
    let sql = "SELECT name.ino FROM name JOIN expiry ON expiry.ino = name.ino
         WHERE dir >= ?1 AND dir < ?2 AND at <= ?3";
    let mut expired = Vec::new();
    for (from, to) in region.ranges() {
        expired.extend(all(conn, sql, params![from, to, time], |row| row.get::<_, u64>(0))?);
    }
    Ok(expired)
}

/// Returns at most `limit` nodes that have expired at a time.
pub(crate) fn next(conn: &Connection, time: i64, limit: usize) -> DbResult<Vec<u64>> {
    let sql = "SELECT ino FROM expiry WHERE at <= ?1 ORDER BY at LIMIT ?2";
    all(conn, sql, params![time, limit], |row| row.get(0))
}

/// Returns true if a node has expired at a time, and its removal is not recorded yet.
pub(crate) fn is_any(conn: &Connection, time: i64) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM expiry WHERE at <= ?1 LIMIT 1", [time], |_| Ok(()))?.is_some())
}

/// Returns the time at which the next node expires.
pub(crate) fn first(conn: &Connection) -> DbResult<Option<i64>> {
    Ok(conn.query_row("SELECT min(at) FROM expiry", [], |row| row.get(0))?)
}

/// Writes the time at which a node expires.
pub(crate) fn put(conn: &Connection, ino: u64, at: i64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO expiry (ino, at) VALUES (?1, ?2)")?
        .execute(params![ino, at])?;
    Ok(())
}

/// Removes a node that no longer expires.
pub(crate) fn remove(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM expiry WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::{AccountStore, FileSystem};
    use crate::model::quota::Limits;
    use crate::model::{Batch, Op, SetAttrs, Timestamp};
    use crate::path::TreePath;

    /// Many nodes have expired elsewhere, so that the names of the subtree are walked.
    #[test]
    fn finds_expired_nodes_in_a_subtree() {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(Timestamp(0));
        let fs = SqliteFs::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
        let at = |path: &str| TreePath::parse(path).unwrap();
        let file = |path: &str, seconds| {
            let expires = SetAttrs::new().expires_at(Timestamp(0).plus_seconds(seconds));
            Op::write(at(path), "x").with_parents().with_attrs(expires)
        };
        let mut ops: Vec<Op> = (0..3 * ELSEWHERE).map(|n| file(&format!("/elsewhere/{n}"), 1)).collect();
        // The last of them expired first.
        ops.extend((0..8).map(|n| file(&format!("/q/{n}"), 20 - n)));
        ops.extend([Op::link(at("/q/0"), at("/q/deep/0")).with_parents(), Op::write(at("/q/kept"), "x")]);
        block_on(fs.commit(Batch::new(ops))).unwrap();
        block_on(fs.set_quota(&at("/q"), Limits::default().entries(11))).unwrap();
        clock.set(Timestamp(0).plus_seconds(100));
        let due = |after, limit| {
            let within = Within::new([at("/q")]);
            fs.with_view(|view| due(view.conn, view.time, &within, after, limit)).unwrap()
        };
        let all = due((i64::MIN, 0), 100);
        let seconds: Vec<i64> = all.iter().map(|(at, _)| at / 1_000_000_000).collect();
        assert_eq!(seconds, (13..=20).collect::<Vec<_>>());
        assert_eq!(due((i64::MIN, 0), 3), all[..3]);
        assert_eq!(due(all[2], 3), all[3..6]);
        block_on(fs.commit(Batch::new((0..3).map(|n| Op::write(at(&format!("/q/new-{n}")), "x"))))).unwrap();
        let used = block_on(fs.quotas()).unwrap()[0].used.entries;
        assert_eq!((used, due((i64::MIN, 0), 100)), (11, all[3..].to_vec()));
    }
}
