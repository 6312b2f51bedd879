//! Writes quotas: their limits, which operators set, and their counters, which commits change.

use rusqlite::{Connection, params};

use crate::engine::sqlite::control;
use crate::engine::sqlite::read::quotas::{all_of, count};
use crate::error::{Error, ErrorKind};
use crate::model::quota::{Limits, MAX_QUOTAS, Quota, Usage};
use crate::path::TreePath;
use crate::rule::Registry;
use crate::sqlite::DbResult;

/// Writes what a commit has left used below a path.
pub(crate) fn use_up(conn: &Connection, key: &str, used: Usage) -> DbResult<()> {
    conn.prepare_cached("UPDATE quota SET bytes = ?2, entries = ?3 WHERE path = ?1")?.execute(params![
        key,
        used.bytes,
        used.entries
    ])?;
    Ok(())
}

/// Sets the quota of a path. What is below is counted once, when it gets its first: from then on each commit
/// keeps the count.
pub(crate) fn set(
    conn: &Connection,
    registry: &Registry,
    path: &TreePath,
    limits: Limits,
) -> DbResult<Quota> {
    let quotas = all_of(conn)?;
    let used = match quotas.get(path.key()) {
        Some(known) => known.used,
        None if quotas.iter().count() >= MAX_QUOTAS => {
            let message = format!("a tree has at most {MAX_QUOTAS} quotas; remove one first");
            return Err(Error::new(ErrorKind::TooLarge, message).into());
        }
        None => count(conn, path.key())?,
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO quota (path, max_bytes, max_entries, bytes, entries)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![path.key(), limits.bytes, limits.entries, used.bytes, used.entries])?;
    control::changed(conn, registry)?;
    Ok(Quota { path: path.clone(), limits, used })
}

/// Removes the quota of a path.
pub(crate) fn remove(conn: &Connection, registry: &Registry, path: &TreePath) -> DbResult<()> {
    if conn.prepare_cached("DELETE FROM quota WHERE path = ?1")?.execute([path.key()])? == 0 {
        return Err(Error::at(ErrorKind::NotFound, path, "has no quota").into());
    }
    control::changed(conn, registry)
}

/// Counts again what is below a path that has a quota.
pub(crate) fn recount(conn: &Connection, key: &str) -> DbResult<()> {
    use_up(conn, key, count(conn, key)?)
}
