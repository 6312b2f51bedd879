//! Errors: exit codes, stderr, closed pipes.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::garth::{Garth, finish, text, utf8};

#[test]
fn blank_questions_are_refused() {
    let garth = Garth::new();
    assert!(garth.fails(2, &["search", " "]).contains("search needs words"));
    assert!(garth.fails(2, &["recall", ""]).contains("recall needs a question"));
}

#[test]
fn remembers_text_that_begins_with_a_dash() {
    let garth = Garth::new();
    garth.ok(&["remember", "-5 degrees outside"]);
}

#[test]
fn errors_name_path_as_text_and_json() {
    let garth = Garth::new();
    assert_eq!(garth.fails(3, &["cat", "/none"]), "garth: /none: no such file or directory\n");
    let said = garth.fails(3, &["cat", "/none", "--json"]);
    let last: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        last,
        json!({"error": {
            "kind": "not_found", "path": "/none", "message": "no such file or directory", "exit": 3,
        }})
    );
}

#[test]
fn wrong_usage_exits_with_2() {
    let garth = Garth::new();
    garth.fails(2, &[]);
    garth.fails(2, &["nonsense"]);
    garth.fails(2, &["cat"]);
    garth.fails(2, &["ls", "--nonsense"]);
    assert!(garth.fails(2, &["ls", "notes"]).contains("notes: a path starts with `/`"));
    garth.fails(2, &["write", "/a", "--if-absent", "--if-version", "ver_1-1"]);
    garth.fails(2, &["ls", &format!("/{}", "x".repeat(300))]);
    garth.fails(2, &["ls", "/", "--agent", "a/b"]);
    let said = garth.fails(2, &["nonsense", "--json"]);
    let last: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["error"]["kind"], "usage");
    let said = garth.fails(2, &["mv", "/a", "--json"]);
    let last: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        last["error"]["message"], "the following required arguments were not provided: <SOURCE>...",
        "the whole sentence on one line"
    );
}

#[test]
fn rejects_arguments_that_are_not_utf_8() {
    let garth = Garth::new();
    for args in [&["cat"][..], &["cat", "--json"]] {
        let mut command = garth.command(args);
        command.arg(OsStr::from_bytes(b"/bad\xff"));
        let output = finish(command, b"");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("UTF-8") && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn usage_names_missing_arguments_only() {
    let garth = Garth::new();
    let mut command = garth.command(&["cat"]);
    command.env("GARTH_ACCOUNT", "default").env("GARTH_AGENT", "default");
    let said = text(&finish(command, b"").stderr);
    assert!(said.contains("Usage: garth cat") && !said.contains("--data"), "{said}");
    assert!(!said.contains("--account") && !said.contains("--agent"), "{said}");
    let help = garth.ok(&["cat", "--help"]);
    for variable in ["GARTH_DATA", "GARTH_ACCOUNT", "GARTH_AGENT"] {
        assert!(help.contains(&format!("[env: {variable}]")), "{help}");
    }
    assert!(garth.fails(2, &["search", "x", "--at", "1h"]).contains("`garth grep --at`"));
}

#[test]
fn missing_account_is_not_created() {
    let garth = Garth::new();
    garth.fails(3, &["ls", "--account", "team"]);
    let mut command = garth.command(&["ls"]);
    command.env("GARTH_ACCOUNT", "team");
    assert_eq!(finish(command, b"").status.code(), Some(3));
    garth.ok(&["account", "create", "team"]);
    garth.feed(&["write", "/a", "--account", "team"], "theirs");
    assert_eq!(garth.ok(&["ls", "/"]), "");
    assert_eq!(garth.ok(&["cat", "/a", "--account", "team"]), "theirs");
}

#[test]
fn unusable_input_files_share_exit_code() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work"]);
    let (missing, folder) = (garth.beside("missing"), garth.beside("folder"));
    std::fs::create_dir(&folder).expect("a folder");
    let model = ["--model-endpoint", "http://127.0.0.1:1/", "--model", "m", "--model-key-file"];
    let sink = ["outbox", "run", "--once", "--sink", "http://127.0.0.1:1/", "--sink-secret-file"];
    let host = [format!("@{}", utf8(&missing)), format!("@{}", utf8(&folder))];
    for (file, host, code, reason) in [
        (utf8(&missing), &host[0], 3, "no such file or directory"),
        (utf8(&folder), &host[1], 1, "is a directory; a file is expected"),
    ] {
        for args in [
            &["batch", file][..],
            &["media", "put", file, "--session", "work"],
            &["session", "import", "work", file, "--format", "openai"],
            &["context", "derive", "work", "--facts", file],
            &["context", "pin", "work", "a.md", file],
            &["rule", "set", "*.json", "json", "--schema", file],
            &["config", "--config", file],
            &["eval", file],
            &["agent", "prompt", "--host", host],
            &[&["daily", "jobs"][..], &model, &[file]].concat(),
            &[&sink[..], &[file]].concat(),
        ] {
            let said = garth.fails(code, args);
            assert!(said.contains(file) && said.contains(reason), "{args:?}: {said}");
        }
    }
}

#[test]
fn closed_output_is_not_an_error() {
    let garth = Garth::new();
    let long = "a line of some length\n".repeat(200_000);
    garth.write("/long", &long);
    for args in [&["cat", "/long"][..], &["grep", "line", "/long"], &["export", "/", "-"]] {
        let mut child = garth.command(args).spawn().expect("garth starts");
        let mut first = [0; 16];
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut first).expect("some output");
        drop(stdout);
        let output = child.wait_with_output().expect("garth ends");
        assert_eq!(text(&output.stderr), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn closed_pipes_cause_no_panic() {
    let garth = Garth::new();
    for (args, code) in
        [(&["--help"][..], 0), (&["cat", "/none"], 3), (&["nonsense"], 2), (&["completions", "zsh"], 0)]
    {
        let mut child = garth.command(args).spawn().expect("garth starts");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("garth ends").code(), Some(code), "{args:?}");
    }
}

#[test]
fn every_command_help_has_an_example() {
    let garth = Garth::new();
    let help = garth.ok(&["--help"]);
    let (_, groups) = help.split_once("All commands:\n").expect("the list of all commands");
    let lines = groups.lines().take_while(|line| !line.is_empty());
    // Each line begins with the name of a group, or with spaces.
    let verbs: Vec<&str> = lines.flat_map(|line| line[12..].split_whitespace()).collect();
    assert!(verbs.len() >= 30, "{verbs:?}");
    for verb in verbs {
        let help = garth.ok(&[verb, "--help"]);
        assert!(help.contains("Example:\n  ") || help.contains("Examples:\n  "), "{verb}");
        assert!(help.contains("--json"), "{verb}");
    }
}
