//! Statements that write rows of an account.

use tokio_postgres::types::Type;

use crate::client::{Param, Pipe, param};

/// Statements of an account.
pub(super) struct Target<'p, 'c> {
    pub(super) pipe: &'p mut Pipe<'c>,
    pub(super) account: i64,
}

impl Target<'_, '_> {
    /// Adds a statement unless it has no rows.
    pub(super) fn put(&mut self, sql: &'static str, is_empty: bool, params: impl FnOnce() -> Vec<Param>) {
        if !is_empty {
            let account = param(self.account, Type::INT8);
            self.pipe.query(sql, [account].into_iter().chain(params()).collect());
        }
    }
}
