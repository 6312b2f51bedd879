//! The memory tool over HTTP: whose files a caller reaches, and refusals that are no texts for a model.

use futures::executor::block_on;
use garth_engine::FileSystemExt as _;
use garth_engine::datadir::Scope;
use serde_json::{Value, json};

use super::harness::Server;

fn of(who: &Value, mut command: Value) -> String {
    command.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
    command.to_string()
}

fn create(at: &str) -> Value {
    json!({"command": "create", "path": at, "file_text": "Ann likes tea.\n"})
}

fn view(at: &str) -> Value {
    json!({"command": "view", "path": at})
}

fn head(server: &Server) -> u64 {
    block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq.0
}

#[test]
fn view_of_stranger_creates_nothing() {
    let server = Server::start();
    let who = json!({"agent": "scout", "user": "ann"});
    let answer = server.ok("memory-tool", of(&who, view("/memories")));
    let due = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and \
               node_modules:\n0B\t/memories";
    assert_eq!(answer, json!({"text": due, "is_error": false}));
    // The first call of an account prepares it.
    let before = head(&server);
    server.ok("memory-tool", of(&who, view("/memories")));
    assert_eq!(head(&server), before);
    for command in [
        create("/memories"),
        create("/memories/../a"),
        json!({"command": "delete", "path": "/memories/a"}),
        json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"}),
        json!({"command": "str_replace", "path": "/memories/a", "old_str": "x"}),
        json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
    ] {
        assert_eq!(server.ok("memory-tool", of(&who, command.clone()))["is_error"], true, "{command}");
        assert_eq!(head(&server), before, "{command}");
    }
}

#[test]
fn files_belong_to_agent_and_audience() {
    let server = Server::start();
    let ann = json!({"agent": "scout", "user": "ann"});
    let created = server.ok("memory-tool", of(&ann, create("/memories/tea.md")));
    let due = json!({"text": "File created successfully at: /memories/tea.md", "is_error": false});
    assert_eq!(created, due);
    let account = block_on(server.home.account("acme")).unwrap();
    let stored = block_on(account.read_to_string("/users/ann/agents/scout/memory/tea.md")).unwrap();
    assert_eq!(stored, "Ann likes tea.\n");
    let shown = server.ok("memory-tool", of(&ann, view("/memories/tea.md")));
    assert_eq!(
        shown["text"],
        "Here's the content of /memories/tea.md with line numbers:\n     1\tAnn likes tea."
    );
    for who in [
        json!({"agent": "scout", "user": "bob"}),
        json!({"agent": "other", "user": "ann"}),
        json!({"agent": "scout", "key": "agent:scout:slack:channel:C1"}),
    ] {
        let answer = server.ok("memory-tool", of(&who, view("/memories/tea.md")));
        let due = "The path /memories/tea.md does not exist. Please provide a valid path.";
        assert_eq!(answer, json!({"text": due, "is_error": true}), "{who}");
    }
}

#[test]
fn bound_key_needs_no_names() {
    let server = Server::start();
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let created = server.post_as(&key, "memory-tool", create("/memories/tea.md").to_string());
    assert_eq!(created.json()["is_error"], false, "{}", created.text());
    let other = of(&json!({"user": "bob"}), view("/memories"));
    server.post_as(&key, "memory-tool", other).refused(403, "FORBIDDEN");
    let of_path = server.bound_key(&json!({"agent": "scout", "user": "ann", "prefix": "/.user"}));
    server.post_as(&of_path, "memory-tool", view("/memories").to_string()).refused(403, "FORBIDDEN");
}

#[test]
fn incomplete_command_is_refused() {
    let server = Server::start();
    let who = json!({"agent": "scout", "user": "ann"});
    for (command, message) in [
        (json!({"command": "view"}), r#""path" is missing: `view` requires it"#),
        (
            json!({"command": "create", "path": "/memories/a"}),
            r#""file_text" is missing: `create` requires it"#,
        ),
        (
            json!({"command": "insert", "path": "/memories/a", "insert_text": "x"}),
            r#""insert_line" is missing: `insert` requires it"#,
        ),
        (
            json!({"command": "rename", "old_path": "/memories/a"}),
            r#""new_path" is missing: `rename` requires it"#,
        ),
        (
            json!({"command": "view", "path": "/memories/a", "view_range": [1]}),
            r#""view_range" must be an array of two integers from -1 to 1000000000"#,
        ),
    ] {
        let refused = server.post("memory-tool", of(&who, command)).refused(400, "VALIDATION_ERROR");
        assert_eq!(refused, message);
    }
    let nobody = server.post("memory-tool", view("/memories").to_string()).refused(400, "VALIDATION_ERROR");
    assert_eq!(nobody, r#""agent" is missing"#);
}

#[test]
fn every_command_needs_both_scopes() {
    let server = Server::start();
    let who = json!({"agent": "scout", "user": "ann"});
    for scope in [Scope::MemoryRead, Scope::MemoryWrite] {
        let key = server.key("acme", &[scope]);
        server.post_as(&key, "memory-tool", of(&who, view("/memories"))).refused(403, "FORBIDDEN");
    }
}
