//! Verbs that read.

use std::io::{BufRead, BufReader};

use serde_json::json;

use super::garth::{Garth, column, string};

pub(super) fn notes() -> Garth {
    let garth = Garth::new();
    garth.write("/notes/today.md", "buy milk\ncall Ada about the Harbour\n");
    garth.write("/notes/old/june.md", "june was warm\n");
    garth.write("/notes/.hidden", "x");
    garth.feed(&["write", "/notes/data.bin"], "bin\0ary Harbour\n");
    garth.ok(&["ln", "-s", "old/june.md", "/notes/link"]);
    garth
}

#[test]
fn ls_lists_all_names_in_byte_order() {
    let garth = notes();
    assert_eq!(garth.ok(&["ls", "/notes"]), ".hidden\ndata.bin\nlink\nold\ntoday.md\n");
    assert_eq!(garth.ok(&["ls"]), "notes\n");
    assert_eq!(garth.ok(&["ls", "/notes/today.md"]), "/notes/today.md\n");
    assert_eq!(garth.ok(&["ls", "-la", "/notes"]).lines().count(), 5);
    let long = garth.ok(&["ls", "-l", "/notes"]);
    assert!(long.lines().any(|line| line.starts_with("lrwxrwxrwx") && line.ends_with("link -> old/june.md")));
    assert!(long.lines().any(|line| line.starts_with("-rw-r--r--") && line.contains(" 36 ")), "{long}");
    assert_eq!(garth.ok(&["ls", "-F", "/notes"]), ".hidden\ndata.bin\nlink@\nold/\ntoday.md\n");
    let json = garth.lines(&["ls", "/notes"]);
    assert_eq!(column(&json, "name"), [".hidden", "data.bin", "link", "old", "today.md"]);
    assert_eq!(column(&json, "kind"), ["file", "file", "symlink", "directory", "file"]);
}

#[test]
fn ls_recurses_and_takes_several_paths() {
    let garth = notes();
    let deep = garth.ok(&["ls", "-R", "/"]);
    assert_eq!(
        deep,
        "/:\nnotes\n\n/notes:\n.hidden\ndata.bin\nlink\nold\ntoday.md\n\n/notes/old:\njune.md\n"
    );
    let output = garth.run(&["ls", "/nowhere", "/notes/old"], b"");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/notes/old:\njune.md\n");
}

#[test]
fn ls_follows_directory_links_except_with_l() {
    let garth = notes();
    garth.ok(&["ln", "-s", "notes/old", "/short"]);
    assert_eq!(garth.ok(&["ls", "/short"]), "june.md\n");
    assert!(garth.ok(&["ls", "-l", "/short"]).ends_with("/short -> notes/old\n"));
    assert_eq!(garth.ok(&["ls", "/short/../today.md"]), "/notes/today.md\n");
}

#[test]
fn tree_draws_a_subtree() {
    let garth = notes();
    let drawn = garth.ok(&["tree", "/notes"]);
    assert_eq!(
        drawn,
        "/notes\n├── .hidden\n├── data.bin\n├── link -> old/june.md\n├── old\n│   └── june.md\n└── today.md\n\
         \n1 directory, 5 files\n"
    );
    assert_eq!(garth.ok(&["tree", "-L", "1", "/"]), "/\n└── notes\n\n1 directory, 0 files\n");
    assert_eq!(garth.lines(&["tree", "/notes/old"]).len(), 2);
}

#[test]
fn cat_prints_bytes_and_json() {
    let garth = notes();
    assert_eq!(garth.ok(&["cat", "/notes/link"]), "june was warm\n");
    assert_eq!(garth.ok(&["cat", "/notes/link", "/notes/.hidden"]), "june was warm\nx");
    let json = garth.json(&["cat", "/notes/.hidden"]);
    assert_eq!((&json["content"], &json["encoding"]), (&json!("x"), &json!("utf-8")));
    garth.run(&["write", "/raw"], &[0xff, 0x00]);
    let json = garth.json(&["cat", "/raw"]);
    assert_eq!((&json["content"], &json["encoding"]), (&json!("/wA="), &json!("base64")));
    assert_eq!(garth.run(&["cat", "/raw"], b"").stdout, [0xff, 0x00]);
    assert!(garth.fails(1, &["cat", "/notes"]).contains("is a directory"));
}

#[test]
fn large_file_round_trips() {
    let garth = Garth::new();
    let content: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    assert!(content.len() > 2 << 20);
    garth.write("/long", &content);
    assert!(garth.ok(&["cat", "/long"]) == content);
    garth.feed(&["append", "/long"], &content);
    assert!(garth.ok(&["cat", "/long"]) == format!("{content}{content}"));
}

#[test]
fn stat_shows_all_names_of_a_file() {
    let garth = notes();
    garth.ok(&["ln", "/notes/today.md", "/today"]);
    let json = garth.json(&["stat", "/today"]);
    assert_eq!(json["names"], json!(["/today", "/notes/today.md"]));
    assert_eq!((&json["nlink"], &json["size"], &json["mode"]), (&json!(2), &json!(36), &json!("0644")));
    assert_eq!(garth.json(&["stat", "/notes/link"])["kind"], "symlink");
    assert_eq!(garth.json(&["stat", "-L", "/notes/link"])["kind"], "file");
    assert!(garth.ok(&["stat", "/today"]).contains("also  /notes/today.md"));
}

#[test]
fn rejects_content_too_long_for_json() {
    let garth = Garth::new();
    garth.run(&["write", "/long"], &vec![0; (64 << 20) + 1]);
    let said = garth.fails(6, &["cat", "/long", "--json"]);
    let json: serde_json::Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(json["error"]["path"], "/long");
    assert_eq!(garth.json(&["tail", "-c", "2", "/long"])["content"], "\0\0", "a part of it is not too long");
}

#[test]
fn du_counts_each_node_once() {
    let garth = Garth::new();
    garth.write("/d/a", "12345");
    garth.ok(&["ln", "/d/a", "/d/b"]);
    let json = garth.json(&["du", "/d"]);
    assert_eq!((&json["bytes"], &json["entries"], &json["files"]), (&json!(5), &json!(2), &json!(2)));
    assert!(garth.ok(&["du", "/d"]).contains("5 bytes"));
    assert_eq!(garth.lines(&["du", "/d/a", "/d/b"]).len(), 2);
}

#[test]
fn ls_sorts_by_time_and_size() {
    let garth = Garth::new();
    for (name, content) in [("b", "333"), ("a", "1"), ("c", "22")] {
        garth.write(&format!("/d/{name}"), content);
    }
    assert_eq!(garth.ok(&["ls", "-t", "/d"]), "c\na\nb\n");
    assert_eq!(garth.ok(&["ls", "-S", "/d"]), "b\nc\na\n");
    assert_eq!(garth.ok(&["ls", "-tr1A", "/d"]), "b\na\nc\n");
    assert_eq!(garth.ok(&["ls", "-r", "/d"]), "c\nb\na\n");
    assert_eq!(garth.ok(&["ls", "-S", "-t", "/d"]), "c\na\nb\n", "of two orders the last counts");
}

#[test]
fn ls_options_d_and_h_work() {
    let garth = Garth::new();
    garth.write("/d/a", &"x".repeat(1500));
    assert_eq!(garth.ok(&["ls", "-d", "/d"]), "/d\n");
    assert!(garth.ok(&["ls", "-lh", "/d"]).contains(" 1.5K "));
    assert!(garth.ok(&["ls", "-l", "/d"]).contains(" 1500 "));
    assert!(garth.ok(&["ls", "--help"]).contains("Usage: garth ls"));
    assert!(
        garth.ok(&["cat", "-h"]).contains("Usage: garth cat"),
        "-h is help where it has no other meaning"
    );
}

#[test]
fn ls_accepts_glob_patterns() {
    let garth = notes();
    assert_eq!(garth.ok(&["ls", "/notes/*.md"]), "/notes/today.md\n");
    assert_eq!(garth.ok(&["ls", "/no*/old"]), "/notes/old:\njune.md\n");
    garth.write("/notes/new/july.md", "");
    assert_eq!(
        garth.ok(&["ls", "/notes/old", "/notes/new"]),
        "/notes/old:\njune.md\n\n/notes/new:\njuly.md\n"
    );
    assert_eq!(garth.ok(&["ls", "/notes/[no]*"]), "/notes/new:\njuly.md\n\n/notes/old:\njune.md\n");
    assert!(garth.fails(3, &["ls", "/notes/*.txt"]).contains("/notes/*.txt: no such"));
    garth.write("/lit/*", "a name like any other");
    garth.write("/lit/b", "");
    assert_eq!(garth.ok(&["ls", "/lit/*"]), "/lit/*\n", "what is there goes before what matches");
}

#[test]
fn cat_numbers_lines_over_several_files() {
    let garth = notes();
    assert_eq!(
        garth.ok(&["cat", "-n", "/notes/.hidden", "/notes/today.md"]),
        "     1\tx     2\tbuy milk\n     3\tcall Ada about the Harbour\n"
    );
}

#[test]
fn head_and_tail_print_file_ends() {
    let garth = Garth::new();
    let lines: String = (1..=20_000).map(|number| format!("line {number}\n")).collect();
    garth.write("/log", &lines);
    assert_eq!(garth.ok(&["head", "-2", "/log"]), "line 1\nline 2\n");
    assert_eq!(garth.ok(&["head", "/log"]).lines().count(), 10);
    assert_eq!(garth.ok(&["head", "-c", "6", "/log"]), "line 1");
    garth.write("/short", "one\ntwo\nthree");
    assert_eq!(garth.ok(&["head", "-n", "-1", "/short"]), "one\ntwo\n");
    assert_eq!(garth.ok(&["head", "-n", "-2", "/short"]), "one\n");
    assert_eq!(garth.ok(&["head", "-n", "-9", "/short"]), "");
    assert_eq!(garth.ok(&["head", "-n", "-0", "/short"]), "one\ntwo\nthree");
    assert_eq!(garth.ok(&["head", "-c", "-6", "/short"]), "one\ntwo");
    assert_eq!(garth.ok(&["tail", "-n", "2", "/log"]), "line 19999\nline 20000\n");
    assert_eq!(garth.ok(&["tail", "-1", "/log"]), "line 20000\n");
    assert_eq!(garth.ok(&["tail", "-c", "3", "/log"]), "00\n");
    assert_eq!(garth.ok(&["tail", "-n", "+19999", "/log"]), "line 19999\nline 20000\n");
    assert!(
        garth.ok(&["tail", "-n", "20001", "/log"]) == lines && garth.ok(&["head", "-20001", "/log"]) == lines
    );
    assert_eq!(garth.ok(&["tail", "-n", "0", "/log"]), "");
    garth.write("/open", "one\ntwo");
    assert_eq!(garth.ok(&["tail", "-n1", "/open"]), "two", "the last line needs no end");
    assert_eq!(garth.ok(&["head", "-n1", "/log", "/open"]), "==> /log <==\nline 1\n\n==> /open <==\none\n");
    let json = garth.json(&["tail", "-n1", "/open"]);
    assert_eq!((&json["offset"], &json["content"], &json["size"]), (&json!(4), &json!("two"), &json!(7)));
    garth.write("/log", "new\n");
    assert_eq!(garth.ok(&["tail", "-n1", "/log", "--at", "1"]), "line 20000\n");
    assert!(garth.fails(1, &["head", "/"]).contains("`garth ls` lists it"));
}

#[test]
fn tail_follows_appends_and_truncation() {
    let garth = Garth::new();
    garth.write("/log", "one\ntwo\n");
    let mut child = garth.command(&["tail", "-n1", "-f", "/log"]).spawn().expect("garth starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "two");
    garth.feed(&["append", "/log"], "three\n");
    assert_eq!(next(), "three");
    garth.ok(&["mv", "/log", "/moved"]);
    garth.feed(&["append", "/moved"], "four\n");
    assert_eq!(next(), "four");
    garth.write("/moved", "new\n");
    assert_eq!(next(), "new");
    child.kill().expect("stopped");
    child.wait().expect("garth ends");
    garth.fails(2, &["tail", "-f", "/a", "/b"]);
}

#[test]
fn errors_name_the_path_as_written() {
    let garth = notes();
    garth.ok(&["ln", "-s", "/notes", "/n"]);
    for verb in ["ls", "cat", "stat", "tail", "du", "find", "log"] {
        let said = garth.fails(3, &[verb, "/n/none"]);
        assert_eq!(said, "garth: /n/none: no such file or directory (at /notes/none)\n", "{verb}");
    }
    assert_eq!(garth.fails(1, &["cat", "/notes/today.md/x"]), "garth: /notes/today.md: not a directory\n");
    assert_eq!(garth.fails(1, &["cat", "/notes"]), "garth: /notes: is a directory; `garth ls` lists it\n");
}

#[test]
fn du_limits_depth() {
    let garth = Garth::new();
    garth.write("/d/a/b/file", &"x".repeat(2048));
    garth.write("/d/c/file", "1");
    let lines = garth.lines(&["du", "-d", "1", "/d"]);
    assert_eq!(column(&lines, "path"), ["/d/a", "/d/c", "/d"], "each directory after what is in it");
    assert_eq!(
        lines.iter().map(|line| line["bytes"].as_u64()).collect::<Vec<_>>(),
        [Some(2048), Some(1), Some(2049)]
    );
    assert_eq!(lines[2]["entries"], json!(5));
    assert!(garth.ok(&["du", "-sh", "/d/a"]).starts_with(" 2.0K  "));
}

#[test]
fn every_read_command_reports_missing_paths() {
    let garth = notes();
    for verb in ["ls", "tree", "cat", "head", "tail", "stat", "log", "diff", "du", "find"] {
        let said = garth.fails(3, &[verb, "/notes/none"]);
        assert!(said.starts_with("garth: /notes/none: "), "{verb}: {said}");
    }
    garth.fails(3, &["grep", "x", "/notes/none"]);
    garth.fails(3, &["export", "/notes/none", "-"]);
    garth.fails(3, &["restore", "/notes/none", "--at", "1"]);
    garth.fails(3, &["kv", "get", "/none"]);
    garth.fails(3, &["cat", "--version", "ver_ffff-1"]);
    garth.fails(2, &["cat", "--version", "1"]);
}

#[test]
fn names_cannot_control_the_terminal() {
    let garth = Garth::new();
    garth.write("/a\u{1b}[2J\nb", "x");
    assert_eq!(garth.ok(&["ls", "/"]), "a\\u{1b}[2J\\nb\n");
    assert_eq!(string(&garth.lines(&["ls", "/"])[0]["name"]), "a\u{1b}[2J\nb");
}
