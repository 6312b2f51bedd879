//! Transactions on the rows of an account, apart from those of reads and commits.

use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Param, Pipe, begin_writes, param};

/// Locks the account, and returns the next chunk number. Statements after it see what other transactions have
/// committed before.
const LOCK: &str = "SELECT next_chunk FROM garth.head WHERE account = $1 FOR UPDATE";

/// Statements of an account that are sent together.
pub(crate) struct Statements<'c> {
    pub(crate) pipe: Pipe<'c>,
    account: i64,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(pipe: Pipe<'c>, account: i64) -> Self {
        Self { pipe, account }
    }

    /// Adds the statements that begin a transaction that writes.
    pub(crate) fn begin(&mut self) {
        self.pipe.simple(begin_writes(self.account));
    }

    /// Begins a transaction that is not synced when it ends. A later one of the same account that is synced
    /// makes it durable as well.
    pub(crate) fn begin_unsynced(&mut self) {
        self.pipe
            .simple(begin_writes(self.account) + "; SELECT set_config('synchronous_commit', 'off', true)");
    }

    /// Locks the account. Returns the place of its row in the answers.
    pub(crate) fn lock(&mut self) -> usize {
        self.query(LOCK, Vec::new())
    }

    /// Adds a statement whose first parameter is the account. Returns its place in the answers.
    pub(crate) fn query(&mut self, sql: &'static str, params: Vec<Param>) -> usize {
        let account = param(self.account, Type::INT8);
        self.pipe.query(sql, [account].into_iter().chain(params).collect())
    }

    /// Ends the transaction.
    pub(crate) fn commit(&mut self) {
        self.pipe.simple("COMMIT");
    }

    /// Sends all statements in one round trip.
    ///
    /// # Errors
    /// The first error of a statement.
    pub(crate) async fn run(self) -> Result<Answers> {
        Ok(Answers(self.pipe.run().await?))
    }
}

/// Rows of each statement.
pub(crate) struct Answers(Vec<Vec<Row>>);

impl Answers {
    /// Returns the rows of a statement.
    pub(crate) fn rows(&self, place: usize) -> &[Row] {
        self.0.get(place).map_or(&[], Vec::as_slice)
    }

    /// Returns the first row of a statement.
    pub(crate) fn first(&self, place: usize) -> Option<&Row> {
        self.rows(place).first()
    }

    /// Returns the row of an account that was locked.
    ///
    /// # Errors
    /// `NotFound` if the account was deleted.
    pub(crate) fn locked(&self, place: usize) -> Result<&Row> {
        self.first(place).ok_or_else(deleted)
    }
}

/// Returns the error of an account without a head row.
pub(crate) fn deleted() -> Error {
    Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted")
}
