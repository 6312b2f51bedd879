//! `garth serve`, beside the command line on the same data folder.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command};

use serde_json::{Value, json};

use super::garth::{Garth, string};

/// A server that runs until this is dropped.
struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    line: Value,
}

impl Server {
    fn start(garth: &Garth) -> Self {
        let mut child =
            garth.command(&["serve", "--listen", "127.0.0.1:0", "--json"]).spawn().expect("garth starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let line = serde_json::from_str(&line).expect("the line is JSON");
        Self { child, stdout, line }
    }

    fn post(&self, key: &str, what: &str, body: &Value) -> Value {
        let url = format!("{}/v1/{what}", string(&self.line["url"]));
        let request = ureq::post(&url).header("Authorization", format!("Bearer {key}"));
        let mut answer = request.send_json(body).expect("an answer of 200");
        answer.body_mut().read_json().expect("JSON")
    }

    /// Asks it to stop; gives what else it printed and its exit code.
    fn stop(mut self, signal: &str) -> (String, Option<i32>) {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
        assert!(sent.expect("sh runs").success());
        let code = self.child.wait().expect("it ends").code();
        let mut rest = String::new();
        while self.stdout.read_line(&mut rest).expect("the rest") > 0 {}
        (rest, code)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_first_start_shows_a_key_once_that_opens_the_account() {
    let garth = Garth::new();
    let server = Server::start(&garth);
    let url = string(&server.line["url"]);
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with('/'), "{url}");
    assert_eq!(
        string(&server.line["data"]),
        garth.data().canonicalize().expect("it is there").to_str().expect("UTF-8")
    );
    assert_eq!(server.line["account"], "default");
    let key = string(&server.line["key"]);
    assert!(key.starts_with("garth_"), "the key has its form");
    server.post(&key, "put", &json!({"path": "/user/tone", "value": "direct"}));
    assert_eq!(server.post(&key, "get", &json!({"path": "/user/tone"}))["value"], "direct");
    assert_eq!(server.stop("TERM"), (String::new(), Some(0)), "one line on stdout, and an orderly end");
    let server = Server::start(&garth);
    assert_eq!(server.line["key"], Value::Null, "the key is shown once");
    assert_eq!(server.post(&key, "get", &json!({"path": "/user/tone"}))["value"], "direct");
    assert_eq!(server.stop("INT").1, Some(0));
}

#[test]
fn a_note_survives_sigkill() {
    let garth = Garth::new();
    let mut server = Server::start(&garth);
    let key = string(&server.line["key"]);
    let put = server.post(&key, "put", &json!({"path": "/note", "value": {"text": "remember me"}}));
    garth.write("/from/the/command/line.md", "me too");
    server.child.kill().expect("SIGKILL");
    server.child.wait().expect("it is gone");
    let note = garth.json(&["kv", "get", "/note"]);
    assert_eq!((&note["value"]["text"], &note["version_id"]), (&json!("remember me"), &put["version_id"]));
    assert_eq!(garth.ok(&["cat", "/from/the/command/line.md"]), "me too");
    let server = Server::start(&garth);
    assert_eq!(server.post(&key, "get", &json!({"path": "/note"}))["value"]["text"], "remember me");
}

#[test]
fn the_command_line_and_the_server_see_the_same_tree_at_the_same_moment() {
    let garth = Garth::new();
    let server = Server::start(&garth);
    let key = string(&server.line["key"]);
    for number in 0..5 {
        server.post(&key, "put", &json!({"path": "/count", "value": number}));
        assert_eq!(garth.json(&["kv", "get", "/count"])["value"], number);
        garth.ok(&["kv", "put", "/count", &(number + 100).to_string()]);
        assert_eq!(server.post(&key, "get", &json!({"path": "/count"}))["value"], number + 100);
    }
    let id = string(&garth.lines(&["key", "list"])[0]["id"]);
    garth.ok(&["key", "revoke", &id]);
    let url = format!("{}/v1/get", string(&server.line["url"]));
    let request = ureq::post(&url).header("Authorization", format!("Bearer {key}"));
    let refused = request.send_json(json!({"path": "/count"}));
    assert!(matches!(refused, Err(ureq::Error::StatusCode(401))), "{refused:?}");
}

#[test]
fn people_are_shown_address_data_account_key_and_what_to_try() {
    let garth = Garth::new();
    let mut child = garth.command(&["serve", "--listen", "127.0.0.1:0"]).spawn().expect("garth starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut shown = String::new();
    while !shown.contains("curl ") {
        assert!(stdout.read_line(&mut shown).expect("a line") > 0, "{shown}");
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    for part in ["http://127.0.0.1:", garth.data().to_str().expect("UTF-8"), "default", "garth_"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_start_that_finds_its_port_taken_does_not_use_up_the_key() {
    let garth = Garth::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    assert!(garth.fails(4, &["serve", "--listen", &address]).contains(&address));
    garth.fails(2, &["serve", "--listen", "nonsense"]);
    let server = Server::start(&garth);
    assert!(server.line["key"].is_string());
}
