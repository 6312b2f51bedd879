//! Statements for rows of the past, which copies of earlier states take. An ended row is stored at a fork
//! ([`interval`](garth_engine::engine::relational::interval)), of which a state has one for each level.

use garth_engine::engine::planner::{ExtentRow, Key, Region, RowKey, RowValue};
use garth_engine::model::{Timestamp, Within};
use garth_engine::path::TreePath;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;

use super::present::{inos, key, keyed_name, most, ranges};
use super::round::{Round, by_place, one_by_place};
use crate::values::columns::{column, extent, int, name, newest_columns, newest_node, number};
use crate::values::parameters::{ints, texts};

/// Forks at which rows are stored that a state has and that have ended: those of commit `k.seq`, as `f.fork`.
macro_rules! forks {
    () => {
        "CROSS JOIN LATERAL (SELECT ((k.seq >> level) | 1) << level AS fork FROM generate_series(0, 62) level
            WHERE k.seq > 0
                AND ((k.seq >> level) | 1) << level <= (SELECT seq FROM garth.head WHERE account = $1) OFFSET 0) f"
    };
}

const TIMES: &str = "SELECT k.n, l.time, h.oldest FROM unnest($2::bigint[]) WITH ORDINALITY k(seq, n)
    CROSS JOIN (SELECT oldest FROM garth.head WHERE account = $1) h
    LEFT JOIN LATERAL (SELECT time FROM garth.log WHERE account = $1 AND seq = k.seq OFFSET 0) l ON true";
/// Names at commits whose spans have ended. Only the first span to end after the commit is read: a name
/// stands for one node at a time.
const NAMES: &str = "SELECT k.n, e.ino, e.since, e.kind
    FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY k(dir, name, seq, n)
    CROSS JOIN LATERAL (
        SELECT ino, since, kind FROM garth.name
            WHERE account = $1 AND dir = k.dir AND name = k.name AND since <= k.seq
        UNION ALL
        SELECT ino, since, kind FROM (SELECT ino, since, kind FROM garth.name_past
            WHERE account = $1 AND dir = k.dir AND name = k.name AND till > k.seq ORDER BY till LIMIT 1) p
            WHERE since <= k.seq
        LIMIT 1) e";
const NAMES_BELOW: &str = concat!(
    "SELECT k.n, e.dir, e.name, e.ino, e.since, e.kind
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) k(n, first, last, seq, most)
    CROSS JOIN LATERAL (
        (SELECT dir, name, ino, since, kind FROM garth.name
            WHERE account = $1 AND dir >= k.first AND dir < k.last AND since <= k.seq LIMIT k.most)
        UNION ALL
        (SELECT p.dir, p.name, p.ino, p.since, p.kind FROM (SELECT 1) one ",
    forks!(),
    " CROSS JOIN LATERAL (SELECT dir, name, ino, since, kind FROM garth.name_past
            WHERE account = $1 AND fork = f.fork AND dir >= k.first AND dir < k.last AND since <= k.seq
                AND till > k.seq LIMIT k.most) p)) e"
);
/// Names that nodes had. Of the ended ones only as many are looked for as the node had then, besides those
/// that it still has: a node that was renamed often has many others. A directory has one name, and its link
/// count is that of its subdirectories.
const NAMES_OF: &str = "SELECT k.n, e.dir, e.name
    FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, seq, n)
    CROSS JOIN LATERAL (SELECT coalesce((SELECT CASE WHEN kind = 1 THEN least(nlink, 1) ELSE nlink END
            FROM garth.node WHERE account = $1 AND ino = k.ino AND seq <= k.seq ORDER BY seq DESC LIMIT 1), 0)
        - (SELECT count(*) FROM garth.name WHERE account = $1 AND ino = k.ino AND since <= k.seq)
        AS ended OFFSET 0) c
    CROSS JOIN LATERAL (
        SELECT dir, name FROM garth.name WHERE account = $1 AND ino = k.ino AND since <= k.seq
        UNION ALL
        (SELECT dir, name FROM garth.name_past
            WHERE account = $1 AND ino = k.ino AND till > k.seq AND since <= k.seq
            ORDER BY till LIMIT greatest(c.ended, 0))) e";
/// Versions of nodes. A version of a directory that differs only in its times is in `dir_time`, or, once it
/// has ended, in `dir_time_past`.
const NODES: &str = concat!(
    "SELECT k.n, ",
    newest_columns!(),
    " FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, seq, n)
    CROSS JOIN LATERAL (SELECT * FROM garth.node
        WHERE account = $1 AND ino = k.ino AND seq <= k.seq ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN LATERAL (
        SELECT seq, time FROM garth.dir_time
            WHERE account = $1 AND ino = v.ino AND v.kind = 1 AND seq <= k.seq AND seq > v.seq
        UNION ALL
        SELECT p.since, p.time FROM (SELECT 1) one ",
    forks!(),
    " CROSS JOIN LATERAL (SELECT since, time FROM garth.dir_time_past
            WHERE account = $1 AND fork = f.fork AND ino = v.ino AND since <= k.seq AND till > k.seq OFFSET 0) p
            WHERE v.kind = 1 AND p.since > v.seq
        LIMIT 1) t ON true"
);
const EXTENTS: &str = "SELECT k.n, g.gone, e.off, e.len, e.since, e.chunk, e.skip, e.older
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY k(ino, seq, first, last, n)
    CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM garth.content_gone
        WHERE account = $1 AND ino = k.ino AND till > k.seq AND since <= k.seq) AS gone OFFSET 0) g
    LEFT JOIN LATERAL (
        SELECT off, len, since, chunk, skip, older FROM garth.extent
            WHERE account = $1 AND ino = k.ino AND off < k.last AND off + len > k.first AND since <= k.seq
                AND off >= (SELECT coalesce(max(o.off), 0) FROM garth.extent o
                    WHERE o.account = $1 AND o.ino = k.ino AND o.off <= k.first)
        UNION ALL
        SELECT off, len, since, chunk, skip, older FROM garth.extent_past
            WHERE account = $1 AND ino = k.ino AND till > k.seq AND since <= k.seq AND off < k.last
                AND off + len > k.first) e ON NOT g.gone";

/// Fetches the times of commits.
pub(super) fn times(round: &mut Round<'_, '_>, keys: Vec<u64>) {
    if keys.is_empty() {
        return;
    }
    round.query(TIMES, vec![inos(&keys, |seq| *seq)], |store, rows| {
        let found = one_by_place(rows)?;
        for (place, seq) in keys.into_iter().enumerate() {
            let value = found.get(&place).map_or_else(|| Err(no_commit(seq)), |row| time_of(row, seq));
            store.put(RowKey::TimeOf(seq), value.map(RowValue::Time));
        }
        Ok(())
    });
}

fn time_of(row: &Row, seq: u64) -> Result<Timestamp> {
    let oldest = number(row, 2)?;
    match column::<Option<i64>>(row, 1)? {
        _ if seq < oldest => Err(Error::gone(oldest)),
        // The empty tree is from before all commits.
        None if seq == 0 => Ok(Timestamp(i64::MIN)),
        None => Err(no_commit(seq)),
        Some(time) => Ok(Timestamp(time)),
    }
}

fn no_commit(seq: u64) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no commit {seq} yet"))
}

/// Fetches names as they were after commits.
pub(super) fn names(round: &mut Round<'_, '_>, keys: Vec<(Key, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        texts(keys.iter().map(|(key, _)| key.0.clone())),
        texts(keys.iter().map(|(key, _)| key.1.clone())),
        ints(keys.iter().map(|(_, seq)| *seq)),
    ];
    round.query(NAMES, params, |store, rows| {
        let found = one_by_place(rows)?;
        for (place, ((dir, own), seq)) in keys.into_iter().enumerate() {
            let row = found.get(&place).map(|row| name(row, 1)).transpose()?;
            store.put(RowKey::NameAt(dir, own, seq), Ok(RowValue::Name(row)));
        }
        Ok(())
    });
}

/// Fetches the names below directories as they were after commits, up to a limit.
pub(super) fn names_below(round: &mut Round<'_, '_>, keys: Vec<(String, u64, usize)>) {
    if keys.is_empty() {
        return;
    }
    let region = |(dir, seq, limit): (String, u64, usize)| (Region { dir, ..Region::default() }, seq, limit);
    let keys: Vec<(Region, u64, usize)> = keys.into_iter().map(region).collect();
    let ranges = ranges(&keys, |(region, ..)| region);
    let params = vec![
        ranges.places(),
        ranges.texts(|dirs| &dirs.0),
        ranges.texts(|dirs| &dirs.1),
        ranges.column(&keys, |(_, seq, _)| int(*seq)),
        ranges.column(&keys, |(.., limit)| most(*limit)),
    ];
    round.query(NAMES_BELOW, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, (region, seq, limit)) in keys.into_iter().enumerate() {
            let rows = found.remove(&place).unwrap_or_default().into_iter();
            // Which of them, if there are more than the limit, is open.
            let names = rows.take(limit).map(|row| keyed_name(row, 1)).collect::<Result<_>>()?;
            store.put(RowKey::NamesBelowAt(region.dir, seq, limit), Ok(RowValue::Names(names)));
        }
        Ok(())
    });
}

/// Fetches the names that nodes had after commits, within some subtrees.
pub(super) fn names_of(round: &mut Round<'_, '_>, keys: Vec<(u64, u64, Within)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![inos(&keys, |(ino, ..)| *ino), inos(&keys, |(_, seq, _)| *seq)];
    round.query(NAMES_OF, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, (ino, seq, within)) in keys.into_iter().enumerate() {
            let rows = found.remove(&place).unwrap_or_default().into_iter();
            let mut names: Vec<Key> = rows.map(|row| key(row, 1)).collect::<Result<_>>()?;
            names.retain(|(dir, name)| within.contains(&TreePath::from_row(dir, name)));
            store.put(RowKey::NamesOfAt(ino, seq, within), Ok(RowValue::Keys(names)));
        }
        Ok(())
    });
}

/// Fetches nodes as they were after commits.
pub(super) fn nodes(round: &mut Round<'_, '_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![inos(&keys, |(ino, _)| *ino), inos(&keys, |(_, seq)| *seq)];
    round.query(NODES, params, |store, rows| {
        let found = one_by_place(rows)?;
        for (place, (ino, seq)) in keys.into_iter().enumerate() {
            let node = found.get(&place).map(|row| newest_node(row, 1)).transpose()?.flatten();
            store.put(RowKey::NodeAt(ino, seq), Ok(RowValue::Node(node.map(|node| node.row))));
        }
        Ok(())
    });
}

/// Fetches the extents of files as they were after commits, in ranges.
pub(super) fn extents(round: &mut Round<'_, '_>, keys: Vec<(u64, u64, u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let column = |take: fn(&(u64, u64, u64, u64)) -> u64| ints(keys.iter().map(take));
    let params = vec![column(|key| key.0), column(|key| key.1), column(|key| key.2), column(|key| key.3)];
    round.query(EXTENTS, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, (ino, seq, from, to)) in keys.into_iter().enumerate() {
            let value = extents_of(&found.remove(&place).unwrap_or_default(), seq);
            store.put(RowKey::ExtentsAt(ino, seq, from, to), value.map(RowValue::Extents));
        }
        Ok(())
    });
}

fn extents_of(rows: &[&Row], seq: u64) -> Result<Vec<ExtentRow>> {
    let mut extents = Vec::with_capacity(rows.len());
    for row in rows {
        // A copy must not take holes for content that is no longer stored.
        if column(row, 1)? {
            return Err(Error::content_gone(seq));
        }
        // A file without extents in the range has a row without one.
        if column::<Option<i64>>(row, 2)?.is_some() {
            extents.push(extent(row, 2)?);
        }
    }
    extents.sort_unstable_by_key(|row| row.off);
    Ok(extents)
}
