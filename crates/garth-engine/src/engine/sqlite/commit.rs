//! Writes: group commit by one writer, uploads and checkpoints. Everything here runs inside a write
//! transaction.

pub(crate) mod checkpoint;
pub(crate) mod group;
pub(crate) mod staged_upload;
pub(crate) mod stored;
pub(crate) mod waiters;
pub(crate) mod write_delta;
pub(crate) mod write_subtrees;
pub(crate) mod writer;
