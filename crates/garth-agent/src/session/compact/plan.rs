//! The outcome of a compaction before it is committed: alone, or in the commit that takes messages out of
//! packs.

use std::ops::RangeInclusive;

use crate::session::derived::derive::Derive;
use garth_engine::model::Precondition;

/// Derived files that a compaction writes, before they are committed.
#[derive(Clone, Debug)]
pub(crate) struct Compaction {
    /// Messages that the summary covers for the first time.
    pub(crate) lines: RangeInclusive<u64>,
    pub(crate) derive: Derive,
    pub(crate) by_model: bool,
    pub(crate) more: bool,
    /// Condition of the commit: the summary is as it was read.
    pub(crate) summary: Precondition,
}
