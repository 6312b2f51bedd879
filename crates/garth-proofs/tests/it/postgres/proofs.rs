//! Proofs of the Postgres engine at a small size, and checks that detect planted faults.

use garth_proofs::postgres::cuts::Cuts;
use garth_proofs::postgres::stops::Stops;
use garth_proofs::postgres::{Model, OnPostgres};

use crate::it::support::{broken_at, proven};

#[test]
fn random_operations_match_the_specification() {
    let report = proven(&Model::default(), 1);
    assert!(report["commits"] > 50 && report["other comparisons"] > 10, "{report}");
    assert_eq!(report["steps omitted without an account"], 0, "{report}");
}

#[test]
fn random_operations_match_while_the_past_goes() {
    let report = proven(&Model { retained: true }, 1);
    assert!(report["commits"] > 50 && report["other comparisons"] > 10, "{report}");
    assert_eq!(report["steps omitted without an account"], 0, "{report}");
}

#[test]
fn concurrent_writers_have_one_order() {
    for proof in OnPostgres::writers() {
        proven(&proof, 1);
    }
}

#[test]
fn attempts_reach_no_hidden_data() {
    for proof in OnPostgres::isolation() {
        let report = proven(&proof, 13);
        assert!(report["answered"] > 20, "{report}");
    }
}

#[test]
fn immediate_stops_lose_no_commit() {
    let report = proven(&Stops::default(), u64::from(std::process::id()));
    assert!(report["commits acknowledged"] > report["stops"], "{report}");
    // A stop that no writer has noticed would prove nothing.
    assert!(report["commits repeated"] > 0, "{report}");
}

#[test]
fn stops_reveal_commits_that_did_not_wait_for_the_log() {
    let broken = broken_at(&Stops { asynchronous: true }, 1, 20);
    assert!(broken.contains("lost"), "{broken}");
}

#[test]
fn cut_connections_lose_and_double_no_commit() {
    let report = proven(&Cuts::default(), u64::from(std::process::id()));
    assert!(report["cuts"] >= 60 && report["commits acknowledged"] > 60, "{report}");
}

#[test]
fn cuts_reveal_commits_that_are_repeated_blindly() {
    let broken = broken_at(&Cuts { blind: true }, 1, 200);
    assert!(broken.contains("doubled"), "{broken}");
}
