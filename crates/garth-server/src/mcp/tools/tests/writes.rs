//! Tests of `write_file`, `edit_file` and `move`.

use garth_engine::TreePath;
use garth_engine::model::{Author, Batch, Op};
use serde_json::json;

use super::{Client, write};
use crate::errors::Code;
use crate::routes::test_calls::TestServer;

/// Replaces a file, as another agent does.
async fn write_as(server: &TestServer, agent: &str, path: &str, content: &str) {
    let op = Op::write(TreePath::parse(path).unwrap(), content.to_owned());
    let batch = Batch::new([op]).author(Author::agent(agent).with_user("ann"));
    server.account().await.commit(batch).await.unwrap();
}

#[tokio::test]
async fn file_is_created_and_replaced() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let first = client.ok("write_file", json!({"path": "/new/a.md", "content": "one\n"})).await;
    let version = first.field("version");
    assert_eq!(first.text, format!("Created /new/a.md: 4 bytes, version {version}."));
    let both = json!({"path": "/new/a.md", "content": "three\n", "if_version": version});
    let second = client.ok("write_file", both.clone()).await;
    assert!(second.text.starts_with("Replaced /new/a.md: 6 bytes, version "), "{}", second.text);
    assert_eq!(second.structured["created"], false);
    let refused = client.run("write_file", both).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    let current = second.field("version");
    let due = format!(
        "nothing was written, because /new/a.md is now version {current}, not {version}: changed by you (key "
    );
    assert!(refused.message.starts_with(&due), "{}", refused.message);
    assert!(refused.message.contains(" (line 1); read it again"), "{}", refused.message);
    let read = client.ok("read_file", json!({"path": "/new/a.md"})).await;
    assert_eq!((read.field("content"), read.field("version")), ("three\n", current));
}

#[tokio::test]
async fn identical_content_makes_no_version() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let file = json!({"path": "/a.md", "content": "one\n"});
    let first = client.ok("write_file", file.clone()).await;
    let version = first.field("version");
    let again = client.ok("write_file", file.clone()).await;
    assert_eq!(again.text, format!("/a.md is unchanged: it has this content; version {version}."));
    assert_eq!((again.field("version"), &again.structured["created"]), (version, &json!(false)));
    let history = client.ok("history", json!({"path": "/a.md"})).await;
    assert_eq!(history.structured["versions"].as_array().unwrap().len(), 1, "{}", history.text);
    let mut stale = file;
    stale["if_version"] = json!("ver_1-1");
    assert!(client.refused("write_file", stale).await.starts_with("nothing was written, "));
    let other = client.ok("write_file", json!({"path": "/a.md", "content": "two\n"})).await;
    assert_ne!(other.field("version"), version);
}

#[tokio::test]
async fn new_file_is_not_written_over_another() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let new = json!({"path": "/a.md", "content": "mine", "if_version": "none"});
    client.ok("write_file", new.clone()).await;
    let refused = client.refused("write_file", new).await;
    assert!(refused.starts_with("/a.md: ") && refused.ends_with("without if_version"), "{refused}");
    let gone = json!({"path": "/none.md", "content": "", "if_version": "ver_7-3"});
    let refused = client.refused("write_file", gone).await;
    assert!(refused.contains("/none.md never existed, so it has no version; leave if_version"), "{refused}");
    let wrong =
        client.refused("write_file", json!({"path": "/a.md", "content": "", "if_version": "1"})).await;
    assert!(wrong.starts_with("\"if_version\" must be a version"), "{wrong}");
    write(&server, "/dir/b.md", b"").await;
    assert!(client.refused("write_file", json!({"path": "/dir", "content": ""})).await.starts_with("/dir: "));
    assert!(client.refused("write_file", json!({"path": "/a.md"})).await.contains("\"content\" is missing"));
}

#[tokio::test]
async fn path_that_means_another_place_is_refused() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a.md", b"one\n").await;
    let slash = client.refused("write_file", json!({"path": "/dir/", "content": ""})).await;
    let due = "is written as a directory; write /dir for this name itself, or /dir/NAME for a name in it";
    assert_eq!(slash, format!("\"path\" {due}"));
    let slash = client.refused("move", json!({"from": "/a.md", "to": "/dir/"})).await;
    assert_eq!(slash, format!("\"to\" {due}"));
    for (tool, arguments) in [
        ("write_file", json!({"path": "/../x", "content": ""})),
        ("edit_file", json!({"path": "y/../x", "old_string": "one", "new_string": "two"})),
        ("ls", json!({"path": "/../x/"})),
        ("delete", json!({"path": "/../x"})),
        ("search", json!({"query": "one", "path": "/y/../x"})),
    ] {
        let refused = client.refused(tool, arguments).await;
        assert_eq!(refused, "\"path\" must not contain `..`; if you mean /x, write that", "{tool}");
    }
    let paths = client.ok("glob", json!({"pattern": "/**"})).await.text;
    assert!(!paths.contains("/x") && !paths.contains("/dir"), "{paths}");
    // A name may contain dots.
    client.ok("move", json!({"from": "/a.md", "to": "/a..md"})).await;
    let same = client.refused("move", json!({"from": "/a..md", "to": "a..md"})).await;
    assert_eq!(same, "\"from\" and \"to\" are the same path; nothing was moved");
}

#[tokio::test]
async fn refusals_advise_what_a_model_can_do() {
    let server = TestServer::start().await;
    write(&server, "/agents/scout/settings.json", br#"{"owner":"ann"}"#).await;
    let client = Client::new(&server, |key| {
        (key.binding.agent, key.binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
    })
    .await;
    let settings = json!({"path": "/.agent/settings.json", "content": "{}"});
    let refused = client.refused("write_file", settings).await;
    assert!(refused.ends_with("; only people change this file: ask your user"), "{refused}");
}

#[tokio::test]
async fn text_that_occurs_once_is_edited() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a.md", b"one\ntwo\ntwo and a half\n").await;
    let edit = |old: &str, new: &str| json!({"path": "/a.md", "old_string": old, "new_string": new});
    let edited = client.ok("edit_file", edit("one\n", "1\n")).await;
    let due =
        format!("Edited /a.md: 1 replacement, the first in line 1, version {}.", edited.field("version"));
    assert_eq!(edited.text, due);
    let several = client.refused("edit_file", edit("two", "2")).await;
    assert!(several.starts_with("old_string occurs 2 times in /a.md, in lines 2, 3; "), "{several}");
    let mut all = edit("two", "2");
    all["replace_all"] = json!(true);
    assert_eq!(client.ok("edit_file", all).await.structured["replacements"], 2);
    let read = client.ok("read_file", json!({"path": "/a.md"})).await;
    assert_eq!(read.field("content"), "1\n2\n2 and a half\n");
    let same = client.ok("edit_file", edit("1\n", "1\n")).await;
    assert!(same.text.starts_with("/a.md is unchanged"), "{}", same.text);
    let empty = client.refused("edit_file", edit("", "x")).await;
    assert!(empty.contains("say which text to replace"), "{empty}");
}

#[tokio::test]
async fn missing_text_is_explained() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a.rs", b"fn a() {\n    one();\n}\n").await;
    let edit = |old: &str| json!({"path": "/a.rs", "old_string": old, "new_string": "x"});
    let spaces = client.refused("edit_file", edit("fn a() {\n\tone();\n")).await;
    assert!(spaces.contains("line 1 and those after it differ from it in white space alone"), "{spaces}");
    let never = client.refused("edit_file", edit("two();")).await;
    assert!(never.starts_with("old_string is not in /a.rs; read the file"), "{never}");
    write(&server, "/crlf.txt", b"one\r\ntwo\r\n").await;
    let edit = json!({"path": "/crlf.txt", "old_string": "one\ntwo\n", "new_string": "1\n2\n"});
    client.ok("edit_file", edit).await;
    let read = client.ok("read_file", json!({"path": "/crlf.txt"})).await;
    assert_eq!(read.field("content"), "1\r\n2\r\n");
}

#[tokio::test]
async fn edit_that_no_longer_fits_says_who_changed_what() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let mine = client.ok("write_file", json!({"path": "/a.md", "content": "one\ntwo\nthree\n"})).await;
    write_as(&server, "bob", "/a.md", "one\n2\n2.5\nthree\n").await;
    let mut edit = json!({"path": "/a.md", "old_string": "two", "new_string": "TWO"});
    let refused = client.run("edit_file", edit.clone()).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    let message = &refused.message;
    assert!(message.starts_with("old_string is no longer in the file: /a.md is now version "), "{message}");
    assert!(
        message.contains(": changed by agent bob, user ann, last at 2026-01-27T00:00:00Z (lines 2-3)"),
        "{message}"
    );
    // It still fits, and the caller requires the version that it has read.
    (edit["old_string"], edit["if_version"]) = (json!("three"), json!(mine.field("version")));
    let message = client.refused("edit_file", edit.clone()).await;
    assert!(message.contains("changed by agent bob, user ann"), "{message}");
    edit["if_version"] = json!(null);
    client.ok("edit_file", edit).await;
    let read = client.ok("read_file", json!({"path": "/a.md"})).await;
    assert_eq!(read.field("content"), "one\n2\n2.5\nTWO\n");
}

#[tokio::test]
async fn concurrent_edits_of_a_file_are_all_kept() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let lines: String = (0..8).map(|number| format!("line {number};\n")).collect();
    write(&server, "/a.md", lines.as_bytes()).await;
    let edit = |number: usize| {
        let (old, new) = (format!("line {number};"), format!("edited {number};"));
        client.ok("edit_file", json!({"path": "/a.md", "old_string": old, "new_string": new}))
    };
    futures::future::join_all((0..8).map(edit)).await;
    let read = client.ok("read_file", json!({"path": "/a.md"})).await;
    assert_eq!(read.field("content"), lines.replace("line", "edited"));
}

#[tokio::test]
async fn move_keeps_history_and_replaces_nothing() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a.md", b"one\n").await;
    write(&server, "/b.md", b"two\n").await;
    let taken = client.refused("move", json!({"from": "/a.md", "to": "/b.md"})).await;
    assert!(taken.contains("/b.md: ") && taken.contains("name one that is free"), "{taken}");
    let same = client.refused("move", json!({"from": "/a.md", "to": "/./a.md"})).await;
    assert_eq!(same, "\"from\" and \"to\" are the same path; nothing was moved");
    let moved = client.ok("move", json!({"from": "/a.md", "to": "/new/c.md"})).await;
    let due = format!("Moved /a.md to /new/c.md, version {}.", moved.field("version"));
    assert_eq!(moved.text, due);
    let versions = client.ok("history", json!({"path": "/new/c.md"})).await;
    assert!(versions.structured["versions"].as_array().unwrap().len() >= 2, "{}", versions.text);
    assert!(client.refused("move", json!({"from": "/a.md", "to": "/d"})).await.starts_with("/a.md: "));
    let old = json!({"from": "/new/c.md", "to": "/d", "if_version": "ver_1-1"});
    assert!(client.refused("move", old).await.starts_with("nothing was written, because /new/c.md is now"));
}
