//! The Postgres engine of garth: the trees of all accounts in the schema `garth` of one database, which
//! several servers share. It plans batches with the planner of `garth-engine`.
//!
//! - [`client`]: connections, statements that are sent together, and errors;
//! - [`schema`]: the tables, and how they are created;
//! - [`rows`]: rows that the planner reads, and row changes;
//! - [`commit`]: groups of batches, each group in one transaction;
//! - [`search`]: hits in the index of words, and its merge.
//!
//! The engine is being built, and no command uses it yet. It commits writes and appends of new and existing
//! files, and directories; anything else fails with `Unsupported`. Why its statements are as they are:
//! `docs/decisions/postgres-statements.md`.

pub mod client;
pub mod commit;
pub mod rows;
pub mod schema;
pub mod search;
