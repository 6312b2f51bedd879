//! Reads of rows, now or after a past commit: the one place that knows how present and past are laid out.

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{ExtentRow, HeadRow, MAX_EXTENT, NameRow, NodeRow};
use crate::engine::sqlite::schema::columns::{KindColumn, NODE_COLUMNS, node_columns, node_row};
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
    let mut query = conn.prepare_cached("SELECT seq, time, next_ino, next_chunk, copies FROM head")?;
    Ok(query.query_row([], |row| {
        Ok(HeadRow {
            seq: row.get(0)?,
            time: row.get(1)?,
            next_ino: row.get(2)?,
            next_chunk: row.get(3)?,
            copies: row.get(4)?,
        })
    })?)
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

/// Every node that is or was a file.
pub(crate) fn files(conn: &Connection) -> DbResult<Vec<u64>> {
    all(conn, "SELECT DISTINCT ino FROM node WHERE kind = 0", [], |row| row.get(0))
}

pub(crate) fn names_in(conn: &Connection, dir: &str, limit: usize) -> DbResult<Vec<(String, NameRow)>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = "SELECT name, ino, since, kind FROM name WHERE dir = ?1 ORDER BY name LIMIT ?2";
    all(conn, sql, params![dir, limit], |row| Ok((row.get(0)?, name_row(row, 1)?)))
}

pub(crate) fn names_below(conn: &Connection, dir: &str) -> DbResult<Vec<(String, String, NameRow)>> {
    let (from, to) = below(dir);
    let mut rows = all(
        conn,
        "SELECT dir, name, ino, since, kind FROM name WHERE dir = ?1 ORDER BY name",
        [dir],
        below_row,
    )?;
    let sql = "SELECT dir, name, ino, since, kind FROM name WHERE dir >= ?1 AND dir < ?2 ORDER BY dir, name";
    rows.extend(all(conn, sql, params![from, to], below_row)?);
    Ok(rows)
}

pub(crate) fn names_below_at(
    conn: &Connection,
    dir: &str,
    seq: u64,
) -> DbResult<Vec<(String, String, NameRow)>> {
    let (from, to) = below(dir);
    all(
        conn,
        "SELECT dir, name, ino, since, kind FROM name
         WHERE (dir = ?1 OR (dir >= ?2 AND dir < ?3)) AND since <= ?4
         UNION ALL
         SELECT dir, name, ino, since, kind FROM name_past
         WHERE (dir = ?1 OR (dir >= ?2 AND dir < ?3)) AND till > ?4 AND since <= ?4
         ORDER BY dir, name",
        params![dir, from, to, seq],
        below_row,
    )
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
        names.extend(all(
            conn,
            SQL,
            params![ino.min(MAX), span.to, dir, name, top.key(), from, to, left],
            pair,
        )?);
        if names.len() >= limit {
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

/// A node after commit `seq`; the newest version with [`MAX`].
pub(crate) fn node(conn: &Connection, ino: u64, seq: u64) -> DbResult<Option<NodeRow>> {
    const SQL: &str = concat!(
        "SELECT ",
        node_columns!(),
        " FROM node WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1"
    );
    one(conn, SQL, params![ino, seq], |row| node_row(row, 0))
}

/// The node of a live name, in one statement.
pub(crate) fn node_by_name(conn: &Connection, dir: &str, name: &str) -> DbResult<Option<NodeRow>> {
    const SQL: &str = concat!(
        "SELECT ",
        node_columns!(),
        " FROM name CROSS JOIN node ON node.ino = name.ino WHERE name.dir = ?1 AND name.name = ?2
         ORDER BY node.seq DESC LIMIT 1"
    );
    one(conn, SQL, [dir, name], |row| node_row(row, 0))
}

/// The same with its attributes. One statement sees one state, so it needs no transaction around it.
pub(crate) fn entry_by_name(
    conn: &Connection,
    dir: &str,
    name: &str,
) -> DbResult<Option<(NodeRow, Attributes)>> {
    const SQL: &str = concat!(
        "SELECT ",
        node_columns!(),
        ", attribute.json FROM name CROSS JOIN node ON node.ino = name.ino
         LEFT JOIN attribute ON attribute.ino = node.ino AND attribute.seq = node.attrs_seq
         WHERE name.dir = ?1 AND name.name = ?2 ORDER BY node.seq DESC LIMIT 1"
    );
    let found = one(conn, SQL, [dir, name], |row| {
        let node = node_row(row, 0)?;
        let json = row.get_ref(NODE_COLUMNS)?.as_str_or_null().map_err(rusqlite::Error::from)?;
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

fn extent_row(row: &Row<'_>) -> rusqlite::Result<ExtentRow> {
    Ok(ExtentRow {
        off: row.get(0)?,
        len: row.get(1)?,
        since: row.get(2)?,
        chunk: row.get(3)?,
        skip: row.get(4)?,
    })
}

/// Extents of node `?1` that overlap `?4..?3`, now or after commit `?5`. `?2` is [`first_overlap`]: without
/// that bound the index would be read from the first byte of the file on.
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

/// Behind which an extent begins that overlaps `from`: none is longer than [`MAX_EXTENT`].
pub(crate) fn first_overlap(from: u64) -> i64 {
    i64::try_from(from).unwrap_or(i64::MAX) - (MAX_EXTENT as u64).cast_signed()
}

/// Live extents that overlap `from..to`.
pub(crate) fn extents(conn: &Connection, ino: u64, from: u64, to: u64) -> DbResult<Vec<ExtentRow>> {
    const SQL: &str = concat!(extents_sql!(now, "off, len, since, chunk, skip"), " ORDER BY off");
    all(conn, SQL, params![ino, first_overlap(from), to.min(MAX), from], extent_row)
}

/// Extents after commit `seq` that overlap `from..to`.
pub(crate) fn extents_at(
    conn: &Connection,
    ino: u64,
    seq: u64,
    from: u64,
    to: u64,
) -> DbResult<Vec<ExtentRow>> {
    const SQL: &str = concat!(extents_sql!(as_of, "off, len, since, chunk, skip"), " ORDER BY off");
    all(conn, SQL, params![ino, first_overlap(from), to.min(MAX), from, seq], extent_row)
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
