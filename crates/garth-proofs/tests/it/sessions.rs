//! Packs and collections of random sessions, and collections that ignore a reference.

use garth_proofs::filled_packs::{self, FilledPacks};
use garth_proofs::packs::Packs;
use garth_proofs::retractions::{self, Retractions};
use garth_proofs::sessions::collection::{Blind, Collections, REMOVED};
use garth_proofs::transcripts::{Fault, Transcripts};

use super::support::{broken, broken_at, proven};

#[test]
fn random_packs_fit_budget_and_replay() {
    let report = proven(&Packs, 1);
    for (what, least) in [
        ("packs", 80),
        ("budgets too small", 1),
        ("sources resolved", 10),
        ("packs built again much later", 80),
    ] {
        assert!(report[what] > least, "{what}: {report}");
    }
}

#[test]
fn session_gc_collects_exactly_unneeded_files() {
    let report = proven(&Collections::default(), 1);
    assert!(report["collections"] > 60, "{report}");
    assert!(REMOVED.iter().all(|what| report[what] > 10), "{report}");
}

#[test]
fn proof_detects_missed_session_file() {
    for blind in [Blind::Children, Blind::Pack, Blind::Age] {
        let broken = broken_at(&Collections { blind: Some(blind) }, 1, 40);
        assert!(broken.contains("are kept although they are not"), "{blind:?}: {broken}");
    }
}

#[test]
fn sessions_match_their_transcripts() {
    let report = proven(&Transcripts::default(), 1);
    for (what, least) in [
        ("messages", 200),
        ("parts", 30),
        ("sent again", 60),
        ("rewinds", 15),
        ("retractions", 8),
        ("resets", 8),
    ] {
        assert!(report[what] > least, "{what}: {report}");
    }
}

#[test]
fn proof_detects_lost_and_duplicate_messages() {
    for fault in [Fault::Lost, Fault::Doubled] {
        let broken = broken_at(&Transcripts { fault: Some(fault) }, 1, 20);
        assert!(broken.contains("the session says") || broken.contains("sent again"), "{fault:?}: {broken}");
    }
}

#[test]
fn packs_fill_budget_and_cut_long_results() {
    let report = proven(&FilledPacks::default(), 1);
    for what in ["packs with messages left out", "results in part", "packs that go on"] {
        assert!(report[what] > 1, "{what}: {report}");
    }
}

#[test]
fn proof_detects_wrong_pack_size() {
    let broken = |fault| broken(&FilledPacks { fault: Some(fault) }, 1);
    assert!(broken(filled_packs::Fault::Half).contains("messages left out"));
    assert!(broken(filled_packs::Fault::Twice).contains("in a budget of"));
}

#[test]
fn pack_cost_does_not_grow_with_retractions() {
    proven(&Retractions::default(), 1);
    let broken = |fault| broken(&Retractions { fault: Some(fault) }, 1);
    assert!(broken(retractions::Fault::None).contains("a pack has retracted messages"));
    assert!(broken(retractions::Fault::EachEvent).contains("a pack takes"));
}
