//! Batches over the views of the tree of an agent under kills.

use garth_proofs::view_kills::{How, ViewKills};

use super::support::{broken_at, proven};

#[test]
fn a_batch_over_the_views_of_an_agents_tree_that_was_killed_is_there_whole_and_once() {
    let report = proven(&ViewKills { how: How::Whole }, 3);
    assert!(report["kills"] == 12 && report["batches answered"] > 12, "{report}");
    assert!(report["retries answered with the first commit"] > 12, "{report}");
}

#[test]
fn a_batch_over_views_that_is_committed_in_pieces_is_noticed() {
    let broken = broken_at(&ViewKills { how: How::Split }, 3, 100);
    let noticed = ["batch", "Conflict", " was ", "token"].iter().any(|word| broken.contains(word));
    assert!(noticed, "{broken}");
}
