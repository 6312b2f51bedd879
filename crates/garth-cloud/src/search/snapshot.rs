//! Transaction that reads one state of an account.

use std::time::Duration;

use tokio_postgres::types::Type;

use crate::client::{Connection, Param, Pipe, begin_reads, param};

/// Limit on the time of a statement.
const SEARCH_TIME: Duration = Duration::from_secs(30);

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
            pipe.simple(begin_reads(self.account, SEARCH_TIME));
        }
        pipe
    }

    /// Returns the account as a parameter, the first of each statement.
    pub(super) fn account(&self) -> Param {
        param(self.account, Type::INT8)
    }
}
