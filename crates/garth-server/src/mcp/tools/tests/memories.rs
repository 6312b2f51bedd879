//! Tests of `remember`, `recall` and `forget`.

use serde_json::json;

use super::Client;
use crate::mcp::tools::answer::MAX_TEXT;
use crate::routes::test_calls::TestServer;

#[tokio::test]
async fn remembered_fact_is_recalled_and_forgotten() {
    let server = TestServer::start().await;
    let client = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
    })
    .await;
    let fact = json!({"text": "Ann takes her coffee black.", "tags": ["taste"]});
    let remembered = client.ok("remember", fact.clone()).await;
    let uri = remembered.field("uri").to_owned();
    assert_eq!(remembered.text, format!("Remembered as {uri}, version 1."));
    assert_eq!(remembered.structured["created"], true);
    let again = client.ok("remember", fact).await;
    assert_eq!(again.text, format!("Known already as {uri}, version 1."));
    let near = client.ok("remember", json!({"text": "Ann takes coffee black."})).await;
    assert!(near.text.contains(&format!("\nSimilar memories:\n{uri}\n`forget` ")), "{}", near.text);

    let recalled = client.ok("recall", json!({"question": "How does Ann take her coffee?"})).await;
    assert!(recalled.text.contains("coffee black.") && recalled.text.contains(&uri), "{}", recalled.text);
    assert_eq!((&recalled.structured["fits"], recalled.field("text")), (&json!(true), &*recalled.text));
    assert!(recalled.structured.get("key").is_none());
    let found = client.ok("search", json!({"query": "coffee black"})).await;
    assert!(found.text.contains(&uri), "{}", found.text);

    let forgotten = client.ok("forget", json!({"uri": uri})).await;
    assert!(forgotten.text.starts_with(&format!("Forgot {uri}. Its history keeps ")), "{}", forgotten.text);
    client.ok("forget", json!({"text": "Ann takes coffee black."})).await;
    let recalled = client.ok("recall", json!({"question": "How does Ann take her coffee?"})).await;
    assert!(!recalled.text.contains("coffee black"), "{}", recalled.text);
    let missing = client.refused("forget", json!({"uri": uri})).await;
    assert!(missing.ends_with("`recall` or `search` finds the URIs of memories"), "{missing}");
    let missing = client.refused("forget", json!({"text": "Bob plays the cello."})).await;
    assert_eq!(missing, "no memory has this text; `recall` finds memories, and shows their URIs");
}

#[tokio::test]
async fn long_view_of_the_memory_tool_is_cut() {
    let server = TestServer::start().await;
    let client = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
    })
    .await;
    let text = "a line of the file\n".repeat(2000);
    let create = json!({"command": "create", "path": "/memories/a.md", "file_text": text});
    client.ok("memory", create).await;
    let shown = client.ok("memory", json!({"command": "view", "path": "/memories/a.md"})).await;
    assert!(shown.text.len() <= MAX_TEXT, "{}", shown.text.len());
    assert!(shown.text.ends_with(", 2000].)"), "{}", shown.text);
    assert_eq!(shown.field("text"), shown.text);
}

#[tokio::test]
async fn wrong_arguments_of_memories_are_refused() {
    let server = TestServer::start().await;
    let client = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
    })
    .await;
    let both = json!({"uri": "ctx://acme/users/ann/memories/notes/a", "text": "x"});
    for arguments in [json!({}), both] {
        assert_eq!(client.refused("forget", arguments).await, "give either \"uri\" or \"text\"");
    }
    assert!(client.refused("forget", json!({"uri": "a"})).await.contains("not a memory URI"));
    assert!(client.run("remember", json!({"text": " "})).await.is_err());
    let wrong = client.refused("recall", json!({"question": "x", "budget": 8001})).await;
    assert!(wrong.contains("\"budget\" must be an integer from 100 to 8000"), "{wrong}");
}

#[tokio::test]
async fn memories_are_read_and_restored_by_their_uris() {
    let server = TestServer::start().await;
    let client = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
    })
    .await;
    let fact = json!({"text": "Ann plays the cello."});
    let uri = client.ok("remember", fact.clone()).await.field("uri").to_owned();
    let read = client.ok("read_file", json!({"path": uri})).await;
    assert!(read.text.contains("Ann plays the cello."), "{}", read.text);
    let listed = client.ok("history", json!({"path": uri})).await;
    assert!(listed.text.starts_with(&format!("{}:\n", read.field("path"))), "{}", listed.text);

    let forgotten = client.ok("forget", json!({"uri": uri})).await;
    let at = forgotten.field("restore_at");
    let due = format!("\nTo bring it back: `restore` with path = \"{uri}\" and at = \"{at}\".");
    assert!(forgotten.text.ends_with(&due), "{}", forgotten.text);
    assert!(client.run("read_file", json!({"path": uri})).await.is_err());
    let listed = client.ok("history", json!({"path": uri})).await;
    assert!(listed.text.contains("removed"), "{}", listed.text);
    client.ok("restore", json!({"path": uri, "at": at})).await;
    let again = client.ok("remember", fact).await;
    assert_eq!(again.text, format!("Known already as {uri}, version 1."));
    let recalled = client.ok("recall", json!({"question": "Who plays the cello?"})).await;
    assert!(recalled.text.contains(&uri), "{}", recalled.text);

    for (other, due) in [
        ("ctx://acme/users/bob/memories/notes/x", "no such memory"),
        ("ctx://other/users/ann/memories/notes/x", "belongs to another account"),
        ("ctx://acme", "has too few parts"),
    ] {
        for (tool, arguments) in [
            ("read_file", json!({"path": other})),
            ("history", json!({"path": other})),
            ("restore", json!({"path": other, "at": "1"})),
        ] {
            let wrong = client.refused(tool, arguments).await;
            assert!(wrong.contains(due), "{tool}: {wrong}");
        }
    }
}

#[tokio::test]
async fn edited_memory_is_forgotten_by_its_new_text() {
    let server = TestServer::start().await;
    let client = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
    })
    .await;
    let uri = client.ok("remember", json!({"text": "Ann plays the cello."})).await.field("uri").to_owned();
    let path = client.ok("read_file", json!({"path": uri})).await.field("path").to_owned();
    client.ok("edit_file", json!({"path": path, "old_string": "cello", "new_string": "viola"})).await;
    assert!(client.run("forget", json!({"text": "Ann plays the cello."})).await.is_err());
    let forgotten = client.ok("forget", json!({"text": "Ann plays the viola."})).await;
    assert_eq!(forgotten.field("uri"), uri);
}
