//! Table `name_past`: names that have ended, each stored at the fork of its span of commits ([`interval`]).
//! The names of the past are these and the live names that are old enough.

use rusqlite::{Connection, params};

use crate::engine::planner::NameRow;
use crate::engine::relational::interval;
use crate::engine::relational::reads::tree_rows::NameSpan;
use crate::engine::sqlite::tables::live_names::{below, below_row, name_row, pair};
use crate::engine::sqlite::tables::node_columns::KindColumn;
use crate::engine::sqlite::tables::{MAX, head};
use crate::sqlite::{DbResult, all, one};

/// Returns the row of a name after commit `seq`. Of the spans that have ended, only the first to end
/// after `seq` is read: a name stands for one node at a time.
pub(crate) fn get_at(conn: &Connection, dir: &str, name: &str, seq: u64) -> DbResult<Option<NameRow>> {
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

/// Returns at most `limit` names below a directory after commit `seq`, sorted. If there are more, it is open
/// which.
pub(crate) fn below_at(
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

/// Returns the forks at which past names that existed after commit `seq` are stored.
pub(crate) fn forks(conn: &Connection, seq: u64) -> DbResult<impl Iterator<Item = u64> + use<>> {
    Ok(interval::forks_at(seq, head::get(conn)?.seq))
}

/// Records that a name ends with a commit.
pub(crate) fn end(conn: &Connection, (dir, name): (&str, &str), row: &NameRow, seq: u64) -> DbResult<()> {
    let NameRow { ino, since, kind } = *row;
    // The name began in this commit, so no state has it.
    if since >= seq {
        return Ok(());
    }
    // Only the last few names that the node left are searched for this one: a node may have had any number.
    conn.prepare_cached(
        "INSERT INTO name_past (dir, name, till, ino, since, kind, fork, born, born_fork)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, fork(?5, ?3), born, fork(born, ?3)
         FROM (SELECT coalesce(
             (SELECT max(till) FROM (SELECT dir, name, till FROM name_past WHERE ino = ?4 ORDER BY till DESC LIMIT 8)
              WHERE dir = ?1 AND name = ?2),
             (SELECT min(seq) FROM node WHERE ino = ?4),
             ?5
         ) AS born)",
    )?
    .execute(params![dir, name, seq, ino, since, KindColumn(kind)])?;
    Ok(())
}

/// Key of an ended name, with the fork at which it is stored.
#[derive(Clone)]
pub(crate) struct EndedName {
    pub(crate) fork: u64,
    dir: String,
    name: String,
    till: u64,
}

impl EndedName {
    /// Returns a key before those of the names at a fork.
    pub(crate) fn before(fork: u64) -> Self {
        // No name is empty.
        Self { fork, dir: String::new(), name: String::new(), till: 0 }
    }
}

/// Returns at most `limit` names that ended at or before commit `seq`, in order of their forks, directories
/// and names, after one of them.
pub(crate) fn ended_until(
    conn: &Connection,
    seq: u64,
    after: &EndedName,
    limit: usize,
) -> DbResult<Vec<EndedName>> {
    // A name that ended until then is stored at an earlier fork. Only at the forks of the commit itself are
    // there later names as well. A fork has one span of each name at most, because all of them contain it.
    let sql = "SELECT fork, dir, name, till FROM name_past INDEXED BY name_past_fork
         WHERE (fork, dir, name) > (?1, ?2, ?3) AND fork < ?4 AND till <= ?4 ORDER BY fork, dir, name LIMIT ?5";
    all(conn, sql, params![after.fork, after.dir, after.name, seq, limit], |row| {
        Ok(EndedName { fork: row.get(0)?, dir: row.get(1)?, name: row.get(2)?, till: row.get(3)? })
    })
}

/// Removes an ended name.
pub(crate) fn remove(conn: &Connection, key: &EndedName) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM name_past WHERE dir = ?1 AND name = ?2 AND till = ?3")?
        .execute(params![key.dir, key.name, key.till])?;
    Ok(())
}

/// Returns true if a path named anything at or before commit `seq`, in spans that ended after commit
/// `oldest`.
pub(crate) fn was_used(
    conn: &Connection,
    (dir, name): (&str, &str),
    oldest: u64,
    seq: u64,
) -> DbResult<bool> {
    // Of the ended spans the first to end is also the first to begin.
    let sql = "SELECT 1 FROM name WHERE dir = ?1 AND name = ?2 AND since <= ?3
         UNION ALL
         SELECT 1 FROM (SELECT since FROM name_past WHERE dir = ?1 AND name = ?2 AND till > ?4 ORDER BY till LIMIT 1)
         WHERE since <= ?3
         LIMIT 1";
    Ok(one(conn, sql, params![dir, name, seq, oldest], |_| Ok(()))?.is_some())
}

/// Returns the newest span of a path that ended before commit `till`.
pub(crate) fn ended_before(
    conn: &Connection,
    dir: &str,
    name: &str,
    till: u64,
) -> DbResult<Option<NameSpan>> {
    let sql = "SELECT ino, since, till FROM name_past WHERE dir = ?1 AND name = ?2 AND till < ?3
         ORDER BY till DESC LIMIT 1";
    one(conn, sql, params![dir, name, till.min(MAX)], |row| {
        Ok(NameSpan { ino: row.get(0)?, since: row.get(1)?, till: row.get(2)? })
    })
}

/// Returns the nodes that existed at commit `seq` and got a path later, up to commit `until`.
pub(crate) fn came_later(
    conn: &Connection,
    (dir, name): (&str, &str),
    seq: u64,
    until: u64,
) -> DbResult<Vec<u64>> {
    let live = "SELECT ino FROM name WHERE dir = ?1 AND name = ?2 AND since > ?3 AND since <= ?4
         AND EXISTS (SELECT 1 FROM node WHERE node.ino = name.ino AND seq <= ?3)";
    let mut found = all(conn, live, params![dir, name, seq, until], |row| row.get(0))?;
    // `born < since` repeats the condition of the partial index, which SQLite would not use without it.
    let past = "SELECT ino FROM name_past INDEXED BY name_past_moved
         WHERE dir = ?1 AND name = ?2 AND born_fork = ?5 AND born < since
             AND since > ?3 AND since <= ?4 AND born <= ?3 AND till > ?3";
    for fork in forks(conn, seq)? {
        found.extend(all(conn, past, params![dir, name, seq, until, fork], |row| row.get::<_, u64>(0))?);
    }
    Ok(found)
}

/// Returns the last commit at or before `seq` that ended a name of a node.
pub(crate) fn last_end(conn: &Connection, ino: u64, seq: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT max(till) FROM name_past WHERE ino = ?1 AND till <= ?2";
    Ok(one(conn, sql, params![ino, seq], |row| row.get(0))?.flatten())
}

/// Returns the last commit at or before `seq` that ended a name of a node, of the names for which `counts`
/// returns true. It gets directory and name, and the commit that ended the name.
pub(crate) fn last_end_of(
    conn: &Connection,
    ino: u64,
    seq: u64,
    counts: impl Fn(&str, &str, u64) -> DbResult<bool>,
) -> DbResult<Option<u64>> {
    let sql = "SELECT dir, name, till FROM name_past WHERE ino = ?1 AND till <= ?2 ORDER BY till DESC";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![ino, seq])?;
    while let Some(row) = rows.next()? {
        let ((dir, name), till) = (pair(row)?, row.get(2)?);
        if counts(&dir, &name, till)? {
            return Ok(Some(till));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::SqliteFs;
    use crate::engine::sqlite::schema;
    use crate::env::Env;
    use crate::sqlite::steps;

    #[test]
    fn each_page_of_ended_names_costs_the_same() {
        steps::assert_same([10, 1000], |staying| {
            let folder = tempfile::tempdir().unwrap();
            SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
            let conn = schema::database(folder.path()).connect().unwrap();
            // All at fork 4: commit 6 ended the last three, commit 8 the others.
            for n in 0..staying + 3 {
                let till = if n < staying { 8 } else { 6 };
                let sql = "INSERT INTO name_past (dir, name, till, ino, since, kind, fork, born, born_fork)
                     VALUES ('/d', ?1, ?2, 9, 3, 1, fork(3, ?2), 3, fork(3, ?2))";
                conn.execute(sql, params![format!("{n:04}"), till]).unwrap();
            }
            let name = format!("{:04}", staying - 1);
            let after = EndedName { dir: "/d".to_owned(), name, ..EndedName::before(4) };
            let (found, steps) = steps::here(|| ended_until(&conn, 6, &after, 3).unwrap());
            assert_eq!(found.len(), 3);
            steps
        });
    }
}
