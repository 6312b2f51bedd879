//! Calls on API keys, and refusals of wrong keys.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::datadir::{NewKey, Scope};
use serde_json::{Value, json};

use super::harness::{Reply, Server};

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns a key of the data folder.
fn operator(server: &Server) -> String {
    let new = NewKey::new(None, &[Scope::Admin]);
    block_on(server.home.control().issue_key(new)).unwrap().1.reveal().to_owned()
}

/// Sends a call on keys under an idempotency key.
fn repeatable(server: &Server, key: &str, call: &str, idempotency_key: &str, body: &Value) -> Reply {
    let headers = format!("authorization: Bearer {key}\r\nidempotency-key: {idempotency_key}\r\n");
    server.request("POST", &format!("/v1/admin/keys/{call}"), &headers, body.to_string().as_bytes())
}

fn works(server: &Server, key: &str) -> bool {
    let reply = server.post_as(key, "get", r#"{"path":"/a"}"#);
    assert!([200, 401].contains(&reply.status), "{}", reply.text());
    reply.status == 200
}

#[test]
fn key_is_created_listed_rotated_and_revoked() {
    let server = Server::start();
    let own = text(&server.ok("admin/keys/list", "{}")["items"][0]["id"]);
    let body = r#"{"label":"scout","scopes":["memory:read","memory:read"],"expires_in":"30d"}"#;
    let created = server.ok("admin/keys/create", body);
    let secret = text(&created["secret"]);
    let id = text(&created["key"]["id"]);
    assert!(secret.starts_with(&format!("garth_{id}.")));
    let expected = json!({
        "id": id, "account": "acme", "label": "scout", "scopes": ["memory:read"], "binding": null,
        "created_at": "2026-01-27T00:00:00.000Z", "expires_at": "2026-02-26T00:00:00.000Z", "revoked_at": null,
        "maker": own,
    });
    assert_eq!(created, json!({"ok": true, "key": expected, "secret": secret}));
    assert!(works(&server, &secret));
    let listed = server.ok("admin/keys/list", "{}");
    assert!(listed["items"].as_array().unwrap().contains(&expected));
    assert!(!listed.to_string().contains(secret.split_once('.').unwrap().1));

    let rotated = server.ok("admin/keys/rotate", json!({"id": id, "grace_seconds": 60}).to_string());
    let next = text(&rotated["secret"]);
    assert_eq!(rotated["old"]["expires_at"], "2026-01-27T00:01:00.000Z");
    for same in ["label", "scopes", "binding", "expires_at", "account"] {
        assert_eq!(rotated["key"][same], expected[same], "{same}");
    }
    assert!(works(&server, &secret) && works(&server, &next));
    server.clock.advance(Duration::from_secs(60));
    assert!(!works(&server, &secret) && works(&server, &next));

    let revoke = json!({"id": rotated["key"]["id"]}).to_string();
    let revoked = server.ok("admin/keys/revoke", &revoke);
    assert_eq!(revoked["key"]["revoked_at"], "2026-01-27T00:01:00.000Z");
    assert!(!works(&server, &next));
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(server.ok("admin/keys/revoke", &revoke), revoked, "the first time stays");
    let count = |body: &str| server.ok("admin/keys/list", body)["items"].as_array().unwrap().len();
    assert_eq!((count("{}"), count(r#"{"revoked":true}"#)), (2, 3), "an expired key stays in the list");
}

#[test]
fn bound_key_is_shown_with_its_binding() {
    let server = Server::start();
    let binding = json!({"agent": "scout", "user": "ann", "prefix": "/notes", "read_only": true});
    let body = json!({"scopes": ["files:read", "files:write"], "binding": binding});
    let created = server.ok("admin/keys/create", body.to_string());
    assert_eq!(created["key"]["binding"], binding);
    for (body, why) in [
        (json!({"binding": {"agent": "a", "read_only": 1}}), "\"binding.read_only\" must be true or false"),
        (
            json!({"binding": {"agent": "a", "prefix": "/a/"}}),
            "\"binding.prefix\": a name must not be empty; leave",
        ),
        (json!({"binding": 1}), "\"binding\" must be an object"),
        (json!({"scopes": ["write"]}), "\"scopes\": a scope is one of"),
    ] {
        let message = server.post("admin/keys/create", body.to_string()).refused(400, "VALIDATION_ERROR");
        assert!(message.starts_with(why), "{message}");
    }
    let free = server.ok("admin/keys/create", r#"{"binding":null}"#);
    assert_eq!(free["key"]["binding"], Value::Null);
    assert_eq!(free["key"]["scopes"], json!(["memory:read", "memory:write", "search:read"]));
}

/// As a program sends it whose agent is missing: it must not get a key of the whole account.
#[test]
fn empty_binding_creates_no_key() {
    let server = Server::start();
    for binding in [json!({}), json!({"agent": null}), json!({"agent": null, "read_only": false})] {
        let body = json!({"binding": binding}).to_string();
        let message = server.post("admin/keys/create", body).refused(400, "VALIDATION_ERROR");
        assert!(message.contains("\"binding\" binds nothing"), "{binding}: {message}");
    }
    assert_eq!(server.ok("admin/keys/list", "{}")["items"].as_array().unwrap().len(), 1);
}

#[test]
fn read_only_key_writes_nothing() {
    let server = Server::start();
    let body = json!({"binding": {"agent": "scout", "read_only": true}}).to_string();
    let key = text(&server.ok("admin/keys/create", body)["secret"]);
    let message = server.post_as(&key, "put", r#"{"path":"/a","value":1}"#).refused(403, "FORBIDDEN");
    let expected = "this API key is read-only, so it lacks the scope `memory:write`; send one that may write";
    assert_eq!(message, expected);
}

#[test]
fn create_rejects_invalid_keys() {
    let server = Server::start();
    for body in [
        json!({"scopes": []}),
        json!({"scopes": ["everything"]}),
        json!({"scopes": ["admin"], "binding": {"agent": "scout"}}),
        json!({"binding": {"agents": "scout"}}),
        json!({"binding": {"agent": ""}}),
        json!({"binding": {"read_only": true}}),
        json!({"binding": {"agent": "scout", "prefix": "notes"}}),
        json!({"binding": {"agent": "scout", "class": "none"}}),
        json!({"expires_in": "0s"}),
        json!({"expires_in": "soon"}),
        json!({"expires_in": "300y"}),
        json!({"expires_in": "1h", "expires_at": "2027-01-01T00:00:00Z"}),
        json!({"expires_at": "2026-01-27T00:00:00Z"}),
        json!({"label": "x".repeat(257)}),
        json!({"label": "a\nb"}),
    ] {
        server.post("admin/keys/create", body.to_string()).refused(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.ok("admin/keys/list", r#"{"revoked":true}"#)["items"].as_array().unwrap().len(), 1);
    for call in ["rotate", "revoke"] {
        let body = r#"{"id":"0123456789abcdef"}"#;
        server.post(&format!("admin/keys/{call}"), body).refused(404, "NOT_FOUND");
    }
}

#[test]
fn keys_of_other_accounts_are_out_of_reach() {
    let server = Server::start();
    block_on(server.home.create_account("other")).unwrap();
    let (theirs, _) = block_on(server.home.control().create_key("other", "theirs", &[Scope::Admin])).unwrap();
    let id = &theirs.id;
    let mut messages = BTreeSet::new();
    for account in ["other", "none", ""] {
        for (call, body) in [
            ("create", json!({"account": account})),
            ("list", json!({"account": account})),
            ("rotate", json!({"account": account, "id": id})),
            ("revoke", json!({"account": account, "id": id})),
        ] {
            let reply = server.post(&format!("admin/keys/{call}"), body.to_string());
            messages.insert(reply.refused(403, "FORBIDDEN"));
        }
    }
    assert_eq!(messages.len(), 1, "the same whether the account exists: {messages:?}");
    for call in ["rotate", "revoke"] {
        server.post(&format!("admin/keys/{call}"), json!({"id": id}).to_string()).refused(404, "NOT_FOUND");
    }
    let own = server.ok("admin/keys/list", r#"{"account":"acme"}"#);
    assert!(!own.to_string().contains(id) && own["items"].as_array().unwrap().len() == 1, "{own}");
}

#[test]
fn key_of_data_folder_manages_keys_and_changes_no_account() {
    let server = Server::start();
    let operator = operator(&server);
    for (call, body) in [
        ("get", r#"{"path":"/a"}"#),
        ("put", r#"{"path":"/a","value":1}"#),
        ("memories/list", "{}"),
        ("sessions/list", r#"{"agent":"scout"}"#),
        ("recall", r#"{"question":"tea","budget":800}"#),
        ("agents/scout/prompt", "{}"),
        ("batch", r#"{"ops":[{"op":"mkdir","path":"/accounts/acme/d"}]}"#),
        ("tree/stat", r#"{"path":"/","user":"ann"}"#),
    ] {
        let message = server.post_as(&operator, call, body).refused(403, "FORBIDDEN");
        assert!(message.contains("of the data folder and opens no account"), "{call}: {message}");
    }
    let ask = |call: &str, body: Value| {
        let reply = server.post_as(&operator, &format!("admin/keys/{call}"), body.to_string());
        assert_eq!(reply.status, 200, "{call}: {}", reply.text());
        reply.json()
    };
    let created = ask("create", json!({"account": "acme", "scopes": ["memory:read"]}));
    assert_eq!(created["key"]["account"], "acme");
    assert!(works(&server, &text(&created["secret"])));
    let id = &created["key"]["id"];
    assert_eq!(ask("list", json!({"account": "acme"}))["items"].as_array().unwrap().len(), 2);
    let rotated = ask("rotate", json!({"account": "acme", "id": id, "grace_seconds": 0}));
    assert!(!works(&server, &text(&created["secret"])) && works(&server, &text(&rotated["secret"])));
    ask("revoke", json!({"account": "acme", "id": rotated["key"]["id"]}));
    assert!(!works(&server, &text(&rotated["secret"])));
    // Without an account, the calls are on its own kind.
    let another = ask("create", json!({"scopes": ["admin"]}));
    assert_eq!(another["key"]["account"], Value::Null);
    for body in [json!({}), json!({"scopes": ["memory:read"]}), json!({"scopes": ["admin", "memory:read"]})] {
        let reply = server.post_as(&operator, "admin/keys/create", body.to_string());
        let message = reply.refused(400, "VALIDATION_ERROR");
        assert!(message.contains("has the scope admin alone"), "{body}: {message}");
    }
    assert_eq!(ask("list", json!({}))["items"].as_array().unwrap().len(), 2);
    server.post_as(&operator, "admin/keys/create", r#"{"account":"none"}"#).refused(404, "NOT_FOUND");
}

#[test]
fn repeat_returns_the_same_secret() {
    let server = Server::start();
    let body = json!({"label": "scout", "expires_in": "30d"});
    let first = repeatable(&server, &server.key, "create", "k", &body);
    assert_eq!(first.status, 200, "{}", first.text());
    server.clock.advance(Duration::from_secs(60));
    let again = repeatable(&server, &server.key, "create", "k", &body);
    assert_eq!((again.status, again.json()), (200, first.json()));
    let other = repeatable(&server, &server.key, "create", "k", &json!({"label": "other"}));
    other.refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    let caller = server.key("acme", &[Scope::Admin]);
    let theirs = repeatable(&server, &caller, "create", "k", &body).json();
    assert_ne!(theirs["secret"], first.json()["secret"], "another caller creates a key of its own");
    server.clock.advance(Duration::from_secs(24 * 60 * 60));
    let late = repeatable(&server, &server.key, "create", "k", &body).refused(409, "CONFLICT");
    assert!(late.contains(&text(&first.json()["key"]["id"])), "{late}");
    assert_eq!(server.ok("admin/keys/list", "{}")["items"].as_array().unwrap().len(), 4);
}

#[test]
fn repeated_rotation_returns_the_same_secret() {
    let server = Server::start();
    let id = server.ok("admin/keys/create", "{}")["key"]["id"].clone();
    let body = json!({"id": id});
    let first = repeatable(&server, &server.key, "rotate", "k", &body);
    assert_eq!(first.status, 200, "{}", first.text());
    let again = repeatable(&server, &server.key, "rotate", "k", &body);
    assert_eq!((again.status, again.json()), (200, first.json()));
    repeatable(&server, &server.key, "create", "k", &json!({})).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    let message = repeatable(&server, &server.key, "rotate", "other", &body).refused(409, "CONFLICT");
    assert!(message.contains(&text(&first.json()["key"]["id"])), "{message}");
}

#[test]
fn concurrent_repeats_create_one_key() {
    let server = Server::start();
    let (barrier, body) = (Barrier::new(16), json!({"label": "scout"}));
    let answers: BTreeSet<String> = std::thread::scope(|scope| {
        let one = || {
            barrier.wait();
            let reply = repeatable(&server, &server.key, "create", "k", &body);
            assert_eq!(reply.status, 200, "{}", reply.text());
            reply.text()
        };
        let tries: Vec<_> = (0..16).map(|_| scope.spawn(one)).collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(answers.len(), 1);
    assert_eq!(server.ok("admin/keys/list", "{}")["items"].as_array().unwrap().len(), 2);
}

#[test]
fn calls_on_keys_commit_nothing() {
    let server = Server::start();
    let head = || block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq;
    let before = head();
    repeatable(&server, &server.key, "create", "k", &json!({}));
    server.ok("admin/keys/list", "{}");
    assert_eq!(head(), before);
}

#[test]
fn complete_key_is_no_id() {
    let server = Server::start();
    let id = server.key.split_once('.').unwrap().0;
    for call in ["admin/keys/revoke", "admin/keys/rotate"] {
        for id in [&*server.key, id] {
            let message = server.post(call, json!({"id": id}).to_string()).refused(400, "VALIDATION_ERROR");
            assert!(message.contains("the 16 digits that follow `garth_`"), "{message}");
            assert!(!message.contains(id), "{message}");
        }
    }
    assert!(works(&server, &server.key));
}

#[test]
fn expired_key_is_rejected_like_an_unknown_one() {
    let server = Server::start();
    let created = server.ok("admin/keys/create", r#"{"expires_in":"60s"}"#);
    let key = text(&created["secret"]);
    server.clock.advance(Duration::from_secs(59));
    assert!(works(&server, &key));
    server.clock.advance(Duration::from_secs(1));
    let expired = server.post_as(&key, "get", r#"{"path":"/a"}"#).refused(401, "UNAUTHORIZED");
    let unknown = server.post_as("garth_none", "get", r#"{"path":"/a"}"#).refused(401, "UNAUTHORIZED");
    assert_eq!(expired, unknown);
}

/// The clock stands still, so that no try is forgotten.
#[test]
fn wrong_keys_are_slowed_and_valid_ones_are_not() {
    let server = Server::start();
    let wrong = || server.post_as("garth_none", "get", r#"{"path":"/a"}"#).refused(401, "UNAUTHORIZED");
    let mut messages: BTreeSet<String> = (0..10).map(|_| wrong()).collect();
    let begin = server.home.env().instant();
    messages.insert(wrong());
    // At least: nothing here bounds a time from above.
    assert!(begin.elapsed() >= Duration::from_millis(100));
    assert_eq!(messages.len(), 1, "the same refusal");
    assert!(works(&server, &server.key));
}
