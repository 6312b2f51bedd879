//! The embedded engine: one SQLite database for each account, in a folder of its own.
//!
//! [`SqliteFs`] is the handle. Writes go through one writer per process, which groups them (`commit/`). Reads
//! take a connection from a pool and run on the caller's thread; long ones run on threads of their own
//! (`query/`). The statements on the tables of the tree are in `tables/`, which lists the exceptions.
//! `docs/format.md` describes the tables, `docs/durability.md` what survives which accident.
//!
//! A module may use the modules of the groups above its own. Within a group, `maintain` uses `filesystem`,
//! which uses `commit` and `query`, and `control` uses `projections`; no two modules use each other. `costs`
//! has only tests.

pub(crate) mod writer_lock;
// The database and its statements.
pub(crate) mod schema;
pub(crate) mod tables;
// Stored bytes, and the parts of the tree that a handle reaches.
pub(crate) mod chunk_store;
pub(crate) mod collecting;
mod open_leases;
pub(crate) mod planner_rows;
pub(crate) mod tree_rows;
// Data derived from files, in the commit that changes them.
pub(crate) mod control;
pub(crate) mod fulltext;
pub(crate) mod projections;
// Reads, writes, and the handle that offers both.
pub(crate) mod commit;
pub(crate) mod filesystem;
pub(crate) mod maintain;
pub(crate) mod query;

#[cfg(test)]
mod costs;

pub use crate::fs::store::Backup;
pub use filesystem::SqliteFs;
