//! Proofs of the engine at a small size. `cargo xtask prove` runs them at full size.

use garth_testkit::fs::planted::Bug;
use garth_testkit::proof::accounts::{Accounts, Used};
use garth_testkit::proof::appends::{Appenders, CompareAndSwap, ManyAppends};
use garth_testkit::proof::big_file::{self, BigFile};
use garth_testkit::proof::committed::{CallersGone, ProcessesEnded, Retry};
use garth_testkit::proof::damage::EveryDamage;
use garth_testkit::proof::failpoints::Failpoints;
use garth_testkit::proof::garbage_collection::Collection;
use garth_testkit::proof::histories::Histories;
use garth_testkit::proof::processes::Processes;
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
fn two_processes_on_one_folder_read_no_stale_value_lose_no_write_and_let_each_other_write() {
    let report = proven_on_disk(&Processes { processes: 2 }, 1);
    assert!(report["counter increments"] > 0 && report.group("lines beside each other").count() == 2);
}

#[test]
fn three_processes_on_one_folder_read_no_stale_value_lose_no_write_and_let_each_other_write() {
    let proof = Processes { processes: 3 };
    let report = prove(&proof, &garth_testkit::proof::in_memory(), &binaries_of_test(), 1, 1500);
    let report = report.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report["counter increments"] > 0 && report.group("lines beside each other").count() == 3);
}

#[test]
fn sixty_four_appenders_to_one_file_lose_no_line() {
    assert_eq!(proven_on_disk(&Appenders { writers: 64 }, 1)["writes kept"], 640);
}

#[test]
fn of_sixty_four_writers_by_compare_and_swap_each_version_has_one_winner() {
    let report = proven(&CompareAndSwap { writers: 64 }, 1);
    assert_eq!(report["writes kept"], 320);
    // Without a conflict the writers did not compete.
    assert!(report["conflicts"] > 0, "nobody was in anybody's way");
}

#[test]
fn ten_thousand_appends_stay_readable_in_every_version_and_take_less_than_20_mb() {
    let report = proven(&ManyAppends, 1);
    assert!(report["bytes once closed"] < 20_000_000, "{report}");
    assert_eq!(report["versions compared"], 1_000);
}

#[test]
fn a_file_larger_than_the_memory_is_written_changed_and_read_by_stream() {
    let report = proven(&BigFile, 7);
    assert!(report["bytes of peak memory"] < big_file::MOST_MEMORY, "{report}");
    assert!(report["bytes compared"] > 180 << 20, "{report}");
}

#[test]
fn a_large_tree_is_renamed_and_removed_in_little_memory() {
    let report = proven(&Subtrees, 1);
    assert!(report["bytes of peak memory"] < subtrees::MOST_MEMORY, "{report}");
}

#[test]
fn many_accounts_used_at_once_wait_for_room() {
    let report = proven(&Accounts { used: Used::AtOnce, descriptors: 256 }, 1);
    assert!(report["descriptors"] < 256, "{report}");
}

#[test]
fn many_accounts_used_in_turn_take_bounded_descriptors_threads_and_memory() {
    let report = proven(&Accounts { used: Used::InTurn, descriptors: 128 }, 1);
    assert!(report["descriptors"] > 0 && report["threads"] > 0, "{report}");
}

#[test]
fn fsck_finds_every_kind_of_damage_and_no_read_gives_wrong_bytes() {
    assert_eq!(proven(&EveryDamage, 1)["kinds of damage found"], 26);
}

#[test]
fn gc_beside_another_process_removes_orphans_only() {
    let report = proven(&Collection, 3);
    let removed = ["versions removed while held", "versions removed", "uploads removed"];
    assert_eq!(removed.map(|what| report[what]), [0, 2, 2]);
}

#[test]
fn a_failure_at_any_step_leaves_a_prefix_of_the_commits_with_all_that_were_acknowledged() {
    let report = proven(&Failpoints, 5);
    assert_eq!(report["failures"], 43);
    assert!(report["batches acknowledged and kept"] > 100, "{report}");
}

#[test]
fn a_commit_whose_caller_gave_up_is_there_once_after_a_retry() {
    let report = proven(&CallersGone { retry: Retry::SameId }, 3);
    assert_eq!(report["answers lost"], 150);
    assert!(report["commits that were there"] > 20 && report["commits made by a retry"] > 20, "{report}");
}

#[test]
fn a_commit_whose_process_ended_before_the_answer_is_there_once_after_a_retry() {
    let report = proven(&ProcessesEnded { retry: Retry::SameId }, 3);
    assert_eq!(report["answers lost"], 42);
    assert!(report["commits that were there"] >= 12 && report["commits made by a retry"] >= 12, "{report}");
}

#[test]
fn a_retry_under_another_id_commits_twice_and_is_noticed() {
    let proofs: [&dyn Proof; 2] =
        [&CallersGone { retry: Retry::OtherId }, &ProcessesEnded { retry: Retry::OtherId }];
    for proof in proofs {
        let broken = broken(proof, 3);
        assert!(broken.contains("times") || broken.contains("nobody tried"), "{broken}");
    }
}

#[test]
fn histories_of_sixteen_clients_have_one_order() {
    let report = proven(&Histories::default(), 11);
    assert_eq!(report["histories"], 20);
    assert!(report["reads"] > 1000 && report["writes"] > 500 && report["conflicts"] > 100, "{report}");
}

#[test]
fn planted_bugs_break_the_order_of_a_history() {
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
