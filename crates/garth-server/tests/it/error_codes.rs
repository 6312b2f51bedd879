//! Every code of the table of errors, provoked by a request to a server. Where no request can provoke it, the
//! storage fails at a failpoint. The envelope is compared with the table in [`Reply::envelope`].

use std::collections::BTreeSet;
use std::time::Duration;

use futures::executor::block_on;
use garth_agent::session::{Collect, Sessions};
use garth_engine::datadir::{NewKey, Scope};
use garth_engine::model::{Batch, Op};
use garth_engine::runtime::failpoint::Failure;
use garth_engine::{DataDir, Env, TreePath};
use garth_server::{Limits, reference};
use serde_json::{Value, json};

use super::harness::{Connection, Reply, Server, request};

/// Provoked error: the answer, and its status, code, kind and path as they should be.
type Provoked = (Reply, u16, &'static str, &'static str, Option<&'static str>);

fn send(server: &Server, method: &str, target: &str, more: &str, body: &[u8]) -> Reply {
    let headers = format!("authorization: Bearer {}\r\n{more}", server.key);
    server.request(method, target, &headers, body)
}

fn of(mut body: Value) -> String {
    (body["agent"], body["user"]) = (json!("coder"), json!("ann"));
    body.to_string()
}

/// Errors of requests that are not HTTP as the server takes it.
fn of_http(server: &Server) -> Vec<Provoked> {
    let key = &server.key;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(500));
    let coded = format!(
        "POST /v1/get HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ntransfer-encoding: gzip, chunked\r\n\r\n\
         2\r\n{{}}\r\n0\r\n\r\n"
    );
    let other_method = send(server, "GET", "/v1/put", "", b"");
    assert_eq!(other_method.header("allow"), Some("POST"));
    let typed = send(server, "POST", "/v1/get", "content-type: text/csv\r\n", br#"{"path":"/a"}"#);
    let token = send(server, "POST", "/v1/put", "idempotency-key: a b\r\n", br#"{"path":"/a","value":1}"#);
    let large = server.post("put", vec![b'x'; 2_000_000]);
    vec![
        (server.raw(b"nonsense\r\n\r\n"), 400, "VALIDATION_ERROR", "invalid_argument", None),
        (server.raw(long.as_bytes()), 414, "VALIDATION_ERROR", "invalid_argument", None),
        (server.raw(many.as_bytes()), 431, "VALIDATION_ERROR", "invalid_argument", None),
        (server.raw(coded.as_bytes()), 501, "UNSUPPORTED", "unsupported", None),
        (server.post("nothing", "{}"), 404, "NOT_FOUND", "not_found", None),
        (other_method, 405, "METHOD_NOT_ALLOWED", "unsupported", None),
        (typed, 415, "UNSUPPORTED_MEDIA_TYPE", "unsupported", None),
        (token, 400, "INVALID_IDEMPOTENCY_KEY", "invalid_argument", None),
        (large, 413, "PAYLOAD_TOO_LARGE", "too_large", None),
        (server.post_as("garth_x.y", "get", "{}"), 401, "UNAUTHORIZED", "access_denied", None),
    ]
}

/// Errors of calls on values.
fn of_values(server: &Server) -> Vec<Provoked> {
    let reader = server.key("acme", &[Scope::MemoryRead]);
    server.put("/a", "1");
    let below = server.post("put", r#"{"path":"/a.json/b","value":1}"#);
    let taken = server.post("put", r#"{"path":"/a","value":1,"if_absent":true}"#);
    let repeats = [1, 2].map(|value| {
        let body = format!(r#"{{"path":"/repeat","value":{value}}}"#);
        send(server, "POST", "/v1/put", "idempotency-key: k\r\n", body.as_bytes())
    });
    let [_, other] = repeats;
    let reserved = server.post("put", r#"{"path":"/sys/a","value":1}"#);
    vec![
        (server.post("get", r#"{"path":"a"}"#), 400, "INVALID_PATH", "invalid_argument", Some("a")),
        (server.post("glob", r#"{"pattern":"a"}"#), 400, "INVALID_GLOB", "invalid_argument", None),
        (server.post_as(&reader, "put", "{}"), 403, "FORBIDDEN", "access_denied", None),
        (reserved, 403, "RESERVED_PATH", "access_denied", Some("/sys/a")),
        (below, 409, "PATH_CONFLICT", "already_exists", Some("/a.json/b")),
        (taken, 409, "CONFLICT", "conflict", Some("/a")),
        (other, 422, "IDEMPOTENCY_KEY_MISMATCH", "idempotency_mismatch", None),
    ]
}

/// Errors of calls on files.
fn of_files(server: &Server) -> Vec<Provoked> {
    server.ok("admin/quotas/set", r#"{"path":"/full","max_bytes":10}"#);
    assert_eq!(send(server, "PUT", "/v1/fs/f", "", b"x").status, 201);
    let beyond = send(server, "GET", "/v1/fs/f", "range: bytes=9-\r\n", b"");
    let unmet = send(server, "PUT", "/v1/fs/f", "if-none-match: *\r\n", b"y");
    let ruled = send(server, "PUT", "/v1/fs/g", "x-garth-meta-garth.of: x\r\n", b"x");
    let full = send(server, "PUT", "/v1/fs/full/a", "", &[b'x'; 11]);
    let missing = server.post("tree/stat", r#"{"path":"/none"}"#);
    let listed = server.post("tree/list", r#"{"path":"/f"}"#);
    vec![
        (beyond, 416, "VALIDATION_ERROR", "no_such_offset", None),
        (unmet, 412, "CONFLICT", "conflict", Some("/f")),
        (ruled, 400, "RULE_VIOLATION", "rule_violation", None),
        (full, 403, "QUOTA_EXCEEDED", "quota_exceeded", Some("/full")),
        (missing, 404, "NOT_FOUND", "not_found", Some("/none")),
        (listed, 409, "PATH_CONFLICT", "not_a_directory", Some("/f")),
    ]
}

/// Errors of calls on sessions.
fn of_sessions(server: &Server) -> Vec<Provoked> {
    server.own("coder", "ann");
    server.ok("sessions/create", of(json!({"name": "work"})));
    server.ok("context/pin", of(json!({"name": "work", "file": "system.md", "text": "You are a coder."})));
    let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]);
    server.ok("sessions/append", of(json!({"name": "work", "messages": messages})));
    let small = server.post("context/pack", of(json!({"name": "work", "budget": 5})));
    server.ok("context/pack", of(json!({"name": "work", "budget": 2000})));
    server.ok("sessions/set", of(json!({"name": "work", "state": "done"})));
    server.clock.advance(Duration::from_secs(60));
    // No call over HTTP may remove messages.
    let account = block_on(server.home.account("acme")).unwrap().overriding_rules();
    let policy = "/users/ann/agents/coder/session/work/context/gc.policy";
    let text = "keep_messages=0\nkeep_events=0\nhistory=delete\nhistory_ttl=0s\n";
    let write = Op::write(TreePath::parse(policy).unwrap(), text.to_owned()).with_parents();
    block_on(account.commit(Batch::new([write]))).unwrap();
    let sessions = Sessions::new(&*account, "ann", "coder").unwrap().env(server.home.env().clone());
    block_on(sessions.collect("work", &Collect::default())).unwrap();
    let gone = server.post("context/replay", of(json!({"name": "work"})));
    vec![(small, 422, "BUDGET_TOO_SMALL", "budget_too_small", None), (gone, 410, "GONE", "gone", None)]
}

/// Errors of a storage that is damaged or fails.
fn of_storage(server: &Server) -> Vec<Provoked> {
    let other = DataDir::open(server.home.folder(), Env::system(), garth_agent::registry()).unwrap();
    let lost = block_on(other.create_account("lost")).unwrap().folder;
    let lost = other.folder().join("accounts").join(lost);
    std::fs::rename(lost, other.folder().join("elsewhere")).unwrap();
    let operator = block_on(server.home.control().issue_key(NewKey::new(None, &[Scope::Admin]))).unwrap();
    let damaged = server.post_as(operator.1.reveal(), "tree/list", r#"{"path":"/accounts/lost"}"#);
    // Kept open: otherwise the next call would open it again, and succeed.
    let _account = block_on(server.home.account("acme")).unwrap();
    server.home.failpoints().arm("before-commit", Failure::Sync, 0);
    let put = || server.post("put", r#"{"path":"/late","value":1}"#);
    let (failed, unusable) = (put(), put());
    vec![
        (damaged, 500, "CORRUPT", "corrupt", Some("/accounts/lost")),
        (failed, 500, "INTERNAL", "io", None),
        (unusable, 503, "UNAVAILABLE", "poisoned", None),
    ]
}

/// The error of a body that does not arrive.
fn of_slow_bodies() -> Provoked {
    let server = Server::start_impatient();
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let bytes = request("PUT", "/v1/fs/a", &headers, &[b'x'; 1000]);
    // The server may close a connection before it reads the head.
    let answered = (0..1000).find_map(|_| {
        let mut connection = Connection::open(server.address);
        connection.send(&bytes[..bytes.len() - 900]);
        connection.reply_or_close()
    });
    (answered.unwrap(), 408, "REQUEST_TIMEOUT", "timed_out", None)
}

/// The error of a call beyond the limit of its key.
fn of_limited_keys() -> Provoked {
    let server = Server::start_limited(Limits::default().reads_per_minute(1));
    let get = || server.post("get", r#"{"path":"/a"}"#);
    let (_, refused) = (get(), get());
    (refused, 429, "RATE_LIMITED", "would_block", None)
}

#[test]
fn every_code_is_provoked_with_kind_and_path() {
    let server = Server::start();
    let all = [of_http(&server), of_values(&server), of_files(&server), of_sessions(&server)];
    // The storage last, because nothing can be written after it.
    let all =
        all.into_iter().flatten().chain(of_storage(&server)).chain([of_slow_bodies(), of_limited_keys()]);
    let mut provoked = BTreeSet::new();
    for (reply, status, code, kind, path) in all {
        let message = reply.refused(status, code);
        let error = reply.json()["error"].clone();
        assert_eq!(error["kind"], kind, "{code}: {message}");
        assert!(path.is_none_or(|path| error["path"] == path), "{error}");
        provoked.insert((code, status));
    }
    let mut listed = BTreeSet::new();
    for row in reference::errors() {
        listed.extend([row.status].iter().chain(&row.further_statuses).map(|status| (row.code, *status)));
    }
    assert_eq!(provoked, listed);
}
