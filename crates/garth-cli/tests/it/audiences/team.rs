//! A team bot with channels, threads and direct messages, and a handbook that everyone edits.

use serde_json::json;

use super::{Program, assert_canaries};
use crate::it::garth::{Garth, text};

const ONE: &str = "agent:team:slack:channel:C1";
const THREAD: &str = "agent:team:slack:channel:C1:thread:17.5";
const TWO: &str = "agent:team:slack:channel:C2";
const DIRECT: &str = "agent:team:slack:dm:U2";

#[test]
fn audiences_share_only_the_handbook() {
    let garth = Garth::new();
    let settings = json!({"owner": "lead", "shared": {"handbook": "write"}});
    garth.feed(&["write", "-p", "/agents/team/settings.json"], &settings.to_string());
    for (path, content) in [
        ("/agents/team/SOUL.md", "Be brief."),
        ("/agents/team/MEMORY.md", "The canaryLead plan."),
        ("/agents/team/handbook/start.md", "Read the canaryBook first."),
        (
            "/agents/team/skills/deploy/SKILL.md",
            "---\nname: deploy\ndescription: Deploys\n---\nUse canarySkill.\n",
        ),
    ] {
        garth.feed(&["write", "-p", path], content);
    }
    let program = Program::start(&garth);
    let of = |key: &str| json!({"agent": "team", "key": key});
    let at = |args: &[&str], key: &str| {
        [args, &["--agent", "team", "--key", key]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |args: &[&str], key: &str, input: &str| {
        let args = at(args, key);
        garth.run(&args.iter().map(String::as_str).collect::<Vec<_>>(), input.as_bytes())
    };
    let ok = |args: &[&str], key: &str, input: &str| {
        let done = run(args, key, input);
        assert!(done.status.success(), "{args:?} {key}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let refused = |args: &[&str], key: &str| {
        let done = run(args, key, "forged");
        assert!(!done.status.success(), "{args:?} {key}: {}", text(&done.stdout));
    };

    let words = [(ONE, "canaryOne"), (THREAD, "canaryThread"), (TWO, "canaryTwo"), (DIRECT, "canaryDirect")];
    for (key, word) in words {
        let who = super::with(&of(key), json!({"user": "u2"}));
        let who = if key == DIRECT { of(key) } else { who };
        let session = program.current(&who);
        program.say(&who, &session, &format!("Said in {word}."));
        program.remember("team", &of(key), &format!("The {word} day."));
        ok(&["write", &format!("/{word}.md")], key, word);
    }
    // A thread is its own session, with the memory and the files of its channel.
    assert_ne!(program.current(&of(ONE)), program.current(&of(THREAD)));
    for key in [ONE, THREAD] {
        assert_canaries(&program.prompt("team", &of(key)), &["canaryOne", "canaryThread"]);
        assert_canaries(&ok(&["ls", "/"], key, ""), &["canaryOne", "canaryThread"]);
    }
    for (key, word) in [(TWO, "canaryTwo"), (DIRECT, "canaryDirect")] {
        assert_canaries(&program.prompt("team", &of(key)), &[word]);
        assert_canaries(&ok(&["ls", "/"], key, ""), &[word]);
        let found = program.everything(&of(key), "What was said in the day? canaryOne canaryLead canaryTwo");
        assert_canaries(&found.replace("canaryOne canaryLead canaryTwo", ""), &[word]);
    }
    // Everyone reads and edits the handbook.
    for (key, word) in words {
        assert!(ok(&["cat", "/.agent/handbook/start.md"], key, "").contains("canaryBook"));
        ok(&["append", "/.agent/handbook/start.md"], key, &format!("{word} was here.\n"));
    }
    assert_eq!(garth.ok(&["cat", "/agents/team/handbook/start.md"]).matches("was here").count(), 4);
    for (key, word) in words {
        // Open files can be read but not changed under any name; others are not found.
        assert_eq!(ok(&["cat", "/.agent/SOUL.md"], key, ""), "Be brief.");
        assert!(ok(&["cat", "/.agent/skills/deploy/SKILL.md"], key, "").contains("canarySkill"));
        refused(&["write", "/.agent/SOUL.md"], key);
        refused(&["write", "/.agent/skills/deploy/SKILL.md"], key);
        refused(&["rm", "/.agent/SOUL.md"], key);
        refused(&["cat", "/.agent/MEMORY.md"], key);
        refused(&["write", "/.agent/MEMORY.md"], key);
        refused(&["write", "/.agent/settings.json"], key);
        refused(&["ln", "/.agent/SOUL.md", "/soul.md"], key);
        let link = format!("/{word}-soul.md");
        ok(&["ln", "-s", "/.agent/SOUL.md", &link], key, "");
        refused(&["append", &link], key);
    }
    assert_eq!(garth.ok(&["cat", "/agents/team/SOUL.md"]), "Be brief.");
    // No other audience reaches the chat of a channel, not even under its own name.
    assert!(!ok(&["ls", "/", "--chat", "plan"], ONE, "").contains("x.md"));
    ok(&["write", "/x.md", "--chat", "plan"], ONE, "canaryPlan");
    ok(&["cat", "/x.md", "--chat", "plan"], THREAD, "");
    refused(&["cat", "/x.md", "--chat", "plan"], TWO);
    garth.ok(&["chat", "own", "plan", TWO, "--take"]);
    assert_eq!(ok(&["cat", "/x.md", "--chat", "plan"], TWO, ""), "canaryPlan");
    refused(&["cat", "/x.md", "--chat", "plan"], ONE);
    // The speaker is stored, and the memory of a person is not the memory of the channel.
    let lines = program.by(&of(ONE), "sessions/lines", json!({"name": program.current(&of(ONE))}));
    assert_eq!(lines["items"][0]["value"]["from"], "u2", "{lines}");
    assert_canaries(&program.prompt("team", &json!({"user": "u2"})), &[]);
    // The lead sees the days of all.
    let prompt = program.prompt("team", &json!({"user": "lead"}));
    let all = ["canaryLead", "canaryOne", "canaryThread", "canaryTwo", "canaryDirect"];
    assert_canaries(&prompt, &all);
}
