//! Batches over the views of the tree of an agent under kills.

use garth_proofs::view_kills::{How, ViewKills};

use super::support::{broken_at, proven};

#[test]
fn killed_batch_across_views_is_atomic() {
    let report = proven(&ViewKills { how: How::Whole }, 3);
    assert!(report["kills"] == 12 && report["batches answered"] > 12, "{report}");
    assert!(report["retries answered with the first commit"] > 12, "{report}");
}

#[test]
fn proof_detects_split_batch_across_views() {
    let broken = broken_at(&ViewKills { how: How::Split }, 3, 100);
    let noticed = ["batch", "Conflict", " was ", "token"].iter().any(|word| broken.contains(word));
    assert!(noticed, "{broken}");
}
