//! Every command that README.md and the page on who may see what show is run as it stands there, on the
//! binary that these tests build.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::garth::program;

/// In front of each block: stop at the first failure, and let `cargo run` and `cargo
/// install` mean the binary at hand.
const BEFORE: &str = r#"set -euo pipefail
cargo() {
    case "$1 $2 $3" in
        "run --release --") shift 3; exec garth "$@" ;;
        "install --locked --path") garth --version ;;
        *) command cargo "$@" ;;
    esac
}
"#;

/// The repository.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    Path::new(&here).join("../..").canonicalize().expect("the repository")
}

/// The shell blocks of the README, in order.
fn blocks() -> Vec<String> {
    blocks_of("README.md", "sh")
}

/// The blocks of a page in a language, in order.
fn blocks_of(page: &str, language: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join(page)).expect("the page");
    let begin = format!("```{language}\n");
    let parts = page.split(&*begin).skip(1);
    parts.map(|part| part.split("```").next().expect("a block ends").to_owned()).collect()
}

/// A folder with what a fresh clone has at hand for the commands: the binary on the
/// path, and `docs` to import.
fn clone() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(dir.path().join("bin")).expect("a folder");
    symlink(program(), dir.path().join("bin/garth")).expect("a link");
    symlink(root().join("docs"), dir.path().join("docs")).expect("a link");
    dir
}

fn bash(dir: &Path, script: &str) -> Command {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").expect("PATH"));
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{BEFORE}{script}")]).current_dir(dir).stdin(Stdio::null());
    command.env_remove("GARTH_ACCOUNT").env("HOME", dir).env_remove("XDG_DATA_HOME").env_remove("GARTH_DATA");
    command.env("PATH", path);
    command
}

fn run(dir: &Path, script: &str) -> Output {
    let output = bash(dir, script).output().expect("bash");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n--- stdout\n{out}\n--- stderr\n{err}");
    output
}

#[test]
fn first_readme_command_serves_without_setup() {
    let dir = clone();
    let first = blocks()[0].lines().next().expect("a command").to_owned();
    assert!(first.starts_with("cargo run --release -- serve"), "{first}");
    let mut server = bash(dir.path(), &first).stdout(Stdio::piped()).spawn().expect("bash");
    let mut shown = String::new();
    for line in BufReader::new(server.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        shown.push_str(&line);
        shown.push('\n');
        // the key and the command that tries it come last
        if line.contains("curl") {
            break;
        }
    }
    let stop = Command::new("kill").arg(server.id().to_string()).status().expect("kill");
    assert!(stop.success());
    assert!(server.wait().expect("the server").success(), "a server that is told to stop stops well");
    for part in ["http://127.0.0.1:8787", ".local/share/garth", "default", "garth_"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

#[test]
fn readme_note_survives_kill_and_is_found() {
    let dir = clone();
    // Pasted twice, it works twice.
    run(dir.path(), &blocks()[1]);
    let output = run(dir.path(), &blocks()[1]);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.contains("\"Alice takes her coffee black\""), "{out}");
    let (_, found) = out.split_once("/agents/default/kv/alice/coffee.json").expect("a hit");
    assert!(found.contains("coffee black"), "{out}");
}

#[test]
fn readme_commands_work_in_order() {
    let dir = clone();
    for block in blocks().iter().skip(2) {
        if block.starts_with("scripts/test") {
            // this very test is part of it
            assert!(root().join("scripts/test").is_file());
            continue;
        }
        // Pasted twice, it works twice.
        for round in 1..=2 {
            let out = String::from_utf8_lossy(&run(dir.path(), block).stdout).into_owned();
            for part in ["first impression", "+She works nights.", "/projects", "durability.md"] {
                assert!(out.contains(part), "{part} is not in\n{out}");
            }
            let copy =
                fs::read_to_string(dir.path().join("projects-copy/alice.md")).expect("the exported note");
            assert_eq!(copy, "# Alice\nShe likes her coffee black.\nShe works nights.\n");
            let names =
                fs::read_dir(dir.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
            let backups = names.filter(|path| path.to_string_lossy().contains("/garth-backup-"));
            assert_eq!(backups.filter(|path| path.join("control.db").is_file()).count(), round);
        }
    }
}

#[test]
fn commands_of_who_listens_page_work() {
    let (dir, page) = (clone(), "docs/specs/who-listens.md");
    fs::write(dir.path().join("notes.md"), "what the channel agreed on\n").expect("a file");
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
