//! Restores of earlier states, compared with those of the library on the same tree.

use futures::executor::block_on;
use garth_engine::FileSystem as _;
use garth_engine::datadir::Scope;
use garth_engine::fs::restore::{RestoreAction, plan, restore};
use garth_engine::model::{Batch, Moment, Op, Seq};
use serde_json::{Value, json};

use super::{World, path, with};
use crate::it::harness::{Reply, START};

/// Sends a restore under an idempotency key.
fn under(world: &World, key: &str, body: &Value) -> Reply {
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: {key}\r\n", world.server.key);
    world.server.request("POST", "/v1/tree/restore", &headers, body.to_string().as_bytes())
}

fn text(world: &World, at: &str) -> Value {
    world.ok("fetch", &json!({"path": at}))["text"].clone()
}

fn head(world: &World) -> u64 {
    block_on(world.fs.head()).unwrap().seq.0
}

#[test]
fn restores_equal_those_of_the_library() {
    for (at, moment, named) in [
        ("/notes", "before", Moment::Snapshot("before".to_owned())),
        ("/notes/a.md", "1", Moment::Seq(Seq(1))),
        ("/notes/sub", "before", Moment::Snapshot("before".to_owned())),
        ("/link", "before", Moment::Snapshot("before".to_owned())),
        ("/", "2", Moment::Seq(Seq(2))),
    ] {
        let (world, other) = (World::new(), World::new());
        let done = world.ok("restore", &json!({"path": at, "at": moment}));
        let due = block_on(restore(&*other.fs, &path(at), &named, START, &Batch::default())).unwrap();
        let (counts, commit) = (due.plan, due.commit.as_ref());
        let version = block_on(other.fs.stat(&(&path(at)).into())).unwrap().version;
        let expected = json!({
            "ok": true, "path": at, "at": counts.at, "version": version, "created": counts.created,
            "seq": commit.map(|commit| commit.seq), "time": commit.map(|commit| commit.time),
            "restored": counts.restored, "removed": counts.removed, "unchanged": counts.unchanged,
            "gone": 0, "gone_paths": [],
        });
        assert_eq!(done, expected);
        let [ours, theirs] = [&world, &other].map(|world| world.ok("walk", &json!({"entries": true})));
        assert_eq!(ours, theirs, "{at}");
    }
}

#[test]
fn restored_files_have_their_earlier_content() {
    let world = World::new();
    let then = world.commit([Op::write(path("/plan.md"), "one\n")]).seq.to_string();
    world.commit([Op::write(path("/plan.md"), "two\n")]);
    let done = world.ok("restore", &json!({"path": "/dir/../plan.md", "at": then, "message": "undo"}));
    assert_eq!((&done["path"], &done["created"]), (&json!("/plan.md"), &json!(false)));
    assert_eq!(text(&world, "/plan.md"), "one\n");
    let last = world.ok("history", &json!({"path": "/plan.md"}))["items"][0].clone();
    assert_eq!((&last["commit"]["message"], &last["id"]), (&json!("undo"), &done["version"]));
    assert!(last["commit"]["author"]["key"].is_string());
    // A removed directory comes back.
    let back = world.ok("restore", &json!({"path": "/notes/sub", "at": "before"}));
    assert_eq!((&back["created"], &back["restored"]), (&json!(true), &json!(2)));
    assert_eq!(text(&world, "/notes/sub/c.md"), "six\n");
    let message = &world.ok("history", &json!({"path": "/notes/sub"}))["items"][0]["commit"]["message"];
    assert_eq!(message, &json!(format!("restore /notes/sub as of {}", back["at"])));
    // Nothing differs any more.
    let before = head(&world);
    let same = world.ok("restore", &json!({"path": "/notes/sub", "at": "before"}));
    assert_eq!((&same["seq"], &same["time"], &same["restored"]), (&json!(null), &json!(null), &json!(0)));
    assert_eq!((&same["version"], head(&world)), (&back["version"], before));
}

#[test]
fn dry_run_lists_changes_and_makes_none() {
    let world = World::new();
    let before = head(&world);
    let asked = json!({"path": "/notes", "at": "before", "dry": true});
    let planned = world.ok("restore", &asked);
    let moment = Moment::Snapshot("before".to_owned());
    let due = block_on(plan(&*world.fs, &path("/notes"), &moment, START)).unwrap();
    let changes = due.changes.iter().map(|change| match &change.action {
        RestoreAction::Created => json!({"path": change.path, "action": "created"}),
        RestoreAction::Changed => json!({"path": change.path, "action": "changed"}),
        RestoreAction::Moved { from } => json!({"path": change.path, "action": "moved", "from": from}),
        RestoreAction::Linked => json!({"path": change.path, "action": "linked"}),
        _ => json!({"path": change.path, "action": "removed"}),
    });
    let expected = json!({
        "ok": true, "dry": true, "path": "/notes", "at": due.at, "created": false, "restored": due.restored,
        "removed": due.removed, "unchanged": due.unchanged, "gone": 0, "gone_paths": [],
        "changes": changes.collect::<Vec<_>>(), "has_more": false,
    });
    assert_eq!(planned, expected);
    assert!(due.changes.len() > 2, "{:?}", due.changes);
    assert_eq!(under(&world, "dry", &asked).json(), planned);
    assert_eq!(head(&world), before);
}

#[test]
fn restore_requires_its_version() {
    let world = World::new();
    let file = json!({"path": "/notes/a.md", "at": "before"});
    let current = world.ok("stat", &json!({"path": "/notes/a.md"}))["entry"]["version"].clone();
    for dry in [true, false] {
        let wrong = with(&file, json!({"if_version": "ver_1-1", "dry": dry}));
        let message = world.post("restore", &wrong).refused(409, "CONFLICT");
        assert!(message.contains(current.as_str().unwrap()), "{message}");
    }
    let missing = json!({"path": "/notes/sub", "at": "before", "if_version": "ver_1-1"});
    world.post("restore", &missing).refused(409, "CONFLICT");
    assert_eq!(world.ok("restore", &with(&file, json!({"if_version": current})))["restored"], 1);
    world.post("restore", &with(&file, json!({"if_version": current}))).refused(409, "CONFLICT");
}

#[test]
fn impossible_restores_change_nothing() {
    let world = World::new();
    let before = head(&world);
    for (body, status, code, why) in [
        (json!({"path": "/none", "at": "before"}), 404, "NOT_FOUND", "did not exist"),
        (json!({"path": "/again.md", "at": "before"}), 404, "NOT_FOUND", "did not exist"),
        (json!({"path": "/notes", "at": "no-such-snapshot"}), 404, "NOT_FOUND", ""),
        (json!({"path": "/notes", "at": "999"}), 404, "NOT_FOUND", ""),
        (json!({"path": "/notes"}), 400, "VALIDATION_ERROR", "\"at\" is missing"),
        (json!({"at": "before"}), 400, "VALIDATION_ERROR", "\"path\" is missing"),
        (json!({"path": "/notes", "at": "before", "if_version": "1"}), 400, "VALIDATION_ERROR", ""),
    ] {
        let message = world.post("restore", &body).refused(status, code);
        assert!(message.contains(why), "{body}: {message}");
    }
    for scope in [Scope::FilesRead, Scope::FilesWrite] {
        let key = world.server.key("acme", &[scope]);
        let body = json!({"path": "/notes", "at": "before"}).to_string();
        world.server.post_as(&key, "tree/restore", body).refused(403, "FORBIDDEN");
    }
    assert_eq!(head(&world), before);
    let rule = json!({"pattern": "/notes/**", "constraint": "read-only"});
    world.server.ok("admin/rules/set", rule.to_string());
    let ruled = head(&world);
    world.post("restore", &json!({"path": "/notes/a.md", "at": "before"})).refused(400, "RULE_VIOLATION");
    assert_eq!(head(&world), ruled);
}

#[test]
fn repeat_of_restore_gets_first_answer() {
    let world = World::new();
    for (key, body) in [
        ("changes", json!({"path": "/notes/a.md", "at": "before"})),
        // Restored by the first request already.
        ("nothing", json!({"path": "/notes/a.md", "at": "before"})),
    ] {
        let first = under(&world, key, &body);
        assert_eq!(first.status, 200, "{}", first.text());
        assert_eq!(first.json()["seq"].is_null(), key == "nothing", "{}", first.text());
        let before = head(&world);
        let again = under(&world, key, &body);
        assert_eq!((again.status, again.text(), head(&world)), (200, first.text(), before));
        let other = with(&body, json!({"at": "1"}));
        under(&world, key, &other).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    }
    // The snapshot is gone, and so is the file.
    world.commit([Op::drop_snapshot("before"), Op::remove(path("/notes/a.md"))]);
    let before = head(&world);
    let again = under(&world, "changes", &json!({"path": "/notes/a.md", "at": "before"}));
    assert_eq!((again.status, again.json()["restored"].clone()), (200, json!(1)));
    assert_eq!(head(&world), before);
    let new = under(&world, "new", &json!({"path": "/notes/a.md", "at": "before"}));
    new.refused(404, "NOT_FOUND");
}

#[test]
fn agents_restore_files_of_their_tree() {
    let world = World::empty();
    world.server.own("scout", "ann");
    let who = json!({"agent": "scout", "user": "ann"});
    let write = |text: &str| {
        let op = json!({"op": "write", "path": "/plan.md", "text": text});
        world.server.ok("batch", with(&who, json!({"ops": [op]})).to_string())["seq"].clone()
    };
    let first = write("one\n");
    write("two\n");
    let restore = with(&who, json!({"path": "/plan.md", "at": first.to_string()}));
    let done = world.ok("restore", &restore);
    assert_eq!((&done["path"], &done["at"], &done["restored"]), (&json!("/plan.md"), &first, &json!(1)));
    assert_eq!(world.ok("fetch", &with(&who, json!({"path": "/plan.md"})))["text"], "one\n");
    // Another user has another tree.
    let bobs = with(&restore, json!({"user": "bob"}));
    world.post("restore", &bobs).refused(404, "NOT_FOUND");
    let key = world.server.bound_key(&with(&who, json!({"read_only": true})));
    world
        .server
        .post_as(&key, "tree/restore", json!({"path": "/plan.md", "at": "1"}).to_string())
        .refused(403, "FORBIDDEN");
}

#[test]
fn session_files_are_restored_and_counted_once() {
    let world = World::empty();
    let server = &world.server;
    server.own("scout", "ann");
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann", "chat": "trip"}));
    let put = |path: &str, text: &str| {
        let headers = format!("authorization: Bearer {key}\r\n");
        let reply = server.request("PUT", &format!("/v1/fs{path}"), &headers, text.as_bytes());
        assert!((200..300).contains(&reply.status), "{path}: {}", reply.text());
    };
    let ok = |call: &str, body: Value| {
        let reply = server.post_as(&key, &format!("tree/{call}"), body.to_string());
        assert_eq!(reply.status, 200, "{call} {body}: {}", reply.text());
        reply.json()
    };
    put("/.user/session/notes.md", "one");
    let then = head(&world).to_string();
    put("/.user/session/notes.md", "two and more");
    put("/ctx/home/ann/agent/scout/session/new.md", "new");
    let total = |path: &str| ok("du", json!({"path": path}))["items"][0]["bytes"].as_u64().unwrap();
    assert_eq!((total("/"), total("/.user"), total("/ctx")), (total("/.agent") + 15, 15, 15));
    let lines = ok("grep", json!({"expressions": ["two and"]}))["files"].clone();
    assert_eq!(lines.as_array().unwrap().len(), 1, "{lines}");
    assert_eq!(lines[0]["path"], json!("/.user/session/notes.md"));
    let diff = ok("diff", json!({"path": "/", "from": then}))["items"].clone();
    assert!(!diff.to_string().contains("/ctx/home"), "{diff}");
    let dry = ok("restore", json!({"path": "/", "at": then, "dry": true}));
    let done = ok("restore", json!({"path": "/", "at": then}));
    for count in ["restored", "removed", "unchanged"] {
        assert_eq!(done[count], dry[count], "{count}");
    }
    assert_eq!(done["removed"], json!(1));
    let path = json!({"path": "/ctx/home/ann/agent/scout/session/notes.md"});
    assert_eq!(ok("fetch", path)["text"], json!("one"));
    let new = json!({"path": "/.user/session/new.md"}).to_string();
    server.post_as(&key, "tree/fetch", new).refused(404, "NOT_FOUND");
}
