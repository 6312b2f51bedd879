//! How the passages that hold something of a question compare.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::engine::sqlite::fulltext::passages::Passage;
use crate::model::Ino;

/// The constants of BM25, as SQLite and most others have them.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// What a word counts that a passage does not hold, and the one before or behind it in its file does. With
/// more, what is no conversation would be found less well: `docs/benchmarks.md` has the figures.
const BESIDE: f64 = 0.5;

/// A passage that holds something of the question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidate {
    /// Its row.
    pub(super) id: i64,
    /// The weight of the terms that it holds.
    pub(super) weight: f64,
    /// BM25, first as if all passages were of one length.
    pub(super) rank: f64,
    /// Which terms it holds: a bit for each.
    pub(super) terms: u128,
    /// What it gains from its neighbours, in the same unit as `weight`.
    pub(super) beside: f64,
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

/// Lets each passage gain from those beside it in its file: a word that it does not hold and a neighbour does
/// counts [`BESIDE`] of one that it holds once. `weights` are those of the terms. Only what is among `best`
/// can be a neighbour: the others hold nothing that counts, or too little to matter, and so nothing is read.
pub(super) fn add_neighbours(best: &mut [Ranked], weights: &[f64]) {
    let starts: HashMap<(Ino, u64), usize> =
        best.iter().zip(0..).map(|(it, place)| ((it.passage.ino, it.passage.span.off), place)).collect();
    let mut around = vec![0_u128; best.len()];
    for (place, it) in best.iter().enumerate() {
        if let Some(next) = starts.get(&(it.passage.ino, it.passage.span.end())) {
            around[place] |= best[*next].candidate.terms;
            around[*next] |= it.candidate.terms;
        }
    }
    for (Ranked { candidate, .. }, around) in best.iter_mut().zip(around) {
        let gained = around & !candidate.terms;
        let gained = weights.iter().enumerate().filter(|(term, _)| gained >> term & 1 == 1);
        // The sum of no numbers is -0.0, which would show.
        candidate.beside = BESIDE * gained.fold(0.0, |sum, (_, weight)| sum + weight);
        candidate.rank += candidate.beside;
    }
}
