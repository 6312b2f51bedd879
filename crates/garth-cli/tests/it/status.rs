//! `garth status`: an overview of what is stored and what needs attention.

use serde_json::json;

use super::garth::Garth;

#[test]
fn status_counts_contents_and_names_what_waits() {
    let garth = Garth::new();
    let empty = garth.json(&["status"]);
    assert_eq!((&empty["seq"], &empty["time"]), (&json!(0), &json!(null)));
    assert!(garth.ok(&["status"]).contains("attention  nothing"));
    garth.ok(&["agent", "create", "scout"]);
    garth.ok(&["memory", "put", "--user", "alice", "profile", "Alice."]);
    garth.ok(&["key", "create", "--label", "laptop"]);
    garth.ok(&["quota", "set", "/", "--max-bytes", "1G"]);
    garth.ok(&["retention", "set", "--max-stored", "1G"]);
    let status = garth.json(&["status"]);
    let one = json!({"count": 1, "more": false});
    for (name, value) in [
        ("accounts", &one),
        ("agents", &json!({"count": 2, "more": false})),
        ("users", &one),
        ("waiting_events", &one),
        ("keys", &json!(1)),
        ("quotas", &json!(1)),
        ("oldest", &json!(0)),
        ("max_stored", &json!(1 << 30)),
        ("seq", &json!(garth.seq())),
        ("failed_events", &json!({"count": 0, "more": false})),
    ] {
        assert_eq!(&status[name], value, "{name}");
    }
    assert!(status["bytes"].as_u64().unwrap() > 4096);
    assert!(garth.ok(&["status"]).contains("outbox     1 waiting events\nattention  nothing"));
    garth.fails(3, &["status", "--account", "none"]);
    garth.fails(2, &["status", "--user", "ann"]);
}

#[test]
fn status_names_used_up_limits() {
    let garth = Garth::new();
    garth.write("/a/b", "x");
    assert_eq!(garth.json(&["status"])["full_quotas"], json!([]));
    assert!(garth.ok(&["status"]).contains(", no limit\n"));
    garth.ok(&["quota", "set", "/a", "--max-entries", "1"]);
    garth.ok(&["quota", "set", "/", "--max-bytes", "1G"]);
    garth.ok(&["retention", "set", "--max-stored", "4096"]);
    let status = garth.json(&["status"]);
    assert_eq!((&status["full"], &status["max_stored"]), (&json!(true), &json!(4096)));
    assert_eq!((&status["full_quotas"], &status["quotas"]), (&json!(["/a"]), &json!(2)));
    assert_eq!(status["stored"], garth.json(&["usage"])["stored"]);
    let shown = garth.ok(&["status"]);
    for part in [" of 4.0K\n", "full: writes are refused; ", "the quota of /a is used up"] {
        assert!(shown.contains(part), "{shown}");
    }
    garth.ok(&["retention", "set", "--max-stored", "1G"]);
    assert_eq!(garth.json(&["status"])["full"], false);
}

#[test]
fn status_names_broken_memories() {
    let garth = Garth::new();
    garth.ok(&["memory", "put", "--user", "alice", "profile", "Alice."]);
    let meta = "/users/alice/memories/profile/.meta.json";
    let broken = garth.ok(&["cat", meta]).replace("ACTIVE", "BROKEN");
    garth.feed(&["write", meta], &broken);
    assert_eq!(garth.json(&["status"])["broken_memories"], json!({"count": 1, "more": false}));
    assert!(garth.ok(&["status"]).contains("1 broken memories (garth repair --dry-run)"));
}
