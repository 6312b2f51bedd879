//! Agents that edit one file at once over the Model Context Protocol.

use garth_proofs::mcp_edits::{Fault, McpEdits};

use super::support::{broken, proven};

#[test]
fn agents_on_one_file_lose_no_step() {
    let report = proven(&McpEdits::default(), 5);
    assert!(report["kills"] == 3 && report["steps acknowledged"] > 50, "{report}");
    for kind in ["Own", "OwnAtVersion", "File", "Shared", "SharedAtVersion"] {
        assert!(report.in_group("acknowledged", kind) > 0, "{kind}: {report}");
        // Before each kill, one of each other kind is refused.
        let least = if kind == "Own" { 0 } else { 3 };
        assert!(report.in_group("refused", kind) >= least, "{kind}: {report}");
    }
}

#[test]
fn proof_detects_unchecked_write_and_lost_step() {
    for fault in [Fault::Unchecked, Fault::Lost] {
        let broken = broken(&McpEdits { fault: Some(fault) }, 5);
        assert!(broken.contains("were acknowledged") || broken.contains("no step"), "{fault:?}: {broken}");
    }
}
