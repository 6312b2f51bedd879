//! The Postgres engine of garth: the trees of all accounts in the schema `garth` of one database, which
//! several servers share. It plans batches with the planner of `garth-engine`.
//!
//! - [`client`]: connections, statements that are sent together, and errors;
//! - [`schema`]: the tables, and how they are created;
//! - [`rows`]: rows that the planner reads, and row changes;
//! - [`commit`]: groups of batches, each group in one transaction;
//! - [`indexing`]: text that is indexed after its commit, and derived rows that are derived again;
//! - `collect`: garbage that is removed in steps;
//! - [`query_keys`]: nodes by the keys that are derived from them;
//! - `reads`: rows that reads of a tree fetch, in rounds;
//! - [`search`]: hits in the index of words, and its merge;
//! - `holds`: what servers hold open; `uploads`: content that arrives before its commit; `ahead`: large
//!   chunks of a commit, written before it locks; `arriving`: the rows of both;
//! - `check`: finds damage to the rows of an account; `usage`: counts of what is below a path, for quotas;
//! - `transaction`: transactions of these; `values`: values of columns and parameters;
//! - `weights`: bytes that rows count for;
//! - [`store`]: the tree of an account, as the interfaces use it; `account`: its maintenance;
//! - [`home`]: accounts, their keys and trees, and the background work of servers on them.
//!
//! `garth serve --postgres` serves it. It commits every operation, but not directories whose path has more
//! than 2,304 bytes: these fail with `NameTooLong`. Why its statements are as they are:
//! `docs/decisions/postgres-statements.md`.

mod account;
mod ahead;
mod arriving;
mod check;
pub mod client;
mod collect;
pub mod commit;
mod control;
mod holds;
pub mod home;
pub mod indexing;
pub mod query_keys;
mod reads;
pub mod rows;
pub mod schema;
pub mod search;
pub mod store;
mod transaction;
mod uploads;
mod usage;
mod values;
mod weights;
