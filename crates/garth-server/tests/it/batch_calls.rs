//! `POST /v1/batch`: the operations of `garth batch` over HTTP, compared with the same batch of the library.

use std::sync::Arc;

use futures::executor::block_on;
use garth_agent::files::{BatchLine, BatchRequest, ContentForm, Files};
use garth_engine::datadir::Scope;
use garth_engine::model::{Page, VersionId};
use garth_engine::{AccountStore, FileSystemExt as _, TreePath};
use serde_json::{Value, json};

use super::harness::{Reply, START, Server};

fn account(server: &Server) -> Arc<dyn AccountStore> {
    block_on(server.home.account("acme")).unwrap()
}

fn head(server: &Server) -> u64 {
    block_on(account(server).head()).unwrap().seq.0
}

fn read(server: &Server, path: &str) -> String {
    block_on(account(server).read_to_string(path)).unwrap()
}

fn send(server: &Server, key: &str, idempotency: &str, body: &Value) -> Reply {
    let headers = format!("authorization: Bearer {key}\r\nidempotency-key: {idempotency}\r\n");
    server.request("POST", "/v1/batch", &headers, body.to_string().as_bytes())
}

/// Operations of each kind.
fn operations() -> Vec<Value> {
    vec![
        json!({"op": "check", "path": "/old", "that": "exists"}),
        json!({"op": "write", "path": "/a", "text": "one\n", "attrs": {"tags": ["t"], "mode": "600", "ttl": "7d"}}),
        json!({"op": "append", "path": "/a", "base64": "dHdvCg=="}),
        json!({"op": "mkdir", "path": "/d/e", "parents": true}),
        json!({"op": "cp", "from": "/a", "to": "/d/copy"}),
        json!({"op": "mv", "from": "/old", "to": "/d/old"}),
        json!({"op": "ln", "from": "/a", "to": "/hard"}),
        json!({"op": "symlink", "path": "/link", "target": "d/e"}),
        json!({"op": "set", "path": "/a", "attrs": {"metadata": {"k": "v"}, "ttl": null}}),
        json!({"op": "rm", "path": "/none", "force": true}),
    ]
}

#[test]
fn batch_equals_that_of_the_library() {
    let (http, library) = (Server::start(), Server::start());
    for server in [&http, &library] {
        block_on(account(server).write("/old", "old")).unwrap();
    }
    let before = head(&http);
    let answer = http.ok("batch", json!({"ops": operations(), "message": "all at once"}).to_string());
    let parse = |op: Value| BatchLine::parse(op.to_string().as_bytes(), ContentForm::Staged).unwrap();
    let request = BatchRequest::new(operations().into_iter().map(parse), START);
    let tree = account(&library);
    let done = block_on(Files::new(&*tree).batch(&request)).unwrap();
    assert_eq!(head(&http), before + 1, "one commit");
    assert_eq!((answer["ok"].as_bool(), answer["seq"].as_u64()), (Some(true), Some(head(&http))));
    assert_eq!(answer["time"], block_on(account(&http).head()).unwrap().time.to_rfc3339());
    let results = answer["results"].as_array().unwrap();
    let expected = serde_json::to_value(done.results(&request)).unwrap();
    let without_version = |results: &[Value]| -> Vec<Value> {
        let mut results = results.to_vec();
        results.iter_mut().filter_map(Value::as_object_mut).for_each(|result| drop(result.remove("version")));
        results
    };
    assert_eq!(without_version(results), without_version(expected.as_array().unwrap()));
    assert_eq!(results.len(), operations().len() - 1, "a check has no result");
    assert_eq!(results[8], json!({"path": "/none", "removed": false}));
    for path in ["/a", "/d/copy", "/d/old"] {
        assert_eq!(read(&http, path), read(&library, path), "{path}");
    }
    let names = |server: &Server| {
        let listing = block_on(account(server).list(&(&TreePath::root()).into(), &Page::default())).unwrap();
        listing.items.into_iter().map(|item| item.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&http), names(&library));
    let entry = |server: &Server| {
        let entry = block_on(account(server).entry("/a")).unwrap();
        (entry.mode, entry.attributes, entry.expires_at)
    };
    assert_eq!(entry(&http), entry(&library));
    let version: VersionId = results[7]["version"].as_str().unwrap().parse().unwrap();
    assert_eq!(version, block_on(account(&http).entry("/a")).unwrap().version);
}

#[test]
fn refused_batch_names_the_operation_and_changes_nothing() {
    let server = Server::start();
    let write = json!({"op": "write", "path": "/a", "text": "x"});
    for (op, status, code, why) in [
        (json!({"op": "fly"}), 400, "VALIDATION_ERROR", "operation 2: \"op\" must be write, append"),
        (json!({"op": "rm"}), 400, "VALIDATION_ERROR", "operation 2: \"path\" is missing"),
        (
            json!({"op": "rm", "path": "/a", "x": 1}),
            400,
            "VALIDATION_ERROR",
            "operation 2: unknown field \"x\"",
        ),
        (
            json!({"op": "write", "path": "/b", "file": "/etc/passwd"}),
            400,
            "VALIDATION_ERROR",
            "operation 2: give the content by one of text, base64 and staged",
        ),
        (
            json!({"op": "write", "path": "/b", "text": "", "file": "/etc/passwd"}),
            400,
            "VALIDATION_ERROR",
            "operation 2: unknown field \"file\"",
        ),
        (json!({"op": "rm", "path": "b"}), 400, "INVALID_PATH", "b: a path starts with `/`"),
        (json!({"op": "rm", "path": "/none"}), 404, "NOT_FOUND", "/none: "),
        (
            json!({"op": "write", "path": "/q/r/s", "text": "x"}),
            404,
            "NOT_FOUND",
            "/q/r/s: the directory /q/r does not exist; set \"parents\": true",
        ),
        (json!({"op": "mv", "from": "/none", "to": "/x"}), 404, "NOT_FOUND", "/none: no such file"),
        (json!({"op": "mkdir", "path": "/a"}), 409, "PATH_CONFLICT", "/a: "),
        (json!({"op": "write", "path": "/a", "text": "y", "create": "new"}), 409, "PATH_CONFLICT", "/a: "),
        (json!({"op": "check", "path": "/c", "that": "exists"}), 409, "CONFLICT", "/c: "),
    ] {
        let reply = server.post("batch", json!({"ops": [write, op]}).to_string());
        let message = reply.refused(status, code);
        assert!(message.contains(why), "{op}: {message}");
        assert!(block_on(account(&server).lookup("/a")).unwrap().is_none(), "{op}");
    }
    for body in
        [json!({"ops": []}), json!({"ops": [write], "if_version": {"/a": "7"}}), json!({"ops": ["x"]})]
    {
        server.post("batch", body.to_string()).refused(400, "VALIDATION_ERROR");
    }
    assert!(block_on(account(&server).lookup("/a")).unwrap().is_none());
}

#[test]
fn version_condition_conflicts_with_the_current_version() {
    let server = Server::start();
    let first = server.ok("batch", json!({"ops": [{"op": "write", "path": "/a", "text": "1"}]}).to_string());
    let version = first["results"][0]["version"].clone();
    let body = json!({"ops": [{"op": "write", "path": "/a", "text": "2"}], "if_version": {"/a": version}});
    let second = server.ok("batch", body.to_string());
    let current = second["results"][0]["version"].as_str().unwrap().to_owned();
    let message = server.post("batch", body.to_string()).refused(409, "CONFLICT");
    assert!(message.contains("/a: ") && message.contains(&current), "{message}");
    let blind = server.key("acme", &[Scope::FilesWrite]);
    let message = server.post_as(&blind, "batch", body.to_string()).refused(409, "CONFLICT");
    assert!(!message.contains(&current) && !message.contains("/a"), "{message}");
    assert_eq!(read(&server, "/a"), "2");
}

#[test]
fn key_without_read_scope_cannot_check_or_copy() {
    let server = Server::start();
    let (blind, both) = (
        server.key("acme", &[Scope::FilesWrite]),
        server.key("acme", &[Scope::FilesWrite, Scope::FilesRead]),
    );
    block_on(account(&server).write("/a", "1")).unwrap();
    for that in [
        json!("exists"),
        json!({"sha256": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"}),
    ] {
        let body = json!({"ops": [{"op": "check", "path": "/a", "that": that}]}).to_string();
        let message = server.post_as(&blind, "batch", &body).refused(403, "FORBIDDEN");
        assert!(message.contains("files:read"), "{message}");
        assert_eq!(server.post_as(&both, "batch", &body).status, 200);
    }
    let copy = json!({"ops": [{"op": "cp", "from": "/a", "to": "/copy"}]}).to_string();
    assert!(server.post_as(&blind, "batch", &copy).refused(403, "FORBIDDEN").contains("files:read"));
    assert_eq!(server.post_as(&both, "batch", &copy).status, 200);
    let write = json!({"ops": [{"op": "write", "path": "/b", "text": "x"}]}).to_string();
    assert_eq!(server.post_as(&blind, "batch", &write).status, 200);
}

#[test]
fn rules_quote_no_content_to_write_only_keys() {
    let server = Server::start();
    let blind = server.key("acme", &[Scope::FilesWrite]);
    block_on(account(&server).write("/secret.json", r#"{"token":"canary"}"#)).unwrap();
    let schema = json!({"properties": {"token": {"pattern": "^none"}}});
    let rule = json!({"pattern": "/data/**", "constraint": "json", "terms": {"schema": schema}});
    server.ok("admin/rules/set", rule.to_string());
    let make = json!({"op": "mkdir", "path": "/data"});
    let copy = json!({"op": "cp", "from": "/secret.json", "to": "/data/copy.json"});
    let body = json!({"ops": [make, copy]}).to_string();
    let message = server.post("batch", &body).refused(400, "RULE_VIOLATION");
    assert!(message.contains("canary"), "the rule quotes the value: {message}");
    let message = server.post_as(&blind, "batch", &body).refused(403, "FORBIDDEN");
    assert!(!message.contains("canary"), "{message}");
    let write = json!({"op": "write", "path": "/data/own.json", "text": r#"{"token":"canary"}"#});
    let body = json!({"ops": [make, write]}).to_string();
    let message = server.post_as(&blind, "batch", &body).refused(400, "RULE_VIOLATION");
    assert!(!message.contains("canary"), "{message}");
}

#[test]
fn rules_judge_only_what_write_only_keys_write() {
    let server = Server::start();
    let blind = server.key("acme", &[Scope::FilesWrite]);
    block_on(account(&server).mkdir_all("/data")).unwrap();
    for path in ["/secret", "/data/a.json"] {
        block_on(account(&server).write(path, "12")).unwrap();
    }
    let rule = json!({"pattern": "/data/**", "constraint": "json", "terms": {}});
    server.ok("admin/rules/set", rule.to_string());
    let send = |ops: &Value| server.post_as(&blind, "batch", json!({"ops": ops}).to_string());
    for ops in [
        json!([{"op": "append", "path": "/data/a.json", "text": "3"}]),
        json!([{"op": "append", "path": "/data/a.json", "text": "x"}]),
        json!([{"op": "mv", "from": "/secret", "to": "/data/b.json"}]),
        json!([{"op": "ln", "from": "/secret", "to": "/data/b.json"}]),
        json!([
            {"op": "ln", "from": "/data/a.json", "to": "/out"},
            {"op": "append", "path": "/out", "text": "3"},
        ]),
    ] {
        let message = send(&ops).refused(403, "FORBIDDEN");
        assert!(message.contains("files:read") && !message.contains("/data"), "{ops}: {message}");
    }
    for ops in [
        json!([
            {"op": "write", "path": "/data/a.json", "text": "1"},
            {"op": "append", "path": "/data/a.json", "text": "3"},
        ]),
        json!([
            {"op": "write", "path": "/new", "text": "1"},
            {"op": "mv", "from": "/new", "to": "/data/b.json"},
        ]),
        json!([{"op": "append", "path": "/data/c.json", "text": "1"}]),
        json!([{"op": "rm", "path": "/data/a.json"}]),
    ] {
        let done = send(&ops);
        assert_eq!(done.status, 200, "{ops}: {}", done.text());
    }
    send(&json!([{"op": "write", "path": "/data/b.json", "text": "x"}])).refused(400, "RULE_VIOLATION");
}

#[test]
fn repeat_returns_the_first_answer() {
    let server = Server::start();
    let body = json!({"ops": operations()[1..].iter().filter(|op| op["op"] != "mv").collect::<Vec<_>>()});
    let first = send(&server, &server.key, "k", &body);
    assert_eq!(first.status, 200, "{}", first.text());
    block_on(account(&server).write("/a", "changed")).unwrap();
    server.clock.advance(std::time::Duration::from_secs(60));
    let before = head(&server);
    let again = send(&server, &server.key, "k", &body);
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(head(&server), before);
    let other = json!({"ops": [{"op": "mkdir", "path": "/x"}]});
    send(&server, &server.key, "k", &other).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
}

#[test]
fn staged_content_is_used_once() {
    let server = Server::start();
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let stage = |text: &str| {
        let reply = server.request("POST", "/v1/uploads?path=/big", &headers, text.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["staged"].clone()
    };
    let (one, two) = (stage("first "), stage("second"));
    let body = json!({"ops": [
        {"op": "write", "path": "/big", "staged": one},
        {"op": "append", "path": "/big", "staged": two},
    ]});
    server.ok("batch", body.to_string());
    assert_eq!(read(&server, "/big"), "first second");
    let again = server.post("batch", body.to_string());
    assert!((400..500).contains(&again.status), "{}", again.text());
    assert_eq!(read(&server, "/big"), "first second");
    let mut longer = stage("third");
    longer["size"] = json!(6);
    let body = json!({"ops": [{"op": "append", "path": "/big", "staged": longer}]});
    let message = server.post("batch", body.to_string()).refused(404, "NOT_FOUND");
    assert!(message.contains("has another size, or belongs to another tree"), "{message}");
}

#[test]
fn body_may_be_as_long_as_messages() {
    let server = Server::start();
    let text = "x".repeat(3 << 20);
    let body = json!({"ops": [{"op": "write", "path": "/long", "text": text}]});
    server.ok("batch", body.to_string());
    assert_eq!(read(&server, "/long").len(), 3 << 20);
    let text = "x".repeat(9 << 20);
    let ops: Vec<Value> = ["/b", "/c"].map(|path| json!({"op": "write", "path": path, "text": text})).into();
    let before = head(&server);
    let message = server.post("batch", json!({"ops": ops}).to_string()).refused(413, "PAYLOAD_TOO_LARGE");
    assert!(message.contains("upload"), "{message}");
    assert_eq!(head(&server), before);
}

#[test]
fn batch_reaches_the_tree_of_the_caller() {
    let server = Server::start();
    server.own("scout", "ann");
    let write = |path: &str| json!([{"op": "write", "path": path, "text": "x"}]);
    for path in ["/.agent/SOUL.md", "/../../agents/scout/SOUL.md", "/.garth/x"] {
        let body = json!({"ops": write(path), "agent": "scout", "user": "bob"});
        let reply = server.post("batch", body.to_string());
        assert!((400..500).contains(&reply.status), "{path}: {}", reply.text());
    }
    let body = json!({"ops": write("/note"), "agent": "scout", "user": "bob"});
    server.ok("batch", body.to_string());
    assert!(block_on(account(&server).lookup("/note")).unwrap().is_none(), "it is in the chat of bob");
    let reply = server.post("batch", json!({"ops": write("/.garth/x")}).to_string());
    assert!((400..500).contains(&reply.status), "{}", reply.text());
}
