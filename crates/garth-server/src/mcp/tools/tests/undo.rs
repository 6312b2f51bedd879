//! Tests of `delete`, `history` and `restore`.

use garth_engine::TreePath;
use garth_engine::model::{Author, Batch, Op};
use serde_json::json;

use super::{Client, write};
use crate::routes::test_calls::TestServer;

#[tokio::test]
async fn deleted_file_is_restored() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a.md", b"one\n").await;
    let deleted = client.ok("delete", json!({"path": "/a.md"})).await;
    let at = deleted.field("restore_at").to_owned();
    assert_eq!(deleted.text, format!("Deleted /a.md.\nTo bring it back: `restore` with at = \"{at}\"."));
    assert!(client.refused("read_file", json!({"path": "/a.md"})).await.starts_with("/a.md: "));
    assert!(client.refused("delete", json!({"path": "/a.md"})).await.starts_with("/a.md: "));
    let restored = client.ok("restore", json!({"path": "/a.md", "at": at})).await;
    assert!(restored.text.starts_with("Restored /a.md as of commit "), "{}", restored.text);
    let read = client.ok("read_file", json!({"path": "/a.md"})).await;
    assert_eq!(read.field("content"), "one\n");
    let again = client.ok("restore", json!({"path": "/a.md", "at": at})).await;
    assert!(again.text.contains(" already is as it was at commit "), "{}", again.text);
}

#[tokio::test]
async fn directory_is_deleted_only_as_a_whole() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/dir/a.md", b"one\n").await;
    write(&server, "/dir/sub/b.md", b"two\n").await;
    let full = client.refused("delete", json!({"path": "/dir"})).await;
    assert!(full.starts_with("/dir: ") && full.contains("set recursive"), "{full}");
    let deleted = client.ok("delete", json!({"path": "/dir", "recursive": true})).await;
    assert_eq!(client.ok("glob", json!({"pattern": "/dir/**"})).await.structured["paths"], json!([]));
    client.ok("restore", json!({"path": "/dir", "at": deleted.field("restore_at")})).await;
    let read = client.ok("read_file", json!({"path": "/dir/sub/b.md"})).await;
    assert_eq!(read.field("content"), "two\n");
    let old = json!({"path": "/dir/a.md", "if_version": "ver_1-1"});
    let refused = client.refused("delete", old).await;
    assert!(refused.starts_with("nothing was written, because /dir/a.md is now version "), "{refused}");
}

#[tokio::test]
async fn history_lists_versions_with_their_authors() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    for number in 0..5 {
        let op = Op::write(TreePath::parse("/a.md").unwrap(), "x".repeat(number));
        let batch = Batch::new([op]).author(Author::agent("bob")).message(format!("try {number}\nagain"));
        server.account().await.commit(batch).await.unwrap();
    }
    let newest = client.ok("history", json!({"path": "/a.md", "limit": 2})).await;
    let versions = newest.structured["versions"].as_array().unwrap().clone();
    assert_eq!((versions.len(), &versions[0]["size"]), (2, &json!(4)));
    let line = format!(
        "/a.md:\n{}  2026-01-27T00:00Z  4 bytes  by agent bob  \"try 4\\nagain\"\n",
        versions[0]["version"].as_str().unwrap()
    );
    assert!(newest.text.starts_with(&line), "{}", newest.text);
    let before = newest.field("before");
    assert!(newest.text.ends_with(&format!("call again with before = {before}.")), "{}", newest.text);
    let older = client.ok("history", json!({"path": "/a.md", "before": before})).await;
    assert_eq!(older.structured["versions"].as_array().unwrap().len(), 3);
    client.ok("delete", json!({"path": "/a.md"})).await;
    let with_end = client.ok("history", json!({"path": "/a.md", "limit": 1})).await;
    assert!(with_end.text.contains("  removed"), "{}", with_end.text);
    assert!(client.refused("history", json!({"path": "/none"})).await.starts_with("/none: "));
}

#[tokio::test]
async fn earlier_version_is_restored_if_expected() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let first = client.ok("write_file", json!({"path": "/a.md", "content": "good\n"})).await;
    let second = client.ok("write_file", json!({"path": "/a.md", "content": "bad\n"})).await;
    let (first, second) = (first.field("version"), second.field("version"));
    let stale = json!({"path": "/a.md", "at": first, "if_version": first});
    let refused = client.refused("restore", stale).await;
    assert!(refused.starts_with("nothing was written, because /a.md is now version "), "{refused}");
    let restored = client.ok("restore", json!({"path": "/a.md", "at": first, "if_version": second})).await;
    assert_ne!(restored.field("version"), second);
    let read = client.ok("read_file", json!({"path": "/a.md"})).await;
    assert_eq!(read.field("content"), "good\n");
    let before = client.refused("restore", json!({"path": "/a.md", "at": "0"})).await;
    assert!(before.contains("did not exist"), "{before}");
    let wrong = client.run("restore", json!({"path": "/a.md", "at": "yesterday"})).await;
    assert!(wrong.is_err());
}
