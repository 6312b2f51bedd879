//! Reads work where nothing can be written: on a full disk and on a read-only one, by the real binary,
//! without a process that had opened the data folder before. On a full disk, keys can be revoked and accounts
//! deleted, too.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use futures::executor::block_on;
use garth_engine::home::Scope;
use garth_engine::{DataDir, Env, FileSystemExt as _};
use garth_testkit::crash::Disk;

use super::support::garth;

/// Size of the disk, in bytes. Small, because the test fills it.
const SIZE: u64 = 64 << 20;

/// Every verb that reads, with arguments for the data that [`fill`] writes. `OUT` is a name on another disk,
/// a new one for each run.
const READING: [&[&str]; 50] = [
    &["config"],
    &["retention"],
    &["account", "list"],
    &["key", "list"],
    &["rule", "list"],
    &["kv", "get", "/user/tone"],
    &["kv", "list", "/"],
    &["kv", "log", "/user/tone"],
    &["memory", "list"],
    &["session", "list"],
    &["session", "archives"],
    &["agent", "prompt", "--clock", "2026-03-02T09:30:00Z"],
    &["agent", "prompt", "diff", "--from", "spring", "--clock", "2026-03-02T09:30:00Z"],
    &["status"],
    &["daily", "show", "2026-03-02"],
    &["daily", "list"],
    &["skill", "list"],
    &["skill", "show", "pdf"],
    &["media", "list", "--key", "agent:default:main"],
    &["ls", "-l", "/notes"],
    &["chat", "list"],
    &["outbox", "list"],
    &["tree", "/", "--user", "ann", "--chat", "trip"],
    &["overlay", "list"],
    &["quota", "list"],
    &["overlay", "diff", "trial"],
    &["tree", "/", "--overlay", "trial"],
    &["tree", "/"],
    &["cat", "/notes/plan.md"],
    &["cat", "/large"],
    &["head", "/notes/plan.md"],
    &["tail", "/notes/plan.md"],
    &["find", "/"],
    &["stat", "/notes/plan.md"],
    &["log"],
    &["log", "/notes/plan.md"],
    &["blame", "/notes/plan.md"],
    &["show", "spring"],
    &["diff", "/notes/plan.md", "--from", "spring"],
    &["cat", "/notes/plan.md", "--at", "spring"],
    &["snapshot", "list"],
    &["glob", "/**"],
    &["grep", "herbs", "/notes/plan.md"],
    &["search", "herbs"],
    &["recall", "herbs"],
    &["du", "/"],
    &["fsck"],
    &["export", "/", "OUT"],
    &["backup", "OUT"],
    &["completions", "bash"],
];

/// All other verbs.
const WRITING: [&str; 30] = [
    "remember", "forget", "context", "serve", "repair", "agent", "write", "append", "mkdir", "rm", "mv",
    "cp", "ln", "restore", "import", "gc", "reindex", "touch", "set", "batch", "maintain", "help", "account",
    "chmod", "chown", // In a folder of its own.
    "eval",  // Counts the files of the account, which grow while other commands read.
    "usage", // Ask a server, or wait for ever.
    "health", "mcp", "watch",
];

/// Returns the binary on a data folder, without environment variables that could change its behaviour.
fn command(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(garth());
    for name in ["GARTH_ACCOUNT", "GARTH_AGENT", "GARTH_LOG"] {
        command.env_remove(name);
    }
    command.env("GARTH_DATA", data).args(args);
    command
}

fn ok(data: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut child = command(data, args);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "garth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn fill(data: &Path) {
    ok(data, &["account", "create", "default"], b"");
    ok(data, &["write", "-p", "/notes/plan.md"], b"Water the herbs before noon.\n");
    ok(data, &["agent", "create", "default"], b"");
    ok(data, &["daily", "add", "Herbs are watered.", "--day", "2026-03-02"], b"");
    ok(data, &["write", "-p", "/skills/pdf/SKILL.md"], b"---\nname: pdf\n---\nUse pdftotext.\n");
    ok(data, &["session", "create", "main", "--key", "agent:default:main"], b"");
    ok(data, &["media", "put", "--key", "agent:default:main", "--mime-type", "image/png", "-"], b"PNG");
    ok(data, &["snapshot", "create", "spring"], b"");
    ok(data, &["write", "/notes/plan.md"], b"Water the herbs after noon.\n");
    ok(data, &["write", "/large"], &vec![b'x'; 3 << 20]);
    ok(data, &["kv", "put", "/user/tone", "\"direct\""], b"");
    ok(data, &["key", "create"], b"");
    // The other directories of the chat are not created yet.
    ok(data, &["write", "-p", "/chats/trip/plan.md"], b"pack\n");
    ok(data, &["chat", "own", "trip", "ann"], b"");
    ok(data, &["overlay", "create", "trial"], b"");
    ok(data, &["quota", "set", "/notes", "--max-bytes", "1MiB"], b"");
    ok(data, &["write", "/notes/new.md", "--overlay", "trial"], b"Dig.\n");
}

/// Writes a file until nothing more fits on the disk. It stays open, because closing a file can free space
/// that the filesystem has set aside for it.
fn fill_up(disk: &Disk) -> File {
    let mut filler = File::create(disk.mount_point().join("filler")).unwrap();
    // In large steps, then byte by byte until nothing fits.
    for size in [1 << 16, 1] {
        while filler.write_all(&vec![7; size]).is_ok() {}
    }
    filler
}

/// Returns the verbs that `garth --help` lists.
fn verbs() -> Vec<String> {
    let help = command(Path::new("/nowhere"), &["--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, groups) = help.split_once("All commands:\n").unwrap();
    let (groups, _) = groups.split_once("\n\n").unwrap();
    // The first word of a group is its name, which begins with a capital letter.
    let words = groups.split_whitespace().filter(|word| word.bytes().all(|b| b.is_ascii_lowercase()));
    words.map(str::to_owned).collect()
}

/// Returns the output of every reading verb.
fn read(data: &Path) -> Vec<(&'static [&'static str], Result<String, String>)> {
    let verbs = verbs();
    let there = READING.into_iter().filter(|args| verbs.iter().any(|verb| verb == args[0]));
    let run = |args: &'static [&'static str]| {
        let elsewhere = tempfile::tempdir().unwrap();
        let out = elsewhere.path().join("out");
        let filled: Vec<_> =
            args.iter().map(|arg| if *arg == "OUT" { out.to_str().unwrap() } else { arg }).collect();
        let output = command(data, &filled).output().unwrap();
        let said = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace(out.to_str().unwrap(), "OUT");
            let text = text.replace(data.to_str().unwrap(), "DATA");
            // Each run has its own random code in the fences around recalled text. The files of a backup are
            // shorter, because they have no free pages. The space that the disk has left is tested below.
            let differs = ["[garth:", "size ", "stored ", "free ", "wal ", "attention "];
            let same = |line: &&str| !differs.iter().any(|start| line.starts_with(start));
            text.lines().filter(same).collect::<Vec<_>>().join("\n")
        };
        let printed =
            if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) };
        (args, printed)
    };
    there.map(run).collect()
}

#[track_caller]
fn assert_reads_the_same(data: &Path, before: &[(&[&str], Result<String, String>)]) {
    for ((args, found), (_, expected)) in read(data).iter().zip(before) {
        assert!(expected.is_ok(), "garth {args:?} before: {expected:?}");
        assert_eq!(found, expected, "garth {args:?}");
    }
}

#[test]
fn every_command_is_classified_as_reading_or_writing() {
    let verbs = verbs();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        let known = READING.iter().any(|args| args[0] == verb) || WRITING.contains(&verb.as_str());
        assert!(known, "`{verb}` belongs into READING or WRITING");
    }
}

#[test]
fn reading_commands_work_on_full_disk() {
    let disk = Disk::of_size(SIZE).unwrap_or_else(|why| panic!("{why}"));
    let data = disk.mount_point().join("data");
    fill(&data);
    let before = read(&data);
    let _filler = fill_up(&disk);
    assert_reads_the_same(&data, &before);
    let refused = command(&data, &["mkdir", "/new"]).output().unwrap();
    assert!(!refused.status.success(), "the disk is full indeed");
    let status = ok(&data, &["status"], b"").stdout;
    let status = String::from_utf8_lossy(&status);
    assert!(status.contains("attention  the disk has "), "{status}");
}

#[test]
fn keys_are_revoked_and_accounts_deleted_on_full_disk() {
    let disk = Disk::of_size(SIZE).unwrap_or_else(|why| panic!("{why}"));
    let data = disk.mount_point().join("data");
    ok(&data, &["account", "create", "default"], b"");
    ok(&data, &["account", "create", "acme"], b"");
    ok(&data, &["--account", "acme", "write", "/note"], b"text");
    let created = ok(&data, &["key", "create", "--json"], b"").stdout;
    let created: serde_json::Value = serde_json::from_slice(&created).unwrap();
    let id = created["id"].as_str().unwrap();
    let _filler = fill_up(&disk);
    let refused = command(&data, &["key", "create"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(7), "the disk is full indeed");
    // Without a tree that would find no space.
    let exists = command(&data, &["account", "create", "acme"]).output().unwrap();
    assert_eq!(exists.status.code(), Some(4), "{}", String::from_utf8_lossy(&exists.stderr));
    ok(&data, &["key", "revoke", id], b"");
    assert_eq!(ok(&data, &["key", "list"], b"").stdout, b"");
    ok(&data, &["account", "rm", "acme", "--yes"], b"");
    assert!(!String::from_utf8_lossy(&ok(&data, &["account", "list"], b"").stdout).contains("acme"));
}

#[test]
fn one_process_revokes_any_number_of_keys_on_full_disk() {
    let disk = Disk::of_size(SIZE).unwrap_or_else(|why| panic!("{why}"));
    let open = || DataDir::open(&disk.mount_point().join("data"), Env::system(), garth_agent::registry());
    let home = open().unwrap();
    block_on(home.create_account("acme")).unwrap();
    block_on(block_on(home.account("acme")).unwrap().write("/note", "text")).unwrap();
    let create = |_| block_on(home.control().create_key("acme", "", &[Scope::Admin])).unwrap();
    let keys: Vec<_> = (0..100).map(create).collect();
    let filler = fill_up(&disk);
    assert!(block_on(home.control().create_key("acme", "", &[Scope::Admin])).is_err());
    for (key, secret) in &keys {
        block_on(home.control().revoke_key(Some("acme"), &key.id)).unwrap();
        assert!(block_on(home.control().authenticate(secret.reveal())).unwrap().is_none());
    }
    block_on(home.delete_account("acme")).unwrap();
    assert_eq!(block_on(home.control().accounts()).unwrap(), []);
    drop((home, filler));
    // With space again, the next change makes the reserve for the next time.
    std::fs::remove_file(disk.mount_point().join("filler")).unwrap();
    block_on(open().unwrap().create_account("beta")).unwrap();
    assert!(disk.mount_point().join("data/control.db.reserve").exists());
}

#[test]
fn reading_commands_work_on_read_only_disk() {
    let disk = Disk::of_size(SIZE).unwrap_or_else(|why| panic!("{why}"));
    let [data, backup] = ["data", "backup"].map(|name| disk.mount_point().join(name));
    fill(&data);
    ok(&data, &["backup", backup.to_str().unwrap()], b"");
    let before = read(&data);
    disk.make_read_only().unwrap();
    assert_reads_the_same(&data, &before);
    assert_reads_the_same(&backup, &before);
    let refused = command(&data, &["mkdir", "/new"]).output().unwrap();
    assert!(!refused.status.success(), "the disk is read-only indeed");
}
