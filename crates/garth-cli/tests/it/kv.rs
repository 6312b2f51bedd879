//! The key-value verbs.

use serde_json::json;

use super::garth::{Garth, column, string, text};

#[test]
fn values_keep_every_digit() {
    let garth = Garth::new();
    let value = r#"{"a":1.10,"big":1234567890123456789012345678901234567890,"n":null}"#;
    garth.ok(&["kv", "put", "/user/tone", value]);
    assert_eq!(garth.ok(&["kv", "get", "/user/tone"]), format!("{value}\n"));
    assert!(garth.ok(&["kv", "get", "/user/tone", "--json"]).contains(value));
    garth.feed(&["kv", "put", "/from/stdin"], "[1, 2]\n");
    assert_eq!(garth.ok(&["kv", "get", "/from/stdin"]), "[1, 2]\n");
    garth.feed(&["kv", "put", "/lines"], "{\n  \"a\": [1.0,\r\n2]\n}");
    assert_eq!(garth.ok(&["kv", "get", "/lines"]), "{\n  \"a\": [1.0,\r\n2]\n}\n");
    assert!(garth.ok(&["kv", "get", "/lines", "--json"]).contains("{  \"a\": [1.0,2]}"), "one line");
    assert_eq!(garth.lines(&["kv", "log", "/lines"])[0]["value"], json!({"a": [1.0, 2]}));
    garth.ok(&["kv", "put", "/minus", "-1"]);
    assert_eq!(garth.json(&["kv", "get", "/minus"])["value"], json!(-1));
}

#[test]
fn keys_belong_to_an_agent() {
    let garth = Garth::new();
    for key in ["/user/a", "/user/b/c", "/users2/d"] {
        garth.ok(&["kv", "put", key, "1"]);
    }
    assert_eq!(garth.ok(&["kv", "list"]), "/user/\n/users2/\n");
    assert_eq!(garth.ok(&["kv", "list", "/user"]), "/user/a\n/user/b/\n");
    let json = garth.lines(&["kv", "list", "/user"]);
    assert_eq!(json, [json!({"path": "/user/a", "type": "file"}), json!({"path": "/user/b", "type": "dir"})]);
    assert_eq!(garth.ok(&["kv", "list", "/user/a"]), "");
    let stderr = garth.fails(3, &["kv", "list", "/none", "--json"]);
    assert!(stderr.contains(r#""path":"/none""#), "{stderr}");
    assert_eq!(garth.ok(&["kv", "list", "--agent", "other"]), "");
    garth.fails(3, &["kv", "get", "/user/a", "--agent", "other"]);
    assert_eq!(garth.ok(&["cat", "/agents/default/kv/user/a.json"]), "1");
}

#[test]
fn list_pages_through_every_key() {
    let garth = Garth::new();
    let folder = tempfile::tempdir().expect("a folder");
    let keys: Vec<String> = (0..1203).map(|number| format!("/n/k{number:04}")).collect();
    std::fs::create_dir(folder.path().join("n")).expect("a folder");
    for key in &keys {
        std::fs::write(folder.path().join(format!("{}.json", &key[1..])), "1").expect("a file");
    }
    garth.ok(&["import", folder.path().to_str().expect("UTF-8"), "/agents/default/kv"]);
    assert_eq!(
        garth.ok(&["kv", "list", "/n"]),
        keys.iter().map(|key| format!("{key}\n")).collect::<String>()
    );
    assert_eq!(garth.ok(&["kv", "list", "/n", "--limit", "501"]).lines().count(), 501);
}

#[test]
fn kv_log_continues_after_removal() {
    let garth = Garth::new();
    garth.ok(&["kv", "put", "/k", "1", "--tag", "t", "--importance", "0.5", "--searchable", "true"]);
    garth.ok(&["kv", "put", "/k", "2", "--ttl", "7d"]);
    assert!(garth.json(&["kv", "get", "/k"])["expires_at"].is_string());
    let deleted = garth.json(&["kv", "rm", "/k"]);
    assert_eq!((&deleted["ok"], &deleted["deleted"]), (&json!(true), &json!(true)));
    garth.fails(3, &["kv", "get", "/k"]);
    garth.ok(&["kv", "rm", "/k"]);
    garth.ok(&["kv", "put", "/k", "3"]);
    let versions = garth.lines(&["kv", "log", "/k"]);
    assert_eq!(versions[0]["value"], json!(3));
    let tombstone = &versions[1];
    assert_eq!((&tombstone["value"], tombstone["deleted_at"].is_string()), (&json!({}), true));
    assert_eq!(garth.lines(&["kv", "log", "/k", "--limit", "1"]).len(), 1);
    assert!(column(&versions, "version_id").iter().all(|id| id.starts_with("ver_")));
    garth.fails(3, &["kv", "log", "/none"]);
}

#[test]
fn kv_log_lists_unreadable_versions() {
    let garth = Garth::new();
    for value in ["1", "2"] {
        garth.ok(&["kv", "put", "/k", value]);
    }
    garth.ok(&["retention", "class", "/agents/**", "--keep", "off"]);
    garth.ok(&["gc", "--grace", "0s", "--force"]);
    let log = garth.ok(&["kv", "log", "/k"]);
    assert!(log.lines().nth(1).is_some_and(|line| line.ends_with("  unreadable")), "{log}");
    let versions = garth.lines(&["kv", "log", "/k"]);
    assert_eq!((&versions[0]["value"], &versions[0]["gone"]), (&json!(2), &json!(null)));
    assert_eq!((&versions[1]["value"], &versions[1]["gone"]), (&json!(null), &json!(true)));
    assert_eq!(versions[1]["deleted_at"], json!(null));
}

#[test]
fn rejects_invalid_keys_and_values() {
    let garth = Garth::new();
    garth.fails(2, &["kv", "put", "/k", "{not json"]);
    garth.fails(2, &["kv", "put", "no-slash", "1"]);
    garth.fails(2, &["kv", "put", "/a/../b", "1"]);
    garth.fails(5, &["kv", "put", "/sys/a", "1"]);
    garth.fails(2, &["kv", "log", "/k", "--limit", "0"]);
    garth.ok(&["kv", "put", "/a", "1"]);
    garth.fails(4, &["kv", "put", "/a.json/b", "1"]);
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let output = garth.run(&["kv", "put", "/k"], long.as_bytes());
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
}

#[test]
fn rejects_long_or_binary_value_from_stdin() {
    let garth = Garth::new();
    // A cut at the limit would be within a character.
    let long = format!("\"{}\"", "é".repeat(1 << 19));
    let output = garth.run(&["kv", "put", "/long"], long.as_bytes());
    assert_eq!(output.status.code(), Some(6));
    assert!(text(&output.stderr).contains("/long: a value may have at most 1048576 bytes"));
    let output = garth.run(&["kv", "put", "/bytes"], b"\"\xff\"");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/bytes: the value is not UTF-8"), "{}", text(&output.stderr));
    let said = garth.fails(2, &["kv", "put", "/word", "nope"]);
    assert!(said.contains("/word: the value is not JSON (expected a value at line 1 column 2)"), "{said}");
}

#[test]
fn removing_a_missing_key_commits_nothing() {
    let garth = Garth::new();
    garth.ok(&["kv", "put", "/k", "1"]);
    let seq = garth.seq();
    assert_eq!(garth.ok(&["kv", "rm", "/missing"]), "no value  /missing\n");
    let missing = garth.json(&["kv", "rm", "/missing"]);
    assert_eq!((&missing["version_id"], &missing["deleted"]), (&json!(null), &json!(false)));
    assert_eq!(garth.seq(), seq);
    assert_eq!(garth.ok(&["kv", "rm", "/k"]), "removed  /k\n");
    assert_eq!(garth.seq(), seq + 1);
}

#[test]
fn mset_error_names_the_wrong_key() {
    let garth = Garth::new();
    garth.ok(&["kv", "put", "/there", "1"]);
    for (code, wrong) in [(5, "/sys/a"), (2, "/a/../b"), (4, "/there.json/x")] {
        let said = garth.fails(code, &["kv", "mset", "/a", "1", wrong, "2", "/c", "3"]);
        assert!(said.starts_with(&format!("garth: {wrong}: ")), "{said}");
    }
    let said = garth.fails(2, &["kv", "mset", "/a", "1", "/b", "2", "/a/", "3"]);
    assert!(said.starts_with("garth: /a/: a key is given twice; give each key once"), "{said}");
}

#[test]
fn mset_writes_keys_in_one_commit() {
    let garth = Garth::new();
    let written = garth.lines(&["kv", "mset", "/a", "1", "/b/c", "-2", "/d", "\"x\""]);
    let seq = |value: &serde_json::Value| {
        value["version_id"].as_str().expect("text").split('-').next().map(str::to_owned)
    };
    assert_eq!((written.len(), seq(&written[0])), (3, seq(&written[2])));
    assert_eq!(garth.ok(&["kv", "mget", "/d", "/a", "/b/c"]), "/d\t\"x\"\n/a\t1\n/b/c\t-2\n");
    let output = garth.run(&["kv", "get", "/a", "/none", "/d", "--json"], b"");
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(3), 2));
    assert!(text(&output.stderr).contains(r#""path":"/none""#));
    garth.fails(2, &["kv", "mset", "/a", "1", "/b"]);
    garth.fails(2, &["kv", "mset", "/e", "1", "/b", "not json"]);
    garth.fails(3, &["kv", "get", "/e"]);
    assert_eq!(garth.ok(&["kv", "keys"]), "/a\n/b/c\n/d\n");
    assert_eq!(garth.ok(&["kv", "keys", "/*", "--segment", "-n", "1"]), "/a\n");
    assert_eq!(garth.ok(&["kv", "del", "/a", "/d"]).lines().count(), 2);
    assert_eq!(garth.lines(&["kv", "ls"]), [json!({"path": "/b", "type": "dir"})]);
}

#[test]
fn put_honours_its_preconditions() {
    let garth = Garth::new();
    let first = garth.json(&["kv", "set", "/k", "1", "--nx"]);
    let version = string(&first["version_id"]);
    assert!(garth.fails(4, &["kv", "put", "/k", "2", "--if-absent"]).contains(&version));
    garth.ok(&["kv", "put", "/k", "2", "--if-version", &version]);
    let error = garth.fails(4, &["kv", "put", "/k", "3", "--if-version", &version]);
    assert!(error.contains("it is at version ver_2-"), "{error}");
    assert_eq!(garth.ok(&["kv", "get", "/k"]), "2\n");
}

#[test]
fn incr_adds_to_a_counter() {
    let garth = Garth::new();
    assert_eq!(garth.ok(&["kv", "incr", "/n"]), "1\n");
    assert_eq!(garth.ok(&["kv", "incr", "/n", "-11"]), "-10\n");
    assert_eq!(
        garth.json(&["kv", "incr", "/n", "9000000000000000000"])["value"],
        json!(8_999_999_999_999_999_990_i64)
    );
    garth.fails(2, &["kv", "incr", "/n", "9000000000000000000"]);
    garth.ok(&["kv", "put", "/text", "\"1\""]);
    garth.fails(2, &["kv", "incr", "/text"]);
}

#[test]
fn attributes_stay_until_they_are_set() {
    let garth = Garth::new();
    garth.ok(&[
        "kv",
        "put",
        "/k",
        "1",
        "--tag",
        "a",
        "--tag",
        "b",
        "--importance",
        "0.5",
        "--ttl",
        "1d",
        "--searchable",
        "true",
    ]);
    garth.ok(&["kv", "put", "/k", "2"]);
    let found = garth.json(&["kv", "get", "/k", "--all"]);
    assert_eq!(
        (&found["tags"], &found["importance"], &found["searchable"]),
        (&json!(["a", "b"]), &json!(0.5), &json!(true))
    );
    assert!(found["expires_at"].is_string() && garth.json(&["kv", "get", "/k"]).get("importance").is_none());
    let shown = garth.ok(&["kv", "get", "-v", "/k"]);
    assert!(shown.contains("tags        a, b\n") && shown.ends_with("value       2\n"), "{shown}");
    garth.ok(&["kv", "put", "/k", "3", "--ttl", "none"]);
    assert_eq!(garth.json(&["kv", "get", "/k"])["expires_at"], json!(null));
    assert!(garth.json(&["kv", "expire", "/k", "2h"])["expires_at"].is_string());
    assert!(garth.ok(&["kv", "touch", "/k", "none"]).ends_with("expires never\n"));
    assert_eq!(garth.ok(&["kv", "get", "/k"]), "3\n");
    garth.fails(3, &["kv", "expire", "/none", "1h"]);
    for ttl in ["0", "0s", "-1", "999999999w", "1y"] {
        garth.fails(2, &["kv", "put", "/k", "4", &format!("--ttl={ttl}")]);
        garth.fails(2, &["kv", "expire", "/k", "--", ttl]);
    }
}

#[test]
fn kv_errors_name_the_key() {
    let garth = Garth::new();
    garth.ok(&["kv", "put", "/a", "1"]);
    for (code, args) in [
        (3, &["kv", "get", "/k"][..]),
        (3, &["kv", "list", "/k"]),
        (3, &["kv", "log", "/k"]),
        (2, &["kv", "put", "/k", "not json"]),
        (2, &["kv", "incr", "/k/../k"]),
        (3, &["kv", "expire", "/k", "1h"]),
    ] {
        let stderr = garth.fails(code, &[args, &["--json"]].concat());
        let error: serde_json::Value =
            serde_json::from_str(stderr.lines().last().expect("a line")).expect("JSON");
        assert_eq!(error["error"]["path"], args[2], "{stderr}");
    }
}
