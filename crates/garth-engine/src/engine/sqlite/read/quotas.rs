//! Quotas as the database has them, and what lies below a path, counted name by name.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{Region, Tally};
use crate::engine::sqlite::read::rows::{self, Span};
use crate::engine::sqlite::schema::columns::KindColumn;
use crate::error::{Error, ErrorKind};
use crate::model::quota::{Limits, MAX_COUNTED, Quota, Usage};
use crate::model::{Kind, Within};
use crate::path::TreePath;
use crate::rule::quota::{Count, Quotas};
use crate::sqlite::{DbResult, all};

/// So much of what has expired is looked at, wherever it is, before the names of a subtree are.
const ELSEWHERE: usize = if cfg!(test) { 4 } else { 1000 };

/// All quotas of the tree.
pub(crate) fn all_of(conn: &Connection) -> DbResult<Quotas> {
    let sql = "SELECT path, max_bytes, max_entries, bytes, entries FROM quota";
    let rows = all(conn, sql, [], |row| {
        Ok(Quota {
            path: TreePath::from_key(row.get(0)?),
            limits: Limits { bytes: row.get(1)?, entries: row.get(2)? },
            used: Usage { bytes: row.get(3)?, entries: row.get(4)? },
        })
    })?;
    Ok(Quotas::new(rows))
}

/// What lies in ranges of directories.
pub(crate) fn tally(conn: &Connection, ranges: &[(String, String)]) -> DbResult<Tally> {
    let mut tally = Tally::default();
    each_name(conn, ranges, |file| {
        tally.entries += 1;
        match file {
            Some((_, 1, size)) => tally.bytes += u128::from(size),
            Some((ino, _, _)) => drop(tally.shared.insert(ino)),
            None => {}
        }
    })?;
    Ok(tally)
}

/// What lies below a path.
pub(crate) fn count(conn: &Connection, key: &str) -> DbResult<Usage> {
    let ranges = Region { dir: key.to_owned(), ..Region::default() }.ranges();
    let (mut counted, mut shared) = (Count::default(), BTreeSet::new());
    each_name(conn, &ranges, |file| {
        counted.entries += 1;
        if let Some((ino, names, size)) = file
            && (names == 1 || shared.insert(ino))
        {
            counted.bytes += i128::from(size);
        }
    })?;
    if counted.bytes > i128::from(MAX_COUNTED) {
        let message =
            format!("there are more than {MAX_COUNTED} bytes below this path, which no quota counts");
        return Err(Error::at(ErrorKind::TooLarge, &TreePath::from_key(key.to_owned()), message).into());
    }
    Ok(counted.usage()?)
}

/// Tells of each live name in ranges of directories: of a file its number, how many names it has, and its
/// size.
fn each_name(
    conn: &Connection,
    ranges: &[(String, String)],
    mut tell: impl FnMut(Option<(u64, u64, u64)>),
) -> DbResult<()> {
    let mut names = conn.prepare_cached(
        "SELECT node.ino, node.nlink, node.size FROM name LEFT JOIN node ON name.kind = ?3
             AND node.ino = name.ino AND node.seq = (SELECT max(seq) FROM node WHERE ino = name.ino)
         WHERE dir >= ?1 AND dir < ?2",
    )?;
    for (from, to) in ranges {
        let mut rows = names.query(params![from, to, KindColumn(Kind::File)])?;
        while let Some(row) = rows.next()? {
            tell(match row.get::<_, Option<u64>>(0)? {
                Some(ino) => Some((ino, row.get(1)?, row.get(2)?)),
                None => None,
            });
        }
    }
    Ok(())
}

/// Nodes that have expired at a time and have a live name within some subtrees, behind a moment and a node,
/// in that order. Where much has expired elsewhere, all names of the subtrees are looked at.
pub(crate) fn due(
    conn: &Connection,
    time: i64,
    within: &Within,
    after: (i64, u64),
    limit: usize,
) -> DbResult<Vec<(i64, u64)>> {
    let sql = "SELECT at, ino FROM expiry WHERE at <= ?1 AND (at, ino) > (?2, ?3) ORDER BY at, ino LIMIT ?4";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let most = if within.is_everything() { limit } else { ELSEWHERE.max(limit) };
    let due: Vec<(i64, u64)> = all(conn, sql, params![time, after.0, after.1, most], read)?;
    let (mut found, whole) = (Vec::new(), due.len() < most);
    for (at, ino) in due {
        if within.is_everything() || !rows::names_of(conn, ino, Span::NOW, within, 1)?.is_empty() {
            found.push((at, ino));
        }
        if found.len() == limit {
            return Ok(found);
        }
    }
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
                if found.len() > limit {
                    found.pop_last();
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::{AccountStore, FileSystem};
    use crate::model::{Batch, Op, SetAttrs, Timestamp};

    /// Much has expired elsewhere, so that the names of the subtree are looked at.
    #[test]
    fn what_is_due_in_a_subtree_is_found_beside_much_that_is_due_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(Timestamp(0));
        let fs = SqliteFs::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
        let at = |path: &str| TreePath::parse(path).unwrap();
        let file = |path: &str, seconds| {
            let expires = SetAttrs::new().expires_at(Timestamp(0).plus_seconds(seconds));
            Op::write(at(path), "x").with_parents().with_attrs(expires)
        };
        let mut ops: Vec<Op> = (0..3 * ELSEWHERE).map(|n| file(&format!("/elsewhere/{n}"), 1)).collect();
        // the last of them expired first
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
