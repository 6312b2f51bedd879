//! Nothing leads out of a scope, a tree of views or a folder, and each planted leak is detected.

use garth_testkit::fs::leaky::Leak;
use garth_testkit::isolation::scopes::Scopes;
use garth_testkit::isolation::views::{HostViews, Place, Views};
use garth_testkit::proof::{Proof, Report, binaries_of_test, prove, prove_small};
use garth_testkit::tools::in_memory;

#[track_caller]
fn proven(proof: &dyn Proof) -> Report {
    let report = prove_small(proof, 13).unwrap_or_else(|broken| panic!("{broken}"));
    println!("{report}");
    report
}

/// Returns the message about a leak that is detected within `tries` attempts.
fn noticed(proof: &dyn Proof, tries: u64) -> String {
    let outcome = prove(proof, &in_memory(), &binaries_of_test(), 13, tries);
    let noticed = outcome.err().map_or_else(|| "not seen".to_owned(), |broken| broken.to_string());
    println!("{proof:?}: {noticed}");
    noticed
}

#[test]
fn scope_sees_nothing_outside() {
    let report = proven(&Scopes::default());
    assert!(report["tries"] == 5_000 && report["answered"] > 500, "{report}");
}

#[test]
fn catches_every_planted_scope_leak() {
    for leak in Leak::ALL {
        let noticed = noticed(&Scopes { leak: Some(leak) }, 5_000);
        assert_ne!(noticed, "not seen", "{leak:?}");
    }
}

#[test]
fn views_reach_nothing_outside_their_parts() {
    let report = proven(&Views::default());
    assert!(report["tries"] == 5_000 && report["answered"] > 500 && report["swaps"] > 100, "{report}");
}

#[test]
fn catches_every_planted_view_leak() {
    // An inode that is not found is not written to either: a mount looks before the store does.
    let base = Leak::ALL.into_iter().filter(|leak| *leak != Leak::Write).map(|leak| (Place::Base, leak));
    for leak in base.chain([(Place::Lower, Leak::Link), (Place::Upper, Leak::Number)]) {
        let noticed = noticed(&Views { leak: Some(leak) }, 20_000);
        assert!(noticed.starts_with("seed "), "{leak:?}: {noticed}");
    }
}

#[test]
fn folder_views_never_follow_swapped_links() {
    let report = proven(&HostViews::default());
    assert!(report["tries"] == 5_000 && report["answered"] > 500 && report["swaps"] > 100, "{report}");
}

#[test]
fn catches_every_planted_folder_leak() {
    for leak in Leak::OF_HOST {
        let noticed = noticed(&HostViews { leak: Some(leak) }, 60_000);
        let sign = if leak == Leak::HostRead { "seed " } else { "what lies outside was changed" };
        assert!(noticed.starts_with(sign), "{leak:?}: {noticed}");
    }
}
