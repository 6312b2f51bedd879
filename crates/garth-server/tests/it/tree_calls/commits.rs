//! Commits: batches in JSON, repeats, and what a key that may only write learns from them.

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_engine::model::{Batch, Body, CommitId, Op, Precondition, Seq, SetAttrs, Special, StagedBody};
use serde_json::{Value, json};

use super::{World, path};
use crate::it::harness::Reply;

/// Returns a batch as the body of a request.
fn body(batch: &Batch) -> Value {
    serde_json::to_value(batch).unwrap()
}

/// Returns content that was uploaded to a tree.
fn staged(world: &World, bytes: &'static [u8]) -> StagedBody {
    block_on(async {
        let mut upload = world.fs.stage(&path("/").into()).await.unwrap();
        upload.write(bytes.into()).await.unwrap();
        upload.finish().await.unwrap()
    })
}

#[test]
fn commits_equal_those_of_the_library() {
    let (world, other) = (World::new(), World::new());
    let batch = |world: &World| {
        let content = Body::Staged(staged(world, b"uploaded"));
        Batch::new([
            Op::write(path("/made/a"), "a").with_parents().with_attrs(SetAttrs::new().tags(["t"])),
            Op::write(path("/made/staged"), content),
            Op::append(path("/made/a"), "b"),
            Op::patch(path("/made/a"), 0, "A"),
            Op::truncate(path("/made/a"), 1),
            Op::mkdir(path("/made/d")),
            Op::symlink(path("/made/l"), "a"),
            Op::mknod(path("/made/fifo"), Special::Fifo),
            Op::link(path("/made/a"), path("/made/d/a")),
            Op::rename(path("/made/d"), path("/made/e")),
            Op::copy(path("/notes/a.md"), path("/made/copy")).as_of(Seq(2)),
            Op::remove(path("/bin")),
            Op::check(path("/made/a"), Precondition::Exists),
            Op::snapshot("made"),
        ])
        .require(path("/notes/a.md"), Precondition::Exists)
        .require(path("/none"), Precondition::Absent)
        .id(CommitId(7))
        .message("make it")
    };
    let done = world.ok("commit", &body(&batch(&world)));
    let due = block_on(other.fs.commit(batch(&other))).unwrap();
    assert_eq!(done, json!({"ok": true, "commit": due}));
    let [ours, theirs] = [&world, &other].map(|world| world.ok("walk", &json!({"path": "/made"})));
    assert_eq!(ours, theirs);
    assert_eq!(world.ok("fetch", &json!({"path": "/made/staged"}))["text"], "uploaded");
    let author = world.ok("history", &json!({"path": "/made/a"}))["items"][0]["commit"]["author"].clone();
    assert_eq!(author["key"].as_str(), world.server.key.trim_start_matches("garth_").split('.').next());
    let id = json!({"id": format!("{:032x}", 7)});
    let found = block_on(world.fs.committed(CommitId(7))).unwrap();
    assert_eq!(world.ok("committed", &id), json!({"commit": found}));
    assert_eq!(world.ok("committed", &json!({"id": "0".repeat(32)})), json!({"commit": null}));
    assert_eq!(world.ok("sync", &json!({})), json!({"seq": block_on(world.fs.sync()).unwrap()}));
    let lost = json!({"ops": [{"mkdir": {"at": {"path": "/no/x"}}}]});
    let message = world.post("commit", &lost).refused(404, "NOT_FOUND");
    assert!(
        message
            .ends_with("the directory /no does not exist; create it by an operation `mkdir` before this one")
    );
    let again = world.ok("commit", &json!({"ops": [], "id": format!("{:032x}", 7)}));
    assert_eq!((&again["commit"]["seq"], &again["commit"]["replayed"]), (&json!(due.seq), &json!(true)));
}

#[test]
fn malformed_batches_are_refused() {
    let world = World::new();
    let write = |more: Value| json!({"ops": [{"write": super::with(&json!({"at": {"path": "/x"}}), more)}]});
    for (batch, part) in [
        (json!({}), "\"ops\" is missing"),
        (json!({"ops": ["write"]}), "\"ops\" must be an array of at most 100000 objects"),
        (json!({"ops": vec![json!({}); 100_001]}), "\"ops\" must be an array of at most 100000 objects"),
        (json!({"ops": [], "preconditions": vec![0; 100_001]}), "must be an array of at most 100000 pairs"),
        (json!({"ops": [{"wriet": {}}]}), r#""ops[0]" must be an object with one of "write", "append", "#),
        (json!({"ops": [{"op": "rm", "path": "/x"}]}), r#""ops[0]" must be an object with one of "write", "#),
        (write(json!({"body": {"staged": 3}})), r#""ops[0].write.body.staged" must be an object"#),
        (
            json!({"ops": [{"mkdir": {"at": {"path": "/x"}}}, {"remove": {"at": {"path": "/x"}}}]}),
            r#""ops[1].remove.what" is missing; it must be one of "file", "directory", "any", "tree""#,
        ),
        (
            json!({"ops": [{"truncate": {"at": {"path": "/x"}, "size": -1}}]}),
            r#""ops[0].truncate.size" must be a whole number from 0"#,
        ),
        (write(json!({"body": {"bytes": "no base64!"}})), "base64"),
        (write(json!({"body": {"bytes": ""}, "more": 1})), r#""ops[0].write.more" is not a field here"#),
        (write(json!({"body": {"staged": {"id": "1", "size": 1}}})), "32 hexadecimal digits"),
        (
            json!({"ops": [], "preconditions": [{"path": "/a"}]}),
            "\"preconditions[0]\" must be an array of 2 items",
        ),
        (json!({"ops": [], "id": "7"}), "32 hexadecimal digits"),
        (json!({"ops": [], "idempotency": {}}), "\"idempotency\" is not a field"),
        (json!({"ops": [], "author": {"agent": "a"}}), "\"author\" is not a field"),
    ] {
        let message = world.post("commit", &batch).refused(400, "VALIDATION_ERROR");
        assert!(message.contains(part), "{batch}: {message}");
    }
    let foreign = json!({"body": {"staged": {"id": "0".repeat(32), "size": 1}}});
    let reply = world.post("commit", &write(foreign));
    assert!((400..500).contains(&reply.status), "{}", reply.text());
    let failing = json!({"ops": [{"mkdir": {"at": {"path": "/made"}}}, {"remove": {"at": {"path": "/none"}, "what": "any"}}]});
    world.post("commit", &failing).refused(404, "NOT_FOUND");
    world.post("stat", &json!({"path": "/made"})).refused(404, "NOT_FOUND");
}

#[test]
fn attributes_of_a_commit_are_bounded_while_they_are_read() {
    let world = World::new();
    let set = |tags: usize| json!({"set_attrs": {"at": {"path": "/x"}, "attrs": {"tags": vec![""; tags]}}});
    let message = world.post("commit", &json!({"ops": [set(100_001)]})).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("an array has more than 100000 items"), "{message}");
    // The path does not exist: these are refused before it is looked up.
    let message =
        world.post("commit", &json!({"ops": vec![set(90_000); 12]})).refused(413, "PAYLOAD_TOO_LARGE");
    assert!(message.contains("at most 67108864 bytes, and \"ops[11]\""), "{message}");
}

/// Sends a commit under an idempotency key.
fn under(world: &World, key: &str, api_key: &str, batch: &Value) -> Reply {
    let headers = format!("authorization: Bearer {api_key}\r\nidempotency-key: {key}\r\n");
    world.server.request("POST", "/v1/tree/commit", &headers, batch.to_string().as_bytes())
}

#[test]
fn repeat_of_commit_in_tree_of_agent_gets_first_answer() {
    let world = World::new();
    for durability in ["durable", "visible"] {
        let at = json!({"path": format!("/.user/{durability}.md")});
        let write = json!({"write": {"at": at, "body": {"bytes": "eA=="}}});
        let batch = json!({"agent": "scout", "user": "ann", "ops": [write], "durability": durability});
        let first = under(&world, durability, &world.server.key, &batch);
        assert_eq!(first.status, 200, "{}", first.text());
        let account = block_on(world.server.home.account("acme")).unwrap();
        block_on(account.commit(Batch::new([Op::remove_tree(path("/users"))]))).unwrap();
        let head = block_on(account.head()).unwrap().seq;
        let again = under(&world, durability, &world.server.key, &batch);
        assert_eq!((again.status, again.text()), (200, first.text()));
        assert_eq!(block_on(account.head()).unwrap().seq, head);
        // The key is one of the account, not of the tree.
        let other = json!({"ops": [{"mkdir": {"at": {"path": "/other"}}}]});
        let refused = under(&world, durability, &world.server.key, &other);
        refused.refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    }
}

#[test]
fn key_that_only_writes_learns_nothing_of_content() {
    let world = World::new();
    let key = world.server.key("acme", &[Scope::FilesWrite]);
    let post = |batch: Value| world.server.post_as(&key, "tree/commit", batch.to_string());
    let hash = json!({"sha256": "00".repeat(32)});
    let append = json!({"append": {"at": {"path": "/notes/a.md"}, "body": {"bytes": "eA=="}}});
    for batch in [
        json!({"ops": [append], "preconditions": [[{"path": "/notes/a.md"}, hash]]}),
        json!({"ops": [append], "preconditions": [[{"path": "/notes/a.md"}, {"not": hash}]]}),
        json!({"ops": [append, {"check": {"at": {"path": "/notes/a.md"}, "that": "exists"}}]}),
        // The answers would tell how long the file is, and which part of it is a hole.
        body(&Batch::new([Op::copy_range(path("/notes/a.md"), 9, 1, path("/bin"), 0)])),
        body(&Batch::new([Op::copy(path("/notes/a.md"), path("/copy"))])),
        body(&Batch::new([Op::punch(path("/bin"), 9, 1)])),
    ] {
        assert!(post(batch).refused(403, "FORBIDDEN").contains("files:read"));
    }
    let done = post(json!({"ops": [append]}));
    let outcome = &done.json()["commit"]["outcomes"][0];
    assert_eq!((outcome.get("size"), &outcome["created"]), (None, &json!(false)), "{outcome}");
    let conflict =
        json!({"ops": [append], "preconditions": [[{"path": "/notes/a.md"}, {"etag": "ver_1-1"}]]});
    assert!(!post(conflict).refused(409, "CONFLICT").contains("ver_"));
    let missing = json!({"ops": [{"remove": {"at": {"path": "/none"}, "what": "any"}}]});
    assert!(!post(missing).refused(404, "NOT_FOUND").contains("/none"));
    // A rule would quote the line of the file that violates it.
    let json_file = json!({"write": {"at": {"path": "/agents/a/kv/x.json"}, "body": {"bytes": "Y2FuYXJ5"}, "parents": true}});
    assert!(!post(json!({"ops": [json_file]})).refused(400, "RULE_VIOLATION").contains("line"));
    for call in ["stat", "fetch", "walk", "grep", "history", "committed", "wait"] {
        world.server.post_as(&key, &format!("tree/{call}"), "{}").refused(403, "FORBIDDEN");
    }
    let edit = json!({"path": "/notes/a.md", "old": "one", "new": "1"}).to_string();
    world.server.post_as(&key, "tree/edit", edit).refused(403, "FORBIDDEN");
}

#[test]
fn rules_tell_write_only_keys_nothing_through_views() {
    let world = World::empty();
    world.server.own("scout", "ann");
    world.commit([Op::write(path("/agents/scout/kv/o.json"), "12").with_parents()]);
    let key = world.server.key("acme", &[Scope::FilesWrite]);
    let post = |name: &str, bytes: &str| {
        let at = json!({"path": "/.agent/kv/o.json"});
        let op = json!({name: {"at": at, "body": {"bytes": bytes}}});
        let batch = json!({"agent": "scout", "user": "ann", "ops": [op]});
        world.server.post_as(&key, "tree/commit", batch.to_string())
    };
    // `3` and `x`: one would be a value, the other one not.
    for bytes in ["Mw==", "eA=="] {
        let message = post("append", bytes).refused(403, "FORBIDDEN");
        assert!(message.contains("files:read") && !message.contains("/kv"), "{message}");
    }
    assert_eq!(post("write", "Mw==").status, 200);
    post("write", "eA==").refused(400, "RULE_VIOLATION");
}
