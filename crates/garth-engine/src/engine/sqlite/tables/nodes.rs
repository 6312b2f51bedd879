//! Tables `node` and `attribute`: the versions of nodes, and the attributes that commits gave them. A version
//! of a directory that differs only in its times is in `dir_time` ([`dir_times`]).

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{NameRow, NewestNode, NodeRow, NodeWrite};
use crate::engine::relational::content_search::ContentVersion;
use crate::engine::sqlite::tables::live_names::name_row;
use crate::engine::sqlite::tables::node_columns::{
    KindColumn, NEWEST_COLUMNS, newest_columns, newest_node, newest_row, node_columns, node_row,
};
use crate::engine::sqlite::tables::past_names::forks;
use crate::engine::sqlite::tables::{MAX, dir_times, replaced};
use crate::error::{Error, ErrorKind};
use crate::model::{Attributes, Kind};
use crate::sqlite::{DbResult, all, one};

/// Returns the newest version of a node, in one statement: its newest row, and the times that a directory got
/// after it.
pub(crate) fn newest(conn: &Connection, ino: u64) -> DbResult<Option<NewestNode>> {
    const SQL: &str =
        concat!("SELECT ", newest_columns!(), " FROM node WHERE ino = ?1 ORDER BY seq DESC LIMIT 1");
    one(conn, SQL, [ino], |row| newest_node(row, 0))
}

/// Returns a node after commit `seq`; the newest version with [`MAX`].
pub(crate) fn version(conn: &Connection, ino: u64, seq: u64) -> DbResult<Option<NodeRow>> {
    const SQL: &str = concat!(
        "SELECT ",
        node_columns!(),
        " FROM node WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1"
    );
    if seq == MAX {
        return Ok(newest(conn, ino)?.map(|node| node.row));
    }
    match one(conn, SQL, [ino, seq], |row| node_row(row, 0))? {
        // A later version may differ only in its times and have no row here.
        Some(node) if node.kind == Kind::Directory => {
            dir_times::with_times(conn, node, seq, forks(conn, seq)?).map(Some)
        }
        node => Ok(node),
    }
}

/// Returns the commit of the version after this one; `None` if it is the newest.
pub(crate) fn next_version(conn: &Connection, node: &NodeRow) -> DbResult<Option<u64>> {
    // Commit 0 is in no fork. A version of the empty tree is looked up at the first commit.
    if node.kind == Kind::Directory
        && let Some(till) = dir_times::end_of(conn, node, forks(conn, node.seq.max(1))?)?
    {
        return Ok(Some(till));
    }
    let sql = "SELECT seq FROM node WHERE ino = ?1 AND seq > ?2 ORDER BY seq LIMIT 1";
    one(conn, sql, [node.ino, node.seq], |row| row.get(0))
}

/// Returns the node of a live name, in one statement.
pub(crate) fn by_name(conn: &Connection, dir: &str, name: &str) -> DbResult<Option<NodeRow>> {
    // CROSS JOIN fixes the order: from the name to its node.
    const SQL: &str = concat!(
        "SELECT ",
        newest_columns!(),
        " FROM name CROSS JOIN node ON node.ino = name.ino WHERE name.dir = ?1 AND name.name = ?2
         ORDER BY node.seq DESC LIMIT 1"
    );
    one(conn, SQL, [dir, name], |row| newest_row(row, 0))
}

/// Returns the row of a live name and its node, in one statement. Only damage leaves a name without a node.
pub(crate) fn with_name(
    conn: &Connection,
    dir: &str,
    name: &str,
) -> DbResult<Option<(NameRow, Option<NewestNode>)>> {
    const SQL: &str = concat!(
        "SELECT name.ino, name.since, name.kind, ",
        newest_columns!(),
        " FROM name LEFT JOIN node ON node.ino = name.ino WHERE name.dir = ?1 AND name.name = ?2
         ORDER BY node.seq DESC LIMIT 1"
    );
    one(conn, SQL, [dir, name], |row| {
        let has_node = row.get::<_, Option<u64>>(3)?.is_some();
        Ok((name_row(row, 0)?, has_node.then(|| newest_node(row, 3)).transpose()?))
    })
}

/// Returns the node of a live name and its attributes, in one statement.
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
    let mut statement = conn.prepare_cached(SQL)?;
    let mut rows = statement.query([dir, name])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let node = newest_row(row, 0)?;
    let json = row.get_ref(NEWEST_COLUMNS)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let attributes = parse_attributes(node.attrs_seq, json)?;
    Ok(Some((node, attributes)))
}

/// Returns the attributes that a node got in commit `seq`.
pub(crate) fn attributes(conn: &Connection, ino: u64, seq: u64) -> DbResult<Attributes> {
    let sql = "SELECT json FROM attribute WHERE ino = ?1 AND seq = ?2";
    let json: Option<String> = one(conn, sql, params![ino, seq], |row| row.get(0))?;
    parse_attributes(seq, json.as_deref())
}

/// Parses the attributes that a node got in commit `seq`, if it has any.
pub(super) fn parse_attributes(seq: u64, json: Option<&str>) -> DbResult<Attributes> {
    if seq == 0 {
        return Ok(Attributes::default());
    }
    let json = json.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the attributes of a node are missing"))?;
    let damaged = |e| Error::new(ErrorKind::Corrupt, "the attributes of a node are damaged").with_source(e);
    Ok(serde_json::from_str(json).map_err(damaged)?)
}

/// Writes a version of a node as the planner decided.
pub(crate) fn put(conn: &Connection, node: &NodeRow, write: &NodeWrite) -> DbResult<()> {
    let (NodeWrite::Times { ended } | NodeWrite::Row { ended, .. }) = write;
    if let Some(ended) = ended {
        dir_times::put_ended(conn, node.ino, ended)?;
    }
    let NodeWrite::Row { drops_times, replaced, .. } = *write else {
        return dir_times::put(conn, node.ino, node.seq, node.mtime);
    };
    if drops_times {
        dir_times::remove(conn, node.ino)?;
    }
    if replaced {
        replaced::put(conn, node.seq, node.ino)?;
    }
    conn.prepare_cached(
        "INSERT INTO node (ino, seq, kind, mode, uid, gid, rdev, nlink, size, mtime, ctime, birthtime, atime, target,
             attrs_seq, expires_at, content_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(params![
        node.ino,
        node.seq,
        KindColumn(node.kind),
        node.mode,
        node.uid,
        node.gid,
        node.rdev.cast_signed(),
        node.nlink,
        node.size,
        node.mtime,
        node.ctime.wrapping_sub(node.mtime),
        node.birthtime,
        node.atime.wrapping_sub(node.birthtime),
        node.target,
        node.attrs_seq,
        node.expires_at,
        node.content_seq,
    ])?;
    Ok(())
}

/// Writes the attributes that a node gets in commit `seq`.
pub(crate) fn put_attributes(conn: &Connection, ino: u64, seq: u64, set: &Attributes) -> DbResult<()> {
    let json = serde_json::to_string(set).map_err(|e| {
        Error::new(ErrorKind::InvalidArgument, "the attributes cannot be stored").with_source(e)
    })?;
    conn.prepare_cached("INSERT INTO attribute (ino, seq, json) VALUES (?1, ?2, ?3)")?
        .execute(params![ino, seq, json])?;
    Ok(())
}

/// Returns the next inode after one.
pub(crate) fn next_ino(conn: &Connection, after: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT min(ino) FROM node WHERE ino > ?1";
    Ok(conn.prepare_cached(sql)?.query_row([after], |row| row.get(0))?)
}

/// Returns the largest size that a node had in the versions from commit `from` up to but excluding `to`.
pub(crate) fn largest_size(conn: &Connection, ino: u64, from: u64, to: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT max(size) FROM node WHERE ino = ?1 AND seq >= ?2 AND seq < ?3";
    Ok(one(conn, sql, params![ino, from, to], |row| row.get(0))?.flatten())
}

/// Returns the version in which a node lost its last name; `None` if it has one.
pub(crate) fn last_unlink(conn: &Connection, ino: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT min(seq) FROM node WHERE ino = ?1 AND seq >
         coalesce((SELECT seq FROM node WHERE ino = ?1 AND nlink > 0 ORDER BY seq DESC LIMIT 1), -1)";
    Ok(one(conn, sql, [ino], |row| row.get(0))?.flatten())
}

/// Removes at most `limit` versions of a node after commit `seq`, the newest first. Returns their number.
pub(crate) fn remove_after(conn: &Connection, ino: u64, seq: u64, limit: usize) -> DbResult<usize> {
    let sql = "DELETE FROM node WHERE ino = ?1 AND seq IN
         (SELECT seq FROM node WHERE ino = ?1 AND seq > ?2 ORDER BY seq DESC LIMIT ?3)";
    Ok(conn.prepare_cached(sql)?.execute(params![ino, seq, limit])?)
}

fn content_version(row: &Row<'_>) -> rusqlite::Result<ContentVersion> {
    Ok(ContentVersion { seq: row.get(0)?, content_seq: row.get(1)?, is_named: row.get(2)? })
}

/// Returns the content that a file had after commit `seq`.
pub(crate) fn content_at(conn: &Connection, ino: u64, seq: u64) -> DbResult<Option<ContentVersion>> {
    let sql = "SELECT seq, content_seq, nlink > 0 FROM node
         WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1";
    one(conn, sql, [ino, seq], content_version)
}

/// Returns the contents of a file in its versions after commit `after` up to `last`, at most `limit`.
pub(crate) fn contents(
    conn: &Connection,
    ino: u64,
    (after, last): (u64, u64),
    limit: usize,
) -> DbResult<Vec<ContentVersion>> {
    let sql = "SELECT seq, content_seq, nlink > 0 FROM node
         WHERE ino = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4";
    all(conn, sql, params![ino, after, last, limit], content_version)
}

/// Returns the link count that a node had after commit `seq`.
pub(crate) fn links_at(conn: &Connection, ino: u64, seq: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT nlink FROM node WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1";
    one(conn, sql, [ino, seq], |row| row.get(0))
}

/// Removes at most `limit` versions of a node that ended at or before commit `till`, the oldest first.
/// Returns their number.
pub(crate) fn fold_before(conn: &Connection, ino: u64, till: u64, limit: usize) -> DbResult<usize> {
    // The newest version until then is that of the oldest state.
    let sql = "DELETE FROM node WHERE ino = ?1 AND seq IN
         (SELECT seq FROM node WHERE ino = ?1
              AND seq < (SELECT max(seq) FROM node WHERE ino = ?1 AND seq <= ?2) ORDER BY seq LIMIT ?3)";
    Ok(conn.prepare_cached(sql)?.execute(params![ino, till, limit])?)
}

/// Removes at most `limit` sets of attributes that only versions which ended at or before commit `till` had.
/// These versions are gone. Returns the number of sets.
pub(crate) fn fold_attributes(conn: &Connection, ino: u64, till: u64, limit: usize) -> DbResult<usize> {
    // A later version has the attributes of that version, or later ones.
    let sql = "DELETE FROM attribute WHERE ino = ?1 AND seq IN
         (SELECT seq FROM attribute WHERE ino = ?1 AND seq <= ?2 AND seq <>
              (SELECT attrs_seq FROM node WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1)
          ORDER BY seq LIMIT ?3)";
    Ok(conn.prepare_cached(sql)?.execute(params![ino, till, limit])?)
}

/// Removes the last version of a node, with its attributes. Returns the number of versions.
pub(crate) fn remove(conn: &Connection, ino: u64) -> DbResult<usize> {
    conn.prepare_cached("DELETE FROM attribute WHERE ino = ?1")?.execute([ino])?;
    Ok(conn.prepare_cached("DELETE FROM node WHERE ino = ?1")?.execute([ino])?)
}

/// Returns the nodes after inode `after`, at most `limit`.
pub(crate) fn inos_after(conn: &Connection, after: u64, limit: usize) -> DbResult<Vec<u64>> {
    let sql = "SELECT DISTINCT ino FROM node WHERE ino > ?1 ORDER BY ino LIMIT ?2";
    all(conn, sql, params![after, limit], |row| row.get(0))
}

/// Returns the number of versions of a node up to commit `last`.
pub(crate) fn count_until(conn: &Connection, ino: u64, last: u64) -> DbResult<u64> {
    let sql = "SELECT count(*) FROM node WHERE ino = ?1 AND seq <= ?2";
    Ok(conn.prepare_cached(sql)?.query_row([ino, last], |row| row.get(0))?)
}

/// Returns the nodes after inode `after` up to `last` that have several versions or no name.
pub(crate) fn with_past(conn: &Connection, after: u64, last: u64) -> DbResult<Vec<u64>> {
    let sql = "SELECT ino FROM node WHERE ino > ?1 AND ino <= ?2
         GROUP BY ino HAVING count(*) > 1 OR min(nlink) = 0";
    all(conn, sql, [after, last], |row| row.get(0))
}

/// Removes at most `limit` sets of attributes that a node got after commit `seq`. Returns their number.
pub(crate) fn remove_attributes_after(
    conn: &Connection,
    ino: u64,
    seq: u64,
    limit: usize,
) -> DbResult<usize> {
    let sql = "DELETE FROM attribute WHERE ino = ?1 AND seq IN
         (SELECT seq FROM attribute WHERE ino = ?1 AND seq > ?2 ORDER BY seq DESC LIMIT ?3)";
    Ok(conn.prepare_cached(sql)?.execute(params![ino, seq, limit])?)
}
