//! Sets and removes quotas, for operators. Commits update their counters.

use rusqlite::Connection;

use crate::engine::sqlite::control;
use crate::engine::sqlite::tables::quotas;
use crate::model::quota::{Limits, Quota};
use crate::path::TreePath;
use crate::rule::{Registry, quota};
use crate::sqlite::DbResult;

/// Sets the quota of a path. If the path had no quota, the names below it are counted; from then on each
/// commit updates the counters.
pub(crate) fn set(
    conn: &Connection,
    registry: &Registry,
    path: &TreePath,
    limits: Limits,
) -> DbResult<Quota> {
    let known = quotas::all_of(conn)?;
    let used = match known.get(path.key()) {
        // The counters are exact already, so new limits cost no count.
        Some(known) => known.used,
        None => {
            known.check_room()?;
            quotas::count(conn, path.key())?
        }
    };
    let quota = Quota { path: path.clone(), limits, used };
    quotas::put(conn, &quota)?;
    control::changed(conn, registry)?;
    Ok(quota)
}

/// Removes the quota of a path.
pub(crate) fn remove(conn: &Connection, registry: &Registry, path: &TreePath) -> DbResult<()> {
    if !quotas::remove(conn, path)? {
        return Err(quota::missing(path).into());
    }
    control::changed(conn, registry)
}

/// Counts the names and bytes below a path with a quota again.
pub(crate) fn recount(conn: &Connection, key: &str) -> DbResult<()> {
    quotas::use_up(conn, key, quotas::count(conn, key)?)
}
