//! `garth serve` and commands of operators on a PostgreSQL database.

use std::fs;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::time::Duration;

use garth_testkit::postgres::Cluster;
use serde_json::{Value, json};

use super::garth::{bare, column, finish, string, text, utf8};
use super::serve::Server;

const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];
/// Password of the URL, which the server of the tests does not ask for.
const PASSWORD: &str = concat!("hidden", "-7391");

fn database() -> Cluster {
    Cluster::in_memory().expect("a database")
}

/// Returns the URL of a database, with a password.
fn url(cluster: &Cluster) -> String {
    format!("postgresql://garth:{PASSWORD}@{}/garth", cluster.address())
}

/// Returns a command on a database.
fn command(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = bare(args);
    command.env("GARTH_POSTGRES", url(cluster));
    command
}

fn run(cluster: &Cluster, args: &[&str]) -> Output {
    finish(command(cluster, args), b"")
}

/// Runs a command that must succeed with `--json`. Returns each line as JSON.
fn lines(cluster: &Cluster, args: &[&str]) -> Vec<Value> {
    let output = run(cluster, &[args, &["--json"]].concat());
    assert!(output.status.success(), "garth {args:?}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn start(cluster: &Cluster) -> Server {
    Server::of(&mut command(cluster, &SERVE))
}

/// Sends a request. Returns the status of its answer, the header `Retry-After` and the body.
fn call(server: &Server, path: &str, key: &str, body: Option<&Value>) -> (u16, Option<String>, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let (url, bearer) = (format!("{}{path}", server.url()), format!("Bearer {key}"));
    let answer = match body {
        Some(body) => agent.post(&url).header("Authorization", bearer).send_json(body),
        None => agent.get(&url).header("Authorization", bearer).call(),
    };
    let mut answer = answer.expect("an answer");
    let retry_after = answer.headers().get("retry-after").map(|value| text(value.as_bytes()));
    (answer.status().as_u16(), retry_after, answer.body_mut().read_to_string().expect("a text"))
}

/// Waits until the server is ready, or not.
fn wait_for_readiness(server: &Server, expected: u16) {
    for _ in 0..600 {
        if call(server, "/readyz", "", None).0 == expected {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    panic!("/readyz does not answer {expected}");
}

#[test]
fn server_stores_values_in_a_database() {
    let cluster = database();
    let server = start(&cluster);
    let (key, port) = (server.key(), cluster.address().port());
    assert!(key.starts_with("garth_"), "the first start shows a key");
    server.post(&key, "put", &json!({"path": "/user/tone", "value": "direct and warm", "searchable": true}));
    server.post(&key, "put", &json!({"path": "/user/name", "value": "Ann"}));
    assert_eq!(server.post(&key, "get", &json!({"path": "/user/tone"}))["value"], "direct and warm");
    let listed = server.post(&key, "list", &json!({"prefix": "/user"}));
    assert_eq!(column(listed["items"].as_array().expect("items"), "path"), ["/user/name", "/user/tone"]);
    let found = server.post(&key, "search", &json!({"query": "Which tone is warm?"}));
    assert_eq!(column(found["results"].as_array().expect("results"), "path"), ["/user/tone"]);
    let (status, _, metrics) = call(&server, "/metrics", "", None);
    assert_eq!(status, 200);
    let connections = metrics.lines().find_map(|line| line.strip_prefix("garth_database_connections "));
    assert!(connections.expect("a count").parse::<u64>().expect("a number") > 0, "{metrics}");
    let (code, _, log) = ended(server);
    assert_eq!(code, Some(0), "an orderly end: {log}");
    // The next start finds the key and the values.
    let server = start(&cluster);
    assert_eq!(server.post(&key, "get", &json!({"path": "/user/name"}))["value"], "Ann");
    let shown = run(&cluster, &["serve", "--check", "--listen", "127.0.0.1:0", "--json"]);
    let checked: Value = serde_json::from_slice(&shown.stdout).expect("one object");
    assert_eq!(checked["data"], format!("postgresql://127.0.0.1:{port}/garth"));
    assert_eq!((&checked["state"], &checked["creates_key"]), (&json!("current"), &json!(false)));
}

/// Stops a server. Returns its exit code, its URL and its log.
fn ended(server: Server) -> (Option<i32>, String, String) {
    let url = server.url();
    server.signal("TERM");
    let (code, log) = server.ended();
    (code, url, log)
}

#[test]
fn files_are_stored_over_http() {
    let cluster = database();
    let server = start(&cluster);
    let (key, url) = (server.key(), format!("{}/v1/fs/notes/tea.md", server.url()));
    let bearer = format!("Bearer {key}");
    let put = ureq::put(&url).header("Authorization", &bearer).send("green tea, not black");
    assert!(put.expect("an answer").status().is_success());
    assert_eq!(call(&server, "/v1/fs/notes/tea.md", &key, None).2, "green tea, not black");
    let listed = server.post(&key, "tree/list", &json!({"path": "/notes"}));
    assert!(listed.to_string().contains("tea.md"), "{listed}");
    let found = server.post(&key, "tree/search", &json!({"query": "green tea"}));
    assert!(found.to_string().contains("/notes/tea.md"), "{found}");
}

#[test]
fn operators_manage_accounts_and_keys_of_a_database() {
    let cluster = database();
    // A mistyped URL must not create tables somewhere.
    let refused = run(&cluster, &["account", "list"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("no tables of garth") && said.contains("garth account create"), "{said}");
    lines(&cluster, &["account", "create", "team"]);
    assert_eq!(column(&lines(&cluster, &["account", "list"]), "account"), ["default", "team"]);
    let create = ["key", "create", "--account", "team", "--label", "one", "--scope", "admin"];
    let made = lines(&cluster, &create).remove(0);
    let (id, key) = (string(&made["id"]), string(&made["key"]));
    assert_eq!(column(&lines(&cluster, &["key", "list", "--account", "team"]), "id"), [id.as_str()]);
    let server = start(&cluster);
    server.post(&key, "put", &json!({"path": "/a", "value": 1}));
    lines(&cluster, &["key", "revoke", &id, "--account", "team"]);
    assert_eq!(call(&server, "/v1/get", &key, Some(&json!({"path": "/a"}))).0, 401);
    let said = run(&cluster, &["account", "rm", "team"]);
    assert!(text(&said.stderr).contains("Remove account team with"), "{}", text(&said.stderr));
    lines(&cluster, &["account", "rm", "team", "--yes"]);
    assert_eq!(column(&lines(&cluster, &["account", "list"]), "account"), ["default"]);
    let backup = run(&cluster, &["backup", "/nowhere"]);
    assert!(text(&backup.stderr).contains("the tools of its database"), "{}", text(&backup.stderr));
}

#[test]
fn servers_on_one_database_see_each_others_commits() {
    let cluster = database();
    let (one, other) = (start(&cluster), start(&cluster));
    let key = one.key();
    for number in 0..5 {
        one.post(&key, "put", &json!({"path": "/count", "value": number}));
        assert_eq!(other.post(&key, "get", &json!({"path": "/count"}))["value"], number);
        other.post(&key, "put", &json!({"path": "/count", "value": number + 100}));
        assert_eq!(one.post(&key, "get", &json!({"path": "/count"}))["value"], number + 100);
    }
    let id = string(&lines(&cluster, &["key", "list"])[0]["id"]);
    lines(&cluster, &["key", "revoke", &id]);
    for server in [&one, &other] {
        assert_eq!(call(server, "/v1/get", &key, Some(&json!({"path": "/count"}))).0, 401);
    }
}

#[test]
fn killed_server_loses_no_acknowledged_write() {
    let cluster = database();
    let (one, other) = (start(&cluster), start(&cluster));
    let (key, url) = (one.key(), format!("{}/v1/put", one.url()));
    let (acknowledge, acknowledged) = channel();
    let writers: Vec<_> = (0..3_u32)
        .map(|writer| {
            let (key, url, acknowledge) = (key.clone(), url.clone(), acknowledge.clone());
            std::thread::spawn(move || {
                for number in 0.. {
                    let path = format!("/of/{writer}/{number}");
                    let put = ureq::post(&url).header("Authorization", format!("Bearer {key}"));
                    // The server was killed.
                    let Ok(_) = put.send_json(json!({"path": path, "value": number})) else { return };
                    acknowledge.send((path, number)).expect("a receiver");
                }
            })
        })
        .collect();
    drop(acknowledge);
    let mut written: Vec<(String, u32)> = acknowledged.iter().take(60).collect();
    one.signal("KILL");
    written.extend(acknowledged.iter());
    writers.into_iter().for_each(|writer| writer.join().expect("it ends"));
    assert!(written.len() >= 60);
    for (path, number) in written {
        assert_eq!(other.post(&key, "get", &json!({"path": path}))["value"], number, "{path}");
    }
    // The account is not locked by the server that is gone.
    other.post(&key, "put", &json!({"path": "/after", "value": true}));
}

#[test]
fn server_outlives_an_outage_of_its_database() {
    let mut cluster = database();
    let server = start(&cluster);
    let (key, get) = (server.key(), json!({"path": "/a"}));
    server.post(&key, "put", &json!({"path": "/a", "value": "before"}));
    assert_eq!(call(&server, "/readyz", "", None).0, 200);
    cluster.stop_immediately().expect("it stops");
    wait_for_readiness(&server, 503);
    let (status, retry_after, body) = call(&server, "/v1/get", &key, Some(&get));
    assert_eq!((status, retry_after.as_deref()), (503, Some("1")), "{body}");
    assert!(body.contains("UNAVAILABLE") && !body.contains("127.0.0.1"), "{body}");
    assert_eq!(call(&server, "/healthz", "", None).0, 200);
    cluster.restart().expect("it starts");
    wait_for_readiness(&server, 200);
    assert_eq!(server.post(&key, "get", &get)["value"], "before");
    server.post(&key, "put", &json!({"path": "/a", "value": "after"}));
    let (code, _, log) = ended(server);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn server_without_its_database_stops_when_told() {
    let mut cluster = database();
    let server = start(&cluster);
    cluster.stop_immediately().expect("it stops");
    wait_for_readiness(&server, 503);
    let (code, _, log) = ended(server);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("not ready"), "{log}");
}

#[test]
fn password_is_never_shown() {
    let mut cluster = database();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("database-url");
    fs::write(&file, format!("{}\n", url(&cluster))).expect("a file");
    let mut of_file = bare(&[&SERVE[..], &["--postgres-file", utf8(&file), "--access-log"]].concat());
    let server = Server::of(of_file.env("GARTH_LOG", "debug"));
    let key = server.key();
    let put = server.post(&key, "put", &json!({"path": "/a", "value": 1}));
    let (_, _, metrics) = call(&server, "/metrics", "", None);
    cluster.stop_immediately().expect("it stops");
    wait_for_readiness(&server, 503);
    let (_, _, refused) = call(&server, "/v1/get", &key, Some(&json!({"path": "/a"})));
    let (_, _, log) = ended(server);
    assert!(log.contains("garth_server::access"), "the log is on");
    let shown = [put.to_string(), metrics, refused, log];
    assert!(shown.iter().all(|text| !text.contains(PASSWORD)), "{shown:?}");
    cluster.restart().expect("it starts");
    let config = ["mcp", "--print-config", "claude-code"];
    let printed = finish(bare(&[&config[..], &["--postgres-file", utf8(&file)]].concat()), b"");
    let outputs = [
        run(&cluster, &["serve", "--check", "--listen", "127.0.0.1:0"]),
        run(&cluster, &["config"]),
        run(&cluster, &["status"]),
        run(&cluster, &["ls", "--account", "nobody", "--json"]),
        run(&cluster, &config),
        printed,
    ];
    for output in &outputs {
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.is_empty() && !shown.contains(PASSWORD), "{shown}");
    }
    assert!(text(&outputs[5].stdout).contains("--postgres-file"), "{}", text(&outputs[5].stdout));
}

#[test]
fn wrong_databases_are_refused_with_advice() {
    let cluster = database();
    cluster.psql(&cluster.admin_url(), "CREATE ROLE other LOGIN").expect("a role");
    let socket = cluster.socket_url();
    // Nothing listens on port 1.
    let unreachable = format!("postgresql://garth:{PASSWORD}@127.0.0.1:1/garth");
    for (url, code, said) in [
        (PASSWORD.to_owned(), 2, "GARTH_POSTGRES: the URL of the database is not valid"),
        (format!("{}?sslmode=require", url(&cluster)), 2, "TLS to the database is not supported"),
        (unreachable, 7, "postgresql://127.0.0.1:1/garth: the database cannot be reached"),
        (format!("postgresql://garth:{PASSWORD}@{}/missing", cluster.address()), 5, "refuses the role"),
        (socket.replace(":///garth?", ":///missing?"), 7, "there is no database of that name"),
        (cluster.admin_url(), 5, "superuser"),
        (socket.replace("user=garth", "user=other"), 5, "it must own the database"),
    ] {
        let mut command = bare(&SERVE);
        command.env("GARTH_POSTGRES", &url);
        let output = finish(command, b"");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{url}: {stderr}");
        assert!(stderr.contains(said) && !stderr.contains(PASSWORD), "{url}: {stderr}");
        assert_eq!(text(&output.stdout), "", "{url}");
    }
    drop(ended(start(&cluster)));
    let newer = "SET garth.account = '0'; UPDATE garth.format SET version = 99";
    cluster.psql(&socket, newer).expect("a format");
    let refused = run(&cluster, &SERVE);
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("format 99"), "{stderr}");
}

#[test]
fn options_name_one_place() {
    let cluster = database();
    let plain = cluster.tcp_url();
    let with_password = url(&cluster);
    for (args, variable, said) in [
        (vec!["--postgres", &with_password], None, "--postgres: the URL has a password"),
        (vec!["--postgres", &plain, "--data", "/data"], None, "--data and --postgres are both set"),
        (
            vec!["--postgres", &plain, "--postgres-file", "/f"],
            None,
            "--postgres and --postgres-file are both",
        ),
        (vec![], Some("/data"), "GARTH_DATA and GARTH_POSTGRES are both set"),
    ] {
        let mut command = command(&cluster, &[&["account", "list"], args.as_slice()].concat());
        if let Some(data) = variable {
            command.env("GARTH_DATA", data);
        }
        let output = finish(command, b"");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said) && !stderr.contains(PASSWORD), "{args:?}: {stderr}");
    }
    // An option precedes the variables.
    let mut command = bare(&["account", "create", "team", "--postgres", &plain]);
    command.env("GARTH_DATA", "/nowhere/at/all");
    let output = finish(command, b"");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(column(&lines(&cluster, &["account", "list"]), "account"), ["default", "team"]);
}
