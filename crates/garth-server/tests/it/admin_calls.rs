//! Calls of administrators: rules, quotas, overlays, snapshots, and maintenance of the storage. Their effects
//! are compared with those of the library, and with what later writes may do.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_engine::model::Op;
use garth_engine::model::quota::Limits;
use garth_engine::view::overlay::StoredOverlay;
use garth_engine::{AccountStore, FileSystemExt as _, TreePath};
use serde_json::{Value, json};

use super::harness::{Reply, Server};

pub(crate) fn account(server: &Server) -> Arc<dyn AccountStore> {
    block_on(server.home.account("acme")).unwrap()
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

pub(crate) fn write(server: &Server, at: &str, text: &str) -> garth_engine::Result<()> {
    let op = Op::write(path(at), text.to_owned()).with_parents();
    block_on(account(server).commit(op.into())).map(|_| ())
}

pub(crate) fn call(server: &Server, name: &str, body: &Value) -> Value {
    server.ok(&format!("admin/{name}"), body.to_string())
}

pub(crate) fn post(server: &Server, name: &str, body: &Value) -> Reply {
    server.post(&format!("admin/{name}"), body.to_string())
}

fn send(server: &Server, idempotency: &str, name: &str, body: &Value) -> Reply {
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: {idempotency}\r\n", server.key);
    server.request("POST", &format!("/v1/admin/{name}"), &headers, body.to_string().as_bytes())
}

#[test]
fn rule_set_over_http_binds_the_next_write() {
    let server = Server::start();
    write(&server, "/data/bad.json", "no json").unwrap();
    let rule = json!({"pattern": "/data/**", "constraint": "json", "terms": {"schema": {"type": "object"}}});
    let refused = call(&server, "rules/set", &rule);
    assert_eq!((&refused["set"], &refused["has_more"]), (&json!(false), &json!(false)));
    assert_eq!(refused["violations"][0]["path"], "/data/bad.json");
    write(&server, "/data/worse.json", "no json").unwrap();
    let mut forced = rule.clone();
    forced["force"] = json!(true);
    let set = call(&server, "rules/set", &forced);
    assert_eq!((&set["ok"], &set["set"]), (&json!(true), &json!(true)));
    assert_eq!(set["violations"].as_array().unwrap().len(), 2);
    let broken = write(&server, "/data/new.json", "[]").unwrap_err();
    assert_eq!(broken.kind(), garth_engine::ErrorKind::RuleViolation, "{broken}");
    write(&server, "/data/new.json", "{}").unwrap();
    let body = json!({"ops": [{"op": "write", "path": "/data/other.json", "text": "[]"}]});
    server.post("batch", body.to_string()).refused(400, "RULE_VIOLATION");

    let listed = call(&server, "rules/list", &json!({"built_in": false}));
    assert_eq!(
        listed["items"],
        json!([{"pattern": "/data/**", "rule": "json", "terms": {"schema": {"type": "object"}}, "built_in": false}])
    );
    let all = call(&server, "rules/list", &json!({}));
    let rules = block_on(account(&server).rules()).unwrap();
    assert_eq!(all["items"].as_array().unwrap().len(), rules.len());

    let named = json!({"pattern": "/data/**", "constraint": "json"});
    assert_eq!(call(&server, "rules/remove", &named), json!({"ok": true, "removed": true}));
    post(&server, "rules/remove", &named).refused(404, "NOT_FOUND");
    write(&server, "/data/other.json", "[]").unwrap();
}

#[test]
fn rules_reject_wrong_patterns_and_terms() {
    let server = Server::start();
    write(&server, "/logs/a", "x").unwrap();
    for (body, status, code, why) in [
        (json!({"pattern": "/logs", "constraint": "json"}), 400, "VALIDATION_ERROR", "write /logs/**"),
        (json!({"pattern": "/a/**", "constraint": "max-size"}), 400, "VALIDATION_ERROR", "lack `bytes`"),
        (
            json!({"pattern": "/a/**", "constraint": "json", "terms": {"bytes": 1}}),
            400,
            "VALIDATION_ERROR",
            "have no `bytes`",
        ),
        (
            json!({"pattern": "/a/**", "constraint": "json", "terms": [1]}),
            400,
            "VALIDATION_ERROR",
            "an object",
        ),
        (json!({"pattern": "", "constraint": "json"}), 400, "VALIDATION_ERROR", "not a pattern"),
        (json!({"pattern": "/a", "constraint": "none"}), 400, "VALIDATION_ERROR", "\"constraint\" must be"),
        (
            json!({"pattern": "/agents/*/kv/**", "constraint": "json", "force": true}),
            409,
            "PATH_CONFLICT",
            "built in",
        ),
    ] {
        let message = post(&server, "rules/set", &body).refused(status, code);
        assert!(message.contains(why), "{body}: {message}");
    }
    assert_eq!(call(&server, "rules/list", &json!({"built_in": false})), json!({"items": []}));
}

#[test]
fn long_rules_are_listed_in_pages() {
    let server = Server::start();
    let text = "x".repeat(60 << 10);
    for n in 0..80 {
        let terms = json!({"schema": {"title": text}});
        let body = json!({"pattern": format!("/r{n:02}/**"), "constraint": "json", "terms": terms});
        call(&server, "rules/set", &body);
    }
    let (mut patterns, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let reply = post(&server, "rules/list", &json!({"built_in": false, "cursor": cursor}));
        assert!(reply.body.len() < 5 << 20, "{}", reply.body.len());
        let page = reply.json();
        let items = page["items"].as_array().unwrap();
        patterns.extend(items.iter().map(|item| item["pattern"].as_str().unwrap().to_owned()));
        pages += 1;
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(patterns, (0..80).map(|n| format!("/r{n:02}/**")).collect::<Vec<_>>());
    assert!(pages > 1);
}

#[test]
fn quota_set_over_http_limits_the_next_write() {
    let server = Server::start();
    write(&server, "/p/a", "12345").unwrap();
    let quota = call(&server, "quotas/set", &json!({"path": "/p/", "max_bytes": 10}));
    let expected = json!({"path": "/p", "max_bytes": 10, "max_entries": null, "bytes": 5, "entries": 1});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&quota[name], value, "{name}");
    }
    assert_eq!(quota["ok"], true);
    assert_eq!(call(&server, "quotas/list", &json!({})), json!({"items": [expected]}));
    let of_library = block_on(account(&server).quotas()).unwrap();
    assert_eq!((of_library[0].path.as_str(), of_library[0].limits), ("/p", Limits::default().bytes(10)));
    let over = write(&server, "/p/b", "123456").unwrap_err();
    assert_eq!(over.kind(), garth_engine::ErrorKind::QuotaExceeded, "{over}");
    assert_eq!(call(&server, "quotas/remove", &json!({"path": "/p"}))["removed"], true);
    let message = post(&server, "quotas/remove", &json!({"path": "/p"})).refused(404, "NOT_FOUND");
    assert!(message.contains("this path has no quota"), "{message}");
    write(&server, "/p/b", "123456").unwrap();
    for body in [json!({"path": "/p"}), json!({"path": "p", "max_bytes": 1}), json!({"max_bytes": 1})] {
        let reply = post(&server, "quotas/set", &body);
        assert_eq!(reply.status, 400, "{}", reply.text());
    }
}

#[test]
fn retention_is_set_as_a_whole() {
    let server = Server::start();
    let get = || call(&server, "retention/get", &json!({}));
    let mut nothing = json!({"ok": true, "age_seconds": null, "commits": null, "max_stored": null, "content": [],
        "oldest": 0, "oldest_time": null, "folded": 0, "held_by": null, "over_limit": 0,
        "without_file": []});
    let first = get();
    assert_eq!(first["content"].as_array().unwrap().len(), 5, "default classes: {first}");
    let removed = call(&server, "retention/set", &json!({}));
    nothing["version"] = removed["version"].clone();
    assert_eq!(removed, nothing, "they are removed like others");
    let content = json!([{"pattern": "/logs/**", "keep_seconds": 86_400}]);
    let set =
        json!({"age_seconds": 604_800, "commits": 1_000_000, "max_stored": 1_u64 << 40, "content": content});
    let answer = call(&server, "retention/set", &set);
    for (name, value) in set.as_object().unwrap() {
        assert_eq!(&answer[name], value, "{name}");
    }
    assert_eq!(get(), answer);
    let of_library = block_on(account(&server).retention()).unwrap().set;
    assert_eq!(of_library.age, Some(Duration::from_secs(604_800)));
    assert_eq!((of_library.commits, of_library.stored), (Some(1_000_000), Some(1 << 40)));
    assert_eq!(call(&server, "retention/set", &json!({})), nothing, "a limit that is left out is removed");
    let class = |class: Value| json!({"content": [class]});
    for body in [
        json!({"age_seconds": 599}),
        json!({"age_seconds": 9_223_372_037_u64}),
        json!({"commits": 999}),
        class(json!({"pattern": "/a"})),
        class(json!({"pattern": "/[a", "keep_seconds": 1})),
        class(json!({"pattern": "/a", "keep_seconds": -1})),
        json!({"content": [{"pattern": "/a", "keep_seconds": 1}, {"pattern": "a", "keep_seconds": 2}]}),
    ] {
        let reply = post(&server, "retention/set", &body);
        assert_eq!(reply.status, 400, "{body}: {}", reply.text());
    }
}

#[test]
fn retention_of_another_version_is_not_replaced() {
    let server = Server::start();
    let get = || call(&server, "retention/get", &json!({}));
    let first = get()["version"].clone();
    let set = call(&server, "retention/set", &json!({"commits": 5000, "if_version": first}));
    assert_eq!((&set["commits"], set["version"] == first), (&json!(5000), false));
    let stale = json!({"commits": 6000, "if_version": first});
    let message = post(&server, "retention/set", &stale).refused(409, "CONFLICT");
    assert!(message.contains("read them again"), "{message}");
    assert_eq!(get(), set, "nothing is changed");
    // A repeat under the same key is answered, although its version is replaced by then.
    let next = json!({"commits": 6000, "if_version": set["version"]});
    let [replaced, again] = [(); 2].map(|()| send(&server, "next", "retention/set", &next));
    assert_eq!((replaced.status, again.status), (200, 200), "{}", again.text());
    assert_eq!((replaced.text(), &get()["commits"]), (again.text(), &json!(6000)));
    post(&server, "retention/set", &json!({"if_version": 7})).refused(400, "VALIDATION_ERROR");
}

#[test]
fn retention_refuses_class_of_a_directory() {
    let server = Server::start();
    write(&server, "/logs/a", "x").unwrap();
    let with = |pattern: &str| json!({"content": [{"pattern": pattern, "keep_seconds": 0}]});
    let message = post(&server, "retention/set", &with("/logs")).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("write /logs/**"), "{message}");
    call(&server, "retention/set", &with("/logs/**"));
}

#[test]
fn limit_below_the_stored_bytes_is_answered_with_the_excess() {
    let server = Server::start();
    let stored = call(&server, "usage", &json!({}))["stored"].as_u64().unwrap();
    let over = |limit: u64| {
        let answer = call(&server, "retention/set", &json!({"max_stored": limit}));
        assert_eq!(answer["max_stored"], limit, "it is set");
        answer["over_limit"].as_u64().unwrap()
    };
    assert_eq!(over(stored + 10_000_000), 0);
    assert!(over(stored / 2) >= stored / 4);
}

#[test]
fn full_account_refuses_puts_with_quota_exceeded() {
    let server = Server::start();
    let put = |n: u32, bytes: usize| {
        let body = json!({"path": format!("/k{n}"), "value": "x".repeat(bytes)});
        server.post("put", body.to_string())
    };
    assert_eq!(put(0, 1000).status, 200);
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    assert!(server.request("PUT", "/v1/fs/old", &headers, &[b'x'; 1000]).status < 300);
    let stored = call(&server, "usage", &json!({}))["stored"].as_u64().unwrap();
    call(&server, "retention/set", &json!({"max_stored": stored}));
    put(1, 1000).refused(403, "QUOTA_EXCEEDED");
    // Bytes of a file are refused before they are received.
    let file = server.request("PUT", "/v1/fs/long", &headers, &vec![b'x'; 200_000]);
    assert_eq!(file.status, 403, "{}", file.text());
    // An empty file in place of another ends content.
    let emptied = server.request("PUT", "/v1/fs/old", &headers, b"");
    assert!(emptied.status < 300, "{}", emptied.text());
    assert_eq!(server.request("PUT", "/v1/fs/new", &headers, b"").status, 403);
    // Whoever has to make room can do so.
    assert_eq!(server.post("delete", json!({"path": "/k0"}).to_string()).status, 200);
    let raise = json!({"max_stored": stored + 10_000_000});
    assert_eq!(send(&server, "raise", "retention/set", &raise).status, 200);
    assert_eq!(put(1, 1000).status, 200);
    call(&server, "retention/set", &json!({"max_stored": 0}));
    assert_eq!(send(&server, "again", "retention/set", &json!({})).status, 200);
    assert_eq!(put(2, 1000).status, 200);
}

#[test]
fn usage_of_a_missing_directory_names_it() {
    let server = Server::start();
    let message = post(&server, "usage", &json!({"path": "/nope"})).refused(404, "NOT_FOUND");
    assert!(message.starts_with("/nope: "), "{message}");
}

#[test]
fn full_account_is_told_from_a_quota_without_read_scope() {
    let server = Server::start();
    call(&server, "retention/set", &json!({"max_stored": 0}));
    let writer = server.key("acme", &[Scope::FilesWrite]);
    let headers = format!("authorization: Bearer {writer}\r\n");
    let message = server.request("PUT", "/v1/fs/a", &headers, b"x").refused(403, "QUOTA_EXCEEDED");
    assert!(message.contains("limit on stored bytes"), "{message}");
}

#[test]
fn full_account_does_not_grow_with_keys() {
    let server = Server::start();
    let set = |key: &str, limits: &Value| send(&server, key, "retention/set", limits);
    let (full, stored) =
        (json!({"max_stored": 0}), || call(&server, "usage", &json!({}))["stored"].as_u64().unwrap());
    call(&server, "retention/set", &full);
    let before = stored();
    for n in 0..64 {
        let answer = set(&format!("key-{n}"), &full);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let grown = stored().saturating_sub(before);
    assert!(grown < 8192, "64 keys have taken {grown} bytes");
    // The call that makes room is recorded, so that a repeat does not undo what others have set since.
    let (raise, other) =
        (json!({"max_stored": before + 10_000_000}), json!({"max_stored": 0, "commits": 5000}));
    let first = set("raise", &raise);
    assert_eq!(first.status, 200, "{}", first.text());
    call(&server, "retention/set", &other);
    assert_eq!(set("raise", &raise).text(), first.text());
    let now = call(&server, "retention/get", &json!({}));
    assert_eq!((&now["max_stored"], &now["commits"]), (&json!(0), &json!(5000)));
    // The answers of the others were not recorded: a repeat runs again.
    assert_eq!(set("key-0", &full).status, 200);
    assert_eq!(call(&server, "retention/get", &json!({}))["commits"], Value::Null);
}

#[test]
fn usage_lists_the_children_of_a_directory() {
    let server = Server::start();
    write(&server, "/notes/a", &"1".repeat(30_000)).unwrap();
    write(&server, "/notes/a", &"2".repeat(20_000)).unwrap();
    write(&server, "/notes/b/c", "x").unwrap();
    call(&server, "overlays/create", &json!({"id": "draft"}));
    let usage = call(&server, "usage", &json!({}));
    let paths = usage["paths"].as_array().unwrap();
    let names: Vec<&str> = paths.iter().map(|child| child["path"].as_str().unwrap()).collect();
    assert!(names.contains(&"/notes") && !names.contains(&"/.garth"), "{names:?}");
    assert!(usage["overlays"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(
        usage["stored"].as_u64(),
        usage["pages"].as_u64().zip(usage["packs"].as_u64()).map(|(a, b)| a + b)
    );
    let below = call(&server, "usage", &json!({"path": "/notes/"}));
    let sizes = |child: &Value| {
        let thousands = |name: &str| child[name].as_u64().unwrap() / 1000;
        (child["path"].as_str().unwrap().to_owned(), thousands("live"), thousands("history"))
    };
    let paths: Vec<_> = below["paths"].as_array().unwrap().iter().map(sizes).collect();
    assert_eq!(paths, [("/notes/a".to_owned(), 20, 30), ("/notes/b".to_owned(), 0, 0)]);
    post(&server, "usage", &json!({"path": "/none"})).refused(404, "NOT_FOUND");
    post(&server, "usage", &json!({"path": "/.garth"})).refused(404, "NOT_FOUND");
}

#[test]
fn refused_put_names_the_quota() {
    let server = Server::start();
    call(&server, "quotas/set", &json!({"path": "/agents/default", "max_bytes": 10}));
    let put = json!({"path": "/long", "value": "x".repeat(100)}).to_string();
    let message = server.post("put", put).refused(403, "QUOTA_EXCEEDED");
    assert!(message.starts_with("/agents/default: the quota of 10 bytes"), "{message}");
}

#[test]
fn overlay_is_created_changed_applied_and_discarded() {
    let server = Server::start();
    write(&server, "/notes/a", "one").unwrap();
    write(&server, "/notes/gone", "x").unwrap();
    let created = call(&server, "overlays/create", &json!({"id": "draft", "path": "/notes"}));
    assert_eq!(
        (&created["id"], &created["path"], &created["as_of"]),
        (&json!("draft"), &json!("/notes"), &json!(null))
    );
    assert_eq!(created["seq"], block_on(account(&server).head()).unwrap().seq.0);
    post(&server, "overlays/create", &json!({"id": "draft"})).refused(409, "PATH_CONFLICT");
    post(&server, "overlays/create", &json!({"id": "a/b"})).refused(400, "VALIDATION_ERROR");
    post(&server, "overlays/create", &json!({"id": "none", "path": "/none"})).refused(404, "NOT_FOUND");
    let hidden = post(&server, "overlays/create", &json!({"id": "system", "path": "/.garth"}));
    assert!((400..500).contains(&hidden.status), "{}", hidden.text());
    assert_eq!(
        call(&server, "overlays/list", &json!({})),
        json!({"items": [{"id": "draft", "path": "/notes", "as_of": null}]})
    );

    let tree = account(&server);
    let stored = block_on(StoredOverlay::open(&*tree, "draft")).unwrap().tree();
    block_on(stored.write("/a", "two")).unwrap();
    block_on(stored.write("/new", "n")).unwrap();
    block_on(stored.apply(Op::remove(path("/gone")))).unwrap();
    assert_eq!(
        call(&server, "overlays/diff", &json!({"id": "draft"}))["items"],
        json!([
            {"path": "/a", "change": "modified", "kind": "file"},
            {"path": "/gone", "change": "removed", "kind": "file"},
            {"path": "/new", "change": "added", "kind": "file"},
        ])
    );
    write(&server, "/notes/a", "other").unwrap();
    let message = post(&server, "overlays/apply", &json!({"id": "draft"})).refused(409, "CONFLICT");
    assert!(message.contains("\"side\"") && message.contains("/a"), "{message}");
    let applied =
        call(&server, "overlays/apply", &json!({"id": "draft", "side": "ours", "message": "reviewed"}));
    assert_eq!((&applied["changed"], &applied["has_more"]), (&json!(3), &json!(false)));
    assert_eq!(applied["conflicts"].as_array().unwrap().len(), 1);
    assert_eq!(applied["seq"], block_on(tree.head()).unwrap().seq.0);
    assert_eq!(block_on(tree.read_to_string("/notes/a")).unwrap(), "two");
    assert!(block_on(tree.lookup("/notes/gone")).unwrap().is_none());
    assert_eq!(call(&server, "overlays/diff", &json!({"id": "draft"})), json!({"items": []}));
    let nothing = call(&server, "overlays/apply", &json!({"id": "draft"}));
    assert_eq!((&nothing["seq"], &nothing["changed"]), (&json!(null), &json!(0)));

    assert_eq!(call(&server, "overlays/discard", &json!({"id": "draft"}))["id"], "draft");
    for name in ["overlays/diff", "overlays/apply", "overlays/discard"] {
        post(&server, name, &json!({"id": "draft"})).refused(404, "NOT_FOUND");
    }
}

#[test]
fn apply_keeps_what_rules_reserve_for_garth() {
    let server = Server::start();
    server.own("coder", "ann");
    server.ok("sessions/create", json!({"agent": "coder", "user": "ann", "name": "work"}).to_string());
    let tree = account(&server);
    let dir = "/users/ann/agents/coder/session";
    let event = json!({
        "id": "ev-1", "run": "r", "type": "message.withdrawn", "created_at": "2026-01-27T09:30:00Z",
        "source": "messages:1-1",
    });
    let retraction = format!("{event}\n");
    let drafts = [
        ("changed", format!("{dir}/work/meta.json"), "{}"),
        ("created", format!("{dir}/other/meta.json"), "{}"),
        ("event", format!("{dir}/other/events.jsonl"), &retraction),
    ];
    for (id, file, text) in drafts {
        call(&server, "overlays/create", &json!({"id": id}));
        let draft = block_on(StoredOverlay::open(&*tree, id)).unwrap().tree();
        block_on(draft.commit(Op::write(path(&file), text.to_owned()).with_parents().into())).unwrap();
        let before = block_on(tree.head()).unwrap().seq;
        for side in ["ours", "theirs"] {
            let refused = post(&server, "overlays/apply", &json!({"id": id, "side": side}));
            let message = refused.refused(400, "RULE_VIOLATION");
            assert!(message.starts_with(&format!("{file}: ")), "{message}");
        }
        assert_eq!(block_on(tree.head()).unwrap().seq, before, "{id}");
        // The draft is kept.
        let changed = call(&server, "overlays/diff", &json!({"id": id}));
        assert!(changed.to_string().contains(&file), "{changed}");
        call(&server, "overlays/discard", &json!({"id": id}));
    }
}

#[test]
fn pages_of_overlay_changes_continue_after_long_paths() {
    let server = Server::start();
    call(&server, "overlays/create", &json!({"id": "draft"}));
    let draft = block_on(StoredOverlay::open(&*account(&server), "draft")).unwrap().tree();
    let deep = |name: &str| format!("/{name}{}", format!("/{}", "d".repeat(200)).repeat(11));
    let ops = [
        Op::mkdir(path(&deep("one"))).with_parents(),
        Op::mkdir(path(&deep("two"))).with_parents(),
        Op::rename(path("/two"), path(&format!("{}/two", deep("one")))),
    ];
    for op in ops {
        block_on(draft.commit(op.into())).unwrap();
    }
    let (mut paths, mut body) = (Vec::new(), json!({"id": "draft", "limit": 1}));
    loop {
        let page = call(&server, "overlays/diff", &body);
        paths.extend(page["items"].as_array().unwrap().iter().map(|item| item["path"].clone()));
        if page.get("has_more").is_none() {
            break;
        }
        body["cursor"] = page["next_cursor"].clone();
    }
    assert_eq!(paths.len(), 24);
    assert!(paths.last().unwrap().as_str().unwrap().len() > 4096);
}

#[test]
fn fork_shows_a_snapshot() {
    let server = Server::start();
    write(&server, "/a", "one").unwrap();
    let made = call(&server, "snapshots/create", &json!({"name": "before"}));
    write(&server, "/a", "two").unwrap();
    let fork = call(&server, "overlays/create", &json!({"id": "fork", "at": "before"}));
    assert_eq!(fork["as_of"], made["seq"]);
    let tree = block_on(StoredOverlay::open(&*account(&server), "fork")).unwrap().tree();
    assert_eq!(block_on(tree.read_to_string("/a")).unwrap(), "one");
}

#[test]
fn class_without_a_file_is_named() {
    let server = Server::start();
    let limits = json!({"content": [{"pattern": "/cache", "keep_seconds": 0}]});
    assert_eq!(call(&server, "retention/set", &limits)["without_file"], json!(["/cache"]));
}

#[test]
fn maintenance_reports_as_the_library_does() {
    let server = Server::start();
    write(&server, "/a", "some text to find").unwrap();
    let tree = account(&server);
    let check = call(&server, "accounts/check", &json!({}));
    let found = block_on(tree.fsck()).unwrap();
    for (name, value) in serde_json::to_value(&found).unwrap().as_object().unwrap() {
        assert_eq!(&check[name], value, "{name}");
    }
    assert_eq!(
        (&check["ok"], &check["account"], &check["has_more"]),
        (&json!(true), &json!("acme"), &json!(false))
    );
    let indexed = call(&server, "accounts/reindex", &json!({}));
    assert_eq!(indexed["files"], block_on(tree.reindex()).unwrap());

    let upload = block_on(async {
        let mut upload = tree.stage(&garth_engine::model::At::Path(path("/up"))).await.unwrap();
        upload.write("x".repeat(10_000).into()).await.unwrap();
        upload.finish().await.unwrap()
    });
    assert_eq!(upload.size, 10_000);
    server.clock.advance(Duration::from_secs(8 * 86_400));
    let grace = Duration::from_secs(600);
    let expected = block_on(tree.gc_dry_run(grace)).unwrap();
    let dry = call(&server, "accounts/collect", &json!({"dry": true}));
    for (name, value) in serde_json::to_value(expected).unwrap().as_object().unwrap() {
        assert_eq!(&dry[name], value, "{name}");
    }
    assert_eq!((&dry["dry_run"], &dry["staged"]), (&json!(true), &json!(1)));
    let done = call(&server, "accounts/collect", &json!({}));
    assert_eq!((&done["dry_run"], &done["staged"]), (&json!(false), &json!(1)));
    assert_eq!(call(&server, "accounts/collect", &json!({}))["staged"], 0);
    for grace in [0, 119, u64::MAX] {
        post(&server, "accounts/collect", &json!({"grace_seconds": grace})).refused(400, "VALIDATION_ERROR");
    }
}

#[test]
fn collection_removes_unused_uploads_after_its_grace() {
    let server = Server::start();
    let upload = || {
        let headers = format!("authorization: Bearer {}\r\n", server.key);
        server.request("POST", "/v1/uploads", &headers, b"text").json()["staged"].clone()
    };
    let collect = |body: Value| call(&server, "accounts/collect", &body)["staged"].clone();
    let use_it = |staged: &Value| {
        let op = json!({"op": "write", "path": "/a", "staged": staged});
        server.post("batch", json!({"ops": [op]}).to_string()).status
    };
    let old = upload();
    server.clock.advance(Duration::from_secs(200));
    let new = upload();
    server.clock.advance(Duration::from_secs(100));
    assert_eq!((collect(json!({})), collect(json!({"grace_seconds": 301}))), (json!(0), json!(0)));
    assert_eq!(collect(json!({"grace_seconds": 300, "dry": true})), 1);
    assert_eq!(collect(json!({"grace_seconds": 300})), 1);
    assert_eq!((use_it(&old), use_it(&new)), (404, 200));
    assert_eq!(collect(json!({"grace_seconds": 120})), 0);
}

#[test]
fn repeated_call_of_an_administrator_runs_once() {
    let server = Server::start();
    write(&server, "/notes/a", "one").unwrap();
    let rule = json!({"pattern": "/notes/**", "constraint": "max-size", "terms": {"bytes": 1}});
    // A refused rule leaves no record: the files may be repaired in between.
    assert_eq!(send(&server, "rule", "rules/set", &rule).json()["set"], false);
    write(&server, "/notes/a", "1").unwrap();
    let set = send(&server, "rule", "rules/set", &rule);
    assert_eq!(set.json()["set"], true);
    let calls = [
        ("rules/remove", json!({"pattern": "/notes/**", "constraint": "max-size"})),
        ("quotas/set", json!({"path": "/notes", "max_entries": 5})),
        ("quotas/remove", json!({"path": "/notes"})),
        ("retention/set", json!({"commits": 1_000_000})),
        ("overlays/create", json!({"id": "draft", "path": "/notes"})),
        ("overlays/apply", json!({"id": "draft"})),
        ("overlays/discard", json!({"id": "draft"})),
        ("snapshots/create", json!({"name": "s"})),
        ("snapshots/remove", json!({"name": "s"})),
    ];
    let first: Vec<Reply> =
        calls.iter().map(|(name, body)| send(&server, &name.replace('/', "-"), name, body)).collect();
    let head = block_on(account(&server).head()).unwrap().seq;
    for ((name, body), first) in calls.iter().zip(&first) {
        assert_eq!(first.status, 200, "{name}: {}", first.text());
        let again = send(&server, &name.replace('/', "-"), name, body);
        assert_eq!((again.status, again.text()), (200, first.text()), "{name}");
    }
    assert_eq!(send(&server, "rule", "rules/set", &rule).text(), set.text());
    assert_eq!(block_on(account(&server).head()).unwrap().seq, head);
    assert_eq!(
        call(&server, "rules/list", &json!({"built_in": false})),
        json!({"items": []}),
        "not set again"
    );
}

#[test]
fn only_keys_with_admin_reach_these_calls() {
    let server = Server::start();
    let all_others =
        [Scope::MemoryRead, Scope::MemoryWrite, Scope::SearchRead, Scope::FilesRead, Scope::FilesWrite];
    let key = server.key("acme", &all_others);
    for call in garth_server::reference::calls().iter().filter(|call| call.path.starts_with("/v1/admin/")) {
        let name = call.path.trim_start_matches("/v1/");
        let message = server.post_as(&key, name, "{}").refused(403, "FORBIDDEN");
        assert!(message.contains("`admin`"), "{name}: {message}");
    }
}

#[test]
fn calls_of_an_administrator_stay_in_the_account() {
    let server = Server::start();
    block_on(server.home.create_account("other")).unwrap();
    let other = server.key("other", &[Scope::Admin]);
    call(&server, "snapshots/create", &json!({"name": "s"}));
    call(&server, "overlays/create", &json!({"id": "draft"}));
    call(&server, "quotas/set", &json!({"path": "/", "max_entries": 100}));
    call(&server, "rules/set", &json!({"pattern": "/a/**", "constraint": "append-only"}));
    for (name, body) in [
        ("admin/snapshots/list", "{}"),
        ("admin/overlays/list", "{}"),
        ("admin/quotas/list", "{}"),
        ("admin/rules/list", r#"{"built_in":false}"#),
    ] {
        assert_eq!(server.post_as(&other, name, body).json(), json!({"items": []}), "{name}");
    }
    for (name, body) in
        [("admin/overlays/apply", r#"{"id":"draft"}"#), ("admin/snapshots/remove", r#"{"name":"s"}"#)]
    {
        server.post_as(&other, name, body).refused(404, "NOT_FOUND");
    }
    for call in garth_server::reference::calls().iter().filter(|call| call.path.starts_with("/v1/admin/")) {
        // It names no account: a key of an account sees its own one there.
        if call.path == "/v1/admin/accounts/list" {
            continue;
        }
        // Each call has the fields that it requires, so that the account alone is at fault.
        let mut body = json!({"account": "acme"});
        for field in call.fields.iter().filter(|field| field.required) {
            body[field.name] = field.words.first().map_or_else(|| json!("/a"), |word| json!(word));
        }
        let name = call.path.trim_start_matches("/v1/");
        let reply = server.post_as(&other, name, body.to_string());
        assert_eq!(reply.status, 403, "{name} {body}: {}", reply.text());
    }
}
