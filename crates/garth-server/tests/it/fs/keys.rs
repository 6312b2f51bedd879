//! Files and uploads under keys that reach a part of them.

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_engine::model::{Batch, Body, Op, StagedBody};
use garth_engine::path::TreePath;
use garth_engine::{ErrorKind, FileSystem as _};
use serde_json::{Value, json};

use super::{MIB, bytes, get, headers, put, target};
use crate::it::harness::Server;

#[test]
fn write_only_keys_learn_no_content() {
    let server = Server::start();
    put(&server, "/a", b"canary");
    let account = block_on(server.home.account("acme")).unwrap();
    let link = Op::symlink(TreePath::parse("/link").unwrap(), "/canary");
    block_on(account.commit(Batch::new([link]))).unwrap();
    let writer = server.key("acme", &[Scope::FilesWrite]);
    let send = |method: &str, path: &str, more: &str| {
        let body: &[u8] = if method == "DELETE" { b"" } else { b"x" };
        server.request(method, &target(path), &headers(&writer, more), body)
    };
    send("GET", "/a", "").refused(403, "FORBIDDEN");
    let answers = [
        send("PATCH", "/a", ""),
        send("PUT", "/link", ""),
        send("PUT", "/a", "if-match: \"ver_1-1\"\r\n"),
        send("DELETE", "/a", "if-none-match: *\r\n"),
        send("PUT", "/", ""),
        send("DELETE", "/missing", ""),
    ];
    for answer in &answers {
        assert!(!answer.text().contains("canary"), "{}", answer.text());
    }
    assert_eq!((&answers[0].json()["size"], &answers[1].json()["path"]), (&Value::Null, &Value::Null));
    let told = ["ver_", "directory"];
    for refused in &answers[2..] {
        let message = refused.envelope();
        assert!(told.iter().all(|word| !message.contains(word)), "{message}");
    }
    let reader = server.key("acme", &[Scope::FilesRead]);
    let refused = server.request("PUT", "/v1/fs/a", &headers(&reader, ""), b"x");
    refused.refused(403, "FORBIDDEN");
}

#[test]
fn refusals_hide_content_from_write_only_keys() {
    let server = Server::start();
    let (secret, quota) = (br#"{"token":"canary-1"}"#, json!({"path": "/full", "max_bytes": 12_345}));
    put(&server, "/data/a.json", secret);
    put(&server, "/full/a", b"12345");
    let token = json!({"type": "string", "pattern": "^canary-[0-9]$"});
    let terms = json!({"schema": {"type": "object", "properties": {"token": token}}});
    let rule = json!({"pattern": "/data/*.json", "constraint": "json", "terms": terms});
    server.ok("admin/rules/set", rule.to_string());
    server.ok("admin/quotas/set", quota.to_string());
    let account = block_on(server.home.account("acme")).unwrap();
    let link = Op::symlink(TreePath::parse("/link").unwrap(), "/data/a.json");
    block_on(account.commit(Batch::new([link]))).unwrap();
    let (writer, both) = (
        server.key("acme", &[Scope::FilesWrite]),
        server.key("acme", &[Scope::FilesWrite, Scope::FilesRead]),
    );
    let write = |path: &str, text: &str| json!({"ops": [{"op": "write", "path": path, "text": text}]});
    let part = |path: &str| (format!("/v1/fs{path}?offset=17"), b"x".to_vec());
    let batch = |ops: Value| ("/v1/batch".to_owned(), ops.to_string().into_bytes());
    let (rule, quota) = (["RULE_VIOLATION"; 2], ["QUOTA_EXCEEDED"; 2]);
    // The rule would judge content that the writer does not know.
    let unread = ["FORBIDDEN", "RULE_VIOLATION"];
    for (method, (target, body), codes) in [
        ("PATCH", part("/data/a.json"), unread),
        ("PATCH", part("/link"), unread),
        ("POST", batch(write("/link", r#"{"token":"canary"}"#)), rule),
        ("POST", batch(write("/full/b", &"x".repeat(12_345))), quota),
        ("PUT", (target("/full/b"), vec![b'x'; 12_345]), quota),
    ] {
        let told = [(&writer, codes[0]), (&both, codes[1])].map(|(key, code)| {
            let reply = server.request(method, &target, &headers(key, ""), &body);
            reply.refused(reply.status, code)
        });
        let words = ["canary", "/data", "12345"];
        let tells = |message: &str| words.iter().any(|word| message.contains(word));
        assert!(!tells(&told[0]) && told[0].contains("files:read"), "{target}: {}", told[0]);
        assert!(tells(&told[1]), "{target}: {}", told[1]);
    }
}

#[test]
fn parts_tell_write_only_keys_no_size() {
    let server = Server::start();
    let rule = |pattern: &str, constraint: &str, terms: Value| {
        let rule = json!({"pattern": pattern, "constraint": constraint, "terms": terms});
        server.ok("admin/rules/set", rule.to_string());
    };
    rule("/small/**", "max-size", json!({"bytes": 400_000}));
    rule("/logs/**", "append-only", json!({}));
    put(&server, "/small/a", &bytes(3, 300_000));
    put(&server, "/logs/a", b"canary");
    let writer = server.key("acme", &[Scope::FilesWrite]);
    let send = |method: &str, path: &str, body: &[u8]| {
        server.request(method, &format!("/v1/fs{path}"), &headers(&writer, ""), body)
    };
    // Short content is part of the commit, long content is judged before it arrives. The answer is the same
    // whether the file would become too long or not.
    for size in [1, 90_000, 110_000, 300_000] {
        send("PATCH", "/small/a", &bytes(4, size)).refused(403, "FORBIDDEN");
        send("PATCH", "/small/a?offset=1", &bytes(4, size)).refused(403, "FORBIDDEN");
    }
    for offset in [0, 5, 6, 7] {
        send("PATCH", &format!("/logs/a?offset={offset}"), b"x").refused(403, "FORBIDDEN");
    }
    // What is judged without stored content is allowed.
    assert_eq!(send("PATCH", "/logs/a", b"x").status, 200);
    assert_eq!(send("PATCH", "/small/new", b"x").status, 201);
    assert_eq!(send("PUT", "/small/a", b"x").status, 200);
    send("PUT", "/small/a", &bytes(4, 400_001)).refused(400, "RULE_VIOLATION");
    assert_eq!(get(&server, "/logs/a").body, b"canaryx");
}

#[test]
fn uploads_belong_to_the_tree_of_their_key() {
    let server = Server::start();
    server.own("scout", "ann");
    let account = block_on(server.home.account("acme")).unwrap();
    let sent = bytes(8, MIB + 5);
    for query in ["", "?agent=scout&user=ann", "?path=/a/b"] {
        let target = format!("/v1/uploads{query}");
        let reply = server.request("POST", &target, &headers(&server.key, ""), &sent);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let answer = reply.json();
        assert_eq!(answer["expires_at"], json!("2026-01-28T00:00:00.000Z"));
        let staged: StagedBody = serde_json::from_value(answer["staged"].clone()).unwrap();
        assert_eq!((staged.size, answer["staged"]["id"].as_str().unwrap().len()), (sent.len() as u64, 32));
        // The account itself is another owner.
        let write = Op::write(TreePath::parse("/a").unwrap(), Body::Staged(staged));
        let refused = block_on(account.commit(Batch::new([write]))).unwrap_err();
        assert!(refused.is(ErrorKind::NotFound), "{refused}");
    }
    // Another tree cannot use it, and its own tree can, once.
    let target = "/v1/uploads?agent=scout&user=ann";
    let staged = server.request("POST", target, &headers(&server.key, ""), &sent).json()["staged"].clone();
    let write = |who: Value| {
        let mut body = json!({"ops": [{"write": {"at": {"path": "/up"}, "body": {"staged": staged}}}]});
        body.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
        server.post("tree/commit", body.to_string())
    };
    write(json!({"agent": "scout", "user": "bob"})).refused(404, "NOT_FOUND");
    write(json!({})).refused(404, "NOT_FOUND");
    let done = write(json!({"agent": "scout", "user": "ann"}));
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(get(&server, "/up?agent=scout&user=ann").body == sent);
    write(json!({"agent": "scout", "user": "ann"})).refused(404, "NOT_FOUND");
    let repeat = || {
        let more = headers(&server.key, "idempotency-key: k\r\n");
        server.request("POST", "/v1/uploads", &more, &sent).text()
    };
    assert_eq!(repeat(), repeat());
    let refused = server.request("POST", "/v1/uploads?path=a", &headers(&server.key, ""), b"x");
    refused.refused(400, "INVALID_PATH");
}

#[test]
fn uploads_are_discarded_by_their_tree_alone() {
    let server = Server::start();
    server.own("scout", "ann");
    let upload = || {
        let target = "/v1/uploads?agent=scout&user=ann";
        let reply = server.request("POST", target, &headers(&server.key, ""), &bytes(9, MIB + 5));
        reply.json()["staged"].clone()
    };
    let as_user = |call: &str, user: Option<&str>, mut body: Value| {
        if let Some(user) = user {
            (body["agent"], body["user"]) = (json!("scout"), json!(user));
        }
        server.post(call, body.to_string())
    };
    let discard = |user: Option<&str>, staged: &Value| {
        let reply = as_user("uploads/discard", user, json!({"id": staged["id"]}));
        assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"ok":true}"#));
    };
    let write = |path: &str, staged: &Value| {
        let op = json!({"op": "write", "path": path, "staged": staged});
        as_user("batch", Some("ann"), json!({"ops": [op]}))
    };
    let (used, discarded) = (upload(), upload());
    // No other tree discards it, and the answer does not tell if it exists.
    discard(None, &used);
    discard(Some("bob"), &used);
    let done = write("/used", &used);
    assert_eq!(done.status, 200, "{}", done.text());
    discard(Some("ann"), &used);
    assert!(get(&server, "/used?agent=scout&user=ann").body == bytes(9, MIB + 5));
    discard(Some("ann"), &discarded);
    discard(Some("ann"), &discarded);
    write("/discarded", &discarded).refused(404, "NOT_FOUND");
    for id in ["", "7", "0F8C2D7E6B5A49388172635445362718", "+0000000000000000000000000000007"] {
        let reply = as_user("uploads/discard", Some("ann"), json!({"id": id}));
        assert!(reply.refused(400, "VALIDATION_ERROR").contains("32 hexadecimal digits"), "{id}");
    }
    let reader = server.bound_key(&json!({"agent": "scout", "user": "ann", "read_only": true}));
    let refused = server.post_as(&reader, "uploads/discard", json!({"id": used["id"]}).to_string());
    refused.refused(403, "FORBIDDEN");
}
