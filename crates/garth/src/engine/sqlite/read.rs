//! Reads, now or after a past commit, each inside one read transaction.

pub(crate) mod content;
pub(crate) mod history;
mod holes;
pub(crate) mod log;
pub(crate) mod rows;
pub(crate) mod search;
pub(crate) mod view;
