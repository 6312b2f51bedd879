//! The past: versions, times, restoring.

use std::time::Duration;

use garth_engine::rule::retention::Retention;
use serde_json::json;

use super::garth::{Garth, column, string};

/// Writes a file twice. Returns both versions.
pub(super) fn twice() -> (Garth, String, String) {
    let garth = Garth::new();
    let first = garth.write("/notes/plan.md", "one\ntwo\n");
    let second = garth.write("/notes/plan.md", "one\nthree\n");
    (garth, first, second)
}

#[test]
fn at_accepts_every_kind_of_time() {
    let (garth, first, _) = twice();
    let path = "/notes/plan.md";
    let cat = |at: &str| garth.ok(&["cat", path, "--at", at]);
    let commits = garth.lines(&["log"]);
    let older = &commits[1];
    assert_eq!(cat(&older["seq"].to_string()), "one\ntwo\n");
    assert_eq!(cat(&string(&older["time"])), "one\ntwo\n", "the printed time of a commit means that commit");
    assert_eq!(cat(&first), "one\ntwo\n");
    assert_eq!(cat("0s"), "one\nthree\n");
    assert_eq!(cat("now"), "one\nthree\n");
    assert_eq!(cat("2200-01-01"), "one\nthree\n");
    garth.ok(&["snapshot", "create", "before"]);
    garth.write(path, "later\n");
    assert_eq!(cat("before"), "one\nthree\n");
    for past in [
        "1h",
        "3d12h",
        "yesterday",
        "last week",
        "2001-02-03",
        "2001-02-03T04:05",
        "2001-02-03T04:05:06Z",
        "0",
    ] {
        garth.fails(3, &["cat", path, "--at", past]);
    }
    assert_eq!(garth.ok(&["ls", "/", "--at", "today"]), "");
    assert_eq!(garth.ok(&["ls", "/", "--at", "yesterday"]), "");
    let said = garth.fails(3, &["cat", path, "--at", "tomorrow"]);
    assert!(said.contains("no snapshot is named `tomorrow`"), "{said}");
    for form in ["42", "ver_", "2026-01-27", "yesterday", "last week", "3d12h"] {
        assert!(said.contains(form), "the accepted forms are listed: {said}");
    }
    garth.fails(2, &["cat", path, "--at", "2026-02-30"]);
    garth.fails(3, &["cat", path, "--at", "999999"]);
    garth.fails(2, &["cat", path, "--at", "99999999999999999999999"]);
}

#[test]
fn gone_state_exits_with_3() {
    let (garth, first, _) = twice();
    let path = "/notes/plan.md";
    garth.write("/old", "from before\n");
    for number in 0..5 {
        garth.write(path, &format!("{number}\n"));
    }
    let last = garth.seq();
    let data = garth_engine::DataDir::builder(garth_agent::registry()).open(&garth.data()).unwrap();
    futures::executor::block_on(async {
        let account = data.account("default").await.unwrap();
        account.set_retention(Retention { commits: Some(2), ..Retention::default() }).await.unwrap();
        account.gc(Duration::ZERO).await.unwrap();
    });
    drop(data);
    let oldest = last - 2;
    for at in [(oldest - 1).to_string(), first, "1h".to_owned()] {
        let said = garth.fails(3, &["cat", path, "--at", &at]);
        assert!(said.contains(&format!("ask for {oldest} or later")), "{said}");
    }
    garth.fails(3, &["diff", path, "--from", &(oldest - 1).to_string()]);
    assert_eq!(garth.ok(&["cat", path, "--at", &oldest.to_string()]), "2\n");
    assert_eq!(garth.ok(&["cat", "/old", "--at", &oldest.to_string()]), "from before\n");
    let said = garth.fails(3, &["show", &oldest.to_string()]);
    assert!(said.contains(&format!("ask for {} or later", oldest + 1)), "{said}");
    garth.ok(&["show", &(oldest + 1).to_string()]);
    let said = garth.fails(3, &["watch", "--since", "1"]);
    assert!(said.contains(&format!("add --since {oldest}")), "{said}");
    assert_eq!(garth.lines(&["log"]).len(), 2, "the commits after the oldest state");
    assert_eq!(garth.lines(&["log", path]).len(), 3, "and its version");
    assert_eq!(garth.lines(&["log", "/old"]).len(), 1);
    let patches = garth.ok(&["log", "-p", path]);
    assert!(patches.contains("\n+3\n") && !patches.contains("\n+2\n"), "{patches}");
}

#[test]
fn reads_never_find_expired_entries() {
    let garth = Garth::new();
    garth.write("/d/other", "text that stays\n");
    garth.feed(&["write", "--ttl", "1s", "/d/x"], "text that expires\n");
    let seq = garth.seq().to_string();
    while garth.run(&["stat", "/d/x"], b"").status.success() {}
    let out = garth.beside("out");
    let out = out.to_str().expect("UTF-8");
    for args in [
        &["cat", "/d/x"][..],
        &["cat", "--at", "now", "/d/x"],
        &["head", "/d/x"],
        &["tail", "/d/x"],
        &["ls", "/d/x"],
        &["tree", "/d/x"],
        &["find", "/d/x"],
        &["du", "/d/x"],
        &["diff", "/d/other", "/d/x"],
        &["export", "/d/x", out],
    ] {
        garth.fails(3, args);
    }
    assert_eq!(garth.run(&["grep", "-q", "expires", "/d/x"], b"").status.code(), Some(3));
    assert_eq!(garth.run(&["grep", "-rq", "expires", "/"], b"").status.code(), Some(1));
    assert_eq!(garth.ok(&["ls", "/d"]), "other\n");
    assert_eq!(garth.ok(&["ls", "-R", "/d"]), "/d:\nother\n");
    assert_eq!(garth.ok(&["tree", "/d"]), "/d\n└── other\n\n0 directories, 1 file\n");
    assert_eq!(garth.ok(&["find", "/d", "--type", "f"]), "/d/other\n");
    assert_eq!(garth.ok(&["glob", "/d/*"]), "/d/other\n");
    assert_eq!(garth.ok(&["search", "text"]).matches("/d/other").count(), 1);
    assert!(garth.ok(&["du", "/d"]).contains("16 bytes"), "{}", garth.ok(&["du", "/d"]));
    assert_eq!(garth.ok(&["diff", "--from", &seq, "--stat", "/d"]).matches("/d/x").count(), 1);
    garth.ok(&["export", "/d", out]);
    assert!(!std::path::Path::new(out).join("x").exists());
    assert_eq!(garth.ok(&["cat", "/d/x", "--at", &seq]), "text that expires\n", "the past has it");
}

#[test]
fn every_read_command_takes_at() {
    let garth = Garth::new();
    garth.write("/d/a", "old text");
    garth.ok(&["kv", "put", "/k", "1"]);
    let seq = garth.seq().to_string();
    garth.ok(&["rm", "-r", "/d"]);
    garth.ok(&["kv", "put", "/k", "2"]);
    let at = ["--at", seq.as_str()];
    let past = |args: &[&str]| garth.ok(&[args, &at].concat());
    assert_eq!(past(&["ls", "/d"]), "a\n");
    assert!(past(&["tree", "/d"]).contains("└── a"));
    assert_eq!(past(&["cat", "/d/a"]), "old text");
    assert!(past(&["stat", "/d/a"]).contains("/d/a"));
    assert!(past(&["du", "/d"]).contains("8 bytes"));
    assert_eq!(past(&["glob", "/d/*"]), "/d/a\n");
    assert_eq!(past(&["grep", "old", "/d"]), "/d/a:old text\n");
    assert_eq!(past(&["log", "/d/a"]).lines().count(), 1);
    assert_eq!(
        past(&["log"]).lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count(),
        2
    );
    assert_eq!(past(&["kv", "get", "/k"]), "1\n");
    assert_eq!(past(&["kv", "list"]), "/k\n");
    assert_eq!(past(&["kv", "log", "/k"]).lines().count(), 1);
    let copy = garth.beside("copy");
    garth.ok(&[&["export", "/d", copy.to_str().expect("UTF-8")][..], &at].concat());
    assert_eq!(std::fs::read_to_string(copy.join("a")).expect("exported"), "old text");
}

#[test]
fn restore_restores_a_file_in_one_commit() {
    let (garth, first, _) = twice();
    let ino = garth.json(&["stat", "/notes/plan.md"])["ino"].clone();
    let before = garth.seq();
    garth.ok(&["restore", "/notes/plan.md", "--at", &first]);
    assert_eq!(garth.ok(&["cat", "/notes/plan.md"]), "one\ntwo\n");
    assert_eq!(garth.json(&["stat", "/notes/plan.md"])["ino"], ino, "the file keeps its node");
    assert_eq!(garth.seq(), before + 1);
    assert_eq!(garth.lines(&["log", "/notes/plan.md"]).len(), 3);
    garth.ok(&["restore", "/notes/plan.md", "--at", "2", "--to", "/copy/of.md"]);
    assert_eq!(garth.ok(&["cat", "/copy/of.md"]), "one\nthree\n");
    garth.fails(4, &["restore", "/notes/plan.md", "--at", "2", "--to", "/copy/of.md"]);
    let said = garth.fails(3, &["restore", "/copy/of.md", "--at", "1"]);
    assert!(said.contains("did not exist at 1"), "{said}");
}

#[test]
fn restore_brings_back_removed_files() {
    let garth = Garth::new();
    garth.write("/d/sub/a", "a");
    garth.ok(&["ln", "-s", "sub/a", "/d/link"]);
    let seq = garth.seq().to_string();
    garth.ok(&["rm", "-r", "/d"]);
    garth.ok(&["restore", "/d/sub/a", "--at", &seq]);
    assert_eq!(garth.ok(&["glob", "/**"]), "/d\n/d/sub\n/d/sub/a\n");
    garth.ok(&["restore", "/d/link", "--at", &seq]);
    assert_eq!(garth.ok(&["cat", "/d/link"]), "a");
}

#[test]
fn restore_makes_a_directory_equal_its_past() {
    let garth = Garth::new();
    garth.write("/d/kept", "1");
    garth.write("/d/removed", "1");
    garth.write("/other", "1");
    let seq = garth.seq().to_string();
    garth.write("/d/kept", "2");
    garth.ok(&["rm", "/d/removed"]);
    garth.write("/d/new", "1");
    garth.write("/other", "2");
    let before = garth.seq();
    garth.ok(&["restore", "/d", "--at", &seq]);
    assert_eq!(garth.seq(), before + 1, "one commit");
    assert_eq!(garth.ok(&["diff", "/d", "--from", &seq, "--exit-code"]), "");
    assert_eq!(garth.ok(&["cat", "/other"]), "2");
    garth.ok(&["restore", "/", "--at", &seq]);
    assert_eq!(garth.ok(&["diff", "/", "--from", &seq]), "");
    garth.ok(&["restore", "/d", "--at", &before.to_string()]);
    assert_eq!(garth.ok(&["ls", "/d"]), "kept\nnew\n");
}

#[test]
fn restore_without_difference_commits_nothing() {
    let garth = Garth::new();
    garth.write("/d/a", "1");
    garth.write("/d/b", "1");
    garth.ok(&["ln", "/d/a", "/d/c"]);
    let seq = garth.seq().to_string();
    garth.write("/d/b", "2");
    garth.write("/d/new", "2");
    let before = garth.seq();
    let would = garth.lines(&["restore", "--dry-run", "/d", "--at", &seq]);
    assert_eq!(column(&would[..2], "action"), ["removed", "changed"]);
    assert_eq!((&would[2]["restored"], &would[2]["unchanged"]), (&1.into(), &2.into()));
    let says = garth.ok(&["restore", "--dry-run", "/d", "--at", &seq]);
    assert!(says.ends_with("would restore 1 entry, remove 1, leave 2 unchanged\n"), "{says}");
    assert_eq!(garth.seq(), before, "a dry run changes nothing");
    let did = garth.json(&["restore", "/d", "--at", &seq]);
    assert_eq!((&did["created"], &did["restored"], &did["removed"]), (&false.into(), &1.into(), &1.into()));
    assert_eq!(garth.json(&["stat", "/d/a"])["ino"], garth.json(&["stat", "/d/c"])["ino"]);
    let again = garth.ok(&["restore", "/d", "--at", &seq]);
    assert!(again.contains("nothing to restore"), "{again}");
    assert_eq!(garth.seq(), before + 1);
    garth.ok(&["rm", "-r", "/d"]);
    let lines = garth.lines(&["restore", "-v", "/d", "--at", &seq]);
    assert_eq!(
        (column(&lines[..1], "action"), &lines[1]["created"]),
        (vec!["created".to_owned()], &true.into())
    );
}

#[test]
fn cp_keeps_hard_links_inside_a_directory() {
    let garth = Garth::new();
    garth.write("/d/a", "1");
    garth.ok(&["ln", "/d/a", "/d/b"]);
    for option in ["-r", "-R", "-a"] {
        let to = format!("/copy{option}");
        garth.ok(&["cp", option, "/d", &to]);
        let ino = |name: &str| garth.json(&["stat", &format!("{to}/{name}")])["ino"].clone();
        assert_eq!(ino("a"), ino("b"), "{option}");
    }
}

#[test]
fn snapshots_are_created_listed_and_removed() {
    let garth = Garth::new();
    garth.write("/a", "1");
    garth.ok(&["snapshot", "create", "one", "-m", "before the change"]);
    garth.ok(&["snapshot", "create", "2026-01-27-rc"]);
    let names = column(&garth.lines(&["snapshot", "list"]), "name");
    assert_eq!(names, ["2026-01-27-rc", "one"]);
    assert_eq!(garth.lines(&["snapshot"]).len(), 2);
    garth.write("/a", "2");
    assert_eq!(garth.ok(&["cat", "/a", "--at", "2026-01-27-rc"]), "1");
    garth.fails(4, &["snapshot", "create", "one"]);
    for moment in ["42", "1h", "today", "2026-01-27"] {
        garth.fails(2, &["snapshot", "create", moment]);
    }
    garth.ok(&["snapshot", "rm", "one"]);
    garth.fails(3, &["snapshot", "rm", "one"]);
    garth.fails(3, &["cat", "/a", "--at", "one"]);
}

#[test]
fn snapshots_of_others_are_listed_and_removed() {
    let garth = Garth::new();
    garth.ok(&["write", "/a", "1", "--user", "ann"]);
    garth.ok(&["snapshot", "create", "mine", "--user", "ann"]);
    garth.ok(&["write", "/a", "2", "--user", "ann"]);
    let listed = garth.lines(&["snapshot"]);
    let owner = listed[0]["owner"].as_str().unwrap();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &json!("mine")));
    assert_eq!(garth.lines(&["snapshot", "--user", "ann"])[0].get("owner"), None, "its own");
    garth.ok(&["retention", "set", "--commits", "0", "--force"]);
    let held = json!({"kind": "snapshot", "name": "mine", "owner": owner});
    assert_eq!(garth.json(&["retention"])["held_by"], held);
    let said = garth.ok(&["retention"]);
    assert!(said.contains(&format!("\nheld by     snapshot mine of {owner}\n")), "{said}");
    let said = garth.fails(3, &["snapshot", "rm", "mine"]);
    assert!(said.contains("`garth snapshot rm --owner`"), "{said}");
    garth.fails(3, &["snapshot", "rm", "mine", "--owner", "nobody"]);
    garth.fails(2, &["snapshot", "rm", "mine", "--owner", "a>b"]);
    garth.fails(2, &["snapshot", "rm", "mine", "--owner", owner, "--user", "ann"]);
    let removed = garth.json(&["snapshot", "rm", "mine", "--owner", owner]);
    assert_eq!((&removed["name"], &removed["owner"]), (&json!("mine"), &json!(owner)));
    assert!(garth.lines(&["snapshot"]).is_empty());
    assert_eq!(garth.json(&["retention"])["held_by"], json!(null));
}

#[test]
fn restore_alone_undoes_the_last_change() {
    let garth = Garth::new();
    garth.ok(&["write", "-p", "/d/a", "one"]);
    garth.ok(&["write", "/d/a", "two"]);
    garth.ok(&["write", "/other", "x"]);
    garth.ok(&["restore", "/d/a"]);
    assert_eq!(garth.ok(&["cat", "/d/a"]), "one\n");
    garth.ok(&["restore", "/d/a"]);
    assert_eq!(garth.ok(&["cat", "/d/a"]), "two\n", "restoring again undoes the restore");
    garth.ok(&["rm", "/d/a"]);
    garth.ok(&["restore", "/d/a"]);
    assert_eq!(garth.ok(&["cat", "/d/a"]), "two\n", "a removed file comes back");
    garth.ok(&["write", "/d/b", "new"]);
    let dry = garth.lines(&["restore", "/d", "--dry-run"]);
    assert_eq!((&dry[0]["path"], &dry[0]["action"]), (&json!("/d/b"), &json!("removed")));
    garth.ok(&["restore", "/d"]);
    garth.fails(3, &["cat", "/d/b"]);
    garth.ok(&["rm", "-r", "/d"]);
    garth.ok(&["restore", "/d"]);
    assert_eq!(garth.ok(&["cat", "/d/a"]), "two\n", "a removed directory comes back");
    assert!(garth.fails(3, &["restore", "/other"]).contains("did not exist before its last change"));
    assert_eq!(garth.ok(&["cat", "/other"]), "x\n");
}
