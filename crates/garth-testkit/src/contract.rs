//! The one contract suite: every promise of [`garth_engine::FileSystem`] as a function that any implementation is
//! put to. [`contract_tests!`](crate::contract_tests) makes a test of each.
//!
//! A promise is put to those that have the abilities that it needs (named behind it in the macro); what one
//! lacks it refuses, which [`capabilities`] asks of all.

pub mod attributes;
pub mod blaming;
pub mod capabilities;
pub mod changes;
pub mod commits;
pub mod confining;
pub mod content;
pub mod copies;
pub mod excluding;
pub mod expiry;
pub mod finding;
pub mod handles;
pub mod lookup;
pub mod making;
pub mod pages;
pub mod past;
pub mod ranges;
pub mod removing;
pub mod renaming;
pub mod resolving;
pub mod restoring;
pub mod searching;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{Batch, Ino, MAX_TARGET, Remove, Seq, Timestamp};
use garth_engine::{AccountStore, Env, FileSystem};

use crate::tools::{apply, mkdir_all, remove, write};

/// Opens the same data as a new instance.
pub type Reopen = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Arc<dyn FileSystem>> + Send>> + Send + Sync>;

/// Collects in the data from another instance, as another process would.
pub type Collect =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = garth_engine::Result<()>> + Send>> + Send + Sync>;

/// A filesystem under test: fresh and empty, on a clock that the test moves.
pub struct Subject {
    /// The filesystem.
    pub fs: Arc<dyn FileSystem>,
    /// Its clock.
    pub clock: ManualClock,
    /// The last commit before the test began; 0 if nobody has written yet.
    pub head: Seq,
    /// The number that the next node gets.
    pub next: Ino,
    /// The longest target of a symbolic link that it keeps, in bytes.
    pub longest_target: usize,
    /// Whether its paths are those of an account, which rules are for.
    pub ruled: bool,
    /// Whether each operation takes long, as through many views: then no promise asks for tens of thousands.
    pub slow: bool,
    /// Opens its data again, where they outlive an instance.
    pub reopen: Option<Reopen>,
    /// Collects what its data no longer need, where there is anything to collect.
    pub collect: Option<Collect>,
    /// What must live as long as the subject, such as the folder it is in.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Longer than the clock moves in any test: what others may still need stays.
const GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The time that subjects start at: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp(1_767_225_600_000_000_000);

impl Subject {
    /// A clock at [`START`], and the environment that shows it.
    pub fn clock() -> (Env, ManualClock) {
        Env::manual(START)
    }

    /// The SQLite engine in a new folder below `base`, which can be opened again.
    ///
    /// # Panics
    /// If the folder or the account cannot be made.
    pub fn sqlite(base: &Path) -> Self {
        let (env, clock) = Self::clock();
        let folder = tempfile::tempdir_in(base).expect("a temporary folder can be made");
        let path = folder.path().to_owned();
        let open = move || {
            SqliteFs::open(&path, env.clone(), garth::agent::registry())
                .expect("the engine opens what it wrote")
        };
        let collect = open.clone();
        let fs = open();
        Self {
            reopen: Some(Box::new(move || {
                let fs: Arc<dyn FileSystem> = open();
                Box::pin(std::future::ready(fs))
            })),
            collect: Some(Box::new(move || {
                let fs = collect();
                Box::pin(async move { fs.gc(GRACE).await.map(drop) })
            })),
            keep: Box::new(folder),
            ..Self::new(fs, clock)
        }
    }

    /// A new folder of the host, in memory if the machine has such folders: a disk would take its time for
    /// each operation. Opened again it is another instance on the same folder.
    ///
    /// # Panics
    /// If the folder cannot be made.
    pub fn host() -> Self {
        let (env, clock) = Self::clock();
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::tempdir_in(base).expect("a temporary folder can be made");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), all).expect("its owner may do that");
        let path = folder.path().to_owned();
        let open = move || HostFs::open(&path, Mode::Writable, env.clone()).expect("the folder is there");
        let fs = open();
        Self {
            reopen: Some(Box::new(move || {
                let fs: Arc<dyn FileSystem> = open();
                Box::pin(std::future::ready(fs))
            })),
            keep: Box::new(folder),
            ruled: false,
            // Linux takes the NUL behind it into account
            longest_target: MAX_TARGET - 1,
            ..Self::new(fs, clock)
        }
    }

    /// A subject without data that outlive it.
    pub fn new(fs: Arc<dyn FileSystem>, clock: ManualClock) -> Self {
        let (head, next) = (Seq(0), Ino(Ino::ROOT.0 + 1));
        Self {
            fs,
            clock,
            head,
            next,
            longest_target: MAX_TARGET,
            ruled: true,
            slow: false,
            reopen: None,
            collect: None,
            keep: Box::new(()),
        }
    }

    /// The same, empty again after others have written and removed: its sequences and numbers begin higher.
    ///
    /// # Panics
    /// If a commit fails.
    pub async fn used(mut self) -> Self {
        self.clock.set(START.plus_seconds(-1000));
        let mut last = self.next;
        for round in 0..5 {
            let ops = [mkdir_all("/used/deep"), write("/used/deep/file", format!("round {round}"))];
            let commit = self.fs.commit(Batch::new(ops)).await.expect("a commit");
            last = commit.outcomes[1].ino;
            apply(&*self.fs, remove("/used", Remove::Tree)).await;
        }
        self.clock.set(START);
        self.head = self.fs.head().await.expect("a head").seq;
        self.next = Ino(last.0 + 1);
        self
    }

    /// The sequence of the test's `n`-th commit; of none, that of the last one before it.
    pub fn seq(&self, n: u64) -> Seq {
        Seq(self.head.0 + n)
    }

    /// The number of the `n`-th node: the first is the root, the second the first that the test makes.
    pub fn ino(&self, n: u64) -> Ino {
        if n <= Ino::ROOT.0 { Ino(n) } else { Ino(self.next.0 + n - 2) }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("fs", &self.fs).finish_non_exhaustive()
    }
}

/// Makes a `#[tokio::test]` of every promise. Takes the name of an `async fn() -> Subject`; put it in a
/// module of the implementation's name, so that this shows in the output.
#[macro_export]
macro_rules! contract_tests {
    ($make:ident) => {
        $crate::contract_tests!(@group $make, attributes:
            every_attribute_is_kept_as_given [attributes expiry]
            what_is_not_named_stays_and_what_is_cleared_goes [attributes expiry]
            every_kind_of_node_has_attributes [attributes special]
            bad_values_are_refused [attributes expiry nodes]
            attributes_have_a_largest_size [attributes]
        );
        $crate::contract_tests!(@group $make, capabilities:
            what_is_lacking_is_unsupported_and_changes_nothing
            reads_that_are_lacking_are_unsupported
            a_view_of_the_past_has_what_the_present_has_but_writes [history]
        );
        $crate::contract_tests!(@group $make, commits:
            a_batch_is_applied_in_order_as_one_commit [links]
            a_failing_last_operation_leaves_nothing [atomic links snapshots]
            an_outcome_tells_the_size_that_the_operation_left
            a_commit_says_whether_it_is_durable
            an_operation_that_changes_nothing_answers_the_version_that_is_there [links]
            sequence_numbers_are_dense
            times_increase_even_if_the_clock_does_not
            a_version_precondition_lets_one_writer_through
            an_etag_survives_what_is_no_change_of_content [log links]
            absent_and_sha256_are_judged_by_what_is_there [nodes]
            exists_lists_of_etags_and_negations_are_judged_by_what_is_there [nodes]
            conditions_have_limits
            preconditions_see_the_state_before_and_checks_the_state_between
            the_batch_is_checked_then_its_key_its_id_its_preconditions_its_operations [log]
            a_retry_answers_the_first_commit_again [log]
            a_retry_under_the_same_id_never_commits_twice [log]
            a_lost_answer_is_asked_for_by_its_id [log]
            a_caller_who_gives_up_can_ask_what_became_of_the_batch [log]
            one_record_serves_id_and_key [log]
            author_and_message_are_kept [history]
            a_batch_has_limits
            concurrent_appenders_lose_no_line
            of_concurrent_writers_with_one_version_one_wins
            what_was_acknowledged_is_there_after_reopening [links snapshots history]
        );
        $crate::contract_tests!(@group $make, blaming:
            each_byte_is_of_the_commit_that_wrote_it [history]
            what_replaces_or_copies_is_of_the_new_commit_even_if_it_is_equal [history]
            pieces_of_an_append_are_of_its_commit_even_if_they_were_stored_before [history]
            blame_tells_the_commits_and_goes_on_in_pages [history]
            blame_refuses_what_is_no_file [history]
        );
        $crate::contract_tests!(@group $make, changes:
            changes_come_in_order_and_in_pages [history]
            a_page_of_changes_may_end_within_a_commit [history]
            a_page_of_changes_has_a_largest_size [history]
            a_page_of_changes_looks_at_a_bounded_part_of_the_log [history]
            a_change_names_every_path_of_its_node [history links]
            changes_of_a_subtree_are_those_inside [history links snapshots]
            a_rename_over_the_border_shows_as_created_or_removed [history nodes]
            what_happens_above_a_subtree_shows_at_its_top [history nodes]
            pages_of_a_subtree_move_on_where_nothing_is_shown [history]
            a_query_has_a_largest_number_of_subtrees [history]
            waiting_ends_with_the_next_commit [history]
            waiting_ends_with_a_commit_of_another_instance [history]
        );
        $crate::contract_tests!(@group $make, confining:
            what_lies_outside_is_not_found_by_path_number_or_child [confinement nodes]
            what_lies_outside_is_not_found_by_any_operation [confinement nodes links holes]
            a_failed_lookup_tells_nothing_of_what_is_above_the_top [confinement nodes]
            a_number_is_found_only_while_the_node_has_a_name_inside [confinement nodes links]
            an_error_about_a_number_names_a_name_inside [confinement nodes links]
            the_top_can_be_read_and_changed_but_not_made_removed_or_moved [confinement links]
            confining_again_intersects [confinement nodes]
            a_batch_reaches_no_more_than_it_says [confinement]
            the_past_shows_a_node_only_from_when_it_had_a_name_inside [confinement nodes history]
            a_directory_moved_in_brings_what_it_holds_as_it_is [confinement nodes history]
            a_node_without_a_name_is_reached_through_the_handle_that_holds_it [confinement nodes]
            snapshots_ids_keys_and_staged_bodies_are_their_owners [confinement snapshots history]
            assumptions_are_judged_behind_the_record_and_before_conditions [confinement]
            answers_tell_of_the_operations_that_they_name [confinement]
        );
        $crate::contract_tests!(@group $make, content:
            write_makes_a_file_and_replaces_its_content
            create_is_kept_to
            a_write_keeps_mode_and_attributes_and_applies_the_new_ones_after [attributes]
            append_adds_at_the_end
            patch_writes_a_range_and_holes_read_as_zeros
            truncate_cuts_and_extends_with_zeros
            a_file_has_a_largest_size
            ranges_read_what_is_there_and_no_more
            one_read_gives_at_most_16_mib
            many_files_are_fetched_at_one_moment [nodes]
            many_files_are_fetched_as_far_as_one_answer_has_room [attributes]
            edits_at_awkward_sizes_equal_a_plain_vector
            many_small_appends_read_back_whole
            cut_points_change_no_byte_wherever_they_are
            cut_points_increase_within_a_body_that_is_not_staged
            a_staged_body_shows_only_once_committed
            a_staged_body_outlives_a_batch_that_fails [atomic]
            an_abandoned_upload_leaves_nothing
            bodies_too_large_for_memory_are_refused [nodes]
        );
        $crate::contract_tests!(@group $make, copies:
            a_copy_has_none_of_the_notes_that_views_make [attributes]
            a_copy_is_a_new_node_with_all_that_cp_a_keeps [special attributes expiry]
            a_directory_is_copied_with_all_below_it [links]
            a_copied_directory_keeps_the_hard_links_inside_it [links]
            a_copy_of_the_past_leaves_an_expiry_that_has_passed_behind [history expiry]
            copy_checks_in_its_order
            a_file_copied_onto_a_file_keeps_the_node [links attributes expiry]
            a_copy_of_the_past_restores_it [nodes history]
            a_copied_tree_leaves_out_what_has_expired_under_all_its_names [expiry links]
            the_copies_of_a_batch_make_so_many_names
        );
        $crate::contract_tests!(@group $make, excluding:
            what_is_left_out_is_not_found_by_path_number_or_child [confinement nodes]
            no_operation_finds_what_is_left_out_or_makes_a_name_there [confinement nodes links holes special]
            a_name_left_out_is_no_name_of_a_node [confinement nodes links]
            a_directory_with_something_left_out_stays_where_it_is [confinement nodes history]
            an_island_is_reached_by_its_own_path_and_its_top_stays [confinement]
            pages_pass_what_is_left_out_and_meet [confinement]
            the_root_is_there_without_what_is_left_out_of_it [confinement nodes]
            confining_again_leaves_out_what_either_does [confinement nodes]
            the_past_leaves_out_what_is_left_out_now [confinement nodes history]
            what_crosses_into_what_is_left_out_shows_as_removed_and_back_as_created [confinement history]
            a_search_leaves_out_what_is_left_out [confinement search links]
        );
        $crate::contract_tests!(@group $make, expiry:
            an_expired_entry_is_absent_everywhere_at_once [expiry nodes links]
            an_expired_name_is_free [expiry]
            a_commit_that_meets_an_expired_entry_records_its_end_first [expiry links]
            a_directory_of_expired_entries_is_empty [expiry]
            the_past_judges_expiry_by_its_own_time [expiry history]
            a_past_time_judges_expiry_by_itself [expiry history nodes links]
            expiry_can_be_moved_cleared_and_be_past [expiry]
            a_version_that_its_own_commit_made_expire_has_no_name [expiry history]
            preconditions_see_expired_entries_as_absent [expiry]
            an_entry_may_expire_between_two_operations_of_its_batch [expiry]
            a_commit_that_only_looks_at_an_expired_entry_records_its_end_too [expiry nodes history]
            a_removed_tree_ends_an_expired_entry_under_all_its_names [expiry links]
        );
        $crate::contract_tests!(@group $make, finding:
            what_has_a_tag_or_a_value_is_found_as_soon_as_it_has [find attributes]
            what_loses_its_key_or_its_last_name_is_not_found [find attributes]
            an_entry_is_not_found_from_its_expiry_on [find attributes expiry]
            keys_are_found_by_range_in_the_order_of_bytes [find attributes]
            long_keys_are_found_whole [find attributes]
            a_find_is_bounded_by_segment_and_shows_each_path_of_a_node [find attributes links]
            a_find_shows_what_its_handle_reaches [find attributes confinement links]
            what_many_have_is_found_page_by_page [find attributes]
            every_kind_of_node_has_keys [find attributes special]
        );
        $crate::contract_tests!(@group $make, handles:
            a_handle_sees_later_writes_and_follows_renames [nodes]
            a_handle_outlives_removal [nodes]
            a_handle_knows_the_last_change_of_a_node_that_ended_in_the_same_commit [nodes links]
            a_node_whose_names_all_go_with_one_tree_ends_as_it_was [nodes links]
            a_node_whose_names_go_with_several_trees_of_a_batch_has_changed [nodes links]
            directories_of_a_removed_tree_end_as_they_were [nodes expiry]
            a_node_held_open_is_reached_and_written_without_a_name [nodes]
            a_handle_outlives_expiry [nodes expiry]
            a_version_never_changes [history]
            a_version_that_is_not_there_is_not_found [history]
            a_removed_node_of_any_kind_is_reached_while_it_is_held [nodes special]
            a_removed_directory_that_is_held_lists_nothing_and_takes_no_name [nodes links]
            a_held_node_of_the_past_never_changes [nodes history]
        );
        $crate::contract_tests!(@group $make, lookup:
            an_empty_tree_is_a_root_at_sequence_0
            a_missing_segment_is_not_found_with_the_whole_path
            a_segment_that_is_no_directory_is_named_by_the_error
            engines_never_follow_a_link
            a_node_is_reached_by_number_under_any_name [nodes links]
            a_node_without_a_name_is_not_found [nodes]
            a_child_is_looked_up_in_its_directory_wherever_that_moved [nodes]
            names_gives_every_path_in_the_order_of_a_walk [links]
            names_are_bytes_and_never_patterns
            the_longest_name_and_path_work
            an_error_names_the_path_asked_or_the_first_of_a_nodes [nodes links]
        );
        $crate::contract_tests!(@group $make, making:
            mkdir_makes_a_directory
            mkdir_refuses_what_is_there
            mkdir_with_parents_accepts_a_directory_and_leaves_it_alone
            parents_are_made_only_where_asked_and_top_down [links special]
            making_a_name_sets_the_times_of_its_directory [log links]
            a_symlink_keeps_any_text
            special_nodes_keep_kind_and_device_number [special]
            a_hard_link_is_another_name_of_the_node [links special]
            link_checks_the_node_then_the_name [links nodes]
            a_node_has_at_most_65000_names [links]
            a_name_is_not_made_by_node [nodes links special]
            an_inode_number_is_never_used_twice [nodes]
        );
        $crate::contract_tests!(@group $make, pages:
            a_listing_is_in_byte_order_and_pages_meet
            a_listing_starts_behind_a_name_that_need_not_exist
            a_listing_carries_entries_where_asked [nodes]
            a_directory_lists_its_own_children_only
            a_walk_goes_by_directory_then_name_and_pages_meet
            a_walk_starts_behind_a_path_that_need_not_exist
            pages_have_limits
            a_large_directory_is_listed_whole
            pages_are_bounded_in_bytes_and_meet [attributes]
            names_and_snapshots_are_given_in_bounded_pages_that_meet [links]
            pages_of_history_are_bounded_in_bytes_and_meet_also_within_a_commit [history attributes]
        );
        $crate::contract_tests!(@group $make, past:
            history_shows_every_version_newest_first [history nodes]
            history_of_a_path_goes_through_delete_and_re_create [history nodes]
            a_moved_file_brings_its_past_and_takes_its_future [history]
            history_follows_directories_that_move [history nodes]
            a_moved_directory_does_not_bring_what_it_held_before [history]
            what_one_commit_makes_and_removes_never_was [history]
            changes_tell_what_each_operation_did [history links snapshots]
            any_past_sequence_can_be_read [history nodes]
            a_view_of_the_past_is_read_only_and_ends_there [history snapshots]
            the_past_is_found_by_time [history]
            a_snapshot_names_a_sequence [snapshots history]
            a_snapshot_has_a_proper_name [snapshots]
            a_snapshot_is_not_named_like_a_moment [snapshots]
            writes_to_an_unlinked_open_file_are_versions_of_its_node [history nodes]
            what_a_file_stands_above_never_was [history]
        );
        $crate::contract_tests!(@group $make, ranges:
            punching_makes_a_hole_and_keeps_the_size [holes]
            punching_where_nothing_is_stored_changes_nothing [holes]
            a_range_is_copied_with_its_holes [holes]
            ranges_are_checked_in_order [holes links]
            a_range_of_a_file_without_a_name_is_punched_and_copied [holes nodes]
            holes_are_told_to_the_byte [holes]
            ranges_at_awkward_places_equal_those_of_a_plain_vector [holes]
            the_copies_of_a_batch_take_so_many_pieces [holes]
        );
        $crate::contract_tests!(@group $make, removing:
            remove_takes_only_what_was_expected
            the_root_cannot_be_removed
            removing_nothing_is_fine_where_said [nodes]
            a_tree_goes_with_all_below_it_and_nothing_beside [links nodes]
            a_tree_may_be_a_single_file
            a_removed_name_can_be_made_again_as_anything
            removing_one_of_two_names_sets_ctime_only [log links]
        );
        $crate::contract_tests!(@group $make, renaming:
            rename_keeps_node_and_content
            a_directory_moves_with_all_below_it
            rename_onto_a_file_replaces_it [links]
            rename_onto_an_empty_directory_replaces_it [nodes]
            rename_refuses_what_does_not_match
            a_directory_cannot_move_into_itself
            nothing_moves_onto_a_directory_that_it_is_in
            a_rename_to_the_same_node_does_nothing [links]
            noreplace_replaces_nothing
            exchange_swaps_two_names_of_any_kind
            a_rename_follows_directories_by_number [nodes]
            a_rename_that_makes_a_path_too_long_is_refused
            the_length_of_paths_that_move_is_judged_by_what_the_batch_has_left [atomic]
        );
        $crate::contract_tests!(@group $make, resolving:
            paths_are_normalised_and_links_followed
            bad_paths_are_refused
            forty_links_are_followed_and_no_more
            nothing_leads_above_the_root
            a_link_swapped_in_mid_operation_is_resolved_again
            a_link_swapped_in_at_the_end_is_followed_by_reads_and_writes
            a_link_at_the_end_that_is_not_followed_is_no_reason_to_try_again
            stat_never_answers_a_link_that_it_was_to_follow
            a_link_that_keeps_changing_ends_in_an_error
            a_last_segment_that_others_swap_for_a_link_leads_nowhere_outside [confinement]
        );
        $crate::contract_tests!(@group $make, restoring:
            one_change_among_5000_entries_touches_one [history nodes]
            what_changed_in_place_keeps_its_node [history nodes attributes]
            what_was_added_goes_and_what_was_removed_comes_back [history nodes links]
            what_was_moved_inside_is_moved_back [history nodes]
            hard_links_inside_are_as_they_were [history nodes links]
            a_node_with_names_outside_stays_as_it_is_there [history nodes links]
            every_kind_comes_back_in_place_of_any_other [history nodes]
            a_path_that_is_gone_or_another_now_comes_back [history nodes]
            an_expiry_that_has_passed_is_not_restored [history nodes expiry]
            a_restore_after_the_clock_went_back_judges_expiry_by_the_time_of_its_commit [history nodes expiry]
            a_restore_that_is_overtaken_is_planned_again [history nodes]
            a_name_that_moves_while_a_restore_reads_its_directory_is_not_lost [history nodes]
            a_directory_that_moves_while_a_restore_reads_shows_once [history nodes links]
            what_leaves_the_path_before_the_commit_of_a_restore_stays_as_it_is [history nodes attributes]
            what_is_removed_while_a_restore_reads_comes_back [history nodes attributes]
            what_changes_after_a_restore_has_read_it_is_restored_too [history nodes]
            the_commits_of_one_restore_have_its_idempotency_record_once [history nodes]
            a_restore_below_what_is_a_file_now_is_refused [history nodes]
            a_name_like_those_that_a_restore_uses_is_in_nobodys_way [history nodes]
            a_plan_changes_nothing_and_says_what_would [history nodes]
        );
        $crate::contract_tests!(@group $make, searching:
            a_text_file_is_found_as_soon_as_it_is_written [search]
            what_is_overwritten_removed_or_expired_is_not_found [search expiry]
            a_search_is_bounded_by_segment_and_tag [search attributes]
            a_search_is_bounded_by_metadata_time_and_class [search attributes]
            the_limit_of_a_search_counts_what_it_may_show [search links]
            a_search_gives_several_passages_of_a_file_and_the_lines_around [search]
        );
    };
    (@group $make:ident, $group:ident: $($promise:ident $([$($need:ident)+])?)*) => {
        $(
            #[tokio::test]
            async fn $promise() {
                let subject = $make().await;
                let needs: &[bool] = &[$($($crate::tools::can(&*subject.fs).$need),+)?];
                if needs.iter().all(|has| *has) {
                    $crate::contract::$group::$promise(&subject).await;
                }
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    /// A promise that the macro does not name would never be tested.
    #[test]
    fn the_macro_names_every_promise() {
        let macro_text = include_str!("contract.rs");
        let mut promises = 0;
        for group in [
            include_str!("contract/attributes.rs"),
            include_str!("contract/blaming.rs"),
            include_str!("contract/capabilities.rs"),
            include_str!("contract/changes.rs"),
            include_str!("contract/commits.rs"),
            include_str!("contract/confining.rs"),
            include_str!("contract/content.rs"),
            include_str!("contract/copies.rs"),
            include_str!("contract/expiry.rs"),
            include_str!("contract/finding.rs"),
            include_str!("contract/handles.rs"),
            include_str!("contract/lookup.rs"),
            include_str!("contract/making.rs"),
            include_str!("contract/pages.rs"),
            include_str!("contract/past.rs"),
            include_str!("contract/ranges.rs"),
            include_str!("contract/removing.rs"),
            include_str!("contract/renaming.rs"),
            include_str!("contract/resolving.rs"),
            include_str!("contract/restoring.rs"),
            include_str!("contract/searching.rs"),
        ] {
            for line in group.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
                let name = rest.split('(').next().unwrap_or_default();
                let named = |line: &str| line.split_whitespace().next() == Some(name);
                let named = macro_text.lines().any(named);
                assert!(named, "`{name}` is missing in contract_tests!");
                promises += 1;
            }
        }
        assert!(promises > 100, "only {promises} promises found");
    }
}
