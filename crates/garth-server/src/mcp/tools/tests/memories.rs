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
