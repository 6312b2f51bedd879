//! Short forms for running cached statements.

use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::error::DbResult;

/// Runs a query and collects its rows.
pub(crate) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> DbResult<Vec<T>> {
    Ok(conn.prepare_cached(sql)?.query_map(params, read)?.collect::<rusqlite::Result<_>>()?)
}

/// Runs a query for at most one row.
pub(crate) fn one<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> DbResult<Option<T>> {
    Ok(conn.prepare_cached(sql)?.query_row(params, read).optional()?)
}
