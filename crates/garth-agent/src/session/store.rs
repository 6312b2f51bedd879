//! The directory of a session: its files, `meta.json` and the indexes.

pub(super) mod files;
pub(super) mod list;
pub(super) mod meta;
pub(super) mod provenance;
pub(super) mod swap_index;
