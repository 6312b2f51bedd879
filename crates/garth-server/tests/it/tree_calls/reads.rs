//! Reads of the present and of the past, their addresses and their refusals.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::executor::block_on;
use garth_engine::model::{
    At, Batch, ByteRange, ChangesQuery, FindQuery, HistoryPage, Moment, NamesPage, Op, Page, SearchQuery,
    Seq, SnapshotsPage, WalkPage,
};
use garth_engine::{ErrorKind, FileSystem};
use serde_json::{Value, json};

use super::{World, at, path, with};
use crate::it::harness::{Connection, request};

/// States in which each read is compared.
const STATES: [Option<&str>; 3] = [None, Some("before"), Some("2")];

impl World {
    /// Returns the tree in a state.
    fn state(&self, moment: Option<&str>) -> Arc<dyn FileSystem> {
        let moment = match moment {
            None => return Arc::clone(&self.fs),
            Some("2") => Moment::Seq(Seq(2)),
            Some(name) => Moment::Snapshot(name.to_owned()),
        };
        block_on(self.fs.as_of(&moment)).unwrap()
    }
}

#[test]
fn reads_of_nodes_equal_those_of_the_library() {
    let world = World::new();
    for moment in STATES {
        let (fs, root) = (world.state(moment), path("/"));
        assert_eq!(world.ok("head", &at(moment, json!({}))), json!(block_on(fs.head()).unwrap()));
        let able = world.ok("capabilities", &at(moment, json!({})));
        assert_eq!(able["capabilities"], json!(fs.capabilities(&root)));
        assert_eq!(able["capabilities"]["write"], json!(moment.is_none()));
        for text in ["/", "/notes", "/notes/a.md", "/bin"] {
            let entry = block_on(fs.stat(&path(text).into())).unwrap();
            let found = world.ok("stat", &at(moment, json!({"path": text})));
            assert_eq!(found, json!({"path": text, "entry": entry}), "{moment:?}");
        }
        for (call, paged) in [
            (
                "names",
                json!(block_on(fs.names(&path("/notes/a.md").into(), &NamesPage::default())).unwrap().items),
            ),
            (
                "history",
                json!(
                    block_on(fs.history(&path("/notes/a.md").into(), &HistoryPage::default())).unwrap().items
                ),
            ),
        ] {
            let found = world.ok(call, &at(moment, json!({"path": "/notes/a.md"})));
            assert_eq!(found, json!({"items": paged}), "{call} {moment:?}");
        }
        let entries = Page::default().with_entries();
        let listed = block_on(fs.list(&path("/notes").into(), &entries)).unwrap().items;
        let found = world.ok("list", &at(moment, json!({"path": "/notes", "entries": true})));
        assert_eq!(found, json!({"items": listed}), "{moment:?}");
        let walked = block_on(fs.walk(&root.into(), &WalkPage::default())).unwrap().items;
        assert_eq!(world.ok("walk", &at(moment, json!({}))), json!({"items": walked}), "{moment:?}");
        let snapshots = block_on(fs.snapshots(&SnapshotsPage::default())).unwrap().items;
        assert_eq!(world.ok("snapshots", &at(moment, json!({}))), json!({"items": snapshots}));
    }
}

#[test]
fn content_and_log_equal_those_of_the_library() {
    let world = World::new();
    for moment in STATES {
        let fs = world.state(moment);
        let file: At = path("/notes/a.md").into();
        for (offset, length) in [(0, 1000), (4, 3), (100, 1)] {
            let range = ByteRange { offset, length };
            let (entry, bytes) = block_on(fs.fetch(&file, range)).unwrap();
            let asked = json!({"path": "/notes/a.md", "offset": offset, "length": length});
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(world.ok("fetch", &at(moment, asked)), json!({"entry": entry, "text": text}));
        }
        let bin = world.ok("fetch", &at(moment, json!({"path": "/bin"})));
        assert_eq!(STANDARD.decode(bin["base64"].as_str().unwrap()).unwrap(), b"\xff\x00\xfe");
        let asked =
            json!([{"path": "/notes/a.md", "length": 3}, {"path": "/none"}, {"node": world.ino("/bin")}]);
        let many = world.ok("fetch-many", &at(moment, json!({"items": asked})));
        let (entry, _) = block_on(fs.fetch(&file, ByteRange::ALL)).unwrap();
        assert_eq!(many["items"][0], json!({"entry": entry, "text": "one"}));
        assert_eq!(
            (&many["items"][1]["error"]["code"], &many["items"][2]["base64"]),
            (&json!("NOT_FOUND"), &json!("/wD+"))
        );
        assert_eq!(many["seq"], json!(block_on(fs.head()).unwrap().seq));
        let blame = block_on(fs.blame(&file, ByteRange { offset: 2, length: 100 }, 1000)).unwrap();
        let found =
            world.ok("blame", &at(moment, json!({"path": "/notes/a.md", "offset": 2, "length": 100})));
        assert_eq!(found, json!({"runs": blame.runs, "commits": blame.commits}), "{moment:?}");
        let changes = block_on(fs.changes(&ChangesQuery::since(Seq(1)).within(path("/notes")))).unwrap();
        let found = world.ok("changes", &at(moment, json!({"since": 1, "within": ["/notes"]})));
        let due =
            json!({"commits": changes.commits, "until": {"seq": changes.until.seq}, "head": changes.head});
        assert_eq!(found, due, "{moment:?}");
    }
}

#[test]
fn searches_equal_those_of_the_library() {
    let world = World::new();
    let query = SearchQuery::new("three four").tag("plan").within(path("/notes")).context(1).per_file(2);
    let found = block_on(world.fs.search(&query)).unwrap();
    assert!(!found.hits.is_empty());
    let asked =
        json!({"query": "three four", "tags_any": ["plan"], "in": ["/notes"], "context": 1, "per_file": 2});
    assert_eq!(world.ok("search", &asked), json!({"hits": found.hits, "missing": found.missing}));
    let of_metadata = json!({"query": "four", "metadata": {"due": "2026-03"}});
    assert_eq!(world.ok("search", &of_metadata)["hits"][0]["path"], "/notes/d.md");
    for (query, asked) in [
        (FindQuery::tag("plan"), json!({"tag": "plan"})),
        (FindQuery::tag("plan").within(path("/again.md")), json!({"tag": "plan", "in": ["/again.md"]})),
        (FindQuery::metadata("due", "2026-03"), json!({"metadata_key": "due", "value": "2026-03"})),
        (FindQuery::metadata_from("due", ""), json!({"metadata_key": "due"})),
        (FindQuery::metadata_from("due", "2026-03"), json!({"metadata_key": "due", "from": "2026-03"})),
    ] {
        let found = block_on(world.fs.find(&query)).unwrap();
        assert!(!found.items.is_empty(), "{asked}");
        assert_eq!(world.ok("find", &asked), json!({"items": found.items}), "{asked}");
    }
}

#[test]
fn past_is_read_and_not_searched() {
    let world = World::new();
    // The library searches and finds the newest state alone, so the calls take no other one.
    let past = block_on(world.fs.as_of(&Moment::Snapshot("before".to_owned()))).unwrap();
    let searched = block_on(past.search(&SearchQuery::new("six"))).unwrap_err();
    let found = block_on(past.find(&FindQuery::tag("old"))).unwrap_err();
    assert!(searched.is(ErrorKind::Unsupported) && found.is(ErrorKind::Unsupported), "{searched}, {found}");
    let abilities = world.ok("capabilities", &json!({"at": "before"}))["capabilities"].clone();
    assert_eq!((&abilities["search"], &abilities["find"]), (&json!(false), &json!(false)));
    for (call, body) in [("search", json!({"query": "six"})), ("find", json!({"tag": "old"}))] {
        let message =
            world.post(call, &with(&body, json!({"at": "before"}))).refused(400, "VALIDATION_ERROR");
        assert!(message.contains("\"at\" is not a field of this call"), "{message}");
    }
    // Other calls read what has gone since.
    let lines = world.ok("grep", &json!({"expressions": ["six"], "at": "before"}));
    assert_eq!(lines["files"][0]["path"], "/notes/sub/c.md");
    let walk = world.ok("walk", &json!({"path": "/notes", "entries": true, "at": "before"}));
    assert_eq!(walk["items"][0]["entry"]["attributes"]["tags"], json!(["plan", "old"]));
}

#[test]
fn nodes_are_addressed_by_path_inode_or_child() {
    let world = World::new();
    let (file, dir) = (world.ino("/notes/a.md"), world.ino("/notes"));
    let entry = world.ok("stat", &json!({"path": "/notes/a.md"}))["entry"].clone();
    let by_node = world.ok("stat", &json!({"node": file}));
    assert_eq!(by_node, json!({"entry": entry}));
    assert_eq!(world.ok("stat", &json!({"child": [dir, "a.md"]})), by_node);
    for (link, target) in [("/link", "/notes/a.md"), ("/dir/a.md", "/notes/a.md"), ("/dir", "/notes")] {
        let found = world.ok("stat", &json!({"path": link}));
        assert_eq!(found["path"], json!(target));
    }
    let itself = world.ok("stat", &json!({"path": "/link", "follow": false}));
    assert_eq!((&itself["path"], &itself["entry"]["kind"]), (&json!("/link"), &json!("symlink")));
    world.post("stat", &json!({"path": "/dir/a.md", "follow": false})).refused(409, "PATH_CONFLICT");
    assert_eq!(world.ok("fetch", &json!({"path": "/link"}))["text"], "one\n2\nthree\nfour\n");
    assert_eq!(world.ok("list", &json!({"path": "/dir"})), world.ok("list", &json!({"node": dir})));
    for two in [json!({"path": "/", "node": 1}), json!({"node": 1, "child": [1, "notes"]})] {
        let message = world.post("stat", &two).refused(400, "VALIDATION_ERROR");
        assert!(message.contains("only one of"), "{message}");
    }
    for child in [json!("notes"), json!([1]), json!([1, "a/b"]), json!([1, ".."]), json!({"a": 1})] {
        let message = world.post("stat", &json!({"child": child})).refused(400, "VALIDATION_ERROR");
        assert!(message.starts_with("\"child\" must be"), "{message}");
    }
}

#[test]
fn missing_nodes_are_not_found() {
    let world = World::new();
    for call in ["stat", "names", "list", "walk", "fetch", "history", "blame", "grep"] {
        let asked = |body: Value| match call {
            "grep" => with(&body, json!({"expressions": ["x"]})),
            _ => body,
        };
        world.post(call, &asked(json!({"path": "/none"}))).refused(404, "NOT_FOUND");
        let late = json!({"path": "/again.md", "at": "before"});
        world.post(call, &asked(late)).refused(404, "NOT_FOUND");
        world.post(call, &asked(json!({"at": "no such snapshot"}))).refused(404, "NOT_FOUND");
        world.post(call, &asked(json!({"at": "1000"}))).refused(404, "NOT_FOUND");
        for bad in ["notes", "/notes/../bin", "//notes", "/a\0"] {
            if call != "grep" {
                let reply = world.post(call, &json!({"path": bad}));
                assert_eq!(reply.status, 400, "{call} {bad:?}: {}", reply.text());
            }
        }
    }
    world.post("stat", &json!({"node": 1_000_000})).refused(404, "NOT_FOUND");
    world.post("list", &json!({"path": "/bin"})).refused(409, "PATH_CONFLICT");
    world.post("fetch", &json!({"path": "/notes"})).refused(409, "PATH_CONFLICT");
    world.post("edit", &json!({"path": "/none", "old": "a", "new": "b"})).refused(404, "NOT_FOUND");
    world.post("diff", &json!({"path": "/none", "other": "/none"})).refused(404, "NOT_FOUND");
    let message = world.post("diff", &json!({"path": "/notes"})).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("give \"from\", \"to\" or \"other\""), "{message}");
    assert_eq!(world.ok("glob", &json!({"pattern": "/none/*"}))["items"], json!([]));
}

#[test]
fn unwritten_chat_reads_as_empty() {
    let world = World::empty();
    world.server.own("scout", "ann");
    let binding = json!({"agent": "scout", "user": "ann"});
    let key = world.server.bound_key(&binding);
    let send =
        |call: &str, body: &Value| world.server.post_as(&key, &format!("tree/{call}"), body.to_string());
    let ok = |call: &str, body: &Value| {
        let reply = send(call, body);
        assert_eq!(reply.status, 200, "{call} {body}: {}", reply.text());
        reply.json()
    };
    let root = ok("stat", &json!({}))["entry"].clone();
    assert_eq!((&root["kind"], &root["ino"]), (&json!("directory"), &json!(1)));
    let before = block_on(world.fs.head()).unwrap().seq;
    for asked in [json!({}), json!({"chat": "new"}), json!({"at": "0"}), json!({"node": 1, "chat": "new"})] {
        assert_eq!(ok("stat", &asked)["entry"], root, "{asked}");
        assert_eq!(ok("names", &asked)["items"], json!(["/"]), "{asked}");
        // Other parts of the tree are shown.
        for (call, field, above) in [("list", "name", ""), ("walk", "path", "/")] {
            let items = ok(call, &asked)["items"].clone();
            let first = items.as_array().unwrap().iter().take(3).map(|item| item[field].clone());
            let tops = [".agent", ".user", "ctx"].map(|name| json!(format!("{above}{name}")));
            assert_eq!(first.collect::<Vec<_>>(), tops, "{call} {asked}");
        }
        send("history", &asked).refused(404, "NOT_FOUND");
        send("fetch", &asked).refused(409, "PATH_CONFLICT");
    }
    let lines = json!({"expressions": ["owner"]});
    assert_eq!(ok("grep", &lines)["files"][0]["path"], "/.agent/settings.json");
    assert_eq!(ok("grep", &with(&lines, json!({"at": "0"})))["files"], json!([]));
    assert_eq!(ok("glob", &json!({"pattern": "/*"}))["items"].as_array().unwrap().len(), 3);
    let since = json!({"path": "/", "from": before.to_string()});
    assert_eq!(ok("diff", &since)["items"], json!([]));
    assert_eq!(ok("find", &json!({"tag": "x"}))["items"], json!([]));
    assert_eq!(ok("wait", &json!({"since": 0, "wait_ms": 0}))["seq"], json!(before));
    let headers = format!("authorization: Bearer {key}\r\n");
    let message = world.server.request("GET", "/v1/fs/", &headers, b"").refused(409, "PATH_CONFLICT");
    assert!(message.contains("tree/list"), "{message}");
    world.server.request("DELETE", "/v1/fs/?recursive=true", &headers, b"").refused(404, "NOT_FOUND");
    // A key that is bound to a path sees no root, whether the chat exists or not.
    let narrow = world.server.bound_key(&with(&binding, json!({"prefix": "/.agent/kv"})));
    world.server.post_as(&narrow, "tree/list", "{}").refused(404, "NOT_FOUND");
    assert_eq!(block_on(world.fs.head()).unwrap().seq, before, "reads create nothing");
    // A write creates the chat before its conditions are judged.
    let write = json!({"write": {"at": {"path": "/f"}, "body": {"bytes": ""}}});
    let missing = json!({"preconditions": [[{"path": "/"}, "absent"]], "ops": [write]});
    send("commit", &missing).refused(409, "CONFLICT");
    ok("commit", &json!({"preconditions": [[{"path": "/"}, "exists"]], "ops": [write]}));
    assert_ne!(ok("stat", &json!({}))["entry"]["version"], root["version"]);
    assert_eq!(ok("stat", &json!({"at": before.to_string()}))["entry"], root);
    let others = world.server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    world.server.post_as(&others, "tree/list", r#"{"chat":"ann"}"#).refused(403, "FORBIDDEN");
}

#[test]
fn garths_own_directory_is_not_shown() {
    let world = World::new();
    let account = block_on(world.server.home.account("acme")).unwrap();
    block_on(account.raw().commit(Batch::new([Op::mkdir_all(path("/.garth"))]))).unwrap();
    world.post("stat", &json!({"path": "/.garth"})).refused(404, "NOT_FOUND");
    assert!(!world.ok("walk", &json!({})).to_string().contains(".garth"));
    let write = json!({"write": {"at": {"path": "/.garth/x"}, "body": {"bytes": ""}, "parents": true}});
    world.post("commit", &json!({"ops": [write]})).refused(403, "FORBIDDEN");
}

#[test]
fn fetch_many_ends_when_answer_is_full() {
    let world = World::empty();
    for n in 0..6 {
        world.commit([Op::write(path(&format!("/{n}")), vec![b'x'; 1 << 20])]);
    }
    let items: Vec<Value> = (0..6).map(|n| json!({"path": format!("/{n}"), "length": 1 << 20})).collect();
    let first = world.ok("fetch-many", &json!({"items": items}));
    let count = first["items"].as_array().unwrap().len();
    assert_eq!(count, 3, "a fourth would exceed 4 MiB");
    let rest = world.ok("fetch-many", &json!({"items": items[count..], "at": first["seq"]}));
    assert_eq!(rest["items"].as_array().unwrap().len(), 3);
    let long = json!({"items": [{"path": "/0", "length": (4 << 20) + 1}]});
    world.post("fetch-many", &long).refused(400, "VALIDATION_ERROR");
    let many: Vec<Value> = (0..1001).map(|_| json!({"path": "/0", "length": 0})).collect();
    world.post("fetch-many", &json!({"items": many})).refused(400, "VALIDATION_ERROR");
    let wrong = json!({"items": [{"path": "/0", "lenght": 1}]});
    assert!(world.post("fetch-many", &wrong).refused(400, "VALIDATION_ERROR").contains("lenght"));
}

#[test]
fn waiting_calls_hold_neither_threads_nor_room() {
    let world = World::new();
    let head = block_on(world.fs.head()).unwrap().seq.0;
    assert_eq!(world.ok("wait", &json!({"since": head, "wait_ms": 0}))["seq"], json!(head));
    assert_eq!(world.ok("wait", &json!({"since": 0, "wait_ms": 30_000}))["seq"], json!(head));
    let body = json!({"since": head, "wait_ms": 30_000}).to_string();
    let headers = format!("authorization: Bearer {}\r\n", world.server.key);
    let mut waiting: Vec<Connection> = (0..64)
        .map(|_| {
            let mut connection = Connection::open(world.server.address);
            connection.send(&request("POST", "/v1/tree/wait", &headers, body.as_bytes()));
            connection
        })
        .collect();
    // More than there are threads, and than long answers have room.
    for _ in 0..10 {
        world.ok("walk", &json!({"entries": true}));
    }
    let seq = world.commit([Op::mkdir(path("/more"))]).seq.0;
    for connection in &mut waiting {
        let reply = connection.reply();
        assert_eq!((reply.status, &reply.json()["seq"]), (200, &json!(seq)), "{}", reply.text());
    }
    let padded = format!("{body}{}", " ".repeat(4096));
    world.server.post("tree/wait", padded).refused(413, "PAYLOAD_TOO_LARGE");
}

#[test]
fn wrong_paths_have_one_code_and_name_their_field() {
    let world = World::new();
    let long = format!("/{}", "n".repeat(300));
    for wrong in ["notes", "/a\0", &long] {
        for (call, body, field) in [
            ("stat", json!({"path": wrong}), "path"),
            ("fetch", json!({"path": wrong}), "path"),
            ("capabilities", json!({"path": wrong}), "path"),
            ("search", json!({"query": "a", "in": ["/", wrong]}), "in[1]"),
            ("find", json!({"tag": "a", "in": [wrong]}), "in[0]"),
            ("changes", json!({"within": [wrong]}), "within[0]"),
            // These resolve paths as a shell does.
            ("du", json!({"path": wrong}), "path"),
            ("grep", json!({"expressions": ["a"], "path": wrong}), "path"),
            ("diff", json!({"path": "/", "other": wrong}), "other"),
            ("edit", json!({"path": wrong, "old": "a", "new": "b"}), "path"),
            ("restore", json!({"path": wrong, "at": "before"}), "path"),
        ] {
            let message = world.post(call, &body).refused(400, "INVALID_PATH");
            assert!(message.starts_with(&format!("\"{field}\": ")), "{call}: {message}");
        }
    }
    let many = world.post("fetch-many", &json!({"items": [{"path": "a"}]}));
    assert_eq!(many.refused(400, "INVALID_PATH"), "\"items[0]\": \"path\": a path starts with `/`");
}

#[test]
fn refusals_name_the_field_with_a_wrong_value() {
    let world = World::new();
    let missing = world.post("stat", &json!({"node": 9999})).refused(404, "NOT_FOUND");
    assert_eq!(missing, "\"node\": no such node");
    let edit = |more: Value| with(&json!({"path": "/notes/a.md"}), more);
    for (call, body, start) in [
        ("edit", edit(json!({"old": "", "new": "b"})), "\"old\" must be a string that is not empty"),
        ("edit", edit(json!({"line": 1, "text": ""})), "\"text\" must be a string that is not empty"),
        ("edit", edit(json!({"old": "a", "new": "b", "if_version": "7"})), "\"if_version\": not a version"),
        ("restore", edit(json!({"at": "before", "if_version": "7"})), "\"if_version\": not a version"),
        ("committed", json!({"id": "7"}), "\"id\": the id of a commit has 32"),
    ] {
        let message = world.post(call, &body).refused(400, "VALIDATION_ERROR");
        assert!(message.starts_with(start), "{call}: {message}");
    }
}
