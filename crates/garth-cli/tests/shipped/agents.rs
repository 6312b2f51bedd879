//! The data of an agent in one pass: messages are appended, packed and reset, a memory is put and recalled, a
//! prompt is built, and all of it survives a backup.

use crate::garth::{Garth, bare, finish, text, utf8};

const COFFEE: &str = "ctx://default/users/ada/memories/preferences/coffee";

#[test]
fn agent_keeps_sessions_memories_and_prompts() {
    let garth = Garth::new();
    garth.ok(&["agent", "create", "scout"]);
    garth.feed(&["write", "/agents/scout/SOUL.md"], "You love the sea.\n");
    assert!(garth.ok(&["agent", "prompt", "--agent", "scout"]).contains("You love the sea."));

    garth.feed(&["memory", "put", COFFEE], "Ada likes her coffee black.\n");
    assert!(garth.ok(&["recall", "how does Ada like her coffee", "--budget", "150"]).contains("black"));

    garth.ok(&["session", "create", "work"]);
    garth.feed(&["session", "append", "work"], r#"{"role":"user","content":"Call the harbour."}"#);
    assert!(garth.ok(&["context", "pack", "work"]).contains("Call the harbour."));
    assert!(garth.ok(&["search", "harbour"]).contains("messages.jsonl"));

    assert!(garth.ok(&["fsck"]).contains("sound"));
    let copy = garth.beside("copy");
    garth.ok(&["backup", utf8(&copy)]);
    let mut restored = bare(&["memory", "get", COFFEE]);
    restored.env("GARTH_DATA", &copy);
    let output = finish(restored, b"");
    assert!(text(&output.stdout).contains("black"), "{}", text(&output.stderr));
}

#[test]
fn refused_input_exits_with_code_and_reason() {
    let garth = Garth::new();
    assert!(garth.fails(3, &["cat", "/missing"]).contains("/missing"));
    assert!(garth.fails(2, &["sesion", "list"]).contains("session"));
}
