//! Packs and collections of random sessions, and collections that ignore a reference.

use garth_proofs::filled_packs::{self, FilledPacks};
use garth_proofs::packs::Packs;
use garth_proofs::sessions::collection::{Blind, Collections, REMOVED};
use garth_proofs::transcripts::{Fault, Transcripts};
use garth_proofs::withdrawals::Withdrawals;

use super::support::{broken, broken_at, proven};

#[test]
fn packs_of_random_sessions_are_within_their_budget_and_built_again() {
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
fn of_random_sessions_all_that_nothing_needs_is_collected_and_nothing_else() {
    let report = proven(&Collections::default(), 1);
    assert!(report["collections"] > 60, "{report}");
    assert!(REMOVED.iter().all(|what| report[what] > 10), "{report}");
}

#[test]
fn what_is_overlooked_of_a_session_is_noticed() {
    for blind in [Blind::Children, Blind::Pack, Blind::Age] {
        let broken = broken_at(&Collections { blind: Some(blind) }, 1, 40);
        assert!(broken.contains("stay though nothing needs them"), "{blind:?}: {broken}");
    }
}

#[test]
fn sessions_say_what_their_transcripts_say() {
    let report = proven(&Transcripts::default(), 1);
    for (what, least) in [
        ("messages", 200),
        ("parts", 30),
        ("sent again", 60),
        ("rewinds", 15),
        ("withdrawals", 8),
        ("resets", 8),
    ] {
        assert!(report[what] > least, "{what}: {report}");
    }
}

#[test]
fn lost_and_doubled_messages_are_noticed() {
    for fault in [Fault::Lost, Fault::Doubled] {
        let broken = broken_at(&Transcripts { fault: Some(fault) }, 1, 20);
        assert!(broken.contains("the session says") || broken.contains("sent again"), "{fault:?}: {broken}");
    }
}

#[test]
fn packs_use_their_budget_and_show_long_results_in_part() {
    let report = proven(&FilledPacks::default(), 1);
    for what in ["packs with messages left out", "results in part", "packs that go on"] {
        assert!(report[what] > 1, "{what}: {report}");
    }
}

#[test]
fn packs_that_use_too_little_or_too_much_are_noticed() {
    let broken = |fault| broken(&FilledPacks { fault: Some(fault) }, 1);
    assert!(broken(filled_packs::Fault::Half).contains("messages left out"));
    assert!(broken(filled_packs::Fault::Twice).contains("in a budget of"));
}

#[test]
fn packs_and_tails_cost_the_same_beside_many_withdrawals() {
    proven(&Withdrawals::default(), 1);
    assert!(broken(&Withdrawals { none: true }, 1).contains("a pack has withdrawn messages"));
}
