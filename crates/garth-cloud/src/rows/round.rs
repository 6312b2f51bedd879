//! Statements of one round of the planner, each with what its answer puts into the store.

use std::collections::HashMap;

use garth_engine::Result;
use garth_engine::engine::planner::RowStore;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Param, Pipe, param};
use crate::values::columns::place;

/// Puts the values of keys into the store, given the rows of their statement.
type Put = Box<dyn FnOnce(&mut RowStore, &[Row]) -> Result<()> + Send>;

/// Statements of a round that were sent.
#[derive(Default)]
pub(super) struct Sent {
    /// Places in the answers.
    statements: Vec<(usize, Put)>,
}

impl Sent {
    /// Puts the values of all keys into the store.
    pub(super) fn put(self, store: &mut RowStore, answers: &[Vec<Row>]) -> Result<()> {
        for (place, put) in self.statements {
            put(store, answers.get(place).map_or(&[][..], Vec::as_slice))?;
        }
        Ok(())
    }
}

/// Round that is being sent.
pub(super) struct Round<'p, 'c> {
    pub(super) pipe: &'p mut Pipe<'c>,
    pub(super) account: i64,
    pub(super) sent: Sent,
}

impl Round<'_, '_> {
    /// Adds a statement, whose first parameter is the account.
    pub(super) fn query(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
        put: impl FnOnce(&mut RowStore, &[Row]) -> Result<()> + Send + 'static,
    ) {
        let account = param(self.account, Type::INT8);
        let place = self.pipe.query(sql, [account].into_iter().chain(params).collect());
        self.sent.statements.push((place, Box::new(put)));
    }
}

/// Returns the rows of each key, by its place, which is their first column.
pub(crate) fn by_place(rows: &[Row]) -> Result<HashMap<usize, Vec<&Row>>> {
    let mut found: HashMap<usize, Vec<&Row>> = HashMap::new();
    for row in rows {
        found.entry(place(row, 0)?).or_default().push(row);
    }
    Ok(found)
}

/// Returns the only row of each key, by its place, which is its first column.
pub(super) fn one_by_place(rows: &[Row]) -> Result<HashMap<usize, &Row>> {
    rows.iter().map(|row| Ok((place(row, 0)?, row))).collect()
}
