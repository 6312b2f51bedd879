//! Times of messages in an answer, where they matter.

use std::collections::BTreeSet;

use super::run::Run;
use super::unit::Candidate;
use crate::count::count;
use garth_engine::model::Timestamp;
use garth_engine::text::token::words;

/// Nanoseconds of a day.
const DAY: i64 = 86_400_000_000_000;
/// Words of a question about a time.
const OF_TIME: [&str; 24] = [
    "when",
    "date",
    "dates",
    "day",
    "days",
    "time",
    "hour",
    "hours",
    "week",
    "weeks",
    "month",
    "months",
    "year",
    "years",
    "ago",
    "today",
    "yesterday",
    "tomorrow",
    "since",
    "until",
    "before",
    "after",
    "long",
    "latest",
];

/// Decides which messages have their time: none if all were said on one day, otherwise the first of a piece
/// and each that begins a day. A question about a time gets the hour as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamps {
    /// Characters of a time such as `2026-01-12T07:48:00Z`.
    shown: usize,
    tokens: usize,
}

impl Stamps {
    pub(super) fn new(question: &str, candidates: &[Candidate]) -> Self {
        let units = candidates.iter().flat_map(|candidate| &candidate.parts.units);
        let found = units.filter(|unit| unit.is_found && unit.speaker.is_some() && is_exact(unit.time));
        let days: BTreeSet<i64> = found.map(|unit| day_of(unit.time)).collect();
        let asks = words(question).any(|(_, word)| OF_TIME.contains(&&*word.to_lowercase()));
        let shown = match (asks, days.len()) {
            (true, 1..) => 16,
            (false, 2..) => 10,
            _ => 0,
        };
        let example = stamp(Timestamp(0), shown);
        let tokens = count(&format!("user{example}: x")) - count("user: x");
        Self { shown, tokens }
    }

    /// Returns the tokens of a time.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns for each form of a run whether its time is shown.
    pub(super) fn dated(&self, run: &Run<'_>) -> impl Iterator<Item = bool> {
        let (shown, mut day) = (self.shown, None);
        run.forms.iter().map(move |(unit, _)| {
            if shown == 0 || unit.speaker.is_none() {
                return false;
            }
            let own = is_exact(unit.time).then(|| day_of(unit.time));
            let is_new = own.is_some() && own != day;
            day = own;
            is_new
        })
    }

    /// Returns the time of each form of a run, after its speaker; empty for those without.
    pub(super) fn of(&self, run: &Run<'_>) -> Vec<String> {
        let times = run.forms.iter().map(|(unit, _)| unit.time).zip(self.dated(run));
        times.map(|(time, is_dated)| if is_dated { stamp(time, self.shown) } else { String::new() }).collect()
    }
}

/// Returns false for the first and the last time, which stand for all before and after them.
fn is_exact(time: Timestamp) -> bool {
    !matches!(time.0, i64::MIN | i64::MAX)
}

/// Returns the number of a day (UTC).
fn day_of(time: Timestamp) -> i64 {
    time.0.div_euclid(DAY)
}

fn stamp(time: Timestamp, shown: usize) -> String {
    if shown == 0 {
        return String::new();
    }
    let text: String = time.to_rfc3339().chars().take(shown).collect();
    format!(" ({})", text.replace('T', " "))
}
