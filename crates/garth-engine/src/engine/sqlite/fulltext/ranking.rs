//! Ranking of the passages that contain terms of a question.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::engine::sqlite::fulltext::passages::Passage;
use crate::model::Ino;

/// The constants of BM25, as in SQLite and most other implementations.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Weight of a term that a passage does not contain, but the passage before or after it in its file does. A
/// larger one makes results worse for texts that are not conversations: `docs/benchmarks.md` has the figures.
const BESIDE: f64 = 0.5;
/// Weight of a term that neither a passage nor its neighbours contain, but another passage of the file does:
/// a conversation about something does not name it in each message.
const IN_FILE: f64 = 0.2;

/// A passage that contains a term of the question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidate {
    /// Id of its row.
    pub(super) id: i64,
    /// Weight of the terms that it contains.
    pub(super) weight: f64,
    /// BM25, at first as if all passages had the same length.
    pub(super) rank: f64,
    /// The terms that it contains: one bit for each.
    pub(super) terms: u128,
    /// Score that it gains from other passages of its file, in the same unit as `weight`.
    pub(super) beside: f64,
}

impl Candidate {
    /// Orders by BM25, then by row: the better one is greater.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(self.id.cmp(&other.id))
    }
}

/// A candidate with its passage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) passage: Passage,
    pub(super) candidate: Candidate,
}

impl Ranked {
    /// Orders by BM25, then by file and place, which do not depend on when a passage was indexed.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let place = |it: &Self| (it.passage.ino, it.passage.span.off);
        self.candidate.rank.total_cmp(&other.candidate.rank).then(place(self).cmp(&place(other)))
    }
}

/// Returns the BM25 factor of a term. `often` is its frequency in a passage, `length` that of the passage
/// relative to the average.
pub(super) fn saturated(often: f64, length: f64) -> f64 {
    often * (K1 + 1.0) / (often + K1 * (1.0 - B + B * length))
}

/// Lets each passage gain from the others of its file: a term that it does not contain counts [`BESIDE`] of
/// one that it contains once if a neighbour contains it, and [`IN_FILE`] if another passage does. `weights`
/// are those of the terms. Only passages in `best` count: the others contain no term, or too little to
/// matter, and need not be read.
pub(super) fn add_neighbour_scores(best: &mut [Ranked], weights: &[f64]) {
    let starts: HashMap<(Ino, u64), usize> =
        best.iter().zip(0..).map(|(it, place)| ((it.passage.ino, it.passage.span.off), place)).collect();
    let mut around = vec![0_u128; best.len()];
    let mut files: HashMap<Ino, u128> = HashMap::new();
    for (place, it) in best.iter().enumerate() {
        *files.entry(it.passage.ino).or_default() |= it.candidate.terms;
        // Neighbours touch: the next passage begins where this one ends.
        if let Some(next) = starts.get(&(it.passage.ino, it.passage.span.end())) {
            around[place] |= best[*next].candidate.terms;
            around[*next] |= it.candidate.terms;
        }
    }
    // The sum of no numbers is -0.0, which would be visible in the score.
    let sum = |terms: u128| {
        let weights = weights.iter().enumerate().filter(|(term, _)| terms >> term & 1 == 1);
        weights.fold(0.0, |sum, (_, weight)| sum + weight)
    };
    for (Ranked { passage, candidate }, around) in best.iter_mut().zip(around) {
        let around = around & !candidate.terms;
        let in_file = files.get(&passage.ino).copied().unwrap_or(0) & !candidate.terms & !around;
        candidate.beside = BESIDE * sum(around) + IN_FILE * sum(in_file);
        candidate.rank += candidate.beside;
    }
}
