//! Rows that the planner reads from the database, and row changes.
//!
//! - `committer`: batches with their reach, and what this process knows of the account;
//! - `fetch`: the transaction, and its rounds, also to judge changes by a new rule; `wanted` sorts the
//!   keys of a round by kind;
//! - `present`, `past`, `records`: statements of a round, with what their answers put into the store;
//! - `derived`: keys and passages, which follow from the other rows;
//! - `writes`, with `name_writes`, `record_writes` and `subtrees`: row changes of a group; `target`: the
//!   statements that write them;
//! - `references`: counts of references to chunks;
//! - `spans`: parts of the tree as parameters.

pub(crate) mod committer;
pub(crate) mod derived;
mod fetch;
mod name_writes;
mod past;
mod present;
mod record_writes;
mod records;
pub(crate) mod references;
mod round;
mod spans;
mod subtrees;
mod target;
mod wanted;
mod writes;

pub use derived::DerivedWrites;
pub(crate) use fetch::JudgedFiles;
pub use fetch::PgRows;
pub(crate) use records::{QUOTAS, quotas_of};
pub(crate) use spans::dirs;
pub use writes::{BatchTexts, Writes};
