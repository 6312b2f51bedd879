//! Verbs that read.

use serde_json::json;

use super::garth::{Garth, column, string};

fn notes() -> Garth {
    let garth = Garth::new();
    garth.write("/notes/today.md", "buy milk\ncall Ada about the Harbour\n");
    garth.write("/notes/old/june.md", "june was warm\n");
    garth.write("/notes/.hidden", "x");
    garth.feed(&["write", "/notes/data.bin"], "bin\0ary Harbour\n");
    garth.ok(&["ln", "-s", "old/june.md", "/notes/link"]);
    garth
}

#[test]
fn ls_lists_names_in_byte_order_dots_included() {
    let garth = notes();
    assert_eq!(garth.ok(&["ls", "/notes"]), ".hidden\ndata.bin\nlink\nold\ntoday.md\n");
    assert_eq!(garth.ok(&["ls"]), "notes\n");
    assert_eq!(garth.ok(&["ls", "/notes/today.md"]), "/notes/today.md\n");
    assert_eq!(garth.ok(&["ls", "-la", "/notes"]).lines().count(), 5);
    let long = garth.ok(&["ls", "-l", "/notes"]);
    assert!(long.lines().any(|line| line.starts_with("lrwxrwxrwx") && line.ends_with("link -> old/june.md")));
    assert!(long.lines().any(|line| line.starts_with("-rw-r--r--") && line.contains(" 36 ")), "{long}");
    let json = garth.lines(&["ls", "/notes"]);
    assert_eq!(column(&json, "name"), [".hidden", "data.bin", "link", "old", "today.md"]);
    assert_eq!(column(&json, "kind"), ["file", "file", "symlink", "directory", "file"]);
}

#[test]
fn ls_goes_down_and_takes_several_paths() {
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
fn ls_follows_a_link_to_a_directory_but_not_with_l() {
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
fn cat_prints_bytes_and_json_carries_any_content() {
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
fn a_file_of_several_megabytes_comes_back_as_it_was() {
    let garth = Garth::new();
    let content: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    assert!(content.len() > 2 << 20);
    garth.write("/long", &content);
    assert!(garth.ok(&["cat", "/long"]) == content);
    garth.feed(&["append", "/long"], &content);
    assert!(garth.ok(&["cat", "/long"]) == format!("{content}{content}"));
}

#[test]
fn stat_shows_all_names_of_a_node() {
    let garth = notes();
    garth.ok(&["ln", "/notes/today.md", "/today"]);
    let json = garth.json(&["stat", "/today"]);
    assert_eq!(json["names"], json!(["/notes/today.md", "/today"]));
    assert_eq!((&json["nlink"], &json["size"], &json["mode"]), (&json!(2), &json!(36), &json!("0644")));
    assert_eq!(garth.json(&["stat", "/notes/link"])["kind"], "symlink");
    assert_eq!(garth.json(&["stat", "-L", "/notes/link"])["kind"], "file");
    assert!(garth.ok(&["stat", "/today"]).contains("also  /notes/today.md"));
}

#[test]
fn du_counts_each_node_once() {
    let garth = Garth::new();
    garth.write("/d/a", "12345");
    garth.ok(&["ln", "/d/a", "/d/b"]);
    let json = garth.json(&["du", "/d"]);
    assert_eq!((&json["bytes"], &json["entries"], &json["files"]), (&json!(5), &json!(3), &json!(2)));
    assert!(garth.ok(&["du", "/d"]).contains("5 bytes"));
    assert_eq!(garth.lines(&["du", "/d/a", "/d/b"]).len(), 2);
}

#[test]
fn glob_stars_stay_inside_a_name_and_two_cross() {
    let garth = notes();
    assert_eq!(garth.ok(&["glob", "/notes/*.md"]), "/notes/today.md\n");
    assert_eq!(garth.ok(&["glob", "/**/*.md"]), "/notes/today.md\n/notes/old/june.md\n");
    assert_eq!(garth.ok(&["glob", "-t", "dir", "/**"]), "/notes\n/notes/old\n");
    assert_eq!(garth.ok(&["glob", "/notes/today.md"]), "/notes/today.md\n");
    assert_eq!(garth.ok(&["glob", "/nowhere/*"]), "");
    assert_eq!(column(&garth.lines(&["glob", "/notes/{old,none}"]), "kind"), ["directory"]);
    garth.write("/lit/a_b%c", "");
    garth.write("/lit/aXbYc", "");
    assert_eq!(garth.ok(&["glob", "/lit/a_b%c"]), "/lit/a_b%c\n");
    garth.fails(2, &["glob", "notes/*"]);
    garth.fails(2, &["glob", "/["]);
}

#[test]
fn grep_finds_lines_and_names_binary_files() {
    let garth = notes();
    let found = garth.ok(&["grep", "harbour", "-i"]);
    assert_eq!(found, "binary file matches: /notes/data.bin\n/notes/today.md:call Ada about the Harbour\n");
    assert_eq!(garth.ok(&["grep", "-n", "^call", "/notes/today.md"]), "2:call Ada about the Harbour\n");
    assert_eq!(garth.ok(&["grep", "-l", "warm|milk"]), "/notes/today.md\n/notes/old/june.md\n");
    let json = garth.lines(&["grep", "milk"]);
    assert_eq!(json, [json!({"path": "/notes/today.md", "line": 1, "text": "buy milk"})]);
    assert_eq!(garth.fails(1, &["grep", "nothing has this"]), "", "no match is told by the exit code alone");
    garth.fails(2, &["grep", "("]);
}

#[test]
fn search_finds_by_words_below_a_path_and_by_label() {
    let garth = notes();
    garth.feed(&["write", "-p", "/notes-2/far.md", "--tag", "trip"], "The harbour at night.\n");
    let hits = garth.lines(&["search", "harbour"]);
    let mut paths = column(&hits, "path");
    paths.sort();
    assert_eq!(paths, ["/notes-2/far.md", "/notes/today.md"]);
    assert!(hits.iter().all(|hit| hit["score"].as_f64().is_some_and(|score| score > 0.0 && score < 1.0)));
    assert_eq!(column(&garth.lines(&["search", "harbour", "--in", "/notes"]), "path"), ["/notes/today.md"]);
    assert_eq!(column(&garth.lines(&["search", "harbour", "--tag", "trip"]), "path"), ["/notes-2/far.md"]);
    assert_eq!(garth.lines(&["search", "harbour", "--limit", "1"]).len(), 1);
    assert!(garth.ok(&["search", "harbour", "--in", "/notes"]).starts_with("/notes/today.md:1"));
    garth.fails(3, &["search", "harbour", "--in", "/nowhere"]);
    garth.fails(2, &["search", "harbour", "--limit", "0"]);
    garth.feed(&["write", "/quiet.md", "--searchable", "false"], "harbour");
    assert_eq!(garth.lines(&["search", "harbour"]).len(), 2);
}

#[test]
fn every_verb_that_reads_says_what_is_not_there() {
    let garth = notes();
    for verb in ["ls", "tree", "cat", "stat", "log", "diff", "du"] {
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
fn names_cannot_steer_the_terminal() {
    let garth = Garth::new();
    garth.write("/a\u{1b}[2J\nb", "x");
    assert_eq!(garth.ok(&["ls", "/"]), "a\\u{1b}[2J\\nb\n");
    assert_eq!(string(&garth.lines(&["ls", "/"])[0]["name"]), "a\u{1b}[2J\nb");
}
