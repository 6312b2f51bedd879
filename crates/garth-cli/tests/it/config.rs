//! The configuration file, `garth config`, and a server that uses both.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::garth::{Garth, finish, text};
use super::serve::Server;

fn configure(garth: &Garth, lines: &str) -> String {
    let file = garth.data().join("garth.toml");
    std::fs::create_dir_all(garth.data()).expect("a folder");
    std::fs::write(&file, lines).expect("a file");
    file.to_str().expect("UTF-8").to_owned()
}

/// Runs a command that must succeed. Returns its lines of JSON.
fn lines(command: Command) -> Vec<Value> {
    let output = finish(command, b"");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn option<'l>(lines: &'l [Value], name: &str) -> &'l Value {
    lines.iter().find(|line| line["option"] == name).expect("the option is listed")
}

#[test]
fn config_shows_each_value_with_its_origin() {
    let garth = Garth::new();
    let file = configure(&garth, "max_body = \"3MiB\"\nlog = \"warn\"\nsink_secret_file = \"secret\"\n");
    std::fs::write(garth.data().join("secret"), "x".repeat(32)).expect("a file");
    let mut command = garth.command(&["config", "--json", "--max-body", "2MiB", "--access-log"]);
    command.env("GARTH_LOG", "debug").env("GARTH_HEAD_TIME", "1m");
    let lines = lines(command);
    let secret = garth.data().join("secret");
    for (name, value, source, origin) in [
        ("max_body", json!(2 << 20), "flag", json!("--max-body")),
        ("access_log", json!(true), "flag", json!("--access-log")),
        ("log", json!("debug"), "environment", json!("GARTH_LOG")),
        ("head_time", json!("1m"), "environment", json!("GARTH_HEAD_TIME")),
        ("sink_secret_file", json!(secret), "file", json!(format!("{file}:3"))),
        ("body_time", json!("30s"), "default", Value::Null),
        ("sink", Value::Null, "default", Value::Null),
        ("listen", json!(["127.0.0.1:8787", "[::1]:8787"]), "default", Value::Null),
    ] {
        let expected = json!({"option": name, "value": value, "source": source, "origin": origin});
        assert_eq!(*option(&lines, name), expected);
    }
    let shown = garth.ok(&["config"]);
    assert!(shown.lines().any(|line| line.starts_with("max_body ") && line.ends_with(&format!("{file}:1"))));
}

#[test]
fn config_never_shows_secrets() {
    let garth = Garth::new();
    for json in [&["config"][..], &["config", "--json"]] {
        let mut command = garth.command(json);
        command.env("GARTH_MODEL_KEY", "T0K3N").env("GARTH_SINK_SECRET", "T0K3N".repeat(8));
        command.env("GARTH_SINK", "https://example.com/T0K3N").env("GARTH_EMBEDDER_KEY", "T0K3N");
        let output = finish(command, b"");
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.contains("T0K3N"), "{shown}");
        assert_eq!(shown.matches("(set)").count(), 4, "{shown}");
    }
}

#[test]
fn secrets_of_several_lines_are_refused() {
    let garth = Garth::new();
    let model = "model = \"m\"\nmodel_endpoint = \"https://example.org/v1\"\n";
    let embedder = "embedder = \"m\"\nembedder_endpoint = \"https://example.org/v1\"\n";
    let sink = "sink = \"https://example.org/x\"\n";
    for (options, secret, what) in [
        (model, "model_key", "the model's key"),
        (embedder, "embedder_key", "the embedding service's key"),
        (sink, "sink_secret", "the sink's secret"),
    ] {
        let file = garth.data().join(secret);
        for (text, is_refused) in [
            ("T0K3N 0123456789abcdef\nT0K3N", true),
            ("T0K3N\t0123456789abcdef", true),
            ("T0K3N 0123456789abcdef\r\n", false),
        ] {
            configure(&garth, options);
            let mut by_variable = garth.command(&["config"]);
            by_variable.env(format!("GARTH_{}", secret.to_uppercase()), text);
            let by_variable = finish(by_variable, b"");
            std::fs::write(&file, text).expect("a file");
            configure(&garth, &format!("{options}{secret}_file = \"{secret}\"\n"));
            for output in [by_variable, garth.run(&["config"], b"")] {
                let said = self::text(&output.stdout) + &self::text(&output.stderr);
                assert_eq!(output.status.code(), Some(if is_refused { 2 } else { 0 }), "{said}");
                assert_eq!(said.contains(&format!("{what} contains a line feed")), is_refused, "{said}");
                assert!(!said.contains("T0K3N"), "{said}");
            }
        }
    }
}

#[test]
fn config_refuses_what_serve_refuses() {
    let garth = Garth::new();
    std::fs::write(garth.data().join("secret"), "x".repeat(32)).expect("a file");
    for (option, due) in [
        ("model = \"m\"\n", "garth.toml:1: model requires model_endpoint"),
        ("embedder = \"m\"\n", "garth.toml:1: embedder requires embedder_endpoint"),
        (
            "embedder_endpoint = \"https://example.org/v1\"\n",
            "garth.toml:1: embedder_endpoint requires embedder",
        ),
        ("embedder_endpoint = \"https://a:b@example.org\"\nembedder = \"m\"\n", "must not contain a user"),
        ("sink = \"https://example.org/x\"\n", "garth.toml:1: sink requires sink_secret_file"),
        ("\nlog = \"loud\"\n", "garth.toml:2: log: `loud` is not a level"),
        ("sink = \"nowhere\"\nsink_secret_file = \"secret\"\n", "URL must begin with http"),
        (
            "model = \"m\"\nmodel_endpoint = \"https://example.org/v1\"\nmodel_key_file = \"/none/key\"\n",
            "model_key_file",
        ),
    ] {
        configure(&garth, option);
        let code = if option.contains("/none/key") { 3 } else { 2 };
        let said = [&["config"][..], &["serve"]].map(|verb| garth.fails(code, verb));
        assert!(said[0].contains(due) && said[0] == said[1], "{said:?}");
    }
}

#[test]
fn a_key_in_place_of_its_file_is_not_shown() {
    let garth = Garth::new();
    let key = "sk-T0K3NaB3dE6gH9jK2mN5p";
    configure(
        &garth,
        &format!("model = \"m\"\nmodel_endpoint = \"https://example.org/v1\"\nmodel_key_file = \"{key}\"\n"),
    );
    for verb in [&["config"][..], &["config", "--json"], &["serve"]] {
        let output = finish(garth.command(verb), b"");
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(
            !output.status.success() && !shown.contains("T0K3N") && shown.contains("model_key_file"),
            "{shown}"
        );
    }
}

#[test]
fn mistakes_in_file_are_refused_by_every_command() {
    let garth = Garth::new();
    let file = configure(&garth, "# ours\nmax_bodi = 1\n");
    for verb in [&["serve"][..], &["config"], &["outbox", "run", "--once"], &["recall", "tea"]] {
        let said = garth.fails(2, verb);
        assert!(
            said.contains(&format!("{file}:2: there is no option \"max_bodi\"; did you mean max_body?")),
            "{said}"
        );
    }
    configure(&garth, "max_body = \"1GiB\"\n");
    let said = garth.fails(2, &["serve"]);
    assert!(
        said.contains(&format!("{file}:1: max_body: 1GiB is out of bounds; write 16KiB to 16MiB")),
        "{said}"
    );
    let said = garth.fails(2, &["serve", "--body-time", "30"]);
    assert!(said.contains("--body-time: `30` is not a time") || said.contains("garth.toml:1"), "{said}");
}

#[test]
fn misspelled_variables_are_refused() {
    let garth = Garth::new();
    for verb in [&["config"][..], &["serve"], &["serve", "--check"]] {
        let mut command = garth.command(verb);
        command.env("GARTH_MAX_BDY", "1").env("GARTH_PORT", "tcp://10.0.0.1:8787").env("GARTH_LISTN", "");
        let output = finish(command, b"");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let due = "GARTH_MAX_BDY: there is no such option; did you mean GARTH_MAX_BODY?";
        assert!(said.contains(due) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn file_in_place_of_data_folder_is_named() {
    let garth = Garth::unmade();
    std::fs::write(garth.data(), "no folder").expect("a file");
    for (code, verb) in [(1, &["serve"][..]), (2, &["serve", "--check"]), (1, &["config"])] {
        let said = garth.fails(code, verb);
        let due =
            format!("{}: not a directory; set --data or GARTH_DATA to a folder", garth.data().display());
        assert!(said.contains(&due), "{said}");
    }
}

#[test]
fn named_file_replaces_data_folder_file() {
    let garth = Garth::new();
    configure(&garth, "max_body = \"3MiB\"\n");
    let named = garth.beside("other.toml");
    std::fs::write(&named, "body_time = \"9s\"\n").expect("a file");
    let name = named.to_str().expect("UTF-8");
    let by_flag = lines(garth.command(&["config", "--json", "--config", name]));
    let mut by_variable = garth.command(&["config", "--json"]);
    by_variable.env("GARTH_CONFIG", name);
    for lines in [by_flag, lines(by_variable)] {
        assert_eq!(option(&lines, "body_time")["origin"], json!(format!("{name}:1")));
        assert_eq!(option(&lines, "max_body")["source"], "default");
    }
    let missing = garth.beside("missing.toml");
    let said = garth.fails(3, &["config", "--config", missing.to_str().expect("UTF-8")]);
    assert!(said.contains("missing.toml"), "{said}");
}

#[test]
fn server_starts_with_only_its_file() {
    let garth = Garth::unmade();
    configure(&garth, "max_body = \"16KiB\"\nlisten = [\"127.0.0.1:0\"]\n");
    let server = Server::of(&mut garth.command(&["serve", "--json"]));
    let put = |length: usize| {
        let request = ureq::post(format!("{}/v1/put", server.url()));
        let request = request.header("Authorization", format!("Bearer {}", server.key()));
        let sent = request.send_json(json!({"path": "/a", "value": "x".repeat(length)}));
        sent.map(|answer| answer.status().as_u16())
    };
    assert!(matches!(put(15 << 10), Ok(200)));
    assert!(matches!(put(17 << 10), Err(ureq::Error::StatusCode(413))));
}

#[test]
fn json_access_log_has_strings_and_numbers() {
    let garth = Garth::new();
    configure(&garth, "log_format = \"json\"\naccess_log = true\n");
    let mut command = garth.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    let server = Server::of(command.stderr(Stdio::piped()));
    let refused = ureq::get(format!("{}/no", server.url())).call();
    assert!(matches!(refused, Err(ureq::Error::StatusCode(404))));
    let log = server.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let access = lines.iter().find(|line| line["target"] == "garth_server::access").expect("the request");
    assert_eq!((&access["status"], &access["level"]), (&json!(404), &json!("INFO")));
    let texts = ["path", "method", "key"].map(|field| &access[field]);
    assert_eq!(texts, [&json!("/no"), &json!("GET"), &json!("-")], "{access}");
    assert!(access["duration_us"].is_u64() && access["bytes"].is_u64(), "{access}");
}
