//! No data of another account, agent or session class is visible, and a planted leak is noticed.

use garth_proofs::isolation::accounts::Accounts;
use garth_proofs::isolation::audiences::{Audiences, Way};
use garth_proofs::isolation::bound_keys::{BoundKeys, Dropped, McpIsolation};
use garth_proofs::isolation::memories::AgentMemories;
use garth_proofs::isolation::prompts::{Open, Prompts};

use super::support::{broken, broken_at, proven};

#[test]
fn random_requests_see_no_canary() {
    let report = proven(&Accounts, 13);
    let tries = ["tries on the tree", "tries on keys", "tries of ids"];
    assert_eq!(tries.map(|what| report[what]).iter().sum::<u64>(), 20_000);
    assert!(report["answered"] > 2_000, "{report}");
}

#[test]
fn agent_memories_reach_no_other_owner() {
    let report = proven(&AgentMemories::default(), 13);
    assert!(report["tries"] == 3_000 && report["answered"] > 500, "{report}");
}

#[test]
fn leaky_agent_memories_are_detected() {
    let broken = broken(&AgentMemories { leaky: true }, 13);
    assert!(broken.contains("a canary is seen"), "{broken}");
}

#[test]
fn other_classes_see_no_main_session_content() {
    let report = proven(&Prompts::default(), 1);
    assert_eq!(report["states"], 600);
    for (what, least) in [
        ("prompts for others", 500),
        ("of these with memory of their class", 100),
        ("prompts for main with long-term memory", 20),
        ("calls answered", 500),
        ("attacks", 50),
    ] {
        assert!(report[what] > least, "{what}: {report}");
    }
}

#[test]
fn proof_detects_leaked_main_session_content() {
    for open in [Open::Prompt, Open::Tree, Open::Text] {
        let broken = broken_at(&Prompts { open: Some(open) }, 1, 300);
        assert!(broken.contains("is seen by"), "{open:?}: {broken}");
    }
}

#[test]
fn session_sees_no_word_of_other_audiences() {
    let report = proven(&Audiences::default(), 1);
    assert!(report["looks that saw words"] > 300 && report["answered"] > 2_000, "{report}");
    assert!(report["moves"] > report["moves refused"] && report["identities refused"] > 50, "{report}");
    assert!(report["sessions created during looks"] > 50, "{report}");
    for way in Way::ALL {
        assert!(report.in_group("tries", &format!("{way:?}")) >= 800, "{way:?}: {report}");
    }
}

#[test]
fn proof_detects_leak_between_audiences() {
    for leak in Way::ALL {
        println!("a leak by {leak:?}");
        let broken = broken_at(&Audiences { leak: Some(leak), by_list: false }, 1, 600);
        assert!(
            broken.contains("is seen by") && broken.contains(&format!("way {leak:?}")),
            "{leak:?}: {broken}"
        );
    }
}

#[test]
fn proof_detects_sessions_hidden_by_a_list() {
    let broken = broken_at(&Audiences { leak: None, by_list: true }, 1, 600);
    assert!(broken.contains("is seen by") && broken.contains("way Tree"), "{broken}");
}

#[test]
fn bound_keys_reach_no_excluded_place() {
    let report = proven(&BoundKeys::default(), 1);
    assert_eq!(report["tries"], 2_000);
    for (what, least) in [("answered", 300), ("words seen", 80), ("writes", 15)] {
        assert!(report[what] > least, "{what}: {report}");
    }
}

#[test]
fn proof_detects_each_dropped_field_of_a_binding() {
    for dropped in Dropped::ALL {
        let broken = broken_at(&BoundKeys { dropped: Some(dropped) }, 1, 2_000);
        let is_write = broken.contains("is changed by it");
        assert!(is_write || broken.contains("is seen by it"), "{dropped:?}: {broken}");
        assert!(is_write || dropped != Dropped::ReadOnly, "{broken}");
    }
}

#[test]
fn tools_for_models_reach_no_excluded_place() {
    let report = proven(&McpIsolation::default(), 1);
    assert_eq!(report["tries"], 3_000);
    for (what, least) in [("answered", 300), ("words seen", 80), ("writes", 15)] {
        assert!(report[what] > least, "{what}: {report}");
    }
    for name in [
        "ls",
        "read_file",
        "write_file",
        "glob",
        "grep",
        "search",
        "history",
        "recall",
        "remember",
        "memory",
        "resources/read",
        "resources/list",
        "prompts/get",
        "skills/list",
        "skills/get",
    ] {
        assert!(report.in_group("answered by", name) > 0, "{name}: {report}");
    }
}

#[test]
fn proof_detects_dropped_field_over_mcp() {
    for dropped in Dropped::ALL {
        let broken = broken_at(&McpIsolation { dropped: Some(dropped) }, 1, 3_000);
        let is_write = broken.contains("is changed by it");
        assert!(is_write || broken.contains("is seen by it"), "{dropped:?}: {broken}");
        assert!(is_write || dropped != Dropped::ReadOnly, "{broken}");
    }
}
