//! Tests of what a bound key reaches with each tool.

use garth_engine::TreePath;
use serde_json::json;

use super::{Client, write};
use crate::errors::Code;
use crate::routes::test_calls::TestServer;

/// Returns a client whose key is bound to a user and the agent `scout`.
async fn user<'a>(server: &'a TestServer, user: &str) -> Client<'a> {
    Client::new(server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some(user.to_owned()));
    })
    .await
}

#[tokio::test]
async fn tools_reach_nothing_of_another_user() {
    let server = TestServer::start().await;
    write(&server, "/canary.md", b"canary of the account\n").await;
    let (ann, bob) = (user(&server, "ann").await, user(&server, "bob").await);
    let written = ann.ok("write_file", json!({"path": "/plan.md", "content": "the canary of ann\n"})).await;
    ann.ok("remember", json!({"text": "Ann keeps a canary."})).await;
    let by = ann.ok("history", json!({"path": "/plan.md"})).await.text;
    assert!(by.contains("by agent scout, user ann"), "{by}");
    assert!(ann.ok("grep", json!({"pattern": "canary"})).await.text.contains("canary of ann"));
    assert!(
        ann.ok("recall", json!({"question": "who keeps a canary"}))
            .await
            .text
            .contains("Ann keeps a canary.")
    );

    bob.ok("write_file", json!({"path": "/own.md", "content": "own\n"})).await;
    for (tool, arguments) in [
        ("ls", json!({})),
        ("glob", json!({"pattern": "/**"})),
        ("grep", json!({"pattern": "canary"})),
        ("search", json!({"query": "canary"})),
        ("recall", json!({"question": "canary"})),
    ] {
        let text = bob.ok(tool, arguments).await.text;
        assert!(!text.contains("canary"), "{tool}: {text}");
        assert!(!text.contains("plan.md"), "{tool}: {text}");
    }
    let version = written.field("version");
    for path in ["/plan.md", "/canary.md", "/../canary.md", "/chats/ann/plan.md", "/users/ann/memories"] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("read_file", json!({"path": path, "version": version})),
            ("history", json!({"path": path})),
            ("edit_file", json!({"path": path, "old_string": "canary", "new_string": "x"})),
            ("delete", json!({"path": path})),
            ("move", json!({"from": path, "to": "/mine"})),
            ("restore", json!({"path": path, "at": version})),
        ] {
            let refusal = bob.run(tool, arguments).await.unwrap_err();
            assert!(!refusal.message.contains("of ann"), "{tool} {path}: {}", refusal.message);
        }
    }
    assert_eq!(ann.ok("read_file", json!({"path": "/plan.md"})).await.field("version"), version);
}

#[tokio::test]
async fn mounted_directory_is_not_moved() {
    let server = TestServer::start().await;
    let ann = user(&server, "ann").await;
    ann.ok("remember", json!({"text": "Ann keeps a canary."})).await;
    let refused = ann.refused("move", json!({"from": "/ctx/users", "to": "/moved"})).await;
    assert!(refused.starts_with("/ctx/users: ") && refused.contains("cannot be moved"), "{refused}");
}

#[tokio::test]
async fn key_with_prefix_begins_there() {
    let server = TestServer::start().await;
    let ann = user(&server, "ann").await;
    ann.ok("write_file", json!({"path": "/notes/a.md", "content": "one\n"})).await;
    ann.ok("write_file", json!({"path": "/other.md", "content": "two\n"})).await;
    let notes = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
        key.binding.prefix = Some(TreePath::parse("/notes").unwrap());
    })
    .await;
    assert!(notes.ok("ls", json!({})).await.text.starts_with("/notes:\na.md  4 bytes"));
    assert_eq!(notes.ok("read_file", json!({"path": "a.md"})).await.field("content"), "one\n");
    assert_eq!(notes.ok("glob", json!({"pattern": "*.md"})).await.text, "/notes/a.md");
    assert!(!notes.ok("grep", json!({"pattern": "."})).await.text.contains("two"));
    for path in ["/other.md", "../other.md"] {
        let refusal = notes.run("read_file", json!({"path": path})).await.unwrap_err();
        let is_refused = matches!(refusal.code, Code::NotFound | Code::Forbidden | Code::Validation);
        assert!(is_refused, "{path}: {}", refusal.message);
    }
    assert_eq!(notes.run("remember", json!({"text": "x"})).await.unwrap_err().code, Code::Forbidden);
}

#[tokio::test]
async fn read_only_key_changes_nothing() {
    let server = TestServer::start().await;
    write(&server, "/a.md", b"one\n").await;
    let reader = Client::new(&server, |key| key.binding.read_only = true).await;
    for (tool, arguments) in [
        ("write_file", json!({"path": "/a.md", "content": ""})),
        ("edit_file", json!({"path": "/a.md", "old_string": "one", "new_string": "two"})),
        ("delete", json!({"path": "/a.md"})),
        ("remember", json!({"text": "x"})),
    ] {
        assert_eq!(reader.run(tool, arguments).await.unwrap_err().code, Code::Forbidden, "{tool}");
    }
}
