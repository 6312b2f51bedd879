//! Verbs of operators.

use serde_json::json;

use super::garth::{Garth, column, string};

#[test]
fn accounts_are_made_listed_and_deleted() {
    let garth = Garth::new();
    assert_eq!(column(&garth.lines(&["account", "list"]), "account"), ["default"]);
    garth.ok(&["account", "create", "team"]);
    garth.fails(4, &["account", "create", "team"]);
    garth.fails(2, &["account", "create", "a/b"]);
    garth.feed(&["write", "/a", "--account", "team"], "x");
    assert!(garth.ok(&["account", "list"]).contains("  team\n"));
    garth.ok(&["account", "delete", "team"]);
    garth.fails(3, &["account", "delete", "team"]);
    garth.fails(3, &["ls", "--account", "team"]);
    garth.ok(&["account", "create", "team"]);
    assert_eq!(garth.ok(&["ls", "--account", "team"]), "", "a new account of an old name is empty");
}

#[test]
fn keys_are_shown_once_and_revoked() {
    let garth = Garth::new();
    let made = garth.json(&["key", "create", "--label", "laptop", "--scope", "memory:read"]);
    let (id, key) = (string(&made["id"]), string(&made["key"]));
    assert!(key.starts_with(&format!("garth_{id}.")), "the id is in the key");
    assert_eq!(made["scopes"], json!(["memory:read"]));
    let listed = garth.lines(&["key", "list"]);
    assert_eq!((&listed[0]["label"], &listed[0]["revoked"]), (&json!("laptop"), &json!(null)));
    let secret = key.split_once('.').expect("a dot").1;
    assert!(!garth.ok(&["key", "list"]).contains(secret) && listed[0].get("key").is_none());
    garth.ok(&["key", "revoke", &id]);
    assert!(garth.lines(&["key", "list"])[0]["revoked"].is_string());
    garth.fails(3, &["key", "revoke", "0000000000000000"]);
    garth.fails(2, &["key", "create", "--scope", "everything"]);
    garth.fails(3, &["key", "create", "--account", "none"]);
    let default = garth.json(&["key", "create"]);
    assert_eq!(default["scopes"], json!(["memory:read", "memory:write", "search:read"]));
    assert!(garth.ok(&["key", "create"]).starts_with("garth_"));
}

#[test]
fn shells_get_their_completions() {
    let garth = Garth::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = garth.ok(&["completions", shell]);
        assert!(script.contains("snapshot") && script.contains("garth"), "{shell}");
    }
    assert_eq!(garth.json(&["completions", "bash"])["shell"], "bash");
    garth.fails(2, &["completions", "tcl"]);
    assert!(!garth.data().exists(), "no data folder is made for it");
}
