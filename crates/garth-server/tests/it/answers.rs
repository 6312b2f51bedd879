//! The fields of each answer, and values that come back digit for digit.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::model::VersionId;
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use serde_json::{Value, json};

use super::harness::Server;

fn fields(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn version(value: &Value) -> VersionId {
    value["version_id"].as_str().unwrap().parse().unwrap()
}

fn assert_time(value: &Value) {
    let text = value.as_str().unwrap();
    assert!(text.len() == 24 && text.starts_with("2026-01-27T00:00:0") && text.ends_with('Z'), "{text}");
}

#[test]
fn health_needs_no_key() {
    let server = Server::start();
    let reply = server.request("GET", "/healthz", "", b"");
    assert_eq!((reply.status, reply.json()), (200, json!({ "ok": true })));
}

#[test]
fn put_and_get_return_the_same_version() {
    let server = Server::start();
    let put = server.ok(
        "put",
        r#"{"agent_id":"default","path":"//user/tone/","value":{"tone":"direct"},"ttl_seconds":604800,
            "tags":["user","preferences"],"importance":0.5,"searchable":true}"#,
    );
    assert_eq!(fields(&put), BTreeSet::from(["ok", "version_id", "created_at"]));
    assert_eq!(put["ok"], true);
    assert_eq!(version(&put).seq.0, 1);
    assert_time(&put["created_at"]);
    let get = server.ok("get", r#"{"agent_id":"default","path":"/user/tone"}"#);
    let expected = json!({
        "found": true, "path": "/user/tone", "value": { "tone": "direct" }, "version_id": put["version_id"],
        "created_at": put["created_at"], "expires_at": "2026-02-03T00:00:00.000Z", "tags": ["user", "preferences"]
    });
    assert_eq!(get, expected);
    server.put("/user/tone", "2");
    let get = server.ok("get", r#"{"path":"/user/tone"}"#);
    assert_eq!((&get["expires_at"], &get["tags"], &get["value"]), (&Value::Null, &json!([]), &json!(2)));
}

#[test]
fn json_values_return_digit_for_digit() {
    let server = Server::start();
    let digits = "9".repeat(40);
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let values = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1.10",
        "1e5",
        "1E+400",
        "-0.0",
        &digits,
        "\"\"",
        "[]",
        "{}",
        r#""\u0000\ud83e\udd80é🦀 / \/ HTTP/1.1 400 Bad Request""#,
        r#"{ "b" : 1.0 , "a":[ 1,	2 ], "a": 3 }"#,
        &deep,
    ];
    for value in values {
        server.put("/v", value);
        let answer = server.get("/v");
        let head = r#"{"found":true,"path":"/v","value":"#;
        assert_eq!(&answer[..head.len()], head);
        assert_eq!(&answer[head.len()..head.len() + value.len()], value);
        let history = server.post("history", r#"{"path":"/v","limit":1}"#).text();
        assert!(history.contains(&format!("\"value\":{value},\"expires_at\":null")), "{value:.40}");
    }
}

#[test]
fn missing_value_answers_found_false() {
    let server = Server::start();
    assert_eq!(server.get("/never"), r#"{"found":false}"#);
    server.ok("put", r#"{"path":"/a","value":1,"ttl_seconds":5}"#);
    server.put("/b", "1");
    server.clock.advance(Duration::from_secs(5));
    server.ok("delete", r#"{"path":"/b"}"#);
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
    assert_eq!(server.get("/b"), r#"{"found":false}"#);
    assert_eq!(server.get("/sys/a"), r#"{"found":false}"#);
}

#[test]
fn delete_answers_even_if_nothing_exists() {
    let server = Server::start();
    server.put("/a/b", "1");
    for _ in 0..2 {
        let deleted = server.ok("delete", r#"{"path":"/a/b"}"#);
        assert_eq!(fields(&deleted), BTreeSet::from(["ok", "deleted", "version_id", "created_at"]));
        assert_eq!((&deleted["ok"], &deleted["deleted"]), (&json!(true), &json!(true)));
        assert!(deleted["version_id"].as_str().unwrap().starts_with("ver_"));
        assert_time(&deleted["created_at"]);
    }
    assert_eq!(server.ok("list", r#"{"prefix":"/"}"#), json!({ "items": [] }));
}

#[test]
fn list_returns_direct_children_sorted() {
    let server = Server::start();
    for key in ["/user/b/c", "/user/a", "/user/a/x", "/user/a-b", "/users2/y", "/z"] {
        server.put(key, "1");
    }
    let item = |path: &str, kind: &str| json!({ "path": path, "type": kind });
    let user =
        json!({ "items": [item("/user/a", "file"), item("/user/a-b", "file"), item("/user/b", "dir")] });
    for prefix in ["/user", "/user/", "//user"] {
        assert_eq!(server.ok("list", json!({ "prefix": prefix }).to_string()), user);
    }
    let top = json!({ "items": [item("/user", "dir"), item("/users2", "dir"), item("/z", "file")] });
    assert_eq!(server.ok("list", r#"{"prefix":"/"}"#), top);
    assert_eq!(server.ok("list", "{}"), top);
    assert_eq!(server.ok("list", r#"{"prefix":"/use"}"#), json!({ "items": [] }));
}

#[test]
fn glob_crosses_slashes_except_by_segment() {
    let server = Server::start();
    for key in ["/user/a", "/user/a/b", "/users2", "/é"] {
        server.put(key, "1");
    }
    let glob = |body: Value| server.ok("glob", body.to_string())["paths"].clone();
    assert_eq!(glob(json!({ "pattern": "/user/*" })), json!(["/user/a", "/user/a/b"]));
    assert_eq!(glob(json!({ "pattern": "/user/*", "semantics": "segment" })), json!(["/user/a"]));
    assert_eq!(
        glob(json!({ "pattern": "/user/**", "semantics": "segment" })),
        json!(["/user/a", "/user/a/b"])
    );
    assert_eq!(glob(json!({ "pattern": "/?", "semantics": null })), json!(["/é"]));
    for pattern in ["/user/*", "/user/**", "/u?er*", "/user?a"] {
        let like = glob(json!({ "pattern": pattern, "semantics": "like" }));
        assert_eq!(like, glob(json!({ "pattern": pattern })), "{pattern}");
        assert!(like.to_string().contains("/user/a/b") == pattern.ends_with('*'), "{pattern}: {like}");
    }
    assert_eq!(glob(json!({ "pattern": "/user?" })), json!([]));
    assert_eq!(glob(json!({ "pattern": "/user%" })), json!([]));
}

#[test]
fn history_is_newest_first_with_a_tombstone() {
    let server = Server::start();
    let first = server.ok("put", r#"{"path":"/a","value":1.10,"ttl_seconds":9}"#);
    let second = server.ok("delete", r#"{"path":"/a"}"#);
    let third = server.put("/a", "null");
    let history = server.ok("history", r#"{"path":"/a"}"#);
    let expected = json!({ "versions": [
        { "version_id": third["version_id"], "created_at": third["created_at"], "value": null,
          "expires_at": null, "deleted_at": null },
        { "version_id": second["version_id"], "created_at": second["created_at"], "value": {},
          "expires_at": null, "deleted_at": second["created_at"] },
        { "version_id": first["version_id"], "created_at": first["created_at"], "value": 1.10,
          "expires_at": "2026-01-27T00:00:09.000Z", "deleted_at": null },
    ] });
    assert_eq!(history, expected);
    assert_eq!(server.ok("history", r#"{"path":"/never"}"#), json!({ "versions": [] }));
}

#[test]
fn history_limit_has_default_and_maximum() {
    let server = Server::start();
    for number in 0..105 {
        server.put("/a", &number.to_string());
    }
    let count = |body: &str| server.ok("history", body)["versions"].as_array().unwrap().len();
    assert_eq!(count(r#"{"path":"/a"}"#), 20);
    assert_eq!(count(r#"{"path":"/a","limit":null}"#), 20);
    assert_eq!(count(r#"{"path":"/a","limit":1}"#), 1);
    assert_eq!(count(r#"{"path":"/a","limit":100}"#), 100);
    server.post("history", r#"{"path":"/a","limit":101}"#).refused(400, "VALIDATION_ERROR");
}

#[test]
fn history_cursor_before_oldest_is_gone() {
    let server = Server::start();
    let put = |value: u32| -> VersionId {
        let version = server.put("/a", &value.to_string())["version_id"].clone();
        version.as_str().unwrap().parse().unwrap()
    };
    let versions: Vec<VersionId> = (0..6).map(put).collect();
    let page = |cursor: &Value| {
        let body = json!({"path": "/a", "limit": 2, "cursor": cursor}).to_string();
        server.post("history", body)
    };
    let cursor = page(&page(&Value::Null).json()["next_cursor"]).json()["next_cursor"].clone();
    assert_eq!(page(&cursor).json()["versions"].as_array().unwrap().len(), 2);
    let commits = Some(put(6).seq.0 - versions[3].seq.0);
    block_on(async {
        let account = server.home.account("acme").await.unwrap();
        account.set_retention(Retention { commits, ..Retention::default() }).await.unwrap();
        account.gc(Duration::ZERO).await.unwrap();
    });
    page(&cursor).refused(410, "GONE");
    // From the start, the versions end with that of the oldest state.
    let first = page(&Value::Null).json();
    let last = page(&first["next_cursor"]).json();
    let values: Vec<&Value> = [&first, &last]
        .into_iter()
        .flat_map(|page| page["versions"].as_array().unwrap())
        .map(|version| &version["value"])
        .collect();
    assert_eq!(values, [6, 5, 4, 3]);
    assert!(last["next_cursor"].is_null());
}

/// Sets the retention of the account, and collects.
fn retain(server: &Server, retention: Retention) {
    // The last commit has a later time than the clock.
    server.clock.advance(Duration::from_secs(1));
    block_on(async {
        let account = server.home.account("acme").await.unwrap();
        account.set_retention(retention).await.unwrap();
        account.gc(Duration::ZERO).await.unwrap();
    });
}

#[test]
fn history_marks_values_that_are_gone() {
    let server = Server::start();
    for value in ["1", "2"] {
        server.put("/a", value);
    }
    server.ok("delete", r#"{"path":"/a"}"#);
    server.put("/a", "3");
    let limit = ContentLimit { pattern: PathPattern::parse("/agents/**").unwrap(), keep: Duration::ZERO };
    retain(&server, Retention { content: vec![limit], ..Retention::default() });
    let answer = server.ok("history", r#"{"path":"/a"}"#);
    let versions: Vec<[&Value; 2]> =
        answer["versions"].as_array().unwrap().iter().map(|item| [&item["value"], &item["gone"]]).collect();
    let (three, ended, yes, no) = (json!(3), json!({}), json!(true), json!(null));
    assert_eq!(versions, [[&three, &no], [&ended, &no], [&no, &yes], [&no, &yes]]);
    let deleted: Vec<bool> =
        answer["versions"].as_array().unwrap().iter().map(|item| item["deleted_at"].is_string()).collect();
    assert_eq!(deleted, [false, true, false, false]);
}

#[test]
fn history_has_the_time_of_get_at_oldest() {
    let server = Server::start();
    let put = server.put("/a", "1");
    server.clock.advance(Duration::from_secs(60));
    server.put("/b", "1");
    retain(&server, Retention { commits: Some(0), ..Retention::default() });
    let get = server.ok("get", r#"{"path":"/a"}"#);
    let history = server.ok("history", r#"{"path":"/a"}"#);
    assert_eq!(history["versions"][0]["version_id"], get["version_id"]);
    assert_eq!(history["versions"][0]["created_at"], get["created_at"]);
    assert_eq!(get["created_at"], put["created_at"]);
}

#[test]
fn files_of_a_session_are_listed_after_folding() {
    let server = Server::start();
    let of = |name: &str, more: Value| {
        let mut body = json!({"agent": "default", "user": "ann", "name": name});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    server.ok("sessions/create", of("early", json!({})));
    let oldest = block_on(async {
        let account = server.home.account("acme").await.unwrap();
        account.set_retention(Retention { commits: Some(0), ..Retention::default() }).await.unwrap();
        account.gc(Duration::ZERO).await.unwrap();
        account.retention().await.unwrap().oldest.0
    });
    server.ok("sessions/create", of("late", json!({})));
    for (name, begins) in [("early", Some(oldest)), ("late", None)] {
        let message = json!([{"role": "user", "content": "Where is the parser?"}]);
        server.ok("sessions/append", of(name, json!({"messages": message})));
        let page = server.ok("sessions/provenance", of(name, json!({})));
        let paths: Vec<&str> =
            page["items"].as_array().unwrap().iter().filter_map(|file| file["path"].as_str()).collect();
        assert!(paths.iter().any(|path| path.ends_with("messages.jsonl")), "{name}: {paths:?}");
        assert_eq!(page["oldest"].as_u64(), begins, "{name}");
    }
}

#[test]
fn agents_have_separate_keys() {
    let server = Server::start();
    server.ok("put", r#"{"agent_id":"other","path":"/a","value":1}"#);
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
    server.put("/a", "2");
    assert_eq!(server.ok("get", r#"{"agent_id":"default","path":"/a"}"#)["value"], 2);
    assert_eq!(server.ok("get", r#"{"agent_id":null,"path":"/a"}"#)["value"], 2);
    assert_eq!(server.ok("get", r#"{"agent_id":"other","path":"/a"}"#)["value"], 1);
}

#[test]
fn answers_have_unique_request_ids() {
    let server = Server::start();
    let ids: BTreeSet<String> = (0..20)
        .map(|_| server.post("get", r#"{"path":"/a"}"#).header("x-request-id").unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 20);
}

#[test]
fn calls_in_json_refuse_other_media_types() {
    let server = Server::start();
    let send = |more: &str| {
        let headers = format!("authorization: Bearer {}\r\n{more}\r\n", server.key);
        server.request("POST", "/v1/put", &headers, br#"{"path":"/a","value":1}"#)
    };
    for (header, advice) in [
        ("content-type: text/plain", "`Content-Type: application/json`"),
        ("content-type: application/json; charset=utf-16", "`Content-Type: application/json`"),
        ("content-encoding: gzip", "`Content-Encoding`"),
    ] {
        let message = send(header).refused(415, "UNSUPPORTED_MEDIA_TYPE");
        assert!(message.contains(advice), "{header}: {message}");
    }
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
    for header in
        ["content-type: application/json; charset=utf-8", "content-type: application/x-www-form-urlencoded"]
    {
        assert_eq!(send(header).status, 200, "{header}");
    }
}
