//! Bytes of files over HTTP: `/v1/fs/{path}` and `/v1/uploads`.

mod concurrent;
mod conditional;
mod keys;
mod uploads;

use std::fmt::Write as _;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::FileSystem as _;
use garth_engine::home::{NewKey, Scope};
use garth_engine::model::Seq;
use garth_engine::path::{MAX_NAME, TreePath};
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use serde_json::{Value, json};

use super::harness::{Connection, Reply, Server, request};

const MIB: usize = 1 << 20;

/// Returns bytes that look random, the same for one seed.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Returns a path in which every byte but letters, digits and slashes is percent-encoded.
fn encoded(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").unwrap(),
        }
    }
    encoded
}

fn target(path: &str) -> String {
    format!("/v1/fs{path}")
}

fn headers(key: &str, more: &str) -> String {
    format!("authorization: Bearer {key}\r\n{more}")
}

/// Sends a request with the key that has all scopes. `path` may have a query.
fn send(server: &Server, method: &str, path: &str, more: &str, body: &[u8]) -> Reply {
    server.request(method, &target(path), &headers(&server.key, more), body)
}

/// Sends a request as [`send`] does, without the length of its body.
fn send_chunked(server: &Server, method: &str, path: &str, body: &[u8]) -> Reply {
    let head = format!(
        "{method} {} HTTP/1.1\r\nhost: localhost\r\n{}transfer-encoding: chunked\r\n\r\n",
        target(path),
        headers(&server.key, "")
    );
    let mut message = head.into_bytes();
    for chunk in body.chunks(70_000) {
        message.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        message.extend_from_slice(chunk);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"0\r\n\r\n");
    server.raw(&message)
}

fn put(server: &Server, path: &str, body: &[u8]) -> Value {
    let reply = send(server, "PUT", path, "", body);
    assert!(matches!(reply.status, 200 | 201), "{}", reply.text());
    reply.json()
}

fn get(server: &Server, path: &str) -> Reply {
    send(server, "GET", path, "", b"")
}

fn etag(server: &Server, path: &str) -> String {
    get(server, path).header("etag").unwrap().to_owned()
}

fn head_of_account(server: &Server) -> Seq {
    block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq
}

#[test]
fn bytes_of_any_size_survive_a_round_trip() {
    let server = Server::start();
    for (seed, size) in
        [0, 1, 1000, 16 << 10, (64 << 10) + 1, 256 << 10, (256 << 10) + 1, MIB, MIB + 1, 9 * MIB + 12_345]
            .into_iter()
            .enumerate()
    {
        let (path, sent) = (format!("/deep/er/{size}.bin"), bytes(seed as u64, size));
        let reply = send(&server, "PUT", &path, "", &sent);
        assert_eq!(reply.status, 201, "{}", reply.text());
        let answer = reply.json();
        assert_eq!(
            (&answer["path"], &answer["size"], &answer["created"]),
            (&json!(path), &json!(size), &json!(true))
        );
        let read = get(&server, &path);
        assert_eq!((read.status, read.body == sent), (200, true), "{size}");
        assert_eq!(read.header("etag"), reply.header("etag"));
        assert_eq!(read.header("etag").unwrap(), format!("\"{}\"", answer["etag"].as_str().unwrap()));
    }
    let again = send(&server, "PUT", "/deep/er/1000.bin", "", b"new");
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)));
    assert_eq!(get(&server, "/deep/er/1000.bin").body, b"new");
}

#[test]
fn body_without_length_is_stored() {
    let server = Server::start();
    let sent = bytes(3, 600_000);
    assert_eq!(send_chunked(&server, "PUT", "/chunked", &sent).status, 201);
    assert!(get(&server, "/chunked").body == sent);
}

#[test]
fn files_may_look_like_answers() {
    let server = Server::start();
    let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    // The last piece of the body is written to the connection alone.
    for before in [0, MIB, 4 * MIB] {
        let sent = [bytes(3, before), answer.to_vec()].concat();
        put(&server, "/a", &sent);
        assert!(get(&server, "/a").body == sent, "{before}");
    }
}

#[test]
fn ranges_are_slices_of_the_file() {
    let server = Server::start();
    let sent = bytes(1, 2 * MIB + 77);
    put(&server, "/a", &sent);
    let size = sent.len();
    for (from, to) in [(0, 1), (0, size), (1, 2), (MIB - 1, MIB + 1), (size - 1, size), (12_345, size - 6789)]
    {
        let part = send(&server, "GET", "/a", &format!("range: bytes={from}-{}\r\n", to - 1), b"");
        assert_eq!((part.status, part.body == sent[from..to]), (206, true), "{from}-{to}");
        assert_eq!(part.header("content-range"), Some(&*format!("bytes {from}-{}/{size}", to - 1)));
    }
    let last = send(&server, "GET", "/a", "range: bytes=-10\r\n", b"");
    assert!(last.body == sent[size - 10..]);
    let open = send(&server, "GET", "/a", &format!("range: bytes={}-\r\n", size - 3), b"");
    assert!(open.body == sent[size - 3..]);
    let beyond = send(&server, "GET", "/a", &format!("range: bytes={size}-\r\n"), b"");
    assert_eq!(beyond.header("content-range"), Some(&*format!("bytes */{size}")));
    let message = beyond.refused(416, "VALIDATION_ERROR");
    assert!(message.contains(&size.to_string()), "{message}");
    let other = send(&server, "GET", "/a", "range: bytes=0-1\r\nif-range: \"other\"\r\n", b"");
    assert_eq!((other.status, other.body.len()), (200, size));
    let same = format!("range: bytes=0-1\r\nif-range: {}\r\n", etag(&server, "/a"));
    assert_eq!(send(&server, "GET", "/a", &same, b"").body, sent[..2]);
}

#[test]
fn head_equals_get_without_body() {
    let server = Server::start();
    let attributes = "content-type: text/plain\r\nx-garth-meta-a: b\r\n";
    send(&server, "PUT", "/a", attributes, &bytes(2, 100_000));
    put(&server, "/dir/file", b"");
    for (path, more) in [
        ("/a", ""),
        ("/a", "if-none-match: *\r\n"),
        ("/a", "if-match: \"other\"\r\n"),
        ("/dir/file", ""),
        ("/dir", ""),
        ("/missing", ""),
    ] {
        let whole = send(&server, "GET", path, more, b"");
        let mut connection = Connection::open(server.address);
        connection.send(&request("HEAD", &target(path), &headers(&server.key, more), b""));
        let head = connection.reply_to(true);
        // Each answer has an id and a time of its own, and refusals contain the id.
        let kept = |reply: &Reply| {
            let of_answer = |header: &&(String, String)| !["x-request-id", "date"].contains(&&*header.0);
            reply.headers.iter().filter(of_answer).cloned().collect::<Vec<_>>()
        };
        assert_eq!((head.status, kept(&head)), (whole.status, kept(&whole)), "{path} {more}");
        // Nothing follows the head.
        connection.send(&request("GET", "/healthz", "", b""));
        assert_eq!(connection.reply().text(), r#"{"ok":true}"#);
    }
}

#[test]
fn head_ignores_ranges() {
    let server = Server::start();
    put(&server, "/a", &bytes(2, 1000));
    for range in ["bytes=5-9", "bytes=1000-"] {
        let mut connection = Connection::open(server.address);
        let more = headers(&server.key, &format!("range: {range}\r\n"));
        connection.send(&request("HEAD", &target("/a"), &more, b""));
        let head = connection.reply_to(true);
        assert_eq!((head.status, head.header("content-length")), (200, Some("1000")), "{range}");
    }
}

#[test]
fn writes_refuse_headers_that_they_do_not_observe() {
    let server = Server::start();
    put(&server, "/a", b"whole");
    let before = head_of_account(&server);
    for (more, status) in [
        ("content-range: bytes 1000-1999/2000\r\n", 400),
        ("content-encoding: gzip\r\n", 415),
        ("content-encoding: identity\r\ncontent-encoding: br\r\n", 415),
        ("if-unmodified-since: Tue, 27 Jan 2026 00:00:00 GMT\r\n", 400),
        ("if-range: \"ver_1-1\"\r\n", 400),
    ] {
        for (method, target) in
            [("PUT", "/v1/fs/a"), ("PATCH", "/v1/fs/a"), ("DELETE", "/v1/fs/a"), ("POST", "/v1/uploads")]
        {
            let body: &[u8] = if method == "DELETE" { b"" } else { b"part" };
            let reply = server.request(method, target, &headers(&server.key, more), body);
            let code = if status == 415 { "UNSUPPORTED_MEDIA_TYPE" } else { "VALIDATION_ERROR" };
            reply.refused(status, code);
        }
    }
    let upload = server.request("POST", "/v1/uploads", &headers(&server.key, "if-match: *\r\n"), b"x");
    upload.refused(400, "VALIDATION_ERROR");
    assert_eq!((get(&server, "/a").body, head_of_account(&server)), (b"whole".to_vec(), before));
    assert_eq!(send(&server, "PUT", "/a", "content-encoding: Identity\r\n", b"new").status, 200);
}

#[test]
fn names_are_kept_byte_for_byte() {
    let server = Server::start();
    let long = "ü".repeat(MAX_NAME / 2) + "x";
    let names = [
        "a b", "ü", "u\u{308}", "%", "%41", "a?b", "a#b", "a+b", "a&b=c", "...", ".a", "a.", " ", "日本",
        "😀", "a\\b", "a\n\u{1}", "*", "CON", "a:b", "~", "%2F", "{path}", &long,
    ];
    for (seed, name) in names.iter().enumerate() {
        let answer = put(&server, &encoded(&format!("/odd/{name}")), &bytes(seed as u64, 50));
        assert_eq!(answer["path"], json!(format!("/odd/{name}")));
    }
    for (seed, name) in names.iter().enumerate() {
        assert_eq!(get(&server, &encoded(&format!("/odd/{name}"))).body, bytes(seed as u64, 50), "{name:?}");
    }
    // Without an escape, where HTTP permits it.
    assert_eq!(get(&server, "/odd/ü").body, bytes(1, 50));
    assert_eq!(get(&server, "/odd/a+b").body, bytes(7, 50));
    // An encoded slash separates names.
    assert_eq!(get(&server, "/odd%2fa+b").body, bytes(7, 50));
    let account = block_on(server.home.account("acme")).unwrap();
    for name in names {
        let path = TreePath::parse(&format!("/odd/{name}")).unwrap();
        assert!(block_on(account.stat(&path.into())).is_ok(), "{name:?}");
    }
}

#[test]
fn rejects_paths_that_are_not_canonical() {
    let server = Server::start();
    put(&server, "/a/b", b"x");
    let too_long = format!("/{}", "x".repeat(MAX_NAME + 1));
    for path in [
        "/a//b",
        "//a",
        "/a/",
        "/./a",
        "/a/../a/b",
        "/..",
        "/%2e%2e/a",
        "/a/%2E/b",
        "/a%2f..%2fb",
        "/a%00b",
        "/a/%2F",
        "/100%",
        "/%zz",
        "/%4",
        "/a%u0041",
        &too_long,
    ] {
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let before = head_of_account(&server);
            send(&server, method, path, "", b"").refused(400, "INVALID_PATH");
            assert_eq!(head_of_account(&server), before, "{path}");
        }
    }
    send(&server, "GET", "/%ff", "", b"").refused(400, "INVALID_PATH");
}

#[test]
fn files_are_read_as_of_a_time_or_version() {
    let server = Server::start();
    let first = put(&server, "/a", b"one");
    let second = send(&server, "PATCH", "/a", "", b" two").json();
    send(&server, "DELETE", "/a", "", b"");
    assert_eq!(get(&server, "/a").status, 404);
    for (answer, content) in [(&first, "one"), (&second, "one two")] {
        let past = get(&server, &format!("/a?at={}", answer["seq"]));
        assert_eq!((past.status, past.text().as_str()), (200, content));
        assert_eq!(past.header("etag").unwrap().trim_matches('"'), answer["etag"].as_str().unwrap());
    }
    assert_eq!(get(&server, "/a?at=2026-01-26T00:00:00Z").status, 404);
    assert_eq!(get(&server, "/a?at=nobody%20made%20it").status, 404);
    put(&server, "/b", b"one");
    let old = get(&server, "/b").header("etag").unwrap().trim_matches('"').to_owned();
    put(&server, "/b", b"two");
    put(&server, "/c", b"other");
    assert_eq!(get(&server, &format!("/b?version={old}")).text(), "one");
    get(&server, &format!("/c?version={old}")).refused(404, "NOT_FOUND");
    get(&server, "/b?version=1").refused(400, "VALIDATION_ERROR");
    // A write has no past.
    send(&server, "PUT", "/b?at=1", "", b"x").refused(400, "VALIDATION_ERROR");
}

#[test]
fn parts_of_files_are_written() {
    let server = Server::start();
    let first = send(&server, "PATCH", "/logs/a", "", b"0123456789");
    assert_eq!((first.status, &first.json()["size"]), (201, &json!(10)));
    assert_eq!(send(&server, "PATCH", "/logs/a", "", b"abc").json()["size"], json!(13));
    assert_eq!(send(&server, "PATCH", "/logs/a?offset=2", "", b"XY").status, 200);
    send(&server, "PATCH", "/logs/a?offset=15", "", b"Z");
    assert_eq!(get(&server, "/logs/a").body, b"01XY456789abc\0\0Z");
    let large = bytes(5, 2 * MIB);
    send(&server, "PATCH", "/logs/a?offset=4", "", &large);
    assert!(get(&server, "/logs/a").body == [b"01XY".as_slice(), &large].concat());
    let unchanged = send(&server, "PATCH", "/logs/a", "", b"");
    assert_eq!(
        (unchanged.status, unchanged.header("etag"), &unchanged.json()["etag"]),
        (200, None, &Value::Null)
    );
    send(&server, "PATCH", "/missing?offset=0", "", b"x").refused(404, "NOT_FOUND");
    for offset in ["-1", "a", "1.5", "9007199254740992", "\"1\""] {
        let reply = send(&server, "PATCH", &format!("/logs/a?offset={}", encoded(offset)), "", b"x");
        reply.refused(400, "VALIDATION_ERROR");
    }
}

/// Writes `/logs/a` twice, and ends the content of the first write. Returns its sequence number.
fn end_first_content(server: &Server) -> u64 {
    let first = put(server, "/logs/a", b"one");
    put(server, "/logs/a", b"two");
    // The second commit has a later time than the clock.
    server.clock.advance(Duration::from_secs(1));
    let limit = ContentLimit { pattern: PathPattern::parse("/logs/**").unwrap(), keep: Duration::ZERO };
    block_on(async {
        let account = server.home.account("acme").await.unwrap();
        account.set_retention(Retention { content: vec![limit], ..Retention::default() }).await.unwrap();
        account.gc(Duration::ZERO).await.unwrap();
    });
    first["seq"].as_u64().unwrap()
}

#[test]
fn gone_content_names_path_and_sequence() {
    let server = Server::start();
    let seq = end_first_content(&server);
    let refused = get(&server, &format!("/logs/a?at={seq}")).refused(410, "GONE");
    let due = format!("/logs/a: the content at sequence number {seq} is no longer stored");
    assert!(refused.starts_with(&due), "{refused}");
    assert_eq!(get(&server, "/logs/a").body, b"two");
}

#[test]
fn gone_content_of_a_tree_without_versions_is_refused() {
    let server = Server::start();
    let seq = end_first_content(&server);
    server.ok("admin/overlays/create", json!({"id": "late", "at": seq.to_string()}).to_string());
    let new = NewKey::new(None, &[Scope::Admin]);
    let of_home = block_on(server.home.control().issue_key(new)).unwrap().1.reveal().to_owned();
    for (key, path, named) in [
        (&server.key, "/logs/a?overlay=late".to_owned(), "/logs/a"),
        (&of_home, format!("/accounts/acme/logs/a?at={seq}"), "/accounts/acme/logs/a"),
    ] {
        for more in ["", "range: bytes=0-0\r\n"] {
            let reply = server.request("GET", &target(&path), &headers(key, more), b"");
            let refused = reply.refused(410, "GONE");
            assert!(
                refused.starts_with(&format!("{named}: the content at sequence number {seq} ")),
                "{refused}"
            );
        }
        let mut connection = Connection::open(server.address);
        connection.send(&request("HEAD", &target(&path), &headers(key, ""), b""));
        assert_eq!(connection.reply_to(true).status, 410, "{path}");
    }
}

#[test]
fn attributes_travel_in_headers() {
    let server = Server::start();
    let sent = "content-type: text/x-note; charset=utf-8\r\nx-garth-meta-author: Ann\r\nX-Garth-Meta-%54itle: \
                100%25 caf%C3%A9\r\nx-garth-expires: 2026-02-01T00:00:00Z\r\n";
    assert_eq!(send(&server, "PUT", "/a", sent, b"x").status, 201);
    let read = get(&server, "/a");
    for (name, value) in [
        ("content-type", "text/x-note; charset=utf-8"),
        ("x-garth-meta-author", "Ann"),
        ("x-garth-meta-%54itle", "100%25 caf%c3%a9"),
        ("x-garth-expires", "2026-02-01T00:00:00.000Z"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'"),
    ] {
        assert_eq!(read.header(name), Some(value), "{name}");
    }
    let account = block_on(server.home.account("acme")).unwrap();
    let entry = block_on(account.stat(&TreePath::parse("/a").unwrap().into())).unwrap();
    assert_eq!(entry.attributes.metadata["Title"], "100% café");
    // A later write keeps what it does not name.
    send(&server, "PUT", "/a", "x-garth-meta-author: Bob\r\n", b"y");
    send(&server, "PATCH", "/a", "x-garth-meta-more: 1\r\n", b"z");
    let read = get(&server, "/a");
    assert_eq!(
        (read.header("x-garth-meta-author"), read.header("x-garth-meta-more")),
        (Some("Bob"), Some("1"))
    );
    assert_eq!(read.header("content-type"), Some("text/x-note; charset=utf-8"));
    assert_eq!(read.header("x-garth-meta-%54itle"), Some("100%25 caf%c3%a9"));
    for more in [
        "x-garth-meta-a: %\r\n",
        "x-garth-meta-a: 1\r\nx-garth-meta-%61: 2\r\n",
        "x-garth-expires: soon\r\n",
        "content-type: text\r\n",
    ] {
        send(&server, "PUT", "/b", more, b"x").refused(400, "VALIDATION_ERROR");
    }
    send(&server, "PUT", "/b", "x-garth-meta-garth.of: x\r\n", b"x").refused(400, "RULE_VIOLATION");
    assert_eq!(get(&server, "/b").status, 404);
}

#[test]
fn files_expire() {
    let server = Server::start();
    send(&server, "PUT", "/a?ttl_seconds=60", "", b"x");
    send(&server, "PUT", "/b", "x-garth-expires: 2026-01-27T00:01:00Z\r\n", b"x");
    send(&server, "PUT", "/c?ttl_seconds=60", "", b"x");
    send(&server, "PUT", "/c", "x-garth-expires: never\r\n", b"x");
    let both = send(&server, "PUT", "/d?ttl_seconds=60", "x-garth-expires: never\r\n", b"x");
    both.refused(400, "VALIDATION_ERROR");
    let statuses = || ["/a", "/b", "/c"].map(|path| get(&server, path).status);
    server.clock.advance(Duration::from_secs(59));
    assert_eq!(statuses(), [200, 200, 200]);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(statuses(), [404, 404, 200]);
}

#[test]
fn directories_are_listed_elsewhere_and_removed_on_request() {
    let server = Server::start();
    put(&server, "/dir/sub/a", b"x");
    for path in ["/dir", "/"] {
        let message = get(&server, path).refused(409, "PATH_CONFLICT");
        assert!(message.contains("`POST /v1/tree/list`"), "{message}");
        send(&server, "PUT", path, "", b"x").refused(409, "PATH_CONFLICT");
        send(&server, "PATCH", path, "", b"x").refused(409, "PATH_CONFLICT");
    }
    let message = send(&server, "DELETE", "/dir", "", b"").refused(409, "PATH_CONFLICT");
    assert!(message.contains("recursive=true"), "{message}");
    send(&server, "DELETE", "/dir?recursive=yes", "", b"").refused(400, "VALIDATION_ERROR");
    send(&server, "DELETE", "/dir/sub/a", "", b"x").refused(400, "VALIDATION_ERROR");
    assert_eq!(get(&server, "/dir/sub/a").status, 200);
    let removed = send(&server, "DELETE", "/dir?recursive=true", "", b"");
    assert_eq!((removed.status, &removed.json()["path"]), (200, &json!("/dir")));
    get(&server, "/dir/sub/a").refused(404, "NOT_FOUND");
    send(&server, "DELETE", "/dir", "", b"").refused(404, "NOT_FOUND");
    put(&server, "/file", b"x");
    send(&server, "PUT", "/file/below", "", b"x").refused(409, "PATH_CONFLICT");
    send(&server, "DELETE", "/?recursive=true", "", b"").refused(409, "PATH_CONFLICT");
}

#[test]
fn removals_take_an_empty_body_in_chunks() {
    let server = Server::start();
    put(&server, "/a", b"x");
    let remove = |chunks: &str| {
        let head = format!(
            "DELETE /v1/fs/a HTTP/1.1\r\nhost: localhost\r\n{}transfer-encoding: chunked\r\n\r\n{chunks}",
            headers(&server.key, "")
        );
        server.raw(head.as_bytes())
    };
    remove("1\r\nx\r\n0\r\n\r\n").refused(400, "VALIDATION_ERROR");
    remove("nonsense\r\n\r\n").refused(400, "VALIDATION_ERROR");
    assert_eq!(get(&server, "/a").status, 200);
    assert_eq!(remove("0\r\n\r\n").status, 200);
    assert_eq!(get(&server, "/a").status, 404);
}

#[test]
fn unsupported_methods_name_all_methods_of_the_path() {
    let server = Server::start();
    for (method, target, allow) in [
        ("POST", "/v1/fs/a", "GET, HEAD, PUT, PATCH, DELETE"),
        ("OPTIONS", "/v1/fs/a", "GET, HEAD, PUT, PATCH, DELETE"),
        ("POST", "/v1/fs/", "GET, HEAD, PUT, PATCH, DELETE"),
        ("GET", "/v1/uploads", "POST"),
    ] {
        let reply = server.request(method, target, &headers(&server.key, ""), b"x");
        assert!(reply.refused(405, "METHOD_NOT_ALLOWED").contains(allow), "{method} {target}");
        assert_eq!(reply.header("allow"), Some(allow));
    }
}

#[test]
fn new_files_take_free_names_on_request() {
    let server = Server::start();
    for path in ["/notes.md", "/notes (2).md", "/notes (3).md"] {
        let reply = send(&server, "PUT", "/notes.md?free_name=true", "", path.as_bytes());
        assert_eq!((reply.status, &reply.json()["path"]), (201, &json!(path)));
        assert_eq!(get(&server, &encoded(path)).body, path.as_bytes());
    }
    let both = send(&server, "PUT", "/notes.md?free_name=true", "if-match: *\r\n", b"x");
    both.refused(400, "VALIDATION_ERROR");
}

#[test]
fn new_files_at_the_same_time_take_free_names() {
    let server = Server::start();
    let put = || send(&server, "PUT", "/notes.md?free_name=true", "", b"x");
    let mut paths = std::thread::scope(|scope| {
        let puts: Vec<_> = (0..16).map(|_| scope.spawn(put)).collect();
        let replies = puts.into_iter().map(|put| put.join().unwrap());
        let path = |reply: Reply| {
            assert_eq!(reply.status, 201, "{}", reply.text());
            reply.json()["path"].as_str().unwrap().to_owned()
        };
        replies.map(path).collect::<Vec<_>>()
    });
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 16);
}

#[test]
fn agents_have_trees_and_upload_limits_of_their_own() {
    let server = Server::start();
    server.own("scout", "ann");
    let limit = usize::try_from(garth_agent::tree::MAX_UPLOAD).unwrap();
    let (ann, bob) = ("agent=scout&user=ann", "agent=scout&user=bob");
    assert_eq!(send(&server, "PUT", &format!("/plan.md?{ann}"), "", b"ann's").status, 201);
    assert_eq!(get(&server, &format!("/plan.md?{ann}")).body, b"ann's");
    assert_eq!(get(&server, &format!("/plan.md?{bob}")).status, 404);
    assert_eq!(get(&server, "/chats/ann/plan.md").body, b"ann's", "in the account");
    assert_eq!(get(&server, &format!("/chats/ann/plan.md?{bob}")).status, 404);
    let largest = bytes(6, limit);
    assert_eq!(send(&server, "PUT", &format!("/large?{ann}"), "", &largest).status, 201);
    let refused = send(&server, "PUT", &format!("/larger?{ann}"), "", &bytes(6, limit + 1));
    let message = refused.refused(413, "PAYLOAD_TOO_LARGE");
    assert!(message.contains(&limit.to_string()) && !message.contains("--"), "{message}");
    assert_eq!(get(&server, &format!("/larger?{ann}")).status, 404);
}

#[test]
fn refused_condition_says_which_it_was() {
    let server = Server::start();
    put(&server, "/there", b"x");
    for (path, condition, why) in [
        ("/there", "if-none-match: *", "/there: exists, and `If-None-Match: *` requires that it does not; "),
        (
            "/none",
            "if-match: *",
            "/none: does not exist, and `If-Match: *` requires it; leave the header out",
        ),
        ("/there", "if-match: \"ver_9-9\"", "its `ETag` is none of those in `If-Match`; read its current"),
    ] {
        let more = format!("{condition}\r\n");
        let message = send(&server, "PUT", path, &more, b"y").refused(412, "CONFLICT");
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn type_of_forms_is_not_stored() {
    let server = Server::start();
    let more = "content-type: application/x-www-form-urlencoded\r\n";
    assert_eq!(send(&server, "PUT", "/settings.json", more, b"{}").status, 201);
    assert_eq!(get(&server, "/settings.json").header("content-type"), Some("application/octet-stream"));
}

#[test]
fn unknown_moment_is_refused_with_all_forms() {
    let server = Server::start();
    put(&server, "/a", b"x");
    let message = server
        .request("GET", "/v1/fs/a?at=yesterdy", &headers(&server.key, ""), b"")
        .refused(404, "NOT_FOUND");
    assert!(message.contains("there is no snapshot named `yesterdy`; give a sequence (42)"), "{message}");
    let version = server
        .request("GET", "/v1/fs/a?version=banana", &headers(&server.key, ""), b"")
        .refused(400, "VALIDATION_ERROR");
    assert!(version.starts_with("\"version\": not a version id"), "{version}");
}
