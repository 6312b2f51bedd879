//! Runs the commands of the pages in `docs/specs` on a server and on its data folder, and compares the
//! answers that the pages show. Checks the configurations of pages.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::readme::{bash, blocks_of, clone, plain, root, run};
use crate::garth::program;

/// Address of the server in the examples.
const SHOWN_ADDRESSES: [&str; 2] = ["localhost:8787", "127.0.0.1:8787"];

/// Start of each script. `curl` fails if a request is refused, and ends each answer with a line break.
const BEFORE: &str = r#"shopt -s expand_aliases
curl() { command curl --silent --show-error --fail-with-body --write-out '\n' "$@"; }
"#;

/// Pages that other tests run: they need a data folder without an account.
const ELSEWHERE: [&str; 2] = ["audiences.md", "keys.md"];

/// Data that the commands of a page assume, as a script.
const ASSUMED: [(&str, &str); 13] = [
    (
        "batch.md",
        r#"echo '{"op":"write","path":"/news.md","text":"x"}' > changes.jsonl
        echo x | garth write -p /index.md
        version=$(garth stat /index.md --json | sed 's/.*"version":"\([^"]*\)".*/\1/')"#,
    ),
    // The page shows the line of one conversation.
    ("evaluation.md", "sed -n '/^```json/{n;p;}' docs/specs/evaluation.md > questions.jsonl"),
    ("http-files.md", "echo plan > plan.pdf"),
    (
        "operations.md",
        r#"garth() {
            if [ "$*" = health ]; then set -- health --server localhost:8787; fi
            command garth "$@"
        }"#,
    ),
    ("projections.md", "echo x | garth write -p /notes/a.md"),
    (
        "provider-lists.md",
        "garth session create work --agent coder --user ann
        echo hi | garth session append work --agent coder --user ann --role user",
    ),
    ("recall.md", "garth mkdir -p /chats/fair /users/ann"),
    ("repair.md", "echo x | garth memory put ctx://default/users/alice/memories/preferences/coffee"),
    (
        "retention.md",
        r#"curl 127.0.0.1:8787/v1/tree/commit -H "Authorization: Bearer $GARTH_KEY" \
            -d '{"ops":[{"snapshot":{"name":"morning"}}]}' > /dev/null"#,
    ),
    ("rules.md", "echo '{}' > event.json"),
    ("search.md", "echo 'Takes her coffee black' | garth write -p /notes/a.md; garth mkdir -p /users/alice"),
    (
        "workspace-http.md",
        "base64 -d > photo.png <<< iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA\
         WjR9awAAAABJRU5ErkJggg==",
    ),
    (
        "workspace.md",
        "garth agent create scout --owner ann; garth session create work --agent scout --user ann
        garth session create work; echo hi | garth session append work --role user",
    ),
];

/// Text of examples that is replaced: it differs from run to run.
const REPLACED: [(&str, &str, &str); 1] = [("batch.md", "ver_7-1", "$version")];

/// Starts of lines that are not run, and why.
const NOT_RUN: [(&str, &str, &str); 17] = [
    ("evaluation.md", "garth eval questions.jsonl --with-embedder", "needs an embedding service"),
    ("evaluation.md", "garth eval questions.jsonl --embedder", "needs an embedding service"),
    ("http-description.md", "xdg-open", "opens a browser"),
    ("http-description.md", "openapi-python-client", "is run by scripts/generated-clients"),
    ("http-description.md", "npx", "is run by scripts/generated-clients"),
    ("kv-api.md", "export GARTH_KEY=...", "the key of the server under test is set"),
    ("operations.md", "garth serve", "the server under test runs"),
    ("operations.md", "sudo", "needs a user of a service"),
    ("operations.md", "openssl", "writes a file of a service"),
    ("mcp.md", "claude mcp add", "needs Claude Code"),
    ("operations.md", "docker", "needs Docker"),
    ("operations.md", "  --cap-drop", "continues the line before"),
    ("outbox.md", "garth outbox run", "needs a sink"),
    ("repair.md", "garth repair /srv/export", "needs an export"),
    (
        "workspace.md",
        "garth agent prompt --agent scout --user ann --session work --at",
        "needs an old prompt",
    ),
    ("workspace.md", "garth agent prompt diff --from yesterday", "needs an old prompt"),
    ("workspace.md", "garth session export 019c0a7e", "needs the archive of this id"),
];

/// Server on a data folder. Killed when dropped.
struct Server {
    child: Child,
    /// Host and port.
    address: String,
    key: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut command = Command::new(program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--data"]).arg(data);
        command.env_remove("GARTH_CONFIG").env_remove("GARTH_ENV").env_remove("GARTH_ACCOUNT");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("garth starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        let ready: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let field = |name: &str| ready[name].as_str().expect("a text").to_owned();
        Self { child, address: field("url").replace("http://", ""), key: field("key") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the names of the pages that have commands.
fn pages() -> Vec<String> {
    let folder = fs::read_dir(root().join("docs/specs")).expect("a folder");
    let names = folder.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<String> = names.filter(|name| !blocks(name).is_empty()).collect();
    names.sort_unstable();
    names
}

fn blocks(page: &str) -> Vec<String> {
    blocks_of(&format!("docs/specs/{page}"), "sh")
}

/// Returns true for a line that is not run.
fn is_left_out(page: &str, line: &str) -> bool {
    NOT_RUN.iter().any(|(of, start, _)| *of == page && line.starts_with(start))
}

/// Returns the commands of a page as a script.
fn script(page: &str, address: &str) -> String {
    let assumed = ASSUMED.iter().find(|(of, _)| *of == page).map_or("", |(_, script)| *script);
    let commands: String = blocks(page).concat();
    let commands = commands.lines().filter(|line| !is_left_out(page, line));
    let commands = commands.map(|line| format!("{line}\n")).collect::<String>();
    let mut script = format!("{BEFORE}{assumed}\n{commands}");
    for (_, from, to) in REPLACED.iter().filter(|(of, ..)| *of == page) {
        script = script.replace(from, to);
    }
    for shown in SHOWN_ADDRESSES {
        script = script.replace(shown, address);
    }
    script
}

/// Runs the commands of a page. Returns the number of answers that were compared.
fn run_page(page: &str) -> usize {
    let dir: TempDir = clone();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    let script = script(page, &server.address);
    let mut command = bash(dir.path(), &script);
    let output = command.env("GARTH_DATA", &data).env("GARTH_KEY", &server.key).output().expect("bash");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{page}:\n{script}\n--- stdout\n{out}\n--- stderr\n{err}");
    let printed: Vec<String> = out.lines().map(plain).collect();
    let mut compared = 0;
    for shown in script.lines().filter_map(|line| line.strip_prefix("# ")) {
        // Three dots stand for fields that are left out.
        if !shown.starts_with('{') || shown.contains("...") {
            continue;
        }
        assert!(printed.contains(&plain(shown)), "{page}: not printed:\n{shown}\n\n{out}");
        compared += 1;
    }
    compared
}

#[test]
fn commands_of_specifications_work() {
    let mut pages = pages();
    pages.retain(|page| !ELSEWHERE.contains(&&**page));
    assert!(pages.len() >= 30, "{pages:?}");
    let compared: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = pages
            .chunks(pages.len().div_ceil(4))
            .map(|pages| scope.spawn(move || pages.iter().map(|page| run_page(page)).sum::<usize>()))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the commands work")).sum()
    });
    assert!(compared > 12, "{compared}");
}

#[test]
fn configurations_of_pages_are_valid() {
    for page in ["docs/configuration.md", "docs/specs/operations.md", "docs/specs/recall.md"] {
        let blocks = blocks_of(page, "toml");
        assert!(!blocks.is_empty(), "{page}");
        for block in blocks {
            let dir = clone();
            fs::write(dir.path().join("garth.toml"), &block).expect("a file");
            fs::write(dir.path().join("sink-secret"), "x".repeat(32)).expect("a file");
            run(dir.path(), "garth serve --check --config garth.toml --data data");
        }
    }
}

#[test]
fn lists_of_specifications_name_existing_commands() {
    let pages = pages();
    for page in ASSUMED.iter().map(|(page, _)| *page).chain(ELSEWHERE) {
        assert!(pages.iter().any(|known| known == page), "{page} has no commands");
    }
    for (page, text, _) in REPLACED {
        assert!(blocks(page).concat().contains(text), "{page}: {text}");
    }
    for (page, start, reason) in NOT_RUN {
        let is_there = blocks(page).concat().lines().any(|line| line.starts_with(start));
        assert!(is_there, "{page}: no line begins with {start} ({reason})");
    }
}
