//! Verbs that write.

use serde_json::json;

use super::garth::{Garth, column};

#[test]
fn write_replaces_and_append_adds() {
    let garth = Garth::new();
    let printed = garth.feed(&["write", "/a"], "one\n");
    assert!(printed.starts_with("ver_") && printed.ends_with("  /a\n"), "{printed}");
    garth.feed(&["append", "/a"], "two\n");
    assert_eq!(garth.ok(&["cat", "/a"]), "one\ntwo\n");
    garth.feed(&["write", "/a"], "");
    assert_eq!(garth.ok(&["cat", "/a"]), "");
    garth.feed(&["append", "-p", "/new/log"], "first\n");
    assert_eq!(garth.ok(&["cat", "/new/log"]), "first\n");
}

#[test]
fn parents_are_created_only_on_request() {
    let garth = Garth::new();
    assert_eq!(
        garth.fails(3, &["write", "/no/parent"]),
        "garth: /no/parent: the parent directory does not exist; -p creates it\n"
    );
    garth.fails(3, &["append", "/no/parent"]);
    garth.fails(3, &["mkdir", "/no/parent"]);
    garth.ok(&["mkdir", "-p", "/no/parent"]);
    garth.ok(&["mkdir", "-p", "/no/parent"]);
    garth.fails(4, &["mkdir", "/no/parent"]);
    garth.write("/a", "1");
    for args in [
        &["mv", "/a", "/missing/b"][..],
        &["mv", "-T", "/a", "/missing/b"],
        &["cp", "/a", "/missing/b"],
        &["ln", "/a", "/missing/b"],
        &["ln", "-s", "/a", "/missing/b"],
    ] {
        let said = garth.fails(3, args);
        assert_eq!(
            said, "garth: /missing/b: the parent directory does not exist; -p creates it\n",
            "{args:?}"
        );
    }
    assert_eq!(garth.fails(3, &["mv", "/none", "/x"]), "garth: /none: no such file or directory\n");
    garth.ok(&["cp", "-p", "/a", "/missing/b"]);
}

#[test]
fn write_sets_attributes() {
    let garth = Garth::new();
    let options = ["--tag", "a", "--tag", "b", "--importance", "-0.5", "--searchable", "false"];
    garth
        .feed(&[&["write", "/a", "--content-type", "text/plain", "--ttl", "1h"], &options[..]].concat(), "x");
    let json = garth.json(&["stat", "/a"]);
    let kept =
        json!({"tags": ["a", "b"], "importance": -0.5, "searchable": false, "content_type": "text/plain"});
    for (name, value) in kept.as_object().expect("an object") {
        assert_eq!(&json["attributes"][name], value, "{name}");
    }
    assert!(json["expires_at"].is_string());
    for ttl in ["0", "0h", "999999999w", "-1", "soon"] {
        garth.fails(2, &["write", "/never", "--ttl", ttl]);
        garth.fails(2, &["kv", "put", "/never", "1", "--ttl", ttl]);
    }
    garth.fails(3, &["cat", "/never"]);
    let shown = garth.ok(&["stat", "/a"]);
    assert!(shown.contains("importance  -0.5"), "{shown}");
    garth.fails(2, &["write", "/a", "--importance", "NaN"]);
}

#[test]
fn write_honours_its_conditions() {
    let garth = Garth::new();
    let first = garth.write("/a", "1");
    let second = garth.write("/a", "2");
    garth.fails(4, &["write", "/a", "--if-absent"]);
    garth.fails(4, &["write", "/a", "--if-version", &first]);
    assert_eq!(garth.ok(&["cat", "/a"]), "2");
    garth.feed(&["write", "/a", "--if-version", &second], "3");
    garth.feed(&["write", "/b", "--if-absent"], "new");
    garth.ok(&["ln", "-s", "/nowhere", "/dangling"]);
    garth.fails(4, &["write", "/dangling", "--if-absent"]);
    assert_eq!(garth.ok(&["cat", "/a", "/b"]), "3new");
}

#[test]
fn write_follows_links_and_rm_removes_them() {
    let garth = Garth::new();
    garth.write("/real", "1");
    garth.ok(&["ln", "-s", "real", "/link"]);
    garth.feed(&["write", "/link"], "2");
    assert_eq!(garth.ok(&["cat", "/real"]), "2");
    garth.ok(&["rm", "/link"]);
    assert_eq!(garth.ok(&["cat", "/real"]), "2");
}

#[test]
fn rm_is_atomic() {
    let garth = Garth::new();
    garth.write("/d/a", "1");
    garth.write("/b", "1");
    garth.fails(3, &["rm", "/b", "/none"]);
    assert_eq!(garth.ok(&["ls", "/"]), "b\nd\n");
    assert!(garth.fails(1, &["rm", "/d"]).contains("is a directory"));
    garth.ok(&["rm", "-rf", "/b", "/d", "/none"]);
    assert_eq!(garth.ok(&["ls", "/"]), "");
    garth.fails(4, &["rm", "-r", "/"]);
}

#[test]
fn mv_moves_into_directories_and_replaces_files() {
    let garth = Garth::new();
    garth.write("/a", "a");
    garth.write("/b", "b");
    garth.ok(&["mkdir", "/d"]);
    garth.ok(&["mv", "/a", "/d"]);
    assert_eq!(garth.ok(&["cat", "/d/a"]), "a");
    garth.fails(4, &["mv", "-n", "/d/a", "/b"]);
    garth.ok(&["mv", "/d/a", "/b", "-m", "the better one"]);
    assert_eq!(garth.ok(&["cat", "/b"]), "a");
    assert_eq!(garth.json(&["log", "-n", "1"])["message"], "the better one");
    garth.write("/c", "c");
    garth.ok(&["mv", "/b", "/c", "/d"]);
    assert_eq!(garth.ok(&["ls", "/d"]), "b\nc\n");
    garth.fails(3, &["mv", "/d/b", "/nowhere/"]);
    garth.fails(2, &["mv", "/d", "/d/below"]);
    garth.fails(3, &["mv", "/none", "/x"]);
    garth.ok(&["mv", "-p", "/d/b", "/new/place/b"]);
    assert_eq!(garth.ok(&["cat", "/new/place/b"]), "a");
}

#[test]
fn several_sources_need_a_directory() {
    let garth = Garth::new();
    garth.write("/a", "a");
    garth.write("/b", "b");
    garth.fails(3, &["mv", "/a", "/b", "/none"]);
    garth.write("/file", "x");
    assert!(garth.fails(1, &["cp", "/a", "/b", "/file"]).contains("not a directory"));
    assert_eq!(garth.ok(&["ls", "/"]), "a\nb\nfile\n");
}

#[test]
fn cp_copies_files_and_directories() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/d/a", "--tag", "kept"], "a");
    garth.ok(&["ln", "-s", "a", "/d/link"]);
    garth.ok(&["cp", "/d/a", "/b"]);
    assert_eq!(garth.json(&["stat", "/b"])["attributes"]["tags"], json!(["kept"]));
    assert_eq!(
        garth.fails(1, &["cp", "/d", "/e"]),
        "garth: /d: is a directory; -r copies it with everything in it\n"
    );
    garth.ok(&["cp", "-r", "/d", "/e"]);
    assert_eq!(garth.json(&["stat", "/e/link"])["target"], "a");
    garth.ok(&["cp", "/d/link", "/through"]);
    assert_eq!(garth.json(&["stat", "/through"])["kind"], "file");
    garth.ok(&["mkdir", "/into"]);
    garth.ok(&["cp", "/d/link", "/into"]);
    assert_eq!(garth.json(&["stat", "/into/link"])["kind"], "file");
    garth.write("/b", "new");
    garth.fails(4, &["cp", "-n", "/d/a", "/b"]);
    garth.ok(&["cp", "-n", "-f", "/d/a", "/b"]);
    assert_eq!(garth.ok(&["cat", "/b"]), "a");
    garth.fails(2, &["cp", "-r", "/d", "/d/below"]);
}

#[test]
fn ln_creates_hard_and_symbolic_links() {
    let garth = Garth::new();
    garth.write("/a", "1");
    garth.ok(&["ln", "/a", "/b"]);
    garth.feed(&["append", "/b"], "2");
    assert_eq!(garth.ok(&["cat", "/a"]), "12");
    garth.ok(&["mkdir", "/d"]);
    garth.ok(&["ln", "-s", "../a", "/d"]);
    assert_eq!(garth.ok(&["cat", "/d/a"]), "12");
    garth.fails(4, &["ln", "/a", "/b"]);
    garth.fails(5, &["ln", "/d", "/e"]);
    garth.fails(3, &["ln", "/none", "/e"]);
    garth.ok(&["ln", "-s", "/loop", "/loop"]);
    assert!(garth.fails(1, &["cat", "/loop"]).contains("too many levels"));
}

#[test]
fn links_lead_only_into_the_tree() {
    let garth = Garth::new();
    garth.ok(&["ln", "-s", "/../../../etc/hostname", "/out"]);
    garth.fails(3, &["cat", "/out"]);
    garth.write("/etc/hostname", "inside");
    assert_eq!(garth.ok(&["cat", "/out"]), "inside");
}

#[test]
fn commits_record_author_and_message() {
    let garth = Garth::new();
    garth.feed(&["write", "/a", "--agent", "scribe", "-m", "first draft"], "x");
    let commit = garth.json(&["log", "-n", "1"]);
    assert_eq!(commit["author"], json!({"agent": "scribe"}));
    assert_eq!(commit["message"], "first draft");
    assert_eq!(commit["changes"][0]["kind"], "created");
    let printed = garth.lines(&["mkdir", "/x", "/y"]);
    assert_eq!(column(&printed, "path"), ["/x", "/y"]);
    assert_eq!(printed[0]["seq"], printed[1]["seq"], "one commit");
}

#[test]
fn rejects_ttl_out_of_range() {
    let garth = Garth::new();
    for ttl in ["0", "0s", "999999999w"] {
        garth.fails(2, &["write", "/a", "--ttl", ttl]);
        garth.fails(2, &["kv", "put", "/a", "1", "--ttl", ttl]);
    }
    garth.feed(&["write", "/a", "--ttl", "3d12h"], "x");
    garth.fails(3, &["kv", "get", "/a"]);
}

#[test]
fn unchanged_writes_commit_nothing() {
    let garth = Garth::new();
    garth.write("/d/a", "1");
    garth.ok(&["ln", "-s", "a", "/d/link"]);
    garth.ok(&["ln", "/d/a", "/d/hard"]);
    garth.ok(&["touch", "-d", "2026-01-27", "/d/a"]);
    garth.ok(&["set", "/d/a", "--tag", "kept", "--mode", "600", "--meta", "k=v"]);
    let seq = garth.seq();
    let nothing: [&[&str]; 14] = [
        &["chmod", "-R", "600", "/d/a"],
        &["chown", "-R", "0:0", "/d"],
        &["rm", "-f", "/none", "/d/none", "/d/a/below"],
        &["rm", "-rf", "/none"],
        &["mkdir", "-p", "/d"],
        &["touch", "-c", "/none"],
        &["touch", "-d", "2026-01-27T00:00:00Z", "/d/a"],
        &["ln", "-sf", "a", "/d/link"],
        &["ln", "-f", "/d/a", "/d/hard"],
        &["mv", "/d/a", "/d"],
        &["set", "/d/a", "--tag", "kept", "--mode", "0600", "--meta", "k=v", "--unset-meta", "none"],
        &["set", "/d/a", "--add-tag", "kept", "--remove-tag", "none", "--ttl", "none"],
        &["chmod", "600", "/d/a"],
        &["chown", "0:0", "/d/a"],
    ];
    for args in nothing {
        assert_eq!(garth.ok(args), "", "{args:?}");
        assert_eq!(garth.seq(), seq, "{args:?}");
    }
    assert_eq!(garth.feed(&["append", "/d/a"], ""), "");
    assert_eq!(garth.seq(), seq, "nothing was appended");
    garth.feed(&["append", "/d/new"], "");
    assert_eq!(garth.seq(), seq + 1, "the file was made");
}

#[test]
fn removals_are_shown_without_version() {
    let garth = Garth::new();
    garth.write("/f", "1");
    garth.write("/g", "1");
    assert_eq!(garth.ok(&["rm", "/f"]), "removed  /f\n");
    let removed = garth.json(&["rm", "/g"]);
    assert_eq!((&removed["path"], &removed["version"]), (&json!("/g"), &json!(null)));
    assert_eq!((&removed["removed"], &removed["seq"]), (&json!(true), &json!(4)));
}

#[test]
fn chmod_and_chown_recurse_with_r() {
    let garth = Garth::new();
    garth.write("/d/sub/a", "1");
    garth.ok(&["ln", "-s", "sub/a", "/d/link"]);
    let seq = garth.seq();
    let changed = garth.lines(&["chmod", "-R", "700", "/d"]);
    assert_eq!(column(&changed, "path"), ["/d", "/d/sub", "/d/sub/a"]);
    assert_eq!(garth.seq(), seq + 1, "one commit");
    garth.ok(&["chown", "-R", "7:8", "/d"]);
    let file = garth.json(&["stat", "/d/sub/a"]);
    assert_eq!((&file["mode"], &file["uid"], &file["gid"]), (&json!("0700"), &json!(7), &json!(8)));
    assert_eq!(garth.json(&["stat", "/d/link"])["mode"], "0777", "a link stays as it is");
}

#[test]
fn write_with_ttl_none_clears_expiry() {
    let garth = Garth::new();
    garth.feed(&["write", "/a", "--ttl", "1h"], "1");
    garth.feed(&["write", "/a"], "2");
    assert!(garth.json(&["stat", "/a"])["expires_at"].is_string());
    garth.feed(&["write", "/a", "--ttl", "none"], "3");
    assert_eq!(garth.json(&["stat", "/a"])["expires_at"], json!(null));
}

#[test]
fn set_changes_attributes_and_clears_them() {
    let garth = Garth::new();
    garth.feed(
        &["write", "/a", "--tag", "x", "--tag", "y", "--content-type", "text/plain", "--ttl", "1h"],
        "1",
    );
    garth.write("/b", "2");
    let written = garth.json(&["stat", "/a"]);
    let changed = garth.lines(&[
        "set",
        "/a",
        "/b",
        "--mode",
        "640",
        "--owner",
        "7:8",
        "--add-tag",
        "z",
        "--remove-tag",
        "x",
        "--importance",
        "-2",
        "--searchable",
        "false",
        "--content-type",
        "none",
        "--meta",
        "k=v=w",
        "--ttl",
        "none",
    ]);
    assert_eq!(column(&changed, "path"), ["/a", "/b"]);
    assert_eq!(changed[0]["seq"], changed[1]["seq"], "one commit");
    let now = garth.json(&["stat", "/a"]);
    assert_eq!((&now["mode"], &now["uid"], &now["gid"]), (&json!("0640"), &json!(7), &json!(8)));
    assert_eq!((&now["expires_at"], &now["attributes"]["content_type"]), (&json!(null), &json!(null)));
    assert_eq!(now["attributes"]["tags"], json!(["y", "z"]));
    assert_eq!(now["attributes"]["metadata"], json!({"k": "v=w"}));
    assert_eq!(now["attributes"]["importance"], json!(-2.0));
    assert_eq!(now["attributes"]["searchable"], json!(false));
    assert_eq!(now["etag"], written["etag"], "the content is the same");
    garth.ok(&["set", "/a", "--no-tags", "--unset-meta", "k", "--searchable", "default", "--ttl", "7d"]);
    let now = garth.json(&["stat", "/a"]);
    assert_eq!(now["attributes"]["searchable"], json!(null));
    assert!(now["expires_at"].is_string() && now["attributes"]["tags"] != json!(["y", "z"]));
    garth.ok(&["chmod", "0700", "/a"]);
    garth.ok(&["chown", "9", "/a"]);
    let now = garth.json(&["stat", "/a"]);
    assert_eq!((&now["mode"], &now["uid"], &now["gid"]), (&json!("0700"), &json!(9), &json!(8)));
    garth.fails(2, &["set", "/a"]);
    garth.fails(2, &["set", "/a", "--mode", "8"]);
    garth.fails(2, &["set", "/a", "--ttl", "0"]);
    garth.fails(2, &["chown", "root", "/a"]);
    garth.fails(3, &["set", "/none", "--mode", "600"]);
    garth.ok(&["mkdir", "/d"]);
    garth.fails(5, &["set", "/d", "--ttl", "1h"]);
}

#[test]
fn touch_creates_files_and_sets_times() {
    let garth = Garth::new();
    garth.ok(&["touch", "/a"]);
    assert_eq!(garth.ok(&["cat", "/a"]), "");
    garth.write("/a", "content");
    garth.ok(&["touch", "-d", "2001-02-03T04:05:06.789Z", "/a"]);
    assert_eq!(garth.json(&["stat", "/a"])["mtime"], "2001-02-03T04:05:06.789Z");
    assert_eq!(garth.ok(&["cat", "/a"]), "content");
    assert!(garth.fails(3, &["touch", "/no/parent"]).contains("-p creates it"));
    garth.ok(&["touch", "-p", "/no/parent"]);
    garth.fails(2, &["touch", "-d", "some day", "/a"]);
}

#[test]
fn mkdir_takes_permissions_with_m() {
    let garth = Garth::new();
    garth.ok(&["mkdir", "-p", "-m", "700", "/a/b", "--message", "closed"]);
    assert_eq!(garth.json(&["stat", "/a/b"])["mode"], "0700");
    assert_eq!(garth.json(&["stat", "/a"])["mode"], "0755");
    assert_eq!(garth.json(&["log", "-n", "1"])["message"], "closed");
    garth.fails(2, &["mkdir", "-m", "u+x", "/c"]);
}

#[test]
fn rm_mv_and_ln_accept_usual_options() {
    let garth = Garth::new();
    garth.write("/d/a", "a");
    garth.write("/b", "b");
    garth.ok(&["mv", "-n", "-f", "/d/a", "/b"]);
    assert_eq!(garth.ok(&["cat", "/b"]), "a");
    garth.write("/c", "c");
    garth.ok(&["mkdir", "/empty"]);
    assert!(garth.fails(1, &["mv", "-T", "/c", "/empty"]).contains("is a directory"));
    garth.ok(&["mv", "-T", "/empty", "/d"]);
    garth.write("/d/e/f", "f");
    garth.ok(&["mkdir", "/e"]);
    assert!(garth.fails(4, &["mv", "/e", "/d"]).contains("rm -r"));
    garth.fails(2, &["mv", "-T", "/b", "/c", "/d"]);
    assert_eq!(
        garth.fails(1, &["rm", "/d"]),
        "garth: /d: is a directory; -r removes it with everything in it\n"
    );
    garth.fails(4, &["ln", "-s", "other", "/c"]);
    garth.ok(&["ln", "-sf", "./nested/../b", "/c"]);
    assert_eq!(garth.json(&["stat", "/c"])["target"], "./nested/../b", "kept as typed");
    garth.ok(&["ln", "-s", "d", "/to-d"]);
    garth.ok(&["ln", "-sfn", "e", "/to-d"]);
    assert_eq!(garth.json(&["stat", "/to-d"])["target"], "e");
    garth.ok(&["ln", "-f", "/b", "/c"]);
    assert_eq!(garth.ok(&["cat", "/c"]), "a");
    garth.ok(&["rm", "-R", "/d"]);
    garth.fails(3, &["cat", "/d/e/f"]);
}

#[test]
fn failed_condition_names_the_current_version() {
    let garth = Garth::new();
    let first = garth.write("/a", "1");
    let second = garth.write("/a", "2");
    let said = garth.fails(4, &["write", "/a", "--if-version", &first]);
    assert!(said.contains(&format!("changed since {first}: the current version is {second}")), "{said}");
    garth.ok(&["rm", "/a"]);
    let said = garth.fails(4, &["write", "/a", "--if-version", &second]);
    assert_eq!(said, format!("garth: /a: changed since {second}: it does not exist\n"));
}

#[test]
fn write_and_append_take_text() {
    let garth = Garth::new();
    garth.ok(&["write", "-p", "/notes/a.md", "first"]);
    garth.ok(&["append", "/notes/a.md", "- second", "-m", "an item"]);
    garth.feed(&["append", "/notes/a.md", "-"], "third");
    assert_eq!(garth.ok(&["cat", "/notes/a.md"]), "first\n- second\nthird");
    garth.ok(&["write", "/notes/a.md", ""]);
    assert_eq!(garth.ok(&["cat", "/notes/a.md"]), "");
    garth.ok(&["write", "/notes/a.md", "ends\n"]);
    assert_eq!(garth.ok(&["cat", "/notes/a.md"]), "ends\n");
}
