//! SQL function `fork`, with which statements store a span of commits where [`interval`] finds it.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::engine::relational::interval;

/// Registers the SQL function `fork(since, till)`.
pub(crate) fn register(conn: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("fork", 2, flags, |values| Ok(interval::fork(values.get(0)?, values.get(1)?)))
}
