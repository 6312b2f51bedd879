//! `garth serve`, and the command line on the same data folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::garth::{Garth, string, text, utf8};

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    line: Value,
}

impl Server {
    pub(crate) fn start(garth: &Garth) -> Self {
        Self::of(&mut garth.command(&["serve", "--listen", "127.0.0.1:0", "--json"]))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("garth starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let line = serde_json::from_str(&line).expect("the line is JSON");
        Self { child, stdout, line }
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> String {
        string(&self.line["url"])
    }

    /// Returns the key that the first start shows.
    pub(crate) fn key(&self) -> String {
        string(&self.line["key"])
    }

    pub(crate) fn post(&self, key: &str, what: &str, body: &Value) -> Value {
        let url = format!("{}/v1/{what}", string(&self.line["url"]));
        let request = ureq::post(&url).header("Authorization", format!("Bearer {key}"));
        let mut answer = request.send_json(body).expect("an answer of 200");
        answer.body_mut().read_json().expect("JSON")
    }

    /// Returns the memory of the server in KiB, by its name in `/proc/PID/status`: `VmRSS` now, `VmHWM` at
    /// most.
    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells it");
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number")
    }

    /// Stops the server. Returns its log.
    pub(crate) fn log(mut self) -> String {
        let mut stderr = self.child.stderr.take().expect("a pipe");
        self.stop("TERM");
        let mut log = String::new();
        stderr.read_to_string(&mut log).expect("UTF-8");
        log
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
        assert!(sent.expect("sh runs").success());
    }

    /// Waits for the end of the server. Returns its exit code and its log.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut log).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), log)
    }

    /// Stops the server. Returns the rest of its stdout and its exit code.
    fn stop(mut self, signal: &str) -> (String, Option<i32>) {
        self.signal(signal);
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
fn server_refuses_huge_pages() {
    let garth = Garth::new();
    let server = Server::start(&garth);
    let huge = || {
        let path = format!("/proc/{}/smaps_rollup", server.child.id());
        let maps = std::fs::read_to_string(path).expect("Linux tells it");
        maps.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).expect("a count").to_owned()
    };
    assert_eq!(server.memory("THP_enabled:"), 0, "the kernel was told");
    // Memory from before the program began stays.
    let before = huge();
    for n in 0..20 {
        let value = "x".repeat(500_000);
        server.post(&string(&server.line["key"]), "put", &json!({"path": format!("/{n}"), "value": value}));
    }
    assert_eq!(huge(), before);
}

#[test]
fn first_start_shows_a_key_once() {
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
fn note_survives_sigkill() {
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
fn command_line_and_server_see_same_tree() {
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
fn serve_prints_address_account_and_key() {
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
fn idle_clients_hold_bounded_memory() {
    let garth = Garth::new();
    let server = Server::start(&garth);
    let key = string(&server.line["key"]);
    for number in 0..6 {
        let value = format!("{number}{}", "word ".repeat(180_000));
        server.post(&key, "put", &json!({"path": "/long", "value": value}));
    }
    let address = string(&server.line["url"]).trim_start_matches("http://").to_owned();
    let body = json!({"path": "/long", "limit": 100}).to_string();
    let request = format!(
        "POST /v1/history HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = |requests: usize| {
        let mut client = TcpStream::connect(&address).expect("a connection");
        client.write_all(request.repeat(requests).as_bytes()).expect("requests");
        client
    };
    let status = |client: &mut TcpStream| {
        let mut line = [0; 12];
        client.read_exact(&mut line).expect("an answer begins");
        String::from_utf8_lossy(&line[9..]).into_owned()
    };
    // Each client asks for 32 MiB, more than the socket buffers of the system hold.
    let mut clients: Vec<TcpStream> = (0..64).map(|_| ask(8)).collect();
    for client in &mut clients {
        assert!(["200", "503"].contains(&status(client).as_str()));
    }
    // The room is used up now, or soon.
    while status(&mut ask(1)) != "503" {}
    let most = server.memory("VmHWM:");
    assert!(most < 200 << 10, "{most} KiB");
    drop(clients);
    while server.memory("VmRSS:") > 100 << 10 {
        std::thread::yield_now();
    }
    assert_eq!(server.post(&key, "get", &json!({"path": "/none"}))["found"], false);
}

#[test]
fn failed_start_keeps_the_first_key() {
    let garth = Garth::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    assert!(garth.fails(4, &["serve", "--listen", &address]).contains(&address));
    garth.fails(2, &["serve", "--listen", "nonsense"]);
    let server = Server::start(&garth);
    assert!(server.line["key"].is_string());
}

#[test]
fn access_log_has_no_secrets() {
    let garth = Garth::new();
    let mut key = Value::Null;
    for (arguments, logged) in [(&["--access-log"][..], true), (&[], false)] {
        let arguments = [&["serve", "--listen", "127.0.0.1:0", "--json"], arguments].concat();
        let mut command = garth.command(&arguments);
        let server = Server::of(command.stderr(Stdio::piped()).env("GARTH_LOG", "warn"));
        if key.is_null() {
            key = server.line["key"].clone();
        }
        let (key, id) = (string(&key), string(&garth.lines(&["key", "list"])[0]["id"]));
        let put = server.post(&key, "put", &json!({"path": "/user/tone", "value": "a secret value"}));
        assert_eq!(put["ok"], true);
        let refused = ureq::get(format!("{}/no?query=1", string(&server.line["url"]))).call();
        assert!(matches!(refused, Err(ureq::Error::StatusCode(404))), "{refused:?}");
        let log = server.log();
        assert!(!log.contains(&key) && !log.contains("a secret value") && !log.contains("query"), "{log}");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("request_id")).collect();
        if !logged {
            assert_eq!(lines, [""; 0]);
            continue;
        }
        assert_eq!(lines.len(), 2, "{log}");
        for (line, parts) in lines.iter().zip([
            [
                &format!("key=\"{id}\""),
                "method=\"POST\"",
                "path=\"/v1/put\"",
                "status=200",
                "bytes=",
                "duration_us=",
            ],
            ["key=\"-\"", "method=\"GET\"", "path=\"/no\"", "status=404", "bytes=", "duration_us="],
        ]) {
            assert!(line.starts_with("20") && line.contains("request_id=\"req_"), "{line}");
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
    }
}

#[test]
fn taken_port_names_the_option() {
    let garth = Garth::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let error = garth.fails(4, &["serve", "--listen", &address]);
    assert!(error.contains("; choose another with --listen"), "{error}");
}

#[test]
fn access_log_has_sizes_of_downloads() {
    let garth = Garth::new();
    let mut command = garth.command(&["serve", "--listen", "127.0.0.1:0", "--json", "--access-log"]);
    let server = Server::of(command.stderr(Stdio::piped()).env("GARTH_LOG", "warn"));
    let (url, key) = (format!("{}/v1/fs/file", server.url()), format!("Bearer {}", server.key()));
    ureq::put(&url).header("Authorization", &key).send("x".repeat(70_000).as_str()).expect("a file");
    let mut whole = ureq::get(&url).header("Authorization", &key).call().expect("the file");
    assert_eq!(whole.body_mut().read_to_vec().expect("bytes").len(), 70_000);
    let part = ureq::get(&url).header("Authorization", &key).header("Range", "bytes=5-1004").call();
    part.expect("a part").body_mut().read_to_vec().expect("bytes");
    ureq::head(&url).header("Authorization", &key).call().expect("the head");
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("path=\"/v1/fs/file\"")).collect();
    for (line, (method, bytes)) in
        lines.iter().skip(1).zip([("GET", "bytes=70000"), ("GET", "bytes=1000"), ("HEAD", "bytes=0")])
    {
        let parts: Vec<&str> = line.split(' ').collect();
        assert!(parts.contains(&bytes) && line.contains(&format!("method=\"{method}\"")), "{line}");
    }
    assert_eq!(lines.len(), 4, "{log}");
}

/// Starts an endpoint that refuses all requests. Returns its address, and the heads of the requests in lower
/// case.
fn refusing_endpoint() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, heads) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let (mut request, mut head) = (BufReader::new(&stream), String::new());
            while !head.ends_with("\r\n\r\n") {
                assert!(request.read_line(&mut head).expect("a line") > 0, "closed within a head");
            }
            head.make_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
            request.read_exact(&mut vec![0; length]).expect("a body");
            let answer = b"HTTP/1.1 500 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            (&stream).write_all(answer).expect("the answer is sent");
            // The test may have ended.
            if sender.send(head).is_err() {
                return;
            }
        }
    });
    (address, heads)
}

#[test]
fn log_has_no_keys_of_endpoints() {
    // A dump divides a request into rows, each with a part of the key.
    let key = "xyzzy".repeat(8);
    for filter in ["trace", "debug", "info,ureq=trace,ureq_proto=trace,ureq_proto::util=trace,rustls=trace"] {
        let garth = Garth::new();
        let (secret, path) = (garth.beside("secret"), garth.beside("log"));
        std::fs::write(&secret, "0123456789abcdef\n").expect("a file");
        let (address, heads) = refusing_endpoint();
        // The path of a URL can be secret as well.
        let [sink, model] = ["sink", "model"].map(|name| format!("http://{address}/{name}/{key}"));
        let mut command = garth.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.args(["--sink", &sink, "--sink-secret-file", utf8(&secret)]);
        command.args(["--embedder-endpoint", &model, "--embedder", "m"]);
        // A pipe could fill up.
        command.stderr(std::fs::File::create(&path).expect("a file"));
        let server = Server::of(command.env("GARTH_LOG", filter).env("GARTH_EMBEDDER_KEY", &key));
        for name in ["alpha", "beta"] {
            let memory = json!({"text": format!("The ferry note about {name}.")});
            server.post(&server.key(), "remember", &memory);
        }
        let answer = server.post(&server.key(), "recall", &json!({"question": "which ferry note"}));
        assert!(string(&answer["notes"][0]).contains("status 500"), "{answer}");
        let mut waiting = vec!["post /sink/xyzzy", "post /model/xyzzy"];
        while !waiting.is_empty() {
            let head = heads.recv_timeout(Duration::from_secs(60)).expect("a request");
            assert_eq!(head.starts_with("post /model"), head.contains("bearer xyzzy"), "{head}");
            waiting.retain(|start| !head.starts_with(start));
        }
        server.stop("TERM");
        let log = std::fs::read_to_string(&path).expect("the log");
        assert!(log.contains("embedding service") && !log.contains("xyzzy"), "{filter}: {log}");
    }
}

#[test]
fn log_has_no_patterns_of_requests() {
    for filter in ["trace", "debug"] {
        let garth = Garth::new();
        let path = garth.beside("log");
        let mut command = garth.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        // A pipe could fill up.
        command.stderr(std::fs::File::create(&path).expect("a file"));
        let server = Server::of(command.env("GARTH_LOG", filter));
        server.post(&server.key(), "put", &json!({"path": "/a", "value": "x"}));
        server.post(&server.key(), "tree/glob", &json!({"pattern": "/agents/xyzzy?"}));
        let grep = json!({"expressions": ["xyzzy"], "include": ["xyzzy*"], "exclude": ["[x]yzzy"]});
        server.post(&server.key(), "tree/grep", &grep);
        server.stop("TERM");
        let log = std::fs::read_to_string(&path).expect("the log");
        assert!(log.contains("stopping") && !log.contains("yzzy"), "{filter}: {log}");
    }
}

#[test]
fn commands_of_specification_print_shown_output() {
    run_specification("kv-api.md", 3);
}

#[test]
fn commands_on_files_print_shown_output() {
    run_specification("http-tree.md", 3);
}

#[test]
fn commands_of_http_pages_work_on_new_server() {
    for page in ["http-files.md", "http-admin.md", "workspace-http.md"] {
        run_specification(page, 0);
    }
}

/// Runs the commands of a page on a new server, in a folder with the files that they send, and compares the
/// answers that the page shows, `least` or more.
fn run_specification(page: &str, least: usize) {
    let specification = std::path::PathBuf::from(
        std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is"),
    )
    .join("../../docs/specs")
    .join(page);
    let specification = std::fs::read_to_string(specification).expect("the page");
    let blocks = specification.split("```sh\n").skip(1).filter_map(|part| part.split("```").next());
    let script: String = blocks.flat_map(str::lines).filter(|line| !line.starts_with("export ")).fold(
        "set -e; curl() { command curl -sS --fail-with-body -w '\\n' \"$@\"; }\n".to_owned(),
        |script, line| script + line + "\n",
    );
    let garth = Garth::new();
    let server = Server::start(&garth);
    let address = string(&server.line["url"]);
    let script = script.replace("localhost:8787", address.trim_start_matches("http://"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["plan.pdf", "photo.png"] {
        std::fs::write(folder.path().join(name), name.repeat(200)).expect("a file");
    }
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("GARTH_KEY", string(&server.line["key"]))
        .output()
        .expect("bash runs");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    let shown: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("# {")).collect();
    assert!(shown.len() >= least, "{page}");
    // Versions and cursors are those of each account.
    for line in shown.iter().filter(|line| !line.contains("ver_") && !line.contains("next_cursor")) {
        assert!(printed.lines().any(|printed| printed.strip_prefix('{') == Some(*line)), "{line}\n{printed}");
    }
}
