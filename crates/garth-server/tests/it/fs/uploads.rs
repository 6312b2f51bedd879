//! Bytes that arrive: in part, slowly, too many, or for nothing.

use std::time::Duration;

use futures::executor::block_on;
use garth_engine::FileSystem as _;
use garth_engine::datadir::Scope;
use garth_engine::path::TreePath;
use garth_server::{Limits, Options};
use serde_json::json;

use super::{MIB, bytes, get, head_of_account, headers, put, send, send_chunked, target};
use crate::it::harness::{Connection, Server, request};

#[test]
fn broken_off_uploads_leave_nothing() {
    let server = Server::start();
    put(&server, "/a", b"old");
    let before = head_of_account(&server);
    for path in ["/a", "/new/file"] {
        for arrived in [0, 10_000, 3 * MIB] {
            let head = format!(
                "PUT {} HTTP/1.1\r\nhost: localhost\r\n{}content-length: {}\r\n\r\n",
                target(path),
                headers(&server.key, ""),
                4 * MIB
            );
            let mut connection = Connection::open(server.address);
            connection.send(head.as_bytes());
            connection.send(&bytes(4, arrived));
            connection.end();
            if let Some(reply) = connection.reply_or_close() {
                reply.refused(400, "VALIDATION_ERROR");
            }
        }
    }
    assert_eq!(head_of_account(&server), before);
    assert_eq!((get(&server, "/a").body, get(&server, "/new/file").status), (b"old".to_vec(), 404));
    assert_eq!(unused_packs(&server), 0);
}

/// Lets all leases of uploads end. Returns the number of pack files that are left without a use, after a
/// check that nothing else is.
fn unused_packs(server: &Server) -> u64 {
    server.clock.advance(Duration::from_secs(25 * 3600));
    let account = block_on(server.home.account("acme")).unwrap();
    // Writes that the server left to the background are done in order.
    block_on(account.sync()).unwrap();
    let left = block_on(account.gc_dry_run(Duration::ZERO)).unwrap();
    assert_eq!((left.staged, left.chunks), (0, 0));
    left.packs
}

#[test]
fn refused_writes_store_nothing() {
    let server = Server::start();
    let large = bytes(9, 3 * MIB);
    put(&server, "/a", b"old");
    put(&server, "/fixed/a", b"old");
    for (pattern, constraint, terms) in [
        ("/fixed/**", "read-only", json!({})),
        ("/small/**", "max-size", json!({"bytes": MIB})),
        ("/data/**", "json-lines", json!({})),
    ] {
        let rule = json!({"pattern": pattern, "constraint": constraint, "terms": terms});
        server.ok("admin/rules/set", rule.to_string());
    }
    server.ok("admin/quotas/set", json!({"path": "/q", "max_bytes": MIB}).to_string());
    let before = head_of_account(&server);
    for (path, more, code) in [
        ("/a", "if-match: \"ver_1-1\"\r\n", "CONFLICT"),
        ("/fixed/a", "", "RULE_VIOLATION"),
        ("/small/a", "", "RULE_VIOLATION"),
        ("/q/a", "", "QUOTA_EXCEEDED"),
        ("/a/b", "", "PATH_CONFLICT"),
    ] {
        let reply = send(&server, "PUT", path, more, &large);
        reply.refused(reply.status, code);
    }
    let upload = server.request("POST", "/v1/uploads?path=/q/a", &headers(&server.key, ""), &large);
    upload.refused(403, "QUOTA_EXCEEDED");
    assert_eq!((head_of_account(&server), unused_packs(&server)), (before, 0));
    // Only the commit can judge the content.
    send(&server, "PUT", "/data/a", "", &large).refused(400, "RULE_VIOLATION");
    assert_eq!((head_of_account(&server), unused_packs(&server)), (before, 0));
    assert_eq!(get(&server, "/a").body, b"old");
}

#[test]
fn refused_writes_do_not_wait_for_their_body() {
    let server = Server::start();
    server.ok("admin/quotas/set", json!({"path": "/q", "max_bytes": 10}).to_string());
    for target in ["/v1/fs/q/a", "/v1/uploads?path=/q/a"] {
        let method = if target.starts_with("/v1/fs") { "PUT" } else { "POST" };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\n{}content-length: {}\r\n\r\n",
            headers(&server.key, ""),
            3 * MIB
        );
        let mut connection = Connection::open(server.address);
        connection.send(head.as_bytes());
        connection.reply().refused(403, "QUOTA_EXCEEDED");
    }
}

#[test]
fn repeated_writes_store_their_content_once() {
    let server = Server::start();
    let large = bytes(10, 3 * MIB);
    let write = || {
        let reply = send(&server, "PUT", "/a", "idempotency-key: k\r\n", &large);
        (reply.status, reply.text())
    };
    let first = write();
    send(&server, "DELETE", "/a", "", b"");
    assert_eq!((write(), write()), (first.clone(), first));
    let other = send(&server, "PUT", "/a", "idempotency-key: k\r\n", &bytes(11, 3 * MIB));
    other.refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    assert_eq!(unused_packs(&server), 0);
}

#[test]
fn repeats_need_no_room() {
    let room = 16 * MIB;
    let server = Server::start_with(Options::default().limits(Limits::default().upload_room(room)));
    let write = |(method, target, body): &(&str, &str, Vec<u8>)| {
        let key = format!("{method}-{}", target.replace('/', "-"));
        let more = headers(&server.key, &format!("idempotency-key: {key}\r\n"));
        let reply = server.request(method, target, &more, body);
        (reply.status, reply.text())
    };
    let writes = [
        ("PUT", "/v1/fs/short", b"short".to_vec()),
        ("PATCH", "/v1/fs/short", b"er".to_vec()),
        ("PUT", "/v1/fs/long", bytes(1, MIB)),
        ("PATCH", "/v1/fs/long", bytes(2, MIB)),
        ("PUT", "/v1/fs/removed", b"x".to_vec()),
        ("DELETE", "/v1/fs/removed", Vec::new()),
        // It takes all room.
        ("POST", "/v1/uploads", bytes(3, room)),
    ];
    let first: Vec<_> = writes.iter().map(write).collect();
    assert!(first.iter().all(|(status, _)| matches!(status, 200 | 201)), "{first:?}");
    send(&server, "PUT", "/other", "", &bytes(4, MIB)).refused(403, "QUOTA_EXCEEDED");
    assert_eq!(writes.iter().map(write).collect::<Vec<_>>(), first);
    for (method, target, _) in writes.iter().filter(|(method, ..)| *method != "DELETE") {
        let (status, answer) = write(&(*method, *target, bytes(5, MIB)));
        assert_eq!(status, 422, "{method} {target}: {answer}");
    }
    assert_eq!(get(&server, "/short").body, b"shorter");
}

#[test]
fn uploads_take_a_bounded_room() {
    let server = Server::start_with(Options::default().limits(Limits::default().upload_room(16 * MIB)));
    let upload = |body: &[u8]| server.request("POST", "/v1/uploads", &headers(&server.key, ""), body);
    send(&server, "PUT", "/a", "", &bytes(1, 16 * MIB + 1)).refused(403, "QUOTA_EXCEEDED");
    let staged = upload(&bytes(1, 9 * MIB));
    assert_eq!(staged.status, 200, "{}", staged.text());
    upload(&bytes(2, 9 * MIB)).refused(403, "QUOTA_EXCEEDED");
    let batch = json!({"ops": [{"op": "write", "path": "/a", "staged": staged.json()["staged"]}]});
    server.ok("batch", batch.to_string());
    assert_eq!(upload(&bytes(2, 9 * MIB)).status, 200);
}

#[test]
fn discarded_uploads_take_room_of_their_tree_alone() {
    let server = Server::start_with(Options::default().limits(Limits::default().upload_room(16 * MIB)));
    server.own("scout", "ann");
    let [bob, eve] = ["bob", "eve"]
        .map(|user| server.bound_key(&json!({"agent": "scout", "user": user, "chat": format!("of-{user}")})));
    let upload =
        |key: &str, seed| server.request("POST", "/v1/uploads", &headers(key, ""), &bytes(seed, 9 * MIB));
    let staged = upload(&bob, 1).json()["staged"].clone();
    assert!(staged.is_object(), "{staged}");
    let discarded = server.post_as(&bob, "uploads/discard", json!({"id": staged["id"]}).to_string());
    assert_eq!(discarded.json(), json!({"ok": true}));
    upload(&bob, 2).refused(403, "QUOTA_EXCEEDED");
    assert_eq!(upload(&eve, 3).status, 200);
}

#[test]
fn upload_limit_counts_the_body_alone() {
    let server = Server::start();
    let limit = usize::try_from(garth_agent::tree::MAX_UPLOAD).unwrap();
    let [file, at] = ["/log?agent=scout&user=ann", "/log?agent=scout&user=ann&offset=5"];
    assert_eq!(send(&server, "PUT", file, "", &bytes(1, limit)).status, 201);
    // Longer than content that is part of the commit.
    let part = bytes(2, (256 << 10) + 1);
    for reply in [
        send(&server, "PATCH", file, "", &part),
        send_chunked(&server, "PATCH", file, &part),
        send(&server, "PATCH", at, "", &part),
        send_chunked(&server, "PATCH", at, &part),
    ] {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert!(get(&server, file).body[5..].starts_with(&part));
    let size = limit + 2 * part.len();
    assert_eq!(get(&server, file).body.len(), size);
    let more = bytes(3, limit + 1);
    for reply in [
        send(&server, "PATCH", file, "", &more),
        send_chunked(&server, "PATCH", file, &more),
        send(&server, "PATCH", at, "", &more),
        server.request("POST", "/v1/uploads?agent=scout&user=ann", &headers(&server.key, ""), &more),
    ] {
        let message = reply.refused(413, "PAYLOAD_TOO_LARGE");
        for part in [&*limit.to_string(), "`POST /v1/uploads`", "`POST /v1/batch`"] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert_eq!(get(&server, file).body.len(), size);
}

#[test]
fn parts_of_long_files_are_joined_by_a_batch() {
    let server = Server::start();
    let limit = usize::try_from(garth_agent::tree::MAX_UPLOAD).unwrap();
    let of_ann = "agent=scout&user=ann";
    let parts = [bytes(1, limit), bytes(2, 1000)];
    let staged = parts.each_ref().map(|part| {
        let target = format!("/v1/uploads?{of_ann}");
        let reply = server.request("POST", &target, &headers(&server.key, ""), part);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["staged"].clone()
    });
    let ops = json!([
        {"op": "write", "path": "/long", "staged": staged[0]},
        {"op": "append", "path": "/long", "staged": staged[1]},
    ]);
    server.ok("batch", json!({"agent": "scout", "user": "ann", "ops": ops}).to_string());
    assert!(get(&server, &format!("/long?{of_ann}")).body == parts.concat());
}

#[test]
fn uploads_that_arrive_at_once_share_their_room() {
    let server = Server::start_with(Options::default().limits(Limits::default().upload_room(16 * MIB)));
    let upload = |body: &[u8]| server.request("POST", "/v1/uploads", &headers(&server.key, ""), body);
    let head = format!(
        "POST /v1/uploads HTTP/1.1\r\nhost: localhost\r\n{}expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        headers(&server.key, ""),
        9 * MIB
    );
    let mut connection = Connection::open(server.address);
    connection.send(head.as_bytes());
    // The server asks for the content once its room is taken.
    assert_eq!(connection.reply().status, 100);
    let message = upload(&bytes(2, 9 * MIB)).refused(403, "QUOTA_EXCEEDED");
    assert!(message.contains("16777216"), "{message}");
    send(&server, "PUT", "/b", "", &bytes(2, 9 * MIB)).refused(403, "QUOTA_EXCEEDED");
    assert_eq!(upload(&bytes(3, 7 * MIB)).status, 200);
    connection.send(&bytes(1, 9 * MIB));
    assert_eq!(connection.reply().status, 200);
    upload(&bytes(4, MIB)).refused(403, "QUOTA_EXCEEDED");
}

#[test]
fn stalled_uploads_end() {
    let server = Server::start_impatient();
    let head = format!(
        "PUT /v1/fs/a HTTP/1.1\r\nhost: localhost\r\n{}content-length: 1000\r\n\r\nbegun",
        headers(&server.key, "")
    );
    let mut connection = Connection::open(server.address);
    connection.send(head.as_bytes());
    connection.reply().refused(408, "REQUEST_TIMEOUT");
    let account = block_on(server.home.account("acme")).unwrap();
    assert!(block_on(account.stat(&TreePath::parse("/a").unwrap().into())).is_err());
}

/// Returns a connection that has begun to read `/large`, and does not go on.
fn begun(server: &Server, key: &str) -> Connection {
    let mut reader = Connection::open(server.address);
    reader.send(&request("GET", "/v1/fs/large", &headers(key, ""), b""));
    assert!(reader.begun());
    reader
}

#[test]
fn slow_readers_take_a_bounded_room() {
    let limits = Limits::default().transfer_room(12 * MIB).room_wait(Duration::ZERO);
    let server = Server::start_with(Options::default().limits(limits));
    // More than sockets buffer.
    put(&server, "/large", &vec![7; 64 * MIB]);
    put(&server, "/small", b"small");
    let mut readers: Vec<Connection> = (0..4).map(|_| begun(&server, &server.key)).collect();
    get(&server, "/large").refused(503, "UNAVAILABLE");
    send(&server, "PUT", "/b", "", &vec![7; MIB]).refused(503, "UNAVAILABLE");
    // Short files take no room, and two greedy accounts leave room for a third.
    assert_eq!(get(&server, "/small").body, b"small");
    for name in ["greedy", "other"] {
        block_on(server.home.create_account(name)).unwrap();
        let key = server.key(name, &[Scope::Admin]);
        let stored = server.request("PUT", "/v1/fs/large", &headers(&key, ""), &vec![7; 64 * MIB]);
        assert_eq!(stored.status, 201, "{}", stored.text());
        if name == "greedy" {
            readers.extend((0..4).map(|_| begun(&server, &key)));
        }
    }
    // A reader that goes on gets everything, and gives its room back.
    let mut first = readers.remove(0);
    let reply = first.reply();
    assert_eq!((reply.status, reply.body.len()), (200, 64 * MIB));
}
