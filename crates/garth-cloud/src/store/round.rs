//! One round: statements that are sent together, and what is done with their rows.

use garth_engine::Result;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fetched::FetchedRows;
use crate::client::{Param, Pipe, param};

/// Use of the rows of a statement.
type Take = Box<dyn FnOnce(&FetchedRows, &[Row]) -> Result<()> + Send>;

/// Statements of an account, with the use of their rows.
pub(crate) struct Round<'c> {
    pipe: Pipe<'c>,
    account: i64,
    takes: Vec<(usize, Take)>,
}

impl<'c> Round<'c> {
    /// Creates a round that sends its statements with those of a pipe.
    pub(crate) fn new(pipe: Pipe<'c>, account: i64) -> Self {
        Self { pipe, account, takes: Vec::new() }
    }

    /// Adds statements without parameters.
    pub(super) fn simple(&mut self, sql: impl Into<String>) {
        self.pipe.simple(sql);
    }

    /// Adds a statement whose first parameter is the account. `take` gets its rows.
    pub(super) fn query(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
        take: impl FnOnce(&FetchedRows, &[Row]) -> Result<()> + Send + 'static,
    ) {
        let account = param(self.account, Type::INT8);
        let place = self.pipe.query(sql, [account].into_iter().chain(params).collect());
        self.takes.push((place, Box::new(take)));
    }

    /// Sends all statements in one round trip, and adds their rows.
    ///
    /// # Errors
    /// The first error of a statement.
    pub(crate) async fn run(self, rows: &mut FetchedRows) -> Result<()> {
        let Self { pipe, takes, .. } = self;
        let answers = pipe.run().await?;
        for (place, take) in takes {
            take(rows, answers.get(place).map_or(&[], Vec::as_slice))?;
        }
        Ok(())
    }
}
