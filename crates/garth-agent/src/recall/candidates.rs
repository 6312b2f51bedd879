//! Candidates of a recall, and the limits on them.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::age::Ageing;
use super::request::{MAX_SOURCES, Recall};
use super::unit::Candidate;
use garth_engine::model::{SearchMode, Timestamp};
use garth_engine::text::question::Question;

/// Share of the question's words, by weight, from which a source fits it. Words that occur nowhere weigh
/// most, so one common word next to two of these scores lower. Meaning does not count: texts that have
/// nothing to do with a question are as near to it as those that answer it in other words.
pub const FITS: f64 = 0.15;
/// Bounds of the number of parts that are shown if nothing fits, because they are nearest in meaning. They
/// may have nothing to do with the question, so they are few.
const NEAREST: RangeInclusive<usize> = 10..=20;
/// Tokens of the budget for each of them. A short text takes about half as many.
const TOKENS_PER_NEAREST: usize = 200;
/// Limit on the memories and files that are read: about 80 KiB of each.
pub(super) const READ: usize = MAX_SOURCES;
/// Number of neighbours by which each side of a shown piece grows at most, if budget is left: messages, or
/// groups of lines.
pub(super) const NEIGHBOURS: usize = 2;
/// Share of the best score below which sources, and parts of them, are omitted.
const LEAST_SHARE: f64 = 0.15;

/// Limits on the candidates that are gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Maximum number of candidates.
    pub(super) candidates: usize,
    /// Number of candidates among which the nearest are, if nothing fits.
    pub(super) near: usize,
    /// Share of the best score below which sources, and parts of them, are omitted.
    least: f64,
    /// True if no more sources are read than the budget has tokens for.
    pub(super) is_in_budget: bool,
}

impl Reach {
    /// Reach of a comparison: as many candidates as are read, whatever their scores.
    pub(super) const COMPARED: Self = Self { candidates: READ, near: READ, least: 0.0, is_in_budget: false };

    /// Returns the reach of an answer.
    pub(super) fn shown(asked: &Recall) -> Self {
        Self {
            candidates: asked.limit.unwrap_or(READ),
            // The first ones may have no part that is near in meaning.
            near: asked.limit.unwrap_or(2 * most_nearest(asked)),
            least: LEAST_SHARE,
            is_in_budget: true,
        }
    }
}

/// Candidates, best first once they are limited.
#[derive(Debug, Default)]
pub(super) struct RankedCandidates {
    pub(super) candidates: Vec<Candidate>,
    /// Best score of a source that may be shown, even if it does not fit.
    pub(super) best: Option<f64>,
    /// True if something fits the question that is shown, or that the limit on sources left out. Set with the
    /// limits of an answer.
    pub(super) fits: bool,
    pub(super) notes: Vec<Cow<'static, str>>,
    /// True if the embedding service should have compared the candidates, but did not.
    pub(super) is_without_service: bool,
    pub(super) more: bool,
    /// True if sources that were not read, or hits that the search left out, may fit the question. If nothing
    /// fits that was read, this is whether there may be more.
    pub(super) may_fit: bool,
    pub(super) missing: u64,
    /// Limit on the parts that are nearest in meaning, if nothing fits. Set with the limits of an answer.
    pub(super) nearest: usize,
    /// Time of the state that was read.
    pub(super) now: Timestamp,
}

impl RankedCandidates {
    pub(super) fn add(&mut self, candidate: Option<Candidate>) {
        let Some(candidate) = candidate else { return };
        self.best = Some(self.best.map_or(candidate.best_score(), |best| best.max(candidate.best_score())));
        self.candidates.push(candidate);
    }

    /// Omits the parts that were found with a smaller score, and orders the candidates by the ranks of those
    /// left.
    pub(super) fn omit(&mut self, least: f64, ageing: Ageing) {
        // Before they are ordered: what is left out must not raise the rank of its source.
        self.candidates.retain_mut(|candidate| candidate.keep(least));
        let aged = |one: &Candidate| ageing.best(&one.parts).unwrap_or_default();
        self.candidates.sort_by(|one, other| aged(other).order(&aged(one)));
    }

    /// Returns true if a part that was found fits the question.
    pub(super) fn has_fitting(&self, question: &Question) -> bool {
        if question.asks_nothing() {
            return false;
        }
        let mut found = self.candidates.iter().flat_map(Candidate::found);
        found.any(|unit| unit.score_parts.words + unit.score_parts.neighbours >= FITS)
    }

    /// Applies the limits of an answer, and orders the candidates by their ranks. Whether anything fits is
    /// judged before the number of sources is limited.
    pub(super) fn limited(mut self, asked: &Recall, question: &Question) -> Self {
        self.best = self.candidates.iter().map(Candidate::best_score).reduce(f64::max);
        let reach = Reach::shown(asked);
        let ageing = Ageing { now: self.now, half_life: asked.half_life };
        self.omit(least_shown(self.best, reach), ageing);
        self.fits = self.has_fitting(question);
        self.more |= self.candidates.len() > reach.candidates;
        self.candidates.truncate(reach.candidates);
        self.nearest = most_nearest(asked);
        self
    }

    /// If nothing fits the question, keeps only the memories, and the parts of other files, that are nearest
    /// to it in meaning.
    pub(super) fn fitting_or_nearest(mut self, mode: SearchMode) -> Self {
        if !self.fits {
            self.keep_nearest(mode);
        }
        self
    }

    fn keep_nearest(&mut self, mode: SearchMode) {
        let is_near =
            |candidate: &Candidate| mode == SearchMode::Meaning && candidate.score_parts.meaning > 0.0;
        self.candidates.retain(is_near);
        let of = |candidate: &Candidate| match candidate.is_memory() {
            // Its layers say the same.
            true => vec![candidate.rank],
            false => candidate.found().map(|unit| unit.rank).collect(),
        };
        let mut ranks: Vec<f64> = self.candidates.iter().flat_map(of).collect();
        ranks.sort_by(|one, other| other.total_cmp(one));
        let mut left = self.nearest;
        // Several can have the least rank.
        let least = ranks.get(left.saturating_sub(1)).copied().unwrap_or(0.0);
        let mut takes = |rank: f64| {
            let is_taken = rank >= least && left > 0;
            left -= usize::from(is_taken);
            is_taken
        };
        self.candidates.retain_mut(|candidate| {
            if candidate.is_memory() {
                return takes(candidate.rank);
            }
            candidate.parts.units.retain(|unit| unit.is_found && takes(unit.rank));
            !candidate.parts.units.is_empty()
        });
        // What is omitted does not fit the question, as far as it was read.
        self.more = self.may_fit;
    }
}

/// Returns the maximum number of parts that are nearest in meaning.
fn most_nearest(asked: &Recall) -> usize {
    (asked.budget / TOKENS_PER_NEAREST).clamp(*NEAREST.start(), *NEAREST.end())
}

/// Returns the score below which nothing is shown.
pub(super) fn least_shown(best: Option<f64>, reach: Reach) -> f64 {
    best.map_or(0.0, |best| best * reach.least)
}
