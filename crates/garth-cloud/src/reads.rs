//! Rows that reads of a tree fetch, in rounds, for the reads that all engines on relational databases share
//! (`garth_engine::engine::relational::reads`). Why: `docs/decisions/reads-in-rounds.md`.
//!
//! - `fetched`: rows that were fetched, and keys of rows to fetch; `memo`: rows by their keys;
//! - `tree_rows`: these rows as reads ask for them;
//! - `requests`: the statements of a round, from `names`, `open_entries`, `nodes`, `content`, `log`
//!   and `spans`;
//! - `assembled`: parts of files that are put together from extents;
//! - `statements`: parts that these share;
//! - `round`: statements that are sent together.

mod assembled;
mod content;
mod fetched;
mod log;
mod memo;
mod names;
mod nodes;
mod open_entries;
mod requests;
mod round;
mod spans;
mod statements;
mod tree_rows;

pub(crate) use self::assembled::Assembled;
pub(crate) use self::fetched::{FetchedRows, FileKey};
pub(crate) use self::round::Round;
