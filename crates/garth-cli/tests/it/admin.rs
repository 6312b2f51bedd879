//! Verbs of operators.

use serde_json::{Value, json};

use super::garth::{Garth, column, string, text, utf8};

#[test]
fn accounts_are_created_listed_and_removed() {
    let garth = Garth::new();
    assert_eq!(column(&garth.lines(&["account", "list"]), "account"), ["default"]);
    garth.ok(&["account", "create", "team"]);
    garth.fails(4, &["account", "create", "team"]);
    for invalid in ["a/b", "team\u{200b}", "team ", "te\u{301}am"] {
        let said = garth.fails(2, &["account", "create", invalid]);
        assert!(said.is_ascii(), "{said}");
    }
    garth.feed(&["write", "/a", "--account", "team"], "x");
    assert!(garth.ok(&["account", "list"]).contains("  team\n"));
    let said = garth.fails(2, &["account", "rm", "team"]);
    assert!(said.contains("account team with 1 commit, ") && said.contains("0 API keys"), "{said}");
    assert!(said.contains("--yes"), "{said}");
    assert_eq!(garth.ok(&["cat", "/a", "--account", "team"]), "x", "nothing is deleted unasked");
    garth.ok(&["account", "rm", "team", "--yes"]);
    garth.fails(3, &["account", "rm", "team", "--yes"]);
    garth.fails(3, &["ls", "--account", "team"]);
    garth.ok(&["account", "create", "team"]);
    assert_eq!(garth.ok(&["ls", "--account", "team"]), "", "a new account of an old name is empty");
}

#[test]
fn removal_of_account_continues_where_it_stopped() {
    let garth = Garth::new();
    let folders = || -> Vec<_> {
        let entries = std::fs::read_dir(garth.data().join("accounts")).expect("accounts");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let before = folders();
    garth.ok(&["account", "create", "team"]);
    let folder = folders().into_iter().find(|folder| !before.contains(folder)).expect("its folder");
    // A file under the name that the folder gets cannot be replaced, and is not removed as a folder.
    let in_the_way = folder.with_extension("deleted");
    std::fs::write(&in_the_way, "").expect("a file");
    let said = garth.fails(7, &["account", "rm", "team", "--yes"]);
    assert!(said.contains("is being deleted"), "{said}");
    let listed = garth.run(&["account", "list"], b"");
    assert!(!text(&listed.stdout).contains("team"), "{}", text(&listed.stdout));
    assert!(text(&listed.stderr).contains("team: is being deleted"), "{}", text(&listed.stderr));
    for (code, args) in [
        (4, &["account", "create", "team"][..]),
        (3, &["ls", "--account", "team"]),
        (3, &["key", "list", "--account", "team"]),
        // Without a question, which was answered.
        (7, &["account", "rm", "team"]),
    ] {
        let said = garth.fails(code, args);
        assert!(said.contains("is being deleted"), "{args:?}: {said}");
    }
    std::fs::remove_file(&in_the_way).expect("removed");
    garth.ok(&["ls"]);
    assert!(folders().len() > before.len(), "other commands do not do it");
    assert!(garth.ok(&["account", "rm", "team"]).contains("removed  team"));
    assert_eq!(folders(), before);
    garth.fails(3, &["account", "rm", "team", "--yes"]);
    garth.ok(&["account", "create", "team"]);
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
    assert_eq!(garth.ok(&["key", "list"]), "");
    assert!(garth.lines(&["key", "list", "--revoked"])[0]["revoked"].is_string());
    garth.fails(3, &["key", "revoke", "0000000000000000"]);
    // Logs keep what a command prints: a secret in place of the id must not be repeated.
    for wrong in [&*key, secret, "laptop"] {
        for action in ["revoke", "rotate"] {
            let said = garth.fails(2, &["key", action, wrong, "--json"]);
            assert!(said.contains("16 digits") && !said.contains(wrong), "{said}");
        }
    }
    garth.fails(2, &["key", "create", "--scope", "everything"]);
    garth.fails(3, &["key", "create", "--account", "none"]);
    let default = garth.json(&["key", "create"]);
    assert_eq!(default["scopes"], json!(["memory:read", "memory:write", "search:read"]));
    assert!(garth.ok(&["key", "create"]).starts_with("garth_"));
}

#[test]
fn keys_are_revoked_through_their_own_account() {
    let garth = Garth::new();
    garth.ok(&["account", "create", "team-b"]);
    let id = string(&garth.json(&["key", "create"])["id"]);
    let said = garth.fails(3, &["--account", "team-b", "key", "revoke", &id]);
    assert!(said.contains(&format!("{id}: account team-b has no such key")), "{said}");
    assert_eq!(garth.lines(&["key", "list"])[0]["revoked"], json!(null));
    garth.ok(&["key", "revoke", &id]);
}

#[test]
fn key_is_bound_by_identity_options() {
    let garth = Garth::new();
    let args = ["key", "create", "--agent", "scout", "--user", "ann", "--chat", "trip", "--class", "main"];
    let more = ["--scope", "files:read", "--scope", "files:write", "--prefix", "/notes", "--read-only"];
    let made = garth.json(&[&args[..], &more].concat());
    let binding = json!({
        "agent": "scout", "user": "ann", "chat": "trip", "class": "main", "prefix": "/notes", "read_only": true,
    });
    assert_eq!((&made["binding"], &made["maker"]), (&binding, &json!(null)));
    assert_eq!(garth.lines(&["key", "list"])[0]["binding"], binding);
    let shown = "agent scout, user ann, chat trip, class main, below /notes, read-only";
    assert!(garth.ok(&["key", "list"]).contains(shown));
    let by_key =
        garth.json(&["key", "create", "--key", "agent:scout:slack:channel:C1", "--session", "today"]);
    assert_eq!(by_key["binding"], json!({"key": "agent:scout:slack:channel:C1", "session": "today"}));
}

#[test]
fn key_create_prints_free_names() {
    let garth = Garth::new();
    let bound = garth.ok(&["key", "create", "--agent", "scout"]);
    assert!(bound.contains("requests may name any user, session key, chat and session"), "{bound}");
    let args = ["key", "create", "--agent", "scout", "--user", "ann", "--chat", "trip", "--session", "s"];
    for args in [&args[..], &["key", "create"]] {
        let made = garth.ok(args);
        assert!(!made.contains("requests may name"), "{made}");
    }
}

#[test]
fn variables_do_not_bind_keys() {
    let garth = Garth::new();
    let mut command = garth.command(&["key", "create", "--json"]);
    let made = finish_ok(command.env("GARTH_USER", "ann").env("GARTH_AGENT", "scout"));
    assert_eq!(made["binding"], json!(null));
}

/// Runs a command that must succeed. Returns its JSON.
fn finish_ok(command: &mut std::process::Command) -> serde_json::Value {
    let output = command.output().expect("a run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn key_create_rejects_contradictory_options() {
    let garth = Garth::new();
    for args in [
        &["--scope", "admin", "--agent", "scout"][..],
        &["--prefix", "/notes"],
        &["--read-only"],
        &["--agent", "scout", "--prefix", "/"],
        &["--agent", "scout", "--prefix", "notes"],
        &["--agent", "scout", "--class", "none"],
        &["--operator"],
        &["--operator", "--scope", "memory:read"],
        &["--operator", "--scope", "admin", "--scope", "memory:read"],
        &["--operator", "--scope", "admin", "--agent", "scout"],
        &["--operator", "--scope", "admin", "--user", "ann"],
        &["--user", "ann", "--skill", "cook"],
        &["--user", "ann", "--upload-limit", "1M"],
        &["--overlay", "draft"],
        &["--expires", "0s"],
        &["--expires", "soon"],
        &["--expires", "2020-01-01"],
    ] {
        garth.fails(2, &[&["key", "create"], args].concat());
    }
    assert_eq!(garth.ok(&["key", "list", "--revoked"]), "");
}

#[test]
fn expiring_key_names_its_end() {
    let garth = Garth::new();
    let made = garth.json(&["key", "create", "--expires", "2200-01-01T09:30Z"]);
    assert_eq!(made["expires"], "2200-01-01T09:30:00.000Z");
    assert!(garth.ok(&["key", "list"]).contains("expires 2200-01-01T09:30:00.000Z"));
    assert!(garth.json(&["key", "create", "--expires", "30d"])["expires"].is_string());
    assert_eq!(garth.json(&["key", "create"])["expires"], json!(null));
}

#[test]
fn rotated_key_ends_after_the_grace() {
    let garth = Garth::new();
    let old = garth.json(&["key", "create", "--label", "laptop", "--scope", "memory:read"]);
    let id = string(&old["id"]);
    let new = garth.json(&["key", "rotate", &id, "--grace", "1d"]);
    assert_eq!((&new["label"], &new["scopes"]), (&old["label"], &old["scopes"]));
    assert!(string(&new["key"]).starts_with(&format!("garth_{}.", string(&new["id"]))));
    assert_eq!((&new["old"]["id"], &new["old"]["revoked"]), (&old["id"], &json!(null)));
    assert!(new["old"]["expires"].is_string());
    garth.fails(4, &["key", "rotate", &id]);
    let last = garth.json(&["key", "rotate", &string(&new["id"]), "--grace", "0"]);
    assert!(last["old"]["revoked"].is_string());
    assert_eq!(column(&garth.lines(&["key", "list"]), "id"), [id, string(&last["id"])]);
    garth.fails(3, &["key", "rotate", "0000000000000000"]);
}

#[test]
fn operator_keys_are_listed_apart() {
    let garth = Garth::new();
    let made = garth.json(&["key", "create", "--operator", "--scope", "admin"]);
    assert_eq!((&made["account"], &made["scopes"]), (&json!(null), &json!(["admin"])));
    let id = string(&made["id"]);
    assert_eq!(garth.ok(&["key", "list"]), "");
    assert_eq!(column(&garth.lines(&["key", "list", "--operator"]), "id"), std::slice::from_ref(&id));
    garth.fails(3, &["key", "revoke", &id]);
    garth.ok(&["key", "revoke", "--operator", &id]);
    assert_eq!(garth.ok(&["key", "list", "--operator"]), "");
}

#[test]
fn revoke_takes_several_keys() {
    let garth = Garth::new();
    let ids: Vec<String> = (0..2).map(|_| string(&garth.json(&["key", "create"])["id"])).collect();
    let output = garth.run(&["key", "revoke", &ids[0], "0000000000000000", &ids[1]], b"");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("0000000000000000"), "{}", text(&output.stderr));
    assert_eq!(garth.ok(&["key", "list"]), "", "the others are revoked");
}

#[test]
fn completions_print_scripts_of_shells() {
    let garth = Garth::unmade();
    for shell in ["bash", "zsh", "fish"] {
        let script = garth.ok(&["completions", shell]);
        assert!(script.contains("garth __complete"), "{shell}");
    }
    assert!(garth.ok(&["completions", "elvish"]).contains("snapshot"));
    assert_eq!(garth.json(&["completions", "bash"])["shell"], "bash");
    garth.fails(2, &["completions", "tcl"]);
    assert!(!garth.data().exists(), "no data folder is made for it");
}

#[test]
fn shells_complete_commands_options_and_tree_paths() {
    let garth = Garth::new();
    garth.write("/notes/today.md", "x");
    garth.write("/notes/tomorrow.md", "x");
    garth.write("/other", "x");
    garth.ok(&["ln", "-s", "notes", "/link"]);
    garth.ok(&["account", "create", "team"]);
    garth.feed(&["write", "/theirs", "--account", "team"], "x");
    let complete = |words: &[&str]| {
        let output = garth.run(&[&["__complete"], words].concat(), b"");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{words:?}");
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["snap"]), ["snapshot"]);
    assert_eq!(complete(&["snapshot", "c"]), ["create"]);
    assert_eq!(complete(&["gc", "--gr"]), ["--grace"]);
    assert_eq!(complete(&["ls", "--acc"]), ["--account"]);
    assert_eq!(complete(&["import", "/ot"]), Vec::<String>::new(), "a file of this machine");
    assert_eq!(complete(&["import", "x", "/ot"]), ["/other"]);
    assert_eq!(complete(&["log", "-n", "3", "/ot"]), ["/other"]);
    assert_eq!(complete(&["cat", "/"]), ["/link", "/notes/", "/other"]);
    assert_eq!(complete(&["mv", "/other", "/notes/to"]), ["/notes/today.md", "/notes/tomorrow.md"]);
    assert_eq!(complete(&["cat", "/link/tod"]), ["/link/today.md"]);
    assert_eq!(complete(&["--account", "team", "cat", "/"]), ["/theirs"]);
    assert_eq!(complete(&["cat", "/none/"]), Vec::<String>::new());
    assert_eq!(complete(&["grep", "x", "/ot"]), ["/other"]);
    assert_eq!(complete(&["diff", "/notes/today.md", "/ot"]), ["/other"]);
    assert_eq!(complete(&["search", "x", "--in", "/no"]), ["/notes/"]);
    assert_eq!(complete(&["restore", "/other", "--to", "/no"]), ["/notes/"]);
    assert_eq!(complete(&["log", "-n", "/ot"]), Vec::<String>::new(), "a count is no path");
    assert_eq!(complete(&["--data=/nowhere", "cat", "/"]), Vec::<String>::new());
}

#[test]
fn fsck_accepts_a_sound_account() {
    let garth = Garth::new();
    garth.write("/notes/a.md", "the harbour at night");
    garth.ok(&["account", "create", "team"]);
    let found = garth.json(&["fsck"]);
    assert_eq!(
        (&found["account"], &found["ok"], &found["findings"]),
        (&json!("default"), &json!(true), &json!([]))
    );
    assert!(garth.ok(&["fsck"]).ends_with("sound\n"));
    assert_eq!(column(&garth.lines(&["fsck", "--all"]), "account"), ["default", "team"]);
    garth.fails(3, &["fsck", "--account", "none"]);
}

#[test]
fn fsck_reports_damage() {
    let garth = Garth::new();
    garth.write("/notes/a.md", &"an unmistakable line of text\n".repeat(200));
    // A process may end before its writer has closed the database. The next one that closes it empties the
    // WAL, in which damage would only look like a commit that was cut off.
    garth.run(&["ls", "/"], b"");
    let mut damaged = 0;
    for folder in std::fs::read_dir(garth.data().join("accounts")).expect("accounts") {
        for file in std::fs::read_dir(folder.expect("a folder").path()).expect("its files") {
            let path = file.expect("a file").path();
            let mut bytes = std::fs::read(&path).expect("its bytes");
            let word = b"unmistakable";
            // All places, because the first may be a word of the search index.
            let places = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(word)).collect::<Vec<_>>();
            for at in &places {
                bytes[*at] ^= 1;
                damaged += 1;
            }
            if !places.is_empty() {
                std::fs::write(&path, bytes).expect("it is written");
            }
        }
    }
    assert!(damaged > 0, "the text is somewhere on disk");
    let output = garth.run(&["fsck", "--json"], b"");
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["ok"], json!(false));
    assert!(found["findings"].as_array().is_some_and(|findings| !findings.is_empty()), "{found}");
    assert_eq!(garth.run(&["cat", "/notes/a.md"], b"").status.code(), Some(7));
}

#[test]
fn gc_keeps_needed_content() {
    let garth = Garth::new();
    let first = garth.write("/a", "first");
    garth.write("/a", "second");
    garth.ok(&["rm", "/a"]);
    assert!(garth.fails(2, &["gc", "--grace", "0"]).contains("--force"));
    garth.ok(&["gc", "--grace", "119s", "--dry-run"]);
    let gone = garth.json(&["gc", "--grace", "0", "--force"]);
    assert_eq!((&gone["account"], &gone["chunks"]), (&json!("default"), &json!(0)));
    assert!(garth.ok(&["gc", "--all"]).starts_with("default: "));
    assert_eq!(garth.ok(&["cat", "--version", &first]), "first");
    assert_eq!((&gone["waiting"], &gone["waiting_bytes"]), (&json!(0), &json!(0)));
    garth.fails(2, &["gc", "--grace", "soon"]);
}

#[test]
fn reindex_rebuilds_the_search_index() {
    let garth = Garth::new();
    garth.write("/notes/a.md", "the harbour at night");
    assert_eq!(garth.json(&["reindex"])["account"], "default");
    assert_eq!(column(&garth.lines(&["search", "harbour"]), "path"), ["/notes/a.md"]);
    assert!(garth.ok(&["reindex", "--all"]).ends_with("1 file indexed\n"));
}

#[test]
fn backup_is_a_complete_data_folder() {
    let garth = Garth::new();
    let first = garth.write("/a", "first");
    garth.write("/a", "second");
    garth.ok(&["account", "create", "team"]);
    garth.feed(&["write", "/b", "--account", "team"], "theirs");
    let key = garth.json(&["key", "create"]);
    let copy = garth.beside("copy");
    let made = garth.json(&["backup", utf8(&copy)]);
    assert_eq!(column(made["accounts"].as_array().expect("a list"), "account"), ["default", "team"]);
    garth.write("/a", "after the backup");
    let copied = |args: &[&str]| garth.ok(&[args, &["--data", utf8(&copy)]].concat());
    assert_eq!(copied(&["cat", "/a"]), "second");
    assert_eq!(copied(&["cat", "--version", &first]), "first");
    assert_eq!(copied(&["cat", "/b", "--account", "team"]), "theirs");
    assert!(copied(&["key", "list"]).starts_with(&string(&key["id"])));
    assert!(copied(&["fsck", "--all"]).lines().all(|line| line.ends_with("sound")));
    garth.fails(4, &["backup", utf8(&copy)]);
    assert!(garth.ok(&["backup", utf8(&garth.beside("again"))]).contains("team: up to 1"));
}
