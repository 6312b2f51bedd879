//! Several values in one call: one commit, or none of them.

use futures::executor::block_on;
use garth_engine::model::Seq;
use serde_json::{Value, json};

use super::harness::{Reply, Server};

fn head(server: &Server) -> Seq {
    block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq
}

fn put_many(server: &Server, items: &Value) -> Reply {
    server.post("put-many", json!({"items": items}).to_string())
}

#[test]
fn values_of_one_call_have_one_commit() {
    let server = Server::start();
    server.put("/old", "1");
    let before = head(&server);
    let items = json!([
        {"path": "/a", "value": {"n": 1}, "ttl_seconds": 60},
        {"path": "/b//c/", "value": "a needle", "tags": ["t"], "importance": 0.5, "searchable": true},
        {"path": "/old", "value": null},
    ]);
    let written = put_many(&server, &items).json();
    assert_eq!((&written["ok"], head(&server).0), (&json!(true), before.0 + 1));
    for (path, version) in ["/a", "/b/c", "/old"].iter().zip(written["version_ids"].as_array().unwrap()) {
        let found = server.ok("get", json!({"path": path}).to_string());
        assert_eq!((&found["version_id"], &found["created_at"]), (version, &written["created_at"]), "{path}");
    }
    let found = server.ok("search", r#"{"query":"needle"}"#);
    assert_eq!((&found["results"][0]["path"], &found["results"][0]["tags"]), (&json!("/b/c"), &json!(["t"])));
    server.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
}

#[test]
fn one_unmet_condition_stores_no_value() {
    let server = Server::start();
    let version = server.put("/a", "1")["version_id"].clone();
    let old = server.put("/b", "1")["version_id"].clone();
    server.put("/b", "2");
    for unmet in [
        json!({"path": "/a", "value": 2, "if_absent": true}),
        json!({"path": "/b", "value": 3, "if_version": old}),
    ] {
        let before = head(&server);
        let met = json!({"path": "/a/new", "value": 1, "if_absent": true});
        let message = put_many(&server, &json!([met, unmet])).refused(409, "CONFLICT");
        assert!(message.contains(&format!("`{}`", unmet["path"].as_str().unwrap())), "{message}");
        assert_eq!((server.get("/a/new").as_str(), head(&server)), (r#"{"found":false}"#, before));
    }
    let met = json!([{"path": "/a", "value": 2, "if_version": version}, {"path": "/c", "value": 1}]);
    assert_eq!(put_many(&server, &met).status, 200);
}

#[test]
fn wrong_items_are_named_and_store_nothing() {
    let server = Server::start();
    let before = head(&server);
    let fine = json!({"path": "/a", "value": 1});
    let both = json!({"path": "/b", "value": 1, "if_version": "ver_1-1", "if_absent": true});
    for (items, code, part) in [
        (json!([]), "VALIDATION_ERROR", "\"items\" must have 1 to 1000 values"),
        (json!([fine, 1]), "VALIDATION_ERROR", "\"items\" must be an array of at most 1000 objects"),
        (json!(vec![&fine; 1001]), "VALIDATION_ERROR", "\"items\" must be an array of at most 1000 objects"),
        (json!([fine, {"path": "/b"}]), "VALIDATION_ERROR", "\"items[1]\": \"value\" is missing"),
        (
            json!([{"path": "/a", "value": 1, "ttl": 60}]),
            "VALIDATION_ERROR",
            "\"items[0]\": \"ttl\" is not a field of this call; did you mean \"ttl_seconds\"?",
        ),
        (
            json!([{"path": "/a", "value": 1, "agent_id": "x"}]),
            "VALIDATION_ERROR",
            "\"items[0]\": \"agent_id\"",
        ),
        (json!([fine, both]), "VALIDATION_ERROR", "\"items[1]\": \"if_version\" and \"if_absent\""),
        (json!([fine, fine]), "VALIDATION_ERROR", "`/a`: a key is given twice"),
        (json!([fine, {"path": "b", "value": 1}]), "INVALID_PATH", "`b`"),
    ] {
        let message = put_many(&server, &items).refused(400, code);
        assert!(message.contains(part), "{message}");
    }
    let reserved = json!([fine, {"path": "/sys/b", "value": 1}]);
    assert!(put_many(&server, &reserved).refused(403, "RESERVED_PATH").contains("`/sys`"));
    let below = json!([{"path": "/x.json/y", "value": 1}, fine, {"path": "/x", "value": 1}]);
    let message = put_many(&server, &below).refused(409, "PATH_CONFLICT");
    assert!(message.starts_with("`/x` and `/x.json/y` exclude each other"), "{message}");
    let long = json!([{"path": "/a", "value": "x".repeat(1 << 20)}]);
    put_many(&server, &long).refused(413, "PAYLOAD_TOO_LARGE");
    assert_eq!(head(&server), before);
}

#[test]
fn bound_key_puts_values_within_its_prefix_alone() {
    let server = Server::start();
    server.own("scout", "ann");
    server.ok("put", r#"{"agent_id":"scout","path":"/faq/one","value":1}"#);
    let binding = json!({"agent": "scout", "user": "ann", "prefix": "/.agent/kv/faq"});
    let key = server.bound_key(&binding);
    // The first access by an identity makes a commit of its own.
    assert_eq!(server.post_as(&key, "get", r#"{"path":"/faq/one"}"#).json()["value"], 1);
    let before = head(&server);
    let send = |paths: &[&str]| {
        let items: Vec<Value> = paths.iter().map(|path| json!({"path": path, "value": 2})).collect();
        server.post_as(&key, "put-many", json!({"items": items}).to_string())
    };
    let message = send(&["/faq/two", "/other"]).refused(403, "FORBIDDEN");
    assert!(message.contains("`/other`"), "{message}");
    assert_eq!(head(&server), before);
    let written = send(&["/faq/one", "/faq/two"]);
    assert_eq!(written.status, 200, "{}", written.text());
    let stranger = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    let items = json!({"items": [{"path": "/faq/one", "value": 3}]});
    server.post_as(&stranger, "put-many", items.to_string()).refused(403, "FORBIDDEN");
}
