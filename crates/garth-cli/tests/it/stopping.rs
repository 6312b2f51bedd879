//! Imports and backups that end early: a full disk, Ctrl-C.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::garth::{Garth, text, utf8};
use super::serve::Server;

/// A mounted file system of a few MiB.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Self {
        fs::create_dir_all(at).expect("a folder");
        run("mount", &["-t", "tmpfs", "-o", "size=6m", "tmpfs", utf8(at)]);
        Self(at)
    }

    fn grow(&self) {
        run("mount", &["-o", "remount,size=64m", utf8(self.0)]);
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        run("umount", &[utf8(self.0)]);
    }
}

fn run(tool: &str, args: &[&str]) {
    let status = Command::new(tool).args(args).status();
    let status = status.unwrap_or_else(|error| panic!("{tool} (Debian: apt-get install mount): {error}"));
    assert!(status.success(), "{tool} {args:?} (needs root)");
}

#[test]
fn import_resumes_after_full_disk() {
    let garth = Garth::new();
    let data = garth.data();
    let disk = SmallDisk::mount(&data);
    let from = garth.beside("from");
    fs::create_dir(&from).expect("a folder");
    for number in 0_u32..1500 {
        // Bytes that do not compress and differ between files.
        let bytes: Vec<u8> =
            (0..2000_u32).flat_map(|at| (at ^ number).wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        fs::write(from.join(number.to_string()), bytes).expect("a file");
    }
    garth.write("/p/before", "b");
    let before = garth.seq();
    let output = garth.run(&["import", utf8(&from), "/p", "--json"], b"");
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(7), "{said}{printed}");
    assert!(said.contains("the disk of the data folder is full") && !said.contains("nothing was"), "{said}");
    assert!(said.contains(&format!("garth restore '/p' --at {before}")), "{said}");
    let summary: Value = serde_json::from_str(&printed).expect("a summary");
    let new = summary["new"].as_u64().expect("a count");
    assert!(0 < new && new < 1500, "{summary}");
    disk.grow();
    assert_eq!(garth.json(&["du", "/p"])["files"], new + 1, "the summary tells what is in");
    let again = garth.json(&["import", utf8(&from), "/p"]);
    assert_eq!((&again["same"], &again["new"]), (&new.into(), &(1500 - new).into()));
}

#[test]
fn server_with_full_disk_is_not_ready() {
    let garth = Garth::unmade();
    let data = garth.data();
    let disk = SmallDisk::mount(&data);
    let server = Server::of(&mut garth.command(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--json",
        "--min-free-disk",
        "64KiB",
    ]));
    let get = |path: &str| {
        let config = ureq::get(format!("{}{path}", server.url())).config().http_status_as_error(false);
        let mut answer = config.build().call().expect("an answer");
        (answer.status().as_u16(), answer.body_mut().read_to_string().expect("text"))
    };
    assert_eq!(get("/readyz").0, 200);
    let filler = data.join("filler");
    let mut file = fs::File::create(&filler).expect("a file");
    while file.write_all(&[7; 4096]).is_ok() {}
    drop(file);
    // An answer of a moment ago may be used again.
    while get("/readyz").0 == 200 {}
    let (status, text) = get("/readyz");
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("too little free space") && !text.contains(utf8(&data)), "{text}");
    assert_eq!(get("/healthz").0, 200);
    fs::remove_file(&filler).expect("a file");
    while get("/readyz").0 != 200 {}
    drop(server);
    drop(disk);
}

#[test]
fn failed_backup_leaves_no_copy() {
    let garth = Garth::new();
    let long: Vec<u8> =
        (0..2_000_000_u32).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    assert!(garth.run(&["write", "/big"], &long).status.success());
    let small = garth.beside("small");
    let disk = SmallDisk::mount(&small);
    let copy = small.join("copy");
    let said = garth.fails(7, &["backup", utf8(&copy)]);
    assert!(said.starts_with(&format!("garth: {}: ", utf8(&copy))), "{said}");
    assert!(!said.contains(utf8(&garth.data())), "{said}");
    assert_eq!(fs::read_dir(&small).expect("a folder").count(), 0, "nothing is left");
    disk.grow();
    garth.ok(&["backup", utf8(&copy)]);
    assert_eq!(fs::read_dir(&small).expect("a folder").count(), 1, "the copy alone");
    assert_eq!(garth.run(&["cat", "/big", "--data", utf8(&copy)], b"").stdout, long);
    garth.fails(4, &["backup", utf8(&copy)]);
}

#[test]
fn interrupted_import_can_be_resumed() {
    let garth = Garth::new();
    garth.ok(&["ls", "/"]);
    let mut archive = tar::Builder::new(Vec::new());
    for number in 0..700 {
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        header.set_mtime(1);
        archive.append_data(&mut header, number.to_string(), &b"x"[..]).expect("an entry");
    }
    let archive = archive.into_inner().expect("an archive");
    let mut child = garth.command(&["import", "-", "/p", "--json"]).spawn().expect("garth starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    input.write_all(&archive[..600 * 1024]).expect("it reads");
    while garth.run(&["ls", "/p"], b"").stdout.is_empty() {}
    run("kill", &["-INT", &child.id().to_string()]);
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("stopping"), "{line}");
    drop(input);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(rest.contains("import again to continue, or undo it: garth rm -r '/p'"), "{rest}");
    let summary: Value = serde_json::from_slice(&output.stdout).expect("a summary");
    let new = summary["new"].as_u64().expect("a count");
    assert_eq!(garth.json(&["du", "/p"])["files"], new, "the summary tells what is in");
    let again = garth.run(&["import", "-", "/p", "--json"], &archive);
    let again: Value = serde_json::from_slice(&again.stdout).expect("a summary");
    assert_eq!((&again["same"], &again["new"]), (&new.into(), &(700 - new).into()));
}
