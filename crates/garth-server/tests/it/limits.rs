//! The limit of 1 MiB for a body, declared or streamed. A body of exactly the limit passes.

use std::collections::BTreeSet;

use garth_server::{Limits, Options};
use serde_json::{Value, json};

use super::harness::{Connection, Server};

const MAX_BODY: usize = 1 << 20;

fn head(server: &Server, framing: &str) -> String {
    format!(
        "POST /v1/put HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n{framing}\r\n\r\n",
        server.key
    )
}

fn body(length: usize) -> Vec<u8> {
    let (start, end) = (r#"{"path":"/big","value":""#, "\"}");
    format!("{start}{}{end}", "a".repeat(length - start.len() - end.len())).into_bytes()
}

fn value_of(body: &[u8]) -> usize {
    body.iter().filter(|byte| **byte == b'a').count() - 2 // of "path" and "value"
}

#[test]
fn body_limit_is_exact() {
    let server = Server::start();
    assert_eq!(server.post("put", body(MAX_BODY)).status, 200);
    let value = "a".repeat(MAX_BODY - body(100).len() + value_of(&body(100)));
    assert!(server.get("/big").contains(&format!("\"value\":\"{value}\",")), "whole");
    server.post("put", body(MAX_BODY + 1)).refused(413, "PAYLOAD_TOO_LARGE");
    server.post("put", body(5 * MAX_BODY)).refused(413, "PAYLOAD_TOO_LARGE");
}

#[test]
fn too_long_body_is_refused_by_content_length() {
    let server = Server::start();
    for length in ["1048577", "99999999999", "18446744073709551615"] {
        let mut connection = Connection::open(server.address);
        connection.send(head(&server, &format!("content-length: {length}")).as_bytes());
        let reply = connection.reply();
        if length.len() < 15 {
            reply.refused(413, "PAYLOAD_TOO_LARGE");
        }
        reply.envelope();
    }
}

#[test]
fn streamed_body_is_counted() {
    let server = Server::start();
    for (length, status) in [(MAX_BODY, 200), (MAX_BODY + 1, 413), (4 * MAX_BODY, 413)] {
        let mut connection = Connection::open(server.address);
        connection.send(head(&server, "transfer-encoding: chunked").as_bytes());
        for chunk in body(length).chunks(50_000) {
            connection.send(format!("{:x}\r\n", chunk.len()).as_bytes());
            connection.send(chunk);
            connection.send(b"\r\n");
        }
        connection.send(b"0\r\n\r\n");
        let reply = connection.reply();
        assert_eq!(reply.status, status, "{length}");
        if status == 413 {
            reply.refused(413, "PAYLOAD_TOO_LARGE");
        }
    }
}

#[test]
fn expect_continue_is_answered_before_the_body() {
    let server = Server::start();
    let mut connection = Connection::open(server.address);
    connection.send(head(&server, "expect: 100-continue\r\ncontent-length: 23").as_bytes());
    assert_eq!(connection.reply().status, 100);
    connection.send(br#"{"path":"/a","value":1}"#);
    assert_eq!(connection.reply().status, 200);
    let mut connection = Connection::open(server.address);
    connection.send(head(&server, "expect: 100-continue\r\ncontent-length: 2000000").as_bytes());
    connection.reply().refused(413, "PAYLOAD_TOO_LARGE");
}

/// Returns an append with a message of about this length.
fn message(role: &str, length: usize) -> Vec<u8> {
    let (start, end) =
        (format!(r#"{{"agent":"coder","name":"work","messages":[{{"role":"{role}","content":""#), "\"}]}");
    format!("{start}{}{end}", "word ".repeat(length / 5)).into_bytes()
}

#[test]
fn append_accepts_messages_of_nearly_16_mib() {
    let server = Server::start();
    server.ok("sessions/create", r#"{"agent":"coder","name":"work"}"#);
    let length = (16 << 20) - 4096;
    for (line, role) in [(1, "user"), (2, "assistant")] {
        let appended = server.ok("sessions/append", message(role, length));
        assert_eq!(appended["lines"], json!([line, line]), "{role}");
    }
    let more = r#"{"agent":"coder","name":"work","messages":[{"role":"user","content":"Go on."}]}"#;
    assert_eq!(server.ok("sessions/append", more)["lines"], json!([3, 3]));
}

#[test]
fn import_accepts_messages_of_nearly_16_mib() {
    let server = Server::start();
    let import = |length: usize| {
        let line = json!({"role": "user", "content": "word ".repeat(length / 5)});
        let mut body = json!({"agent": "coder", "name": "work", "format": "openai", "mode": "part"});
        (body["create"], body["transcript"]) = (json!(true), json!(line.to_string()));
        body.to_string()
    };
    assert_eq!(server.ok("sessions/import", import((16 << 20) - 4096))["lines"], json!([1, 1]));
    let said = server.post("sessions/import", import(17 << 20)).refused(400, "VALIDATION_ERROR");
    assert!(said.contains("media"), "{said}");
    assert_eq!(server.ok("sessions/import", import(100))["lines"], json!([2, 2]));
}

#[test]
fn too_long_message_error_names_media_route() {
    let server = Server::start();
    server.ok("sessions/create", r#"{"agent":"coder","name":"work"}"#);
    let said = server.post("sessions/append", message("user", 33 << 20)).refused(413, "PAYLOAD_TOO_LARGE");
    assert!(said.contains("POST /v1/agents/{agent}/media"), "{said}");
    let said = server.post("put", body(MAX_BODY + 1)).refused(413, "PAYLOAD_TOO_LARGE");
    assert!(!said.contains("media") && said.contains("several calls"), "{said}");
}

#[test]
fn calls_that_ask_models_take_1_mib() {
    // The limit of other calls does not apply to them.
    let server = Server::start_with(Options::default().limits(Limits::default().max_body(4 << 20)));
    let (work, reset) = (r#"{"agent":"coder","name":"work"}"#, r#"{"name":"work"}"#);
    server.ok("sessions/create", work);
    let filled = |body: &str, length: usize| format!("{}{body}", " ".repeat(length - body.len()));
    server.ok("context/compact", filled(work, MAX_BODY));
    for (call, body) in [("context/compact", work), ("agents/coder/reset", reset)] {
        let said = server.post(call, filled(body, MAX_BODY + 1)).refused(413, "PAYLOAD_TOO_LARGE");
        assert!(!said.contains("media"), "{said}");
    }
}

#[test]
fn list_and_glob_have_pages_of_500() {
    let server = Server::start();
    for number in 0..510 {
        server.put(&format!("/n/{number:03}"), "1");
    }
    for (call, name, body) in
        [("list", "items", json!({ "prefix": "/n" })), ("glob", "paths", json!({ "pattern": "/n/*" }))]
    {
        let path = |item: &Value| item.get("path").unwrap_or(item).as_str().unwrap().to_owned();
        let first = server.ok(call, body.to_string());
        let items = first[name].as_array().unwrap();
        assert_eq!((items.len(), path(&items[499]).as_str()), (500, "/n/499"));
        assert_eq!((&first["has_more"], first.as_object().unwrap().len()), (&json!(true), 3));
        let mut body = body.clone();
        body["cursor"] = first["next_cursor"].clone();
        let second = server.ok(call, body.to_string());
        let rest: Vec<String> = second[name].as_array().unwrap().iter().map(path).collect();
        assert_eq!((rest.len(), rest[0].as_str(), rest[9].as_str()), (10, "/n/500", "/n/509"));
        assert_eq!(second.as_object().unwrap().len(), 1, "the last page says nothing of another one");
        body["limit"] = json!(10.0);
        assert_eq!(server.ok(call, body.to_string()), second);
    }
}

#[test]
fn pages_of_values_hold_at_most_4_mib() {
    let server = Server::start();
    let long = "word ".repeat(180_000);
    for number in 0..8 {
        let body = json!({ "path": format!("/k{number}"), "value": long, "searchable": true });
        server.ok("put", body.to_string());
        server.put("/h", &json!(format!("{number}{long}")).to_string());
    }
    for (call, name, mut body) in [
        ("history", "versions", json!({ "path": "/h", "limit": 100 })),
        ("search", "results", json!({ "query": "word", "limit": 50 })),
    ] {
        let mut seen = BTreeSet::new();
        loop {
            let answer = server.post(call, body.to_string());
            assert_eq!(answer.status, 200);
            assert!(answer.body.len() < 4_300_000, "{}", answer.body.len());
            let answer = answer.json();
            for item in answer[name].as_array().unwrap() {
                assert!(seen.insert(item["version_id"].to_string()));
            }
            let Some(next) = answer.get("next_cursor") else { break };
            assert_eq!(answer["has_more"], true);
            body["cursor"] = next.clone();
        }
        assert_eq!(seen.len(), 8, "{call}");
    }
}
