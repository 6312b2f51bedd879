//! Calls on files with the field `overlay`: reads and writes are those of the overlay, and the account stays
//! as it is until the overlay is applied.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::home::{NewKey, Scope};
use garth_engine::model::{HistoryPage, Op, Page};
use garth_engine::view::overlay::StoredOverlay;
use garth_engine::{AccountStore, FileSystem, FileSystemExt as _, TreePath};
use serde_json::{Value, json};

use super::harness::{Connection, Reply, Server, request};

/// A server with the overlays `draft` of `/notes` and `all` of the account.
struct World {
    server: Server,
    account: Arc<dyn AccountStore>,
}

impl World {
    fn new() -> Self {
        let server = Server::start();
        let account = block_on(server.home.account("acme")).unwrap();
        for (at, text) in [("/notes/a.md", "one\n"), ("/notes/b.md", "two\n"), ("/other.md", "other\n")] {
            block_on(account.commit(Op::write(path(at), text).with_parents().into())).unwrap();
        }
        let world = Self { server, account };
        world.ok("admin/overlays/create", &json!({"id": "draft", "path": "/notes"}));
        world.ok("admin/overlays/create", &json!({"id": "all"}));
        world
    }

    /// Sends a call that must succeed.
    fn ok(&self, call: &str, body: &Value) -> Value {
        self.server.ok(call, body.to_string())
    }

    /// Sends a call.
    fn post(&self, call: &str, body: &Value) -> Reply {
        self.server.post(call, body.to_string())
    }

    /// Sends a call under an idempotency key.
    fn send(&self, call: &str, body: &Value) -> Reply {
        let headers = self.headers("idempotency-key: k\r\n");
        self.server.request("POST", &format!("/v1/{call}"), &headers, body.to_string().as_bytes())
    }

    /// Sends a call on bytes.
    fn bytes(&self, method: &str, target: &str, more: &str, body: &[u8]) -> Reply {
        self.server.request(method, &format!("/v1/{target}"), &self.headers(more), body)
    }

    fn headers(&self, more: &str) -> String {
        format!("authorization: Bearer {}\r\n{more}", self.server.key)
    }

    fn tree(&self, id: &str) -> Arc<dyn FileSystem> {
        block_on(StoredOverlay::open(&*self.account, id)).unwrap().tree()
    }

    /// Returns a file of an overlay.
    fn text(&self, id: &str, at: &str) -> String {
        block_on(self.tree(id).read_to_string(at)).unwrap()
    }

    /// Returns the paths that an overlay has changed.
    fn changed(&self, id: &str) -> Vec<String> {
        let diff = self.ok("admin/overlays/diff", &json!({"id": id}));
        texts(&diff, "path")
    }

    /// Returns the names in the directory of the overlay `draft`, as the account has them.
    fn account_names(&self) -> Vec<String> {
        let listing = block_on(self.account.list(&(&path("/notes")).into(), &Page::default())).unwrap();
        listing.items.iter().map(|item| item.name.to_string()).collect()
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn texts(answer: &Value, field: &str) -> Vec<String> {
    let items = answer["items"].as_array().unwrap().iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

/// Returns a call's body in the overlay `draft`.
fn draft(mut body: Value) -> Value {
    body["overlay"] = json!("draft");
    body
}

#[test]
fn calls_read_and_write_an_overlay() {
    let world = World::new();
    let names = world.account_names();
    let commit = json!({"ops": [{"write": {"at": {"path": "/new.md"}, "body": {"bytes": "bmV3Cg=="}}}]});
    let done = world.ok("tree/commit", &draft(commit));
    assert_eq!(done["commit"]["outcomes"][0]["created"], true);
    let edit = json!({"path": "/a.md", "old": "one", "new": "1"});
    assert_eq!(world.ok("tree/edit", &draft(edit))["changed"], true);
    let ops = json!([{"op": "append", "path": "/new.md", "text": "newer\n"}, {"op": "rm", "path": "/b.md"}]);
    assert_eq!(world.ok("batch", &draft(json!({"ops": ops})))["ok"], true);

    assert_eq!(texts(&world.ok("tree/list", &draft(json!({}))), "name"), ["a.md", "new.md"]);
    assert_eq!(texts(&world.ok("tree/walk", &draft(json!({}))), "path"), ["/a.md", "/new.md"]);
    assert_eq!(world.ok("tree/fetch", &draft(json!({"path": "/new.md"})))["text"], "new\nnewer\n");
    let many = json!({"items": [{"path": "/a.md"}, {"path": "/b.md"}]});
    let many = world.ok("tree/fetch-many", &draft(many));
    assert_eq!(
        (&many["items"][0]["text"], &many["items"][1]["error"]["code"]),
        (&json!("1\n"), &json!("NOT_FOUND"))
    );
    let stat = world.ok("tree/stat", &draft(json!({"path": "/a.md"})));
    assert_eq!((&stat["path"], &stat["entry"]["size"]), (&json!("/a.md"), &json!(2)));
    let grep = world.ok("tree/grep", &draft(json!({"expressions": ["newer"]})));
    assert_eq!((&grep["matches"], &grep["files"][0]["path"]), (&json!(1), &json!("/new.md")));
    assert_eq!(
        texts(&world.ok("tree/glob", &draft(json!({"pattern": "/*.md"}))), "path"),
        ["/a.md", "/new.md"]
    );
    let hits = world.ok("tree/search", &draft(json!({"query": "newer", "mode": "words"})));
    assert_eq!(hits["hits"][0]["path"], "/new.md", "{hits}");
    world.post("tree/stat", &draft(json!({"path": "/b.md"}))).refused(404, "NOT_FOUND");
    world.post("tree/stat", &draft(json!({"path": "/other.md"}))).refused(404, "NOT_FOUND");

    assert_eq!(world.account_names(), names);
    assert_eq!(world.ok("tree/fetch", &json!({"path": "/notes/a.md"}))["text"], "one\n");
    assert_eq!(world.changed("draft"), ["/a.md", "/b.md", "/new.md"]);
    world.ok("admin/overlays/apply", &json!({"id": "draft"}));
    assert_eq!(block_on(world.account.read_to_string("/notes/a.md")).unwrap(), "1\n");
    assert_eq!(block_on(world.account.read_to_string("/notes/new.md")).unwrap(), "new\nnewer\n");
    assert!(block_on(world.account.lookup("/notes/b.md")).unwrap().is_none());
}

#[test]
fn bytes_of_files_are_those_of_the_overlay() {
    let world = World::new();
    let get = |at: &str| world.bytes("GET", &format!("fs{at}?overlay=draft"), "", b"");
    let below = get("/a.md");
    assert_eq!((below.status, below.text().as_str()), (200, "one\n"));
    let etag = below.header("etag").unwrap().to_owned();
    let wrong = world.bytes("PUT", "fs/a.md?overlay=draft", "if-match: \"ver_1-1\"\r\n", b"x");
    wrong.refused(412, "CONFLICT");
    let put = world.bytes("PUT", "fs/a.md?overlay=draft", &format!("if-match: {etag}\r\n"), b"put\n");
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(put.header("etag"), get("/a.md").header("etag"));
    let new = world.bytes("PATCH", "fs/d/new.md?overlay=draft", "", b"patched\n");
    assert_eq!(new.status, 201, "{}", new.text());
    assert_eq!(world.bytes("DELETE", "fs/b.md?overlay=draft", "", b"").status, 200);
    assert_eq!((get("/a.md").text(), get("/d/new.md").text()), ("put\n".to_owned(), "patched\n".to_owned()));
    assert_eq!((get("/b.md").status, get("/other.md").status), (404, 404));
    assert_eq!(world.bytes("GET", "fs/notes/a.md", "", b"").text(), "one\n");
    assert_eq!(world.bytes("GET", "fs/notes/b.md", "", b"").text(), "two\n");
    assert_eq!(world.changed("draft"), ["/a.md", "/b.md", "/d", "/d/new.md"]);
    // More than is part of a commit.
    let long = vec![b'x'; 3 << 20];
    assert_eq!(world.bytes("PUT", "fs/long?overlay=all", "", &long).status, 201);
    assert!(world.bytes("GET", "fs/long?overlay=all", "", b"").body == long);
    assert_eq!(world.bytes("GET", "fs/long", "", b"").status, 404);
}

#[test]
fn empty_file_whose_content_is_gone_is_refused() {
    let world = World::new();
    let write = |text: &'static str| Op::write(path("/logs/a"), text).with_parents();
    let empty = block_on(world.account.commit(write("").into())).unwrap().seq;
    block_on(world.account.commit(write("x").into())).unwrap();
    world.ok("admin/retention/set", &json!({"content": [{"pattern": "/logs/**", "keep_seconds": 0}]}));
    block_on(world.account.gc(Duration::ZERO)).unwrap();
    world.ok("admin/overlays/create", &json!({"id": "then", "at": empty.0.to_string()}));
    for place in ["overlay=then".to_owned(), format!("at={}", empty.0)] {
        let target = format!("fs/logs/a?{place}");
        world.bytes("GET", &target, "", b"").refused(410, "GONE");
        let mut connection = Connection::open(world.server.address);
        connection.send(&request("HEAD", &format!("/v1/{target}"), &world.headers(""), b""));
        assert_eq!(connection.reply_to(true).status, 410, "{place}");
    }
    assert_eq!(world.bytes("GET", "fs/logs/a?overlay=all", "", b"").body, b"x");
}

#[test]
fn uploads_belong_to_their_overlay() {
    let world = World::new();
    let sent = vec![b'u'; (1 << 20) + 5];
    for (id, others) in [("draft", ["all", ""]), ("all", ["draft", ""])] {
        let uploaded = world.bytes("POST", &format!("uploads?overlay={id}"), "", &sent);
        assert_eq!(uploaded.status, 200, "{}", uploaded.text());
        let staged = uploaded.json()["staged"].clone();
        let write = |overlay: &str| {
            let mut body = json!({"ops": [{"write": {"at": {"path": "/up"}, "body": {"staged": staged}}}]});
            if !overlay.is_empty() {
                body["overlay"] = json!(overlay);
            }
            world.post("tree/commit", &body)
        };
        for other in others {
            write(other).refused(404, "NOT_FOUND");
        }
        let done = write(id);
        assert_eq!(done.status, 200, "{id}: {}", done.text());
        assert!(world.text(id, "/up").into_bytes() == sent, "{id}");
        write(id).refused(404, "NOT_FOUND");
    }
}

#[test]
fn commits_in_an_overlay_name_their_key() {
    let world = World::new();
    world.ok("batch", &draft(json!({"ops": [{"op": "write", "path": "/new.md", "text": "x"}]})));
    let stored = path("/.garth/overlays/draft/tree/new.md");
    let history = block_on(world.account.raw().history(&(&stored).into(), &HistoryPage::default())).unwrap();
    let id = world.server.key.trim_start_matches("garth_").split('.').next();
    assert_eq!(history.items[0].commit.author.key.as_deref(), id);
}

#[test]
fn overlays_open_to_free_admin_keys_only() {
    let world = World::new();
    let scopes = [Scope::FilesRead, Scope::FilesWrite, Scope::SearchRead, Scope::MemoryRead];
    let files = world.server.key("acme", &scopes);
    let bound = world.server.bound_key(&json!({"agent": "scout"}));
    let new = NewKey::new(None, &[Scope::Admin]);
    let operator = block_on(world.server.home.control().issue_key(new)).unwrap().1.reveal().to_owned();
    let before = block_on(world.account.head()).unwrap();
    let write = json!({"ops": [{"op": "write", "path": "/x", "text": "x"}]});
    for (key, why) in [(&files, "`admin`"), (&bound, "bound to nothing"), (&operator, "of the data folder")] {
        for (call, body) in [
            ("tree/stat", json!({"path": "/a.md"})),
            ("tree/search", json!({"query": "one"})),
            ("tree/sync", json!({})),
            ("batch", write.clone()),
        ] {
            let refused = world.server.post_as(key, call, draft(body).to_string());
            let message = refused.refused(403, "FORBIDDEN");
            assert!(message.contains(why), "{call}: {message}");
        }
        for (method, target) in [("GET", "/v1/fs/a.md"), ("PUT", "/v1/fs/a.md"), ("POST", "/v1/uploads")] {
            let headers = format!("authorization: Bearer {key}\r\n");
            let body: &[u8] = if method == "GET" { b"" } else { b"x" };
            let refused = world.server.request(method, &format!("{target}?overlay=draft"), &headers, body);
            refused.refused(403, "FORBIDDEN");
        }
    }
    for who in [
        json!({"agent": "scout"}),
        json!({"user": "ann"}),
        json!({"key": "agent:scout:main"}),
        json!({"chat": "trip"}),
        json!({"class": "main"}),
        json!({"session": "work"}),
    ] {
        let mut body = draft(write.clone());
        body.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
        let message = world.post("batch", &body).refused(400, "VALIDATION_ERROR");
        assert!(message.contains("an overlay is one of the account"), "{who}: {message}");
    }
    for (id, status, code) in
        [("none", 404, "NOT_FOUND"), ("a/b", 400, "VALIDATION_ERROR"), ("", 400, "VALIDATION_ERROR")]
    {
        world.post("tree/stat", &json!({"overlay": id})).refused(status, code);
    }
    // Only calls on files have the field.
    world.post("memories/list", &json!({"overlay": "draft"})).refused(400, "VALIDATION_ERROR");
    assert_eq!(block_on(world.account.head()).unwrap(), before);
    assert!(world.changed("draft").is_empty());
}

#[test]
fn overlays_have_no_past() {
    let world = World::new();
    world.ok("admin/snapshots/create", &json!({"name": "before"}));
    let file = |more: Value| {
        let mut body = json!({"path": "/a.md"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (call, body) in [
        ("tree/stat", file(json!({"at": "1"}))),
        ("tree/fetch", file(json!({"at": "1h"}))),
        ("tree/list", json!({"at": "before"})),
        ("tree/grep", json!({"expressions": ["one"], "at": "before"})),
        ("tree/diff", file(json!({"from": "1"}))),
        ("tree/restore", file(json!({"at": "1"}))),
        ("tree/history", file(json!({}))),
        ("tree/blame", file(json!({}))),
        ("tree/changes", json!({})),
        ("tree/snapshots", json!({})),
        ("tree/wait", json!({"since": 0, "wait_ms": 0})),
        ("tree/commit", json!({"ops": [{"snapshot": {"name": "x"}}]})),
    ] {
        let message = world.post(call, &draft(body)).refused(501, "UNSUPPORTED");
        assert!(message.contains("no history") || message.contains("not supported"), "{call}: {message}");
    }
    world.bytes("GET", "fs/a.md?overlay=draft&at=1", "", b"").refused(501, "UNSUPPORTED");
    let capabilities = world.ok("tree/capabilities", &draft(json!({})))["capabilities"].clone();
    assert_eq!((&capabilities["write"], &capabilities["history"]), (&json!(true), &json!(false)));
}

#[test]
fn pages_of_an_overlay_continue_in_it() {
    let world = World::new();
    let writes = (0..7).map(
        |n| json!({"op": "write", "path": format!("/n{n}"), "text": "needle\n", "attrs": {"tags": ["t"]}}),
    );
    world.ok("batch", &draft(json!({"ops": writes.collect::<Vec<_>>()})));
    for (call, body, whole) in [
        ("tree/list", json!({}), 9),
        ("tree/walk", json!({}), 9),
        ("tree/glob", json!({"pattern": "/n*"}), 7),
        ("tree/find", json!({"tag": "t"}), 7),
    ] {
        let (mut found, mut page) = (Vec::new(), draft(body.clone()));
        page["limit"] = json!(2);
        loop {
            let answer = world.ok(call, &page);
            found.extend(answer["items"].as_array().unwrap().iter().cloned());
            let next = answer["next_cursor"].clone();
            if next.is_null() {
                break;
            }
            // In another tree the same cursor means nothing.
            let mut elsewhere = body.clone();
            (elsewhere["limit"], elsewhere["cursor"]) = (json!(2), next.clone());
            world.post(call, &elsewhere).refused(400, "VALIDATION_ERROR");
            page["cursor"] = next;
        }
        assert_eq!(found.len(), whole, "{call}: {found:?}");
    }
}

#[test]
fn repeats_in_an_overlay_have_one_effect() {
    let append = json!({"append": {"at": {"path": "/a.md"}, "body": {"bytes": "eA=="}}});
    for (call, body) in [
        ("tree/commit", json!({"ops": [append]})),
        ("batch", json!({"ops": [{"op": "append", "path": "/a.md", "text": "x"}]})),
        ("tree/edit", json!({"path": "/a.md", "line": 1, "text": "x"})),
    ] {
        let world = World::new();
        let first = world.send(call, &draft(body.clone()));
        assert_eq!(first.status, 200, "{call}: {}", first.text());
        let text = world.text("draft", "/a.md");
        let same = |reply: Reply| assert_eq!((reply.status, reply.text()), (200, first.text()), "{call}");
        same(world.send(call, &draft(body.clone())));
        assert_eq!(world.text("draft", "/a.md"), text, "{call}");
        // The record is one of the account, so another tree is another request.
        world.send(call, &body).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
        let mut other = body.clone();
        other["overlay"] = json!("all");
        world.send(call, &other).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
        world.ok("admin/overlays/apply", &json!({"id": "draft"}));
        let head = block_on(world.account.head()).unwrap();
        same(world.send(call, &draft(body.clone())));
        world.ok("admin/overlays/discard", &json!({"id": "draft"}));
        world.send(call, &draft(body)).refused(404, "NOT_FOUND");
        assert_eq!(block_on(world.account.read_to_string("/notes/a.md")).unwrap(), text, "{call}");
        assert_eq!(block_on(world.account.head()).unwrap().seq.0, head.seq.0 + 1, "{call}: the discard");
    }
    let world = World::new();
    let put = || world.bytes("PATCH", "fs/a.md?overlay=draft", "idempotency-key: k\r\n", b"more\n");
    let (first, again) = (put(), put());
    assert_eq!((first.status, again.status, again.text()), (200, 200, first.text()));
    assert_eq!(world.text("draft", "/a.md"), "one\nmore\n");
    let upload = || world.bytes("POST", "uploads?overlay=draft", "idempotency-key: u\r\n", b"more\n");
    assert_eq!(upload().text(), upload().text());
}
