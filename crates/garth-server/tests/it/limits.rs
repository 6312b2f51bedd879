//! How much a client may send: 1 MiB of body, declared or streamed; what is just within passes.

use super::harness::{Connection, Server};

/// Issue 2, item 7.
const MAX_BODY: usize = 1 << 20;

fn head(server: &Server, framing: &str) -> String {
    format!(
        "POST /v1/put HTTP/1.1\r\nhost: garth\r\nauthorization: Bearer {}\r\n{framing}\r\n\r\n",
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
fn a_body_of_exactly_the_limit_passes_and_a_byte_more_does_not() {
    let server = Server::start();
    assert_eq!(server.post("put", body(MAX_BODY)).status, 200);
    let value = "a".repeat(MAX_BODY - body(100).len() + value_of(&body(100)));
    assert!(server.get("/big").contains(&format!("\"value\":\"{value}\",")), "whole");
    server.post("put", body(MAX_BODY + 1)).refused(413, "PAYLOAD_TOO_LARGE");
    server.post("put", body(5 * MAX_BODY)).refused(413, "PAYLOAD_TOO_LARGE");
}

#[test]
fn a_declared_length_is_refused_before_the_body_comes() {
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
fn a_streamed_body_is_counted() {
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
fn who_asks_before_sending_is_told_before_sending() {
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

#[test]
fn lists_and_globs_give_five_hundred_at_most() {
    let server = Server::start();
    for number in 0..510 {
        server.put(&format!("/n/{number:03}"), "1");
    }
    let items = server.ok("list", r#"{"prefix":"/n"}"#)["items"].as_array().unwrap().clone();
    assert_eq!((items.len(), items[499]["path"].as_str()), (500, Some("/n/499")));
    let paths = server.ok("glob", r#"{"pattern":"/n/*"}"#)["paths"].as_array().unwrap().clone();
    assert_eq!((paths.len(), paths[499].as_str()), (500, Some("/n/499")));
}
