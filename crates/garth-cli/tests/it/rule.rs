//! Rules on the command line: set, listed, removed, and enforced for every verb.

use serde_json::json;

use super::garth::{Garth, text, utf8};

const FRAGMENTS: &str = "/agents/default/fragments.jsonl";
const GOOD: &str = "{\"id\": \"1\", \"type\": \"persona\", \"text\": \"You are kind.\"}\n";
const BAD: &str = "{\"id\": \"2\", \"type\": \"wish\", \"text\": \"x\"}\n";

/// Runs a command that a rule must refuse. Returns its stderr.
fn refused(garth: &Garth, args: &[&str], input: &str) -> String {
    let output = garth.run(args, input.as_bytes());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "garth {args:?}: {said}");
    said
}

#[test]
fn every_interface_rejects_bad_fragments() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", FRAGMENTS], GOOD);
    garth.feed(&["write", "/bad"], &format!("{GOOD}{BAD}"));
    garth.feed(&["write", "-p", "/t/fragments.jsonl"], &format!("{GOOD}{BAD}"));
    garth.ok(&["overlay", "create", "draft", "--of", "/agents/default"]);
    garth.feed(&["append", "/fragments.jsonl", "--overlay", "draft"], BAD);
    let chat = ["--chat", "trip"];
    garth.feed(&[&["write", "/notes"][..], &chat].concat(), "");
    let line = json!({"op": "append", "path": FRAGMENTS, "text": BAD}).to_string();
    let ways: [(&[&str], &str); 9] = [
        (&["write", FRAGMENTS], &format!("{GOOD}{BAD}")),
        (&["append", FRAGMENTS], BAD),
        (&["mv", "/bad", FRAGMENTS], ""),
        (&["mv", "/t", "/agents/t"], ""),
        (&["cp", "/bad", FRAGMENTS], ""),
        (&["cp", "-r", "/t", "/agents/t"], ""),
        (&["ln", "/bad", "/agents/x/fragments.jsonl"], ""),
        (&["batch"], &line),
        (&["overlay", "apply", "draft"], ""),
    ];
    garth.ok(&["mkdir", "/agents/x"]);
    for (args, input) in ways {
        let said = refused(&garth, args, input);
        assert!(said.contains("fragments.jsonl: ") && said.contains("line 2: /type: "), "{args:?}: {said}");
    }
    garth.ok(&["overlay", "apply", "draft", "--override-rules"]);
    garth.feed(&["write", FRAGMENTS], GOOD);
    let in_chat = [&["append", "/.agent/fragments.jsonl"][..], &chat].concat();
    let said = refused(&garth, &in_chat, BAD);
    assert!(said.contains("/.agent/fragments.jsonl: ") && said.contains("line 2: "), "{said}");
    let folder = garth.beside("folder");
    std::fs::create_dir_all(folder.join("x")).expect("a folder");
    std::fs::write(folder.join("x/fragments.jsonl"), format!("{GOOD}{BAD}")).expect("a file");
    let output = garth.run(&["import", utf8(&folder), "/agents"], b"");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("line 2: /type: "), "{said}");
    assert_eq!(garth.ok(&["cat", FRAGMENTS]), GOOD);
    // An old version that the rule would reject now is not restored.
    garth.feed(&["write", FRAGMENTS, "--override-rules"], BAD);
    let then = garth.seq().to_string();
    garth.feed(&["write", FRAGMENTS], GOOD);
    let said = refused(&garth, &["restore", FRAGMENTS, "--at", &then], "");
    assert!(said.contains("line 1: "), "{said}");
}

#[test]
fn rule_is_enforced_until_removed() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/data/good.json"], "{\"a\": 1}");
    garth.feed(&["write", "/data/bad.json"], "no json");
    let schema = garth.beside("schema.json");
    std::fs::write(&schema, r#"{"type": "object"}"#).expect("a file");
    let set = ["rule", "set", "/data/*.json", "json", "--schema", utf8(&schema)];
    let output = garth.run(&[&set[..], &["--json"]].concat(), b"");
    assert_eq!(output.status.code(), Some(6));
    let listed = text(&output.stdout);
    let violation: serde_json::Value = serde_json::from_str(listed.trim()).expect("one line");
    assert_eq!(violation["path"], "/data/bad.json");
    let said = text(&output.stderr);
    assert!(said.contains("not set") && said.contains("--force"), "{said}");
    assert_eq!(garth.lines(&["rule", "list"]).len(), 17, "those of every account");
    let lines = garth.lines(&[&set[..], &["--force"]].concat());
    assert_eq!(
        (&lines[1]["set"], &lines[1]["terms"]),
        (&json!(true), &json!({"schema": {"type": "object"}}))
    );
    let said = refused(&garth, &["write", "/data/new.json"], "[]");
    assert!(said.contains("/data/new.json: ") && said.contains("object"), "{said}");
    garth.feed(&["write", "/data/new.json", "--override-rules", "-m", "as agreed"], "[]");
    assert!(garth.ok(&["log", "-n", "1"]).contains("[overrides rules] as agreed"));
    assert_eq!(garth.lines(&["log", "-n", "1"])[0]["overrides_rules"], true);
    garth.ok(&["rule", "rm", "/data/*.json", "json"]);
    garth.feed(&["write", "/data/new.json"], "no json");
    garth.fails(3, &["rule", "rm", "/data/*.json", "json"]);
    // Invalid rules.
    garth.fails(4, &["rule", "rm", "/agents/*/kv/**", "json"]);
    garth.fails(2, &["rule", "set", "/x", "wish"]);
    garth.ok(&["mkdir", "/logs"]);
    let said = garth.fails(2, &["rule", "set", "/logs", "append-only"]);
    assert!(said.contains("/logs: is a directory; for the files in it, write /logs/**"), "{said}");
    garth.fails(2, &["rule", "list", "--user", "ann", "--chat", "trip"]);
    garth.fails(2, &["rule", "list", "--override-rules"]);
    for wrong in
        [&["/x", "max-size"][..], &["/x", "json", "--bytes", "1"], &["/a//b", "json"], &["/", "json"]]
    {
        let said = garth.fails(2, &[&["rule", "set"], wrong].concat());
        assert!(said.contains(wrong[1]) || said.contains(wrong[0]), "{said}");
    }
}

#[test]
fn search_skips_unsearchable_files() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/private/a"], "the quokka sleeps");
    garth.ok(&["ln", "/private/a", "/also"]);
    garth.feed(&["write", "/private/b"], "the quokka wakes");
    garth.ok(&["rule", "set", "/private/**", "not-searchable"]);
    let found = |words: &str| -> Vec<String> {
        let lines = garth.lines(&["search", words]);
        let mut paths: Vec<String> =
            lines.iter().filter_map(|hit| Some(hit["path"].as_str()?.to_owned())).collect();
        paths.sort();
        paths
    };
    assert!(found("quokka").is_empty(), "another name does not get round it");
    garth.ok(&["mv", "/private/b", "/b"]);
    assert_eq!(found("quokka"), ["/b"]);
    garth.ok(&["rule", "rm", "/private/**", "not-searchable"]);
    assert_eq!(found("sleeps"), ["/also"], "the first of its names");
}
