//! Rows that the planner reads from the database, and row changes.

pub(crate) mod columns;
mod fetch;
pub(crate) mod parameters;
mod wanted;
mod writes;

pub use fetch::PgRows;
pub use writes::{NewPassage, Writes};
