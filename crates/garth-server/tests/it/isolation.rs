//! Canaries: data of another account or agent is never shown, whatever the key, prefix, pattern or id is.

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use serde_json::{Value, json};

use super::harness::Server;

const CANARY: &str = "canary-7f3a";

/// Starts a server on which account `victim` and agent `victim` of `acme` store canaries.
fn server() -> Server {
    let server = Server::start();
    block_on(server.home.create_account("victim")).unwrap();
    let victim = server.key("victim", &[Scope::Admin]);
    for agent in ["default", "victim"] {
        for path in ["/a", "/user/secret", "/canary", "/sys2"] {
            let body = json!({ "agent_id": agent, "path": path, "value": CANARY, "tags": [CANARY], "searchable": true });
            assert_eq!(server.post_as(&victim, "put", body.to_string()).status, 200);
            if agent == "victim" {
                server.ok("put", body.to_string());
            }
        }
    }
    server
}

fn assert_unseen(server: &Server, call: &str, body: &Value) {
    let reply = server.post(call, body.to_string());
    assert!(!reply.text().contains(CANARY), "{call} {body}: {}", reply.text());
    assert!(reply.status < 500, "{call} {body}");
    if reply.status != 200 {
        reply.envelope();
    }
}

#[test]
fn no_path_or_pattern_reaches_foreign_data() {
    let server = server();
    let tricks = [
        "/../victim/kv/a",
        "/../../victim/agents/default/kv/a",
        "/..",
        "/%2e%2e/victim/kv/a",
        "/..%2fvictim",
        "/a/../../..",
        "/agents/victim/kv/a",
        "/.",
        "/victim",
        "/",
        "//",
        "/*",
        "/**",
        "/%",
        "/_",
        "/user/*",
        "/%/%",
        "/?",
        "/[a-z]*",
        "/{a,b}",
        "/\\..",
        "/..\\victim",
        "/accounts/victim/agents/default/kv/a",
        "/a\u{2024}\u{2024}/b",
        "/…/victim",
        "/~",
        "/a.json",
        "/../kv/a",
        "/a%00",
        "/user",
        "/use",
        "/users",
    ];
    for trick in tricks {
        for call in ["get", "delete", "history"] {
            assert_unseen(&server, call, &json!({ "path": trick }));
        }
        assert_unseen(&server, "list", &json!({ "prefix": trick }));
        assert_unseen(&server, "glob", &json!({ "pattern": trick }));
        assert_unseen(&server, "glob", &json!({ "pattern": trick, "semantics": "segment" }));
        assert_unseen(&server, "put", &json!({ "path": trick, "value": 1 }));
    }
    let victim = server.ok("glob", r#"{"agent_id":"victim","pattern":"/**"}"#);
    assert_eq!(
        victim["paths"],
        json!(["/a", "/canary", "/sys2", "/user/secret"]),
        "nothing of it was touched"
    );
}

#[test]
fn no_agent_id_reaches_another_agent() {
    let server = server();
    let tricks = [
        "victi",
        "victim2",
        "vict%",
        "_ictim",
        "vict*",
        "VICTIM",
        " victim",
        "victim ",
        "default/../victim",
        "./victim",
        "victim/kv",
        "../agents/victim",
        "%76ictim",
        "vict?m",
        "victim\u{200b}",
        "",
    ];
    for agent in tricks {
        for call in ["get", "history"] {
            assert_unseen(&server, call, &json!({ "agent_id": agent, "path": "/a" }));
        }
        assert_unseen(&server, "list", &json!({ "agent_id": agent, "prefix": "/" }));
        assert_unseen(&server, "glob", &json!({ "agent_id": agent, "pattern": "/**" }));
        assert_unseen(&server, "delete", &json!({ "agent_id": agent, "path": "/a" }));
    }
    assert_eq!(server.ok("get", r#"{"agent_id":"victim","path":"/a"}"#)["value"], CANARY);
}

#[test]
fn foreign_wildcards_are_plain_characters() {
    let server = Server::start();
    for key in ["/user/a", "/users2/a", "/us_r/a", "/us%r/a", "/us*r/a", "/..a/b", "/%2e%2e/c"] {
        server.put(key, &Value::from(key).to_string());
    }
    for prefix in ["/us_r", "/us%r", "/us*r", "/user", "/%2e%2e"] {
        let items = server.ok("list", json!({ "prefix": prefix }).to_string())["items"].clone();
        assert_eq!(items.as_array().unwrap().len(), 1, "{prefix}");
        assert!(items[0]["path"].as_str().unwrap().starts_with(&format!("{prefix}/")));
    }
    assert_eq!(server.ok("glob", r#"{"pattern":"/us_r/*"}"#)["paths"], json!(["/us_r/a"]));
    assert_eq!(server.ok("glob", r#"{"pattern":"/us%/*"}"#)["paths"], json!([]));
    server.ok("delete", r#"{"path":"/us_r/a"}"#);
    server.ok("delete", r#"{"path":"/us%/a"}"#);
    let left = ["/%2e%2e/c", "/..a/b", "/us%r/a", "/us*r/a", "/user/a", "/users2/a"];
    assert_eq!(server.ok("glob", r#"{"pattern":"/*"}"#)["paths"], json!(left));
}
