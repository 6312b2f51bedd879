//! Runs the commands of README.md, of the guide to HTTP and of the pages on audiences and keys on the binary
//! built with these tests, and compares the output that README.md and the guide show. `specifications` does
//! so for the other pages.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use regex::Regex;
use tempfile::TempDir;

use crate::garth::program;

/// Start of each script: stops at the first failure, and replaces `cargo install` by the binary under test.
const BEFORE: &str = r#"set -euo pipefail
cargo() {
    case "$1 $2 $3" in
        "install --locked --path") garth --version ;;
        *) command cargo "$@" ;;
    esac
}
"#;

/// Returns the root of the repository.
pub(super) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    Path::new(&here).join("../..").canonicalize().expect("the repository")
}

/// Returns the one shell block of the README that contains a command.
fn block_with(command: &str) -> String {
    one_with(blocks_of("README.md", "sh"), command)
}

/// Returns the output that the README shows, the one block with this text.
fn shown_with(text: &str) -> String {
    one_with(blocks_of("README.md", "text"), text)
}

fn one_with(blocks: Vec<String>, part: &str) -> String {
    let mut found = blocks.into_iter().filter(|block| block.contains(part));
    let block = found.next().unwrap_or_else(|| panic!("no block has {part}"));
    assert_eq!(found.next(), None, "two blocks have {part}");
    block
}

/// Replaces what differs from run to run: codes of evidence and versions.
fn stable(text: &str) -> String {
    let word = |word: &str| {
        let name = word.trim_end_matches(']');
        let is_code = name.len() == 12 && name.bytes().all(|byte| byte.is_ascii_digit());
        if is_code || name.starts_with("ver_") { "*".to_owned() } else { word.to_owned() }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the blocks of a page in a language, in order.
pub(super) fn blocks_of(page: &str, language: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join(page)).expect("the page");
    let begin = format!("```{language}\n");
    let parts = page.split(&*begin).skip(1);
    parts.map(|part| part.split("```").next().expect("a block ends").to_owned()).collect()
}

/// Creates a folder with what the commands need of a fresh clone: the binary on the path, and `docs`.
pub(super) fn clone() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(dir.path().join("bin")).expect("a folder");
    symlink(program(), dir.path().join("bin/garth")).expect("a link");
    symlink(root().join("docs"), dir.path().join("docs")).expect("a link");
    dir
}

pub(super) fn bash(dir: &Path, script: &str) -> Command {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").expect("PATH"));
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{BEFORE}{script}")]).current_dir(dir).stdin(Stdio::null());
    command.env_remove("GARTH_ACCOUNT").env("HOME", dir).env_remove("XDG_DATA_HOME").env_remove("GARTH_DATA");
    command.env("PATH", path);
    command
}

pub(super) fn run(dir: &Path, script: &str) -> Output {
    let output = bash(dir, script).output().expect("bash");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n--- stdout\n{out}\n--- stderr\n{err}");
    output
}

/// Runs a block twice in one folder, since a reader may paste it twice, and returns the first output.
fn run_twice(dir: &Path, block: &str) -> String {
    let first = String::from_utf8_lossy(&run(dir, block).stdout).into_owned();
    run(dir, block);
    first
}

#[test]
fn readme_tests_cover_every_block() {
    // A new block needs a test here.
    assert_eq!(blocks_of("README.md", "sh").len(), 7);
    // The one about PostgreSQL is covered by `it::postgres`, which starts a database.
    assert_eq!(blocks_of("README.md", "text").len(), 3);
    assert!(block_with("scripts/test").starts_with("scripts/test"));
    // This very test is part of it.
    assert!(root().join("scripts/test").is_file());
}

#[test]
fn readme_quick_start_prints_its_output() {
    let dir = clone();
    let out = run_twice(dir.path(), &block_with("cargo install"));
    let (_, printed) = out.split_once('\n').expect("the version in place of the installation");
    assert_eq!(stable(printed), stable(&shown_with("remembered")));
}

#[test]
fn readme_users_do_not_see_each_other() {
    let dir = clone();
    let out = run_twice(dir.path(), &block_with("--user bob"));
    let evidence: Vec<&str> =
        out.lines().filter(|line| line.starts_with("Takes") || line.starts_with("Drinks")).collect();
    let (alice, bob) = ("Takes her coffee black", "Drinks tea and is allergic to nuts");
    assert_eq!(evidence, [alice, bob, bob], "{out}");
    let nothing = "\nNothing fits the question.\nThese texts are nearest to it in meaning";
    assert!(out.contains(nothing), "{out}");
}

#[test]
fn readme_conversation_is_packed_and_recalled() {
    let dir = clone();
    let out = run_twice(dir.path(), &block_with("garth context pack"));
    assert!(out.contains(&shown_with("messages:1")), "{out}");
    let (_, rest) = out.split_once(r#"{"messages":[{"role":"user","content":"#).expect("a list of messages");
    assert!(rest.contains("\n1 /.user/session/trip/messages.jsonl ver_"), "{out}");
    assert!(rest.contains("assistant: Booked Hotel Ria, room 12, 98 euros a night.\n"), "{out}");
}

#[test]
fn readme_server_starts_without_setup() {
    let dir = clone();
    let command = block_with("garth serve    #");
    // The shell is replaced, so that the process to stop is the server.
    let mut server =
        bash(dir.path(), &format!("exec {command}")).stdout(Stdio::piped()).spawn().expect("bash");
    let mut shown = String::new();
    for line in BufReader::new(server.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        shown.push_str(&line);
        shown.push('\n');
        // The key and the command that tries it come last.
        if line.contains("curl") {
            break;
        }
    }
    let stop = Command::new("kill").arg(server.id().to_string()).status().expect("kill");
    assert!(stop.success());
    assert!(server.wait().expect("the server").success(), "a server that is asked to stop exits with 0");
    for part in ["http://127.0.0.1:8787", ".local/share/garth", "default", "garth_"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

#[test]
fn readme_note_survives_kill_and_is_found() {
    let dir = clone();
    let out = run_twice(dir.path(), &block_with("kill -9"));
    assert!(out.contains("\"Alice takes her coffee black\""), "{out}");
    let (_, found) = out.split_once("/agents/default/kv/alice/coffee.json").expect("a hit");
    assert!(found.contains("coffee black"), "{out}");
}

#[test]
fn readme_commands_work_in_order() {
    let dir = clone();
    let block = block_with("first impression");
    // Pasted twice, it works twice.
    for round in 1..=2 {
        let out = String::from_utf8_lossy(&run(dir.path(), &block).stdout).into_owned();
        for part in ["first impression", "+She works nights.", "/projects", "durability.md"] {
            assert!(out.contains(part), "{part} is not in\n{out}");
        }
        let copy = fs::read_to_string(dir.path().join("projects-copy/alice.md")).expect("the exported note");
        assert_eq!(copy, "# Alice\nShe likes her coffee black.\nShe works nights.\n");
        let names = fs::read_dir(dir.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
        let backups = names.filter(|path| path.to_string_lossy().contains("/garth-backup-"));
        assert_eq!(backups.filter(|path| path.join("control.db").is_file()).count(), round);
    }
}

#[test]
fn commands_of_audiences_page_work() {
    let (dir, page) = (clone(), "docs/specs/audiences.md");
    let blocks = blocks_of(page, "sh");
    assert!(blocks.len() >= 2, "{blocks:?}");
    for block in &blocks {
        run(dir.path(), block);
    }
    let read = "garth cat /notes.md --agent helper --key agent:helper:slack:channel:C1";
    assert_eq!(String::from_utf8_lossy(&run(dir.path(), read).stdout), "what the channel agreed on\n");
    for settings in blocks_of(page, "json") {
        fs::write(dir.path().join("settings.json"), settings).expect("a file");
        run(dir.path(), "garth write -p /agents/assistant/settings.json < settings.json");
        let current =
            "garth session current agent:assistant:signal:dm:+4917000001 --create --agent assistant";
        let shown =
            String::from_utf8_lossy(&run(dir.path(), &format!("{current} --json")).stdout).into_owned();
        assert!(shown.contains("\"class\":\"main\"") && shown.contains("\"user\":\"ann\""), "{shown}");
    }
}

/// Replaces what differs from run to run in the answers of the guide: ids, times, versions, and numbers of
/// commits, inodes and bytes.
pub(super) fn plain(answer: &str) -> String {
    let changing = r#"ver_[0-9a-f-]+|[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"seq":[0-9]+"#;
    let more = r#"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|"ino":[0-9]+|"next_cursor":"[^"]*"|[0-9]{6,}"#;
    let changing = Regex::new(&format!("{changing}|{more}")).expect("a valid expression");
    changing.replace_all(answer, "*").into_owned()
}

#[test]
fn commands_of_http_guide_print_shown_output() {
    let python = Command::new("python3").arg("--version").output();
    python.expect("the guide needs python3: install it with your package manager");
    let dir = clone();
    // A tenth of the large file shows the same.
    let script = blocks_of("docs/guide-http.md", "sh").concat().replace("200M", "20M");
    // The server must also end if a command fails: it holds the output open.
    let out = run(dir.path(), &format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"));
    let out = plain(&String::from_utf8_lossy(&out.stdout));
    let (mut printed, mut compared) = (out.lines(), 0);
    for shown in script.lines().filter_map(|line| line.strip_prefix("# ")) {
        let shown = plain(shown);
        assert!(printed.any(|line| line == shown), "not printed, or not in this order:\n{shown}\n\n{out}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn commands_of_keys_page_work() {
    let dir = clone();
    let out = run(dir.path(), &blocks_of("docs/specs/keys.md", "sh").concat());
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.contains("requests may name any chat and session") && out.contains("revoked"), "{out}");
}
