//! Reads of the newest state or of a past commit, each inside one read transaction.

pub(crate) mod admission;
pub(crate) mod blame;
pub(crate) mod change_feed;
pub(crate) mod find_by_key;
pub(crate) mod gated;
pub(crate) mod gated_facts;
pub(crate) mod open_entries;
pub(crate) mod path_versions;
pub(crate) mod read_view;
pub(crate) mod seek_data;
pub(crate) mod text_search;
pub(crate) mod version_history;
