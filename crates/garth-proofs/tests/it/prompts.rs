//! Prompts are those of a second implementation, whose mistakes are noticed.

use garth_proofs::prompts::{Misread, Prompts};

use super::support::{broken, proven};

#[test]
fn prompts_of_random_workspaces_are_those_of_a_second_implementation() {
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
fn a_prompt_that_is_read_wrongly_is_noticed() {
    for misread in [Misread::Memory, Misread::Day, Misread::Heartbeat] {
        let broken = broken(&Prompts { misread: Some(misread) }, 1);
        assert!(broken.contains("the prompt differs at byte"), "{misread:?}: {broken}");
    }
}
