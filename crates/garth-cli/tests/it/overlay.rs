//! Overlays on the command line.

use serde_json::json;

use super::garth::{Garth, column, utf8};

#[test]
fn overlay_changes_apply_in_one_commit() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/notes/a"], "below\n");
    garth.feed(&["write", "/notes/b"], "b\n");
    let made = garth.json(&["overlay", "create", "draft", "--of", "/notes"]);
    assert_eq!(
        (&made["id"], &made["path"], &made["as_of"]),
        (&json!("draft"), &json!("/notes"), &json!(null))
    );
    garth.fails(4, &["overlay", "create", "draft"]);
    let listed = garth.lines(&["overlay", "list"]);
    assert_eq!(listed, [json!({"id": "draft", "path": "/notes", "as_of": null})]);
    let work = |args: &[&str], input: &str| garth.feed(&[args, &["--overlay", "draft"]].concat(), input);
    work(&["append", "/a"], "above\n");
    work(&["mkdir", "/new"], "");
    work(&["rm", "/b"], "");
    assert_eq!(work(&["cat", "/a"], ""), "below\nabove\n");
    assert_eq!(work(&["ls"], ""), "a\nnew\n");
    assert_eq!(work(&["grep", "-r", "above", "/"], ""), "/a:above\n");
    assert_eq!(work(&["find", "/", "-name", "a"], ""), "/a\n");
    assert!(work(&["du", "/"], "").contains('/'));
    garth.fails(1, &["log", "/a", "--overlay", "draft"]);
    garth.fails(3, &["ls", "--overlay", "none"]);
    assert_eq!(garth.ok(&["cat", "/notes/a"]), "below\n");
    assert_eq!(garth.ok(&["ls", "/"]), "notes\n", "what is kept for overlays does not show");
    garth.fails(5, &["mkdir", "/.garth/x"]);
    assert_eq!(garth.ok(&["overlay", "diff", "draft"]), "M  /a\nD  /b\nA  /new\n");
    let told = garth.lines(&["overlay", "diff", "draft"]);
    assert_eq!(told[2], json!({"path": "/new", "change": "added", "kind": "directory"}));
    let applied = garth.json(&["overlay", "apply", "draft", "-m", "reviewed"]);
    assert_eq!((&applied["changed"], &applied["conflicts"]), (&json!(3), &json!([])));
    assert_eq!(garth.ok(&["cat", "/notes/a"]), "below\nabove\n");
    assert_eq!(garth.ok(&["ls", "/notes"]), "a\nnew\n");
    let log = garth.lines(&["log", "-n", "1"]);
    assert_eq!((&log[0]["seq"], &log[0]["message"]), (&applied["seq"], &json!("reviewed")));
    assert_eq!(garth.ok(&["overlay", "diff", "draft"]), "");
    assert_eq!(garth.json(&["overlay", "apply", "draft"])["seq"], json!(null));
    garth.ok(&["overlay", "rm", "draft"]);
    assert!(garth.lines(&["overlay", "list"]).is_empty());
    for action in ["diff", "apply", "rm"] {
        garth.fails(3, &["overlay", action, "draft"]);
    }
    garth.fails(2, &["overlay", "create", "a/b"]);
    garth.fails(2, &["overlay", "list", "--overlay", "draft"]);
    garth.fails(3, &["overlay", "create", "other", "--of", "/none"]);
}

#[test]
fn overlay_conflict_names_its_options() {
    let garth = Garth::new();
    garth.feed(&["write", "/a"], "one\n");
    for (id, side, text) in [("o", "--ours", "here\n"), ("t", "--theirs", "there\n")] {
        garth.ok(&["overlay", "create", id]);
        garth.feed(&["write", "/a", "--overlay", id], "here\n");
        garth.feed(&["write", "/a"], "there\n");
        let said = garth.fails(4, &["overlay", "apply", id]);
        assert!(said.contains("/a: ") && said.contains("--ours"), "{said}");
        garth.fails(2, &["overlay", "apply", id, "--ours", "--theirs"]);
        let applied = garth.json(&["overlay", "apply", id, side]);
        assert_eq!(applied["conflicts"], json!(["/a"]));
        assert_eq!(garth.ok(&["cat", "/a"]), text);
        assert_eq!(garth.ok(&["cat", "/a", "--overlay", id]), text);
    }
}

#[test]
fn apply_keeps_fields_of_garth() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work"]);
    let meta = "/users/default/agents/default/session/work/meta.json";
    let before = garth.ok(&["cat", meta]);
    garth.ok(&["overlay", "create", "draft"]);
    garth.feed(&["write", meta, "--overlay", "draft"], "{}");
    let said = garth.fails(6, &["overlay", "apply", "draft"]);
    assert!(said.contains(meta) && said.contains("garth alone"), "{said}");
    assert_eq!(garth.ok(&["cat", meta]), before);
    assert_eq!(garth.ok(&["overlay", "diff", "draft"]), format!("M  {meta}\n"));
    garth.ok(&["overlay", "apply", "draft", "--override-rules"]);
    assert_eq!(garth.ok(&["cat", meta]), "{}");
}

#[test]
fn fork_shows_past_state() {
    let garth = Garth::new();
    garth.feed(&["write", "/a"], "one\n");
    garth.feed(&["write", "/a"], "two\n");
    let made = garth.json(&["overlay", "create", "fork", "--at", "1"]);
    assert_eq!(made["as_of"], json!(1));
    assert_eq!(garth.ok(&["cat", "/a", "--overlay", "fork"]), "one\n");
    garth.feed(&["write", "/b", "--overlay", "fork"], "b\n");
    garth.ok(&["overlay", "apply", "fork"]);
    assert_eq!(garth.ok(&["cat", "/a", "/b"]), "two\nb\n");
    assert_eq!(column(&garth.lines(&["overlay", "list"]), "id"), ["fork"]);
}

#[test]
fn overlay_supports_import_and_export() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    std::fs::create_dir(&from).expect("a folder");
    garth.ok(&["overlay", "create", "draft"]);
    for text in ["one", "two"] {
        std::fs::write(from.join("a"), text).expect("a file");
        garth.ok(&["import", utf8(&from), "/in", "--overlay", "draft"]);
        assert_eq!(garth.ok(&["cat", "/in/a", "--overlay", "draft"]), text);
    }
    garth.ok(&["export", "/in", utf8(&to), "--overlay", "draft"]);
    assert_eq!(std::fs::read(to.join("a")).expect("it is there"), b"two");
    assert_eq!(garth.ok(&["ls"]), "");
    garth.ok(&["export", "/", utf8(&garth.beside("all"))]);
    assert_eq!(std::fs::read_dir(garth.beside("all")).expect("it is there").count(), 0);
}
