//! `garth watch`: changes, as they become durable.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command};

use serde_json::{Value, json};

use super::garth::{Garth, string, text};

/// A running `garth watch`, killed when dropped.
struct Watching {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(garth: &Garth, args: &[&str]) -> Self {
        let mut child = garth.command(&[&["watch"][..], args].concat()).spawn().expect("garth starts");
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().expect("it is open").read_line(&mut line).expect("a line");
        assert!(line.ends_with('\n'), "it has ended: {line}");
        line
    }

    /// Returns the next change.
    fn change(&mut self) -> Value {
        serde_json::from_str(&self.line()).expect("JSON")
    }

    /// Waits for the end. Returns the exit code, and what it said.
    fn ended(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().expect("it ends").code();
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        (code, said)
    }

    /// Interrupts it as Ctrl-C does.
    fn interrupted(self) -> (Option<i32>, String) {
        let kill = format!("kill -INT {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh runs").success());
        self.ended()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watch_prints_changes_of_other_processes() {
    let garth = Garth::new();
    garth.write("/notes/a", "1");
    let since = garth.seq().to_string();
    let mut watching = Watching::start(&garth, &["--since", &since]);
    garth.write("/notes/a", "2");
    let line = watching.line();
    assert!(line.contains("modified    /notes/a"), "{line}");
    garth.ok(&["mv", "/notes", "/old"]);
    let line = watching.line();
    assert!(line.contains("renamed     /notes -> /old"), "{line}");
    let (code, said) = watching.interrupted();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("--since {}", garth.seq())), "{said}");
}

#[test]
fn watch_resumes_from_the_cursor_it_prints() {
    let garth = Garth::new();
    let (mut since, mut seen) = ("0".to_owned(), Vec::new());
    for round in 0..4 {
        for file in 0..3 {
            garth.write(&format!("/d{round}/{file}"), "x");
        }
        let mut watching = Watching::start(&garth, &["--json", "--since", &since]);
        // The directory, and a file in each commit.
        let mut last = Value::Null;
        for _ in 0..4 {
            last = watching.change();
            seen.push((last["seq"].clone(), last["path"].clone()));
        }
        assert!(last["cursor"].is_string() && last["kind"] == "created", "{last}");
        let (code, said) = watching.interrupted();
        assert_eq!(code, Some(0), "{said}");
        let end: Value = serde_json::from_str(&said).expect("JSON");
        since = string(&end["cursor"]);
    }
    let mut due = Vec::new();
    for commit in garth.lines(&["log", "/"]).iter().rev() {
        for change in commit["changes"].as_array().expect("changes") {
            due.push((commit["seq"].clone(), change["path"].clone()));
        }
    }
    assert_eq!(seen, due);
}

#[test]
fn watch_shows_only_its_path() {
    let garth = Garth::new();
    garth.write("/out/a", "1");
    let mut watching = Watching::start(&garth, &["/in", "--json", "--since", "0"]);
    garth.write("/out/b", "1");
    garth.write("/in/a", "1");
    garth.ok(&["mv", "/out/b", "/in/b"]);
    let changes = [watching.change(), watching.change(), watching.change()];
    let shown: Vec<_> = changes.iter().map(|change| (&change["kind"], &change["path"])).collect();
    let created = json!("created");
    assert_eq!(shown, [(&created, &json!("/in")), (&created, &json!("/in/a")), (&created, &json!("/in/b"))]);
    assert!(changes.iter().all(|change| !change.to_string().contains("/out")), "{changes:?}");
}

#[test]
fn watch_ends_when_its_output_is_closed() {
    let garth = Garth::new();
    garth.write("/a", "1");
    let mut watching = Watching::start(&garth, &["--since", "0"]);
    watching.line();
    drop(watching.stdout.take());
    garth.write("/a", "2");
    let (code, said) = watching.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("--since 1"), "{said}");
}

#[test]
fn watch_refuses_a_cursor_of_another_log() {
    let garth = Garth::new();
    garth.write("/a", "1");
    let output = garth.run(&["watch", "--since", "99"], b"");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("the last commit is 1"), "{said}");
}
