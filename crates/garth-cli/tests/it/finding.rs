//! Verbs that find: find, glob, grep, search, recall.

use serde_json::json;

use super::garth::{Garth, column};
use super::reading::notes;

#[test]
fn glob_double_star_crosses_directories() {
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
    assert!(garth.fails(2, &["glob", ""]).starts_with("garth: a pattern must begin with `/`"));
    garth.fails(2, &["glob", "/["]);
}

#[test]
fn grep_finds_lines_and_reports_binary_files() {
    let garth = notes();
    let found = garth.ok(&["grep", "harbour", "-i"]);
    assert_eq!(found, "binary file matches: /notes/data.bin\n/notes/today.md:call Ada about the Harbour\n");
    assert_eq!(garth.ok(&["grep", "-rIi", "harbour"]), "/notes/today.md:call Ada about the Harbour\n");
    assert_eq!(garth.ok(&["grep", "-n", "^call", "/notes/today.md"]), "2:call Ada about the Harbour\n");
    assert_eq!(garth.ok(&["grep", "-l", "warm|milk"]), "/notes/today.md\n/notes/old/june.md\n");
    let json = garth.lines(&["grep", "milk"]);
    assert_eq!(json, [json!({"path": "/notes/today.md", "line": 1, "text": "buy milk"})]);
    assert_eq!(garth.fails(1, &["grep", "nothing has this"]), "", "no match is told by the exit code alone");
}

#[test]
fn search_filters_by_path_and_tag() {
    let garth = notes();
    garth.feed(&["write", "-p", "/notes-2/far.md", "--tag", "trip"], "The harbour at night.\n");
    let hits = garth.lines(&["search", "harbour"]);
    let mut paths = column(&hits, "path");
    paths.sort();
    assert_eq!(paths, ["/notes-2/far.md", "/notes/today.md"]);
    assert!(hits.iter().all(|hit| hit["score"].as_f64().is_some_and(|score| score > 0.0 && score <= 1.0)));
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
fn search_filters_by_metadata_pattern_and_time() {
    let garth = notes();
    let text = format!("one harbour\n{}the other harbour\nlast\n", "filler words\n".repeat(400));
    garth.feed(&["write", "-p", "/far/long.txt"], &text);
    garth.ok(&["set", "/far/long.txt", "--meta", "place=Ceuta"]);
    let paths = |more: &[&str]| column(&garth.lines(&[&["search", "harbour"], more].concat()), "path");
    assert_eq!(paths(&["--meta", "place=Ceuta"]), ["/far/long.txt"]);
    assert!(paths(&["--meta", "place=Oran"]).is_empty());
    assert_eq!(paths(&["--glob", "/**/*.md"]), ["/notes/today.md"]);
    assert_eq!(paths(&["--glob", "/far/*", "--per-file", "5"]), ["/far/long.txt"; 2]);
    assert_eq!(paths(&["--since", "1h"]).len(), 2);
    assert!(paths(&["--until", "1h"]).is_empty());
    let other = ["search", "other harbour", "--in", "/far", "-C", "1"];
    assert!(
        garth.ok(&other).ends_with("\n    401- filler words\n    402: the other harbour\n    403- last\n")
    );
    let hit = &garth.lines(&other)[0];
    assert_eq!(hit["context"]["lines"], json!({"start": 401, "end": 404}));
    assert_eq!((&hit["context"]["best"], &hit["parts"]["words"]), (&json!(402), &hit["score"]));
    garth.fails(2, &["search", "harbour", "--per-file", "21"]);
    garth.fails(2, &["search", "harbour", "--glob", "/a//b"]);
    garth.fails(3, &["search", "harbour", "--since", "no such snapshot"]);
}

#[test]
fn glob_and_find_stop_at_pattern_depth() {
    let garth = notes();
    garth.ok(&["ln", "-s", "/notes", "/l"]);
    assert_eq!(garth.ok(&["glob", "/*/old/*"]), "/notes/old/june.md\n");
    assert_eq!(garth.ok(&["glob", "/n*/"]), "/notes\n");
    assert_eq!(garth.ok(&["glob", "/l/*.md"]), "/notes/today.md\n", "links in the fixed part are followed");
    assert_eq!(garth.ok(&["glob", "/notes/today.md/*"]), "");
    assert_eq!(garth.ok(&["glob", "/{notes/old,none}/*.md"]), "/notes/old/june.md\n");
}

#[test]
fn find_accepts_options_of_unix_find() {
    let garth = notes();
    assert_eq!(garth.ok(&["find", "/notes", "-name", "*.md"]), "/notes/old/june.md\n/notes/today.md\n");
    assert_eq!(garth.ok(&["find", "/", "-type", "d"]), "/\n/notes\n/notes/old\n");
    assert_eq!(garth.ok(&["find", "-type", "f,l", "-maxdepth", "2", "-iname", "L*"]), "/notes/link\n");
    assert_eq!(garth.ok(&["find", "/notes", "--path", "*/old/*"]), "/notes/old/june.md\n");
    assert_eq!(garth.ok(&["find", "/notes", "-size", "+20"]), "/notes/today.md\n");
    assert_eq!(garth.ok(&["find", "/notes", "-size", "1c"]), "/notes/.hidden\n");
    assert_eq!(garth.ok(&["find", "/notes", "-mindepth", "2"]), "/notes/old/june.md\n");
    assert_eq!(garth.ok(&["find", "/notes/old", "-print0"]), "/notes/old\0/notes/old/june.md\0");
    assert_eq!(garth.ok(&["find", "/notes", "-empty"]), "");
    assert_eq!(column(&garth.lines(&["find", "/notes/.hidden"]), "kind"), ["file"]);
    garth.fails(2, &["find", "/", "-size", "+x"]);
    garth.fails(2, &["find", "/", "-name", "["]);
    assert!(garth.fails(2, &["find", "/", "-name", "old/*"]).contains("--path"));
}

#[test]
fn find_compares_times() {
    let garth = Garth::new();
    garth.write("/old", "");
    let seq = garth.seq().to_string();
    garth.write("/new", "");
    assert_eq!(garth.ok(&["find", "-type", "f", "-newermt", "2001-02-03"]), "/new\n/old\n");
    assert!(garth.fails(2, &["find", "/", "-delete"]).contains("`--delete`"));
    for newer in ["/old", &seq] {
        assert_eq!(garth.ok(&["find", "-type", "f", "-newer", newer]), "/new\n");
    }
    assert_eq!(garth.ok(&["find", "-type", "f", "-newer", "1h"]), "/new\n/old\n");
    assert_eq!(garth.ok(&["find", "-type", "f", "-mtime", "-1"]), "/new\n/old\n");
    assert_eq!(garth.ok(&["find", "-type", "f", "-mmin", "+5"]), "");
    assert_eq!(garth.ok(&["find", "-empty"]), "/new\n/old\n");
}

fn poem() -> Garth {
    let garth = Garth::new();
    garth.write("/p/poem.txt", "one\ntwo cat\nthree\nfour\nfive catalogue\nsix\n");
    garth.write("/p/other.md", "a cat, a cat\n");
    garth
}

#[test]
fn grep_selects_like_unix_grep() {
    let garth = poem();
    let poem = "/p/poem.txt";
    assert_eq!(garth.ok(&["grep", "-r", "-c", "cat", "/p"]), "/p/other.md:1\n/p/poem.txt:2\n");
    assert_eq!(garth.ok(&["grep", "-w", "cat", poem]), "two cat\n");
    assert_eq!(garth.ok(&["grep", "-x", "one|t", poem]), "one\n");
    assert_eq!(garth.ok(&["grep", "-vn", "o", poem]), "3:three\n6:six\n");
    assert_eq!(garth.ok(&["grep", "-o", "c.t", "/p/other.md"]), "cat\ncat\n");
    assert_eq!(garth.ok(&["grep", "-F", "cat, a", "/p/other.md"]), "a cat, a cat\n");
    assert_eq!(garth.ok(&["grep", "-L", "three", "/p"]), "/p/other.md\n");
    // As in GNU grep, the exit code tells whether a line matched, not whether a file is listed.
    let none = garth.run(&["grep", "-L", "nowhere", "/p/other.md"], b"");
    assert_eq!((none.status.code(), &none.stdout[..]), (Some(1), &b"/p/other.md\n"[..]));
    assert_eq!(garth.ok(&["grep", "-L", "three", poem]), "");
    assert_eq!(garth.ok(&["grep", "-e", "six", "-e", "one", poem]), "one\nsix\n");
    assert_eq!(garth.ok(&["grep", "-m1", "cat", poem]), "two cat\n");
    assert_eq!(garth.ok(&["grep", "-h", "cat,", "/p", "/p/other.md"]), "a cat, a cat\na cat, a cat\n");
    assert_eq!(garth.ok(&["grep", "-H", "six", poem]), "/p/poem.txt:six\n");
    assert_eq!(garth.ok(&["grep", "-l", "cat", "/p", "--include", "*.md"]), "/p/other.md\n");
    assert_eq!(garth.ok(&["grep", "-l", "cat", "/p", "--exclude", "*.md"]), "/p/poem.txt\n");
    assert_eq!(garth.lines(&["grep", "-c", "cat", poem]), [json!({"path": poem, "count": 2})]);
}

#[test]
fn grep_prints_context_lines_once() {
    let garth = poem();
    let poem = "/p/poem.txt";
    assert_eq!(garth.ok(&["grep", "-n", "-A1", "two", poem]), "2:two cat\n3-three\n");
    assert_eq!(
        garth.ok(&["grep", "-n", "-B1", "cat", poem]),
        "1-one\n2:two cat\n--\n4-four\n5:five catalogue\n"
    );
    assert_eq!(garth.ok(&["grep", "-C2", "cat", poem]).lines().count(), 6);
    let json = garth.lines(&["grep", "-B1", "two", poem]);
    assert_eq!(json[0], json!({"path": poem, "line": 1, "text": "one", "context": true}));
}

#[test]
fn grep_exit_code_matches_unix_grep() {
    let garth = poem();
    assert_eq!(garth.ok(&["grep", "-q", "cat", "/p"]), "");
    assert_eq!(garth.fails(1, &["grep", "-q", "dog", "/p"]), "");
    assert_eq!(garth.ok(&["grep", "-q", "cat", "/p", "/none"]), "", "a match before the error is enough");
    let output = garth.run(&["grep", "cat", "/none", "/p/other.md"], b"");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/p/other.md:a cat, a cat\n");
    garth.fails(2, &["grep", "x", "/p/poem.txt/below"]);
    let said = garth.fails(2, &["grep", "("]);
    assert_eq!(said, "garth: (: not a regular expression: unclosed group; -F searches for it as text\n");
    garth.fails(2, &["grep", "-e", "a)|(b"]);
}

#[test]
fn search_at_names_grep_instead() {
    let garth = notes();
    garth.fails(2, &["search", "milk", "--at", "1"]);
    assert!(garth.ok(&["search", "--help"]).contains("`garth grep --at` searches the past"));
}

#[test]
fn find_filters_by_tag_and_metadata() {
    let garth = notes();
    for (path, tags, due) in
        [("/z/b", "x,y", "1"), ("/a", "x", "2"), ("/z/b-c", "x", "1"), ("/z/b/c", "y", "1")]
    {
        let path = if path == "/z/b" { "/z/b/own" } else { path };
        let tags: Vec<&str> = tags.split(',').flat_map(|tag| ["--tag", tag]).collect();
        garth.write(path, "text");
        garth.ok(&[&["set", path, "--meta", &format!("due={due}")], &*tags].concat());
    }
    assert_eq!(garth.ok(&["find", "--tag", "x"]), "/a\n/z/b/own\n/z/b-c\n");
    assert_eq!(garth.ok(&["find", "/z", "--tag", "x", "--tag", "y"]), "/z/b/own\n");
    assert_eq!(garth.ok(&["find", "/z/b", "--meta", "due=1"]), "/z/b/c\n/z/b/own\n");
    assert_eq!(garth.ok(&["find", "--meta", "due=1", "-tag", "x", "-name", "b*"]), "/z/b-c\n");
    assert_eq!(garth.ok(&["find", "--tag", "x", "--maxdepth", "1"]), "/a\n");
    assert_eq!(garth.ok(&["find", "--tag", "x", "--mindepth", "3"]), "/z/b/own\n");
    assert_eq!(garth.ok(&["find", "/a", "--tag", "x"]), "/a\n", "the path itself, too");
    assert_eq!(garth.ok(&["find", "--tag", "none"]), "");
    assert_eq!(column(&garth.lines(&["find", "--tag", "y"]), "path"), ["/z/b/c", "/z/b/own"]);
    garth.ok(&["snapshot", "create", "before"]);
    garth.ok(&["set", "/a", "--tag", "other"]);
    assert_eq!(garth.ok(&["find", "--tag", "x"]), "/z/b/own\n/z/b-c\n");
    assert_eq!(garth.ok(&["find", "--tag", "x", "--at", "before"]), "/a\n/z/b/own\n/z/b-c\n");
    garth.fails(3, &["find", "/nowhere", "--tag", "x"]);
    garth.fails(2, &["find", "--meta", "due"]);
}

#[test]
fn recall_answers_within_the_budget() {
    let garth = notes();
    let coffee = "ctx://default/users/ada/memories/preferences/coffee";
    garth.feed(&["memory", "put", coffee, "--tag", "drink"], "Ada likes her coffee black.\n");
    let question = "how does Ada take her coffee";
    let text = garth.ok(&["recall", question, "--budget", "150"]);
    assert!(text.contains(&format!("\n1 {coffee} ver_")) && text.contains("coffee black.\n"), "{text}");
    let answer = garth.json(&["recall", question, "--tag", "drink", "-n", "1"]);
    assert_eq!(answer["items"][0]["source"], json!(coffee));
    assert!(
        answer["tokens"].as_u64().unwrap() < 150 && answer["key"].as_str().unwrap().len() == 64,
        "{answer}"
    );
    assert_eq!(garth.ok(&["recall", question, "--in", "/notes/old"]), "Nothing fits the question.\n");
    assert_eq!(garth.ok(&["recall", question, "--tag", "other"]), "Nothing fits the question.\n");
    let past = garth.ok(&["recall", question, "--as-of", "1"]);
    assert!(past.starts_with("Nothing fits the question.\nSearched the current text"), "{past}");
    assert_eq!(
        garth.ok(&["recall", question, "--valid-at", "1990-01-01", "--in", "/notes"]),
        "Nothing fits the question.\n"
    );
    let other_words = ["recall", "which hot beverage does she prefer"];
    let near = garth.ok(&other_words);
    assert!(near.starts_with("Nothing fits the question.\nThese texts are nearest"), "{near}");
    assert!(near.contains("coffee black."), "{near}");
    let alone = garth.ok(&[&other_words[..], &["--mode", "words"]].concat());
    assert_eq!(alone, "Nothing fits the question.\n");
    let found = |mode: &str| garth.lines(&["search", other_words[1], "--mode", mode]).len();
    assert!(found("meaning") > 0 && found("words") == 0);
    garth.feed(
        &["memory", "put", coffee, "--valid-to", "9999-12-31T23:59:59Z"],
        "Ada likes her coffee black.\n",
    );
    assert!(garth.ok(&["recall", question, "--until", "9999-12-31"]).contains("coffee black."));
    assert!(garth.fails(2, &["recall", question, "--since", "9999-12-31"]).contains("to 2262-04-11"));
    let files = garth.json(&["recall", "call about the harbour"]);
    assert_eq!(files["items"][0]["source"], json!("/notes/today.md"));
    let refused = garth.fails(2, &["recall", question, "--budget", "20"]);
    assert!(refused.contains("100 to 32000"), "{refused}");
    let prefix = "ctx://default/users/ada/memories/preferences";
    assert!(garth.ok(&["recall", question, "--prefix", prefix, "--half-life", "30"]).contains("black"));
    let nobody = ["recall", question, "--prefix", "ctx://default/users/bob"];
    assert_eq!(garth.ok(&nobody), "Nothing fits the question.\n");
    assert_eq!(garth.ok(&["recall", question, "--agent", "bot"]), "Nothing fits the question.\n");
    garth.fails(3, &["recall", question, "--in", "/nowhere"]);
    garth.fails(2, &["recall"]);
}

#[test]
fn paths_of_a_user_include_sessions_with_any_agent() {
    let garth = Garth::new();
    for user in ["ann", "bob"] {
        let of = ["--agent", "scout", "--user", user];
        garth.ok(&[&["session", "create", "s"][..], &of].concat());
        let line = format!("{{\"role\":\"user\",\"content\":\"the gadget of {user} is green\"}}\n");
        garth.feed(&[&["session", "append", "s"][..], &of].concat(), &line);
    }
    let found = garth.ok(&["recall", "gadget", "--in", "/users/ann"]);
    assert!(found.contains("gadget of ann") && !found.contains("gadget of bob"), "{found}");
    // The tree of another agent has no session of this one.
    assert_eq!(garth.ok(&["recall", "gadget", "--user", "ann"]), "Nothing fits the question.\n");
    let own = garth.ok(&["recall", "gadget", "--user", "ann", "--agent", "scout"]);
    assert!(own.contains("gadget of ann") && !own.contains("gadget of bob"), "{own}");
    garth.fails(2, &["recall", " "]);
}

#[test]
fn agent_recalls_in_its_own_tree() {
    let garth = notes();
    for (user, text) in [("ada", "Ada likes her coffee black."), ("bob", "Bob likes coffee: a canary.")] {
        garth.feed(
            &["memory", "put", &format!("ctx://default/users/{user}/memories/preferences/coffee")],
            text,
        );
    }
    let chat = ["--agent", "bot", "--user", "ada", "--chat", "trip"];
    garth.feed(&[&["write", "/plan.md"][..], &chat].concat(), "Bring the coffee.\n");
    let text = garth.ok(&[&["recall", "coffee", "--budget", "1000"][..], &chat].concat());
    assert!(text.contains("Bring the coffee.") && text.contains("Ada likes her coffee black."), "{text}");
    assert!(text.contains(" ctx://default/users/ada/memories/preferences/coffee ver_"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn search_json_names_messages_memories_and_values() {
    let garth = Garth::new();
    let of = ["--agent", "scout", "--user", "ann"];
    garth.ok(&[&["session", "create", "s"][..], &of].concat());
    let line = "{\"role\":\"user\",\"content\":\"the gadget is green\"}\n";
    garth.feed(&[&["session", "append", "s"][..], &of].concat(), line);
    garth.feed(&["memory", "put", "ctx://default/users/ann/memories/entities/gadget"], "A gadget is green.");
    garth.feed(&["write", "/gadget.md"], "The gadget is red.\n");
    let hits = garth.lines(&["search", "gadget"]);
    assert_eq!(hits.len(), 3, "{hits:?}");
    let of = |kind: &str| hits.iter().find(|hit| hit["kind"] == kind).unwrap();
    let message = of("messages");
    assert_eq!((&message["session"]["name"], &message["session"]["user"]), (&json!("s"), &json!("ann")));
    assert_eq!((&message["message"]["line"], &message["message"]["role"]), (&json!(1), &json!("user")));
    assert_eq!(of("memories")["uri"], "ctx://default/users/ann/memories/entities/gadget");
    assert_eq!(of("files")["path"], "/gadget.md");
}

#[test]
fn score_parts_are_never_negative_zero() {
    let garth = Garth::new();
    garth.feed(&["write", "/a.md"], "one needle\n");
    let shown = garth.ok(&["search", "needle", "--json"]);
    assert!(shown.contains("\"neighbours\":0.0"), "{shown}");
    assert!(!shown.contains("-0.0"), "{shown}");
}
