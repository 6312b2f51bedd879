//! Common code of the SQLite databases of garth, control data and trees alike: opening, pooling, creating and
//! migrating them, and mapping their errors. No type of SQLite leaves this crate.

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
