//! Runs proofs at a small size and prints their counts.

use garth_testkit::proof::{Proof, Report, binaries_of_test, garth_in, prove, prove_small};

#[track_caller]
pub(crate) fn proven(proof: &dyn Proof, seed: u64) -> Report {
    let report = prove_small(proof, seed).unwrap_or_else(|broken| panic!("{broken}"));
    println!("{report}");
    report
}

/// Returns the reason for which a negative control fails.
#[track_caller]
pub(crate) fn broken(proof: &dyn Proof, seed: u64) -> String {
    let broken = prove_small(proof, seed).expect_err("the fault is noticed").to_string();
    println!("{proof:?}: {broken}");
    broken
}

/// Returns the reason for which a negative control of a given size fails.
#[track_caller]
pub(crate) fn broken_at(proof: &dyn Proof, seed: u64, size: u64) -> String {
    let outcome = prove(proof, &garth_testkit::tools::in_memory(), &binaries_of_test(), seed, size);
    let broken = outcome.expect_err("the fault is noticed").to_string();
    println!("{proof:?}: {broken}");
    broken
}

/// Runs a proof on a disk, where syncs take real time.
#[track_caller]
pub(crate) fn proven_on_disk(proof: &dyn Proof, seed: u64, size: u64) -> Report {
    let report = prove(proof, &garth_testkit::tools::on_disk(), &binaries_of_test(), seed, size);
    let report = report.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{report}");
    report
}

/// Returns the path of the binary `garth` of this build.
pub(crate) fn garth() -> std::path::PathBuf {
    garth_in(&binaries_of_test())
}

/// Returns a number from the environment, or a default.
pub(crate) fn asked(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |number| number.parse().unwrap())
}
