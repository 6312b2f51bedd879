//! Content stored by its hash: chunks that were swapped out of the context window, and blobs that occurred
//! more than once.

pub(super) mod dedup;
pub(super) mod swap;
