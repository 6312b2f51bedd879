//! Prompts equal those of a second implementation, planted mistakes are noticed, and the paths in prompts
//! refer to files.

use garth_proofs::prompts::followed_paths::FollowedPaths;
use garth_proofs::prompts::{Misread, Prompts};

use super::support::{broken, proven};

#[test]
fn random_prompts_match_reference_implementation() {
    let report = proven(&Prompts::default(), 1);
    assert!(report["prompts"] == 480 && report["prompts built again"] == 120, "{report}");
    assert!(report["prompts of first runs"] > 20, "{report}");
    for name in
        ["soul", "memory", "yesterday", "today", "heartbeat", "fragments", "bootstrap", "skills", "others"]
    {
        assert!(report.in_group("prompts with the part", name) > 20, "{name}: {report}");
    }
}

#[test]
fn proof_detects_wrong_prompt() {
    for misread in [Misread::Memory, Misread::Day, Misread::Heartbeat] {
        let broken = broken(&Prompts { misread: Some(misread) }, 1);
        assert!(broken.contains("the prompt differs at byte"), "{misread:?}: {broken}");
    }
}

#[test]
fn prompt_paths_are_readable_in_tree() {
    let report = proven(&FollowedPaths::default(), 1);
    assert!(report["prompts"] >= 60 && report["prompts of first runs"] > 3, "{report}");
    assert!(report["paths read"] > 150 && report["paths written and shown"] > 30, "{report}");
    assert!(report["prompts built again"] > 30, "{report}");
}

#[test]
fn proof_detects_path_of_another_tree() {
    let broken = broken(&FollowedPaths { of_account: true }, 1);
    assert!(broken.contains("is at no place of the tree"), "{broken}");
}
