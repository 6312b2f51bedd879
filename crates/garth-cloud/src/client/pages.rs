//! Transactions that read a table page by page.

use std::time::Duration;

use garth_engine::Result;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::pipe::{Param, Pipe, param};
use super::settings::begin_reads;

/// Limit on the time of a statement.
const TIME: Duration = Duration::from_secs(30);

/// Transaction whose statements read one state of an account, one page in each round trip. It holds no lock,
/// but as long as it lasts, the database cannot remove old versions of rows.
///
/// Statements read ranges of indexes in their order. As long as a table has no statistics, the database would
/// rather collect and sort all rows of a range than stop at the limit, so it is not offered that.
pub(crate) struct Pages<'c> {
    conn: &'c Connection,
    account: i64,
    is_open: bool,
}

impl<'c> Pages<'c> {
    /// Creates a transaction that begins with its first statement.
    pub(crate) fn new(conn: &'c Connection, account: i64) -> Self {
        Self { conn, account, is_open: false }
    }

    /// Runs a statement, whose first parameter is the account.
    ///
    /// # Errors
    /// Errors of the database: then the transaction is to be rolled back.
    pub(crate) async fn query(&mut self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        self.run(sql, params, false).await
    }

    /// Runs a statement as [`query`](Self::query) does, and ends the transaction in the same round trip.
    ///
    /// # Errors
    /// Errors of the database: then the transaction is to be rolled back.
    pub(crate) async fn last(mut self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        self.run(sql, params, true).await
    }

    /// Ends the transaction.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn end(self) -> Result<()> {
        let mut pipe = Pipe::new(self.conn);
        if self.is_open {
            pipe.simple("COMMIT");
        }
        pipe.run().await.map(drop)
    }

    async fn run(&mut self, sql: &'static str, params: Vec<Param>, ends: bool) -> Result<Vec<Row>> {
        let mut pipe = Pipe::new(self.conn);
        if !self.is_open {
            self.is_open = true;
            pipe.simple(begin_reads(self.account, TIME));
        }
        let place = pipe.query(sql, [param(self.account, Type::INT8)].into_iter().chain(params).collect());
        if ends {
            pipe.simple("COMMIT");
        }
        let mut answers = pipe.run().await?;
        Ok(if place < answers.len() { answers.swap_remove(place) } else { Vec::new() })
    }
}
