//! Reads of the newest state or of a past commit, each inside one read transaction. `engine/relational/reads`
//! has those that need no statement of their own.

pub(crate) mod admission;
pub(crate) mod find_by_key;
pub(crate) mod read_view;
pub(crate) mod text_search;
