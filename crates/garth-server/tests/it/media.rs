//! Media over HTTP: bytes in and out.

use std::time::Duration;

use garth_agent::media::MAX_MEDIA;
use garth_engine::datadir::Scope;
use garth_server::{Limits, Options};
use serde_json::json;

use super::harness::{Connection, Reply, Server};

const PUT: &str = "/v1/agents/scout/media?session_key=agent:scout:main&name=a%20photo.png";

/// A server with a session that has the key of the main session.
fn server() -> Server {
    server_with(Limits::default())
}

fn server_with(limits: Limits) -> Server {
    let server = Server::start_with(Options::default().limits(limits));
    server.ok(
        "sessions/create",
        json!({"agent": "scout", "name": "work", "key": "agent:scout:main"}).to_string(),
    );
    server
}

fn put(server: &Server, target: &str, mime_type: &str, body: &[u8]) -> Reply {
    let headers = format!("authorization: Bearer {}\r\ncontent-type: {mime_type}\r\n", server.key);
    server.request("POST", target, &headers, body)
}

fn get(server: &Server, key: &str, headers: &str) -> Reply {
    let headers = format!("authorization: Bearer {}\r\n{headers}", server.key);
    server.request("GET", &format!("/v1/agents/scout/{key}"), &headers, b"")
}

#[test]
fn media_is_stored_and_served_by_range() {
    let server = server();
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let reply = put(&server, PUT, "image/png; x=y", &bytes);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let media = reply.json()["media"].clone();
    let key = media["key"].as_str().unwrap();
    assert!(key.starts_with("media/agent:scout:main/") && key.ends_with(".png"), "{key}");
    assert_eq!(
        (&media["size"], &media["content_type"], &media["metadata"]["originalFilename"]),
        (&json!(300_000), &json!("image/png; x=y"), &json!("a photo.png"))
    );
    let whole = get(&server, key, "");
    assert_eq!((whole.status, whole.body.as_slice()), (200, bytes.as_slice()));
    assert_eq!(whole.header("content-type"), Some("image/png; x=y"));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let part = get(&server, key, "range: bytes=1000-1999\r\n");
    assert_eq!((part.status, part.body.as_slice()), (206, &bytes[1000..2000]));
    assert_eq!(part.header("content-range"), Some("bytes 1000-1999/300000"));
    let beyond = get(&server, key, "range: bytes=300000-\r\n");
    assert_eq!(beyond.header("content-range"), Some("bytes */300000"));
    beyond.refused(416, "VALIDATION_ERROR");
    let etag = whole.header("etag").unwrap().to_owned();
    assert_eq!(get(&server, key, &format!("if-none-match: {etag}\r\n")).status, 304);
    assert_eq!(get(&server, key, "range: bytes=0-9\r\nif-range: \"other\"\r\n").status, 200);
    let listed = server.ok("agents/scout/media/list", r#"{"session_key":"agent:scout:main"}"#);
    assert_eq!(listed["items"], json!([media]));
    server.ok("agents/scout/media/delete", json!({"key": key}).to_string());
    assert_eq!(get(&server, key, "").status, 404);
}

#[test]
fn media_size_limit_is_exact() {
    let server = server();
    let largest = vec![7; usize::try_from(MAX_MEDIA).unwrap()];
    let reply = put(&server, PUT, "video/mp4", &largest);
    assert_eq!((reply.status, &reply.json()["media"]["size"]), (200, &json!(MAX_MEDIA)));
    let one_more = vec![7; usize::try_from(MAX_MEDIA).unwrap() + 1];
    let headers = format!("authorization: Bearer {}\r\ncontent-type: video/mp4\r\n", server.key);
    // Refused by its head: the rest need not be sent.
    let head = format!(
        "POST {PUT} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n",
        one_more.len()
    );
    let reply = server.raw(head.as_bytes());
    assert_eq!(reply.status, 413, "{}", reply.text());
    let listed = server.ok("agents/scout/media/list", r#"{"session_key":"agent:scout:main"}"#);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

#[test]
fn media_takes_room_while_it_is_sent_and_received() {
    let size = 1 << 20;
    let server = server_with(Limits::default().transfer_room(8 * size).room_wait(Duration::ZERO));
    let head = format!(
        "POST {PUT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: image/png\r\n\
         expect: 100-continue\r\ncontent-length: {size}\r\n\r\n",
        server.key
    );
    let content = vec![7; size];
    let stored = put(&server, PUT, "image/png", &content).json()["media"]["key"].clone();
    let mut connection = Connection::open(server.address);
    connection.send(head.as_bytes());
    // The server asks for the content once its room is taken.
    assert_eq!(connection.reply().status, 100);
    put(&server, PUT, "image/png", &content).refused(503, "UNAVAILABLE");
    get(&server, stored.as_str().unwrap(), "").refused(503, "UNAVAILABLE");
    assert_eq!(put(&server, PUT, "image/png", b"short").status, 200);
    connection.send(&content);
    assert_eq!(connection.reply().status, 200);
    assert_eq!(get(&server, stored.as_str().unwrap(), "").body, content);
}

#[test]
fn rejects_wrong_and_foreign_media_requests() {
    let server = server();
    for (target, mime_type, status) in [
        ("/v1/agents/scout/media?session_key=agent:other:main", "image/png", 400),
        ("/v1/agents/scout/media?session_key=..", "image/png", 400),
        ("/v1/agents/scout/media?session_key=agent:scout:main&x=y", "image/png", 400),
        ("/v1/agents/scout/media", "image/png", 400),
        (PUT, "no type", 400),
    ] {
        let reply = put(&server, target, mime_type, b"x");
        assert_eq!(reply.status, status, "{target}: {}", reply.text());
    }
    let key = put(&server, PUT, "image/png", b"secret").json()["media"]["key"].as_str().unwrap().to_owned();
    for bad in [
        key.replace("agent:scout", "agent:other"),
        "media/agent:scout:main/%2e%2e%2fx.png".to_owned(),
        "media/..%2f..%2fagents/x.png".to_owned(),
    ] {
        let reply = get(&server, &bad, "");
        assert!([400, 404].contains(&reply.status), "{bad}: {}", reply.text());
    }
    // Another account sees none of it.
    futures::executor::block_on(server.home.create_account("globex")).unwrap();
    let other = server.key("globex", &[Scope::Admin]);
    let headers = format!("authorization: Bearer {other}\r\n");
    assert_eq!(server.request("GET", &format!("/v1/agents/scout/{key}"), &headers, b"").status, 404);
    let reader = server.key("acme", &[Scope::MemoryRead]);
    let headers = format!("authorization: Bearer {reader}\r\ncontent-type: image/png\r\n");
    assert_eq!(server.request("POST", PUT, &headers, b"x").status, 403);
    assert_eq!(server.request("PUT", PUT, &headers, b"x").status, 405);
}
