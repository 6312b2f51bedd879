//! A local coding agent without an owner and without named users.

use super::assert_canaries;
use crate::it::garth::{Garth, string};

#[test]
fn coding_agent_and_its_child_reach_their_files() {
    let garth = Garth::new();
    garth.ok(&["agent", "create", "coder", "--no-bootstrap"]);
    garth.ok(&["agent", "create", "reviewer", "--no-bootstrap"]);
    garth.feed(&["write", "/agents/coder/MEMORY.md"], "The canaryCoder parser is in src.\n");
    garth.feed(&["write", "/agents/reviewer/MEMORY.md"], "A canaryReviewer checks twice.\n");
    // A guest in the same folder.
    garth.ok(&["session", "create", "guest", "--agent", "coder", "--user", "bob"]);
    garth.feed(
        &["session", "append", "guest", "--agent", "coder", "--user", "bob", "--role=user"],
        "canaryBob",
    );
    garth.feed(&["daily", "add", "--agent", "coder", "--user", "bob"], "Of a canaryBob.\n");

    let coder = |args: &[&'static str]| [args, &["--agent", "coder"]].concat();
    garth.ok(&coder(&["session", "create", "work"]));
    garth.feed(&coder(&["session", "append", "work", "--role", "user"]), "Fix the canaryWork parser.\n");
    garth.feed(&coder(&["daily", "add"]), "The canaryDay build broke.\n");
    let shown = garth.json(&coder(&["session", "show", "work"]));
    assert_eq!(
        (shown["meta"]["class"].as_str(), shown["meta"]["user"].as_str()),
        (Some("main"), Some("default"))
    );
    let names = |list: &[&'static str]| garth.lines(&coder(list)).len();
    assert_eq!(names(&["session", "list"]), 1, "sessions of the guest are not among them");
    // Its own memory, and the guest's words as evidence.
    let prompt = garth.ok(&coder(&["agent", "prompt", "--session", "work"]));
    assert_canaries(&prompt, &["canaryCoder", "canaryDay", "canaryBob"]);

    // A child of another agent has the memory of that agent, and only the task from its parent.
    let spawn = ["context", "child", "create", "work", "rev-1", "--child-agent", "reviewer"];
    garth.feed(&coder(&spawn), "Review the canaryTask.\n");
    let reviewer = |args: &[&'static str]| [args, &["--agent", "reviewer"]].concat();
    let child = garth.json(&reviewer(&["session", "show", "rev-1"]));
    assert_eq!(child["meta"]["class"], "main");
    garth.feed(&reviewer(&["session", "append", "rev-1", "--role", "assistant"]), "A canaryLong text.\n");
    let prompt = garth.ok(&reviewer(&["agent", "prompt", "--session", "rev-1"]));
    assert_canaries(&prompt, &["canaryReviewer"]);
    assert_eq!(garth.lines(&reviewer(&["session", "list"])).len(), 1);
    garth.fails(3, &reviewer(&["session", "messages", "work"]));
    let result = garth.beside("result.md");
    std::fs::write(&result, "Line 7 of canaryResult is wrong.\n").expect("a file");
    let result = result.to_str().expect("UTF-8").to_owned();
    let set =
        ["context", "child", "set", "work", "rev-1", "--status", "done", "--agent", "coder", "--result"];
    garth.ok(&[&set[..], &[&result]].concat());
    let packed = garth.ok(&coder(&["context", "pack", "work"]));
    assert!(packed.contains("canaryResult") && packed.contains("canaryWork"), "{packed}");
    assert!(!packed.contains("canaryLong") && !packed.contains("canaryBob"), "{packed}");
    assert_eq!(garth.json(&reviewer(&["session", "show", "rev-1"]))["state"], "done");

    // At the end of a session its remaining children end, too.
    let spawn = ["context", "child", "create", "work", "rev-2", "--child-agent", "reviewer"];
    garth.feed(&coder(&spawn), "Once more.\n");
    garth.ok(&coder(&["session", "set", "work", "--state", "done"]));
    assert_eq!(string(&garth.json(&reviewer(&["session", "show", "rev-2"]))["state"]), "cancelled");

    // The guest sees none of it.
    let guest = |args: &[&'static str]| garth.ok(&[args, &["--agent", "coder", "--user", "bob"]].concat());
    assert_canaries(&guest(&["agent", "prompt", "--session", "guest"]), &["canaryBob"]);
    assert_canaries(&guest(&["session", "messages", "guest"]), &["canaryBob"]);
    garth.feed(&["write", "/x.md", "--agent", "coder", "--user", "bob"], "x");
    let recalled = guest(&["recall", "canaryWork canaryCoder canaryDay canaryTask canaryResult"]);
    // Only what is nearest of its own.
    assert_canaries(&recalled, &["canaryBob"]);
    garth.fails(3, &["session", "messages", "work", "--agent", "coder", "--user", "bob"]);
    garth.fails(3, &["cat", "/.agent/MEMORY.md", "--agent", "coder", "--user", "bob"]);
}
