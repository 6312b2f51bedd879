//! `garth batch`: several operations in one commit.

use serde_json::{Value, json};

use super::garth::{Garth, column, string, text, utf8};

#[test]
fn batch_commits_operations_in_order() {
    let garth = Garth::new();
    let old = garth.write("/old", "old");
    std::fs::write(garth.beside("host.txt"), "from the host").expect("a file");
    let host = utf8(&garth.beside("host.txt")).to_owned();
    let lines = [
        json!({"op": "check", "path": "/old", "that": {"version": old}}),
        json!({"op": "check", "path": "/new", "that": "absent"}),
        json!({"op": "check", "path": "/old", "that": "exists"}),
        json!({"op": "check", "path": "/old", "that": {"etag_in": ["ver_1-1", old]}}),
        json!({"op": "check", "path": "/old", "that": {"not": {"etag": "ver_1-1"}}}),
        json!({"op": "write", "path": "/a", "text": "one\n", "attrs": {"tags": ["t"], "mode": "600", "ttl": "7d"}}),
        json!({"op": "append", "path": "/a", "base64": "dHdvCg=="}),
        json!({"op": "mkdir", "path": "/d/e", "parents": true, "attrs": {"mode": "700"}}),
        json!({"op": "write", "path": "/d/host", "file": host, "create": "new"}),
        json!({"op": "cp", "from": "/a", "to": "/d/copy"}),
        json!({"op": "mv", "from": "/old", "to": "/d/old", "replace": false}),
        json!({"op": "ln", "from": "/a", "to": "/hard"}),
        json!({"op": "symlink", "path": "/link", "target": "d/e"}),
        json!({"op": "set", "path": "/a", "attrs": {"searchable": false, "metadata": {"k": "v"}, "ttl": null}}),
        json!({"op": "rm", "path": "/none", "force": true}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n\n")).collect();
    let seq = garth.seq();
    let printed = garth.feed(&["batch", "--json", "-m", "all at once"], &input);
    let shown: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let paths = ["/a", "/a", "/d/e", "/d/host", "/d/copy", "/d/old", "/hard", "/link", "/a", "/none"];
    assert_eq!(column(&shown, "path"), paths);
    assert!(shown.iter().all(|line| line["seq"] == json!(seq + 1)), "one commit");
    assert_eq!(garth.json(&["log", "-n", "1"])["message"], "all at once");
    assert_eq!(garth.ok(&["cat", "/hard", "/d/host", "/d/old"]), "one\ntwo\nfrom the hostold");
    assert_eq!(garth.ok(&["cat", "/d/copy"]), "one\ntwo\n");
    let entry = garth.json(&["stat", "/a"]);
    assert_eq!((&entry["mode"], &entry["expires_at"]), (&json!("0600"), &json!(null)));
    assert_eq!(entry["attributes"]["metadata"], json!({"k": "v"}));
    assert_eq!(garth.json(&["stat", "/d/e"])["mode"], "0700");
    assert_eq!(garth.json(&["stat", "/link"])["target"], "d/e");
}

#[test]
fn batch_is_atomic() {
    let garth = Garth::new();
    let first = garth.write("/a", "1");
    let second = garth.write("/a", "2");
    let write = r#"{"op":"write","path":"/b","text":"x"}"#;
    for (code, last) in [
        (3, r#"{"op":"rm","path":"/none"}"#.to_owned()),
        (4, r#"{"op":"write","path":"/a","text":"x","create":"new"}"#.to_owned()),
        (4, format!(r#"{{"op":"check","path":"/a","that":{{"etag":"{first}"}}}}"#)),
        (4, format!(r#"{{"op":"check","path":"/a","that":{{"not":{{"etag":"{second}"}}}}}}"#)),
        (2, r#"{"op":"check","path":"/a","that":{"not":{"not":"exists"}}}"#.to_owned()),
        (2, r#"{"op":"write","path":"/c"}"#.to_owned()),
    ] {
        let output = garth.run(&["batch"], format!("{write}\n{last}\n").as_bytes());
        assert_eq!(output.status.code(), Some(code), "{last}: {}", text(&output.stderr));
        assert_eq!(garth.ok(&["ls", "/"]), "a\n", "{last}");
    }
    let condition = |version: &str| format!("/a={version}");
    let output = garth.run(&["batch", "--if-version", &condition(&first)], write.as_bytes());
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains(&format!("the current version is {second}")));
    garth.feed(&["batch", "--if-version", &condition(&second)], write);
    assert_eq!(garth.ok(&["cat", "/b"]), "x");
}

#[test]
fn batch_names_the_wrong_line() {
    let garth = Garth::new();
    garth.write("/first", "x");
    let seq = garth.seq();
    for (line, why) in [
        ("nonsense", "expected a JSON object"),
        ("[1]", "expected a JSON object"),
        (r#"{"op":"rm","path":nope}"#, "not valid JSON: expected a value at line 1 column 20"),
        (r#"{"op":"rm","path":"/a","path":"/b"}"#, r#""path" occurs twice"#),
        (r#"{"op":"fly","path":"/a"}"#, r#""op" must be write, append"#),
        (r#"{"path":"/a"}"#, r#""op" is missing"#),
        (r#"{"op":"rm"}"#, r#""path" is missing"#),
        (r#"{"op":"rm","path":7}"#, r#""path" must be a string"#),
        (r#"{"op":"rm","path":"/a","force":"yes"}"#, r#""force" must be true or false"#),
        (r#"{"op":"rm","path":"/a","recursiv":true}"#, r#"unknown field "recursiv""#),
        (r#"{"op":"write","path":"/a","text":"","create":"maybe"}"#, r#""create" must be "if_missing""#),
        (r#"{"op":"set","path":"/a"}"#, r#""attrs" is missing"#),
        (r#"{"op":"set","path":"/a","attrs":[]}"#, r#""attrs" must be an object"#),
        (r#"{"op":"set","path":"/a","attrs":{"tags":"t"}}"#, r#""attrs.tags" must be an array of strings"#),
        (r#"{"op":"set","path":"/a","attrs":{"uid":-1}}"#, r#""attrs.uid" must be an integer from 0"#),
        (r#"{"op":"set","path":"/a","attrs":{"color":1}}"#, r#"unknown field "attrs.color""#),
        (r#"{"op":"check","path":"/a","that":{"version":"7"}}"#, r#""that": not a version id"#),
        (r#"{"op":"check","path":"/a","that":"there"}"#, r#""that" must be one of "absent", "exists", or"#),
        (r#"{"op":"write","path":"/a"}"#, "one of text, base64 and file"),
        (r#"{"op":"write","path":"/a","text":"x","file":"y"}"#, "one of text, base64 and file"),
        (r#"{"op":"write","path":"/a","base64":"%"}"#, "must be base64 with padding"),
        (
            r#"{"op":"set","path":"/a","attrs":{"mode":"rwx"}}"#,
            r#""attrs.mode": write three or four octal digits"#,
        ),
        (r#"{"op":"set","path":"/a","attrs":{"ttl":"0"}}"#, r#""attrs.ttl": 0 would expire at once"#),
        (r#"{"op":"check","path":"/a","that":{"sha256":"12"}}"#, "64 hexadecimal digits"),
    ] {
        let output = garth.run(&["batch"], format!("\n{line}\n").as_bytes());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("-: line 2: ") && said.contains(why), "{line}: {said}");
    }
    assert_eq!(garth.ok(&["batch"]), "", "no operations, no commit");
    assert_eq!(garth.seq(), seq);
}

#[test]
fn batch_of_checks_commits_nothing() {
    let garth = Garth::new();
    let first = garth.write("/a", "1");
    let second = garth.write("/a", "2");
    let seq = garth.seq();
    let absent = r#"{"op":"check","path":"/b","that":"absent"}"#;
    let sum = "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35";
    let same = format!(r#"{{"op":"check","path":"/a","that":{{"sha256":"{sum}"}}}}"#);
    assert_eq!(garth.feed(&["batch"], &format!("{absent}\n{same}\n")), "");
    let there = r#"{"op":"check","path":"/a","that":"absent"}"#;
    let output = garth.run(&["batch"], format!("{absent}\n{there}\n").as_bytes());
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert_eq!(garth.feed(&["batch", "--if-version", &format!("/a={second}")], ""), "");
    let condition = format!("/a={first}");
    let output = garth.run(&["batch", "--if-version", &condition], b"");
    assert!(text(&output.stderr).contains(&format!("the current version is {second}")));
    let output = garth.run(&["batch", "--if-version", &format!("/none={first}")], absent.as_bytes());
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("it does not exist"), "{}", text(&output.stderr));
    assert_eq!(garth.seq(), seq);
    let unmade = Garth::unmade();
    assert_eq!(unmade.run(&["batch"], absent.as_bytes()).status.code(), Some(3));
    unmade.feed(&["batch"], "");
    assert!(!unmade.data().exists());
}

#[test]
fn wrong_batch_line_creates_no_data_folder() {
    let garth = Garth::unmade();
    let output = garth.run(&["batch"], b"{\"op\":\"write\",\"path\":\"/a\",\"text\":\"x\"}\nwrong\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(!garth.data().exists());
}

#[test]
fn batch_removals_are_shown_without_version() {
    let garth = Garth::new();
    garth.write("/a", "1");
    let lines = "{\"op\":\"rm\",\"path\":\"/a\"}\n{\"op\":\"rm\",\"path\":\"/none\",\"force\":true}\n";
    assert_eq!(garth.feed(&["batch"], lines), "removed  /a\nmissing  /none\n");
    garth.write("/a", "1");
    let printed = garth.feed(&["batch", "--json"], lines);
    let shown: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&shown[0]["version"], &shown[0]["removed"]), (&json!(null), &json!(true)));
    assert_eq!((&shown[1]["version"], &shown[1]["removed"]), (&json!(null), &json!(false)));
}

#[test]
fn batch_reads_large_files() {
    let garth = Garth::new();
    let long = "0123456789".repeat(100_000);
    let lines: String = (0..20)
        .map(|number| format!("{}\n", json!({"op": "write", "path": format!("/{number}"), "text": long})))
        .collect();
    let file = garth.beside("batch.jsonl");
    std::fs::write(&file, lines).expect("a file");
    let shown = garth.lines(&["batch", utf8(&file)]);
    assert_eq!(shown.len(), 20);
    assert_eq!(string(&shown[0]["path"]), "/0");
    assert_eq!(garth.ok(&["cat", "/19"]), long);
    garth.fails(3, &["batch", utf8(&garth.beside("none.jsonl"))]);
}
