//! State of the collections of one account in this process.

use std::sync::atomic::{AtomicBool, AtomicI64};

/// State that collections share.
#[derive(Debug, Default)]
pub(crate) struct Collecting {
    /// True while one runs in the background.
    pub(crate) is_running: AtomicBool,
    /// Time at which old content was last searched for and removed, in nanoseconds since 1970.
    pub(crate) searched_at: AtomicI64,
}
