//! The embedded engine: one SQLite database for each account, in a folder of its own.
//!
//! [`SqliteFs`] is the handle. Writes go through one writer per process, which groups them (`commit/`); reads
//! take a connection from a pool and run on the caller's thread, long ones on threads of their own
//! (`query/`). Statements on the tree's tables are in `tables/`, which says what is elsewhere and why.
//! `docs/format.md` draws the tables, `docs/durability.md` says what survives what.
//!
//! A room uses those of the groups above it, and some of its own group: `maintain` uses `filesystem`, which
//! uses `commit` and `query`; `control` uses `projections`. No two use each other. `costs` has tests only.

pub(crate) mod writer_lock;
// the database and its statements
pub(crate) mod schema;
pub(crate) mod tables;
// stored bytes, and what a handle may see
pub(crate) mod chunk_store;
pub(crate) mod confinement;
pub(crate) mod open_nodes;
pub(crate) mod planner_rows;
// what is derived from files, in the commit that changes them
pub(crate) mod control;
pub(crate) mod fulltext;
pub(crate) mod projections;
// reads, writes, and the handle that offers both
pub(crate) mod commit;
pub(crate) mod filesystem;
pub(crate) mod maintain;
pub(crate) mod query;

#[cfg(test)]
mod costs;

pub use filesystem::SqliteFs;
pub use maintain::backup::Backup;
