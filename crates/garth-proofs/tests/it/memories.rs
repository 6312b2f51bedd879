//! Memories whose changes are interrupted, killed or damaged, and what other readers see of them.

use garth_proofs::memories::damaged::DamagedMemories;
use garth_proofs::memories::other_readers::OtherReaders;
use garth_proofs::memories::{Cuts, Kills};

use super::support::{proven, proven_on_disk};

#[test]
fn memories_cut_short_behind_each_operation_are_repaired() {
    let report = proven(&Cuts, 1);
    for finding in ["orphan", "missing_event", "changed_content", "moved", "unfinished_delete"] {
        assert!(report.in_group("found and repaired", finding) > 0, "{finding} was never found: {report}");
    }
}

#[test]
fn a_kill_leaves_nothing_of_memories_to_repair() {
    assert_eq!(proven_on_disk(&Kills, 1, 5)["kills"], 5);
}

#[test]
fn repair_loses_no_user_data() {
    let report = proven(&DamagedMemories, 1);
    assert!(report["repaired"] > 100 && report["broken"] > 10, "{report}");
}

#[test]
fn other_readers_see_the_same_memories() {
    let report = proven(&OtherReaders, 1);
    assert!(report["memories that exist"] > 50 && report["memories that exist"] < 350, "{report}");
}
