//! What runs took: of one run, and of all runs of one workload.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What one run took.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Nanoseconds of one operation, by measure, one for each repetition.
    pub(crate) nanos: BTreeMap<String, Vec<f64>>,
    /// Most memory the process held, in KiB.
    pub(crate) peak_kib: u64,
    /// Bytes of content given, where the disk is measured.
    pub(crate) given: u64,
}

impl Outcome {
    /// `ops` operations that took `spent` together.
    pub(crate) fn of(measure: &str, spent: Duration, ops: u64) -> Self {
        Self::default().and(measure, spent, ops)
    }

    /// With another measure, or another repetition of one.
    pub(crate) fn and(mut self, measure: &str, spent: Duration, ops: u64) -> Self {
        let nanos = spent.as_nanos() as f64 / ops as f64;
        self.nanos.entry(measure.to_owned()).or_default().push(nanos);
        self
    }
}

/// What was measured of one workload: figures by who and measure.
#[derive(Default)]
pub(crate) struct Figures {
    /// Nanoseconds of one operation of garth.
    pub(crate) garth: BTreeMap<String, Vec<f64>>,
    /// Nanoseconds of one operation of the peer.
    pub(crate) peer: BTreeMap<String, Vec<f64>>,
    /// Peak memory in KiB: garth's and the peer's runs.
    pub(crate) peak_kib: (Vec<f64>, Vec<f64>),
    /// Bytes on disk for each byte given.
    pub(crate) disk: Vec<f64>,
}

impl Figures {
    /// Adds a run of garth.
    pub(crate) fn add_garth(&mut self, outcome: Outcome) {
        self.peak_kib.0.push(outcome.peak_kib as f64);
        merge(&mut self.garth, outcome.nanos);
    }

    /// Adds a run of the peer.
    pub(crate) fn add_peer(&mut self, outcome: Outcome) {
        self.peak_kib.1.push(outcome.peak_kib as f64);
        merge(&mut self.peer, outcome.nanos);
    }
}

fn merge(into: &mut BTreeMap<String, Vec<f64>>, from: BTreeMap<String, Vec<f64>>) {
    for (measure, nanos) in from {
        into.entry(measure).or_default().extend(nanos);
    }
}
