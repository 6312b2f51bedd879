//! Retention of an account as its rows have it, with the state that it applies to.

use std::time::Duration;

use garth_engine::engine::planner::HeadRow;
use garth_engine::engine::relational::retention::content_limit;
use garth_engine::model::Timestamp;
use garth_engine::rule::retention::Retention;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;

use super::step::{Statement, read};
use crate::store::PgStore;
use crate::values::columns::{column, head, number};
use crate::weights::stored_bytes;

const HEAD: &str = concat!(
    "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded, ",
    stored_bytes!(),
    ", garth.now() FROM garth.head WHERE account = $1"
);
const RETENTION: &str = "SELECT age, commits, stored FROM garth.retention WHERE account = $1";
const CONTENT: &str =
    r#"SELECT class, keep FROM garth.content_limit WHERE account = $1 ORDER BY class COLLATE "C""#;

/// Retention of an account, its head row, and the time of the database.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) head: HeadRow,
    pub(crate) now: Timestamp,
    /// Stored bytes.
    pub(crate) stored: u64,
    /// Retention as it was set.
    pub(crate) set: Retention,
}

impl Limits {
    /// Reads the rows of one state.
    ///
    /// # Errors
    /// `NotFound` if the account was deleted; `Corrupt` for a content limit that cannot be read; errors of
    /// the database.
    pub(crate) async fn read(store: &PgStore) -> Result<Self> {
        let [limits, content] = statements();
        let [account, limits, content] = read(store, [(HEAD, Vec::new()), limits, content]).await?;
        let deleted = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
        let row = account.first().ok_or_else(deleted)?;
        Ok(Self {
            head: head(row)?,
            stored: number(row, 8)?,
            now: Timestamp(column(row, 9)?),
            set: retention(&limits, &content)?,
        })
    }
}

/// Returns the statements whose rows [`retention`] reads.
pub(crate) fn statements() -> [Statement; 2] {
    [(RETENTION, Vec::new()), (CONTENT, Vec::new())]
}

/// Reads the retention from its rows.
///
/// # Errors
/// `Corrupt` for a content limit that cannot be read.
pub(crate) fn retention(limits: &[Row], content: &[Row]) -> Result<Retention> {
    let mut read = Retention::default();
    if let Some(row) = limits.first() {
        let limit = |at| Ok::<_, Error>(column::<Option<i64>>(row, at)?.map(i64::cast_unsigned));
        (read.age, read.commits, read.stored) = (limit(0)?.map(Duration::from_secs), limit(1)?, limit(2)?);
    }
    let content = content.iter().map(|row| content_limit(column(row, 0)?, number(row, 1)?));
    read.content = content.collect::<Result<_>>()?;
    Ok(read)
}
