//! `garth mcp`: the Model Context Protocol over pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::garth::{Garth, program, text};

/// A running `garth mcp`, killed when dropped.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: i64,
}

impl Client {
    fn start(garth: &Garth, args: &[&str]) -> Self {
        let mut command = garth.command(&[&["mcp"][..], args].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("garth starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stdin = child.stdin.take();
        Self { child, stdin, stdout, last: 0 }
    }

    /// Starts it, and begins a session as clients of earlier revisions do.
    fn initialized(garth: &Garth, args: &[&str]) -> Self {
        let mut client = Self::start(garth, args);
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.request("initialize", params);
        assert_eq!(answer["protocolVersion"], "2025-11-25");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(format!("{message}\n").as_bytes()).expect("it reads");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request, and returns the answer to it.
    fn answer(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"jsonrpc": "2.0", "id": self.last, "method": method});
        message["params"] = params;
        self.send(&message);
        let answer = self.receive();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(self.last)), "{answer}");
        answer
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that must succeed. Returns its text.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        let mut params = json!({"name": tool});
        params["arguments"] = arguments;
        let result = self.request("tools/call", params);
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// Closes its standard input. Returns the exit code, and what it wrote besides.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).expect("text");
        let code = self.child.wait().expect("it ends").code();
        (code, rest)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the parameters of a request of the revision without sessions.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn tools_work_after_initialize() {
    let garth = Garth::new();
    let mut client = Client::initialized(&garth, &[]);
    let tools = client.request("tools/list", json!({}));
    let names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"ls") && names.contains(&"write_file") && !names.contains(&"memory"),
        "{names:?}"
    );
    client.call("write_file", json!({"path": "/notes/a.md", "content": "first\n"}));
    assert!(client.call("ls", json!({"path": "/notes"})).contains("a.md"));
    assert_eq!(client.end(), (Some(0), String::new()));
    // The default identity is the agent `default` with its owner.
    assert_eq!(garth.ok(&["cat", "/chats/default/notes/a.md"]), "first\n");
}

#[test]
fn tools_work_without_a_session() {
    let garth = Garth::new();
    let mut client = Client::start(&garth, &[]);
    let found = client.request("server/discover", modern(json!({})));
    let versions = found["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{found}");
    assert_eq!(found["cacheScope"], "private");
    let result = client.request("tools/call", modern(json!({"name": "ls", "arguments": {}})));
    assert_eq!((&result["isError"], &result["resultType"]), (&json!(false), &json!("complete")));
    // A request without the revision in its parameters is refused.
    let refused = client.answer("tools/list", json!({}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn commits_are_stamped_with_the_identity() {
    let garth = Garth::new();
    garth.ok(&["agent", "create", "scout", "--owner", "ann"]);
    let options =
        ["--agent", "scout", "--user", "bob", "--chat", "trip", "--session", "work", "--class", "dm"];
    let mut client = Client::initialized(&garth, &options);
    client.call("write_file", json!({"path": "/a.md", "content": "x"}));
    assert_eq!(client.end().0, Some(0));
    let commit = garth.json(&["log", "/chats/trip/a.md", "-n", "1"]);
    let author = commit["commit"]["author"].to_string();
    for part in ["scout", "bob", "work", "dm"] {
        assert!(author.contains(part), "{part}: {commit}");
    }
}

#[test]
fn arguments_of_a_tool_name_nobody() {
    let garth = Garth::new();
    let mut client = Client::initialized(&garth, &["--user", "ann"]);
    let arguments = json!({"path": "/", "user": "bob"});
    let result = client.request("tools/call", json!({"name": "ls", "arguments": arguments}));
    let said = result["content"][0]["text"].as_str().unwrap();
    assert!(result["isError"] == true && said.contains("\"user\" is not a field"), "{said}");
}

#[test]
fn options_choose_the_tools() {
    let garth = Garth::new();
    let mut client = Client::initialized(&garth, &["--tools", "ls,write_file", "--read-only"]);
    let tools = client.request("tools/list", json!({}));
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1);
    let refused = client.answer("tools/call", json!({"name": "write_file", "arguments": {}}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().ends_with("its tools are ls"), "{refused}");
    let said = garth.fails(2, &["mcp", "--tools", "rm"]);
    assert!(said.contains("\"rm\" is not a tool"), "{said}");
    let said = garth.fails(2, &["mcp", "--tools", "write_file", "--read-only"]);
    assert!(
        said.contains("a client that only reads cannot have write_file; name at least one of ls"),
        "{said}"
    );
    let said = garth.fails(3, &["mcp", "--agent", "scuot"]);
    assert!(said.contains("no such agent"), "{said}");
    let said = garth.fails(2, &["mcp", "--raw"]);
    assert!(said.contains("remove --raw"), "{said}");
}

#[test]
fn garbage_ends_nothing() {
    let garth = Garth::new();
    let mut client = Client::initialized(&garth, &[]);
    let stdin = client.stdin.as_mut().unwrap();
    stdin.write_all(b"nope\n\n{\n\xff\xfe\n").unwrap();
    for arguments in [
        json!({"path": 1}),
        json!({"path": "\u{0}"}),
        json!({"nope": {}}),
        json!({"path": "x".repeat(1 << 20)}),
    ] {
        let result = client.request("tools/call", json!({"name": "ls", "arguments": arguments}));
        assert_eq!(result["isError"], true, "{result}");
    }
    for params in [json!({"name": 1}), json!({"name": "ls", "arguments": []})] {
        let refused = client.answer("tools/call", params);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert_eq!(client.answer("no/such", json!({}))["error"]["code"], -32601);
    assert!(client.call("ls", json!({})).contains('/'));
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn unserved_methods_are_not_found() {
    let garth = Garth::new();
    let (mut earlier, mut later) = (Client::initialized(&garth, &[]), Client::start(&garth, &[]));
    later.request("tools/list", modern(json!({})));
    for method in ["completion/complete", "logging/setLevel", "resources/subscribe"] {
        for params in [json!({}), json!({"level": "info", "uri": "garth:///a.md"})] {
            let refused = later.answer(method, modern(params.clone()));
            assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
            let refused = earlier.answer(method, params);
            assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
        }
    }
    assert_eq!(earlier.answer("initialize", json!({}))["error"]["code"], -32602);
    assert_eq!(later.answer("initialize", modern(json!({})))["error"]["code"], -32601);
}

#[test]
fn requests_before_the_end_of_input_are_answered() {
    let garth = Garth::new();
    let call = json!({"name": "ls", "arguments": {"path": "/"}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": modern(call)});
    let output = garth.run(&["mcp"], format!("{request}\n").as_bytes());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let answer: Value = serde_json::from_str(&text(&output.stdout)).expect("one line of JSON");
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(false)), "{answer}");
    // Nothing at all is no failure, either.
    let output = garth.run(&["mcp"], b"");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

#[test]
fn thousand_calls_at_once_are_all_answered() {
    let garth = Garth::new();
    let request = |id: u64| {
        let call = json!({"name": "write_file", "arguments": {"path": format!("/{id}"), "content": "x"}});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": modern(call)});
        format!("{message}\n")
    };
    let input: String = (0..1000).map(request).collect();
    let output = garth.run(&["mcp"], input.as_bytes());
    let mut ids: Vec<u64> = text(&output.stdout)
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            answer["id"].as_u64().expect("an id")
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1000).collect::<Vec<_>>());
}

#[test]
fn log_is_written_to_standard_error_alone() {
    let garth = Garth::new();
    let call = json!({"name": "read_file", "arguments": {"path": "/no/canary"}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": modern(call)});
    let mut command = garth.command(&["mcp"]);
    command.env("GARTH_LOG", "trace");
    let output = super::garth::finish(command, format!("{request}\n").as_bytes());
    assert_eq!(text(&output.stdout).lines().count(), 1);
    let log = text(&output.stderr);
    assert!(!log.contains("canary"), "requests of the library are logged: {log}");
}

#[test]
fn files_are_resources() {
    let garth = Garth::new();
    let mut client = Client::initialized(&garth, &[]);
    client.call("write_file", json!({"path": "/a b.md", "content": "text\n"}));
    let listed = client.request("resources/list", json!({}));
    let uri = listed["resources"].as_array().unwrap().iter().find(|item| item["name"] == "a b.md");
    assert_eq!(uri.expect("it is listed")["uri"], "garth:///a%20b.md");
    let read = client.request("resources/read", json!({"uri": "garth:///a%20b.md"}));
    assert_eq!(read["contents"][0]["text"], "text\n");
    assert_eq!(read["contents"][0]["mimeType"], "text/markdown");
    let missing = client.answer("resources/read", json!({"uri": "garth:///none"}));
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
    assert_eq!(missing["error"]["data"]["uri"], "garth:///none", "{missing}");
    let template = client.request("resources/templates/list", json!({}));
    assert_eq!(template["resourceTemplates"][0]["uriTemplate"], "garth://{+path}");
}

#[test]
fn listening_client_gets_changes_of_other_processes() {
    let garth = Garth::new();
    let mut client = Client::start(&garth, &[]);
    client.request(
        "tools/call",
        modern(json!({"name": "write_file", "arguments": {"path": "/a.md", "content": "1"}})),
    );
    let asked = json!({"notifications": {"resourceSubscriptions": ["garth:///a.md"]}});
    client.send(
        &json!({"jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen", "params": modern(asked)}),
    );
    let accepted = client.receive();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    garth.write("/chats/default/a.md", "2");
    let updated = client.receive();
    assert_eq!(updated["method"], "notifications/resources/updated", "{updated}");
    assert_eq!(updated["params"]["uri"], "garth:///a.md");
    // The end of the input completes the request.
    let (code, rest) = client.end();
    let completed: Value = serde_json::from_str(&rest).expect("one line");
    assert_eq!((code, &completed["id"]), (Some(0), &json!("listen")), "{completed}");
}

#[test]
fn prompt_is_that_of_the_workspace() {
    let garth = Garth::new();
    garth.ok(&["agent", "create", "scout", "--no-bootstrap"]);
    garth.write("/agents/scout/SOUL.md", "The canary of the soul.\n");
    let mut client = Client::initialized(&garth, &["--agent", "scout", "--session", "work"]);
    assert_eq!(client.request("prompts/list", json!({}))["prompts"][0]["name"], "workspace");
    let prompt = client.request("prompts/get", json!({"name": "workspace"}));
    let said = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(said.contains("The canary of the soul."), "{said}");
    assert_eq!(client.answer("prompts/get", json!({"name": "other"}))["error"]["code"], -32602);
}

#[test]
fn configuration_of_clients_starts_this_command() {
    let garth = Garth::new();
    let data = garth.data();
    let line = garth.ok(&["mcp", "--user", "ann", "--print-config", "claude-code"]);
    let program = program();
    let due =
        format!("claude mcp add garth -- {} mcp --data {} --user ann\n", program.display(), data.display());
    assert_eq!(line, due);
    let cursor = garth.json(&["mcp", "--read-only", "--print-config", "cursor"]);
    let config: Value = serde_json::from_str(cursor["config"].as_str().unwrap()).unwrap();
    let due = json!(["mcp", "--data", data, "--read-only"]);
    assert_eq!((&cursor["client"], &config["mcpServers"]["garth"]["args"]), (&json!("cursor"), &due));
    assert_eq!(config["mcpServers"]["garth"]["command"], json!(program));
}
