//! Reads, now or after a past commit, each inside one read transaction.

pub(crate) mod blame;
pub(crate) mod content;
pub(crate) mod dir_times;
pub(crate) mod history;
mod holes;
pub(crate) mod lives;
pub(crate) mod log;
pub(crate) mod origin;
pub(crate) mod quotas;
pub(crate) mod rows;
pub(crate) mod search;
pub(crate) mod view;
