//! Quotas as the database has them, and what lies below a path, counted name by name.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::engine::planner::{Region, Tally};
use crate::engine::sqlite::read::rows::{self, Span};
use crate::engine::sqlite::schema::columns::KindColumn;
use crate::error::{Error, ErrorKind};
use crate::model::quota::{Limits, MAX_COUNTED, Quota, Usage};
use crate::model::{Kind, Within};
use crate::path::TreePath;
use crate::rule::quota::{Count, Quotas};
use crate::sqlite::{DbResult, all};

/// Rows of `expiry` looked at before those that are due are asked for again.
const PIECE: usize = 256;

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
/// in that order.
pub(crate) fn due(
    conn: &Connection,
    time: i64,
    within: &Within,
    mut after: (i64, u64),
    limit: usize,
) -> DbResult<Vec<(i64, u64)>> {
    let sql = "SELECT at, ino FROM expiry WHERE at <= ?1 AND (at, ino) > (?2, ?3) ORDER BY at, ino LIMIT ?4";
    let mut found = Vec::new();
    loop {
        let due: Vec<(i64, u64)> =
            all(conn, sql, params![time, after.0, after.1, PIECE], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (at, ino) in &due {
            if within.is_everything() || !rows::names_of(conn, *ino, Span::NOW, within, 1)?.is_empty() {
                found.push((*at, *ino));
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
        match due.last() {
            Some(last) if due.len() == PIECE => after = *last,
            _ => return Ok(found),
        }
    }
}
