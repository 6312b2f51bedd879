//! Conditions on the version of a value, in `put` and `delete`.

use std::sync::Barrier;

use garth_engine::datadir::Scope;
use serde_json::{Value, json};

use super::harness::{Reply, Server};

/// Writers at once.
const WRITERS: usize = 64;

fn put(server: &Server, body: &Value) -> Reply {
    server.post("put", body.to_string())
}

fn version(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["version_id"].as_str().unwrap().to_owned()
}

#[test]
fn put_if_version_conflicts_with_a_newer_version() {
    let server = Server::start();
    let first = version(&put(&server, &json!({"path": "/a", "value": 1})));
    let second = version(&put(&server, &json!({"path": "/a", "value": 2, "if_version": first})));
    for body in [
        json!({"path": "/a", "value": 3, "if_version": first}),
        json!({"path": "/a", "value": 3, "if_absent": true}),
    ] {
        let message = put(&server, &body).refused(409, "CONFLICT");
        assert!(message.contains(&format!("it is at version {second}")), "{message}");
    }
    let message =
        put(&server, &json!({"path": "/b", "value": 3, "if_version": first})).refused(409, "CONFLICT");
    assert!(message.contains("it has no value"), "{message}");
    assert!(server.get("/a").contains("\"value\":2") && server.get("/b").contains("\"found\":false"));
    assert_eq!(put(&server, &json!({"path": "/b", "value": 3, "if_absent": true})).status, 200);
    assert_eq!(
        put(&server, &json!({"path": "/b", "value": 4, "if_version": null, "if_absent": false})).status,
        200
    );
}

#[test]
fn expired_and_deleted_values_are_absent() {
    let server = Server::start();
    put(&server, &json!({"path": "/a", "value": 1, "ttl_seconds": 10}));
    put(&server, &json!({"path": "/a", "value": 2, "if_absent": true})).refused(409, "CONFLICT");
    server.clock.advance(std::time::Duration::from_secs(11));
    assert_eq!(put(&server, &json!({"path": "/a", "value": 2, "if_absent": true})).status, 200);
    server.ok("delete", r#"{"path":"/a"}"#);
    assert_eq!(put(&server, &json!({"path": "/a", "value": 3, "if_absent": true})).status, 200);
}

#[test]
fn delete_if_version_keeps_a_newer_value() {
    let server = Server::start();
    let first = version(&put(&server, &json!({"path": "/a", "value": 1})));
    let second = version(&put(&server, &json!({"path": "/a", "value": 2})));
    let delete =
        |version: &str| server.post("delete", json!({"path": "/a", "if_version": version}).to_string());
    let message = delete(&first).refused(409, "CONFLICT");
    assert!(message.contains(&format!("it is at version {second}")), "{message}");
    assert!(server.get("/a").contains("\"value\":2"));
    assert_eq!(delete(&second).json()["deleted"], true);
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
    assert!(delete(&second).refused(409, "CONFLICT").contains("it has no value"));
}

#[test]
fn rejects_wrong_conditions() {
    let server = Server::start();
    let both = json!({"path": "/a", "value": 1, "if_version": "ver_1-1", "if_absent": true});
    assert!(put(&server, &both).refused(400, "VALIDATION_ERROR").contains("exclude each other"));
    for wrong in ["", "7", "ver_", "VER_1-1"] {
        let body = json!({"path": "/a", "value": 1, "if_version": wrong});
        assert!(put(&server, &body).refused(400, "VALIDATION_ERROR").contains("\"if_version\""), "{wrong}");
        let body = json!({"path": "/a", "if_version": wrong}).to_string();
        server.post("delete", body).refused(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
}

#[test]
fn conflict_hides_the_version_without_read_scope() {
    let server = Server::start();
    let current = version(&put(&server, &json!({"path": "/a", "value": 1})));
    let blind = server.key("acme", &[Scope::MemoryWrite]);
    let body = json!({"path": "/a", "value": 2, "if_absent": true}).to_string();
    let message = server.post_as(&blind, "put", body).refused(409, "CONFLICT");
    assert!(!message.contains(&current) && message.contains("memory:read"), "{message}");
}

#[test]
fn one_of_concurrent_puts_if_absent_wins() {
    let server = Server::start();
    let barrier = Barrier::new(WRITERS);
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let writers = (0..WRITERS).map(|writer| {
            let (server, barrier) = (&server, &barrier);
            scope.spawn(move || {
                barrier.wait();
                put(server, &json!({"path": "/one", "value": writer, "if_absent": true}))
            })
        });
        writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let won: Vec<usize> = (0..WRITERS).filter(|writer| replies[*writer].status == 200).collect();
    assert_eq!(won.len(), 1, "{won:?}");
    for (writer, reply) in replies.iter().enumerate().filter(|(writer, _)| *writer != won[0]) {
        let message = reply.refused(409, "CONFLICT");
        assert!(message.contains(&version(&replies[won[0]])), "{writer}: {message}");
    }
    assert!(server.get("/one").contains(&format!("\"value\":{}", won[0])));
    assert_eq!(server.ok("history", r#"{"path":"/one"}"#)["versions"].as_array().unwrap().len(), 1);
}

#[test]
fn repeat_of_a_conditional_put_returns_its_answer() {
    let server = Server::start();
    let send = |body: &Value| {
        let headers = format!("authorization: Bearer {}\r\nidempotency-key: k\r\n", server.key);
        server.request("POST", "/v1/put", &headers, body.to_string().as_bytes())
    };
    let body = json!({"path": "/a", "value": 1, "if_absent": true});
    let first = send(&body);
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(send(&body).text(), first.text());
    send(&json!({"path": "/a", "value": 1})).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
}
