//! Age of what a recall found: with a half-life, newer text comes first.

use std::cmp::Ordering;

use super::unit::Parts;
use garth_engine::model::Timestamp;

const DAY: f64 = 86_400e9;

/// Change of ranks by the age of texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ageing {
    pub(super) now: Timestamp,
    /// Days in which half of a rank halves; the other half stays. `None`: age does not count.
    pub(super) half_life: Option<u32>,
}

/// Rank of a text of some age.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgedRank {
    pub(super) rank: f64,
    /// Time of the text; 0 if age does not count.
    time: Timestamp,
}

impl Ageing {
    /// Returns the rank of a text of this time.
    pub(super) fn of(self, rank: f64, time: Timestamp) -> AgedRank {
        let Some(days) = self.half_life else { return AgedRank { rank, time: Timestamp(0) } };
        let age = self.now.0.saturating_sub(time.0).max(0) as f64 / DAY;
        AgedRank { rank: rank * (0.5 + 0.5 * (-age / f64::from(days)).exp2()), time }
    }

    /// Returns the best rank of the units that were found.
    pub(super) fn best(self, parts: &Parts) -> Option<AgedRank> {
        let found = parts.units.iter().filter(|unit| unit.is_found);
        found.map(|unit| self.of(unit.rank, unit.time)).max_by(AgedRank::order)
    }
}

impl AgedRank {
    /// Orders by rank, then by time: the better one is greater, and of equals the newer one. Beyond some age,
    /// the same rank no longer changes.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(self.time.cmp(&other.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time that is this number of days before the present of the tests.
    fn before(days: i64) -> Timestamp {
        Timestamp(1_800_000_000_000_000_000 - days * 86_400_000_000_000)
    }

    #[test]
    fn newer_text_is_first_at_any_age() {
        for half_life in [1, 30, 36_500] {
            let ageing = Ageing { now: before(0), half_life: Some(half_life) };
            let days = (-1..20_000).step_by(7);
            let ranks: Vec<AgedRank> = days.map(|days| ageing.of(0.8, before(days))).collect();
            for pair in ranks.windows(2) {
                assert!(pair[0].order(&pair[1]).is_gt(), "{half_life}: {pair:?}");
            }
            assert!(ranks.iter().all(|it| (0.4..=0.8).contains(&it.rank)));
        }
        let half = Ageing { now: before(0), half_life: Some(30) }.of(1.0, before(30));
        assert!((half.rank - 0.75).abs() < 1e-9, "{half:?}");
    }

    #[test]
    fn age_does_not_count_without_half_life() {
        let ageing = Ageing { now: before(0), half_life: None };
        assert!(ageing.of(0.8, before(0)).order(&ageing.of(0.8, before(900))).is_eq());
    }
}
