//! Changes: log, show, diff.

use serde_json::json;

use super::garth::{Garth, column, string};
use super::past::twice;

#[test]
fn log_follows_a_path_through_removal() {
    let (garth, first, second) = twice();
    garth.ok(&["rm", "/notes/plan.md", "-m", "done with it"]);
    let third = garth.write("/notes/plan.md", "again");
    let versions = garth.lines(&["log", "/notes/plan.md"]);
    let ids = column(&versions, "version");
    assert_eq!((&ids[0], &ids[2], &ids[3]), (&third, &second, &first));
    assert_eq!(versions[1]["deleted"], json!(true));
    assert_eq!(versions[3]["size"], json!(8));
    let text = garth.ok(&["log", "/notes/plan.md"]);
    assert!(text.lines().nth(1).is_some_and(|line| line.contains("deleted  done with it")), "{text}");
    assert_eq!(garth.lines(&["log", "/notes/plan.md", "-n", "2"]).len(), 2);
    assert_eq!(garth.ok(&["cat", "--version", &first]), "one\ntwo\n");
    assert_eq!(garth.ok(&["cat", "/notes/plan.md", "--version", &first]), "one\ntwo\n");
    garth.write("/other", "x");
    garth.fails(3, &["cat", "/other", "--version", &first]);
    let moved = garth.ok(&["mv", "/notes/plan.md", "/moved"]);
    assert!(moved.ends_with("/moved\n"));
    assert!(
        column(&garth.lines(&["log", "/moved"]), "version").contains(&third),
        "a moved file brings its past"
    );
}

#[test]
fn log_of_root_shows_commits() {
    let garth = Garth::new();
    for number in 0..5 {
        garth.write("/a", &number.to_string());
    }
    garth.ok(&["mv", "/a", "/b"]);
    garth.ok(&["snapshot", "create", "here"]);
    let commits = garth.lines(&["log"]);
    assert_eq!(
        commits.iter().map(|commit| commit["seq"].as_u64()).collect::<Vec<_>>(),
        [Some(7), Some(6), Some(5), Some(4), Some(3), Some(2), Some(1)]
    );
    assert_eq!(commits[1]["changes"][0]["from"], "/a");
    assert_eq!(commits[0]["changes"][0]["name"], "here");
    assert_eq!(garth.lines(&["log", "-n", "3"]).len(), 3);
    let text = garth.ok(&["log", "-n", "2"]);
    assert!(text.contains("renamed     /a -> /b") && text.contains("snapshot    here"), "{text}");
}

#[test]
fn diff_shows_changed_lines() {
    let (garth, first, _) = twice();
    let diff = garth.ok(&["diff", "/notes/plan.md"]);
    assert!(diff.starts_with("--- /notes/plan.md at 1\n+++ /notes/plan.md at 2\n"), "{diff}");
    assert!(diff.contains("\n-two\n+three\n"), "{diff}");
    assert_eq!(garth.ok(&["diff", "/notes/plan.md", "--at", &first]), diff);
    assert_eq!(garth.ok(&["diff", "/notes/plan.md", "--from", "2"]), "");
    let json = garth.json(&["diff", "/notes/plan.md", "--from", "0", "--to", "1"]);
    assert!(string(&json["diff"]).starts_with("--- /dev/null\n"));
    garth.ok(&["rm", "/notes/plan.md"]);
    assert!(garth.ok(&["diff", "/notes/plan.md"]).contains("-three"));
    garth.run(&["write", "/bin"], &[0, 1]);
    garth.run(&["write", "/bin"], &[0, 2]);
    assert_eq!(garth.ok(&["diff", "/bin"]), "binary files differ: /bin\n");
    assert_eq!(garth.json(&["diff", "/bin"])["binary"], json!(true));
}

#[test]
fn diff_lists_changes_in_a_directory() {
    let garth = Garth::new();
    for path in ["/d/same", "/d/changed", "/d/sub/gone", "/d/rewritten", "/d-2/else"] {
        garth.write(path, "1");
    }
    let seq = garth.seq().to_string();
    garth.write("/d/changed", "2");
    garth.write("/d/rewritten", "1");
    garth.ok(&["rm", "/d/sub/gone"]);
    garth.write("/d/sub/new", "1");
    garth.write("/d-2/else", "2");
    assert_eq!(
        garth.ok(&["diff", "--name-status", "/d", "--from", &seq]),
        "M  /d/changed\nD  /d/sub/gone\nA  /d/sub/new\n"
    );
    let changes = garth.lines(&["diff", "/d", "--from", &seq]);
    assert_eq!(column(&changes, "change"), ["changed", "removed", "added"]);
    assert_eq!(garth.ok(&["diff", "--name-status", "/", "--from", &seq]).lines().count(), 4);
}

#[test]
fn log_of_directory_shows_commits_below() {
    let garth = Garth::new();
    garth.write("/d/sub/a", "1");
    garth.write("/d-2/else", "1");
    garth.write("/d/sub/a", "2");
    garth.ok(&["mv", "/d/sub/a", "/out"]);
    garth.write("/d-2/else", "2");
    garth.ok(&["rm", "-r", "/d"]);
    let seqs = |args: &[&str]| -> Vec<u64> {
        garth.lines(args).iter().map(|commit| commit["seq"].as_u64().expect("a sequence")).collect()
    };
    assert_eq!(seqs(&["log", "/d"]), [6, 4, 3, 1], "also of one that is gone");
    assert_eq!(seqs(&["log", "/d/sub"]), [6, 4, 3, 1], "a removal above it removed it, too");
    assert_eq!(seqs(&["log", "/d", "-n", "1"]), [6]);
    assert_eq!(seqs(&["log", "/d", "--at", "5"]), [4, 3, 1]);
    assert_eq!(seqs(&["log", "-2"]), [6, 5]);
    assert_eq!(garth.ok(&["log", "--oneline", "/d"]).lines().count(), 4);
    let first = &garth.lines(&["log", "/d/sub"])[3];
    assert!(first["changes"].as_array().is_some_and(|changes| changes.len() == 2), "{first}");
    let gone = garth.ok(&["log", "/d/sub", "-n1"]);
    assert!(gone.starts_with("6 ") && gone.contains("removed     /d/sub"), "{gone}");
    let moved = garth.ok(&["log", "/d", "--at", "4", "-n1"]);
    assert!(moved.starts_with("4 ") && moved.contains("removed     /d/sub/a"), "{moved}");
}

#[test]
fn log_since_ends_at_a_time() {
    let (garth, first, second) = twice();
    garth.ok(&["snapshot", "create", "here"]);
    let third = garth.write("/notes/plan.md", "later");
    let ids = |since: &str| column(&garth.lines(&["log", "/notes/plan.md", "--since", since]), "version");
    assert_eq!(ids("1"), [third.as_str(), &second]);
    assert_eq!(ids(&first), [third.as_str(), &second]);
    assert_eq!(ids("here"), [third.as_str()]);
    assert_eq!(ids("1h"), [third.as_str(), &second, &first]);
    assert_eq!(garth.lines(&["log", "--since", "2"]).len(), 2);
    assert_eq!(garth.ok(&["log", "--since", "now"]), "");
    let text = garth.ok(&["log", "/notes/plan.md"]);
    assert!(text.starts_with(&format!("4       {third} ")), "sequence and version begin the line: {text}");
}

#[test]
fn long_log_is_shown_completely() {
    let garth = Garth::new();
    for number in 0..40 {
        garth.write(if number % 2 == 0 { "/even/a" } else { "/odd/a" }, &number.to_string());
    }
    assert_eq!(garth.lines(&["log"]).len(), 40);
    assert_eq!(garth.lines(&["log", "/odd"]).len(), 20);
    assert_eq!(garth.lines(&["log", "/odd/a"]).len(), 20);
}

#[test]
fn show_prints_changes_of_a_commit() {
    let (garth, _, second) = twice();
    garth.write("/other", "x\n");
    let shown = garth.ok(&["show", "2"]);
    assert!(shown.starts_with("2 ") && shown.contains("modified    /notes/plan.md"), "{shown}");
    assert!(shown.contains("--- /notes/plan.md at 1\n+++ /notes/plan.md at 2\n"), "{shown}");
    assert!(shown.contains("\n-two\n+three\n"), "{shown}");
    assert_eq!(garth.ok(&["show", &second]), shown);
    assert!(garth.ok(&["show"]).contains("+++ /other at 3"), "the last commit by default");
    garth.ok(&["mv", "/other", "/moved", "-m", "out of the way"]);
    let moved = garth.ok(&["show"]);
    assert!(moved.contains("out of the way") && moved.contains("renamed     /other -> /moved"), "{moved}");
    garth.ok(&["rm", "/moved"]);
    assert!(garth.ok(&["show"]).contains("\n-x\n"));
    assert!(!garth.ok(&["show", "2", "--name-status"]).contains("three"));
    let lines = garth.lines(&["show", "1"]);
    assert_eq!((&lines[0]["seq"], &lines[1]["change"]), (&json!(1), &json!("added")));
    assert_eq!(lines.len(), 2, "directories have no content");
    assert!(!garth.ok(&["show", "2", "/elsewhere"]).contains("three"));
    for none in ["0", "99", "nothing"] {
        garth.fails(3, &["show", none]);
    }
}

#[test]
fn diff_compares_two_paths() {
    let garth = Garth::new();
    for (path, content) in [
        ("/a/same", "1\n"),
        ("/b/same", "1\n"),
        ("/a/text", "one\n"),
        ("/b/text", "two\n"),
        ("/b/new/x", "x\n"),
    ] {
        garth.write(path, content);
    }
    let diff = garth.ok(&["diff", "-ru", "/a", "/b"]);
    assert_eq!(
        diff,
        "directory added: /b/new\n--- /a/text at 5\n+++ /b/text at 5\n@@ -1 +1 @@\n-one\n+two\n\
         --- /dev/null\n+++ /b/new/x at 5\n@@ -0,0 +1 @@\n+x\n"
    );
    assert!(garth.ok(&["diff", "/a/text", "/b/text"]).ends_with("-one\n+two\n"));
    assert_eq!(garth.ok(&["diff", "/a/same", "/b/same", "--exit-code"]), "");
    assert_eq!(garth.run(&["diff", "/a", "/b", "--exit-code"], b"").status.code(), Some(1));
    let json = garth.json(&["diff", "/a/text", "/b/text", "--stat"]);
    assert_eq!(
        (&json["added"], &json["removed"], &json["from_path"]),
        (&json!(1), &json!(1), &json!("/a/text"))
    );
    assert_eq!(garth.ok(&["diff", "--stat", "/a/text", "/b/text"]), "     1 +      1 -  /b/text\n");
    garth.write("/b/text", "three\n");
    assert!(garth.ok(&["diff", "/b/text", "/b/text", "--from", "5"]).contains("-two\n+three"));
    assert!(
        garth.ok(&["diff", "/a/text", "/b/text", "--at", "5"]).contains("+two"),
        "--at is the moment of both"
    );
    garth.write("/lines", &"\n".repeat(500_001));
    assert_eq!(
        garth.ok(&["diff", "/a/text", "/lines"]),
        "files too long to compare by line differ: /lines\n"
    );
    assert!(garth.fails(2, &["diff", "/a", "/b", "-U", "many"]).contains("not an integer"));
    assert!(garth.fails(3, &["diff", "/a/text", "/none"]).starts_with("garth: /none: "));
}

#[test]
fn diff_of_directory_starts_before_last_change() {
    let garth = Garth::new();
    garth.write("/d/a", "1\n");
    garth.write("/d/a", "2\n");
    garth.write("/e", "1\n");
    assert!(garth.ok(&["diff", "/d"]).contains("-1\n+2\n"));
    assert!(garth.ok(&["diff", "/"]).contains("+++ /e at 3"));
    garth.ok(&["rm", "-r", "/d"]);
    assert_eq!(garth.ok(&["diff", "/d", "--name-status"]), "D  /d\nD  /d/a\n");
}

#[test]
fn diff_names_changes_without_lines() {
    let garth = Garth::new();
    garth.write("/d/f", "x");
    garth.ok(&["ln", "-s", "f", "/d/l"]);
    let seq = garth.seq().to_string();
    garth.feed(&["write", "/d/f", "--tag", "t"], "x");
    garth.ok(&["rm", "/d/l"]);
    garth.ok(&["ln", "-s", "g", "/d/l"]);
    garth.write("/d/empty", "");
    let diff = garth.ok(&["diff", "/d", "--from", &seq]);
    assert!(
        diff.contains("empty file added: /d/empty\n") && diff.contains("attributes changed: /d/f\n"),
        "{diff}"
    );
    assert!(diff.contains("target changed: /d/l\n") && diff.contains("-f\n+g\n"), "{diff}");
}

#[test]
fn blame_names_commits_of_bytes_after_merging() {
    let (garth, ..) = twice();
    garth.ok(&["write", "/log", "-m", "begun"]);
    for agent in ["ada", "bob"] {
        garth.feed(&["append", "/log", "--agent", agent, "-m", "more"], "line\n");
    }
    let shown = || {
        let runs = garth.lines(&["blame", "/log"]);
        let who = |run: &serde_json::Value| (run["offset"].clone(), run["commit"]["author"]["agent"].clone());
        runs.iter().map(who).collect::<Vec<_>>()
    };
    let expected = [(json!(0), json!("ada")), (json!(5), json!("bob"))];
    assert_eq!(shown(), expected);
    garth.ok(&["gc"]);
    assert_eq!(shown(), expected);
    let text = garth.ok(&["blame", "/log"]);
    assert!(
        text.lines().nth(1).is_some_and(|line| line.contains("5..10") && line.ends_with("bob  more")),
        "{text}"
    );
    garth.fails(1, &["blame", "/notes"]);
}

#[test]
fn log_shows_patches_of_files_and_directories() {
    let garth = Garth::new();
    garth.ok(&["write", "-p", "/d/a", "one"]);
    garth.ok(&["write", "/d/a", "two"]);
    garth.ok(&["mv", "/d/a", "/d/b"]);
    garth.ok(&["append", "/d/b", "three"]);
    let file = garth.ok(&["log", "-p", "/d/b"]);
    for part in ["\n-one\n+two\n", "\n+one\n", " two\n+three\n"] {
        assert!(file.contains(part), "{part} is not in\n{file}");
    }
    let dir = garth.ok(&["log", "--patch", "-2", "/d"]);
    assert!(dir.contains("+three") && !dir.contains("+two"), "{dir}");
    let json = garth.lines(&["log", "-p", "/d/b", "-n", "1"]);
    assert_eq!((json.len(), &json[1]["change"]), (2, &serde_json::json!("changed")));
    assert!(garth.ok(&["log", "--stat", "/d", "-n", "1"]).contains("     1 +      0 -  /d/b"));
}

#[test]
fn log_selects_commits_by_author_and_message() {
    let garth = Garth::new();
    garth.ok(&["write", "/a", "one", "--agent", "scout", "-m", "Clean up"]);
    garth.ok(&["write", "/a", "two", "--agent", "coder", "-m", "other"]);
    garth.ok(&["write", "/b", "three", "--agent", "coder"]);
    let count = |args: &[&str]| garth.lines(&[&["log"], args].concat()).len();
    assert_eq!(count(&["--author", "scout"]), 1);
    assert_eq!(count(&["--author", "CODER"]), 2);
    assert_eq!(count(&["--grep", "clean"]), 1);
    assert_eq!(count(&["/a", "--author", "coder"]), 1);
    assert_eq!(count(&["--author", "coder", "--grep", "clean"]), 0);
    assert_eq!(count(&["/a", "--grep", "clean", "-n", "1"]), 1, "the limit counts what is shown");
}
