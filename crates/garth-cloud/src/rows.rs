//! Rows that the planner reads from the database, and row changes.

pub(crate) mod columns;
pub(crate) mod derived;
mod fetch;
pub(crate) mod parameters;
mod round;
mod wanted;
mod writes;

pub use derived::DerivedWrites;
pub use fetch::PgRows;
pub use writes::Writes;
