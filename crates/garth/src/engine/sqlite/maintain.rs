//! Maintenance of an account: collecting, merging, checking, copying, and making the index again.

pub(crate) mod backup;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod merge;
pub(crate) mod reindex;
pub(crate) mod step;
pub(crate) mod unnamed;
