//! Sessions under many appenders, kills and power cuts; and the check that says what is kept sees a sync that
//! is left out.

use std::path::PathBuf;

use garth_testkit::proof::resets;
use garth_testkit::proof::sessions::{self, Crash};

use super::crash::asked;

/// Crashes of a run that must find nothing; `GARTH_CRASHES` asks for more.
const CRASHES: u32 = 12;
/// Of the run that must find what is left out.
const CONTROL_SEED: u64 = 3;
/// Cuts in which a sync that is left out has to show; a run ends at the first that shows it.
const CONTROL_CUTS: u64 = 100;

fn worker() -> PathBuf {
    env!("CARGO_BIN_EXE_proof-worker").into()
}

#[test]
fn no_line_of_many_appenders_is_lost_torn_or_out_of_order() {
    let folder = tempfile::tempdir().unwrap();
    let report = sessions::appenders(folder.path(), 16, 8).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(report.answered, 128);
}

#[test]
fn what_was_said_outlives_kills_and_power_cuts_and_what_is_made_of_it_is_whole_or_absent() {
    let (crashes, seed) = (asked("GARTH_CRASHES", CRASHES), u64::from(std::process::id()));
    for crash in [Crash::Kill, Crash::Cut] {
        let report = sessions::crashed(&worker(), crash, u64::from(crashes), seed, None)
            .unwrap_or_else(|broken| panic!("{crash:?}: {broken}"));
        println!("{crash:?}, seed {seed}: {report}");
        assert!(report.crashes == u64::from(crashes) && report.answered >= report.crashes, "{report}");
        assert!(report.packs > 0 && report.chunks > 0 && report.sources > 0, "{report}");
    }
}

#[test]
fn a_sync_that_sessions_leave_out_is_noticed() {
    let broken = sessions::crashed(&worker(), Crash::Cut, CONTROL_CUTS, CONTROL_SEED, Some("sync-off"));
    let broken = broken.expect_err("the planted fault is seen").to_string();
    println!("{broken}");
    // by what was found after a cut, and not because no cut could be made
    assert!(broken.starts_with(&format!("seed {CONTROL_SEED}, round ")), "{broken}");
}

#[test]
fn no_session_is_put_away_without_its_archive_under_kills_and_power_cuts() {
    let (crashes, seed) = (asked("GARTH_CRASHES", CRASHES), u64::from(std::process::id()));
    for crash in [Crash::Kill, Crash::Cut] {
        let report = resets::crashed(&worker(), crash, u64::from(crashes), seed, None)
            .unwrap_or_else(|broken| panic!("{crash:?}: {broken}"));
        println!("{crash:?}, seed {seed}: {report}");
        assert!(report.archives > 0 && report.parts > 0 && report.messages > 0, "{report}");
        assert!(report.pictures > 0 && report.answered.contains_key("refusals"), "{report}");
    }
}

#[test]
fn a_sync_that_resets_leave_out_is_noticed() {
    let broken = resets::crashed(&worker(), Crash::Cut, CONTROL_CUTS, CONTROL_SEED, Some("sync-off"));
    let broken = broken.expect_err("the planted fault is seen").to_string();
    println!("{broken}");
    assert!(broken.starts_with(&format!("seed {CONTROL_SEED}, round ")), "{broken}");
}
