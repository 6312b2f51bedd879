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
    assert!(restored.text.starts_with(&format!("Restored /a.md as of {at}, ")), "{}", restored.text);
    assert!(restored.text.ends_with("\nbrought back /a.md"), "{}", restored.text);
    let read = client.ok("read_file", json!({"path": "/a.md"})).await;
    assert_eq!(read.field("content"), "one\n");
    let again = client.ok("restore", json!({"path": "/a.md", "at": at})).await;
    assert!(again.text.contains(&format!(" already is as it was at {at}")), "{}", again.text);
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
        "/a.md:\n{}  2026-01-27T00:00:00.000Z  4 bytes  by agent bob  \"try 4\\nagain\"\n",
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
    let yesterday = client.refused("restore", json!({"path": "/a.md", "at": "yesterday"})).await;
    assert!(yesterday.starts_with("/a.md did not exist at yesterday"), "{yesterday}");
    for at in ["1 minute ago", "ver_b", "2026-01-27T00:00Z"] {
        let wrong = client.refused("restore", json!({"path": "/a.md", "at": at})).await;
        assert!(wrong.starts_with("\"at\" must be a version, "), "{at}: {wrong}");
    }
}

#[tokio::test]
async fn time_of_a_version_restores_it() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    client.ok("write_file", json!({"path": "/a.md", "content": "good\n"})).await;
    let history = client.ok("history", json!({"path": "/a.md"})).await;
    let at = &history.structured["versions"][0]["time"];
    assert_eq!(at, "2026-01-27T00:00:00Z");
    // The commit is some nanoseconds later than the time shown.
    let restored = client.ok("restore", json!({"path": "/a.md", "at": at})).await;
    assert!(restored.text.starts_with("/a.md already is as it was at "), "{}", restored.text);
}

#[tokio::test]
async fn version_of_another_file_is_refused() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    client.ok("write_file", json!({"path": "/dir/a.md", "content": "a\n"})).await;
    let other = client.ok("write_file", json!({"path": "/dir/b.md", "content": "b\n"})).await;
    let version = other.field("version");
    client.ok("write_file", json!({"path": "/dir/a.md", "content": "newer\n"})).await;
    client.ok("write_file", json!({"path": "/c/c.md", "content": "c\n"})).await;
    let due = |path: &str| {
        format!("{version} is a version of another file than {path}; `history` lists the versions of a path")
    };
    for path in ["/dir/a.md", "/c"] {
        assert_eq!(client.refused("restore", json!({"path": path, "at": version})).await, due(path));
    }
    let read = client.refused("read_file", json!({"path": "/dir/a.md", "version": version})).await;
    assert_eq!(read, due("/dir/a.md"));
    // The state of a directory is named by the versions of what is below it.
    client.ok("restore", json!({"path": "/dir", "at": version})).await;
    assert_eq!(client.ok("read_file", json!({"path": "/dir/a.md"})).await.field("content"), "a\n");
}

#[tokio::test]
async fn version_of_a_deletion_names_the_one_before() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    client.ok("write_file", json!({"path": "/a.md", "content": "a\n"})).await;
    let deleted = client.ok("delete", json!({"path": "/a.md"})).await;
    let (version, before) = (deleted.field("version"), deleted.field("restore_at"));
    let due = format!("/a.md was deleted in {version}; name the version before it, {before}");
    assert_eq!(client.refused("restore", json!({"path": "/a.md", "at": version})).await, due);
    assert_eq!(client.refused("read_file", json!({"path": "/a.md", "version": version})).await, due);
    let missing = client.refused("read_file", json!({"path": "/a.md"})).await;
    assert!(missing.starts_with("/a.md: was deleted by key "), "{missing}");
    assert!(missing.contains(&format!("`restore` with at = \"{before}\"")), "{missing}");
    let stale = json!({"path": "/a.md", "content": "", "if_version": before});
    let stale = client.refused("write_file", stale).await;
    assert!(stale.starts_with("nothing was written, because /a.md was deleted by key "), "{stale}");
}

#[tokio::test]
async fn moved_file_is_found_by_its_old_path() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let written = client.ok("write_file", json!({"path": "/a.md", "content": "a\n"})).await;
    let version = written.field("version");
    client.ok("move", json!({"from": "/a.md", "to": "/notes/b.md"})).await;
    let edit = json!({"path": "/a.md", "old_string": "a", "new_string": "b"});
    let missing = client.refused("edit_file", edit).await;
    assert!(missing.starts_with("/a.md: was moved to /notes/b.md by key "), "{missing}");
    let history = client.ok("history", json!({"path": "/a.md"})).await;
    assert!(history.text.contains("  moved to /notes/b.md  by key "), "{}", history.text);
    assert_eq!(history.structured["versions"][0]["moved_to"], "/notes/b.md");
    // It is a version of this file, of the time before it had this path.
    let read = client.ok("read_file", json!({"path": "/notes/b.md", "version": version})).await;
    assert_eq!((read.field("content"), read.field("version")), ("a\n", version));
    let restored = client.refused("restore", json!({"path": "/notes/b.md", "at": version})).await;
    assert!(restored.starts_with(&format!("/notes/b.md was at /a.md in {version}; ")), "{restored}");
}

#[tokio::test]
async fn history_of_a_directory_lists_the_commits_below() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let good = client.ok("write_file", json!({"path": "/dir/sub/a.md", "content": "good\n"})).await;
    client.ok("write_file", json!({"path": "/other.md", "content": "other\n"})).await;
    client.ok("write_file", json!({"path": "/ideas.md", "content": "ideas\n"})).await;
    client.ok("move", json!({"from": "/ideas.md", "to": "/dir/ideas.md"})).await;
    client.ok("write_file", json!({"path": "/dir/sub/a.md", "content": "bad\n"})).await;
    let history = client.ok("history", json!({"path": "/dir"})).await;
    let versions = history.structured["versions"].as_array().unwrap().clone();
    assert_eq!(versions.len(), 3, "{}", history.text);
    assert_eq!(versions[0]["changes"], json!(["changed /dir/sub/a.md"]));
    assert_eq!(versions[1]["changes"], json!(["created /dir/ideas.md"]));
    assert!(history.text.contains("\n  changed /dir/sub/a.md\n"), "{}", history.text);
    assert!(!history.text.contains("other.md") && !history.text.contains("0 bytes"), "{}", history.text);
    let page = client.ok("history", json!({"path": "/dir", "limit": 1})).await;
    let older = client.ok("history", json!({"path": "/dir", "before": page.field("before")})).await;
    assert_eq!(older.structured["versions"].as_array().unwrap().len(), 2, "{}", older.text);
    // The newest line but one is the state before the last change.
    client.ok("restore", json!({"path": "/dir", "at": versions[1]["version"]})).await;
    let read = client.ok("read_file", json!({"path": "/dir/sub/a.md"})).await;
    assert_eq!(read.field("content"), "good\n");
    let earliest = client.ok("restore", json!({"path": "/dir", "at": good.field("version")})).await;
    assert_eq!(earliest.structured["changes"][0], "removed /dir/ideas.md");
    assert!(earliest.text.contains(" 1 removed.\nremoved /dir/ideas.md"), "{}", earliest.text);
    client.ok("delete", json!({"path": "/dir", "recursive": true})).await;
    let gone = client.ok("history", json!({"path": "/dir", "limit": 1})).await;
    assert_eq!(gone.structured["versions"][0]["changes"], json!(["removed /dir"]));
}

#[tokio::test]
async fn restore_names_a_bounded_number_of_paths() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let first = client.ok("write_file", json!({"path": "/dir/a.md", "content": "a\n"})).await;
    for number in 0..25 {
        write(&server, &format!("/dir/{number}.md"), b"").await;
    }
    let restored = client.ok("restore", json!({"path": "/dir", "at": first.field("version")})).await;
    assert_eq!(restored.structured["removed"], 25);
    assert_eq!(restored.structured["changes"].as_array().unwrap().len(), 20);
    assert!(
        restored.text.ends_with("\nThere are more; `history` of the path lists them."),
        "{}",
        restored.text
    );
}
