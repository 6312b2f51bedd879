//! Writes of files under conditions, and writes that are sent again.

use std::time::Duration;

use super::{MIB, bytes, etag, get, head_of_account, put, send};
use crate::it::harness::{Reply, Server};

#[test]
fn reads_are_conditional() {
    let server = Server::start();
    put(&server, "/a", b"one");
    let old = etag(&server, "/a");
    put(&server, "/a", b"two");
    let new = etag(&server, "/a");
    assert_ne!(old, new);
    for (more, status) in [
        (format!("if-none-match: {new}\r\n"), 304),
        (format!("if-none-match: {old}\r\n"), 200),
        (format!("if-none-match: {old}, W/{new}\r\n"), 304),
        (format!("if-none-match: {old}\r\nif-none-match: {new}\r\n"), 304),
        ("if-none-match: *\r\n".to_owned(), 304),
        ("if-none-match: \"other\"\r\n".to_owned(), 200),
        (format!("if-match: {new}\r\n"), 200),
        (format!("if-match: \"x,y\", {new}\r\n"), 200),
        (format!("if-match: {old}\r\n"), 412),
        (format!("if-match: W/{new}\r\n"), 412),
        ("if-match: *\r\n".to_owned(), 200),
        (format!("if-match: {old}\r\nif-none-match: {new}\r\n"), 412),
        (format!("if-none-match: {new}\r\nrange: bytes=0-0\r\n"), 304),
        (format!("if-match: {}\r\n", new.trim_matches('"')), 400),
        ("if-match: \r\n".to_owned(), 400),
    ] {
        let reply = send(&server, "GET", "/a", &more, b"");
        assert_eq!(reply.status, status, "{more}");
        match status {
            200 => assert_eq!(reply.body, b"two"),
            304 => assert_eq!((reply.header("etag"), reply.body.len()), (Some(&*new), 0)),
            412 => drop(reply.refused(412, "CONFLICT")),
            _ => drop(reply.refused(400, "VALIDATION_ERROR")),
        }
    }
}

#[test]
fn writes_are_conditional() {
    let server = Server::start();
    put(&server, "/a", b"one");
    let old = etag(&server, "/a");
    put(&server, "/a", b"two");
    let missing = "/missing";
    for (method, body) in [("PUT", "x"), ("PATCH", "x"), ("DELETE", "")] {
        for (path, more) in [
            ("/a", format!("if-match: {old}\r\n")),
            ("/a", "if-match: \"other\"\r\n".to_owned()),
            ("/a", format!("if-match: W/{}\r\n", etag(&server, "/a"))),
            ("/a", format!("if-none-match: {old}, {}\r\n", etag(&server, "/a"))),
            ("/a", "if-none-match: *\r\n".to_owned()),
            (missing, "if-match: *\r\n".to_owned()),
            (missing, format!("if-match: {old}\r\n")),
        ] {
            let before = head_of_account(&server);
            let reply = send(&server, method, path, &more, body.as_bytes());
            reply.refused(412, "CONFLICT");
            assert_eq!(head_of_account(&server), before, "{method} {more}");
        }
        send(&server, method, "/a", "if-match: ver_1-1\r\n", body.as_bytes())
            .refused(400, "VALIDATION_ERROR");
    }
    assert_eq!(get(&server, "/a").body, b"two");
    let ok = |method: &str, path: &str, more: String, body: &str| {
        let reply = send(&server, method, path, &more, body.as_bytes());
        assert!(reply.status < 300, "{method} {more}: {}", reply.text());
    };
    ok("PUT", "/a", format!("if-match: {old}, {}\r\n", etag(&server, "/a")), "three");
    ok("PUT", "/a", format!("if-none-match: {old}\r\n"), "four");
    ok("PATCH", "/a", format!("if-match: {}\r\n", etag(&server, "/a")), " five");
    ok("PUT", "/b", "if-none-match: *\r\n".to_owned(), "new");
    assert_eq!((get(&server, "/a").body, get(&server, "/b").body), (b"four five".to_vec(), b"new".to_vec()));
    ok("DELETE", "/a", format!("if-match: {}\r\n", etag(&server, "/a")), "");
    assert_eq!(get(&server, "/a").status, 404);
}

#[test]
fn one_of_concurrent_creations_wins() {
    let server = Server::start();
    for size in [10, 700_000] {
        let path = format!("/new-{size}");
        let replies: Vec<(u64, Reply)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|seed| {
                    let (server, path) = (&server, &path);
                    scope.spawn(move || {
                        let body = bytes(seed, size);
                        (seed, send(server, "PUT", path, "if-none-match: *\r\n", &body))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let won: Vec<u64> =
            replies.iter().filter(|(_, reply)| reply.status == 201).map(|(seed, _)| *seed).collect();
        assert_eq!(won.len(), 1);
        assert!(replies.iter().all(|(seed, reply)| *seed == won[0] || reply.status == 412));
        assert!(get(&server, &path).body == bytes(won[0], size));
    }
}

#[test]
fn repeats_return_the_first_answer() {
    let server = Server::start();
    let large = bytes(7, MIB);
    let key = |name: &str| format!("idempotency-key: {name}\r\n");
    put(&server, "/gone", b"x");
    for (name, method, path, body) in [
        ("put", "PUT", "/a?ttl_seconds=600", b"one".as_slice()),
        ("new", "PUT", "/notes.md?free_name=true", b"one".as_slice()),
        ("append", "PATCH", "/log", b"line\n".as_slice()),
        ("large", "PATCH", "/log", large.as_slice()),
        ("delete", "DELETE", "/gone", b"".as_slice()),
    ] {
        let first = send(&server, method, path, &key(name), body);
        assert!(first.status < 300, "{name}: {}", first.text());
        server.clock.advance(Duration::from_secs(1));
        let before = head_of_account(&server);
        let again = send(&server, method, path, &key(name), body);
        assert_eq!((again.status, again.text()), (first.status, first.text()), "{name}");
        assert_eq!(again.header("etag"), first.header("etag"));
        assert_eq!(head_of_account(&server), before, "{name}");
        if method != "DELETE" {
            let other = send(&server, method, path, &key(name), b"other");
            other.refused(422, "IDEMPOTENCY_KEY_MISMATCH");
        }
    }
    assert_eq!(get(&server, "/log").body.len(), 5 + MIB);
    // Method, path and headers are part of the request.
    send(&server, "PATCH", "/a?ttl_seconds=600", &key("put"), b"one").refused(400, "VALIDATION_ERROR");
    send(&server, "PUT", "/b?ttl_seconds=600", &key("put"), b"one").refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    send(&server, "DELETE", "/log", &key("append"), b"").refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    let with_metadata = format!("{}x-garth-meta-a: b\r\n", key("put"));
    let other = send(&server, "PUT", "/a?ttl_seconds=600", &with_metadata, b"one");
    other.refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    // A condition that the first attempt has made false does not refuse its repeat.
    let new = format!("{}if-none-match: *\r\n", key("created"));
    let first = send(&server, "PUT", "/c", &new, b"x");
    let again = send(&server, "PUT", "/c", &new, b"x");
    assert_eq!((first.status, again.status, again.text()), (201, 201, first.text()));
}

#[test]
fn concurrent_repeats_append_once() {
    let server = Server::start();
    let texts: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let server = &server;
                scope.spawn(|| send(server, "PATCH", "/log", "idempotency-key: k\r\n", b"once").text())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert_eq!(get(&server, "/log").body, b"once");
}

#[test]
fn concurrent_repeats_under_a_condition_create_once() {
    let server = Server::start();
    // The second content is too long for a part of the commit.
    for (path, body) in [("/short", b"once".to_vec()), ("/long", bytes(7, MIB))] {
        let more = format!("idempotency-key: k{}\r\nif-none-match: *\r\n", path.len());
        let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        let reply = send(&server, "PUT", path, &more, &body);
                        (reply.status, reply.text())
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| answer.0 == 201 && *answer == answers[0]), "{answers:?}");
        assert!(get(&server, path).body == body);
    }
}
