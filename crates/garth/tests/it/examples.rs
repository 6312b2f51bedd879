//! The programs in `examples/` run, and print what their readers expect.

use std::process::Command;

/// Runs an example, which cargo builds beside the tests, and gives what it printed.
fn output(example: &str) -> String {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(example);
    let output = Command::new(&program).output().unwrap_or_else(|e| {
        panic!("{}: {e}; `cargo build --examples` makes it", program.display());
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn quickstart_shows_now_the_past_and_a_hit() {
    let expected = "now:    Alice has given up coffee.\n\
                    before: Alice takes her coffee black.\n\
                    found:  /notes/alice.md\n";
    assert_eq!(output("quickstart"), expected);
}

#[test]
fn batch_example_refuses_second_worker() {
    assert_eq!(output("batch"), "commit 2 did 2 things\nrefused: conflict\nreport: done\n");
}

#[test]
fn history_lists_versions_and_changes_and_restores() {
    let output = output("history");
    let expected = "4: removed by nobody\n2: 32 bytes by writer\n1: 15 bytes by scout\n1 Created /plan.md\n2 Modified /plan.md\n";
    assert!(output.starts_with(expected), "{output}");
    assert!(output.ends_with("4 Removed /plan.md\n1. look around\n2. write it down\n"), "{output}");
}

#[test]
fn search_finds_below_a_directory_and_by_tag() {
    let output = output("search");
    let lines: Vec<_> = output.lines().collect();
    assert!(lines[0].starts_with("/notes/alice.md, from line 1: Alice takes her coffee black"), "{output}");
    assert!(!output.contains("/recipes/cake.md, from"), "{output}");
    assert_eq!(lines.last(), Some(&"recipe: /recipes/cake.md"));
}

#[test]
fn kv_values_are_files() {
    let expected = "/people/alice = {\"drinks\":\"coffee\",\"sugar\":0}\n\
                    listed: /people/alice\n\
                    file:   {\"drinks\":\"coffee\",\"sugar\":0}\n";
    assert_eq!(output("kv"), expected);
}

#[test]
fn two_users_see_their_own_memories_only() {
    let output = output("two_users");
    assert!(
        output.contains("alice: Takes her coffee black.") && output.contains("bob: Drinks tea."),
        "{output}"
    );
    assert!(!output.contains("bob: Takes") && !output.contains("alice: Drinks"), "{output}");
    assert!(output.ends_with("bob knows of coffee: false\nbob sees the files of alice: false\n"), "{output}");
}

#[test]
fn pack_fits_budget_and_ends_with_last_message() {
    let output = output("sessions");
    let tokens = output.split("pack: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!((1..=500).contains(&tokens.parse::<u32>().unwrap()), "{output}");
    assert!(!output.contains("from message 1\n"), "{output}");
    assert!(output.trim_end().ends_with("Module 40 is in `src/module_40.rs`.\""), "{output}");
}

#[test]
fn memories_have_versions_and_are_recalled_by_tag() {
    let output = output("memories");
    assert!(output.starts_with("now: Alice has given up coffee.\nversion 2\nversion 1\n"), "{output}");
    assert!(output.contains("preferences/coffee: ") && !output.contains("Lisbon"), "{output}");
    assert!(output.ends_with("in 300 tokens or fewer: true\n"), "{output}");
}

#[test]
fn guest_prompt_shows_less_than_owner_prompt() {
    let output = output("prompts");
    assert!(output.starts_with("knows its soul: true\nknows the day:  true\n"), "{output}");
    assert!(output.contains("part: ") && output.ends_with("guest sees the day: false\n"), "{output}");
}

#[test]
fn agent_tree_cannot_be_left() {
    let output = output("agent_trees");
    assert!(output.contains("plan: 1. Pack.\n") && output.contains("outside: not_found\n"), "{output}");
    assert!(output.contains("plan.md") && output.ends_with("account: Trains.\n"), "{output}");
}
