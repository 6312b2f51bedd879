//! Bytes and entries of directories, compared with those of the library, for keys, overlays and the past.

use futures::executor::block_on;
use garth_agent::files::{Du, Files};
use garth_engine::datadir::Scope;
use serde_json::{Value, json};

use super::World;

#[test]
fn totals_equal_those_of_the_library() {
    let world = World::new();
    let files = Files::new(&*world.fs);
    for (path, depth) in [("/", 0), ("/", 3), ("/notes", 1), ("/link", 0), ("/again.md", 0)] {
        let due = block_on(files.du(&Du::new(path).depth(depth))).unwrap();
        let answer = world.ok("du", &json!({"path": path, "depth": depth}));
        assert_eq!(answer, json!({"items": due.items}), "{path} {depth}");
    }
    let now = json!({"path": "/notes", "bytes": 29, "entries": 2, "files": 2, "directories": 0});
    assert_eq!(world.ok("du", &json!({"path": "/notes"}))["items"], json!([now]));
    let before = json!({"path": "/notes", "bytes": 35, "entries": 4, "files": 3, "directories": 1});
    assert_eq!(world.ok("du", &json!({"path": "/notes", "at": "before"}))["items"], json!([before]));
}

#[test]
fn file_with_two_names_counts_once_in_pages() {
    let world = World::new();
    let whole = world.ok("du", &json!({"depth": 3}))["items"].clone();
    let (mut items, mut cursor) = (Vec::new(), json!(null));
    loop {
        let page = world.ok("du", &json!({"depth": 3, "limit": 1, "cursor": cursor}));
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
        world.post("du", &json!({"depth": 2, "cursor": cursor})).refused(400, "VALIDATION_ERROR");
    }
    assert_eq!(json!(items), whole);
    let total = |path: &str| items.iter().find(|item| item["path"] == path).unwrap()["bytes"].clone();
    // `again.md` comes first, so that its bytes are not those of `/notes`.
    assert_eq!((total("/notes"), total("/")), (json!(12), json!(12 + 17 + 3)));
}

#[test]
fn keys_count_what_they_reach_alone() {
    let world = World::empty();
    let server = &world.server;
    server.own("scout", "ann");
    let mut binding = json!({"agent": "scout", "user": "bob", "chat": "trip"});
    let whole = server.bound_key(&binding);
    for path in ["notes/a.md", "other.md"] {
        let headers = format!("authorization: Bearer {whole}\r\n");
        assert_eq!(server.request("PUT", &format!("/v1/fs/{path}"), &headers, b"12345").status, 201);
    }
    binding["prefix"] = json!("/notes");
    let below = server.bound_key(&binding);
    let du = |key: &str, body: Value| server.post_as(key, "tree/du", body.to_string());
    let notes = json!([{"path": "/notes", "bytes": 5, "entries": 1, "files": 1, "directories": 0}]);
    assert_eq!(du(&below, json!({})).json()["items"], notes);
    assert_eq!(du(&whole, json!({"path": "/notes"})).json()["items"], notes);
    for (key, path) in [(&below, "/other.md"), (&below, "/.agent"), (&whole, "/agents/scout")] {
        du(key, json!({"path": path})).refused(404, "NOT_FOUND");
    }
    du(&whole, json!({"agent": "other"})).refused(403, "FORBIDDEN");
    let writer = server.key("acme", &[Scope::FilesWrite]);
    du(&writer, json!({})).refused(403, "FORBIDDEN");
}

#[test]
fn overlay_is_counted_as_it_shows() {
    let world = World::new();
    world.server.ok("admin/overlays/create", r#"{"id":"draft"}"#);
    let total = |body: Value| world.ok("du", &body)["items"][0].clone();
    let account = total(json!({}));
    let ops = json!([{"op": "write", "path": "/draft.md", "text": "123"}, {"op": "rm", "path": "/bin"}]);
    world.server.ok("batch", json!({"overlay": "draft", "ops": ops}).to_string());
    let draft = total(json!({"overlay": "draft"}));
    assert_eq!((&draft["bytes"], &draft["entries"]), (&account["bytes"], &account["entries"]));
    assert_eq!(total(json!({"overlay": "draft", "path": "/draft.md"}))["bytes"], 3);
    assert_eq!(total(json!({})), account);
}

#[test]
fn rejects_wrong_requests_for_totals() {
    let world = World::new();
    world.post("du", &json!({"path": "/none"})).refused(404, "NOT_FOUND");
    for (body, part) in [
        (json!({"depth": 17}), "\"depth\" must be an integer from 0 to 16"),
        (json!({"limit": 1001}), "\"limit\" must be an integer from 1 to 1000"),
        (json!({"dept": 1}), "did you mean \"depth\"?"),
        (json!({"cursor": "AAAA"}), "\"cursor\" must be"),
    ] {
        let message = world.post("du", &body).refused(400, "VALIDATION_ERROR");
        assert!(message.contains(part), "{message}");
    }
}
