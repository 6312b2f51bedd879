//! Texts for a client that sees one tool: they name no other.

use serde_json::{Value, json};

use super::{Server, add_agent, call, called, modern, result};

/// Identity of the client.
const WHO: &str = "?agent=scout&user=ann";
/// Name of a tool that texts also use as a word of English. Only in backquotes it names the tool.
const ENGLISH: &str = "memory";

/// Writes files and a memory. Returns the first version of `/a.md`, which is not the current one, and the URI
/// of a memory that is forgotten.
fn fill(server: &Server) -> (String, String) {
    add_agent(server);
    let key = server.key.clone();
    let write = |path: &str, content: &str| {
        let written = call(server, &key, WHO, "write_file", json!({"path": path, "content": content}));
        written["structuredContent"]["version"].as_str().unwrap().to_owned()
    };
    let first = write("/a.md", "one\n");
    write("/a.md", "two\n  three\n");
    for path in ["/dir/b.md", "/d.md"] {
        write(path, "x\nx\n");
    }
    called(server, &key, WHO, "remember", json!({"text": "Ann takes her coffee black."}));
    let gone = call(server, &key, WHO, "remember", json!({"text": "Bob plays the cello."}));
    let gone = gone["structuredContent"]["uri"].as_str().unwrap().to_owned();
    called(server, &key, WHO, "forget", json!({"uri": gone}));
    (first, gone)
}

/// Returns calls that are refused, and those whose answers have hints.
fn calls(first: &str, gone: &str) -> Vec<(&'static str, Value)> {
    let edit = |path: &str, old: &str| json!({"path": path, "old_string": old, "new_string": "y"});
    let write = |path: &str, version: &str| json!({"path": path, "content": "y", "if_version": version});
    vec![
        ("ls", json!({"path": "/none"})),
        ("ls", json!({"path": "/a.md"})),
        ("read_file", json!({"path": "/none"})),
        ("read_file", json!({"path": "/dir"})),
        ("read_file", json!({"path": "/a.md", "version": "7"})),
        ("write_file", write("/a.md", first)),
        ("write_file", write("/a.md", "none")),
        ("write_file", write("/none", first)),
        ("write_file", write("/dir", "none")),
        ("edit_file", edit("/a.md", "one")),
        ("edit_file", edit("/a.md", "two\nthree")),
        ("edit_file", edit("/a.md", "four")),
        ("edit_file", edit("/d.md", "x")),
        ("edit_file", edit("/none", "x")),
        ("edit_file", edit("/dir", "x")),
        ("glob", json!({"pattern": "/none/*"})),
        ("glob", json!({"pattern": "["})),
        ("grep", json!({"pattern": "zebra"})),
        ("grep", json!({"pattern": "x", "path": "/none"})),
        ("search", json!({"query": "zebra"})),
        ("search", json!({"query": "x", "path": "/none"})),
        ("delete", json!({"path": "/none"})),
        ("delete", json!({"path": "/dir"})),
        ("delete", json!({"path": "/a.md", "if_version": first})),
        ("delete", json!({"path": "/d.md"})),
        ("move", json!({"from": "/none", "to": "/e.md"})),
        ("move", json!({"from": "/a.md", "to": "/dir"})),
        ("move", json!({"from": "/a.md", "to": "/e.md", "if_version": first})),
        ("history", json!({"path": "/none"})),
        ("history", json!({"path": "/a.md", "before": "7"})),
        ("restore", json!({"path": "/none", "at": first})),
        ("restore", json!({"path": "/a.md", "at": "zebra"})),
        ("restore", json!({"path": "/a.md", "at": first, "if_version": first})),
        ("recall", json!({"question": "zebra"})),
        ("recall", json!({"question": ""})),
        ("remember", json!({"text": " "})),
        ("remember", json!({"text": "Ann takes coffee black."})),
        ("forget", json!({})),
        ("forget", json!({"uri": gone})),
        ("forget", json!({"text": "Carol sings."})),
        ("memory", json!({"command": "view", "path": "/memories/none"})),
        ("memory", json!({"command": "view", "path": "/a.md"})),
    ]
}

/// Returns the tools besides `own` that a text names.
fn others<'n>(names: &'n [String], own: &str, text: &str) -> Vec<&'n str> {
    let words: Vec<&str> = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').collect();
    let is_named = |name: &str| match name == ENGLISH {
        true => text.contains(&format!("`{name}`")),
        false => words.contains(&name),
    };
    names.iter().map(String::as_str).filter(|name| *name != own && is_named(name)).collect()
}

fn list(server: &Server, choice: &str) -> Value {
    result(&modern(server, &server.key, &format!("{WHO}{choice}"), "tools/list", json!({})))["tools"].clone()
}

#[test]
fn texts_name_only_tools_that_the_client_sees() {
    let server = Server::start();
    let (first, gone) = fill(&server);
    let listed = list(&server, "&tools=all");
    let names: Vec<String> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    let calls = calls(&first, &gone);
    for own in &names {
        let choice = format!("&tools={own}");
        let query = format!("{WHO}{choice}");
        // A command of the memory tool has the name of another tool.
        let described = list(&server, &choice).to_string().replace("\"delete\"", "");
        assert_eq!(others(&names, own, &described), [""; 0], "{described}");
        let found = result(&modern(&server, &server.key, &query, "server/discover", json!({})));
        let instructions = found["instructions"].as_str().unwrap();
        let quoted: Vec<&str> = instructions.split('`').skip(1).step_by(2).collect();
        let unseen: Vec<&String> =
            names.iter().filter(|name| *name != own && quoted.contains(&name.as_str())).collect();
        assert!(unseen.is_empty(), "{instructions}");
        let of_tool: Vec<&Value> =
            calls.iter().filter(|(name, _)| name == own).map(|(_, arguments)| arguments).collect();
        assert!(of_tool.len() > 1, "{own} has too few calls");
        for arguments in of_tool {
            let text = call(&server, &server.key, &query, own, arguments.clone())["content"].to_string();
            assert_eq!(others(&names, own, &text), [""; 0], "{own} {arguments}: {text}");
        }
    }
}

#[test]
fn hints_name_tools_that_the_client_sees() {
    let server = Server::start();
    let (first, _) = fill(&server);
    let text = |choice: &str, tool: &str, arguments: Value| {
        let answer = call(&server, &server.key, &format!("{WHO}{choice}"), tool, arguments);
        answer["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let missing = |choice: &str| text(choice, "read_file", json!({"path": "/none"}));
    assert_eq!(missing(""), "/none: no such file or directory; find it with `ls` or `glob` (NOT_FOUND)");
    let one = missing("&tools=read_file,glob");
    assert_eq!(one, "/none: no such file or directory; find it with `glob` (NOT_FOUND)");
    assert_eq!(missing("&tools=read_file"), "/none: no such file or directory (NOT_FOUND)");
    let none = json!({"path": "/none", "content": "y", "if_version": first});
    let none = text("&tools=write_file", "write_file", none);
    assert!(none.contains("/none never existed, so it has no version; leave if_version out"), "{none}");
    let deleted = text("&tools=delete,restore", "delete", json!({"path": "/d.md"}));
    assert!(deleted.starts_with("Deleted /d.md.\nTo bring it back: `restore` with at = "), "{deleted}");
    let gone = json!({"path": "/d.md", "content": "y", "if_version": first});
    let gone = |choice: &str| text(choice, "write_file", gone.clone());
    let (alone, both) = (gone("&tools=write_file"), gone("&tools=write_file,restore"));
    assert!(both.contains("; `restore` with at = ") && !alone.contains("restore"), "{both}\n{alone}");
    let query = format!("{WHO}&tools=ls,read_file");
    let found = result(&modern(&server, &server.key, &query, "server/discover", json!({})));
    let instructions = found["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("The durable, versioned files of one agent. "), "{instructions}");
    assert!(instructions.ends_with("change nothing there."), "{instructions}");
    let list = list(&server, "&tools=edit_file,read_file&read_only=true").to_string();
    assert!(list.contains("read_file") && !list.contains("edit_file"), "{list}");
}
