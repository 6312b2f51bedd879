//! Table `snapshot`: commits that have names, each of an owner.

use rusqlite::{Connection, params};

use crate::model::{Owner, Seq, Snapshot, Timestamp};
use crate::sqlite::{DbResult, all, one};

/// Returns true if an owner has a snapshot of this name.
pub(crate) fn exists(conn: &Connection, owner: &str, name: &str) -> DbResult<bool> {
    let sql = "SELECT 1 FROM snapshot WHERE owner = ?1 AND name = ?2";
    Ok(one(conn, sql, [owner, name], |_| Ok(()))?.is_some())
}

/// Returns the commit of a snapshot, unless it is after commit `head`.
pub(crate) fn seq_of(conn: &Connection, owner: &str, name: &str, head: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT seq FROM snapshot WHERE owner = ?1 AND name = ?2 AND seq <= ?3";
    one(conn, sql, params![owner, name, head], |row| row.get(0))
}

/// Calls `take` for each snapshot up to commit `head`, until it returns false: those of an owner after a
/// name, or, with their owners, all after an owner and name.
pub(crate) fn each(
    conn: &Connection,
    own: Option<&Owner>,
    (owner, name): (&str, &str),
    head: u64,
    take: &mut dyn FnMut(Snapshot) -> bool,
) -> DbResult<()> {
    macro_rules! sql {
        ($behind:literal) => {
            concat!(
                "SELECT name, snapshot.seq, log.time, snapshot.owner FROM snapshot
                 JOIN log ON log.seq = snapshot.seq WHERE ",
                $behind,
                " AND snapshot.seq <= ?3 ORDER BY snapshot.owner, name"
            )
        };
    }
    let (sql, owner) = match own {
        Some(own) => (sql!("snapshot.owner = ?1 AND name > ?2"), own.key()),
        None => (sql!("(snapshot.owner, name) > (?1, ?2)"), owner),
    };
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![owner, name, head])?;
    while let Some(row) = rows.next()? {
        // The account sees the snapshots of all owners, so each is returned with its owner.
        let owner = if own.is_none() { Owner::from_key(row.get(3)?) } else { None };
        let (name, seq, time) = (row.get(0)?, Seq(row.get(1)?), Timestamp(row.get(2)?));
        if !take(Snapshot { name, seq, time, owner }) {
            break;
        }
    }
    Ok(())
}

/// Returns a snapshot of the first commit that has one: the commit, the key of its owner, and its name.
pub(crate) fn first(conn: &Connection) -> DbResult<Option<(u64, String, String)>> {
    let sql = "SELECT seq, owner, name FROM snapshot ORDER BY seq LIMIT 1";
    one(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// Returns the commits that have snapshots.
pub(crate) fn commits(conn: &Connection) -> DbResult<Vec<u64>> {
    all(conn, "SELECT DISTINCT seq FROM snapshot", [], |row| row.get(0))
}

/// Writes a snapshot; replaces one of the same name.
pub(crate) fn put(conn: &Connection, owner: &str, name: &str, seq: u64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO snapshot (owner, name, seq) VALUES (?1, ?2, ?3)")?
        .execute(params![owner, name, seq])?;
    Ok(())
}

pub(crate) fn remove(conn: &Connection, owner: &str, name: &str) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM snapshot WHERE owner = ?1 AND name = ?2")?.execute([owner, name])?;
    Ok(())
}
