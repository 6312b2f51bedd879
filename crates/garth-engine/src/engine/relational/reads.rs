//! Reads of the tree in one state, the newest or one of the past, over the rows of any database. They decide
//! what a call answers, in which order errors come, and which rows it takes. The database has the statements.
//!
//! - `tree_rows`: the rows that reads ask for, as a trait that each database implements;
//! - `tree_view`: look-ups, listings, walks and content;
//! - `version_history`, `path_versions`: versions of a path or node, moments and snapshots;
//! - `change_feed`: changes of the log; `blame`: the commits that wrote the bytes of a file;
//! - `seek_data`: data and holes of a file;
//! - `gate_files`, `gated`, `gated_facts`, `open_entries`: entries that gates hide.

pub mod blame;
pub mod change_feed;
pub mod gate_files;
pub(crate) mod gated;
pub mod gated_facts;
pub mod open_entries;
pub(crate) mod path_versions;
pub mod seek_data;
pub mod tree_rows;
pub mod tree_view;
pub mod version_history;
