//! `garth quota` and its errors.

use serde_json::json;

use super::garth::{Garth, text};

#[test]
fn quota_is_enforced_until_removed() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/notes/a", "-m", "first"], &"x".repeat(90));
    let set = garth.json(&["quota", "set", "/notes", "--max-bytes", "100", "--max-entries", "3"]);
    let expected = json!({"path": "/notes", "max_bytes": 100, "max_entries": 3, "bytes": 90, "entries": 1});
    assert_eq!(set, expected);
    let refused = garth.run(&["write", "/notes/b"], "x".repeat(11).as_bytes());
    let said = text(&refused.stderr);
    assert!(!refused.status.success());
    for part in ["/notes", "100 bytes", "11 more", "90 are used", "raised"] {
        assert!(said.contains(part), "{said}");
    }
    let folder = garth.beside("files");
    std::fs::create_dir(&folder).unwrap();
    for name in ["1", "2", "3"] {
        std::fs::write(folder.join(name), "x").unwrap();
    }
    let import = garth.run(&["import", folder.to_str().unwrap(), "/notes/in"], b"");
    assert!(!import.status.success());
    assert!(text(&import.stderr).contains("3 entries"), "{}", text(&import.stderr));
    garth.ok(&["rm", "-r", "/notes/in"]);
    assert_eq!(garth.lines(&["quota", "list"]), std::slice::from_ref(&expected));
    assert!(garth.ok(&["quota"]).contains("90 of 100 bytes, 1 of 3 entries"));
    assert!(garth.ok(&["du", "/notes"]).contains("(quota: 90 of 100 bytes, 1 of 3 entries)"));
    assert_eq!(garth.json(&["du", "/notes"])["quota"], expected);
    assert_eq!(garth.json(&["du", "/"]).get("quota"), None);
    // A second `set` replaces both limits.
    let raised = garth.json(&["quota", "set", "/notes", "--max-bytes", "10KiB"]);
    assert_eq!((&raised["max_bytes"], &raised["max_entries"]), (&json!(10240), &json!(null)));
    assert!(garth.ok(&["quota", "list", "-h"]).contains("90 of 10K bytes, 1 entries  "));
    garth.feed(&["write", "/notes/b"], &"x".repeat(11));
    garth.ok(&["quota", "rm", "/notes"]);
    assert_eq!(garth.ok(&["quota", "list"]), "");
    garth.fails(3, &["quota", "rm", "/notes"]);
    let said = garth.fails(2, &["quota", "set", "/notes"]);
    assert!(said.contains("--max-bytes SIZE, --max-entries COUNT, or both"), "{said}");
    garth.fails(2, &["quota", "set", "notes", "--max-bytes", "1"]);
    garth.fails(2, &["quota", "set", "/notes", "--max-bytes", "9223372036854775808"]);
    assert!(garth.ok(&["fsck"]).contains("default"));
}

#[test]
fn du_counts_like_a_quota() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/notes/deep/a"], "12345");
    garth.ok(&["ln", "/notes/deep/a", "/notes/b"]);
    garth.ok(&["ln", "-s", "deep/a-long-target-of-a-link", "/notes/link"]);
    garth.ok(&["mkdir", "-p", "/notes/empty/within"]);
    garth.feed(&["write", "-p", "/chats/c"], "1");
    for path in ["/", "/notes", "/notes/deep", "/notes/empty/within"] {
        let quota = garth.json(&["quota", "set", path, "--max-entries", "1000"]);
        let counted = garth.json(&["du", path]);
        assert_eq!((&counted["bytes"], &counted["entries"]), (&quota["bytes"], &quota["entries"]), "{path}");
    }
    let below = garth.lines(&["du", "-d", "1", "/notes"]);
    let of = |path: &str| &below.iter().find(|one| one["path"] == path).unwrap()["entries"];
    assert_eq!((of("/notes/deep"), of("/notes/empty"), of("/notes")), (&json!(1), &json!(1), &json!(6)));
    assert_eq!(garth.json(&["du", "/notes/b"])["entries"], 1);
}

#[test]
fn quota_warns_of_pattern_like_paths() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/users/ann/notes"], "x");
    let set = |path: &str| text(&garth.run(&["quota", "set", path, "--max-bytes", "100"], b"").stderr);
    for pattern in ["/users/*", "/users/an?", "/users/[ab]*", "/users/{ann,bob}"] {
        let said = set(pattern);
        assert!(said.contains(pattern) && said.contains("no patterns"), "{said}");
    }
    assert_eq!(set("/users/ann"), "");
    garth.ok(&["mkdir", "/users/*"]);
    assert_eq!(set("/users/*"), "");
}
