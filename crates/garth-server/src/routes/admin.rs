//! Calls for administrators.

pub(super) mod keys;
