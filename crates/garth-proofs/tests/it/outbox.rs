//! Events reach an unreliable sink in order, and workers that break the rules are noticed.

use garth_proofs::outbox::{Deliveries, Fault};

use super::support::{broken, proven};

#[test]
fn killed_workers_deliver_events_in_order() {
    let report = proven(&Deliveries::default(), 3);
    let delivered = report["events delivered in order"];
    assert!(report["kills"] == 8 && delivered > 10 && report["requests"] > delivered, "{report}");
}

#[test]
fn proof_detects_early_acknowledgement_by_worker() {
    let broken = broken(&Deliveries { fault: Some(Fault::TellsLater) }, 3);
    assert!(broken.contains("lost") || broken.contains("came after"), "{broken}");
}

#[test]
fn proof_detects_worker_ignoring_leases() {
    let broken = broken(&Deliveries { fault: Some(Fault::IgnoresLeases) }, 3);
    assert!(broken.contains("was held until"), "{broken}");
}
