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
fn no_line_of_many_appenders_is_lost_torn_or_out_of_order() {
    let report = proven_on_disk(&SessionAppenders { writers: 16 }, 1, 8);
    assert_eq!(report["appends answered"], 128);
}

#[test]
fn what_was_said_outlives_kills_and_power_cuts_and_what_is_made_of_it_is_whole_or_absent() {
    let (crashes, seed) = (asked("GARTH_CRASHES", CRASHES), u64::from(std::process::id()));
    for by in [By::Kill, By::Cut] {
        let report = proven_on_disk(&SessionCrashes { by, fault: None }, seed, crashes);
        assert!(report["crashes"] == crashes && report["appends answered"] >= crashes, "{report}");
        let followed = ["packs built again", "chunks followed", "sources followed"];
        assert!(followed.iter().all(|what| report[what] > 0), "{report}");
    }
}

#[test]
fn a_sync_that_sessions_leave_out_is_noticed() {
    let proof = SessionCrashes { by: By::Cut, fault: Some("sync-off") };
    let broken = broken_at(&proof, CONTROL_SEED, CONTROL_CUTS);
    // The failure must come from the check after a cut, and not from a cut that could not be made.
    assert!(broken.starts_with(&format!("seed {CONTROL_SEED}, round ")), "{broken}");
}

#[test]
fn no_session_is_put_away_without_its_archive_under_kills_and_power_cuts() {
    let (crashes, seed) = (asked("GARTH_CRASHES", CRASHES), u64::from(std::process::id()));
    for by in [By::Kill, By::Cut] {
        let report = proven_on_disk(&Resets { by, fault: None }, seed, crashes);
        let compared = ["archives", "parts", "messages in archives", "images"];
        assert!(compared.iter().all(|what| report[what] > 0), "{report}");
        assert!(report.in_group("answered", "refusals") > 0, "{report}");
    }
}

#[test]
fn a_sync_that_resets_leave_out_is_noticed() {
    let proof = Resets { by: By::Cut, fault: Some("sync-off") };
    let broken = broken_at(&proof, CONTROL_SEED, CONTROL_CUTS);
    assert!(broken.starts_with(&format!("seed {CONTROL_SEED}, round ")), "{broken}");
}
