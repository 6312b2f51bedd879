//! The memory tool compared with a plain folder, and faults of the tool.

use garth_proofs::memory_tool::{Commands, Fault};

use super::support::{broken, proven};

#[test]
fn memory_tool_equals_plain_folder() {
    let report = proven(&Commands::default(), 1);
    for what in ["commands", "refused", "paths out", "trees compared"] {
        assert!(report[what] > 0, "{what}: {report}");
    }
    for name in ["view", "create", "str_replace", "insert", "delete", "rename"] {
        assert!(report.in_group("done", name) > 10, "{name}: {report}");
    }
}

#[test]
fn proof_detects_lost_command_and_opened_path() {
    for (fault, word) in [(Fault::Lost, "not"), (Fault::Outside, "not")] {
        let broken = broken(&Commands { fault: Some(fault) }, 1);
        assert!(broken.contains(word), "{fault:?}: {broken}");
    }
}
