//! How the passages that hold something of a question compare.

use std::cmp::Ordering;

use super::passages::Passage;

/// The constants of BM25, as SQLite and most others have them.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// A passage that holds something of the question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidate {
    /// Its row.
    pub(super) id: i64,
    /// The weight of the terms that it holds.
    pub(super) weight: f64,
    /// BM25, first as if all passages were of one length.
    pub(super) rank: f64,
}

impl Candidate {
    /// The better one is the greater: by BM25, then the newer one.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(self.id.cmp(&other.id))
    }
}

/// A candidate, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) passage: Passage,
    pub(super) candidate: Candidate,
}

/// What BM25 makes of a term that a passage has so often, where the passage is so long by the average.
pub(super) fn saturated(often: f64, length: f64) -> f64 {
    often * (K1 + 1.0) / (often + K1 * (1.0 - B + B * length))
}
