//! A server as its operator sees it: readiness, metrics, and how it stops.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::garth::{Garth, finish, string, text};
use super::serve::Server;

const TOKEN: &str = "a-token-of-enough-bytes";

/// Sends a `GET` with these headers (each ends with CRLF). Returns the answer; `None` if nothing listens.
fn get(server: &Server, path: &str, headers: &str) -> Option<String> {
    exchange(server, &format!("GET {path} HTTP/1.0\r\n{headers}\r\n"))
}

/// Sends bytes. Returns all that the server sends until it closes; `None` if nothing listens.
fn exchange(server: &Server, request: &str) -> Option<String> {
    let url = server.url();
    let mut stream = TcpStream::connect(url.strip_prefix("http://")?).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Returns the status of the answer to a `GET`.
fn status(server: &Server, path: &str, headers: &str) -> Option<u16> {
    get(server, path, headers)?.split(' ').nth(1)?.parse().ok()
}

fn start(garth: &Garth, options: &[&str]) -> Server {
    let args = [&["serve", "--listen", "127.0.0.1:0", "--json"], options].concat();
    Server::of(&mut garth.command(&args))
}

#[test]
fn readiness_fails_before_the_sockets_close() {
    let garth = Garth::new();
    let server = start(&garth, &["--stop-delay", "10m"]);
    assert_eq!(status(&server, "/readyz", ""), Some(200));
    server.signal("TERM");
    while status(&server, "/readyz", "") == Some(200) {}
    let answer = get(&server, "/readyz", "").expect("it still listens");
    assert!(answer.contains(" 503 ") && answer.contains("the server stops"), "{answer}");
    assert_eq!(status(&server, "/healthz", ""), Some(200));
    let key = server.key();
    server.post(&key, "put", &json!({"path": "/a", "value": 1}));
    // The second signal ends the delay.
    server.signal("TERM");
    let (code, log) = server.ended();
    assert_eq!(code, Some(143), "{log}");
    assert!(log.contains("stopped at once by a second signal"), "{log}");
    assert_eq!(garth.json(&["kv", "get", "/a"])["value"], 1, "what was answered stays");
}

#[test]
fn health_asks_whether_a_server_is_ready() {
    let garth = Garth::new();
    let server = start(&garth, &["--min-free-disk", "0"]);
    let url = server.url();
    let address = url.trim_start_matches("http://");
    assert_eq!(garth.ok(&["health", "--server", address]), "ready\n");
    assert_eq!(garth.ok(&["health", "--server", &url]), "ready\n", "as `garth serve` prints it");
    let mut command = garth.command(&["health"]);
    command.env("GARTH_LISTEN", format!("{address},[::1]:1"));
    assert_eq!(text(&finish(command, b"").stdout), "ready\n");
    for wrong in ["nonsense", "https://127.0.0.1:8787", "http://127.0.0.1", "127.0.0.1:99999"] {
        let said = garth.fails(2, &["health", "--server", wrong]);
        assert!(said.contains(&format!("`{wrong}` is not HOST:PORT")), "{said}");
    }
    drop(server);
    let said = garth.fails(7, &["health", "--server", address]);
    assert!(said.contains(address), "{said}");
    let server = start(&garth, &["--min-free-disk", "1TiB"]);
    let url = server.url();
    let output = garth.run(&["health", "--json", "--server", url.trim_start_matches("http://")], b"");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // A disk may have more free space than the largest limit.
    assert_eq!(output.status.code(), Some(if printed["ready"] == true { 0 } else { 1 }), "{printed}");
    assert_eq!(printed["reason"].is_null(), printed["ready"] == true, "{printed}");
}

#[test]
fn requests_beyond_the_grace_are_reported() {
    let garth = Garth::new();
    let server = start(&garth, &["--stop-grace", "0s"]);
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
    let head = format!(
        "POST /v1/put HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nexpect: 100-continue\r\n\
         content-length: 10\r\n\r\n",
        server.key()
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut began = [0; 12];
    stream.read_exact(&mut began).expect("an interim answer");
    assert_eq!(&began, b"HTTP/1.1 100");
    server.signal("INT");
    let (code, log) = server.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("requests in flight were cut off"), "{log}");
}

#[test]
fn access_log_has_a_line_for_every_answer() {
    let garth = Garth::new();
    let server = start(&garth, &["--access-log", "--log-format", "json"]);
    // The last one is refused before there is a request.
    let requests =
        ["GET /healthz HTTP/1.0\r\n\r\n", "GET /nowhere HTTP/1.0\r\n\r\n", "GET / a HTTP/1.1\r\n\r\n"];
    let answers = requests.map(|request| exchange(&server, request).expect("an answer"));
    let id = |answer: &String| {
        let id = answer.lines().find_map(|line| line.strip_prefix("x-request-id: "));
        id.expect("an id").to_owned()
    };
    let log = server.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let logged = lines.filter(|line| line["target"] == "garth_server::access");
    let logged: Vec<String> = logged.map(|line| string(&line["request_id"])).collect();
    assert_eq!(logged, answers.iter().map(id).collect::<Vec<_>>(), "{log}");
}

#[test]
fn metrics_are_off_in_production_unless_enabled() {
    let garth = Garth::new();
    let served = |variables: &[(&str, &str)]| {
        let mut command = garth.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        Server::of(command.envs(variables.iter().copied()))
    };
    let production = ("GARTH_ENV", "production");
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    for (variables, without, with) in [
        (&[][..], 200, 200),
        (&[("ENABLE_METRICS", "false")][..], 404, 404),
        (&[production][..], 404, 404),
        (&[production, ("METRICS_TOKEN", TOKEN)][..], 404, 404),
        (&[production, ("ENABLE_METRICS", "true"), ("METRICS_TOKEN", TOKEN)][..], 401, 200),
    ] {
        let server = served(variables);
        let answered = [status(&server, "/metrics", ""), status(&server, "/metrics", &token)];
        assert_eq!(answered, [Some(without), Some(with)], "{variables:?}");
        let log = server.log();
        assert!(!log.contains(TOKEN), "{log}");
    }
}

#[test]
fn enabled_metrics_need_a_token_in_production() {
    let garth = Garth::new();
    let check = |variables: &[(&str, &str)]| {
        let mut command = garth.command(&["config"]);
        command.env("GARTH_ENV", "production").envs(variables.iter().copied());
        let output = finish(command, b"");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = check(&[("ENABLE_METRICS", "true")]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ENABLE_METRICS requires METRICS_TOKEN"), "{said}");
    let (code, said) = check(&[("ENABLE_METRICS", "true"), ("METRICS_TOKEN", "T0K3N")]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("at least 16 bytes") && !said.contains("T0K3N"), "{said}");
    let (code, said) = check(&[("ENABLE_METRICS", "true"), ("METRICS_TOKEN", TOKEN)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("(set)") && !said.contains(TOKEN), "{said}");
}
