//! Transaction that reads one state of an account.

use tokio_postgres::types::Type;

use crate::client::{Connection, Param, Pipe, param};

/// Transaction in which several rounds read one state.
pub(super) struct Snapshot<'c> {
    conn: &'c Connection,
    account: i64,
    is_open: bool,
}

impl<'c> Snapshot<'c> {
    /// Creates a transaction that begins with its first round.
    pub(super) fn new(conn: &'c Connection, account: i64) -> Self {
        Self { conn, account, is_open: false }
    }

    /// Returns the statements of the next round.
    pub(super) fn round(&mut self) -> Pipe<'c> {
        let mut pipe = Pipe::new(self.conn);
        if !self.is_open {
            self.is_open = true;
            pipe.simple(format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                 SELECT set_config('garth.account', '{}', true), \
                 set_config('statement_timeout', '30000', true), \
                 set_config('idle_in_transaction_session_timeout', '30000', true)",
                self.account
            ));
        }
        pipe
    }

    /// Returns the account as a parameter, the first of each statement.
    pub(super) fn account(&self) -> Param {
        param(self.account, Type::INT8)
    }
}
