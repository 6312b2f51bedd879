//! Rows that the planner reads from the database, and row changes.

mod columns;
mod fetch;
mod parameters;
mod wanted;
mod writes;

pub use fetch::PgRows;
pub use writes::{NewPassage, Writes};
