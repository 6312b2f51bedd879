//! Limits on calls under 256 connections, with clocks that stand still.

use garth_proofs::call_limits::{CallLimits, Fault};

use super::support::{broken, proven};

#[test]
fn limits_are_fair_between_keys_and_accounts() {
    let report = proven(&CallLimits::default(), 3);
    assert!(report["calls admitted"] > 500 && report["calls refused"] > 500, "{report}");
    assert_eq!((report["wrong keys refused at once"], report["wrong keys refused late"]), (10, 64));
}

#[test]
fn proof_detects_missing_limits() {
    let broken = broken(&CallLimits { fault: Some(Fault::NoLimits) }, 3);
    assert!(broken.contains("its limit permits"), "{broken}");
}

#[test]
fn proof_detects_shared_limit_of_two_keys() {
    let broken = broken(&CallLimits { fault: Some(Fault::SharedKey) }, 3);
    assert!(broken.contains("its limit permits"), "{broken}");
}

#[test]
fn proof_detects_turns_beyond_the_limit() {
    let broken = broken(&CallLimits { fault: Some(Fault::FreeTurns) }, 3);
    assert!(broken.contains("while all of its turns are taken"), "{broken}");
}

#[test]
fn proof_detects_delayed_valid_key() {
    let broken = broken(&CallLimits { fault: Some(Fault::WrongKey) }, 3);
    assert!(broken.contains("has no answer"), "{broken}");
}
