//! Text in a terminal: names, contents and arguments that would control it are shown escaped.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Stdio;

use regex::Regex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::garth::{Garth, text, utf8};

/// Window title, one-byte control sequence, text direction, line separator, zero-width space, tag.
const BAD: &str = "x\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\u{2028}\u{200b}\u{e0041}y";

/// A terminal that records its input.
struct Pty {
    master: File,
    slave: PathBuf,
}

impl Pty {
    fn open() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("the terminal is ours");
        unlockpt(&master).expect("the terminal opens");
        let slave = ptsname(&master, Vec::new()).expect("it has a name");
        Self { slave: slave.to_str().expect("UTF-8").into(), master: master.into() }
    }

    fn slave(&self) -> Stdio {
        File::options().read(true).write(true).open(&self.slave).expect("the terminal").into()
    }

    /// Returns all bytes up to the end of the last writer.
    fn written(mut self) -> Vec<u8> {
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        // On Linux the end is an error.
        while let Ok(length @ 1..) = self.master.read(&mut piece) {
            all.extend_from_slice(&piece[..length]);
        }
        all
    }
}

/// Runs `garth` with its output in a terminal. Returns this output.
fn seen(garth: &Garth, args: &[&str], input: &str) -> String {
    let pty = Pty::open();
    let mut command = garth.command(args);
    command.stdout(pty.slave()).stderr(pty.slave());
    let mut child = command.spawn().expect("garth starts");
    drop(command);
    let mut stdin = child.stdin.take().expect("a pipe");
    // A verb that reads no input may have ended already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let written = pty.written();
    child.wait().expect("garth ends");
    check(args, &written)
}

/// Panics if the output has a character that a terminal obeys or does not show, except line ends and the
/// characters of a progress bar.
fn check(args: &[&str], written: &[u8]) -> String {
    let shown = std::str::from_utf8(written).unwrap_or_else(|_| panic!("garth {args:?}: {written:?}"));
    let strokes = Regex::new(r"\x1b\[[0-9]*[A-DKm]").expect("a valid pattern");
    let rest = strokes.replace_all(shown, "");
    let hidden = Regex::new(r"[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\r\n\t]]").expect("a valid pattern");
    assert!(!hidden.is_match(&rest), "garth {args:?} shows {rest:?}");
    rest.into_owned()
}

/// Creates a data folder in which each name and text is the bad one.
fn scene() -> Garth {
    let garth = Garth::new();
    let (file, dir) = (format!("/dir-{BAD}/file-{BAD}"), format!("/dir-{BAD}"));
    garth.feed(&["write", "-p", &file, "-m", BAD], &format!("needle {BAD}\n"));
    garth.feed(&["write", &file], &format!("needle two {BAD}\n"));
    garth.ok(&["set", &file, "--tag", BAD, "--meta", &format!("k={BAD}"), "--content-type", "text/plain"]);
    garth.ok(&["ln", "-s", &file, &format!("/link-{BAD}")]);
    garth.ok(&["snapshot", "create", "kept"]);
    garth.ok(&["overlay", "create", "draft", "--of", &dir]);
    garth.feed(&["write", &format!("/new-{BAD}"), "--overlay", "draft"], BAD);
    // A pattern must be visible as it is.
    let pattern = format!("{}/**", dir.replace(|c: char| !c.is_ascii_graphic(), "?"));
    garth.ok(&["rule", "set", &pattern, "max-size", "--bytes", "10M"]);
    garth.ok(&["quota", "set", &dir, "--max-bytes", "10M"]);
    garth.ok(&["kv", "put", "/bad", &serde_json::json!(BAD).to_string()]);
    garth.ok(&["session", "create", "work", "--title", "d\u{202e}e"]);
    garth.feed(&["session", "append", "work", "--role", "user"], &format!("needle {BAD}"));
    let event = serde_json::json!({"type": "note", "text": BAD}).to_string();
    garth.feed(&["session", "append", "work", "--events"], &event);
    garth.feed(&["daily", "add"], &format!("needle {BAD}"));
    garth.feed(&["memory", "put", "ctx://default/users/ann/memories/events/one"], &format!("needle {BAD}"));
    let skill = garth.beside("pdf");
    std::fs::create_dir(&skill).expect("a new directory");
    let front = format!("---\nname: pdf\ndescription: \"d\u{202e}e\"\n---\n{BAD}\nsecond line\n");
    std::fs::write(skill.join("SKILL.md"), front).expect("a file is written");
    // Installed, with a warning.
    let installed = garth.run(&["skill", "install", utf8(&skill)], b"");
    assert_eq!(installed.status.code(), Some(1));
    garth
}

#[test]
fn no_command_prints_control_sequences() {
    let garth = scene();
    let (file, dir) = (format!("/dir-{BAD}/file-{BAD}"), format!("/dir-{BAD}"));
    let out = garth.beside(&format!("out-{}", BAD.replace('\u{9b}', "")));
    let (file, dir, out) = (file.as_str(), dir.as_str(), utf8(&out));
    let batch = serde_json::json!({"op": "write", "path": format!("/batch-{BAD}"), "text": BAD}).to_string();
    let shows: &[&[&str]] = &[
        &["ls", "-l", "/", dir],
        &["ls", "-R"],
        &["tree"],
        &["cat", file],
        &["cat", "-n", file],
        &["head", file],
        &["tail", file],
        &["stat", file],
        &["du", dir],
        &["find", "/"],
        &["glob", "/**"],
        &["grep", "needle"],
        &["search", "needle"],
        &["recall", "needle"],
        &["log"],
        &["log", file],
        &["blame", file],
        &["show", "1"],
        &["diff", file, "--from", "1"],
        &["snapshot", "list"],
        &["overlay", "list"],
        &["overlay", "diff", "draft"],
        &["rule", "list"],
        &["quota", "list"],
        &["usage"],
        &["kv", "get", "/bad"],
        &["kv", "list"],
        &["kv", "log", "/bad"],
        &["session", "list"],
        &["session", "show", "work"],
        &["session", "messages", "work"],
        &["session", "events", "work"],
        &["context", "pack", "work"],
        &["daily", "show"],
        &["daily", "list"],
        &["agent", "prompt"],
        &["memory", "get", "ctx://default/users/ann/memories/events/one"],
        &["memory", "list"],
        &["skill", "list"],
        &["skill", "show", "pdf"],
        &["outbox", "status"],
        &["outbox", "list"],
        &["account", "list"],
        &["key", "list"],
        &["chat", "list"],
        &["fsck"],
        &["export", dir, out, "-v"],
        &["import", out, dir, "-v"],
        &["export", "/", "-"],
        &["batch"],
        &["restore", file, "--at", "1"],
        &["cp", file, &format!("/copy-{BAD}")],
        &["mv", &format!("/copy-{BAD}"), &format!("/moved-{BAD}")],
        &["rm", &format!("/moved-{BAD}")],
    ];
    let mut steered = 0;
    for args in shows {
        steered += usize::from(seen(&garth, args, &batch).contains("\\u{202e}"));
        seen(&garth, &[args, &["--json"][..]].concat(), &batch);
    }
    assert!(steered > 25, "only {steered} of {} show the name or content at all", shows.len());
}

#[test]
fn no_error_repeats_control_sequences() {
    let garth = Garth::new();
    let verbs = garth.ok(&["__complete", ""]);
    assert!(verbs.lines().count() > 50, "{verbs}");
    let option = format!("--{BAD}");
    for verb in verbs.lines().chain([BAD]) {
        for args in [&[verb, &option][..], &[verb, BAD], &[verb, "list", BAD], &[verb, BAD, BAD, "--json"]] {
            seen(&garth, args, BAD);
        }
    }
    seen(&garth, &["ls", "--data", utf8(&garth.beside("no-\u{202e}\u{1b}[2J"))], "");
    seen(&garth, &["ls", "--account", BAD], "");
}

#[test]
fn json_on_a_terminal_keeps_its_value() {
    let garth = scene();
    let shown = seen(&garth, &["kv", "get", "/bad", "--json"], "");
    let shown: serde_json::Value = serde_json::from_str(shown.trim()).expect("one object");
    assert_eq!(shown, garth.json(&["kv", "get", "/bad"]));
}

#[test]
fn pipes_get_the_exact_content() {
    let garth = scene();
    let cat = garth.run(&["cat", &format!("/dir-{BAD}/file-{BAD}")], b"");
    assert_eq!(text(&cat.stdout), format!("needle two {BAD}\n"));
}

#[test]
fn lines_in_pipes_keep_their_order() {
    // Without `show` and `diff`: a patch is exact in a pipe, so that it can be applied.
    let garth = scene();
    let (file, dir) = (format!("/dir-{BAD}/file-{BAD}"), format!("/dir-{BAD}"));
    let (file, dir) = (file.as_str(), dir.as_str());
    let shows: &[&[&str]] = &[
        &["ls", "-l", "/", dir],
        &["ls", "-R"],
        &["tree"],
        &["stat", file],
        &["du", dir],
        &["find", "/"],
        &["glob", "/**"],
        &["grep", "needle"],
        &["search", "needle"],
        &["search", "needle", "-C", "1"],
        &["log"],
        &["log", file],
        &["blame", file],
        &["overlay", "diff", "draft"],
        &["rule", "list"],
        &["quota", "list"],
        &["usage"],
        &["session", "list"],
        &["session", "show", "work"],
        &["session", "messages", "work"],
        &["session", "events", "work"],
        &["memory", "list"],
        &["skill", "list"],
    ];
    let mut escaped = 0;
    for args in shows {
        let shown = text(&garth.run(args, b"").stdout);
        let raw = shown.find(['\u{1b}', '\u{9b}', '\u{2028}', '\u{202e}']);
        assert_eq!(raw, None, "garth {args:?} shows {shown:?}");
        escaped += usize::from(shown.contains("\\u{202e}"));
    }
    assert!(escaped > 12, "only {escaped} of {} show a name or text", shows.len());
    assert!(garth.ok(&["find", "/", "-0"]).contains(file), "exact names");
    assert_eq!(garth.lines(&["ls", dir])[0]["path"], file);
}
