//! Crashes during the removal of the past at a small size, and checks that detect planted faults.

use garth_testkit::crash::By;
use garth_testkit::crash::retention_crash::RetentionCrash;
use garth_testkit::proof::{Proof, Proven, Report, binaries_of_test, prove};
use garth_testkit::tools::on_disk;

use super::crash::asked;

/// Crashes in which a planted fault has to show; a run ends at the first that shows it.
const CONTROL_CRASHES: u64 = 200;

fn crash(by: By, fault: Option<&'static str>, crashes: u64) -> Proven<Report> {
    let seed = u64::from(std::process::id());
    prove(&RetentionCrash { by, fault }, &on_disk(), &binaries_of_test(), seed, crashes)
}

fn assert_crash_loses_nothing(by: By, variable: &str) {
    let ci = RetentionCrash { by, fault: None }.about().ci;
    let crashes = u64::from(asked(variable, u32::try_from(ci).unwrap()));
    let report = crash(by, None, crashes).unwrap_or_else(|broken| panic!("{broken}"));
    println!("{report}");
    assert_eq!(report["crashes"], crashes);
    // Each crash leaves at least the commits that the log keeps, once these were made.
    assert!(report["commits acknowledged"] > 0 && report["states compared"] > 0, "{report}");
}

fn assert_caught(by: By, fault: &'static str, signs: &[&str]) {
    let broken = crash(by, Some(fault), CONTROL_CRASHES).expect_err("the planted fault is seen").to_string();
    println!("{fault}: {broken}");
    assert!(signs.iter().any(|sign| broken.contains(sign)), "{fault}: {broken}");
}

#[test]
fn kill_while_past_is_removed_loses_nothing() {
    assert_crash_loses_nothing(By::Kill, "GARTH_KILLS");
}

#[test]
fn power_cut_while_past_is_removed_loses_nothing() {
    assert_crash_loses_nothing(By::Cut, "GARTH_CUTS");
}

#[test]
fn kill_control_catches_early_acknowledgement_beside_collection() {
    assert_caught(By::Kill, "ack-early", &["acknowledged"]);
}

#[test]
fn power_cut_control_catches_omitted_syncs_beside_collection() {
    // What is lost shows first where the crash fell: in a commit, or in what a collection had removed.
    assert_caught(By::Cut, "sync-normal", &["acknowledged", "goes back"]);
    // Without any sync the database itself may be damaged.
    assert_caught(By::Cut, "sync-off", &["acknowledged", "goes back", "fsck finds", "Corrupt"]);
}
