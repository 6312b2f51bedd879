//! Table `quota`: limits and counters of paths. Also counts what is below a path, name by name.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::engine::planner::{Region, Tally};
use crate::engine::sqlite::tables::live_names;
use crate::model::quota::{Limits, Quota, Usage};
use crate::path::TreePath;
use crate::rule::quota::{self, Count, Quotas};
use crate::sqlite::{DbResult, all};

/// Returns all quotas of the tree.
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

/// Writes the usage below a path after a commit.
pub(crate) fn use_up(conn: &Connection, key: &str, used: Usage) -> DbResult<()> {
    conn.prepare_cached("UPDATE quota SET bytes = ?2, entries = ?3 WHERE path = ?1")?.execute(params![
        key,
        used.bytes,
        used.entries
    ])?;
    Ok(())
}

/// Writes a quota: its limits and its usage.
pub(crate) fn put(conn: &Connection, Quota { path, limits, used }: &Quota) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO quota (path, max_bytes, max_entries, bytes, entries)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![path.key(), limits.bytes, limits.entries, used.bytes, used.entries])?;
    Ok(())
}

/// Removes the quota of a path. Returns false if it has none.
pub(crate) fn remove(conn: &Connection, path: &TreePath) -> DbResult<bool> {
    Ok(conn.prepare_cached("DELETE FROM quota WHERE path = ?1")?.execute([path.key()])? > 0)
}

/// Counts the names and bytes in ranges of directories.
pub(crate) fn tally(conn: &Connection, ranges: &[(String, String)]) -> DbResult<Tally> {
    let mut tally = Tally::default();
    live_names::each_file(conn, ranges, |file| {
        tally.entries += 1;
        match file {
            Some((_, 1, size)) => tally.bytes += u128::from(size),
            // A file with several names counts its bytes once below each path, so the caller looks at all of
            // its names.
            Some((ino, _, _)) => drop(tally.shared.insert(ino)),
            None => {}
        }
    })?;
    Ok(tally)
}

/// Counts the names and bytes below a path.
pub(crate) fn count(conn: &Connection, key: &str) -> DbResult<Usage> {
    let ranges = Region { dir: key.to_owned(), ..Region::default() }.ranges();
    let (mut counted, mut shared) = (Count::default(), BTreeSet::new());
    live_names::each_file(conn, &ranges, |file| {
        counted.entries += 1;
        if let Some((ino, names, size)) = file
            && (names == 1 || shared.insert(ino))
        {
            counted.bytes += i128::from(size);
        }
    })?;
    Ok(quota::counted(&TreePath::from_key(key.to_owned()), counted)?)
}
