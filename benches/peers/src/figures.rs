//! Figures of runs by name, each with its repetitions.
//!
//! The name of a figure of garth is the operation (`read`); that of a peer begins with the peer (`agentfs
//! read`). Times are nanoseconds of one operation, sizes are bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Figures of one run or of all runs of a workload.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Figures(BTreeMap<String, Vec<f64>>);

impl Figures {
    /// Adds a repetition.
    pub(crate) fn add(&mut self, name: impl Into<String>, value: f64) {
        self.0.entry(name.into()).or_default().push(value);
    }

    /// Adds the time of one of `ops` operations that took `spent` together.
    pub(crate) fn time(&mut self, name: impl Into<String>, spent: Duration, ops: usize) {
        self.add(name, spent.as_nanos() as f64 / ops as f64);
    }

    /// Adds the percentiles 50, 99 and 99.9 and the maximum: `{name} p50`, `p99`, `p999`, `max`.
    pub(crate) fn latencies(&mut self, name: &str, mut all: Vec<Duration>) {
        all.sort_unstable();
        for (label, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            // The nearest rank: an observed latency, not a value between two.
            let rank = ((all.len() as f64 * share).ceil() as usize).max(1) - 1;
            if let Some(latency) = all.get(rank) {
                self.time(format!("{name} {label}"), *latency, 1);
            }
        }
    }

    /// Adds the figures of a run, with `whose` before their names. It is empty for garth.
    pub(crate) fn merge(&mut self, whose: &str, run: Self) {
        for (name, values) in run.0 {
            let name = if whose.is_empty() { name } else { format!("{whose} {name}") };
            self.0.entry(name).or_default().extend(values);
        }
    }

    /// Returns the median of the repetitions.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        let mut sorted = self.0.get(name)?.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], upper) } else { upper })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_averages_the_two_middle_values() {
        let median = |values: &[f64]| {
            let mut figures = Figures::default();
            values.iter().for_each(|value| figures.add("it", *value));
            figures.median("it")
        };
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn latencies_use_the_nearest_rank() {
        let mut figures = Figures::default();
        figures.latencies("get", (1..=1000).rev().map(Duration::from_nanos).collect());
        let of = |label: &str| figures.median(&format!("get {label}"));
        assert_eq!([of("p50"), of("p99"), of("p999"), of("max")], [500.0, 990.0, 999.0, 1000.0].map(Some));
    }
}
