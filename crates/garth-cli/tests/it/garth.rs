//! Runs the binary in its own data folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A data folder with the account `default`, in a temporary folder with room for other files.
pub(crate) struct Garth {
    dir: TempDir,
}

impl Garth {
    pub(crate) fn new() -> Self {
        let garth = Self::unmade();
        garth.ok(&["account", "create", "default"]);
        garth
    }

    /// Returns a data folder that does not exist yet.
    pub(crate) fn unmade() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Returns a path next to the data folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.beside("data")
    }

    /// Returns the command without environment variables that could change its behavior.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = bare(args);
        // Relative paths of an argument must not lead into the sources.
        command.env("GARTH_DATA", self.data()).current_dir(self.dir.path());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str], input: &[u8]) -> Output {
        finish(self.command(args), input)
    }

    /// Runs a command that must succeed. Returns its stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.feed(args, "")
    }

    /// Runs a command that must succeed with this input. Returns its stdout.
    pub(crate) fn feed(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input.as_bytes());
        assert!(output.status.success(), "garth {args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that must fail with this exit code. Returns its stderr.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args, b"input");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "garth {args:?}: {}{stderr}", text(&output.stdout));
        assert_eq!(text(&output.stdout), "", "garth {args:?} printed something");
        stderr
    }

    /// Runs a command with `--json`. Returns each line as JSON.
    pub(crate) fn lines(&self, args: &[&str]) -> Vec<Value> {
        let printed = self.ok(&[args, &["--json"]].concat());
        printed.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    /// Runs a command with `--json`. Returns its only object.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut lines = self.lines(args);
        assert_eq!(lines.len(), 1, "garth {args:?} prints one object: {lines:?}");
        lines.remove(0)
    }

    /// Writes a file and creates its parents. Returns its version.
    pub(crate) fn write(&self, path: &str, content: &str) -> String {
        let printed = self.feed(&["write", "-p", path, "--json"], content);
        let json: Value = serde_json::from_str(&printed).expect("JSON");
        string(&json["version"])
    }

    /// Returns the sequence of the last commit.
    pub(crate) fn seq(&self) -> u64 {
        self.json(&["log", "-n", "1"])["seq"].as_u64().expect("a sequence")
    }
}

/// Returns the program under test: the one built with the tests, or the one in `GARTH_BIN`.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("GARTH_BIN").map_or_else(|| env!("CARGO_BIN_EXE_garth").into(), PathBuf::from)
}

/// Returns the command without a data folder.
pub(crate) fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    for name in [
        "ENABLE_METRICS",
        "METRICS_TOKEN",
        "GARTH_DATA",
        "GARTH_POSTGRES",
        "GARTH_POSTGRES_FILE",
        "GARTH_ACCOUNT",
        "GARTH_AGENT",
        "GARTH_CONFIG",
        "GARTH_ENV",
        "GARTH_USER",
        "GARTH_LOG",
        "GARTH_SINK",
        "GARTH_EMBEDDER",
        "GARTH_EMBEDDER_ENDPOINT",
        "XDG_DATA_HOME",
    ] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end with this input.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().expect("garth starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || {
        // A verb that reads no input may have ended already.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("garth ends");
    feeder.join().expect("the input was fed");
    output
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

pub(crate) fn string(json: &Value) -> String {
    json.as_str().unwrap_or_else(|| panic!("a string, not {json}")).to_owned()
}

/// Returns the strings at `key` of each object.
pub(crate) fn column(lines: &[Value], key: &str) -> Vec<String> {
    lines.iter().map(|line| string(&line[key])).collect()
}

pub(crate) fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
