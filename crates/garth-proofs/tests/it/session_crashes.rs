//! Sessions under many appenders, kills and power cuts. A negative control omits a sync, which the check must
//! notice.

use garth_proofs::sessions::crashes::{SessionAppenders, SessionCrashes};
use garth_proofs::sessions::resets::Resets;
use garth_testkit::crash::By;

use super::support::{asked, broken_at, proven_on_disk};

/// Crashes of a run that must find no fault; `GARTH_CRASHES` sets another number.
const CRASHES: u64 = 12;
/// Seed of the negative control.
const CONTROL_SEED: u64 = 3;
/// Cuts in which an omitted sync must be noticed. The run ends at the first that does so.
const CONTROL_CUTS: u64 = 100;

#[test]
fn session_appenders_lose_and_tear_no_line() {
    let report = proven_on_disk(&SessionAppenders { writers: 16 }, 1, 8);
    assert_eq!(report["appends answered"], 128);
}

#[test]
fn sessions_survive_kills_and_power_cuts() {
    let (crashes, seed) = (asked("GARTH_CRASHES", CRASHES), u64::from(std::process::id()));
    for by in [By::Kill, By::Cut] {
        let report = proven_on_disk(&SessionCrashes { by, fault: None }, seed, crashes);
        assert!(report["crashes"] == crashes && report["appends answered"] >= crashes, "{report}");
        let followed = ["packs built again", "chunks followed", "sources followed"];
        assert!(followed.iter().all(|what| report[what] > 0), "{report}");
    }
}

#[test]
fn proof_detects_sync_omitted_by_sessions() {
    let proof = SessionCrashes { by: By::Cut, fault: Some("sync-off") };
    let broken = broken_at(&proof, CONTROL_SEED, CONTROL_CUTS);
    // The failure must come from the check after a cut, and not from a cut that could not be made.
    assert!(broken.starts_with(&format!("seed {CONTROL_SEED}, round ")), "{broken}");
}

#[test]
fn resets_survive_kills_and_power_cuts() {
    let (crashes, seed) = (asked("GARTH_CRASHES", CRASHES), u64::from(std::process::id()));
    for by in [By::Kill, By::Cut] {
        let report = proven_on_disk(&Resets { by, fault: None }, seed, crashes);
        let compared = ["archives", "parts", "messages in archives", "images"];
        assert!(compared.iter().all(|what| report[what] > 0), "{report}");
        assert!(report.in_group("answered", "refusals") > 0, "{report}");
    }
}

#[test]
fn proof_detects_sync_omitted_by_resets() {
    let proof = Resets { by: By::Cut, fault: Some("sync-off") };
    let broken = broken_at(&proof, CONTROL_SEED, CONTROL_CUTS);
    assert!(broken.starts_with(&format!("seed {CONTROL_SEED}, round ")), "{broken}");
}
