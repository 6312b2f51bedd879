//! Events reach an unreliable sink in order, and workers that break the rules are noticed.

use garth_proofs::outbox::{Deliveries, Fault};

use super::support::{broken, proven};

#[test]
fn events_reach_a_bad_sink_in_order_while_workers_are_killed() {
    let report = proven(&Deliveries::default(), 3);
    let delivered = report["events delivered in order"];
    assert!(report["kills"] == 8 && delivered > 10 && report["requests"] > delivered, "{report}");
}

#[test]
fn a_worker_that_counts_events_as_told_too_early_is_noticed() {
    let broken = broken(&Deliveries { fault: Some(Fault::TellsLater) }, 3);
    assert!(broken.contains("lost") || broken.contains("came after"), "{broken}");
}

#[test]
fn a_worker_that_ignores_leases_is_noticed() {
    let broken = broken(&Deliveries { fault: Some(Fault::IgnoresLeases) }, 3);
    assert!(broken.contains("was held until"), "{broken}");
}
