//! Tests of `glob`, `grep` and `search`.

use garth_engine::TreePath;
use garth_engine::model::{Batch, Op};
use serde_json::{Value, json};

use super::{Client, write};
use crate::mcp::tools::answer::MAX_TEXT;
use crate::routes::test_calls::TestServer;

/// Runs a tool until its answer has no cursor, and returns the items of all answers.
async fn all(client: &Client<'_>, name: &str, mut arguments: Value, items: &str) -> Vec<Value> {
    let mut found = Vec::new();
    loop {
        let answer = client.ok(name, arguments.clone()).await;
        assert!(answer.text.len() <= MAX_TEXT, "{} bytes", answer.text.len());
        found.extend(answer.structured[items].as_array().unwrap().clone());
        let Some(cursor) = answer.structured["cursor"].as_str() else { return found };
        assert!(answer.text.ends_with(&format!("call again with cursor = {cursor:?}.")), "{}", answer.text);
        arguments["cursor"] = json!(cursor);
    }
}

#[tokio::test]
async fn paths_are_found_by_pattern() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    for path in ["/src/a.md", "/src/sub/b.md", "/src/c.txt"] {
        write(&server, path, b"x").await;
    }
    let found = client.ok("glob", json!({"pattern": "/src/**/*.md"})).await;
    assert_eq!(found.text, "/src/a.md\n/src/sub/b.md");
    assert_eq!(client.ok("glob", json!({"pattern": "src/s*"})).await.text, "/src/sub/");
    let none = client.ok("glob", json!({"pattern": "/none/*"})).await;
    assert_eq!((none.text.as_str(), &none.structured), ("No path matches /none/*.", &json!({"paths": []})));
    assert!(client.run("glob", json!({"pattern": "/[a"})).await.is_err());
    assert!(client.run("glob", json!({"pattern": "/*", "cursor": "x"})).await.is_err());
}

#[tokio::test]
async fn cut_list_of_paths_is_continued() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let path = |number: usize| TreePath::parse(&format!("/many/{number:04}-{}", "x".repeat(100))).unwrap();
    let ops = (0..500).map(|number| Op::write(path(number), "x").with_parents());
    server.account().await.commit(Batch::new(ops)).await.unwrap();
    let found = all(&client, "glob", json!({"pattern": "/many/*"}), "paths").await;
    let due: Vec<Value> = (0..500).map(|number| json!(path(number).as_str())).collect();
    assert_eq!(found, due);
}

#[tokio::test]
async fn lines_are_found_by_expression() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a.md", b"one\ntwo\nThree\nfour\n").await;
    write(&server, "/b.txt", b"three\n").await;
    write(&server, "/c.bin", b"\0three\n").await;
    let found =
        client.ok("grep", json!({"pattern": "^t.*e$", "ignore_case": true, "context": 1, "include": "*.md"}));
    let found = found.await;
    assert_eq!(found.text, "/a.md\n2- two\n3: Three\n4- four\n1 matching line in 1 file.");
    let line = json!({"line": 3, "text": "Three", "matches": true});
    assert_eq!(found.structured["files"][0]["lines"][1], line);
    let found = client.ok("grep", json!({"pattern": "three"})).await;
    let due = "/b.txt\n1: three\n/c.bin\n  is not text, and has a match\n";
    assert!(found.text.starts_with(due), "{}", found.text);
    assert_eq!(
        client.ok("grep", json!({"pattern": "three", "path": "/a.md"})).await.text,
        "No line matches."
    );
    assert!(client.run("grep", json!({"pattern": "("})).await.is_err());
    let long = "x".repeat(1001);
    let wrong = client.refused("grep", json!({"pattern": long})).await;
    assert!(wrong.contains("\"pattern\" must be a string of 1 to 1000 characters"), "{wrong}");
    assert!(client.refused("grep", json!({"pattern": "x", "path": "/none"})).await.starts_with("/none: "));
}

#[tokio::test]
async fn cut_list_of_lines_is_continued() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let text: String = (0..1000).map(|number| format!("match {number} {}\n", "y".repeat(400))).collect();
    write(&server, "/a.log", text.as_bytes()).await;
    write(&server, "/b.log", b"match last\n").await;
    let files = all(&client, "grep", json!({"pattern": "match", "context": 2}), "files").await;
    let lines = files.iter().flat_map(|file| file["lines"].as_array().unwrap());
    let numbers: Vec<u64> =
        lines.filter(|line| line["matches"] == true).map(|line| line["line"].as_u64().unwrap()).collect();
    let due: Vec<u64> = (1..=1000).chain([1]).collect();
    assert_eq!(numbers, due);
    let is_cut = |file: &Value| file["lines"][0]["cut"] == true;
    assert_eq!(files.iter().map(is_cut).collect::<Vec<_>>().last(), Some(&false));
    assert!(is_cut(&files[0]), "{}", files[0]["lines"][0]);
}

#[tokio::test]
async fn passages_are_found_by_question() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/notes/alice.md", b"# Alice\n\nShe takes her coffee black.\n").await;
    write(&server, "/other/coffee.md", b"Beans for coffee.\n").await;
    let found = client.ok("search", json!({"query": "how does she take her coffee", "path": "/notes"})).await;
    let hits = found.structured["hits"].as_array().unwrap();
    assert_eq!((hits.len(), &hits[0]["path"]), (1, &json!("/notes/alice.md")), "{}", found.text);
    // The score is for programs: hits are in another order.
    let head = found.text.lines().next().unwrap();
    assert_eq!(head, format!("/notes/alice.md:{}", hits[0]["line"]));
    assert!(hits[0]["score"].as_f64().unwrap() > 0.5, "{}", hits[0]);
    assert!(found.text.contains("\n  ") && found.text.contains("coffee black"), "{}", found.text);
    let both = client.ok("search", json!({"query": "coffee", "limit": 1})).await;
    let offset = both.structured["next_offset"].as_u64().unwrap();
    let next = client.ok("search", json!({"query": "coffee", "limit": 1, "offset": offset})).await;
    assert_ne!(both.structured["hits"], next.structured["hits"]);
    let none = client.ok("search", json!({"query": "zzqxw"})).await;
    assert!(none.text.starts_with("Nothing matches the question"), "{}", none.text);
    let wrong = client.refused("search", json!({"query": "coffee", "path": "/none"})).await;
    assert_eq!(wrong, client.refused("grep", json!({"pattern": "coffee", "path": "/none"})).await);
    let wrong = client.refused("search", json!({"query": "x", "limit": 31})).await;
    assert!(wrong.contains("\"limit\" must be an integer from 1 to 30"), "{wrong}");
}

#[tokio::test]
async fn include_is_one_pattern() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    for path in ["/a.py", "/b.rs", "/c,d.py", "/e.md"] {
        write(&server, path, b"x\n").await;
    }
    let found = async |include: &str| {
        let found = client.ok("grep", json!({"pattern": "x", "include": include})).await;
        let files = found.structured["files"].as_array().unwrap().clone();
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(found("*.{py,rs}").await, ["/a.py", "/b.rs", "/c,d.py"]);
    assert_eq!(found("*\\,*").await, ["/c,d.py"]);
    assert_eq!(found("*[,]d.py").await, ["/c,d.py"]);
    for list in ["*.py,*.rs", "*.{py,rs},*.md", ","] {
        let wrong = client.refused("grep", json!({"pattern": "x", "include": list})).await;
        assert!(wrong.starts_with("\"include\" must be one pattern, such as *.{py,rs}"), "{wrong}");
    }
    let wrong = client.refused("grep", json!({"pattern": "x", "include": ""})).await;
    assert_eq!(wrong, "\"include\" is empty; leave it out to search all files");
}

#[tokio::test]
async fn facts_are_found_once_among_files() {
    let server = TestServer::start().await;
    let client = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
    })
    .await;
    let fact = json!({"text": "Ann is allergic to walnuts."});
    let remembered = client.ok("remember", fact).await;
    let dir = format!("/ctx{}", remembered.field("uri").strip_prefix("ctx://acme").unwrap());
    let lines = |path: &str, include: &str| json!({"pattern": "walnut", "path": path, "include": include});
    let files = async |arguments: Value| {
        client.ok("grep", arguments).await.structured["files"].as_array().unwrap().len()
    };
    let found = client.ok("grep", json!({"pattern": "walnut", "path": "/ctx"})).await;
    let due = format!("{dir}/content.md\n1: Ann is allergic to walnuts.\n1 matching line in 1 file.");
    assert_eq!(found.text, due);
    assert_eq!(files(lines("/ctx", ".*.md")).await, 2);
    assert_eq!(files(lines("/ctx", ".abstract.md")).await, 1);
    assert_eq!(files(json!({"pattern": "walnut", "path": format!("{dir}/.abstract.md")})).await, 1);
    assert_eq!(files(json!({"pattern": "walnut", "path": format!("{dir}/.outbox")})).await, 1);
    let paths = async |pattern: String| client.ok("glob", json!({"pattern": pattern})).await.text;
    assert_eq!(paths(format!("{dir}/**")).await, format!("{dir}/content.md"));
    assert_eq!(paths("/**/.meta.json".to_owned()).await, format!("{dir}/.meta.json"));
    assert!(paths(format!("{dir}/.*")).await.contains("/.outbox/"));
}
