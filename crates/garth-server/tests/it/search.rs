//! `POST /v1/search`: refusals and hits.

use futures::executor::block_on;
use garth_engine::model::{Batch, Op};
use garth_engine::{ErrorKind, FileSystemExt, TreePath};
use serde_json::{Value, json};

use super::harness::Server;

fn paths(answer: &Value) -> Vec<&str> {
    answer["results"].as_array().unwrap().iter().map(|result| result["path"].as_str().unwrap()).collect()
}

fn put(server: &Server, body: &Value) {
    server.ok("put", body.to_string());
}

#[test]
fn search_returns_searchable_values_best_first() {
    let server = Server::start();
    put(
        &server,
        &json!({ "path": "/user/tone", "value": { "tone": "direct and warm" }, "searchable": true, "tags": ["p"] }),
    );
    put(&server, &json!({ "path": "/user/other", "value": "the tone of a bell", "searchable": true }));
    put(&server, &json!({ "path": "/user/hidden", "value": "tone tone tone" }));
    put(
        &server,
        &json!({ "path": "/users2/tone", "value": "direct tone", "searchable": true, "tags": ["p"] }),
    );
    let all = server.ok("search", r#"{"query":"What tone does the user prefer?"}"#);
    assert_eq!(all["results"].as_array().unwrap().len(), 3, "{all}");
    let first = all["results"][0].as_object().unwrap();
    let mut fields: Vec<&str> = first.keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["created_at", "path", "similarity", "tags", "value", "version_id"]);
    let scores: Vec<f64> = all["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["similarity"].as_f64().unwrap())
        .collect();
    assert!(
        scores.windows(2).all(|pair| pair[0] >= pair[1]) && scores.iter().all(|s| (0.0..1.0).contains(s))
    );
    let mut within = server.ok("search", r#"{"query":"tone","path_prefix":"/user"}"#);
    within["results"].as_array_mut().unwrap().sort_by_key(|result| result["path"].to_string());
    assert_eq!(paths(&within), ["/user/other", "/user/tone"], "by segment: not /users2");
    assert_eq!(paths(&server.ok("search", r#"{"query":"tone","path_prefix":"/user/tone"}"#)), ["/user/tone"]);
    assert_eq!(paths(&server.ok("search", r#"{"query":"tone","path_prefix":"/us_r"}"#)), [""; 0]);
    assert_eq!(
        server.ok("search", r#"{"query":"tone","tags_any":["p","q"]}"#)["results"].as_array().unwrap().len(),
        2
    );
    assert_eq!(server.ok("search", r#"{"query":"tone","limit":1}"#)["results"].as_array().unwrap().len(), 1);
    assert_eq!(paths(&server.ok("search", r#"{"query":"tone","agent_id":"other"}"#)), [""; 0]);
    assert_eq!(paths(&server.ok("search", r#"{"query":"%"}"#)), [""; 0]);
}

#[test]
fn search_returns_only_current_versions() {
    let server = Server::start();
    put(&server, &json!({ "path": "/a", "value": "walrus", "searchable": true }));
    let second = server.ok("put", r#"{"path":"/a","value":"heron 1.10","searchable":true}"#);
    put(&server, &json!({ "path": "/b", "value": "heron", "searchable": true, "ttl_seconds": 5 }));
    put(&server, &json!({ "path": "/c", "value": "heron", "searchable": true }));
    server.ok("delete", r#"{"path":"/c"}"#);
    server.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(paths(&server.ok("search", r#"{"query":"walrus"}"#)), [""; 0]);
    let heron = server.ok("search", r#"{"query":"heron"}"#);
    assert_eq!(paths(&heron), ["/a"]);
    assert_eq!(heron["results"][0]["version_id"], second["version_id"]);
    assert_eq!(heron["results"][0]["created_at"], second["created_at"]);
    server.ok("put", r#"{"path":"/a","value":"heron"}"#);
    assert_eq!(paths(&server.ok("search", r#"{"query":"heron"}"#)), [""; 0], "no longer searchable");
}

#[tokio::test]
async fn search_returns_only_key_value_files() {
    let server = Server::start();
    put(&server, &json!({ "path": "/a", "value": "heron", "searchable": true }));
    let tree = block_on(server.home.account("acme")).unwrap();
    let files = [
        ("/agents/default/kv/b.json", "\"heron\""),
        ("/agents/default/kv/c.json", "heron, but no JSON"),
        ("/agents/default/kv/d.txt", "heron"),
        ("/heron.txt", "heron"),
    ];
    // Some files are older than the rule.
    let older = files.map(|(path, content)| Op::write(TreePath::parse(path).unwrap(), content));
    tree.commit(Batch::new(older).overriding_rules()).await.unwrap();
    assert_eq!(paths(&server.ok("search", r#"{"query":"heron"}"#)), ["/a"]);
    let missing = tree.remove("/agents/default/kv/none.json").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn empty_search_says_why_and_what_to_do() {
    let server = Server::start();
    put(&server, &json!({ "path": "/user/hidden", "value": "tone" }));
    let note = |body: Value| {
        let answer = server.ok("search", body.to_string());
        assert_eq!(answer["results"], json!([]), "{answer}");
        answer["note"].as_str().unwrap().to_owned()
    };
    let asked = note(json!({ "query": "tone" }));
    assert!(asked.contains("\"searchable\": true") && !asked.contains("without"), "{asked}");
    put(&server, &json!({ "path": "/user/tone", "value": "tone", "searchable": true }));
    let filtered = note(json!({ "query": "tone", "path_prefix": "/other", "tags_any": ["x"] }));
    assert!(filtered.contains("without \"path_prefix\" and \"tags_any\""), "{filtered}");
    let open = note(json!({ "query": "tone", "in": ["/none"] }));
    assert!(open.contains("without \"in\"") && !open.contains("searchable"), "{open}");
    assert!(server.ok("search", r#"{"query":"tone"}"#).get("note").is_none());
}

#[test]
fn search_query_has_limits() {
    let server = Server::start();
    let (longest, longer) = ("é".repeat(2000), "é".repeat(2001));
    assert_eq!(server.ok("search", json!({ "query": longest }).to_string())["results"], json!([]));
    for body in [
        json!({}),
        json!({ "query": "" }),
        json!({ "query": longer }),
        json!({ "query": "a", "limit": 0 }),
        json!({ "query": "a", "limit": 51 }),
        json!({ "query": null }),
    ] {
        server.post("search", body.to_string()).refused(400, "VALIDATION_ERROR");
    }
    server.post("search", r#"{"query":"a","path_prefix":"user"}"#).refused(400, "INVALID_PATH");
    server.post("search", r#"{"query":"a","path_prefix":"/../x"}"#).refused(400, "INVALID_PATH");
    assert_eq!(server.ok("search", r#"{"query":"a","limit":50}"#)["results"], json!([]));
}
