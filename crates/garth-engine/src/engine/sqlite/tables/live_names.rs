//! Table `name`: the names of the newest state, by the key of their directory.

use std::collections::BTreeSet;

use rusqlite::{CachedStatement, Connection, Row, params};

use crate::engine::planner::{Key, NameRow, Region};
use crate::engine::sqlite::tables::node_columns::KindColumn;
use crate::model::{Kind, Within};
use crate::path::TreePath;
use crate::sqlite::{DbResult, all, one};

/// Returns the range of keys of the directories below `dir`: from the first up to but excluding the second.
/// `0` is the byte after `/`, so a sibling such as `dir-b` is not among them.
pub(super) fn below(dir: &str) -> (String, String) {
    (format!("{dir}/"), format!("{dir}0"))
}

/// Reads a name whose columns `ino`, `since`, `kind` begin at `at`.
pub(super) fn name_row(row: &Row<'_>, at: usize) -> rusqlite::Result<NameRow> {
    Ok(NameRow { ino: row.get(at)?, since: row.get(at + 1)?, kind: row.get::<_, KindColumn>(at + 2)?.0 })
}

/// Reads a name with its directory: columns `dir, name, ino, since, kind`.
pub(super) fn below_row(row: &Row<'_>) -> rusqlite::Result<(String, String, NameRow)> {
    Ok((row.get(0)?, row.get(1)?, name_row(row, 2)?))
}

/// Reads columns `dir, name`.
pub(super) fn pair(row: &Row<'_>) -> rusqlite::Result<(String, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Returns the row of a name in a directory.
pub(crate) fn get(conn: &Connection, dir: &str, name: &str) -> DbResult<Option<NameRow>> {
    one(conn, "SELECT ino, since, kind FROM name WHERE dir = ?1 AND name = ?2", [dir, name], |row| {
        name_row(row, 0)
    })
}

/// Returns at most `limit` names of a directory, in order.
pub(crate) fn in_directory(conn: &Connection, dir: &str, limit: usize) -> DbResult<Vec<(String, NameRow)>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = "SELECT name, ino, since, kind FROM name WHERE dir = ?1 ORDER BY name LIMIT ?2";
    all(conn, sql, params![dir, limit], |row| Ok((row.get(0)?, name_row(row, 1)?)))
}

/// Returns true if a directory has more than `count` names after one.
pub(crate) fn has_more(conn: &Connection, dir: &str, after: &str, count: u64) -> DbResult<bool> {
    let sql = "SELECT 1 FROM name WHERE dir = ?1 AND name > ?2 LIMIT 1 OFFSET ?3";
    Ok(one(conn, sql, params![dir, after, count], |_| Ok(()))?.is_some())
}

/// Returns at most `limit` nodes at and below a top, in no order. A node with several names there is returned
/// once for each, and nodes of excluded entries may be among them.
pub(crate) fn nodes_within(
    conn: &Connection,
    within: &Within,
    top: &TreePath,
    limit: usize,
) -> DbResult<Vec<u64>> {
    // No entry has an empty name, so the name of the root matches nothing.
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

/// Returns the ranges of keys of the directories at and below a top, excluding what `within` excludes. The
/// end of a range is exclusive. The name of an excluded entry itself is in a range.
pub(super) fn directories(within: &Within, top: &TreePath) -> Vec<(String, String)> {
    let without = within.exclusions_below(top).map(|path| path.key().to_owned()).collect();
    Region { dir: top.key().to_owned(), without, ..Region::default() }.ranges()
}

/// Returns at most `limit` names in a region.
pub(crate) fn in_region(
    conn: &Connection,
    region: &Region,
    limit: usize,
) -> DbResult<Vec<(String, String, NameRow)>> {
    let mut rows = Vec::new();
    for (from, to) in region.ranges() {
        rows.extend(after(conn, (&from, ""), &to, limit - rows.len())?);
    }
    Ok(rows)
}

/// Returns at most `limit` names after a directory and name, in directories up to but excluding `end`.
pub(crate) fn after(
    conn: &Connection,
    (dir, name): (&str, &str),
    end: &str,
    limit: usize,
) -> DbResult<Vec<(String, String, NameRow)>> {
    let sql = "SELECT dir, name, ino, since, kind FROM name WHERE (dir, name) > (?1, ?2) AND dir < ?3
         ORDER BY dir, name LIMIT ?4";
    all(conn, sql, params![dir, name, end, limit], below_row)
}

/// Returns the number of names in the ranges of a region, and the bytes of their paths.
pub(crate) fn size(conn: &Connection, region: &Region) -> DbResult<(u64, u64)> {
    let sql = "SELECT count(*), coalesce(sum(octet_length(dir) + octet_length(name)), 0) FROM name
         WHERE dir >= ?1 AND dir < ?2";
    let (mut names, mut bytes) = (0, 0);
    for (from, to) in region.ranges() {
        let row = |row: &Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?));
        let found = conn.prepare_cached(sql)?.query_row([from, to], row)?;
        (names, bytes) = (names + found.0, bytes + found.1);
    }
    Ok((names, bytes))
}

/// Returns the length in bytes of the longest path of a name in a region, 0 if there is none, and the number
/// of names that were read.
pub(crate) fn longest_path(conn: &Connection, region: &Region) -> DbResult<(usize, usize)> {
    // The limit of a path counts bytes, `length` of SQL counts characters.
    let sql = "SELECT max(octet_length(dir) + 1 + octet_length(name)), count(*) FROM name
         WHERE dir >= ?1 AND dir < ?2";
    let (mut longest, mut read) = (0, 0);
    for (from, to) in region.ranges() {
        let (found, names): (Option<usize>, usize) = match region.names.is_empty() {
            true => conn.prepare_cached(sql)?.query_row([from, to], |row| Ok((row.get(0)?, row.get(1)?)))?,
            false => longest_but(conn, (&from, &to), &region.names)?,
        };
        (longest, read) = (longest.max(found.unwrap_or_default()), read + names);
    }
    Ok((longest, read))
}

/// Returns the length of the longest path in a range of directories, `names` excluded, and the number of
/// names that were returned to find it.
fn longest_but(
    conn: &Connection,
    (from, to): (&str, &str),
    names: &BTreeSet<Key>,
) -> DbResult<(Option<usize>, usize)> {
    // One more than are excluded: at least one of them counts.
    let sql = "SELECT dir, name FROM name WHERE dir >= ?1 AND dir < ?2
         ORDER BY octet_length(dir) + octet_length(name) DESC LIMIT ?3";
    let found: Vec<Key> = all(conn, sql, params![from, to, names.len() + 1], pair)?;
    let longest = found.iter().find(|key| !names.contains(key));
    Ok((longest.map(|(dir, name)| dir.len() + 1 + name.len()), found.len()))
}

/// Calls `take` for each name in ranges of directories: with inode, link count and size for a file, with
/// `None` for anything else.
pub(crate) fn each_file(
    conn: &Connection,
    ranges: &[(String, String)],
    mut take: impl FnMut(Option<(u64, u64, u64)>),
) -> DbResult<()> {
    let mut names = conn.prepare_cached(
        "SELECT node.ino, node.nlink, node.size FROM name LEFT JOIN node ON name.kind = ?3
             AND node.ino = name.ino AND node.seq = (SELECT max(seq) FROM node WHERE ino = name.ino)
         WHERE dir >= ?1 AND dir < ?2",
    )?;
    for (from, to) in ranges {
        let mut rows = names.query(params![from, to, KindColumn(Kind::File)])?;
        while let Some(row) = rows.next()? {
            // The kind is a condition of the join, so names of other kinds have no node here.
            take(match row.get::<_, Option<u64>>(0)? {
                Some(ino) => Some((ino, row.get(1)?, row.get(2)?)),
                None => None,
            });
        }
    }
    Ok(())
}

/// Writes a name, replacing an existing one.
pub(crate) fn put(conn: &Connection, dir: &str, name: &str, row: &NameRow) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO name (dir, name, ino, since, kind) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![dir, name, row.ino, row.since, KindColumn(row.kind)])?;
    Ok(())
}

pub(crate) fn remove(conn: &Connection, dir: &str, name: &str) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM name WHERE dir = ?1 AND name = ?2")?.execute([dir, name])?;
    Ok(())
}

/// Creates the temporary table for names that move to places that are still occupied.
pub(crate) fn make_arriving(conn: &Connection) -> DbResult<()> {
    conn.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS arriving (
             dir TEXT NOT NULL, name TEXT NOT NULL, ino INTEGER NOT NULL, kind INTEGER NOT NULL
         )",
    )?;
    Ok(())
}

/// Moves the waiting names to their places, as of commit `seq`.
pub(crate) fn settle_arriving(conn: &Connection, seq: u64) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT INTO name (dir, name, ino, since, kind) SELECT dir, name, ino, ?1, kind FROM temp.arriving",
    )?
    .execute([seq])?;
    // The temporary table lives as long as the connection.
    conn.prepare_cached("DELETE FROM temp.arriving")?.execute([])?;
    Ok(())
}

/// Statements that move the names of a subtree, prepared once for all of its pieces.
pub(crate) struct Mover<'a> {
    rename: CachedStatement<'a>,
    wait: CachedStatement<'a>,
    delete: CachedStatement<'a>,
}

impl<'a> Mover<'a> {
    pub(crate) fn new(conn: &'a Connection) -> DbResult<Self> {
        Ok(Self {
            rename: conn
                .prepare_cached("UPDATE name SET dir = ?3, since = ?4 WHERE dir = ?1 AND name = ?2")?,
            wait: conn
                .prepare_cached("INSERT INTO temp.arriving (dir, name, ino, kind) VALUES (?1, ?2, ?3, ?4)")?,
            delete: conn.prepare_cached("DELETE FROM name WHERE dir = ?1 AND name = ?2")?,
        })
    }

    /// Moves a name to another directory, as of commit `seq`.
    pub(crate) fn rename(&mut self, dir: &str, name: &str, to: &str, seq: u64) -> DbResult<()> {
        self.rename.execute(params![dir, name, to, seq])?;
        Ok(())
    }

    /// Removes a name. It waits for [`settle_arriving`] to get its place in `to`.
    pub(crate) fn wait(&mut self, dir: &str, name: &str, to: &str, row: &NameRow) -> DbResult<()> {
        self.wait.execute(params![to, name, row.ino, KindColumn(row.kind)])?;
        self.remove(dir, name)
    }

    pub(crate) fn remove(&mut self, dir: &str, name: &str) -> DbResult<()> {
        self.delete.execute([dir, name])?;
        Ok(())
    }
}
