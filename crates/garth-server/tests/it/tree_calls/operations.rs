//! Operations on files, compared with those of the library, and their limits.

use futures::executor::block_on;
use garth_agent::files::{Diff, DiffForm, Edit, Files, Glob, Grep, Show};
use garth_engine::model::{Op, Seq};
use serde_json::{Value, json};

use super::{World, path, with};

#[test]
fn searches_of_lines_equal_those_of_the_library() {
    let world = World::new();
    let files = Files::new(&*world.fs);
    let mut asked = Grep::new("t[wh]").below("/notes");
    (asked.before, asked.after) = (1, 1);
    let found = block_on(files.grep(&asked)).unwrap();
    let sent = json!({"expressions": ["t[wh]"], "path": "/notes", "before": 1, "after": 1});
    let answer = world.ok("grep", &sent);
    let lines = |file: &garth_agent::files::GrepFile| {
        let line = |line: &garth_agent::files::GrepLine| {
            let text = String::from_utf8(line.text.clone()).unwrap();
            json!({"number": line.number, "text": text, "cut": line.cut, "context": line.context})
        };
        file.lines.iter().map(line).collect::<Vec<Value>>()
    };
    let files_of: Vec<Value> = found
        .files
        .iter()
        .map(|file| {
            json!({
                "path": file.path, "binary": file.binary, "matches": file.matches, "lines": lines(file),
                "more": file.more, "capped": file.capped,
            })
        })
        .collect();
    assert!(!files_of.is_empty());
    assert_eq!(answer, json!({"files": files_of, "matches": found.matches}));
    let past = world.ok("grep", &with(&sent, json!({"at": "before"})));
    assert_eq!(past["files"][0]["lines"].as_array().unwrap().len(), 4, "{past}");
    for (show, is) in
        [("counts", Show::Counts), ("files", Show::Files), ("files_without", Show::FilesWithout)]
    {
        let mut asked = Grep::new("four");
        asked.show = is;
        let found = block_on(files.grep(&asked)).unwrap();
        let paths: Vec<Value> = found.files.iter().map(|file| json!(file.path)).collect();
        let answer = world.ok("grep", &json!({"expressions": ["four"], "show": show}));
        let shown = answer["files"].as_array().unwrap().iter().map(|file| file["path"].clone());
        assert_eq!(shown.collect::<Vec<_>>(), paths, "{show}");
    }
    let binary = world.ok("grep", &json!({"expressions": ["(?s-u)."], "path": "/bin", "binary": "text"}));
    assert_eq!(binary["files"][0]["lines"][0]["base64"], "/wD+");
}

#[test]
fn expressions_of_requests_are_bounded() {
    let world = World::new();
    for (fields, part) in [
        (json!({"expressions": []}), "1 to 1000 expressions"),
        (json!({"expressions": ["("]}), "not a regular expression"),
        (json!({"expressions": ["a".repeat(1001)]}), "at most 1000 bytes"),
        (json!({"expressions": ["(?:[ab]{300}){300}"]}), "exceeds size limit"),
        (json!({"expressions": ["a"], "before": 101}), "\"before\" must be an integer from 0 to 100"),
        (json!({"expressions": ["a"], "max_line": 4001}), "\"max_line\" must be"),
        (json!({"expressions": ["a"], "include": vec!["*"; 51]}), "\"include\" must be"),
    ] {
        let message = world.post("grep", &fields).refused(400, "VALIDATION_ERROR");
        assert!(message.contains(part), "{message}");
    }
    let long = format!("{}\nneedle\n", "x".repeat((1 << 20) + 1));
    world.commit([Op::write(path("/long"), long), Op::write(path("/short"), "needle\n")]);
    let found = world.ok("grep", &json!({"expressions": ["needle"]}));
    assert_eq!(found["files"][0]["error"]["code"], "PAYLOAD_TOO_LARGE", "{found}");
    assert_eq!((&found["files"][1]["path"], &found["matches"]), (&json!("/short"), &json!(1)));
}

#[test]
fn grep_gives_up_a_line_that_takes_too_many_steps() {
    let world = World::empty();
    let mut seed = 7_u32;
    let mut letter = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if seed >> 31 == 0 { 'a' } else { 'b' }
    };
    let line: String = (0..1_000_000).map(|_| letter()).collect();
    let long = format!("abc\n{line} ann@example error\nabc\n");
    world.commit([Op::write(path("/long"), long), Op::write(path("/short"), "abc\n")]);
    // Thousands of states are active at each byte.
    let found = world.ok("grep", &json!({"expressions": ["[ab]*a[ab]{9000}[cd]", "abc"]}));
    let files = &found["files"];
    assert_eq!((&files[0]["matches"], &files[1]["matches"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(files[0]["error"]["code"], "PAYLOAD_TOO_LARGE", "{found}");
    assert!(files[0]["error"]["message"].as_str().unwrap().contains("too long for these expressions"));
    for simple in ["error|warn", r"\w+@\w+"] {
        let found = world.ok("grep", &json!({"expressions": [simple], "show": "counts"}));
        assert_eq!((&found["files"][0]["matches"], &found["matches"]), (&json!(1), &json!(1)), "{found}");
        assert!(found["files"][0]["error"].is_null(), "{found}");
    }
}

#[test]
fn paths_by_pattern_equal_those_of_the_library() {
    let world = World::new();
    for pattern in ["/notes/*.md", "/**", "/*/", "/notes/[ab].md", "/none"] {
        let found = block_on(Files::new(&*world.fs).glob(&Glob::new(pattern))).unwrap();
        let items = found.items.iter().map(|item| {
            json!({"path": item.path, "ino": item.entry.ino, "kind": item.entry.kind, "entry": item.entry})
        });
        let items: Vec<Value> = items.collect();
        let answer = world.ok("glob", &json!({"pattern": pattern, "entries": true}));
        assert_eq!(answer, json!({"items": items}), "{pattern}");
    }
    let past = world.ok("glob", &json!({"pattern": "/notes/*.md", "at": "before"}));
    let paths: Vec<&Value> = past["items"].as_array().unwrap().iter().map(|item| &item["path"]).collect();
    assert_eq!(paths, [&json!("/notes/a.md"), &json!("/notes/b.md")]);
    world.post("glob", &json!({"pattern": "notes/*"})).refused(400, "VALIDATION_ERROR");
}

#[test]
fn differences_equal_those_of_the_library() {
    let world = World::new();
    for (form, is) in
        [("names", DiffForm::Names), ("counts", DiffForm::Counts), ("hunks", DiffForm::Hunks(1))]
    {
        let mut asked = Diff::since("/", Seq(2));
        asked.form = is;
        let found = block_on(Files::new(&*world.fs).diff(&asked)).unwrap();
        let answer = world.ok("diff", &json!({"path": "/", "from": "2", "form": form, "context": 1}));
        let shown = answer["items"].as_array().unwrap();
        assert_eq!(shown.len(), found.items.len());
        for (shown, due) in shown.iter().zip(&found.items) {
            assert_eq!(shown["path"], json!(due.path));
            assert_eq!(shown["change"], json!(due.change));
            assert_eq!(shown["attributes"], json!(due.attributes));
            assert_eq!(shown["kinds"], json!(due.kinds));
            assert_eq!(shown["hunks"].as_str().filter(|hunks| !hunks.is_empty()), due.hunks(), "{form}");
            assert_eq!(shown["content"].is_null(), due.content.is_none(), "{shown}");
        }
    }
    let both = json!({"path": "/notes/a.md", "other": "/notes/d.md", "form": "counts"});
    let found = world.ok("diff", &both)["items"][0].clone();
    assert_eq!((&found["from_path"], &found["content"]), (&json!("/notes/a.md"), &json!("lines")));
    assert_eq!((&found["added"], &found["removed"]), (&json!(1), &json!(4)));
    world.commit([Op::write(path("/long"), "x\n".repeat(50_001)), Op::write(path("/bin"), vec![0, 1])]);
    let long = world.ok("diff", &json!({"path": "/bin", "other": "/long"}));
    assert_eq!(long["items"][0]["content"], "binary");
    let long = world.ok("diff", &json!({"path": "/notes/a.md", "other": "/long"}));
    assert_eq!(long["items"][0]["content"], "too_long");
}

#[test]
fn edits_equal_those_of_the_library() {
    let (world, other) = (World::new(), World::new());
    for (fields, edit) in [
        (json!({"old": "three", "new": "3"}), Edit::replace("three", "3")),
        (json!({"old": "o", "new": "0", "all": true}), Edit::replace("o", "0").all(true)),
        (json!({"line": 1, "text": "and a half"}), Edit::insert(1, "and a half")),
        (json!({"line": 0, "text": "first\n"}), Edit::insert(0, "first\n")),
    ] {
        let done = world.ok("edit", &with(&fields, json!({"path": "/link", "message": "why"})));
        let due = block_on(Files::new(&*other.fs).message("why").edit("/link", &edit)).unwrap();
        assert_eq!(done, with(&json!({"ok": true}), json!(due)), "{fields}");
        let text = |world: &World| world.ok("fetch", &json!({"path": "/notes/a.md"}))["text"].clone();
        assert_eq!(text(&world), text(&other));
    }
    let version = world.ok("stat", &json!({"path": "/notes/a.md"}))["entry"]["etag"].clone();
    let edit = |more: Value| world.post("edit", &with(&json!({"path": "/notes/a.md"}), more));
    edit(json!({"old": "3", "new": "drei", "if_version": "ver_1-1"})).refused(409, "CONFLICT");
    assert_eq!(edit(json!({"old": "3", "new": "drei", "if_version": version})).status, 200);
    edit(json!({"old": "drei", "new": "3", "if_version": version})).refused(409, "CONFLICT");
    let missing = edit(json!({"old": "no such text", "new": ""})).refused(409, "CONFLICT");
    assert!(missing.contains("the text of \"old\" is not in the file; read it with"), "{missing}");
    assert!(edit(json!({"old": "0", "new": ""})).refused(400, "VALIDATION_ERROR").contains("times, in line"));
    for wrong in [
        json!({}),
        json!({"old": "a"}),
        json!({"new": "a"}),
        json!({"line": 1}),
        json!({"old": "a", "new": "b", "line": 1, "text": "c"}),
        json!({"line": 1, "text": "c", "all": true}),
        json!({"old": "a", "new": "b", "if_version": "1"}),
    ] {
        edit(wrong).refused(400, "VALIDATION_ERROR");
    }
}

#[test]
fn concurrent_edits_of_one_file_all_apply() {
    const WRITERS: usize = 4;
    const EDITS: usize = 10;
    let world = World::empty();
    world.commit([Op::write(path("/list"), "")]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let world = &world;
            scope.spawn(move || {
                for n in 0..EDITS {
                    let body = json!({"path": "/list", "line": 0, "text": format!("{writer}-{n}\n")});
                    world.ok("edit", &body);
                }
            });
        }
    });
    let text = world.ok("fetch", &json!({"path": "/list"}))["text"].as_str().unwrap().to_owned();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((lines.len(), text.lines().count()), (WRITERS * EDITS, WRITERS * EDITS));
}
