//! `POST /v1/recall`: answers, refusals, and who sees what.

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use serde_json::{Value, json};

use super::harness::Server;

const COFFEE: &str = "ctx://acme/users/alice/memories/preferences/coffee";

fn server() -> Server {
    let server = Server::start();
    for (uri, content) in [
        (COFFEE, "Alice likes her coffee black."),
        ("ctx://acme/users/bob/memories/preferences/coffee", "Bob likes his coffee sweet: a canary."),
        ("ctx://acme/agents/bot/memories/cases/coffee", "The bot made coffee once."),
    ] {
        server.ok("memories/put", json!({"uri": uri, "content": content}).to_string());
    }
    server
}

fn sources(answer: &Value) -> Vec<&str> {
    answer["items"].as_array().unwrap().iter().map(|item| item["source"].as_str().unwrap()).collect()
}

#[test]
fn recall_stays_in_budget_and_names_sources() {
    let server = server();
    let asked = json!({"question": "how does Alice take her coffee", "budget": 100, "mode": "words"});
    let answer = server.ok("recall", asked.to_string());
    assert_eq!(sources(&answer)[0], COFFEE);
    assert!(
        answer["tokens"].as_u64().unwrap() <= 100 && answer["items"].as_array().unwrap().len() < 3,
        "{answer}"
    );
    let item = answer["items"][0].as_object().unwrap();
    let mut fields: Vec<&str> = item.keys().map(String::as_str).collect();
    fields.sort_unstable();
    let known = [
        "bytes", "found_in", "layer", "lines", "number", "parts", "path", "score", "sha256", "source",
        "text", "tokens", "version", "whole", "why",
    ];
    assert_eq!(fields, known);
    assert_eq!((&item["text"], &item["layer"]), (&json!("Alice likes her coffee black.\n"), &json!(2)));
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains(&format!("\n1 {COFFEE} {}\n", item["version"].as_str().unwrap())), "{text}");
    let within = json!({"question": "coffee", "within": ["/users/bob"], "valid_at": "2100-01-01T00:00:00Z"});
    assert_eq!(sources(&server.ok("recall", within.to_string())).len(), 1);
    let slash = json!({"question": "coffee", "within": ["/users/bob/"]});
    assert_eq!(sources(&server.ok("recall", slash.to_string())).len(), 1);
    let forever = json!({"question": "coffee", "within": ["/users/bob"], "until": "9999-12-31T23:59:59Z"});
    assert_eq!(sources(&server.ok("recall", forever.to_string())).len(), 1);
    let late = json!({"question": "coffee", "since": "9999-12-31T23:59:59Z"}).to_string();
    let refused = server.post("recall", late).refused(400, "VALIDATION_ERROR");
    assert!(refused.contains("the last one is 2262-04-11"), "{refused}");
    let none = server.ok("recall", json!({"question": "submarine periscopes"}).to_string());
    assert_eq!((&none["items"], &none["text"]), (&json!([]), &json!("Nothing fits the question.\n")));
    let by = |mode: &str| {
        let asked = json!({"question": "which hot beverage does she prefer", "mode": mode});
        server.ok("recall", asked.to_string())
    };
    let (near, alone) = (by("meaning"), by("words"));
    assert_eq!((&near["fits"], &alone["fits"], &alone["items"]), (&json!(false), &json!(false), &json!([])));
    assert!(sources(&near).contains(&COFFEE), "{near}");
    let past = server.ok("recall", json!({"question": "coffee", "as_of": "0"}).to_string());
    assert_eq!(past["items"], json!([]));
    assert!(past["notes"][0].as_str().unwrap().contains("are not found"), "{past}");
}

#[test]
fn recall_rejects_wrong_fields_and_scopes() {
    let server = server();
    for body in [
        json!({}),
        json!({"question": ""}),
        json!({"question": " \n"}),
        json!({"question": "x", "budget": 99}),
        json!({"question": "x", "budget": 32_001}),
        json!({"question": "x", "limit": 0}),
        json!({"question": "x", "within": vec!["/x"; 101]}),
        json!({"question": "x", "valid_at": "soon"}),
        json!({"question": "x", "class": "group"}),
        json!({"question": "x".repeat(8_193)}),
    ] {
        server.post("recall", body.to_string()).refused(400, "VALIDATION_ERROR");
    }
    let relative = json!({"question": "x", "within": ["relative"]}).to_string();
    let message = server.post("recall", relative).refused(400, "INVALID_PATH");
    assert_eq!(message, "\"within[0]\": a path starts with `/`");
    server.post("recall", json!({"question": "x", "as_of": "nowhen"}).to_string()).refused(404, "NOT_FOUND");
    let reader = server.key("acme", &[Scope::MemoryRead]);
    server.post_as(&reader, "recall", r#"{"question":"coffee"}"#).refused(403, "FORBIDDEN");
    let searcher = server.key("acme", &[Scope::SearchRead]);
    assert_eq!(server.post_as(&searcher, "recall", r#"{"question":"coffee"}"#).status, 200);
    block_on(server.home.create_account("other")).unwrap();
    let other = server.key("other", &[Scope::SearchRead]);
    let answer = server.post_as(&other, "recall", r#"{"question":"coffee"}"#).json();
    assert_eq!(answer["items"], json!([]));
}

#[test]
fn agent_recalls_own_and_users_memories_only() {
    let server = server();
    let ask = |question: &str| {
        let body = json!({"question": question, "agent": "bot", "user": "alice", "chat": "trip"});
        server.ok("recall", body.to_string())
    };
    let answer = ask("who made coffee, who likes it");
    let mut found = sources(&answer);
    found.sort_unstable();
    assert_eq!(found, ["ctx://acme/agents/bot/memories/cases/coffee", COFFEE]);
    for question in ["canary", "Bob sweet coffee", "coffee"] {
        let answer = ask(question).to_string();
        assert!(!answer.contains("canary") && !answer.contains("bob"), "{answer}");
    }
}
