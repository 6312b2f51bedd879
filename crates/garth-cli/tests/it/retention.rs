//! `garth retention`, `garth usage`, and an account that is full.

use serde_json::{Value, json};

use super::garth::{Garth, text};

/// Returns the path classes that a new account begins with.
fn default_classes() -> Value {
    let session = |file: &str| {
        let pattern = format!("/users/*/agents/*/session/*/{file}");
        json!({"pattern": pattern, "keep_seconds": 86_400})
    };
    json!([
        {"pattern": "/**/.outbox/**", "keep_seconds": 86_400},
        {"pattern": "/.outbox/**", "keep_seconds": 0},
        session("context/dedup/index.jsonl"),
        session("context/pack.md"),
        session("latest.md"),
    ])
}

#[test]
fn new_account_begins_with_default_classes() {
    let garth = Garth::new();
    let mut state = garth.json(&["retention"]);
    assert_eq!(state["content"], default_classes());
    for class in default_classes().as_array().unwrap() {
        state = garth.json(&["retention", "rm", class["pattern"].as_str().unwrap()]);
    }
    assert_eq!((&state["content"], &garth.json(&["retention"])["content"]), (&json!([]), &json!([])));
}

#[test]
fn limits_that_are_not_given_stay() {
    let garth = Garth::new();
    let none = json!({"age_seconds": null, "commits": null, "max_stored": null, "content": default_classes(),
        "oldest": 0, "oldest_time": null, "folded": 0, "held_by": null, "over_limit": 0,
        "without_file": []});
    assert_eq!(garth.json(&["retention"]), none);
    assert!(garth.ok(&["retention"]).contains("age         no limit\n"));
    garth.json(&["retention", "set", "--age", "30d", "--commits", "5000"]);
    let set = garth.json(&["retention", "set", "--max-stored", "10G"]);
    assert_eq!(
        [&set["age_seconds"], &set["commits"], &set["max_stored"]],
        [&json!(2_592_000), &json!(5000), &json!(10_u64 << 30)]
    );
    assert_eq!(garth.json(&["retention", "show"]), set);
    let shown = garth.ok(&["retention"]);
    for line in ["age         30d\n", "commits     5000\n", "max stored  10G\n", "all commits are readable"] {
        assert!(shown.contains(line), "{shown}");
    }
    garth.ok(&["retention", "set", "--age", "none", "--commits", "none", "--max-stored", "none"]);
    assert_eq!(garth.json(&["retention"]), none);
}

#[test]
fn old_content_of_a_class_ends() {
    let garth = Garth::new();
    garth.ok(&["retention", "class", "/logs/**", "--keep", "1d"]);
    garth.ok(&["retention", "set", "--commits", "5000"]);
    let set = garth.json(&["retention", "class", "logs/**", "--keep", "off"]);
    let of_logs = |state: &Value| -> Vec<Value> {
        let classes = state["content"].as_array().unwrap().iter();
        classes.filter(|class| class["pattern"] == "/logs/**").cloned().collect()
    };
    assert_eq!(of_logs(&set), [json!({"pattern": "/logs/**", "keep_seconds": 0})], "replaced");
    assert_eq!(set["commits"], 5000);
    let shown = garth.ok(&["retention"]);
    assert_eq!(shown.matches("  /logs/**").count(), 1, "{shown}");
    assert!(shown.contains("\ncontent     off  /logs/**"), "{shown}");
    let first = garth.write("/logs/a", "one");
    let seq = garth.seq();
    garth.write("/logs/a", "two");
    assert_eq!(garth.ok(&["cat", "/logs/a", "--at", &first]), "one");
    garth.ok(&["gc"]);
    let due = format!("/logs/a: the content at sequence number {seq} is no longer stored");
    for args in [&["cat"][..], &["cat", "-n"], &["head"], &["tail"], &["blame"]] {
        let said = garth.fails(3, &[args, &["/logs/a", "--at", first.as_str()]].concat());
        assert!(said.contains(&due), "{args:?}: {said}");
    }
    assert!(garth.fails(3, &["cat", "--version", &first]).contains(&due));
    assert_eq!(garth.ok(&["cat", "/logs/a"]), "two");
    assert_eq!(garth.json(&["retention", "rm", "/logs/**"])["content"], default_classes());
    garth.fails(3, &["retention", "rm", "/logs/**"]);
    garth.fails(2, &["retention", "class", "/logs/**"]);
    garth.fails(2, &["retention", "class", "/logs/**", "--keep", "soon"]);
    garth.fails(2, &["retention", "class", "/[a", "--keep", "off"]);
}

#[test]
fn patches_name_files_whose_content_is_gone() {
    let garth = Garth::new();
    garth.ok(&["retention", "class", "/logs/*.tmp", "--keep", "off"]);
    garth.write("/logs/a.tmp", "one");
    garth.write("/logs/a.tmp", "two");
    let seq = garth.seq().to_string();
    garth.write("/logs/a.tmp", "three");
    garth.ok(&["gc"]);
    let due = "files differ, and the content of one is no longer stored: /logs/a.tmp";
    for args in [&["show", &seq][..], &["diff", "/logs", "--from", &seq]] {
        let said = garth.ok(args);
        assert!(said.contains(due), "{args:?}: {said}");
    }
}

#[test]
fn export_of_the_past_reports_gone_files() {
    let garth = Garth::new();
    garth.ok(&["retention", "class", "/logs/*.tmp", "--keep", "off"]);
    garth.write("/logs/a.tmp", "one");
    garth.write("/logs/note", "one");
    let seq = garth.seq().to_string();
    garth.write("/logs/a.tmp", "two");
    garth.ok(&["gc"]);
    let out = tempfile::tempdir().unwrap();
    for name in ["folder/", "all.tar"] {
        let to = out.path().join(name);
        let done = garth.run(&["export", "/logs", to.to_str().unwrap(), "--at", &seq], b"");
        let (printed, said) = (text(&done.stdout), text(&done.stderr));
        assert_eq!(done.status.code(), Some(1), "{said}");
        let due = format!("/logs/a.tmp: the content at sequence number {seq} is no longer stored");
        assert!(printed.contains("1 failed") && said.contains(&due), "{printed}{said}");
    }
    assert_eq!(std::fs::read_to_string(out.path().join("folder/note")).unwrap(), "one");
    assert!(!out.path().join("folder/a.tmp").exists());
    let archive = std::fs::read(out.path().join("all.tar")).unwrap();
    assert!(
        archive.windows(4).any(|bytes| bytes == b"note")
            && !archive.windows(5).any(|bytes| bytes == b"a.tmp")
    );
}

#[test]
fn restore_of_a_directory_lists_gone_files() {
    let garth = Garth::new();
    garth.ok(&["retention", "class", "/logs/*.tmp", "--keep", "off"]);
    garth.write("/logs/a.tmp", "one");
    garth.write("/logs/note", "one");
    let seq = garth.seq().to_string();
    garth.write("/logs/a.tmp", "two");
    garth.write("/logs/note", "two");
    garth.ok(&["gc"]);
    let would = garth.lines(&["restore", "/logs", "--at", &seq, "--dry-run"]);
    let last = would.last().unwrap();
    assert_eq!((&last["restored"], &last["gone"]), (&json!(1), &json!(1)));
    assert_eq!(last["gone_paths"], json!(["/logs/a.tmp"]));
    let said = garth.ok(&["restore", "/logs", "--at", &seq]);
    let due = "1 file left as now, because the earlier content is no longer stored:\n  /logs/a.tmp\n";
    assert!(said.ends_with(due), "{said}");
    assert_eq!(
        (garth.ok(&["cat", "/logs/note"]), garth.ok(&["cat", "/logs/a.tmp"])),
        ("one".into(), "two".into())
    );
    let again = garth.ok(&["restore", "/logs", "--at", &seq]);
    assert!(again.contains("nothing else to restore\n1 file left as now"), "{again}");
    assert!(garth.fails(3, &["restore", "/logs/a.tmp", "--at", &seq]).contains("path class"));
    assert!(garth.fails(3, &["restore", "/logs", "--at", &seq, "--to", "/copy"]).contains("/logs/a.tmp"));
}

#[test]
fn limits_that_take_the_present_past_are_forced() {
    let garth = Garth::new();
    for args in [["--age", "9m"], ["--commits", "999"]] {
        let set = [&["retention", "set"][..], &args].concat();
        assert!(garth.fails(2, &set).contains("--force"));
        garth.ok(&[&set[..], &["--force"]].concat());
    }
    garth.fails(2, &["retention", "set", "--max-stored", "9223372036854775808"]);
    garth.fails(3, &["retention", "--account", "none"]);
    garth.fails(3, &["usage", "--account", "none"]);
}

#[test]
fn refused_limits_are_explained() {
    let garth = Garth::new();
    let class = |keep| ["retention", "class", "/logs/**", "--keep", keep];
    let set = |option, value| ["retention", "set", option, value];
    for (args, due) in [
        (&["retention", "set"][..], "--age, --commits or --max-stored"),
        (&["retention", "set", "--force"], "--age, --commits or --max-stored"),
        (&class("7"), "write 7s, 7m, 7h or 7d"),
        (&class("none"), "`off` keeps no old content"),
        (&class("-7d"), "`-7d` is negative"),
        (&set("--age", "7"), "write 7s, 7m, 7h or 7d"),
        (&set("--age", "off"), "`none` removes the limit"),
        (&set("--age", "-1d"), "`-1d` is negative"),
        (&set("--commits", "-1"), "`-1` is negative"),
        (&set("--max-stored", "-1"), "`-1` is negative"),
        (&["gc", "--grace", "600"], "write 600s, 600m, 600h or 600d"),
        (&["gc", "--grace", "-1"], "write numbers with"),
    ] {
        let said = garth.fails(2, args);
        assert!(said.contains(due), "{args:?}: {said}");
    }
    garth.ok(&class("Off"));
    garth.ok(&set("--age", "None"));
    garth.ok(&["gc", "--grace", "0", "--force"]);
}

#[test]
fn pattern_with_control_characters_is_refused() {
    let garth = Garth::new();
    for (pattern, shown) in
        [("/a\n/**", "/a\\u{a}/**: has control"), ("/\u{202e}a", "/\\u{202e}a: has control")]
    {
        for args in [
            ["retention", "class", pattern, "--keep", "off"].as_slice(),
            &["rule", "set", pattern, "append-only"],
        ] {
            let said = garth.fails(2, args);
            assert!(said.contains(shown), "{said}");
        }
    }
}

#[test]
fn class_of_a_directory_is_refused() {
    let garth = Garth::new();
    garth.write("/logs/a", "one");
    let said = garth.fails(2, &["retention", "class", "/logs", "--keep", "off"]);
    assert!(said.contains("/logs: is a directory; for the files in it, write /logs/**"), "{said}");
    garth.ok(&["retention", "class", "/logs/a", "--keep", "off"]);
}

#[test]
fn class_of_a_missing_directory_is_set_with_a_warning() {
    let garth = Garth::new();
    let said = garth.ok(&["retention", "class", "/cache", "--keep", "off"]);
    assert!(
        said.contains("/cache  (no file has this path; for files in a directory, write /cache/**)"),
        "{said}"
    );
    assert_eq!(garth.json(&["retention"])["without_file"], json!(["/cache"]));
    garth.write("/cache", "1");
    assert_eq!(garth.json(&["retention"])["without_file"], json!([]));
}

#[test]
fn limit_below_the_stored_bytes_is_set_and_explained() {
    let garth = Garth::new();
    let stored = garth.json(&["usage"])["stored"].as_u64().unwrap();
    let said = garth.ok(&["retention", "set", "--max-stored", "1k"]);
    for due in ["more than its limit", "`garth gc`", "--max-stored", "takes up to 300 KB"] {
        assert!(said.contains(due), "{due}: {said}");
    }
    let set = garth.json(&["retention"]);
    assert!(set["max_stored"] == 1024 && set["over_limit"].as_u64().unwrap() > stored / 2, "{set}");
    let said = garth.ok(&["retention", "set", "--max-stored", "1G"]);
    assert!(!said.contains("more than its limit"), "{said}");
    assert_eq!(garth.json(&["retention"])["over_limit"], 0);
}

#[test]
fn full_account_refuses_writes_until_the_limit_is_raised() {
    let garth = Garth::new();
    garth.feed(&["write", "/a"], &"x".repeat(10_000));
    let stored = garth.json(&["usage"])["stored"].as_u64().unwrap();
    garth.ok(&["retention", "set", "--max-stored", &stored.to_string()]);
    let refused = garth.run(&["write", "/b"], &[b'x'; 100_000]);
    assert_eq!(refused.status.code(), Some(6), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("the account has no room for this"), "{}", text(&refused.stderr));
    garth.ok(&["rm", "/a"]);
    garth.ok(&["gc"]);
    garth.ok(&["retention", "set", "--max-stored", "none"]);
    garth.feed(&["write", "/b"], &"x".repeat(100_000));
    assert!(garth.ok(&["fsck"]).contains("sound"));
}

#[test]
fn full_account_recovers_by_a_path_class_and_collecting() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/cache/a"], &"x".repeat(600_000));
    let stored = garth.json(&["usage"])["stored"].as_u64().unwrap();
    garth.ok(&["retention", "set", "--max-stored", &stored.to_string()]);
    let write = || garth.run(&["write", "/new"], &[b'x'; 100_000]).status.code();
    assert_eq!(write(), Some(6));
    garth.ok(&["rm", "-rf", "/cache"]);
    garth.ok(&["retention", "class", "/cache/**", "--keep", "off"]);
    let would = garth.ok(&["gc", "--dry-run"]);
    assert!(would.contains("after the grace period: at most 585.94 KiB of old content"), "{would}");
    let marked = garth.ok(&["gc"]);
    for part in ["made 1 old content unreadable", "1 file with old content", "again in 10m"] {
        assert!(marked.contains(part), "{marked}");
    }
    assert_eq!(write(), Some(6), "it waits for the grace period");
    let removed = garth.json(&["gc", "--grace", "0s", "--force"]);
    assert_eq!((&removed["content_bytes"], &removed["waiting_contents"]), (&json!(600_000), &json!(0)));
    assert!(!garth.ok(&["gc"]).contains("waiting for"), "nothing is left");
    assert_eq!(write(), Some(0));
}

#[test]
fn gc_names_a_snapshot_that_keeps_old_content() {
    let garth = Garth::new();
    garth.write("/logs/a", "one");
    garth.ok(&["retention", "class", "/logs/**", "--keep", "off"]);
    garth.ok(&["snapshot", "create", "before"]);
    garth.write("/logs/a", "two");
    for args in [&["gc"][..], &["gc", "--dry-run"]] {
        let said = garth.ok(args);
        assert!(said.contains("snapshot before keeps the old content of its state"), "{said}");
    }
    garth.ok(&["snapshot", "rm", "before"]);
    let said = garth.ok(&["gc"]);
    assert!(said.contains("made 1 old content unreadable") && !said.contains("snapshot"), "{said}");
}

#[test]
fn status_and_overlays_of_a_full_account_say_what_helps() {
    let garth = Garth::new();
    garth.write("/a", "text");
    garth.ok(&["overlay", "create", "draft"]);
    let stored = garth.json(&["usage"])["stored"].as_u64().unwrap();
    // Less than the smallest file takes.
    garth.ok(&["retention", "set", "--max-stored", &(stored + 4200).to_string()]);
    garth.fails(6, &["write", "/b"]);
    let status = garth.ok(&["status"]);
    assert!(status.contains("full: writes are refused"), "{status}");
    let said = garth.fails(6, &["rm", "/a", "--overlay", "draft"]);
    assert!(said.contains("remove the overlay, or something outside of it"), "{said}");
}

#[test]
fn full_account_takes_an_empty_file_in_place_of_another() {
    let garth = Garth::new();
    garth.write("/a", "text");
    garth.ok(&["retention", "set", "--max-stored", "0"]);
    garth.fails(6, &["write", "/a"]);
    garth.feed(&["write", "/a"], "");
    assert_eq!(garth.ok(&["cat", "/a"]), "");
    assert_eq!(garth.run(&["write", "/b"], b"").status.code(), Some(6), "it would add a name");
}

#[test]
fn full_account_still_forgets_retracts_and_delivers() {
    let garth = Garth::new();
    let coffee = "Takes her coffee black";
    garth.ok(&["session", "create", "work"]);
    garth.feed(&["session", "append", "work", "--role", "user"], "Where is the parser?\n");
    garth.ok(&["remember", "--user", "alice", coffee]);
    garth.ok(&["retention", "set", "--max-stored", "0"]);
    assert!(garth.ok(&["forget", "--user", "alice", coffee]).starts_with("forgot"));
    garth.ok(&["session", "retract", "work", "messages:1"]);
    assert!(garth.lines(&["session", "messages", "work"]).is_empty());
    garth.ok(&["outbox", "run", "--once"]);
    assert!(garth.lines(&["outbox", "list"]).is_empty());
    garth.fails(6, &["remember", "--user", "alice", coffee]);
}

#[test]
fn usage_names_the_largest_children() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/notes/a"], &"1".repeat(30_000));
    garth.feed(&["write", "/notes/a"], &"2".repeat(20_000));
    let usage = garth.json(&["usage", "/notes"]);
    let child = &usage["paths"][0];
    let thousands = |name: &str| child[name].as_u64().unwrap() / 1000;
    assert_eq!((&child["path"], thousands("live"), thousands("history")), (&json!("/notes/a"), 20, 30));
    assert_eq!(usage["has_more"], false);
    let shown = garth.ok(&["usage", "-h", "/notes"]);
    assert!(shown.starts_with("stored    ") && shown.contains("  /notes/a"), "{shown}");
    garth.fails(3, &["usage", "/none"]);
    garth.fails(2, &["usage", "notes"]);
}
