//! Checks all rows of an account without changing them, and reports each flaw with its place.
//!
//! The check works in pieces, each in a read transaction of its own and mostly one round trip. A row is
//! checked together with the rows that it must fit, in one piece; what a commit changes between two pieces is
//! checked as it is then. References, sums and quotas are counted in one state each, page by page. Memory
//! does not grow with the account, except for one number for each chunk of a window.
//!
//! - `log`: the head row and the log; `names`: names, nodes, expiry and times; `past`: names that have ended;
//! - `content`: chunks and extents; `references`: counts of references;
//! - `passages`, `keys`: the search index and the keys that are derived from nodes;
//! - `control`: quotas, and how far files satisfy rules.

mod content;
mod control;
mod keys;
mod log;
mod names;
mod passages;
mod past;
mod references;

use std::sync::Arc;

use garth_engine::fs::store::Fsck;
use garth_engine::{ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Pages, Param, Pool, param};
use crate::commit::Committer;
use crate::values::columns::int;

/// Rows of a piece.
const ROWS: i64 = 1000;

/// A check in progress.
struct Check<'a> {
    pool: &'a Arc<Pool>,
    committer: &'a Committer,
    report: Fsck,
}

/// Checks an account, see [`AccountStore::fsck`](garth_engine::AccountStore::fsck).
///
/// # Errors
/// Errors of the database. Damage is part of the report.
pub(crate) async fn check(pool: &Arc<Pool>, committer: &Committer) -> Result<Fsck> {
    let mut check = Check { pool, committer, report: Fsck::default() };
    let done = check.log().await;
    check.part(done)?;
    let done = check.names().await;
    check.part(done)?;
    let done = check.nodes().await;
    check.part(done)?;
    let done = check.times().await;
    check.part(done)?;
    let done = check.past_names().await;
    check.part(done)?;
    let done = check.chunks().await;
    check.part(done)?;
    let done = check.extents().await;
    check.part(done)?;
    let done = check.references().await;
    check.part(done)?;
    let done = check.passages().await;
    check.part(done)?;
    let done = check.keys().await;
    check.part(done)?;
    let done = check.quotas().await;
    check.part(done)?;
    let done = check.judged().await;
    check.part(done)?;
    Ok(check.report)
}

impl Check<'_> {
    /// Ends a part. Damage that stopped it becomes a finding, so that the other parts still run.
    fn part(&mut self, done: Result<()>) -> Result<()> {
        match done {
            Err(error) if error.is(ErrorKind::Corrupt) => {
                self.report.add("database", error.to_string());
                Ok(())
            }
            other => other,
        }
    }

    fn account(&self) -> i64 {
        self.committer.account
    }

    /// Reads a piece in a transaction of its own. The first parameter of the statement is the account.
    async fn piece(&self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        let conn = self.pool.connection().await?;
        let rows = Pages::new(&conn, self.account()).last(sql, params).await;
        conn.settle(rows).await
    }
}

/// Returns a number as a parameter.
fn count(number: u64) -> Param {
    param(int(number), Type::INT8)
}

/// Returns the limit of a piece as a parameter.
fn rows(limit: i64) -> Param {
    param(limit, Type::INT8)
}

/// Returns a text as a parameter.
fn text(text: &str) -> Param {
    param(text.to_owned(), Type::TEXT)
}
