//! API keys and scopes. Both are decided before the body is read.

use futures::executor::block_on;
use garth_engine::datadir::Scope;

use super::harness::{Connection, Server};

#[test]
fn rejects_missing_and_wrong_api_keys() {
    let mut server = Server::start();
    let key = server.key.clone();
    let (wrong, cut) = (format!("{}x", &key[..key.len() - 1]), &key[..key.len() - 1]);
    let headers = [
        String::new(),
        format!("authorization: {key}\r\n"),
        format!("authorization: Basic {key}\r\n"),
        format!("authorization: Bearer {wrong}\r\n"),
        format!("authorization: Bearer {cut}\r\n"),
        format!("authorization: Bearer {}\r\n", key.to_uppercase()),
        format!("authorization: Bearer {key} {key}\r\n"),
        "authorization: Bearer \r\n".into(),
        "authorization: Bearer\r\n".into(),
        "authorization: \r\n".into(),
        "authorization: Bearer ' OR 1=1 --\r\n".into(),
        "authorization: Bearer \u{e9}\r\n".into(),
        format!("authorization: Bearer {}\r\n", "a".repeat(8000)),
        format!("authorization: Bearer {key}\r\nauthorization: Bearer {key}\r\n"),
        format!("x-api-key: {key}\r\n"),
    ];
    for headers in headers {
        let reply = server.request("POST", "/v1/get", &headers, br#"{"path":"/a"}"#);
        let message = reply.refused(401, "UNAUTHORIZED");
        assert!(!message.contains(&key), "a refusal repeats no secret");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    let message = server.request("POST", "/v1/get", "", b"{}").refused(401, "UNAUTHORIZED");
    assert!(message.contains("`Authorization: Bearer KEY`"), "{message}");
    for scheme in ["Bearer", "bearer", "BEARER", "Bearer "] {
        let headers = format!("Authorization: {scheme} {key}\r\n");
        assert_eq!(server.request("POST", "/v1/get", &headers, br#"{"path":"/a"}"#).status, 200);
    }
    server.begin_stop();
    server.stopped();
}

#[test]
fn revoked_key_is_rejected_at_once() {
    let server = Server::start();
    let (key, secret) = block_on(server.home.control().create_key("acme", "short", &[Scope::Admin])).unwrap();
    assert_eq!(server.post_as(secret.reveal(), "get", r#"{"path":"/a"}"#).status, 200);
    block_on(server.home.control().revoke_key(Some("acme"), &key.id)).unwrap();
    server.post_as(secret.reveal(), "get", r#"{"path":"/a"}"#).refused(401, "UNAUTHORIZED");
}

#[test]
fn refusal_does_not_wait_for_the_body() {
    let server = Server::start();
    let reader = server.key("acme", &[Scope::MemoryRead]);
    for (authorization, status, code) in [
        (String::new(), 401, "UNAUTHORIZED"),
        (format!("authorization: Bearer {reader}\r\n"), 403, "FORBIDDEN"),
    ] {
        for framing in ["content-length: 1000", "content-length: 99999999", "transfer-encoding: chunked"] {
            let mut connection = Connection::open(server.address);
            let head =
                format!("POST /v1/put HTTP/1.1\r\nhost: localhost\r\n{authorization}{framing}\r\n\r\n");
            connection.send(head.as_bytes());
            connection.reply().refused(status, code);
        }
    }
}

#[test]
fn missing_key_is_reported_before_body_errors() {
    let server = Server::start();
    for body in [&b"not json"[..], b"", b"{\"path\":\"/../..\"}", &vec![b'a'; 2 << 20]] {
        server.request("POST", "/v1/put", "", body).refused(401, "UNAUTHORIZED");
    }
}
