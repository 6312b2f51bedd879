//! `Idempotency-Key`: a retry gets the first answer again, and another request under the same key is refused.

use std::time::Duration;

use futures::executor::block_on;
use garth_agent::kv::{Kv, Put};
use garth_engine::datadir::Scope;
use garth_engine::model::Idempotency;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::harness::{Reply, START, Server};

fn send(server: &Server, key: &str, call: &str, idempotency: &str, body: &str) -> Reply {
    let headers = format!("authorization: Bearer {key}\r\nidempotency-key: {idempotency}\r\n");
    server.request("POST", &format!("/v1/{call}"), &headers, body.as_bytes())
}

#[test]
fn retry_returns_first_answer_and_writes_nothing() {
    let server = Server::start();
    let body = r#"{"path":"/a","value":1}"#;
    let first = send(&server, &server.key, "put", "abc_DEF-123", body);
    server.put("/a", "2");
    server.clock.advance(Duration::from_secs(86_399));
    let again = send(&server, &server.key, "put", "abc_DEF-123", body);
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.body, again.body);
    assert!(server.get("/a").contains("\"value\":2"));
    let deleted = send(&server, &server.key, "delete", "del", r#"{"path":"/a"}"#);
    server.put("/a", "3");
    assert_eq!(send(&server, &server.key, "delete", "del", r#"{"path":"/a"}"#).body, deleted.body);
    assert!(server.get("/a").contains("\"value\":3"));
}

#[test]
fn rejects_other_request_under_same_key() {
    let server = Server::start();
    send(&server, &server.key, "put", "k", r#"{"path":"/a","value":1}"#);
    for (call, body) in [
        ("put", r#"{"path":"/a","value":2}"#),
        ("put", r#"{"path":"/a","value":1.0}"#),
        ("put", r#"{"path":"/a","value":1,"tags":null}"#),
        ("delete", r#"{"path":"/a"}"#),
    ] {
        send(&server, &server.key, call, "k", body).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    }
    assert!(server.get("/a").contains("\"value\":1"));
}

#[test]
fn only_entity_tags_are_compared_without_weakness() {
    let server = Server::start();
    let put = |key: &str, header: &str| {
        let headers =
            format!("authorization: Bearer {}\r\nidempotency-key: {key}\r\n{header}\r\n", server.key);
        server.request("PUT", &format!("/v1/fs/{key}"), &headers, b"x")
    };
    for (key, header) in [("metadata", "x-garth-meta-n"), ("type", "content-type")] {
        assert_eq!(put(key, &format!("{header}: W/o/sugar")).status, 201);
        put(key, &format!("{header}: o/sugar")).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    }
    let first = put("tag", "if-none-match: \"ver_1-1\"");
    let again = put("tag", "if-none-match: W/\"ver_1-1\"");
    assert_eq!((first.status, again.status, again.text()), (201, 201, first.text()));
}

#[test]
fn idempotency_key_lasts_one_day_per_account() {
    let server = Server::start();
    block_on(server.home.create_account("other")).unwrap();
    let other = server.key("other", &[Scope::Admin]);
    let same_account = server.key("acme", &[Scope::MemoryWrite]);
    let first = send(&server, &server.key, "put", "k", r#"{"path":"/a","value":1}"#);
    assert_eq!(send(&server, &other, "put", "k", r#"{"path":"/a","value":2}"#).status, 200);
    assert_eq!(send(&server, &same_account, "put", "k", r#"{"path":"/a","value":1}"#).body, first.body);
    server.clock.advance(Duration::from_secs(86_400));
    assert_eq!(send(&server, &server.key, "put", "k", r#"{"path":"/a","value":3}"#).status, 200);
    assert!(server.get("/a").contains("\"value\":3"));
}

#[test]
fn refused_write_leaves_key_unused() {
    let server = Server::start();
    send(&server, &server.key, "put", "k", r#"{"path":"/sys/a","value":1}"#).refused(403, "RESERVED_PATH");
    assert_eq!(send(&server, &server.key, "put", "k", r#"{"path":"/a","value":1}"#).status, 200);
}

#[test]
fn idempotency_key_is_a_short_ascii_token() {
    let server = Server::start();
    let (longest, longer) = ("a".repeat(128), "a".repeat(129));
    assert_eq!(send(&server, &server.key, "put", &longest, r#"{"path":"/a","value":1}"#).status, 200);
    for bad in ["", "a b", "a.b", "a/b", "é", "a:b", "\"a\"", &longer, "a\r\nidempotency-key: b"] {
        let reply = send(&server, &server.key, "put", bad, r#"{"path":"/a","value":2}"#);
        assert!(reply.refused(400, "INVALID_IDEMPOTENCY_KEY").contains("Idempotency-Key"), "{bad}");
    }
    let reply = send(&server, &server.key, "get", "no token!", r#"{"path":"/a"}"#);
    assert_eq!(reply.status, 200, "reads have no use for it");
}

#[test]
fn retry_may_reorder_fields() {
    let server = Server::start();
    let first = send(&server, &server.key, "put", "k", r#"{"path":"/a","value":{"b":1, "a":2}}"#);
    for body in [
        r#"{"value":{"b":1, "a":2},"path":"/a"}"#,
        r#" { "path" : "/a" , "value" : {"b":1, "a":2} } "#,
        r#"{"p\u0061th":"/a","value":{"b":1, "a":2}}"#,
    ] {
        assert_eq!(send(&server, &server.key, "put", "k", body).body, first.body, "{body}");
    }
    for body in [
        r#"{"path":"/a","value":{"a":2, "b":1}}"#,
        r#"{"path":"/a","value":{"b":1,"a":2}}"#,
        r#"{"path":"/a","value":{"b":1, "a":2},"searchable":false}"#,
        r#"{"path":"/\u0061","value":{"b":1, "a":2}}"#,
    ] {
        send(&server, &server.key, "put", "k", body).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    }
}

#[test]
fn retry_matches_old_idempotency_records() {
    let server = Server::start();
    let account = block_on(server.home.account("acme")).unwrap();
    for (call, body) in [("put", r#"{"value":1,"path":"/a"}"#), ("delete", r#"{ "path":"/a"}"#)] {
        let mut hash = blake3::Hasher::new();
        hash.update(format!("/v1/{call}").as_bytes()).update(&[0]).update(body.as_bytes());
        let keep_until = START.plus_seconds(86_400);
        let record = Idempotency::new(format!("http/{call}"), *hash.finalize().as_bytes(), keep_until);
        let kv = Kv::new(&*account, "default").unwrap();
        let written = match call {
            "put" => block_on(kv.put(&Put::new("/a", &to_raw_value(&1).unwrap()), Some(record))),
            _ => block_on(kv.delete("/a", Some(record))),
        };
        let version = written.unwrap().version.to_string();
        let again = send(&server, &server.key, call, call, body);
        assert_eq!((again.status, &again.json()["version_id"]), (200, &json!(version)), "{}", again.text());
        let other = body.replace("/a", "/b");
        send(&server, &server.key, call, call, &other).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    }
}
