//! Tests of `ls` and `read_file`.

use garth_engine::TreePath;
use garth_engine::model::{Batch, Op};
use serde_json::json;

use super::{Client, write};
use crate::mcp::tools::answer::MAX_TEXT;
use crate::routes::test_calls::TestServer;

#[tokio::test]
async fn directory_is_listed_with_sizes_and_times() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/notes/b.md", b"12345").await;
    write(&server, "/notes/sub/c.md", b"").await;
    let listed = client.ok("ls", json!({"path": "/notes"})).await;
    assert_eq!(listed.text, "/notes:\nb.md  5 bytes  2026-01-27T00:00Z\nsub/");
    let due = json!({"name": "b.md", "kind": "file", "size": 5, "modified": "2026-01-27T00:00Z"});
    assert_eq!(listed.structured["entries"][0], due);
    assert_eq!(client.ok("ls", json!({"path": "notes/"})).await.text, listed.text);
    assert!(client.ok("ls", json!({})).await.text.contains("\nnotes/"));
    let missing = client.refused("ls", json!({"path": "/none"})).await;
    assert_eq!(missing, "/none: no such file or directory; find it with `ls` or `glob`");
    let file = client.refused("ls", json!({"path": "/notes/b.md"})).await;
    assert_eq!(file, "/notes/b.md: not a directory; read it with `read_file`");
    assert!(client.refused("ls", json!({"after": "a/b"})).await.starts_with("\"after\": "));
    assert!(client.refused("ls", json!({"path": 7})).await.contains("\"path\" must be a string"));
}

#[tokio::test]
async fn long_directory_is_continued_after_the_last_name() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let path = |number: usize| TreePath::parse(&format!("/many/{number:04}-{}", "x".repeat(40))).unwrap();
    let ops = (0..700).map(|number| Op::write(path(number), "x").with_parents());
    server.account().await.commit(Batch::new(ops)).await.unwrap();
    let (mut names, mut arguments) = (Vec::new(), json!({"path": "/many"}));
    loop {
        let listed = client.ok("ls", arguments.clone()).await;
        assert!(listed.text.len() <= MAX_TEXT);
        let entries = listed.structured["entries"].as_array().unwrap();
        names.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        let Some(next) = listed.structured["next"].as_str() else { break };
        assert!(listed.text.ends_with(&format!("call again with after = {next:?}.")), "{}", listed.text);
        arguments["after"] = json!(next);
    }
    assert_eq!(names.len(), 700);
    assert!(names.is_sorted());
}

#[tokio::test]
async fn file_is_read_as_numbered_lines() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a.md", "one\ntwo\nthré".as_bytes()).await;
    let read = client.ok("read_file", json!({"path": "/a.md"})).await;
    let version = read.field("version");
    let head = format!("/a.md  13 bytes  version {version}\n");
    assert_eq!(read.text, format!("{head}     1\tone\n     2\ttwo\n     3\tthré"));
    assert_eq!(read.field("content"), "one\ntwo\nthré");
    let part = client.ok("read_file", json!({"path": "/a.md", "offset": 2, "limit": 1})).await;
    assert_eq!(part.text, format!("{head}     2\ttwo\nThere is more, to line 3: continue with offset = 3."));
    assert_eq!((&part.structured["next_offset"], &part.structured["truncated"]), (&json!(3), &json!(true)));
    assert_eq!((&read.structured["truncated"], read.structured.get("cut_lines")), (&json!(false), None));
    let beyond = client.refused("read_file", json!({"path": "/a.md", "offset": 4})).await;
    assert_eq!(beyond, "\"offset\" is after the end: /a.md has 3 lines");
    write(&server, "/empty", b"").await;
    assert!(client.ok("read_file", json!({"path": "/empty"})).await.text.ends_with("The file is empty."));
    let directory = client.refused("read_file", json!({"path": "/"})).await;
    assert!(directory.ends_with("; list it with `ls`"), "{directory}");
    let wrong = client.refused("read_file", json!({"path": "/a.md", "version": "7"})).await;
    assert!(wrong.starts_with("\"version\" must be a version"), "{wrong}");
}

#[tokio::test]
async fn earlier_version_of_a_file_is_read() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let first = client.ok("write_file", json!({"path": "/a.md", "content": "old\n"})).await;
    client.ok("write_file", json!({"path": "/a.md", "content": "new\n"})).await;
    let version = first.field("version");
    let read = client.ok("read_file", json!({"path": "/a.md", "version": version})).await;
    assert_eq!((read.field("content"), read.field("version")), ("old\n", version));
}

#[tokio::test]
async fn long_file_is_read_in_parts() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let text: String = (0..30_000).map(|number| format!("{number} is the number of this line\n")).collect();
    write(&server, "/long.txt", text.as_bytes()).await;
    let (mut content, mut offset, mut parts) = (String::new(), 1, 0);
    while parts < 5 {
        let read = client.ok("read_file", json!({"path": "/long.txt", "offset": offset})).await;
        assert!(read.text.len() <= MAX_TEXT);
        content.push_str(read.field("content"));
        offset = read.structured["next_offset"].as_u64().unwrap();
        parts += 1;
    }
    assert!(text.starts_with(&content) && content.lines().count() as u64 == offset - 1);
    // Beyond the bytes that are read at once.
    let end = client.ok("read_file", json!({"path": "/long.txt", "offset": 29_999})).await;
    assert!(end.text.ends_with(" 30000\t29999 is the number of this line"), "{}", end.text);
    assert_eq!((end.structured.get("next_offset"), end.links.len()), (None, 0));
}

#[tokio::test]
async fn binary_and_long_lines_become_links() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    write(&server, "/a b.png", b"\x89PNG\0\xff").await;
    let read = client.ok("read_file", json!({"path": "/a b.png"})).await;
    assert_eq!(
        (&*read.links, read.structured.get("content")),
        (&["garth:///a%20b.png".to_owned()][..], None)
    );
    assert!(read.text.contains("6 bytes") && read.text.contains("not text"), "{}", read.text);
    write(&server, "/one-line.json", "[1,2]".repeat(10_000).as_bytes()).await;
    let read = client.ok("read_file", json!({"path": "/one-line.json"})).await;
    assert_eq!(read.links, ["garth:///one-line.json"]);
    assert!(read.text.contains("[cut: the line has 50000 bytes; its rest: ") && read.text.len() < 3000);
}

#[tokio::test]
async fn cut_line_is_named_and_read_to_its_end() {
    let server = TestServer::start().await;
    let client = Client::free(&server).await;
    let line: String = (0..1000).map(|number| format!("{number:03},")).collect();
    write(&server, "/a.csv", format!("head\n{line}\nlast\n").as_bytes()).await;
    let first = client.ok("read_file", json!({"path": "/a.csv"})).await;
    assert_eq!(first.structured["cut_lines"], json!([{"line": 2, "column": 2000}]));
    assert_eq!((&first.structured["truncated"], first.structured.get("next_offset")), (&json!(true), None));
    assert_eq!(first.field("content"), format!("head\n{}\nlast\n", &line[..2000]));
    let rest = json!({"path": "/a.csv", "offset": 2, "column": 2000});
    let rest = client.ok("read_file", rest).await;
    assert_eq!(rest.field("content"), format!("{}\nlast\n", &line[2000..]));
    assert_eq!((&rest.structured["truncated"], rest.structured.get("cut_lines")), (&json!(false), None));
    let wrong = client.refused("read_file", json!({"path": "/a.csv", "offset": "2"})).await;
    assert_eq!(wrong, "\"offset\" must be an integer, not a string");
}
