//! The proofs of `garth_testkit::proof`, small. `cargo xtask prove` runs them at full size.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use garth_testkit::leaky::Leak;
use garth_testkit::planted::Bug;
use garth_testkit::proof::committed::{self, Retry};
use garth_testkit::proof::isolation::Place;
use garth_testkit::proof::view_kills::{self, How};
use garth_testkit::proof::{
    Proven, accounts, appends, big_file, collect, damage, failpoints, isolation, linear, outbox, packs,
    processes, prompt_isolation, prompts, repair, session_gc, subtrees,
};
use tempfile::TempDir;

use super::crash::garth;

fn worker() -> PathBuf {
    env!("CARGO_BIN_EXE_proof-worker").into()
}

/// A folder on a disk.
fn on_disk() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A folder in memory, where what is shown has nothing to do with the disk.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { on_disk() }
}

#[track_caller]
fn proven<T: Display>(outcome: Proven<T>) -> T {
    let report = outcome.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{report}");
    report
}

#[test]
fn two_processes_on_one_folder_read_no_stale_value_lose_no_write_and_let_each_other_write() {
    let folder = on_disk();
    let report = proven(processes::processes(folder.path(), &worker(), 2, 40, 400));
    assert!(report.counted > 0 && report.shares.len() == 2);
}

#[test]
fn three_processes_on_one_folder_read_no_stale_value_lose_no_write_and_let_each_other_write() {
    let folder = in_memory();
    let report = proven(processes::processes(folder.path(), &worker(), 3, 60, 1500));
    assert!(report.counted > 0 && report.shares.len() == 3);
}

#[test]
fn sixty_four_appenders_to_one_file_lose_no_line() {
    let folder = on_disk();
    assert_eq!(proven(appends::appenders(folder.path(), 64, 10)).kept, 640);
}

#[test]
fn of_sixty_four_writers_by_compare_and_swap_each_version_has_one_winner() {
    let folder = in_memory();
    let report = proven(appends::cas_writers(folder.path(), 64, 5));
    assert_eq!(report.kept, 320);
    assert!(report.conflicts > 0, "nobody was in anybody's way");
}

#[test]
fn ten_thousand_appends_stay_readable_in_every_version_and_take_less_than_20_mb() {
    let folder = in_memory();
    let report = proven(appends::many_appends(folder.path(), 10_000));
    assert!(report.closed < 20_000_000, "{report}");
    assert_eq!(report.compared, 1_000);
}

#[test]
fn a_file_larger_than_the_memory_is_written_changed_and_read_by_stream() {
    let folder = in_memory();
    let report = proven(big_file::big_file(folder.path(), &worker(), 96 << 20, 7));
    assert!(report.peak < big_file::MOST_MEMORY && report.compared > 180 << 20);
}

#[test]
fn a_large_tree_is_renamed_and_removed_in_little_memory() {
    let folder = in_memory();
    let report = proven(subtrees::subtrees(folder.path(), &worker(), 20_000));
    assert!(report.peak < subtrees::MOST_MEMORY, "{report}");
}

#[test]
fn many_accounts_used_at_once_wait_for_room() {
    let folder = in_memory();
    let report = proven(accounts::crowd(folder.path(), &worker(), 300, 256));
    assert!(report.descriptors < 256, "{report}");
}

#[test]
fn many_accounts_used_in_turn_take_bounded_descriptors_threads_and_memory() {
    let folder = in_memory();
    let report = proven(accounts::accounts(folder.path(), &worker(), 300, 128));
    assert!(report.descriptors > 0 && report.threads > 0, "{report}");
}

#[test]
fn fsck_finds_every_kind_of_damage_and_no_read_gives_wrong_bytes() {
    let folder = in_memory();
    assert_eq!(proven(damage::damage(folder.path())).found.len(), 26);
}

#[test]
fn gc_beside_another_process_removes_orphans_only() {
    let folder = in_memory();
    let report = proven(collect::collect(folder.path(), &worker(), 12, 3));
    assert_eq!((report.held.versions, report.aged.versions, report.aged.staged), (0, 2, 2));
}

#[test]
fn a_failure_at_any_step_leaves_a_prefix_of_the_commits_with_all_that_were_acknowledged() {
    let folder = in_memory();
    let report = proven(failpoints::failpoints(folder.path(), &worker(), 1, 5));
    assert_eq!(report.failures, 43);
    assert!(report.acknowledged > 100, "{report}");
}

#[test]
fn a_commit_whose_caller_gave_up_is_there_once_after_a_retry() {
    let folder = in_memory();
    let report = proven(committed::given_up(folder.path(), 150, 3, Retry::SameId));
    assert_eq!(report.lost, 150);
    assert!(report.kept > 20 && report.retried > 20, "{report}");
}

#[test]
fn a_commit_whose_process_ended_before_the_answer_is_there_once_after_a_retry() {
    let folder = in_memory();
    let report = proven(committed::ended(folder.path(), &worker(), 42, 3, Retry::SameId));
    assert_eq!(report.lost, 42);
    assert!(report.kept >= 12 && report.retried >= 12, "{report}");
}

#[test]
fn a_batch_over_the_views_of_an_agents_tree_that_was_killed_is_there_whole_and_once() {
    let folder = in_memory();
    let report = proven(view_kills::killed(folder.path(), &worker(), 12, 3, How::Whole));
    assert!(report.kills == 12 && report.answered > 12 && report.replayed > 12, "{report}");
}

#[test]
fn a_batch_over_views_that_is_committed_in_pieces_is_noticed() {
    let folder = in_memory();
    let broken = view_kills::killed(folder.path(), &worker(), 100, 3, How::Split).unwrap_err().to_string();
    let noticed = ["batch", "Conflict", " was ", "token"].iter().any(|word| broken.contains(word));
    assert!(noticed, "{broken}");
}

#[test]
fn a_put_whose_connection_was_cut_is_there_once_after_a_retry() {
    let folder = in_memory();
    let report = proven(committed::cut(folder.path(), &garth(), 60, 3));
    assert_eq!(report.lost, 60);
    assert!(report.kept > 5 && report.retried > 5, "{report}");
}

#[test]
fn a_retry_under_another_id_commits_twice_and_is_noticed() {
    let folder = in_memory();
    let broken = committed::given_up(folder.path(), 20, 3, Retry::OtherId).unwrap_err().to_string();
    assert!(broken.contains("times") || broken.contains("nobody tried"), "{broken}");
    let folder = in_memory();
    let broken = committed::ended(folder.path(), &worker(), 7, 3, Retry::OtherId).unwrap_err().to_string();
    assert!(broken.contains("times") || broken.contains("nobody tried"), "{broken}");
}

#[test]
fn histories_of_sixteen_clients_have_one_order() {
    let folder = in_memory();
    let report = proven(linear::linear(folder.path(), 20, 25, 11, None));
    assert_eq!(report.histories, 20);
    assert!(report.reads > 1000 && report.writes > 500 && report.conflicts > 100, "{report}");
}

#[test]
fn planted_bugs_break_the_order_of_a_history() {
    for (bug, sign) in [
        (Bug::StaleRead, "stale read"),
        (Bug::LostWrite, ""),
        (Bug::IgnoredPrecondition, "replaced twice"),
        (Bug::FalseConflict, "refused though nobody had replaced it"),
    ] {
        let folder = in_memory();
        let broken = linear::linear(folder.path(), 5, 40, 11, Some(bug)).unwrap_err().to_string();
        println!("{bug:?}: {broken}");
        assert!(broken.contains(sign), "{bug:?}: {broken}");
    }
}

#[test]
fn twenty_thousand_tries_see_no_canary() {
    let folder = in_memory();
    let report = proven(isolation::isolation(folder.path(), 20_000, 13));
    assert_eq!(report.tree + report.kv + report.ids, 20_000);
    assert!(report.answered > 2_000, "{report}");
}

#[test]
fn tries_from_a_scope_see_nothing_of_what_lies_beside_it() {
    let folder = in_memory();
    let report = proven(isolation::scopes(folder.path(), 5_000, 13, None));
    assert!(report.tries == 5_000 && report.answered > 500, "{report}");
}

#[test]
fn every_planted_leak_of_a_scope_is_caught() {
    for leak in Leak::ALL {
        let folder = in_memory();
        let broken = isolation::scopes(folder.path(), 5_000, 13, Some(leak)).expect_err("a leak is seen");
        println!("{leak:?}: {broken}");
    }
}

#[test]
fn tries_from_a_tree_of_views_see_and_change_nothing_around_its_parts() {
    let folder = in_memory();
    let report = proven(isolation::views(folder.path(), 5_000, 13, None));
    assert!(report.tries == 5_000 && report.answered > 500 && report.swaps > 100, "{report}");
}

#[test]
fn every_planted_leak_of_a_part_or_layer_of_a_tree_is_caught() {
    // a number that is not found is not written to either: a mount looks before the store does
    let base = Leak::ALL.into_iter().filter(|leak| *leak != Leak::Write).map(|leak| (Place::Base, leak));
    for (place, leak) in base.chain([(Place::Lower, Leak::Link), (Place::Upper, Leak::Number)]) {
        let folder = in_memory();
        let broken = isolation::views(folder.path(), 20_000, 13, Some((place, leak)));
        let broken = broken.err().map_or_else(|| "not seen".to_owned(), |broken| broken.to_string());
        println!("{place:?} {leak:?}: {broken}");
        assert!(broken.starts_with("seed "), "{place:?} {leak:?}: {broken}");
    }
}

#[test]
fn tries_from_a_tree_of_views_on_a_folder_reach_nothing_outside_while_it_is_swapped_for_links() {
    let folder = in_memory();
    let report = proven(isolation::views_on_host(folder.path(), 5_000, 13, None));
    assert!(report.tries == 5_000 && report.answered > 500 && report.swaps > 100, "{report}");
}

#[test]
fn every_planted_leak_of_a_folder_is_caught() {
    for leak in Leak::OF_HOST {
        let folder = in_memory();
        let broken = isolation::views_on_host(folder.path(), 6_000, 13, Some(leak));
        let broken = broken.expect_err("a leak is seen").to_string();
        println!("{leak:?}: {broken}");
        let sign = if leak == Leak::HostRead { "seed " } else { "what lies outside was changed" };
        assert!(broken.starts_with(sign), "{leak:?}: {broken}");
    }
}

#[test]
fn tries_from_the_nodes_of_an_agent_see_and_change_nothing_of_others() {
    let folder = in_memory();
    let report = proven(isolation::nodes(folder.path(), 3_000, 13, false));
    assert!(report.tries == 3_000 && report.answered > 500, "{report}");
}

#[test]
fn tries_from_the_nodes_of_a_whole_account_are_noticed() {
    let folder = in_memory();
    let broken = isolation::nodes(folder.path(), 3_000, 13, true).unwrap_err().to_string();
    assert!(broken.contains("a canary is seen"), "{broken}");
}

#[test]
fn events_reach_a_bad_sink_in_order_while_workers_are_killed() {
    let folder = in_memory();
    let report = proven(outbox::outbox(folder.path(), &worker(), 8, 3, None));
    assert!(report.kills == 8 && report.told > 10 && report.requests > report.told, "{report}");
}

#[test]
fn a_worker_that_counts_events_as_told_too_early_is_noticed() {
    let folder = in_memory();
    let broken = outbox::outbox(folder.path(), &worker(), 8, 3, Some(outbox::Fault::TellsLater));
    let broken = broken.unwrap_err().to_string();
    println!("{broken}");
    assert!(broken.contains("lost") || broken.contains("came after"), "{broken}");
}

#[test]
fn a_worker_that_ignores_leases_is_noticed() {
    let folder = in_memory();
    let broken = outbox::outbox(folder.path(), &worker(), 8, 3, Some(outbox::Fault::IgnoresLeases));
    let broken = broken.unwrap_err().to_string();
    println!("{broken}");
    assert!(broken.contains("was held until"), "{broken}");
}

#[test]
fn nodes_cut_short_behind_each_operation_are_repaired() {
    let folder = in_memory();
    let report = proven(repair::cuts(folder.path()));
    for finding in ["orphan", "missing_event", "changed_content", "moved", "unfinished_delete"] {
        assert!(report.found.contains_key(finding), "{finding} was never found: {report}");
    }
}

#[test]
fn a_kill_leaves_nothing_of_nodes_to_repair() {
    let folder = on_disk();
    assert_eq!(proven(repair::kills(folder.path(), &worker(), 5, 1)).kills, 5);
}

#[test]
fn of_damaged_directories_nothing_of_the_users_is_lost() {
    let report = proven(repair::damage::damaged(600, 1));
    assert!(report.repaired > 100 && report.broken > 10, "{report}");
}

#[test]
fn other_readers_agree_on_which_nodes_are_there() {
    let folder = in_memory();
    let report = proven(repair::readers::agree(folder.path(), 400, 1));
    assert!(report.there > 50 && report.there < 350, "{report}");
}

#[test]
fn packs_of_random_sessions_are_within_their_budget_and_built_again() {
    let folder = in_memory();
    let report = proven(packs::random(folder.path(), 12, 1));
    assert!(
        report.packs > 80 && report.too_small > 1 && report.sources > 10 && report.restored > 80,
        "{report}"
    );
}

#[test]
fn of_random_sessions_all_that_nothing_needs_is_collected_and_nothing_else() {
    let folder = in_memory();
    let report = proven(session_gc::random(folder.path(), 20, 1, None));
    assert!(report.runs > 60 && report.removed.iter().all(|removed| *removed > 10), "{report}");
}

#[test]
fn what_is_overlooked_of_a_session_is_noticed() {
    for blind in [session_gc::Blind::Children, session_gc::Blind::Pack, session_gc::Blind::Age] {
        let folder = in_memory();
        let broken = session_gc::random(folder.path(), 40, 1, Some(blind)).unwrap_err().to_string();
        println!("{blind:?}: {broken}");
        assert!(broken.contains("stay though nothing needs them"), "{blind:?}: {broken}");
    }
}

#[test]
fn prompts_of_random_workspaces_are_those_of_a_second_implementation() {
    let folder = in_memory();
    let report = proven(prompts::random(folder.path(), 120, 1, true, None));
    assert!(report.prompts == 480 && report.first_runs > 20 && report.replayed == 120, "{report}");
    for name in ["soul", "memory", "yesterday", "today", "heartbeat", "fragments", "bootstrap", "skills"] {
        assert!(report.parts.get(name).is_some_and(|times| *times > 20), "{name}: {report}");
    }
}

#[test]
fn a_prompt_that_is_read_wrongly_is_noticed() {
    for misread in [prompts::Misread::Memory, prompts::Misread::Day, prompts::Misread::Heartbeat] {
        let folder = in_memory();
        let broken = prompts::random(folder.path(), 120, 1, true, Some(misread)).unwrap_err().to_string();
        assert!(broken.contains("the prompt differs at byte"), "{misread:?}: {broken}");
    }
}

#[test]
fn no_prompt_or_tree_of_another_class_has_a_word_that_is_for_main_sessions() {
    let folder = in_memory();
    let report = proven(prompt_isolation::isolation(folder.path(), 600, 1, None));
    assert!(report.states == 600 && report.prompts > 500 && report.own > 100 && report.seen > 20, "{report}");
    assert!(report.answered > 500 && report.attacks > 50, "{report}");
}

#[test]
fn a_way_to_the_words_of_main_sessions_is_noticed() {
    for open in [prompt_isolation::Open::Prompt, prompt_isolation::Open::Tree, prompt_isolation::Open::Text] {
        let folder = in_memory();
        let broken = prompt_isolation::isolation(folder.path(), 300, 1, Some(open)).unwrap_err().to_string();
        assert!(broken.contains("is seen by"), "{open:?}: {broken}");
    }
}
