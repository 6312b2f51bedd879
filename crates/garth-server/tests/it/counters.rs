//! Increments and changes of the expiry: no lost update, no second effect of a repeat.

use std::sync::Barrier;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::model::Seq;
use serde_json::{Value, json};

use super::harness::{Reply, Server};

/// Writers at once.
const WRITERS: u64 = 64;

fn head(server: &Server) -> Seq {
    block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq
}

fn increment(server: &Server, body: &Value) -> Reply {
    server.post("increment", body.to_string())
}

/// Sends a call under an idempotency key.
fn send(server: &Server, call: &str, key: &str, body: &Value) -> Reply {
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: {key}\r\n", server.key);
    server.request("POST", &format!("/v1/{call}"), &headers, body.to_string().as_bytes())
}

#[test]
fn concurrent_increments_lose_no_update() {
    let server = Server::start();
    let barrier = Barrier::new(WRITERS as usize);
    let mut sums: Vec<u64> = std::thread::scope(|scope| {
        let writers = (0..WRITERS).map(|_| {
            scope.spawn(|| {
                barrier.wait();
                let reply = increment(&server, &json!({"path": "/n"}));
                assert_eq!(reply.status, 200, "{}", reply.text());
                reply.json()["value"].as_u64().unwrap()
            })
        });
        writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    sums.sort_unstable();
    assert_eq!(sums, (1..=WRITERS).collect::<Vec<_>>(), "each has a sum of its own");
    assert_eq!(server.ok("get", r#"{"path":"/n"}"#)["value"], WRITERS);
    assert_eq!(head(&server), Seq(WRITERS));
}

#[test]
fn repeat_of_increment_adds_nothing() {
    let server = Server::start();
    server.put("/n", "5");
    let body = json!({"path": "/n", "by": -2});
    let first = send(&server, "increment", "k", &body);
    assert_eq!(first.json()["value"], 3);
    let found = server.ok("get", r#"{"path":"/n"}"#);
    for name in ["version_id", "created_at"] {
        assert_eq!(first.json()[name], found[name], "{name}");
    }
    server.clock.advance(Duration::from_secs(5));
    assert_eq!(increment(&server, &json!({"path": "/n", "by": 10})).json()["value"], 13);
    let before = head(&server);
    assert_eq!(send(&server, "increment", "k", &body).text(), first.text());
    // What an increment needs is gone by then.
    server.put("/n", "\"text\"");
    assert_eq!(send(&server, "increment", "k", &body).text(), first.text());
    assert_eq!(head(&server).0, before.0 + 1, "the put alone");
    let other = json!({"path": "/n", "by": -3});
    send(&server, "increment", "k", &other).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
}

#[test]
fn increment_keeps_the_attributes() {
    let server = Server::start();
    server.ok("put", r#"{"path":"/n","value":1,"tags":["t"],"ttl_seconds":60}"#);
    let before = server.ok("get", r#"{"path":"/n"}"#);
    assert_eq!(increment(&server, &json!({"path": "//n/", "by": 4.0})).json()["value"], 5);
    let after = server.ok("get", r#"{"path":"/n"}"#);
    assert_eq!((&after["tags"], &after["expires_at"]), (&before["tags"], &before["expires_at"]));
    assert_ne!(after["version_id"], before["version_id"]);
    server.clock.advance(Duration::from_secs(60));
    let again = increment(&server, &json!({"path": "/n", "by": 0})).json();
    assert_eq!((&again["ok"], &again["value"]), (&json!(true), &json!(0)), "an expired value counts as 0");
}

#[test]
fn increment_refuses_what_is_no_integer() {
    const BY: &str = "\"by\" must be an integer from -9007199254740991 to 9007199254740991";
    const VALUE: &str = "the value is not an integer of 64 bits";
    let server = Server::start();
    for value in ["1.0", "1e3", "\"1\"", "null", "[1]", "9223372036854775808"] {
        server.put("/bad", value);
        let message = increment(&server, &json!({"path": "/bad"})).refused(400, "VALIDATION_ERROR");
        assert_eq!(message, VALUE, "{value}");
        assert!(server.get("/bad").contains(&format!("\"value\":{value},")), "{value}");
    }
    for (value, by) in [(i64::MAX, 1), (i64::MIN, -1)] {
        server.put("/most", &value.to_string());
        assert_eq!(increment(&server, &json!({"path": "/most", "by": -by})).json()["value"], value - by);
        let message =
            increment(&server, &json!({"path": "/most", "by": 2 * by})).refused(400, "VALIDATION_ERROR");
        assert_eq!(message, "the sum is not an integer of 64 bits");
    }
    let before = head(&server);
    for by in [json!(1_u64 << 53), json!(-1_i64 << 53), json!(0.5), json!([]), json!(u64::MAX)] {
        let message = increment(&server, &json!({"path": "/n", "by": by})).refused(400, "VALIDATION_ERROR");
        assert_eq!(message, BY, "{by}");
    }
    assert_eq!(increment(&server, &json!({})).refused(400, "VALIDATION_ERROR"), "\"path\" is missing");
    increment(&server, &json!({"path": "n"})).refused(400, "INVALID_PATH");
    increment(&server, &json!({"path": "/sys/n"})).refused(403, "RESERVED_PATH");
    increment(&server, &json!({"path": "/most.json/n"})).refused(409, "PATH_CONFLICT");
    assert_eq!(head(&server), before);
}

#[test]
fn expiry_is_set_and_removed_alone() {
    let server = Server::start();
    server.ok("put", r#"{"path":"/a","value":1.10,"tags":["t"]}"#);
    let expire = |body: Value| server.ok("expire", body.to_string());
    let set = expire(json!({"path": "/a", "ttl_seconds": 60}));
    let found = server.ok("get", r#"{"path":"/a"}"#);
    assert_eq!(set["expires_at"], "2026-01-27T00:01:00.000Z");
    for name in ["version_id", "created_at", "expires_at", "found"] {
        assert_eq!(set[name], found[name], "{name}");
    }
    assert!(server.get("/a").contains("\"value\":1.10,") && found["tags"] == json!(["t"]));
    assert_eq!(expire(json!({"path": "/a"}))["expires_at"], Value::Null);
    server.clock.advance(Duration::from_secs(60));
    assert!(server.get("/a").contains("\"expires_at\":null"));
    expire(json!({"path": "/a", "ttl_seconds": 1}));
    server.clock.advance(Duration::from_secs(1));
    let before = head(&server);
    for path in ["/a", "/none", "/a/b", "/sys/a"] {
        let none = expire(json!({"path": path, "ttl_seconds": 60}));
        assert_eq!(none, json!({"ok": true, "found": false}), "{path}");
    }
    for (body, code) in [
        (json!({"path": "/a", "ttl_seconds": 0}), "VALIDATION_ERROR"),
        (json!({"path": "/a", "ttl_seconds": i64::MAX / 1_000_000_000}), "VALIDATION_ERROR"),
        (json!({"path": "/a", "ttl": 60}), "VALIDATION_ERROR"),
        (json!({"ttl_seconds": 60}), "VALIDATION_ERROR"),
        (json!({"path": "/", "ttl_seconds": 60}), "INVALID_PATH"),
    ] {
        server.post("expire", body.to_string()).refused(400, code);
    }
    assert_eq!(head(&server), before);
}

#[test]
fn repeat_of_expire_sets_no_later_time() {
    let server = Server::start();
    server.put("/a", "1");
    let body = json!({"path": "/a", "ttl_seconds": 60});
    let first = send(&server, "expire", "k", &body);
    server.clock.advance(Duration::from_secs(30));
    assert_eq!(send(&server, "expire", "k", &body).text(), first.text());
    server.clock.advance(Duration::from_secs(30));
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
    assert_eq!(send(&server, "expire", "k", &body).text(), first.text());
    // A key without a value is a result, too.
    let none = send(&server, "expire", "none", &body);
    server.put("/a", "1");
    assert_eq!(send(&server, "expire", "none", &body).text(), none.text());
    assert!(server.get("/a").contains("\"expires_at\":null"));
}

#[test]
fn bound_key_changes_values_within_its_prefix_alone() {
    let server = Server::start();
    server.own("scout", "ann");
    for path in ["/faq/n", "/other"] {
        server.ok("put", json!({"agent_id": "scout", "path": path, "value": 1}).to_string());
    }
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann", "prefix": "/.agent/kv/faq"}));
    // The first access by an identity makes a commit of its own.
    assert_eq!(server.post_as(&key, "get", r#"{"path":"/faq/n"}"#).json()["value"], 1);
    let before = head(&server);
    for path in ["/other", "/new"] {
        let body = json!({"path": path}).to_string();
        let message = server.post_as(&key, "increment", body).refused(403, "FORBIDDEN");
        assert!(message.contains("the caller does not reach this key"), "{message}");
        let body = json!({"path": path, "ttl_seconds": 60}).to_string();
        assert_eq!(server.post_as(&key, "expire", body).json(), json!({"ok": true, "found": false}));
    }
    assert_eq!(head(&server), before);
    assert_eq!(server.post_as(&key, "increment", r#"{"path":"/faq/n"}"#).json()["value"], 2);
    assert_eq!(server.post_as(&key, "increment", r#"{"path":"/faq/new","by":7}"#).json()["value"], 7);
    let set = server.post_as(&key, "expire", r#"{"path":"/faq/n","ttl_seconds":60}"#).json();
    assert_eq!(set["found"], true);
    let stranger = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    server.post_as(&stranger, "increment", r#"{"path":"/faq/n"}"#).refused(403, "FORBIDDEN");
    let body = json!({"path": "/faq/n"}).to_string();
    assert_eq!(server.post_as(&stranger, "expire", body).json()["found"], false);
    let kept = server.ok("get", r#"{"agent_id":"scout","path":"/faq/n"}"#);
    assert_eq!((&kept["value"], &kept["expires_at"]), (&json!(2), &set["expires_at"]));
}
