//! A personal assistant on three channels of its owner and in a family group.

use serde_json::json;

use super::{Program, assert_canaries};
use crate::it::garth::Garth;

const WHATSAPP: &str = "agent:assistant:whatsapp:dm:+4917000001";
const TELEGRAM: &str = "agent:assistant:telegram:dm:ann_b";
const SIGNAL: &str = "agent:assistant:signal:dm:+4917000001";
const FAMILY: &str = "agent:assistant:whatsapp:group:family";
const STRANGER: &str = "agent:assistant:whatsapp:dm:+4917000099";

/// Sets the owners of the channels.
fn identities(garth: &Garth, of: &[(&str, &str)]) {
    let part = |key: &str| key.trim_start_matches("agent:assistant:").to_owned();
    let of: serde_json::Map<_, _> = of.iter().map(|(key, user)| (part(key), json!(user))).collect();
    let settings = json!({"owner": "ann", "identities": of});
    garth.feed(&["write", "-p", "/agents/assistant/settings.json"], &settings.to_string());
}

#[test]
fn owner_channels_share_memory_apart_from_group() {
    let garth = Garth::new();
    identities(&garth, &[(WHATSAPP, "ann"), (TELEGRAM, "ann"), (SIGNAL, "ann")]);
    garth.feed(&["write", "-p", "/agents/assistant/MEMORY.md"], "The canaryLong secret.\n");
    let program = Program::start(&garth);
    let of = |key: &str| json!({"agent": "assistant", "key": key});
    let all = [
        (WHATSAPP, "canaryWa"),
        (TELEGRAM, "canaryTg"),
        (SIGNAL, "canarySi"),
        (FAMILY, "canaryFam"),
        (STRANGER, "canaryStr"),
    ];
    for (key, word) in all {
        let session = program.current(&of(key));
        program.say(&of(key), &session, &format!("Said in {word}."));
        program.remember("assistant", &of(key), &format!("The {word} day."));
        assert_eq!(program.current(&of(key)), session, "the next message goes on there");
    }
    let class =
        |key: &str| program.by(&of(key), "sessions/current", json!({}))["session"]["meta"]["class"].clone();
    assert_eq!(
        all.map(|(key, _)| class(key)),
        ["main", "main", "main", "group", "dm"].map(|class| json!(class))
    );
    // One memory on all channels of Ann, and the days of others as evidence.
    for key in [WHATSAPP, TELEGRAM, SIGNAL] {
        let sessions = program.by(&of(key), "sessions/list", json!({}));
        assert_eq!(sessions["items"].as_array().map(Vec::len), Some(3), "{sessions}");
        let prompt = program.prompt("assistant", &of(key));
        assert_canaries(
            &prompt,
            &["canaryLong", "canaryWa", "canaryTg", "canarySi", "canaryFam", "canaryStr"],
        );
        assert!(program.everything(&of(key), "Said in canaryTg").contains("canaryTg"));
    }
    // The family and the stranger only see their own conversations.
    for (key, word) in [(FAMILY, "canaryFam"), (STRANGER, "canaryStr")] {
        assert_canaries(&program.prompt("assistant", &of(key)), &[word]);
        assert_canaries(&program.everything(&of(key), "What was said in the day?"), &[word]);
        assert_canaries(&garth.ok(&["agent", "prompt", "--agent", "assistant", "--key", key]), &[word]);
    }
    // A named member of the family speaks in the group and sees nothing of it outside.
    let speaker = json!({"agent": "assistant", "key": FAMILY, "user": "ben"});
    let session = program.current(&speaker);
    program.say(&speaker, &session, "I am Ben.");
    let lines = program.by(&of(FAMILY), "sessions/lines", json!({"name": session}));
    assert_eq!(lines["items"][1]["value"]["from"], "ben", "{lines}");
    assert_canaries(&program.everything(&json!({"agent": "assistant", "user": "ben"}), "family day"), &[]);
    // Another user cannot be named with a key of Ann.
    let (status, answer) =
        program.call("sessions/list", &json!({"agent": "assistant", "key": SIGNAL, "user": "ben"}));
    assert_eq!(status, 403, "{answer}");
}

#[test]
fn changed_identities_end_sessions_without_moves() {
    let garth = Garth::new();
    identities(&garth, &[(TELEGRAM, "ann"), (SIGNAL, "ann")]);
    let program = Program::start(&garth);
    let of = |key: &str| json!({"agent": "assistant", "key": key});
    let mut sessions = Vec::new();
    for (key, word) in [(TELEGRAM, "canaryTg"), (SIGNAL, "canarySi"), (STRANGER, "canaryStr")] {
        let session = program.current(&of(key));
        program.say(&of(key), &session, &format!("Said in {word}."));
        program.remember("assistant", &of(key), &format!("The {word} day."));
        sessions.push(session);
    }
    let [_, signal, stranger] = &*sessions else { panic!("three sessions") };
    // Ann gave her Signal number away, and the stranger turned out to be Ann's new phone
    identities(&garth, &[(TELEGRAM, "ann"), (STRANGER, "ann")]);
    let next = program.current(&of(SIGNAL));
    assert_ne!(next, *signal);
    let meta = program.by(&of(SIGNAL), "sessions/get", json!({"name": next}))["session"]["meta"].clone();
    assert_eq!((&meta["class"], &meta["user"]), (&json!("dm"), &json!(":signal:dm:+4917000001")));
    program.say(&of(SIGNAL), &next, "Said by canaryNew.");
    assert_canaries(&program.prompt("assistant", &of(SIGNAL)), &[]);
    assert_canaries(&program.everything(&of(SIGNAL), "What was said in the day?"), &["canaryNew"]);
    let next = program.current(&of(STRANGER));
    assert_ne!(next, *stranger);
    assert_eq!(
        program.by(&of(STRANGER), "sessions/get", json!({"name": next}))["session"]["meta"]["class"],
        "main"
    );
    // Earlier conversations stay with their audience.
    let state = |key: &str, name: &str| {
        let (status, answer) = program.call("sessions/get", &super::with(&of(key), json!({"name": name})));
        (status, answer["session"]["state"].clone())
    };
    assert_eq!(state(TELEGRAM, signal), (200, json!("done")), "the old session of Signal is Ann's");
    assert_eq!(state(TELEGRAM, stranger).0, 404);
    let old = garth.ok(&["ls", "/users"]);
    assert!(old.contains(":whatsapp:dm:+4917000099") && old.contains(":signal:dm:+4917000001"), "{old}");
    let kept = format!("/users/:whatsapp:dm:+4917000099/agents/assistant/session/{stranger}/messages.jsonl");
    assert_canaries(&garth.ok(&["cat", &kept]), &["canaryStr"]);
    // Telegram was Ann's all the time, so its session continues
    assert_eq!(program.current(&of(TELEGRAM)), sessions[0]);
}
