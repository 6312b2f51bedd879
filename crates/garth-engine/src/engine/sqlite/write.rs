//! Writes: the group commit, what it plans on, and uploads on their way to a commit.

pub(crate) mod apply;
pub(crate) mod checkpoint;
pub(crate) mod group;
pub(crate) mod open_nodes;
pub(crate) mod quotas;
pub(crate) mod refs;
pub(crate) mod row_cache;
pub(crate) mod staged;
pub(crate) mod subtrees;
pub(crate) mod txn_rows;
pub(crate) mod unused;
pub(crate) mod upload;
pub(crate) mod writer;
pub(crate) mod writer_lock;
