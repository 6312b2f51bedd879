//! Streams of changes whose clients are killed.

use garth_proofs::changes::ResumedConsumers;

use super::support::{broken, proven};

#[test]
fn resumed_consumer_misses_and_repeats_nothing() {
    let report = proven(&ResumedConsumers::default(), 7);
    assert!(report["kills"] == 16 && report["changes compared"] > 100, "{report}");
}

#[test]
fn proof_detects_consumer_that_forgets_an_event() {
    let broken = broken(&ResumedConsumers { forgets: true }, 7);
    assert!(broken.contains("a consumer of"), "{broken}");
}
