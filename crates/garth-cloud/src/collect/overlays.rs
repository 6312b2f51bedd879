//! Overlays that were created or removed while a collection ran.

use garth_engine::Result;
use garth_engine::fs::forks;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::step::Statement;
use crate::client::param;
use crate::values::columns::number;

/// Last commit that added or removed an entry of a directory: one that created or removed an overlay.
const CHANGED: &str = "SELECT greatest(v.seq, t.seq) FROM garth.name n
    CROSS JOIN LATERAL (SELECT seq FROM garth.node
        WHERE account = $1 AND ino = n.ino ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN garth.dir_time t ON t.account = $1 AND t.ino = n.ino
    WHERE n.account = $1 AND n.dir = $2 AND n.name = $3";

/// Returns the statement whose rows [`changed`] reads. A step runs it behind the lock.
///
/// # Errors
/// None: the path of the overlays is valid.
pub(super) fn statement() -> Result<Statement> {
    let overlays = forks::overlays()?;
    let (dir, name) = overlays.key().rsplit_once('/').unwrap_or_default();
    Ok((CHANGED, [dir, name].map(|text| param(text.to_owned(), Type::TEXT)).into()))
}

/// Returns the last commit that may have created or removed an overlay; 0 if there never was one.
///
/// # Errors
/// `Corrupt` for a row that cannot be read.
pub(super) fn changed(rows: &[Row]) -> Result<u64> {
    rows.first().map_or(Ok(0), |row| number(row, 0))
}
