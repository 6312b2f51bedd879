//! Memory tool: the texts of its answers and errors, places that it refuses, and concurrent changes.

use std::sync::Arc;

use garth_agent::Once;
use garth_agent::memory_tool::{Answer, Command, MAX_LISTED, MemoryTool};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Author, Batch, ChangesQuery, Idempotency, Op, Timestamp};
use garth_engine::{Env, FileSystem, FileSystemExt as _};
use garth_testkit::fs::interfering::{Call, Interfering};
use garth_testkit::tools::p as path;
use serde_json::{Value, json};

type Fs = Arc<dyn FileSystem>;

fn memory() -> Fs {
    Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()))
}

async fn run(fs: &Fs, input: Value) -> Answer {
    let command: Command = serde_json::from_value(input).unwrap();
    MemoryTool::new(&**fs).run(&command).await.unwrap()
}

/// Runs a command that succeeds.
async fn ok(fs: &Fs, input: Value) -> String {
    let shown = input.to_string();
    let answer = run(fs, input).await;
    assert!(!answer.is_error, "{shown}: {answer:?}");
    answer.text
}

/// Runs a command that fails.
async fn failed(fs: &Fs, input: Value) -> String {
    let shown = input.to_string();
    let answer = run(fs, input).await;
    assert!(answer.is_error, "{shown}: {answer:?}");
    answer.text
}

fn create(at: &str, text: &str) -> Value {
    json!({"command": "create", "path": at, "file_text": text})
}

fn view(at: &str) -> Value {
    json!({"command": "view", "path": at})
}

fn replace(at: &str, old: &str, new: &str) -> Value {
    json!({"command": "str_replace", "path": at, "old_str": old, "new_str": new})
}

fn insert(at: &str, line: i64, text: &str) -> Value {
    json!({"command": "insert", "path": at, "insert_line": line, "insert_text": text})
}

fn delete(at: &str) -> Value {
    json!({"command": "delete", "path": at})
}

fn rename(from: &str, to: &str) -> Value {
    json!({"command": "rename", "old_path": from, "new_path": to})
}

#[tokio::test]
async fn missing_memories_are_an_empty_directory() {
    let fs = memory();
    let head = fs.head().await.unwrap();
    let header = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items \
                  and node_modules:";
    assert_eq!(ok(&fs, view("/memories")).await, format!("{header}\n0B\t/memories"));
    failed(&fs, view("/memories/a.md")).await;
    failed(&fs, create("/memories", "")).await;
    assert_eq!(fs.head().await.unwrap(), head);
    ok(&fs, create("/memories/a.md", "x")).await;
    assert_eq!(fs.read_to_string("/.user/memory/a.md").await.unwrap(), "x");
}

#[tokio::test]
async fn listing_shows_two_levels_with_sizes() {
    let fs = memory();
    for (at, size) in [("b.md", 5_632), ("a/c.md", 1_024), ("a/d/e.md", 1), ("a/d/f/g.md", 2), ("a-b", 3)] {
        ok(&fs, create(&format!("/memories/{at}"), &"x".repeat(size))).await;
    }
    for at in [".hidden", "a/.git/x", "node_modules/x/y.js", "a/node_modules/z"] {
        ok(&fs, create(&format!("/memories/{at}"), "xxxx")).await;
    }
    fs.apply(Op::symlink(path("/.user/memory/link"), "b.md")).await.unwrap();
    let listed = ok(&fs, view("/memories")).await;
    let lines: Vec<&str> = listed.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "6.5K\t/memories",
            "1.0K\t/memories/a",
            "1.0K\t/memories/a/c.md",
            "3B\t/memories/a/d",
            "3B\t/memories/a-b",
            "5.5K\t/memories/b.md",
        ]
    );
    let listed = ok(&fs, view("/memories/a/d/")).await;
    assert!(listed.starts_with("Here're the files and directories up to 2 levels deep in /memories/a/d/, "));
    assert!(listed.ends_with(
        ":\n3B\t/memories/a/d\n1B\t/memories/a/d/e.md\n2B\t/memories/a/d/f\n2B\t/memories/a/d/f/g.md"
    ));
}

#[tokio::test]
async fn long_listing_is_cut_with_a_note() {
    let fs = memory();
    let ops = (0..MAX_LISTED).map(|n| Op::write(path(&format!("/.user/memory/{n:04}")), "x").with_parents());
    fs.commit(Batch::new(ops)).await.unwrap();
    let listed = ok(&fs, view("/memories")).await;
    assert_eq!(listed.lines().count(), MAX_LISTED + 2);
    assert!(listed.lines().last().unwrap().contains("1000 entries are listed, and there are more"));
}

#[tokio::test]
async fn answers_within_a_limit_say_where_they_go_on() {
    const LIMIT: usize = 16 << 10;
    let fs = memory();
    let text: String = (1..=2000).map(|number| format!("line {number}\n")).collect();
    ok(&fs, create("/memories/a.md", &text)).await;
    ok(&fs, create("/memories/b.md", &format!("{}\nlast\n", "x".repeat(2 * LIMIT)))).await;
    let run = async |input: Value| {
        let command: Command = serde_json::from_value(input).unwrap();
        let answer = MemoryTool::new(&*fs).limit(LIMIT).run(&command).await.unwrap().text;
        assert!(answer.len() <= LIMIT, "{}", answer.len());
        answer
    };
    let (mut from, mut seen) = (1_u32, String::new());
    while from <= 2000 {
        let shown = run(json!({"command": "view", "path": "/memories/a.md", "view_range": [from, -1]})).await;
        seen.extend(
            shown.lines().filter_map(|line| line.split_once('\t')).map(|(_, line)| format!("{line}\n")),
        );
        let rest = shown.split_once("View the rest with `view_range`: [").map(|(_, rest)| rest);
        let next = rest.and_then(|rest| rest.strip_suffix(", 2000].)")?.parse::<u32>().ok());
        from = next.filter(|next| *next > from).unwrap_or(2001);
    }
    assert_eq!(seen, text);
    let cut = run(view("/memories/b.md")).await;
    assert!(cut.contains("\n(Line 1 is cut, because an answer has at most 16384 bytes.)\n"), "{cut}");
    assert!(cut.ends_with("View the rest with `view_range`: [2, 2].)"), "{cut}");
    run(replace("/memories/b.md", "last", &"y\n".repeat(LIMIT))).await;
    let ops = (0..MAX_LISTED).map(|n| Op::write(path(&format!("/.user/memory/{n:040}")), "x"));
    fs.commit(Batch::new(ops)).await.unwrap();
    let listed = run(view("/memories")).await;
    let entries = listed.lines().count() - 2;
    assert!(listed.ends_with("to see all of its entries.)"), "{listed}");
    assert!(listed.contains(&format!("large: {entries} entries are listed")), "{listed}");
}

#[tokio::test]
async fn file_is_shown_with_line_numbers() {
    let fs = memory();
    ok(&fs, create("/memories/a.md", "one\n\nthree")).await;
    let header = "Here's the content of /memories/a.md with line numbers:";
    assert_eq!(
        ok(&fs, view("/memories/a.md")).await,
        format!("{header}\n     1\tone\n     2\t\n     3\tthree")
    );
    let range = |first: i64, last: i64| json!({"command": "view", "path": "/memories/a.md", "view_range": [first, last]});
    assert_eq!(ok(&fs, range(2, 3)).await, format!("{header}\n     2\t\n     3\tthree"));
    assert_eq!(ok(&fs, range(3, -1)).await, format!("{header}\n     3\tthree"));
    assert_eq!(ok(&fs, range(3, 99)).await, format!("{header}\n     3\tthree"));
    for (first, last) in [(0, 1), (4, 5), (2, 1), (-1, -1), (1, -2)] {
        let due = format!(
            "Error: Invalid `view_range` parameter: [{first}, {last}]. It should be within the range of \
             lines of the file: [1, 3]"
        );
        assert_eq!(failed(&fs, range(first, last)).await, due);
    }
    ok(&fs, create("/memories/empty", "")).await;
    let shown = "Here's the content of /memories/empty with line numbers:";
    assert_eq!(ok(&fs, view("/memories/empty")).await, shown);
    let missing = "The path /memories/b does not exist. Please provide a valid path.";
    assert_eq!(failed(&fs, view("/memories/b")).await, missing);
    assert_eq!(failed(&fs, view("/memories/a.md/b")).await, missing.replace("memories/b", "memories/a.md/b"));
}

#[tokio::test]
async fn files_that_are_not_short_text_are_refused_or_cut() {
    let fs = memory();
    ok(&fs, create("/memories/lines", &"\n".repeat(999_999))).await;
    let cut = ok(&fs, view("/memories/lines")).await;
    assert!(cut.ends_with(", 999999].)") && cut.len() < 300 << 10, "{} bytes", cut.len());
    ok(&fs, create("/memories/more", &"\n".repeat(1_000_000))).await;
    let due = "File /memories/more exceeds maximum line limit of 999,999 lines.";
    assert_eq!(failed(&fs, view("/memories/more")).await, due);
    fs.write("/.user/memory/bytes", vec![0xff]).await.unwrap();
    for input in
        [view("/memories/bytes"), replace("/memories/bytes", "a", ""), insert("/memories/bytes", 0, "a")]
    {
        assert_eq!(failed(&fs, input).await, "Error: The file /memories/bytes is not UTF-8 text");
    }
    let long = "x".repeat((16 << 20) + 1);
    let due = "Error: A file has at most 16777216 bytes. Use several files.";
    assert_eq!(failed(&fs, create("/memories/long", &long)).await, due);
}

#[tokio::test]
async fn created_file_is_never_replaced() {
    let fs = memory();
    assert_eq!(
        ok(&fs, create("/memories/d/a.md", "x")).await,
        "File created successfully at: /memories/d/a.md"
    );
    for at in ["/memories/d/a.md", "/memories/d", "/memories", "/memories/d//a.md"] {
        assert_eq!(failed(&fs, create(at, "y")).await, format!("Error: File {at} already exists"));
    }
    let below = failed(&fs, create("/memories/d/a.md/b", "y")).await;
    assert!(below.starts_with("Error: /memories/d/a.md: "), "{below}");
    assert_eq!(fs.read_to_string("/.user/memory/d/a.md").await.unwrap(), "x");
}

#[tokio::test]
async fn replacement_shows_a_snippet() {
    let fs = memory();
    let text: String = (1..=12).map(|n| format!("line {n}\n")).collect();
    ok(&fs, create("/memories/a.md", &text)).await;
    let shown = ok(&fs, replace("/memories/a.md", "line 6\n", "six\nand a half\n")).await;
    let due = "The memory file has been edited.\n     2\tline 2\n     3\tline 3\n     4\tline 4\n     \
               5\tline 5\n     6\tsix\n     7\tand a half\n     8\tline 7\n     9\tline 8\n    \
               10\tline 9\n    11\tline 10";
    assert_eq!(shown, due);
    ok(&fs, create("/memories/b.md", "x")).await;
    let emptied = json!({"command": "str_replace", "path": "/memories/b.md", "old_str": "x"});
    assert_eq!(ok(&fs, emptied).await, "The memory file has been edited.");
    assert_eq!(fs.read_to_string("/.user/memory/b.md").await.unwrap(), "");
}

#[tokio::test]
async fn refused_replacement_gives_the_reference_text() {
    let fs = memory();
    ok(&fs, create("/memories/a.md", "x\ny x\nz\n")).await;
    let head = fs.head().await.unwrap();
    for (input, due) in [
        (
            replace("/memories/a.md", "q`", "r"),
            "No replacement was performed, old_str `q`` did not appear verbatim in /memories/a.md.",
        ),
        (
            replace("/memories/a.md", "x", "r"),
            "No replacement was performed. Multiple occurrences of old_str `x` in lines: 1, 2. Please ensure \
             it is unique",
        ),
        (
            replace("/memories/b", "x", "r"),
            "Error: The path /memories/b does not exist. Please provide a valid path.",
        ),
        (
            replace("/memories", "x", "r"),
            "Error: The path /memories does not exist. Please provide a valid path.",
        ),
        (replace("/memories/a.md", "", "r"), "Error: `old_str` is empty. Give the text to replace."),
    ] {
        assert_eq!(failed(&fs, input).await, due);
    }
    assert_eq!(fs.head().await.unwrap(), head);
}

#[tokio::test]
async fn inserted_lines_follow_their_line() {
    let fs = memory();
    ok(&fs, create("/memories/a.md", "a\nb\n")).await;
    let done = "The file /memories/a.md has been edited.";
    for (line, text, due) in [(0, "0\n", "0\na\nb\n"), (3, "c", "0\na\nb\nc\n"), (2, "", "0\na\n\nb\nc\n")] {
        assert_eq!(ok(&fs, insert("/memories/a.md", line, text)).await, done);
        assert_eq!(fs.read_to_string("/.user/memory/a.md").await.unwrap(), due);
    }
    for line in [6, -1, i64::MIN, i64::MAX] {
        let due = format!(
            "Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of \
             the file: [0, 5]"
        );
        assert_eq!(failed(&fs, insert("/memories/a.md", line, "x")).await, due);
    }
    for at in ["/memories/b", "/memories"] {
        assert_eq!(failed(&fs, insert(at, 0, "x")).await, format!("Error: The path {at} does not exist"));
    }
}

#[tokio::test]
async fn deleted_directory_takes_its_files() {
    let fs = memory();
    ok(&fs, create("/memories/d/e/a.md", "x")).await;
    assert_eq!(failed(&fs, delete("/memories/x")).await, "Error: The path /memories/x does not exist");
    let top = failed(&fs, delete("/memories/")).await;
    assert_eq!(top, "Error: /memories cannot be deleted. Delete the files in it.");
    assert_eq!(ok(&fs, delete("/memories/d")).await, "Successfully deleted /memories/d");
    assert_eq!(failed(&fs, delete("/memories/d")).await, "Error: The path /memories/d does not exist");
}

#[tokio::test]
async fn rename_never_replaces() {
    let fs = memory();
    ok(&fs, create("/memories/d/a.md", "a")).await;
    ok(&fs, create("/memories/b.md", "b")).await;
    for (from, to, due) in [
        ("/memories/x", "/memories/b.md", "Error: The path /memories/x does not exist"),
        ("/memories/d/a.md", "/memories/b.md", "Error: The destination /memories/b.md already exists"),
        ("/memories/b.md", "/memories/b.md", "Error: The destination /memories/b.md already exists"),
        ("/memories/b.md", "/memories", "Error: The destination /memories already exists"),
        ("/memories/d/a.md", "/memories/d", "Error: The destination /memories/d already exists"),
        ("/memories", "/memories/c", "Error: /memories cannot be renamed. Rename the files in it."),
        ("/memories/d", "/memories/d/e", "Error: /memories/d cannot be moved into itself"),
    ] {
        assert_eq!(failed(&fs, rename(from, to)).await, due);
    }
    let done = ok(&fs, rename("/memories/d", "/memories/new/place")).await;
    assert_eq!(done, "Successfully renamed /memories/d to /memories/new/place");
    assert_eq!(fs.read_to_string("/.user/memory/new/place/a.md").await.unwrap(), "a");
}

#[tokio::test]
async fn no_path_leads_out_of_memories() {
    let fs = memory();
    fs.commit(Op::write(path("/.user/secret"), "hidden\n").with_parents().into()).await.unwrap();
    ok(&fs, create("/memories/d/a.md", "x\n")).await;
    let head = fs.head().await.unwrap();
    for at in [
        "/.user/secret",
        "/memories/../secret",
        "/memories/d/../../secret",
        "/memories/..\\secret",
        "/memories/%2e%2e/secret",
        "/memories/%252e%252e%252fsecret",
        "/memories/\u{ff0e}\u{ff0e}/secret",
        "/memories/..",
        "/memoriesx",
        "secret",
    ] {
        let refused = format!(
            "Error: The path {at} is outside /memories. Every path begins with /memories and has no `..`."
        );
        for input in [
            view(at),
            create(at, "x"),
            replace(at, "hidden", "x"),
            insert(at, 0, "x"),
            delete(at),
            rename(at, "/memories/b"),
            rename("/memories/d", at),
        ] {
            assert_eq!(failed(&fs, input).await, refused);
        }
    }
    assert_eq!(fs.head().await.unwrap(), head);
}

#[tokio::test]
async fn links_are_not_followed() {
    let fs = memory();
    fs.commit(Op::write(path("/.user/d/secret"), "hidden\n").with_parents().into()).await.unwrap();
    ok(&fs, create("/memories/a.md", "x\n")).await;
    for (link, target) in [("file", "/.user/d/secret"), ("dir", "../d"), ("inside", "a.md")] {
        fs.apply(Op::symlink(path(&format!("/.user/memory/{link}")), target)).await.unwrap();
    }
    let head = fs.head().await.unwrap();
    for (at, link) in [
        ("/memories/file", "/memories/file"),
        ("/memories/dir", "/memories/dir"),
        ("/memories/dir/secret", "/memories/dir"),
        ("/memories/inside", "/memories/inside"),
    ] {
        let due = format!("Error: The path {link} is a link. Links are not followed.");
        for input in [view(at), replace(at, "hidden", "x"), insert(at, 0, "x")] {
            assert_eq!(failed(&fs, input).await, due);
        }
    }
    for input in [
        create("/memories/dir/new", "x"),
        delete("/memories/dir/secret"),
        rename("/memories/dir/secret", "/memories/b"),
        rename("/memories/a.md", "/memories/dir/b"),
    ] {
        let due = "Error: The path /memories/dir is a link. Links are not followed.";
        assert_eq!(failed(&fs, input).await, due);
    }
    assert_eq!(fs.head().await.unwrap(), head);
    // The name of a link is one of the directory.
    ok(&fs, delete("/memories/dir")).await;
    assert_eq!(fs.read_to_string("/.user/d/secret").await.unwrap(), "hidden\n");
}

#[tokio::test]
async fn link_in_place_of_memories_is_not_followed() {
    let fs = memory();
    fs.commit(Op::write(path("/.user/d/secret"), "hidden\n").with_parents().into()).await.unwrap();
    fs.apply(Op::symlink(path("/.user/memory"), "d")).await.unwrap();
    let due = "Error: The path /memories is a link. Links are not followed.";
    for input in
        [view("/memories"), view("/memories/secret"), create("/memories/a", "x"), delete("/memories/secret")]
    {
        assert_eq!(failed(&fs, input).await, due);
    }
}

#[tokio::test]
async fn link_that_is_swapped_in_is_not_followed() {
    let fs = memory();
    fs.commit(Op::write(path("/.user/secret"), "x hidden\n").with_parents().into()).await.unwrap();
    ok(&fs, create("/memories/a.md", "x\n")).await;
    let swap = [Op::remove(path("/.user/memory/a.md")), Op::symlink(path("/.user/memory/a.md"), "../secret")];
    let busy: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, swap.into()));
    failed(&busy, replace("/memories/a.md", "x", "y")).await;
    assert_eq!(fs.read_to_string("/.user/secret").await.unwrap(), "x hidden\n");
}

#[tokio::test]
async fn replacement_applies_to_concurrent_change() {
    let fs = memory();
    ok(&fs, create("/memories/a.md", "x\n")).await;
    let other = vec![Op::append(path("/.user/memory/a.md"), "more\n")];
    let busy: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, other));
    ok(&busy, replace("/memories/a.md", "x", "y")).await;
    assert_eq!(fs.read_to_string("/.user/memory/a.md").await.unwrap(), "y\nmore\n");
}

#[tokio::test]
async fn insertion_beside_concurrent_change_fails() {
    let fs = memory();
    ok(&fs, create("/memories/a.md", "x\n")).await;
    let other = vec![Op::append(path("/.user/memory/a.md"), "more\n")];
    let busy: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, other));
    let due = "Error: /memories/a.md was changed by another writer. View it and try again.";
    assert_eq!(failed(&busy, insert("/memories/a.md", 1, "y")).await, due);
    assert_eq!(fs.read_to_string("/.user/memory/a.md").await.unwrap(), "x\nmore\n");
}

#[tokio::test]
async fn each_command_is_one_commit() {
    let fs = memory();
    let before = fs.head().await.unwrap().seq;
    let inputs = [
        create("/memories/d/a.md", "x\n"),
        replace("/memories/d/a.md", "x", "y"),
        insert("/memories/d/a.md", 1, "z"),
        rename("/memories/d/a.md", "/memories/e/b.md"),
        delete("/memories/e"),
    ];
    for input in &inputs {
        let command: Command = serde_json::from_value(input.clone()).unwrap();
        let tool = MemoryTool::new(&*fs).author(Author::agent("scout"));
        assert!(!tool.run(&command).await.unwrap().is_error, "{input}");
    }
    let commits = fs.changes(&ChangesQuery::since(before)).await.unwrap().commits;
    let messages: Vec<&str> = commits.iter().map(|commit| commit.commit.message.as_str()).collect();
    let due =
        ["create", "str_replace", "insert", "rename", "delete"].map(|name| format!("memory tool: {name}"));
    assert_eq!(messages, due);
    assert!(commits.iter().all(|commit| commit.commit.author.agent.as_deref() == Some("scout")));
}

#[tokio::test]
async fn repeated_command_returns_its_first_answer() {
    let fs = memory();
    for input in [
        create("/memories/a.md", "x\n"),
        replace("/memories/a.md", "x", "xx"),
        insert("/memories/a.md", 0, "y"),
        rename("/memories/a.md", "/memories/b.md"),
        delete("/memories/b.md"),
    ] {
        let command: Command = serde_json::from_value(input).unwrap();
        let mut answers = Vec::new();
        for _ in 0..2 {
            let record = Idempotency::new(command.name(), [1; 32], Timestamp(i64::MAX));
            let once = Once::begin(Arc::clone(&fs), record).await.unwrap();
            answers.push(MemoryTool::new(&*fs).once(once).run(&command).await.unwrap());
        }
        assert!(!answers[0].is_error, "{answers:?}");
        assert_eq!(answers[0], answers[1]);
    }
}

#[test]
fn commands_are_read_from_the_input_of_the_tool() {
    let read = |input: Value| serde_json::from_value::<Command>(input).ok();
    let at = || "/memories/a".to_owned();
    assert_eq!(read(view("/memories/a")), Some(Command::View { path: at(), view_range: None }));
    let ranged = json!({"command": "view", "path": "/memories/a", "view_range": [1, -1]});
    assert_eq!(read(ranged), Some(Command::View { path: at(), view_range: Some([1, -1]) }));
    let without = json!({"command": "str_replace", "path": "/memories/a", "old_str": "x"});
    let due = Command::StrReplace { path: at(), old_str: "x".to_owned(), new_str: None };
    assert_eq!(read(without), Some(due.clone()));
    assert_eq!(serde_json::to_value(&due).unwrap()["command"], "str_replace");
    assert_eq!(read(json!({"command": "undo_edit", "path": "/memories/a"})), None);
    assert_eq!(read(json!({"command": "create", "path": "/memories/a"})), None);
}
