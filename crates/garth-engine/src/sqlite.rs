//! What every SQLite database of garth shares, control data and trees alike: how it is opened
//! and pooled, how its format is made and brought forward, and how its failures are told. No
//! type of SQLite leaves this crate.

pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod migrate;
pub(crate) mod patience;
pub(crate) mod poison;
pub(crate) mod pool;
pub(crate) mod query;
#[cfg(test)]
pub(crate) mod steps;

pub(crate) use connect::Database;
pub(crate) use error::{DbError, DbResult};
pub(crate) use migrate::Format;
pub(crate) use poison::Conn;
pub(crate) use pool::ConnPool;
pub(crate) use query::{all, one};
