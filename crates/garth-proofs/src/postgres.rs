//! Proofs of the Postgres engine, each on a private PostgreSQL server in memory.
//!
//! - [`Database`]: storage of accounts under test, on a clock that the test moves;
//! - [`OnPostgres`], [`Model`]: proofs and random operations that run on every engine;
//! - [`stops`], [`cuts`]: a server that stops at once, and connections that are cut, beside writers.

pub mod cuts;
mod database;
mod lines;
mod on_every_engine;
pub mod stops;

pub use self::database::Database;
pub use self::on_every_engine::{Model, OnPostgres};
