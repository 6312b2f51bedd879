//! The Postgres engine of garth: the trees of all accounts in the schema `garth` of one database, which
//! several servers share. It plans batches with the planner of `garth-engine`.
//!
//! - [`client`]: connections, statements that are sent together, and errors;
//! - [`schema`]: the tables, and how they are created;
//! - [`rows`]: rows that the planner reads, and row changes;
//! - [`commit`]: groups of batches, each group in one transaction;
//! - [`indexing`]: text that is indexed after its commit, and derived rows that are derived again;
//! - `check`: finds damage to the rows of an account;
//! - [`query_keys`]: nodes by the keys that are derived from them;
//! - `reads`: rows that reads of a tree fetch, in rounds;
//! - [`search`]: hits in the index of words, and its merge;
//! - `usage`: counts of what is below a path, for quotas;
//! - `values`: values of columns and parameters;
//! - [`store`]: the tree of an account, as the interfaces use it;
//! - [`home`]: accounts, their keys and trees.
//!
//! The engine is being built, and no command uses it yet. It commits every operation, but not directories
//! whose path has more than 1,024 bytes: these fail with `Unsupported`. Why its statements are as they are:
//! `docs/decisions/postgres-statements.md`.

mod check;
pub mod client;
pub mod commit;
mod control;
pub mod home;
pub mod indexing;
pub mod query_keys;
mod reads;
pub mod rows;
pub mod schema;
pub mod search;
pub mod store;
mod usage;
mod values;
