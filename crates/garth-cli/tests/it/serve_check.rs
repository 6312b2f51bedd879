//! `garth serve --check`: what a start would do, or why it would fail.

use std::fs;
use std::net::TcpListener;

use serde_json::{Value, json};

use super::garth::{Garth, finish, text, utf8};

const CHECK: [&str; 4] = ["serve", "--check", "--listen", "127.0.0.1:0"];

fn configure(garth: &Garth, lines: &str) {
    fs::create_dir_all(garth.data()).expect("a folder");
    fs::write(garth.data().join("garth.toml"), lines).expect("a file");
}

#[test]
fn check_prints_what_a_start_would_do() {
    let garth = Garth::new();
    let checked = garth.json(&CHECK);
    let expected = json!({
        "addresses": ["http://127.0.0.1:0"], "in_use": [], "data": utf8(&garth.data()), "state": "current",
        "account": "default", "creates_key": true, "hosts": [], "origins": [], "limits_calls": false,
        "sink": false, "model": null, "embedder": null,
    });
    assert_eq!(checked, expected);
    let shown = garth.ok(&CHECK);
    for line in ["data       /", "API key    created by the start", "limits     calls are not limited"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(shown.ends_with("the configuration is valid\n"), "{shown}");
    garth.ok(&["key", "create", "--scope", "admin"]);
    assert_eq!(garth.json(&CHECK)["creates_key"], false);
}

#[test]
fn check_reads_the_configuration_of_the_start() {
    let garth = Garth::new();
    configure(
        &garth,
        "listen = [\"0.0.0.0:0\"]\norigins = [\"https://app.example.com\"]\nsink = \"https://example.com/T0K3N\"\n\
         model = \"m\"\nmodel_endpoint = \"http://localhost:1/v1\"\n",
    );
    let mut command = garth.command(&["serve", "--check", "--json"]);
    command.env("GARTH_SINK_SECRET", "x".repeat(32)).env("GARTH_HOSTS", "garth.example.com,10.0.0.1");
    let output = finish(command, b"");
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && !shown.contains("T0K3N"), "{shown}");
    let checked: Value = serde_json::from_str(&shown).expect("one object");
    assert_eq!(checked["addresses"], json!(["http://0.0.0.0:0"]));
    assert_eq!(checked["hosts"], json!(["garth.example.com", "10.0.0.1"]));
    assert_eq!(checked["origins"], json!(["https://app.example.com"]));
    assert_eq!((&checked["limits_calls"], &checked["sink"]), (&json!(true), &json!(true)));
    assert_eq!(checked["model"], "m");
    let mut command = garth.command(&["serve", "--check", "--json", "--rate-limits", "off", "--hosts", "*"]);
    command.env("GARTH_SINK_SECRET", "x".repeat(32));
    let output = finish(command, b"");
    let checked: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&checked["limits_calls"], &checked["hosts"]), (&json!(false), &Value::Null));
}

#[test]
fn check_creates_nothing() {
    let garth = Garth::unmade();
    let checked = garth.json(&CHECK);
    assert_eq!((&checked["state"], &checked["creates_key"]), (&json!("missing"), &json!(true)));
    assert!(!garth.data().exists());
    assert!(garth.fails(2, &[&CHECK[..], &["--account", "team"]].concat()).contains("no data folder here"));
    assert!(!garth.data().exists());
}

#[test]
fn check_accepts_the_address_of_a_running_server() {
    let garth = Garth::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let checked = garth.json(&["serve", "--check", "--listen", &address]);
    assert_eq!(checked["in_use"], json!([format!("http://{address}")]));
    let shown = garth.ok(&["serve", "--check", "--listen", &address]);
    let due = "the configuration is valid; a start fails while another program uses its address\n";
    assert!(shown.ends_with(due), "{shown}");
}

#[test]
fn check_fails_with_the_code_of_usage_errors() {
    let garth = Garth::new();
    for (arguments, due) in [
        (&["--max-body", "1"][..], "--max-body: 1 is out of bounds"),
        (&["--hosts", "https://a.example"], "--hosts: `https://a.example` is not the name of a host"),
        (&["--origins", "a.example"], "--origins: `a.example` is not an origin"),
        (&["--rate-limits", "never"], "--rate-limits: `never` is not one of auto, on, off"),
        (&["--config", "missing.toml"], "missing.toml"),
        (&["--model", "m"], "--model requires model_endpoint"),
        (&["--sink", "https://example.com", "--sink-secret-file", "/none/secret"], "sink_secret_file"),
        (&["--sink-secret-file", "/none/secret"], "sink_secret_file"),
        (&["--model-key-file", "/none/secret"], "model_key_file"),
        (&["--listen", "192.0.2.1:80"], "192.0.2.1:80"),
        (&["--account", "nobody"], "nobody: no such account"),
    ] {
        let said = garth.fails(2, &[&["serve", "--check"][..], arguments].concat());
        assert!(said.contains(due), "{arguments:?}: {said}");
    }
}

#[test]
fn check_reports_each_wrong_line_flag_and_variable() {
    let garth = Garth::new();
    configure(
        &garth,
        "listn = [\"127.0.0.1:0\"]\nmax_body = \"1GiB\"\nsink = \"ftp://x\"\nlog = \"inf\"\nenv = \"prod\"\n\
         model_endpoint = 1\nmodel = \"m\"\n\n[server]\n",
    );
    let mut command = garth.command(&["serve", "--check", "--body-time", "30"]);
    command.env("GARTH_HEAD_TIM", "1s").env("GARTH_SINK_SECRET", "x".repeat(32));
    let output = finish(command, b"");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{said}");
    let due = [
        ":1: there is no option \"listn\"",
        ":2: max_body: 1GiB is out of bounds",
        ":4: log: `inf`",
        ":5: env: `prod`",
        ":6: model_endpoint: write a text",
        ":9: there is no option \"server\"",
        "--body-time: `30` is not a time",
        "GARTH_HEAD_TIM: there is no such option",
        "must begin with http",
    ];
    // The model is not one of the lines: its endpoint was reported.
    assert_eq!(said.lines().count(), due.len(), "{said}");
    for (line, due) in said.lines().zip(due) {
        assert!(line.contains(due), "{due}: {said}");
    }
}

#[test]
fn check_reports_all_mistakes() {
    let garth = Garth::new();
    fs::write(garth.data().join("control.db"), "no database, and longer than its header ".repeat(9))
        .expect("written over");
    let arguments = ["serve", "--check", "--json", "--model", "m", "--listen", "192.0.2.1:80"];
    let said = garth.fails(2, &arguments);
    let errors: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(errors.len(), 3, "{said}");
    for (error, due) in errors.iter().zip(["model_endpoint", "192.0.2.1:80", "not a garth database"]) {
        assert_eq!((&error["error"]["kind"], &error["error"]["exit"]), (&json!("usage"), &json!(2)));
        assert!(error["error"]["message"].as_str().is_some_and(|message| message.contains(due)), "{error}");
    }
}
