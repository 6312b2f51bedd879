//! A support bot with many users and a program with one API key that names them.

use serde_json::json;

use super::{Program, assert_canaries, canaries};
use crate::it::garth::Garth;

/// Number of users.
const USERS: usize = 200;

#[test]
fn each_user_finds_own_and_shared_knowledge() {
    let garth = Garth::new();
    garth.ok(&["agent", "create", "support", "--owner", "ops", "--no-bootstrap"]);
    garth.feed(&["write", "/agents/support/MEMORY.md"], "The canaryOps margin is small.\n");
    garth.feed(&["write", "/agents/support/USER.md"], "The canaryBoss is Olga.\n");
    garth.feed(
        &["memory", "put", "ctx://default/agents/support/memories/cases/refund"],
        "A canaryRefund takes three days.",
    );
    let program = Program::start(&garth);
    let who = |n: usize| json!({"agent": "support", "user": format!("u-{n}")});
    let word = |n: usize| format!("canary{n:04}");
    for n in 0..USERS {
        let (who, word) = (who(n), word(n));
        program.by(&who, "sessions/create", json!({"name": "chat"}));
        program.say(&who, "chat", &format!("My order {word} is late."));
        let uri = format!("ctx://default/users/u-{n}/memories/events/order");
        program.by(
            &who,
            "memories/put",
            json!({"uri": uri, "content": format!("The order {word} was late.")}),
        );
        program.remember("support", &who, &format!("The order {word} is late."));
    }
    for n in (0..USERS).step_by(9) {
        let (who, word) = (who(n), word(n));
        let found = program.everything(&who, "Was the order late?");
        assert_canaries(&found, &[&word]);
        let found = program.everything(&who, "How many days does a refund take?");
        // What the user has said is near enough in meaning.
        assert_canaries(&found, &[&word, "canaryRefund"]);
        assert_eq!(program.by(&who, "sessions/list", json!({}))["items"].as_array().map(Vec::len), Some(1));
        let said = program.by(&who, "sessions/lines", json!({"name": "chat"})).to_string();
        assert_canaries(&said, &[&word]);
        let packed = program.by(&who, "context/pack", json!({"name": "chat"})).to_string();
        assert_canaries(&packed, &[&word]);
        let prompt = program.prompt("support", &json!({"user": format!("u-{n}"), "session": "chat"}));
        assert_canaries(&prompt, &[&word]);
        // Data of another user is not found under any name.
        let other = format!("ctx://default/users/u-{}/memories/events/order", (n + 1) % USERS);
        assert_eq!(program.call("memories/get", &super::with(&who, json!({"uri": other}))).0, 404);
        assert_eq!(program.call("sessions/get", &super::with(&who, json!({"name": "work"}))).0, 404);
    }
    // Each user has a chat, whose files others do not see.
    garth.feed(&["write", "/note.md", "--agent", "support", "--user", "u-7"], "canary0007");
    assert_eq!(garth.ok(&["cat", "/note.md", "--agent", "support", "--user", "u-7"]), "canary0007");
    assert!(!garth.ok(&["ls", "/", "--agent", "support", "--user", "u-8"]).contains("note.md"));
    garth.fails(5, &["ls", "/", "--agent", "support", "--user", "u-8", "--chat", "u-7"]);
    // For a session key of a channel of one user, the program names both.
    let direct = json!({"agent": "support", "user": "u-9", "key": "agent:support:web:dm:visitor-9"});
    let session = program.current(&direct);
    program.say(&direct, &session, "It is canary0009 again.");
    assert_eq!(program.by(&who(9), "sessions/list", json!({}))["items"].as_array().map(Vec::len), Some(2));
    // The owner sees the newest messages of users, within a limit.
    let prompt = program.prompt("support", &json!({"user": "ops"}));
    let seen = canaries(&prompt);
    assert!(seen.contains("canaryOps") && seen.contains("canaryBoss"), "{prompt}");
    assert!((10..USERS).contains(&seen.len()), "{} of {USERS} fit", seen.len());
    // Leaving the name out makes nobody the owner.
    assert_canaries(&program.prompt("support", &json!({})), &[]);
}
