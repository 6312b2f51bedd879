//! Metrics of a server whose accounts make the same calls.

use garth_proofs::metric_labels::{Fault, MetricLabels};

use super::support::{broken, proven};

#[test]
fn figures_equal_hand_count_and_labels_stay_bounded() {
    let report = proven(&MetricLabels::default(), 5);
    assert!(report["accounts"] == 40 && report["calls"] == 401 && report["commits"] > 200, "{report}");
    assert!(report.in_group("series by comparison", "growth") > 60, "{report}");
}

#[test]
fn proof_detects_uncounted_call() {
    let broken = broken(&MetricLabels { fault: Some(Fault::UncountedCall) }, 5);
    assert!(broken.contains("by hand"), "{broken}");
}

#[test]
fn proof_detects_series_of_one_account() {
    let broken = broken(&MetricLabels { fault: Some(Fault::OtherCall) }, 5);
    assert!(broken.contains("have caused further series"), "{broken}");
}
