//! Connections: kept open between requests, an error envelope for anything but HTTP, and shutdown.

use std::net::TcpStream;

use bytes::Bytes;
use futures::executor::block_on;
use garth_engine::{FileSystemExt, TreePath};
use garth_server::{Hosts, Options};

use super::harness::{Connection, Server, request};

#[test]
fn connection_stays_open_after_refusals() {
    let server = Server::start();
    let mut connection = Connection::open(server.address);
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    for _ in 0..3 {
        connection.send(&request("POST", "/v1/get", &headers, br#"{"path":"/a"}"#));
        assert_eq!(connection.reply().status, 200);
        connection.send(&request("POST", "/v1/get", "", br#"{"path":"/a"}"#));
        connection.reply().refused(401, "UNAUTHORIZED");
        connection.send(&request("POST", "/v1/get", &headers, b"no json"));
        connection.reply().refused(400, "VALIDATION_ERROR");
        connection.send(&request("POST", "/v1/nothing", &headers, &vec![b'x'; 100_000]));
        connection.reply().refused(404, "NOT_FOUND");
        connection.send(&request("POST", "/v1/put", &headers, &vec![b'x'; 2_000_000]));
        connection.reply().refused(413, "PAYLOAD_TOO_LARGE");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let mut connection = Connection::open(server.address);
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let put = |value: u32| {
        request("POST", "/v1/put", &headers, format!(r#"{{"path":"/a","value":{value}}}"#).as_bytes())
    };
    let get = request("POST", "/v1/get", &headers, br#"{"path":"/a"}"#);
    connection.send(&[put(1), get.clone(), put(2), get].concat());
    let replies: Vec<_> = (0..4).map(|_| connection.reply()).collect();
    assert!(replies[1].text().contains("\"value\":1,"));
    assert!(replies[3].text().contains("\"value\":2,"));
}

#[test]
fn malformed_http_gets_the_error_envelope() {
    let server = Server::start();
    let long_target = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let long_head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(1_000_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(500));
    let requests: [&[u8]; 9] = [
        b"nonsense\r\n\r\n",
        b"POST /v1/get HTTP/9.9\r\n\r\n",
        b"POST /v1/get HTTP/1.1\r\nhost garth\r\n\r\n",
        b"POST /v1/get HTTP/1.1\r\na\0b: c\r\n\r\n",
        b"POST /v1/get HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/get HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        long_target.as_bytes(),
        long_head.as_bytes(),
        many.as_bytes(),
    ];
    for bytes in requests {
        let reply = server.raw(bytes);
        assert!((400..500).contains(&reply.status), "{}", reply.status);
        reply.envelope();
    }
}

#[test]
fn length_beyond_all_bodies_is_named() {
    let server = Server::start();
    for length in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
        for target in ["POST /v1/get", "PUT /v1/fs/a", "POST /v1/uploads"] {
            let key = &server.key;
            let head = format!("{target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n");
            let reply = server.raw(format!("{head}content-length: {length}\r\n\r\n").as_bytes());
            let message = reply.envelope();
            let is_named = message.contains("`Content-Length`") || message.contains("may have at most");
            assert!((400..500).contains(&reply.status) && is_named, "{target} {length}: {message}");
        }
    }
}

#[test]
fn http_1_1_requests_need_one_host() {
    let server = Server::start_with(Options::default().hosts(Some(Hosts::any())));
    for headers in ["", "host: a\r\nhost: a\r\n", "host: a b\r\n", "host: a/b\r\n", "host: \u{e9}\r\n"] {
        for target in ["/healthz", "/nothing", "http://a/healthz"] {
            let reply = server.raw(format!("GET {target} HTTP/1.1\r\n{headers}\r\n").as_bytes());
            let message = reply.refused(400, "VALIDATION_ERROR");
            assert_eq!(message, "a request must have exactly one valid `Host` header", "{headers}");
        }
    }
    for host in ["localhost", "127.0.0.1:8787", "[::1]:8787", "a.example", ""] {
        let reply = server.raw(format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!(reply.status, 200, "{host}");
        assert!(reply.header("x-request-id").is_some());
    }
    assert_eq!(server.raw(b"GET /healthz HTTP/1.0\r\n\r\n").status, 200);
    server.raw(b"GET /healthz HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n").refused(400, "VALIDATION_ERROR");
}

#[test]
fn bodies_with_other_codings_than_chunked_are_refused() {
    let server = Server::start();
    let headers = format!("host: localhost\r\nauthorization: Bearer {}\r\n", server.key);
    let mut connection = Connection::open(server.address);
    for coding in ["gzip, chunked", "chunked, chunked", "gzip\r\ntransfer-encoding: chunked"] {
        for (target, body) in [("PUT /v1/fs/a", "coded"), ("POST /v1/get", r#"{"path":"/a"}"#)] {
            let length = body.len();
            let message = format!(
                "{target} HTTP/1.1\r\n{headers}transfer-encoding: {coding}\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
            );
            connection.send(message.as_bytes());
            let message = connection.reply().refused(501, "UNSUPPORTED");
            assert!(message.contains("`chunked`"), "{coding}: {message}");
        }
    }
    connection.send(&request("GET", "/v1/fs/a", &headers.replace("host: localhost\r\n", ""), b""));
    connection.reply().refused(404, "NOT_FOUND");
    let message = format!(
        "PUT /v1/fs/a HTTP/1.1\r\n{headers}transfer-encoding: Chunked\r\n\r\n5\r\nplain\r\n0\r\n\r\n"
    );
    connection.send(message.as_bytes());
    assert_eq!(connection.reply().status, 201);
}

#[test]
fn request_before_malformed_one_is_answered() {
    let server = Server::start();
    let mut connection = Connection::open(server.address);
    let get =
        request("POST", "/v1/get", &format!("authorization: Bearer {}\r\n", server.key), br#"{"path":"/a"}"#);
    connection.send(&[&get[..], b"nonsense\r\n\r\n"].concat());
    assert_eq!(connection.reply().text(), r#"{"found":false}"#);
    connection.reply().refused(400, "VALIDATION_ERROR");
    assert!(connection.is_closed());
}

#[test]
fn truncated_body_writes_nothing() {
    let server = Server::start();
    let key = &server.key;
    let head = format!("POST /v1/put HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n");
    let mut connection = Connection::open(server.address);
    connection.send(format!("{head}transfer-encoding: chunked\r\n\r\nxyz\r\n").as_bytes());
    connection.reply().refused(400, "VALIDATION_ERROR");
    let mut connection = Connection::open(server.address);
    connection.send(format!("{head}content-length: 500\r\n\r\n{{\"path\":\"/a\",\"value\":1}}").as_bytes());
    drop(connection);
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
}

#[test]
fn shutdown_finishes_requests_and_closes_idle_connections() {
    let mut server = Server::start();
    let mut idle = Connection::open(server.address);
    idle.send(&request("GET", "/healthz", "", b""));
    assert_eq!(idle.reply().status, 200);
    let mut silent = Connection::open(server.address);
    let body = br#"{"path":"/a","value":1}"#;
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let bytes = request("POST", "/v1/put", &headers, body);
    let mut busy = Connection::open(server.address);
    // The answer 100 shows that the request has begun when the server begins to stop.
    let asking = format!("{headers}expect: 100-continue\r\n");
    let asking = request("POST", "/v1/put", &asking, body);
    busy.send(&asking[..asking.len() - body.len()]);
    assert_eq!(busy.reply().status, 100);
    server.begin_stop();
    assert!(idle.is_closed() && silent.is_closed());
    busy.send(body);
    let reply = busy.reply();
    assert_eq!((reply.status, reply.json()["ok"].as_bool()), (200, Some(true)));
    assert!(busy.is_closed());
    server.stopped();
    silent.send(&bytes);
    assert!(TcpStream::connect(server.address).is_err(), "nothing listens any more");
}

#[test]
fn slow_clients_are_disconnected() {
    let server = Server::start_impatient();
    let mut silent = Connection::open(server.address);
    assert!(silent.is_closed());
    let mut slow_head = Connection::open(server.address);
    slow_head.send(b"POST /v1/get HTTP/1.1\r\nhost:");
    assert!(slow_head.is_closed());
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let bytes = request("POST", "/v1/get", &headers, br#"{"path":"/a"}"#);
    let (reply, mut slow_body) = hurry(&server, &bytes[..bytes.len() - 1], Connection::reply_or_close);
    reply.refused(408, "REQUEST_TIMEOUT");
    assert!(slow_body.is_closed());
}

#[test]
fn clients_that_read_nothing_are_disconnected() {
    let mut server = Server::start_impatient();
    let tree = block_on(server.home.account("acme")).unwrap();
    let value = Bytes::from(format!("\"{}\"", "a".repeat(1_000_000)));
    futures::executor::block_on(async {
        let path = TreePath::parse("/agents/default/kv/a.json").unwrap();
        tree.mkdir_all(&path.parent().unwrap()).await.unwrap();
        for _ in 0..16 {
            tree.write(&path, value.clone()).await.unwrap();
        }
    });
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let bytes = request("POST", "/v1/history", &headers, br#"{"path":"/a","limit":16}"#);
    let ((), mut greedy) = hurry(&server, &bytes, |greedy| greedy.begun().then_some(()));
    server.begin_stop();
    server.stopped(); // only giving up ends this: the rest of the answer is not read
    assert!(greedy.rest() < 16_000_000);
}

/// Sends a request on its own connection. An impatient server may close the connection before it reads the
/// head, so this is tried again.
fn hurry<T>(server: &Server, bytes: &[u8], answer: impl Fn(&mut Connection) -> Option<T>) -> (T, Connection) {
    for _ in 0..1000 {
        let mut connection = Connection::open(server.address);
        connection.send(bytes);
        if let Some(answer) = answer(&mut connection) {
            return (answer, connection);
        }
    }
    panic!("the server closes every connection before it reads it");
}
