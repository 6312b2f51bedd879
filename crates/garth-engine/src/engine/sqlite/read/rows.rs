//! Reads of rows, now or after a past commit: the one place that knows how present and past are laid out.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{ExtentRow, HeadRow, Key, NameRow, NodeRow, Region};
use crate::engine::sqlite::read::dir_times;
use crate::engine::sqlite::schema::columns::{
    KindColumn, NEWEST_COLUMNS, newest_columns, newest_row, node_columns, node_row,
};
use crate::engine::sqlite::schema::interval;
use crate::error::{Error, ErrorKind};
use crate::model::{Attributes, Kind, Timestamp, Within};
use crate::path::TreePath;
use crate::sqlite::{DbResult, all, one};

/// The keys of the directories below `dir`: from the first up to but excluding the second. `0` is the byte
/// after `/`, so a sibling such as `dir-b` is not among them.
pub(crate) fn below(dir: &str) -> (String, String) {
    (format!("{dir}/"), format!("{dir}0"))
}

/// The largest integer that SQLite stores; as a sequence it means now.
pub(crate) const MAX: u64 = i64::MAX as u64;

pub(crate) fn head(conn: &Connection) -> DbResult<HeadRow> {
    let mut query =
        conn.prepare_cached("SELECT seq, time, next_ino, next_chunk, control, projections FROM head")?;
    Ok(query.query_row([], |row| {
        Ok(HeadRow {
            seq: row.get(0)?,
            time: row.get(1)?,
            next_ino: row.get(2)?,
            next_chunk: row.get(3)?,
            control: row.get(4)?,
            projections: row.get(5)?,
        })
    })?)
}

/// How many changes of rows were no commits: merges and collections. What is known as of a head is known only
/// while this stays the same, too.
pub(crate) fn epoch(conn: &Connection) -> DbResult<u64> {
    Ok(conn.prepare_cached("SELECT epoch FROM head")?.query_row([], |row| row.get(0))?)
}

fn name_row(row: &Row<'_>, at: usize) -> rusqlite::Result<NameRow> {
    Ok(NameRow { ino: row.get(at)?, since: row.get(at + 1)?, kind: row.get::<_, KindColumn>(at + 2)?.0 })
}

fn below_row(row: &Row<'_>) -> rusqlite::Result<(String, String, NameRow)> {
    Ok((row.get(0)?, row.get(1)?, name_row(row, 2)?))
}

fn pair(row: &Row<'_>) -> rusqlite::Result<(String, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

pub(crate) fn name(conn: &Connection, dir: &str, name: &str) -> DbResult<Option<NameRow>> {
    one(conn, "SELECT ino, since, kind FROM name WHERE dir = ?1 AND name = ?2", [dir, name], |row| {
        name_row(row, 0)
    })
}

/// A name after commit `seq`. Of what it named before only the one that ended next is looked at: it had one
/// node at a time.
pub(crate) fn name_at(conn: &Connection, dir: &str, name: &str, seq: u64) -> DbResult<Option<NameRow>> {
    one(
        conn,
        "SELECT ino, since, kind FROM name WHERE dir = ?1 AND name = ?2 AND since <= ?3
         UNION ALL
         SELECT ino, since, kind FROM
             (SELECT ino, since, kind FROM name_past WHERE dir = ?1 AND name = ?2 AND till > ?3 ORDER BY till LIMIT 1)
             WHERE since <= ?3
         LIMIT 1",
        params![dir, name, seq],
        |row| name_row(row, 0),
    )
}

pub(crate) fn names_in(conn: &Connection, dir: &str, limit: usize) -> DbResult<Vec<(String, NameRow)>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = "SELECT name, ino, since, kind FROM name WHERE dir = ?1 ORDER BY name LIMIT ?2";
    all(conn, sql, params![dir, limit], |row| Ok((row.get(0)?, name_row(row, 1)?)))
}

/// At most `limit` nodes at and below a top, in no order. One with several names there comes several times,
/// and some that are left out may come, too.
pub(crate) fn nodes_within(
    conn: &Connection,
    within: &Within,
    top: &TreePath,
    limit: usize,
) -> DbResult<Vec<u64>> {
    let (dir, name) = top.key().rsplit_once('/').unwrap_or_default();
    let own = "SELECT ino FROM name WHERE dir = ?1 AND name = ?2 LIMIT ?3";
    let mut inos = all(conn, own, params![dir, name, limit], |row| row.get::<_, u64>(0))?;
    for (from, to) in directories(within, top) {
        let rest = limit.saturating_sub(inos.len());
        let sql = "SELECT ino FROM name WHERE dir >= ?1 AND dir < ?2 LIMIT ?3";
        inos.extend(all(conn, sql, params![from, to, rest], |row| row.get::<_, u64>(0))?);
    }
    Ok(inos)
}

/// The ranges of keys of the directories at and below a top, each up to but without its end, without what is
/// left out: of that only the name itself is in one.
fn directories(within: &Within, top: &TreePath) -> Vec<(String, String)> {
    let without = within.exclusions_below(top).map(|path| path.key().to_owned()).collect();
    Region { dir: top.key().to_owned(), without, ..Region::default() }.ranges()
}

/// Live names in a region, at most `limit`.
pub(crate) fn names_below(
    conn: &Connection,
    region: &Region,
    limit: usize,
) -> DbResult<Vec<(String, String, NameRow)>> {
    let mut rows = Vec::new();
    for (from, to) in region.ranges() {
        rows.extend(names_from(conn, (&from, ""), &to, limit - rows.len())?);
    }
    Ok(rows)
}

/// Bytes of the longest path of a live name in a region; 0 if there is none.
pub(crate) fn longest_path(conn: &Connection, region: &Region) -> DbResult<usize> {
    let sql = "SELECT max(octet_length(dir) + 1 + octet_length(name)) FROM name WHERE dir >= ?1 AND dir < ?2";
    let mut longest = 0;
    for (from, to) in region.ranges() {
        let found: Option<usize> = match region.names.is_empty() {
            true => conn.prepare_cached(sql)?.query_row([from, to], |row| row.get(0))?,
            false => longest_but(conn, (&from, &to), &region.names)?,
        };
        longest = longest.max(found.unwrap_or_default());
    }
    Ok(longest)
}

/// Bytes of the longest path of a live name in a range of directories that is none of some.
fn longest_but(
    conn: &Connection,
    (from, to): (&str, &str),
    names: &BTreeSet<Key>,
) -> DbResult<Option<usize>> {
    // of so many one is another
    let sql = "SELECT dir, name FROM name WHERE dir >= ?1 AND dir < ?2
         ORDER BY octet_length(dir) + octet_length(name) DESC LIMIT ?3";
    let found: Vec<Key> = all(conn, sql, params![from, to, names.len() + 1], pair)?;
    Ok(found.iter().find(|key| !names.contains(key)).map(|(dir, name)| dir.len() + 1 + name.len()))
}

/// Nodes that have expired and have a live name in a region.
pub(crate) fn expired_in(conn: &Connection, region: &Region, time: i64) -> DbResult<Vec<u64>> {
    let sql = "SELECT name.ino FROM name JOIN expiry ON expiry.ino = name.ino
         WHERE dir >= ?1 AND dir < ?2 AND at <= ?3";
    let mut expired = Vec::new();
    for (from, to) in region.ranges() {
        expired.extend(all(conn, sql, params![from, to, time], |row| row.get::<_, u64>(0))?);
    }
    Ok(expired)
}

/// At most `limit` live names of a range of directories, behind one.
pub(crate) fn names_from(
    conn: &Connection,
    (dir, name): (&str, &str),
    end: &str,
    limit: usize,
) -> DbResult<Vec<(String, String, NameRow)>> {
    let sql = "SELECT dir, name, ino, since, kind FROM name WHERE (dir, name) > (?1, ?2) AND dir < ?3
         ORDER BY dir, name LIMIT ?4";
    all(conn, sql, params![dir, name, end, limit], below_row)
}

/// Names below a directory after a commit, at most `limit`.
pub(crate) fn names_below_at(
    conn: &Connection,
    dir: &str,
    seq: u64,
    limit: usize,
) -> DbResult<Vec<(String, String, NameRow)>> {
    let (from, to) = below(dir);
    let mut rows = all(
        conn,
        "SELECT dir, name, ino, since, kind FROM name
         WHERE (dir = ?1 OR (dir >= ?2 AND dir < ?3)) AND since <= ?4 LIMIT ?5",
        params![dir, from, to, seq, limit],
        below_row,
    )?;
    for fork in forks(conn, seq)? {
        rows.extend(all(
            conn,
            "SELECT dir, name, ino, since, kind FROM name_past INDEXED BY name_past_fork
             WHERE fork = ?5 AND (dir = ?1 OR (dir >= ?2 AND dir < ?3)) AND since <= ?4 AND till > ?4
             LIMIT ?6",
            params![dir, from, to, seq, fork, limit - rows.len()],
            below_row,
        )?);
    }
    rows.sort_unstable_by(|(dir, name, _), (other, beside, _)| (dir, name).cmp(&(other, beside)));
    Ok(rows)
}

/// The forks of the past names that commit `seq` had.
pub(crate) fn forks(conn: &Connection, seq: u64) -> DbResult<impl Iterator<Item = u64> + use<>> {
    Ok(interval::forks_at(seq, head(conn)?.seq))
}

/// When a node had a name: at some time from after commit `from` to after commit `to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Span {
    /// The newest state.
    pub(crate) const NOW: Self = Self { from: MAX, to: MAX };

    /// After one commit.
    pub(crate) fn at(seq: u64) -> Self {
        Self { from: seq.min(MAX), to: seq.min(MAX) }
    }
}

/// Live names of node `?1` since before `?2` in a subtree: its top `?3, ?4`, in the directory `?5`, or below
/// it between `?5/` = `?6` and `?7`. The index is given since it ends with directory and name: one range of
/// it holds just the names looked for, whatever others the node has.
macro_rules! names_within_sql {
    ($place:literal) => {
        concat!("SELECT dir, name FROM name INDEXED BY name_ino WHERE ino = ?1 AND since <= ?2 AND ", $place)
    };
}

/// Live names of a node since before `?2` in directories from `?3` up to but without `?4`.
const NAMES_IN_SQL: &str = names_within_sql!("dir >= ?3 AND dir < ?4 LIMIT ?5");

/// Names within some subtrees that a node had in a span, up to `limit`, in any order.
pub(crate) fn names_of(
    conn: &Connection,
    ino: u64,
    span: Span,
    within: &Within,
    limit: usize,
) -> DbResult<Vec<(String, String)>> {
    const SQL: &str = concat!(
        names_within_sql!("dir = ?3 AND name = ?4"),
        " UNION ALL ",
        names_within_sql!("dir = ?5"),
        " UNION ALL ",
        names_within_sql!("dir >= ?6 AND dir < ?7"),
        " LIMIT ?8"
    );
    let mut names = Vec::new();
    for top in within.tops() {
        let (from, to) = below(top.key());
        // the root is in no directory
        let (dir, name) = top.key().rsplit_once('/').unwrap_or(("/", ""));
        let left = i64::try_from(limit - names.len()).unwrap_or(i64::MAX);
        match within.exclusions_below(top).count() {
            0 => names.extend(all(
                conn,
                SQL,
                params![ino.min(MAX), span.to, dir, name, top.key(), from, to, left],
                pair,
            )?),
            left_out => {
                let own = params![ino.min(MAX), span.to, dir, name];
                names.extend(all(conn, names_within_sql!("dir = ?3 AND name = ?4"), own, pair)?);
                for (from, to) in directories(within, top) {
                    // the names themselves of what is left out are among them
                    let most = left.saturating_add_unsigned(left_out as u64);
                    let found = params![ino.min(MAX), span.to, from, to, most];
                    names.extend(all(conn, NAMES_IN_SQL, found, pair)?);
                    names.retain(|(dir, name)| within.contains(&TreePath::from_row(dir, name)));
                    if names.len() >= limit {
                        break;
                    }
                }
            }
        }
        names.truncate(limit);
        if names.len() == limit {
            return Ok(names);
        }
    }
    if span.from < MAX {
        past_names_of(conn, ino, span, within, limit, &mut names)?;
    }
    Ok(names)
}

/// Adds names that have ended. Of those that were there at the end of the span only as many are looked for as
/// the node had then: one that was renamed often has many others.
fn past_names_of(
    conn: &Connection,
    ino: u64,
    span: Span,
    within: &Within,
    limit: usize,
    names: &mut Vec<(String, String)>,
) -> DbResult<()> {
    let mut left = match node(conn, ino, span.to)? {
        Some(node) if node.kind == Kind::Directory => node.nlink.min(1),
        Some(node) => node.nlink,
        None => 0,
    };
    left = left.saturating_sub(names.len() as u64);
    let sql = "SELECT dir, name, since, till FROM name_past WHERE ino = ?1 AND till > ?2 ORDER BY till";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![ino.min(MAX), span.from])?;
    while left > 0
        && names.len() < limit
        && let Some(row) = rows.next()?
    {
        let (since, till): (u64, u64) = (row.get(2)?, row.get(3)?);
        if since > span.to {
            continue;
        }
        left -= u64::from(till > span.to);
        let (dir, name) = pair(row)?;
        if within.contains(&TreePath::from_row(&dir, &name)) {
            names.push((dir, name));
        }
    }
    Ok(())
}

/// The first live name of a node.
pub(crate) fn first_name(conn: &Connection, ino: u64) -> DbResult<Option<(String, String)>> {
    Ok(names_behind(conn, ino, &Within::everything(), ("", ""), 1)?.pop())
}

/// At most `limit` live names of a node within some subtrees, behind a directory and name, in that order.
pub(crate) fn names_behind(
    conn: &Connection,
    ino: u64,
    within: &Within,
    (dir, name): (&str, &str),
    limit: usize,
) -> DbResult<Vec<(String, String)>> {
    macro_rules! sql {
        ($place:literal) => {
            concat!(
                "SELECT dir, name FROM name INDEXED BY name_ino WHERE ino = ?1 AND (dir, name) > (?2, ?3)",
                $place,
                " ORDER BY dir, name LIMIT ?4"
            )
        };
    }
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    if within.is_everything() {
        return all(conn, sql!(""), params![ino, dir, name, most], pair);
    }
    let mut names = Vec::new();
    for top in within.tops() {
        // the root, which is in no directory, would be everything
        let (above, own) = top.key().rsplit_once('/').unwrap_or(("/", ""));
        let own = params![ino, dir, name, most, above, own];
        names.extend(all(conn, sql!(" AND dir = ?5 AND name = ?6"), own, pair)?);
        // the names themselves of what is left out are among those of the ranges
        let most = most.saturating_add_unsigned(within.exclusions_below(top).count() as u64);
        for (from, to) in directories(within, top) {
            // one lower bound: of two the database seeks to either
            let (dir, name) = (dir, name).max((&from, ""));
            names.extend(all(conn, sql!(" AND dir < ?5"), params![ino, dir, name, most, to], pair)?);
        }
    }
    if !within.exclusions().is_empty() {
        names.retain(|(dir, name)| within.contains(&TreePath::from_row(dir, name)));
    }
    names.sort_unstable();
    names.truncate(limit);
    Ok(names)
}

/// A node after commit `seq`; the newest version with [`MAX`].
pub(crate) fn node(conn: &Connection, ino: u64, seq: u64) -> DbResult<Option<NodeRow>> {
    macro_rules! sql {
        ($columns:expr) => {
            concat!("SELECT ", $columns, " FROM node WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1")
        };
    }
    if seq == MAX {
        return one(conn, sql!(newest_columns!()), params![ino, seq], |row| newest_row(row, 0));
    }
    let node = one(conn, sql!(node_columns!()), params![ino, seq], |row| node_row(row, 0))?;
    match node {
        Some(node) if node.kind == Kind::Directory => {
            dir_times::with_times(conn, node, seq, forks(conn, seq)?).map(Some)
        }
        node => Ok(node),
    }
}

/// The commit that made the version after one, if there is one.
pub(crate) fn next_version(conn: &Connection, node: &NodeRow) -> DbResult<Option<u64>> {
    if node.kind == Kind::Directory
        && let Some(till) = dir_times::end_of(conn, node, forks(conn, node.seq.max(1))?)?
    {
        return Ok(Some(till));
    }
    let sql = "SELECT seq FROM node WHERE ino = ?1 AND seq > ?2 ORDER BY seq LIMIT 1";
    one(conn, sql, [node.ino, node.seq], |row| row.get(0))
}

/// The node of a live name, in one statement.
pub(crate) fn node_by_name(conn: &Connection, dir: &str, name: &str) -> DbResult<Option<NodeRow>> {
    const SQL: &str = concat!(
        "SELECT ",
        newest_columns!(),
        " FROM name CROSS JOIN node ON node.ino = name.ino WHERE name.dir = ?1 AND name.name = ?2
         ORDER BY node.seq DESC LIMIT 1"
    );
    one(conn, SQL, [dir, name], |row| newest_row(row, 0))
}

/// The same with its attributes. One statement sees one state, so it needs no transaction around it.
pub(crate) fn entry_by_name(
    conn: &Connection,
    dir: &str,
    name: &str,
) -> DbResult<Option<(NodeRow, Attributes)>> {
    const SQL: &str = concat!(
        "SELECT ",
        newest_columns!(),
        ", attribute.json FROM name CROSS JOIN node ON node.ino = name.ino
         LEFT JOIN attribute ON attribute.ino = node.ino AND attribute.seq = node.attrs_seq
         WHERE name.dir = ?1 AND name.name = ?2 ORDER BY node.seq DESC LIMIT 1"
    );
    let found = one(conn, SQL, [dir, name], |row| {
        let node = newest_row(row, 0)?;
        let json = row.get_ref(NEWEST_COLUMNS)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let attributes = parse_attributes(node.attrs_seq, json);
        Ok((node, attributes))
    })?;
    found.map(|(node, attributes)| Ok((node, attributes?))).transpose()
}

pub(crate) fn attributes(conn: &Connection, ino: u64, seq: u64) -> DbResult<Attributes> {
    let sql = "SELECT json FROM attribute WHERE ino = ?1 AND seq = ?2";
    let json: Option<String> = one(conn, sql, params![ino, seq], |row| row.get(0))?;
    parse_attributes(seq, json.as_deref())
}

/// The attributes that a node got in commit `seq`, if it has any.
fn parse_attributes(seq: u64, json: Option<&str>) -> DbResult<Attributes> {
    if seq == 0 {
        return Ok(Attributes::default());
    }
    let json = json.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the attributes of a node are missing"))?;
    let damaged = |e| Error::new(ErrorKind::Corrupt, "the attributes of a node are damaged").with_source(e);
    Ok(serde_json::from_str(json).map_err(damaged)?)
}

/// The commit that wrote an extent's bytes, as the column `older` says.
pub(crate) fn written(since: u64, older: i64) -> u64 {
    u64::try_from(older).map_or(0, |older| since.saturating_sub(older))
}

/// The column `older` of an extent.
pub(crate) fn older(row: &ExtentRow) -> i64 {
    if row.written == 0 { -1 } else { row.since.saturating_sub(row.written).cast_signed() }
}

fn extent_row(row: &Row<'_>) -> rusqlite::Result<ExtentRow> {
    Ok(ExtentRow {
        off: row.get(0)?,
        len: row.get(1)?,
        since: row.get(2)?,
        chunk: row.get(3)?,
        skip: row.get(4)?,
        written: written(row.get(2)?, row.get(5)?),
    })
}

/// Extents of node `?1` that overlap `?4..?3`, now or after commit `?5`. `?2` is [`first_overlap`]: without
/// that bound the index would be read from the first byte of the file on. Those of the past come in the order
/// of their ends: whoever has what covers the range needs no more of them.
macro_rules! extents_sql {
    (now, $columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM extent WHERE ino = ?1 AND till = 0 AND off > ?2 AND off < ?3 AND off + len > ?4"
        )
    };
    (as_of, $columns:literal) => {
        concat!(
            extents_sql!(now, $columns),
            " AND since <= ?5 UNION ALL SELECT ",
            $columns,
            " FROM extent WHERE ino = ?1 AND till > ?5 AND since <= ?5 AND off < ?3 AND off + len > ?4"
        )
    };
}
pub(crate) use extents_sql;

/// Behind which a live extent begins that overlaps `from`: just before the last one that begins there or
/// before, since they do not overlap.
pub(crate) fn first_overlap(conn: &Connection, ino: u64, from: u64) -> DbResult<i64> {
    if from == 0 {
        return Ok(-1);
    }
    let sql = "SELECT max(off) FROM extent WHERE ino = ?1 AND till = 0 AND off <= ?2";
    let off: Option<Option<u64>> = one(conn, sql, params![ino, from.min(MAX)], |row| row.get(0))?;
    Ok(off.flatten().unwrap_or(from.min(MAX)).cast_signed() - 1)
}

/// Live extents that overlap `from..to`.
pub(crate) fn extents(conn: &Connection, ino: u64, from: u64, to: u64) -> DbResult<Vec<ExtentRow>> {
    const SQL: &str = concat!(extents_sql!(now, "off, len, since, chunk, skip, older"), " ORDER BY off");
    all(conn, SQL, params![ino, first_overlap(conn, ino, from)?, to.min(MAX), from], extent_row)
}

/// Extents after commit `seq` that overlap `from..to`.
pub(crate) fn extents_at(
    conn: &Connection,
    ino: u64,
    seq: u64,
    from: u64,
    to: u64,
) -> DbResult<Vec<ExtentRow>> {
    const SQL: &str = extents_sql!(as_of, "off, len, since, chunk, skip, older");
    let mut statement = conn.prepare_cached(SQL)?;
    let mut rows = statement.query(params![ino, first_overlap(conn, ino, from)?, to.min(MAX), from, seq])?;
    let (mut found, mut left) = (Vec::new(), to.saturating_sub(from));
    while left > 0
        && let Some(row) = rows.next()?
    {
        let row = extent_row(row)?;
        left = left.saturating_sub(row.cut(from, to).len);
        found.push(row);
    }
    found.sort_unstable_by_key(|row| row.off);
    Ok(found)
}

/// Extents of a node from `(till, off)` on: the live ones, then those that ended after commit `since`. Each
/// with its `till`.
pub(crate) fn extents_since(
    conn: &Connection,
    ino: u64,
    since: u64,
    (till, off): (u64, u64),
    limit: usize,
) -> DbResult<Vec<(u64, ExtentRow)>> {
    let with_till = |row: &Row<'_>| Ok((row.get(6)?, extent_row(row)?));
    let mut rows = Vec::new();
    if till == 0 {
        let sql = "SELECT off, len, since, chunk, skip, older, till FROM extent
             WHERE ino = ?1 AND till = 0 AND off >= ?2 ORDER BY off LIMIT ?3";
        rows = all(conn, sql, params![ino, off, limit], with_till)?;
    }
    let (till, off) = (till, off).max((since + 1, 0));
    let sql = "SELECT off, len, since, chunk, skip, older, till FROM extent
         WHERE ino = ?1 AND (till, off) >= (?2, ?3) ORDER BY till, off LIMIT ?4";
    if rows.len() < limit {
        rows.extend(all(conn, sql, params![ino, till, off, limit - rows.len()], with_till)?);
    }
    Ok(rows)
}

/// The chunk with this hash. Only whole hashes are unique; short chunks have a checksum of 8 bytes.
pub(crate) fn chunk_by_hash(conn: &Connection, sum: &[u8]) -> DbResult<Option<u64>> {
    one(conn, "SELECT id FROM chunk WHERE sum = ?1 AND length(sum) = 32", [sum], |row| row.get(0))
}

/// Time of commit `seq`; for 0, the empty tree, a time before all others.
pub(crate) fn time_of(conn: &Connection, seq: u64) -> DbResult<Timestamp> {
    if seq == 0 {
        return Ok(Timestamp(i64::MIN));
    }
    let time = one(conn, "SELECT time FROM log WHERE seq = ?1", [seq.min(MAX)], |row| row.get(0))?;
    let missing = || Error::new(ErrorKind::NotFound, format!("there is no commit {seq} yet"));
    Ok(time.map(Timestamp).ok_or_else(missing)?)
}
