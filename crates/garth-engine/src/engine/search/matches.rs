//! Passages that contain the words of a question.

use super::forms::{Newest, Totals, WordForm};

/// The passages that contain one term.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// Rows with the frequency of the term, newest first.
    pub(super) rows: Vec<(i64, f64)>,
    /// True if these are all.
    pub(super) complete: bool,
    /// Number of passages that contain it; an estimate if the rows are not complete.
    pub(super) passages: f64,
}

impl Matches {
    /// Returns the matches of some forms, of each of which the newest are known.
    pub(super) fn of_newest(forms: &[WordForm], found: &[Newest], totals: Totals) -> Self {
        let mut matches = Self { complete: true, ..Self::default() };
        // All matches from this row on are known.
        let mut known = 0;
        for (form, newest) in forms.iter().zip(found) {
            matches.rows.extend(newest.ids.iter().map(|id| (*id, form.often)));
            if !newest.complete {
                matches.complete = false;
                known = known.max(newest.ids.last().copied().unwrap_or(0));
            }
        }
        matches.settle();
        // Assumes that the older rows contain it as often as the newer ones.
        let seen = (totals.newest - known + 1).max(1) as f64 / totals.newest.max(1) as f64;
        let newer = matches.rows.partition_point(|row| row.0 >= known) as f64;
        matches.passages = (newer / seen.min(1.0)).min(totals.all());
        matches
    }

    /// Returns the matches of some forms among `ids`, which are given newest first.
    pub(super) fn of_reach(forms: &[WordForm], found: &[Newest], ids: &[i64]) -> Self {
        let lists = found.iter().map(|newest| newest.ids.as_slice());
        let mut matches = Self { rows: rows_of(forms, lists), complete: true, passages: 0.0 };
        matches.keep(ids);
        matches.passages = matches.rows.len() as f64;
        matches
    }

    /// Returns true if there are some, and all of them are known.
    pub(super) fn are_rare(&self) -> bool {
        self.complete && !self.rows.is_empty()
    }

    /// Leaves the rows that are among `ids`, which are given newest first.
    pub(super) fn keep(&mut self, ids: &[i64]) {
        self.rows.retain(|(id, _)| ids.binary_search_by(|it| id.cmp(it)).is_ok());
    }

    /// Leaves each row once, newest first, with the highest frequency that is known of it.
    pub(super) fn settle(&mut self) {
        settle(&mut self.rows);
    }
}

/// A term in one pass of a search.
pub(super) struct TermMatches {
    /// Ways in which a passage may contain it.
    pub(super) forms: Vec<WordForm>,
    pub(super) matches: Matches,
    /// Terms of the question that it stands for: one bit for each.
    pub(super) terms: u128,
    /// Part of its weight that counts: less than 1 for a word that is only near in meaning to one of the
    /// question.
    pub(super) share: f64,
    /// Share of passages of general English that contain it.
    pub(super) in_english: f64,
    /// Inverse document frequency, times the share.
    pub(super) weight: f64,
}

/// Returns the rows of forms, each once, newest first, with the highest frequency that is known of it.
pub(super) fn rows_of<'a>(forms: &[WordForm], found: impl IntoIterator<Item = &'a [i64]>) -> Vec<(i64, f64)> {
    let rows = forms.iter().zip(found);
    let mut rows: Vec<(i64, f64)> =
        rows.flat_map(|(form, ids)| ids.iter().map(|id| (*id, form.often))).collect();
    settle(&mut rows);
    rows
}

fn settle(rows: &mut Vec<(i64, f64)>) {
    rows.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    rows.dedup_by_key(|row| row.0);
}
