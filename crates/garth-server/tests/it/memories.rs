//! Memories over HTTP.

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_engine::model::{Batch, Op};
use garth_engine::{FileSystem as _, TreePath};
use serde_json::{Value, json};

use super::harness::Server;

const ALICE: &str = "ctx://acme/users/alice/memories";

fn put(server: &Server, uri: &str, content: &str) -> Value {
    server.ok("memories/put", json!({"uri": uri, "content": content}).to_string())
}

#[test]
fn memory_lives_from_put_to_delete() {
    let server = Server::start();
    let (coffee, tea) = (format!("{ALICE}/preferences/coffee"), format!("{ALICE}/preferences/tea"));
    let made = put(&server, &coffee, "Black. No milk.");
    assert_eq!((&made["created"], &made["meta"]["version"]), (&json!(true), &json!(1)));
    assert_eq!(put(&server, &coffee, "Black. No milk.")["changed"], json!(false));
    let got = server.ok("memories/get", json!({"uri": coffee, "layer": 0}).to_string());
    assert_eq!((&got["text"], &got["layer"]), (&json!("Black."), &json!(0)));
    put(&server, &tea, "Green.");
    let edge = json!({"from_uri": coffee, "to_uri": tea, "relation_type": "related_to", "weight": 0.5});
    assert_eq!(server.ok("memories/relate", edge.to_string())["changed"], json!(true));
    let edges = server.ok("memories/relations", json!({"uri": tea, "direction": "incoming"}).to_string());
    assert_eq!((&edges["edges"][0]["from_uri"], &edges["edges"][0]["hops"]), (&json!(coffee), &json!(1)));
    server.ok("memories/tag", json!({"uri": tea, "add": ["drink"]}).to_string());
    let list = json!({"prefix": "ctx://acme/users/alice", "limit": 1});
    let page = server.ok("memories/list", list.to_string());
    assert_eq!((page["items"].as_array().unwrap().len(), &page["has_more"]), (1, &json!(true)));
    let tagged = server.ok("memories/list", json!({"tags": ["drink"]}).to_string());
    assert_eq!(tagged["items"][0]["uri"], json!(tea));
    let there = format!("{ALICE}/events/tea");
    server.ok("memories/move", json!({"uri": tea, "new_uri": there}).to_string());
    let gone = server.post("memories/get", json!({"uri": tea}).to_string()).refused(404, "NOT_FOUND");
    assert!(gone.contains(&there), "{gone}");
    let removed = server.ok("memories/unrelate", json!({"from_uri": coffee, "to_uri": there}).to_string());
    assert_eq!(removed["removed"], json!(1));
    server.ok("memories/delete", json!({"uri": there}).to_string());
    assert_eq!(server.ok("memories/exists", json!({"uri": there}).to_string())["exists"], json!(false));
    let stale = json!({"uri": coffee, "content": "White.", "if_version": 7});
    server.post("memories/put", stale.to_string()).refused(409, "CONFLICT");
}

#[test]
fn rejects_invalid_and_foreign_memories() {
    let server = Server::start();
    let get = |uri: &str| server.post("memories/get", json!({"uri": uri}).to_string());
    get("coffee").refused(400, "VALIDATION_ERROR");
    get("ctx://other/users/alice/memories/profile").refused(403, "FORBIDDEN");
    get(&format!("{ALICE}/profile")).refused(404, "NOT_FOUND");
    for body in [
        json!({"content": "x"}),
        json!({"uri": format!("{ALICE}/profile")}),
        json!({"uri": format!("{ALICE}/profile"), "content": "x", "relations": 1}),
        json!({"uri": format!("{ALICE}/profile"), "content": "x", "valid_from": "soon"}),
        json!({"uri": format!("{ALICE}/profile"), "content": "x", "class": "group"}),
        json!({"uri": format!("{ALICE}/hobbies/x"), "content": "x"}),
    ] {
        server.post("memories/put", body.to_string()).refused(400, "VALIDATION_ERROR");
    }
    let reader = server.key("acme", &[Scope::MemoryRead]);
    let body = json!({"uri": format!("{ALICE}/profile"), "content": "x"}).to_string();
    server.post_as(&reader, "memories/put", &body).refused(403, "FORBIDDEN");
    server.post("memories/list", json!({"prefix": "ctx://other"}).to_string()).refused(403, "FORBIDDEN");
}

#[test]
fn damaged_memory_is_not_quoted_to_write_only_keys() {
    let server = Server::start();
    let coffee = format!("{ALICE}/preferences/coffee");
    put(&server, &coffee, "Black.");
    let account = block_on(server.home.account("acme")).unwrap();
    let meta = TreePath::parse("/users/alice/memories/preferences/coffee/.meta.json").unwrap();
    block_on(account.commit(Batch::new([Op::write(meta, r#"{"status":"canary"}"#)]))).unwrap();
    let tag = json!({"uri": coffee, "add": ["drink"]}).to_string();
    let refused = |scopes: &[Scope]| {
        server.post_as(&server.key("acme", scopes), "memories/tag", &tag).refused(500, "CORRUPT")
    };
    let (writer, both) = (refused(&[Scope::MemoryWrite]), refused(&[Scope::MemoryWrite, Scope::MemoryRead]));
    assert!(!writer.contains("canary") && writer.contains("memory:read"), "{writer}");
    assert!(both.contains("canary"), "{both}");
}

#[test]
fn agent_reaches_own_and_users_memories_only() {
    let server = Server::start();
    server.own("bot", "alice");
    let ask = |call: &str, mut body: Value| {
        for (name, value) in [("agent", "bot"), ("user", "alice"), ("chat", "trip")] {
            body[name] = json!(value);
        }
        server.post(call, body.to_string())
    };
    let (own, other) = (format!("{ALICE}/profile"), "ctx://acme/users/bob/memories/profile");
    put(&server, other, "Bob is a canary.");
    put(&server, "ctx://acme/agents/eve/memories/profile", "Eve is a canary.");
    assert_eq!(ask("memories/put", json!({"uri": own, "content": "Alice."})).status, 200);
    let skill = json!({"uri": "ctx://acme/agents/bot/skills/search", "content": "Look up."});
    assert_eq!(ask("memories/put", skill).status, 200);
    let all = ask("memories/list", json!({})).json();
    let uris: Vec<&str> =
        all["items"].as_array().unwrap().iter().map(|item| item["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["ctx://acme/agents/bot/skills/search", own.as_str()]);
    for (call, body) in [
        ("memories/get", json!({"uri": other})),
        ("memories/delete", json!({"uri": other})),
        ("memories/move", json!({"uri": other, "new_uri": format!("{ALICE}/events/x")})),
        ("memories/relations", json!({"uri": other})),
        ("memories/relate", json!({"from_uri": own, "to_uri": other, "relation_type": "knows"})),
    ] {
        let changes = ["memories/delete", "memories/move"].contains(&call);
        let (status, code) = if changes { (403, "FORBIDDEN") } else { (404, "NOT_FOUND") };
        let refused = ask(call, body).refused(status, code);
        assert!(!refused.contains("canary"), "{refused}");
    }
    assert_eq!(ask("memories/exists", json!({"uri": other})).json(), json!({"exists": false}));
    let denied = ask("memories/put", json!({"uri": other, "content": "mine"}));
    assert!(denied.status == 404 || denied.status == 403, "{}", denied.text());
    assert_eq!(ask("memories/list", json!({"prefix": "ctx://acme/users/bob"})).json(), json!({"items": []}));
    let kept = server.ok("memories/get", json!({"uri": other}).to_string());
    assert_eq!(kept["text"], json!("Bob is a canary."));
    // Its event goes where the account stores events, which is not in the agent's own tree.
    assert_eq!(ask("memories/delete", json!({"uri": own})).status, 200);
}

#[test]
fn memory_log_pages_list_readable_versions() {
    let server = Server::start();
    let coffee = format!("{ALICE}/preferences/coffee");
    for text in ["One.", "Two.", "Three.", "Four.", "Five."] {
        put(&server, &coffee, text);
    }
    server.ok("memories/delete", json!({"uri": coffee}).to_string());
    let whole = server.ok("memories/log", json!({"uri": coffee}).to_string());
    let whole = whole["items"].as_array().unwrap();
    assert_eq!((whole.len(), &whole[0]["deleted"], &whole[0]["meta"]), (6, &json!(true), &json!(null)));
    assert_eq!(whole[5]["meta"]["version"], json!(1));
    for limit in [1, 2, 7] {
        let (mut items, mut body) = (Vec::new(), json!({"uri": coffee, "limit": limit}));
        loop {
            let page = server.ok("memories/log", body.to_string());
            items.extend(page["items"].as_array().unwrap().clone());
            if page["has_more"] != json!(true) {
                break;
            }
            body["cursor"] = page["next_cursor"].clone();
        }
        assert_eq!(&items, whole, "{limit}");
    }
    let get = |at: &Value| server.ok("memories/get", json!({"uri": coffee, "at": at}).to_string());
    assert_eq!(get(&json!(whole[5]["seq"].to_string()))["text"], json!("One."));
    assert_eq!(get(&whole[3]["version_id"])["text"], json!("Three."));
    let later = json!({"uri": coffee, "at": "2000-01-01T00:00:00Z"}).to_string();
    server.post("memories/get", later).refused(404, "NOT_FOUND");
    let never = json!({"uri": format!("{ALICE}/profile")}).to_string();
    server.post("memories/log", never).refused(404, "NOT_FOUND");
    let other = server.ok("memories/list", json!({"limit": 1}).to_string());
    let made_up = json!({"uri": coffee, "cursor": other["next_cursor"].as_str().unwrap_or("x")});
    server.post("memories/log", made_up.to_string()).refused(400, "VALIDATION_ERROR");
    let writer = server.key("acme", &[Scope::MemoryWrite]);
    server.post_as(&writer, "memories/log", json!({"uri": coffee}).to_string()).refused(403, "FORBIDDEN");
}

#[test]
fn memory_log_hides_foreign_memories() {
    let server = Server::start();
    server.own("bot", "alice");
    let (own, other) = (format!("{ALICE}/profile"), "ctx://acme/users/bob/memories/profile");
    put(&server, &own, "Alice.");
    let seq = put(&server, other, "Bob is a canary.")["seq"].to_string();
    let ask = |call: &str, uri: &str, more: Value| {
        let mut body = json!({"uri": uri, "agent": "bot", "user": "alice"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(call, body.to_string())
    };
    assert_eq!(ask("memories/log", &own, json!({})).json()["items"].as_array().unwrap().len(), 1);
    ask("memories/log", other, json!({})).refused(404, "NOT_FOUND");
    ask("memories/get", other, json!({"at": seq})).refused(404, "NOT_FOUND");
}

#[test]
fn memory_put_rejects_empty_text_by_default() {
    let server = Server::start();
    let body = json!({"uri": format!("{ALICE}/profile"), "content": " \n"});
    server.post("memories/put", body.to_string()).refused(400, "VALIDATION_ERROR");
    let asked = json!({"uri": format!("{ALICE}/profile"), "content": "", "allow_empty": true});
    assert_eq!(server.ok("memories/put", asked.to_string())["created"], json!(true));
}
