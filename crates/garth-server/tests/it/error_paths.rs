//! Paths in errors: those of the tree of the call, for keys that may read it.

use garth_engine::datadir::Scope;
use serde_json::{Value, json};

use super::harness::Server;

/// Returns a body with the names of a caller.
fn with(caller: &Value, mut body: Value) -> String {
    body.as_object_mut().unwrap().extend(caller.as_object().unwrap().clone());
    body.to_string()
}

/// Returns calls in JSON, each with the path that its error is about.
fn failing_calls() -> Vec<(&'static str, Value, &'static str)> {
    let [none, file] = ["/none", "/notes/a.md"];
    let remove = json!({"remove": {"at": {"path": none}, "what": "any"}});
    let exists = json!([[{"path": file}, "absent"]]);
    vec![
        ("tree/stat", json!({"path": none}), none),
        ("tree/stat", json!({"path": "/notes/a.md/b"}), file),
        ("tree/list", json!({"path": file}), file),
        ("tree/walk", json!({"path": none}), none),
        ("tree/fetch", json!({"path": "/notes"}), "/notes"),
        ("tree/history", json!({"path": none}), none),
        ("tree/blame", json!({"path": none}), none),
        ("tree/grep", json!({"path": none, "expressions": ["tea"]}), none),
        ("tree/diff", json!({"path": none, "other": none}), none),
        ("tree/edit", json!({"path": none, "old": "tea", "new": "milk"}), none),
        ("tree/edit", json!({"path": file, "old": "milk", "new": "tea"}), file),
        ("tree/edit", json!({"path": file, "old": "tea", "new": "x", "if_version": "ver_1-1"}), file),
        ("tree/commit", json!({"ops": [remove]}), none),
        ("tree/commit", json!({"ops": [], "preconditions": exists}), file),
        ("batch", json!({"ops": [{"op": "rm", "path": none}]}), none),
        ("batch", json!({"ops": [{"op": "mkdir", "path": "/notes"}]}), "/notes"),
    ]
}

#[test]
fn errors_name_the_path_in_the_tree_of_the_call() {
    let server = Server::start();
    server.own("scout", "ann");
    for (caller, query) in
        [(json!({}), ""), (json!({"agent": "scout", "user": "ann"}), "agent=scout&user=ann&")]
    {
        let write = json!({"op": "write", "path": "/notes/a.md", "text": "tea", "parents": true});
        server.ok("batch", with(&caller, json!({"ops": [write]})));
        for (call, body, path) in failing_calls() {
            let reply = server.post(call, with(&caller, body.clone()));
            let message = reply.envelope();
            assert!(message.starts_with(&format!("{path}: ")), "{call} {body}: {message}");
            assert_eq!(reply.json()["error"]["path"], path, "{call} {body}: {message}");
        }
        let many = with(&caller, json!({"items": [{"path": "/none"}]}));
        let items = server.ok("tree/fetch-many", many)["items"].clone();
        let error = &items[0]["error"];
        assert!(error["message"].as_str().unwrap().starts_with("/none: "), "{items}");
        assert_eq!((&error["kind"], &error["path"]), (&json!("not_found"), &json!("/none")), "{items}");
        let headers = format!("authorization: Bearer {}\r\n", server.key);
        for (method, target, path) in [
            ("GET", "/none?", "/none"),
            ("GET", "/notes/a.md/b?", "/notes/a.md"),
            ("PUT", "/notes/a.md/b?", "/notes/a.md"),
            ("PATCH", "/none?offset=3&", "/none"),
            ("DELETE", "/none?", "/none"),
        ] {
            let target = format!("/v1/fs{target}{query}");
            let body: &[u8] = if method.starts_with('P') { b"x" } else { b"" };
            let reply = server.request(method, &target, &headers, body);
            let message = reply.envelope();
            assert!(message.starts_with(&format!("{path}: ")), "{method} {target}: {message}");
            assert_eq!(reply.json()["error"]["path"], path, "{method} {target}: {message}");
        }
    }
}

#[test]
fn errors_of_quotas_name_the_path_of_the_quota() {
    let server = Server::start();
    server.ok("admin/quotas/set", r#"{"path":"/full","max_bytes":10}"#);
    let writer = server.key("acme", &[Scope::FilesWrite]);
    // The second one is refused before its body arrives.
    for size in [11, 300_000] {
        let put = |key: &str| {
            let headers = format!("authorization: Bearer {key}\r\n");
            let reply = server.request("PUT", "/v1/fs/full/a", &headers, &vec![b'x'; size]);
            (reply.refused(403, "QUOTA_EXCEEDED"), reply.json()["error"].get("path").cloned())
        };
        let (message, path) = put(&server.key);
        assert!(message.starts_with("/full: the quota of 10 bytes"), "{message}");
        assert_eq!(path, Some(json!("/full")));
        let (message, path) = put(&writer);
        assert!(!message.contains("/full") && !message.contains("10") && path.is_none(), "{message}");
    }
}

#[test]
fn errors_outside_the_tree_of_the_call_name_no_path() {
    let server = Server::start();
    server.own("scout", "ann");
    // A file is in the place of the chat.
    let write = json!({"op": "write", "path": "/chats/blocked", "text": "x", "parents": true});
    server.ok("batch", json!({"ops": [write]}).to_string());
    let caller = json!({"agent": "scout", "user": "ann", "chat": "blocked"});
    let body = with(&caller, json!({"ops": [{"op": "write", "path": "/a", "text": "x"}]}));
    let reply = server.post("batch", body);
    let message = reply.envelope();
    assert!(!message.contains("/chats") && reply.json()["error"].get("path").is_none(), "{message}");
}
