//! Proofs of the engine at a small size. `cargo xtask prove` runs them at full size.

use garth_testkit::fs::planted::Bug;
use garth_testkit::proof::accounts::{Accounts, Used};
use garth_testkit::proof::appends::{Appenders, CompareAndSwap, ManyAppends};
use garth_testkit::proof::big_file::{self, BigFile};
use garth_testkit::proof::committed::{CallersGone, ProcessesEnded, Retry};
use garth_testkit::proof::damage::EveryDamage;
use garth_testkit::proof::failpoints::Failpoints;
use garth_testkit::proof::folded_authors::FoldedAuthors;
use garth_testkit::proof::garbage_collection::Collection;
use garth_testkit::proof::gc_beside_readers::GcBesideReaders;
use garth_testkit::proof::histories::Histories;
use garth_testkit::proof::long_retention::LongRetention;
use garth_testkit::proof::migrate_names::{self, MigrateNames};
use garth_testkit::proof::processes::Processes;
use garth_testkit::proof::steady_state::SteadyState;
use garth_testkit::proof::subtrees::{self, Subtrees};
use garth_testkit::proof::{Proof, Report, binaries_of_test, prove, prove_small};

#[track_caller]
fn proven(proof: &dyn Proof, seed: u64) -> Report {
    let report = prove_small(proof, seed).unwrap_or_else(|broken| panic!("{broken}"));
    println!("{report}");
    report
}

/// Runs a proof on a disk, where syncs take time.
#[track_caller]
fn proven_on_disk(proof: &dyn Proof, seed: u64) -> Report {
    let size = proof.about().ci;
    let report = prove(proof, &garth_testkit::tools::on_disk(), &binaries_of_test(), seed, size);
    let report = report.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{report}");
    report
}

/// Returns the reason for which a negative control fails.
#[track_caller]
fn broken(proof: &dyn Proof, seed: u64) -> String {
    let broken = prove_small(proof, seed).expect_err("the fault is noticed").to_string();
    println!("{proof:?}: {broken}");
    broken
}

#[test]
fn two_processes_share_one_folder() {
    let report = proven_on_disk(&Processes { processes: 2 }, 1);
    assert!(report["counter increments"] > 0 && report.group("lines beside each other").count() == 2);
}

#[test]
fn three_processes_share_one_folder() {
    let proof = Processes { processes: 3 };
    let report = prove(&proof, &garth_testkit::tools::in_memory(), &binaries_of_test(), 1, 1500);
    let report = report.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report["counter increments"] > 0 && report.group("lines beside each other").count() == 3);
}

#[test]
fn concurrent_appenders_lose_no_acknowledged_line() {
    assert_eq!(proven_on_disk(&Appenders { writers: 64 }, 1)["writes kept"], 640);
}

#[test]
fn compare_and_swap_has_one_winner_per_version() {
    let report = proven(&CompareAndSwap { writers: 64 }, 1);
    assert_eq!(report["writes kept"], 320);
    // Without a conflict the writers did not compete.
    assert!(report["conflicts"] > 0, "nobody was in anybody's way");
}

#[test]
fn appended_versions_stay_readable_and_small() {
    let report = proven(&ManyAppends, 1);
    assert_eq!(report["versions compared"], 1_000);
}

#[test]
fn streams_file_larger_than_memory() {
    let report = proven(&BigFile, 7);
    assert!(report["bytes of peak memory"] < big_file::MOST_MEMORY, "{report}");
    assert!(report["bytes compared"] > 180 << 20, "{report}");
}

#[test]
fn large_tree_operations_use_little_memory() {
    let report = proven(&Subtrees, 1);
    assert!(report["bytes of peak memory"] < subtrees::MOST_MEMORY, "{report}");
}

#[test]
fn concurrently_used_accounts_wait_for_room() {
    let report = proven(&Accounts { used: Used::AtOnce, descriptors: 256 }, 1);
    assert!(report["descriptors"] < 256, "{report}");
}

#[test]
fn many_accounts_use_bounded_resources() {
    let report = proven(&Accounts { used: Used::InTurn, descriptors: 128 }, 1);
    assert!(report["descriptors"] > 0 && report["threads"] > 0, "{report}");
}

#[test]
fn fsck_finds_every_kind_of_damage() {
    assert_eq!(proven(&EveryDamage, 1)["kinds of damage found"], 26);
}

#[test]
fn gc_removes_only_orphans_beside_another_process() {
    let report = proven(&Collection, 3);
    let removed = ["versions removed while held", "versions removed", "uploads removed"];
    assert_eq!(removed.map(|what| report[what]), [0, 2, 2]);
}

#[test]
fn live_bytes_keep_their_authors_after_folding() {
    let report = proven(&FoldedAuthors::default(), 3);
    assert!(report["commits"] > 200 && report["commits folded"] > 100, "{report}");
    assert!(report["states compared"] > 20 && report["states gone"] > 20, "{report}");
    assert!(report["runs of folded commits"] > 100, "{report}");
}

#[test]
fn proof_detects_lost_author() {
    let broken = broken(&FoldedAuthors { bug: Some(Bug::LostAuthor) }, 3);
    assert!(broken.contains("was written by"), "{broken}");
}

#[test]
fn collection_takes_nothing_that_is_held() {
    let report = proven_on_disk(&GcBesideReaders { steady: false }, 1);
    for held in ["reads of files", "snapshots held", "views held", "open files held", "collections"] {
        assert!(report[held] > 0, "{held}: {report}");
    }
    assert!(report["commits that left the log"] > 900, "{report}");
}

#[test]
fn size_levels_off_under_retention() {
    let report = proven(&SteadyState::default(), 1);
    assert!(report["commits that left the log"] > 3_000, "{report}");
}

#[test]
fn proof_detects_past_that_is_kept() {
    let proof = SteadyState { keeps_all: true, ..SteadyState::default() };
    let broken = prove(&proof, &garth_testkit::tools::in_memory(), &binaries_of_test(), 1, 2_400);
    let broken = broken.expect_err("the fault is noticed").to_string();
    assert!(broken.contains("do not level off"), "{broken}");
}

#[test]
fn retention_on_long_log_takes_effect_beside_commits() {
    let report = proven_on_disk(&LongRetention, 1);
    assert!(report["commits that left the log"] >= 3_000, "{report}");
}

#[test]
fn older_account_is_upgraded_and_collected_in_little_memory() {
    let report = proven(&MigrateNames, 1);
    assert_eq!((report["names"], report["processes ended"]), (19_019, 3));
    assert!(report["bytes of peak memory"] < migrate_names::MOST_MEMORY, "{report}");
}

#[test]
fn failure_at_any_step_keeps_acknowledged_commits() {
    let report = proven(&Failpoints, 5);
    assert_eq!(report["failures"], 70);
    assert!(report["batches acknowledged and kept"] > 100, "{report}");
}

#[test]
fn retry_after_abandoned_commit_commits_once() {
    let report = proven(&CallersGone { retry: Retry::SameId }, 3);
    assert_eq!(report["answers lost"], 150);
    assert!(report["commits that were there"] > 20 && report["commits made by a retry"] > 20, "{report}");
}

#[test]
fn retry_after_process_end_commits_once() {
    let report = proven(&ProcessesEnded { retry: Retry::SameId }, 3);
    assert_eq!(report["answers lost"], 42);
    assert!(report["commits that were there"] >= 12 && report["commits made by a retry"] >= 12, "{report}");
}

#[test]
fn proof_detects_retry_under_another_id() {
    let proofs: [&dyn Proof; 2] =
        [&CallersGone { retry: Retry::OtherId }, &ProcessesEnded { retry: Retry::OtherId }];
    for proof in proofs {
        let broken = broken(proof, 3);
        assert!(broken.contains("times") || broken.contains("nobody tried"), "{broken}");
    }
}

#[test]
fn client_histories_are_linearizable() {
    let report = proven(&Histories::default(), 11);
    assert_eq!(report["histories"], 20);
    assert!(report["reads"] > 1000 && report["writes"] > 500 && report["conflicts"] > 100, "{report}");
}

#[test]
fn planted_bugs_break_linearizability() {
    for (bug, sign) in [
        (Bug::StaleRead, "stale read"),
        (Bug::LostWrite, ""),
        (Bug::IgnoredPrecondition, "replaced twice"),
        (Bug::FalseConflict, "refused though nobody had replaced it"),
    ] {
        let broken = broken(&Histories { calls: 40, bug: Some(bug) }, 11);
        assert!(broken.contains(sign), "{bug:?}: {broken}");
    }
}
