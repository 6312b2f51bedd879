//! Import and export of a folder in the bucket layout.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::garth::{Garth, text, utf8};

const IMPORT: [&str; 3] = ["import", "--layout", "gsv"];
const EXPORT: [&str; 3] = ["export", "--layout", "gsv"];
const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const KEY: &str = "agent:scout:main";
const NO_FILE: &str = "metadata of a file that does not exist";

fn put(top: &Path, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = top.join(path);
    fs::create_dir_all(path.parent().expect("it has one")).expect("folders");
    fs::write(&path, content).expect("a file");
    path
}

/// Writes metadata as an export does.
fn sidecar(top: &Path, path: &str, json: &Value) -> PathBuf {
    let json = serde_json::to_string_pretty(json).expect("JSON") + "\n";
    put(top, &format!("{path}.metadata.json"), json)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(text.as_bytes()).expect("memory");
    gzip.finish().expect("memory")
}

/// Returns the content of each file of a folder, the target of each link, and `None` for each directory.
fn content(top: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = utf8(path.strip_prefix(top).expect("below the top")).to_owned();
            let meta = fs::symlink_metadata(&path).expect("its metadata");
            let what = if meta.is_symlink() {
                Some(fs::read_link(&path).expect("a target").as_os_str().as_bytes().to_vec())
            } else if meta.is_file() {
                Some(fs::read(&path).expect("its content"))
            } else {
                todo.push(path);
                None
            };
            found.insert(name, what);
        }
    }
    found
}

/// Creates a bucket with an entry of each kind: 19 files and a link.
fn make_bucket(top: &Path) {
    for name in ["SOUL", "IDENTITY", "USER", "AGENTS", "MEMORY", "TOOLS", "HEARTBEAT"] {
        put(top, &format!("agents/scout/{name}.md"), format!("# {name}\n\nüöä 日本語\n"));
    }
    put(top, "agents/scout/memory/2026-01-27.md", "### Extracted from context compaction (09:30)\n\nx\n");
    put(top, "agents/scout/notes.txt", "kept as they are");
    put(top, "agents/scout/fragments.jsonl", "{\"id\": \"a\", \"type\": \"term\", \"text\": \"b\"}\n");
    put(top, "agents/scout/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF\n---\n");
    put(top, "agents/scout/skills/pdf/scripts/read.py", "print()\n");
    put(top, "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: For all\n---\n");
    sidecar(top, "skills/pdf/SKILL.md", &json!({"contentType": "text/markdown; charset=utf-8"}));
    put(top, "README", "at the top");
    let session = json!({"sessionKey": KEY, "sessionId": ID, "agentId": "scout", "messageCount": "2",
        "archivedAt": "1769506200000"});
    let archive = format!("agents/scout/sessions/{ID}.jsonl.gz");
    put(top, &archive, gzip("{\"role\":\"user\",\"content\":\"Hello\",\"timestamp\":1708300000000}\n"));
    let mut metadata = session.clone();
    for (name, value) in [("inputTokens", "10"), ("outputTokens", "5"), ("totalTokens", "15")] {
        metadata[name] = value.into();
    }
    sidecar(top, &archive, &json!({"contentType": "application/gzip", "customMetadata": metadata}));
    let part = format!("agents/scout/sessions/{ID}-part1769506200000.jsonl.gz");
    put(top, &part, gzip("{\"role\":\"user\",\"content\":\"Hi\"}\n"));
    let mut metadata = session;
    metadata["partNumber"] = "1769506200000".into();
    sidecar(top, &part, &json!({"customMetadata": metadata}));
    let media = format!("media/{KEY}/{ID}.png");
    put(top, &media, (0..200_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let metadata =
        json!({"originalFilename": "\"Straße\" \\ 日本\n😀.png", "uploadedAt": "1", "sessionKey": KEY});
    sidecar(top, &media, &json!({"contentType": "image/png", "customMetadata": metadata}));
    let second = "media/agent:scout:whatsapp:dm:+49123/11111111-2222-4333-8444-555555555555.ogg";
    put(top, second, [0, 255, 1, 254]);
    sidecar(top, second, &json!({"contentType": "audio/ogg", "customMetadata": {"originalFilename": ""}}));
    put(top, "media/agent:scout:main/empty.bin", "");
    symlink("SOUL.md", top.join("agents/scout/link.md")).expect("a link");
    fs::create_dir(top.join("agents/scout/empty")).expect("a folder");
}

/// Returns the attributes of an entry of the tree.
fn attributes(garth: &Garth, path: &str) -> Value {
    garth.json(&["stat", path])["attributes"].clone()
}

fn with<'a>(verb: [&'a str; 3], rest: &[&'a str]) -> Vec<&'a str> {
    [&verb, rest].concat()
}

/// Runs an import that must refuse the folder. Returns its stderr.
fn refused(garth: &Garth, folder: &Path) -> String {
    let seq = garth.json(&["log", "-n", "1"])["seq"].clone();
    let said = garth.fails(1, &with(IMPORT, &[utf8(folder)]));
    assert!(said.contains("nothing was imported"), "{said}");
    assert_eq!(garth.json(&["log", "-n", "1"])["seq"], seq);
    said
}

#[test]
fn bucket_round_trips_byte_for_byte() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_bucket(&from);
    let count = garth.json(&with(IMPORT, &[utf8(&from)]));
    assert_eq!(
        (&count["files"], &count["symlinks"], &count["failed"], &count["same"]),
        (&json!(19), &json!(1), &json!(0), &json!(0)),
        "{count}"
    );
    let archive = attributes(&garth, &format!("/agents/scout/sessions/{ID}.jsonl.gz"));
    assert_eq!(archive["content_type"], "application/gzip");
    assert_eq!(
        (&archive["metadata"]["totalTokens"], &archive["metadata"]["sessionKey"]),
        (&json!("15"), &json!(KEY))
    );
    let media = attributes(&garth, &format!("/media/{KEY}/{ID}.png"));
    assert_eq!(media["metadata"]["garth.media"], ID);
    assert_eq!(media["metadata"]["originalFilename"], "\"Straße\" \\ 日本\n😀.png");
    let count = garth.json(&with(EXPORT, &[utf8(&to)]));
    assert_eq!((&count["files"], &count["failed"], &count["left_out"]), (&json!(19), &json!(0), &json!(0)));
    assert_eq!(content(&to), content(&from));
    let again = garth.json(&with(EXPORT, &["/", utf8(&to)]));
    assert_eq!((&again["new"], &again["changed"]), (&json!(0), &json!(0)), "{again}");
}

#[test]
fn importing_an_unchanged_bucket_commits_nothing() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_bucket(&from);
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    garth.ok(&with(EXPORT, &[utf8(&to)]));
    for folder in [&from, &to] {
        let count = garth.json(&with(IMPORT, &[utf8(folder), "--delete"]));
        assert_eq!(
            (&count["new"], &count["changed"], &count["removed"], &count["seq"]),
            (&json!(0), &json!(0), &json!(0), &Value::Null),
            "{count}"
        );
    }
    let said = garth.ok(&with(IMPORT, &[utf8(&from)]));
    assert!(said.starts_with("imported to /: 0 new, 0 changed, 3"), "{said}");
}

#[test]
fn bucket_import_has_no_agent_as_author() {
    let garth = Garth::new();
    let from = garth.beside("from");
    make_bucket(&from);
    garth.ok(&with(IMPORT, &[utf8(&from), "--agent", "scout"]));
    let log = garth.lines(&["log"]);
    assert!(log[0]["message"] == "import to /", "{log:?}");
    for commit in log {
        assert_eq!(commit["author"].get("agent"), None, "{commit}");
    }
}

#[test]
fn changed_metadata_is_imported_without_content() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_bucket(&from);
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    garth.ok(&with(EXPORT, &[utf8(&to)]));
    let skill = "/skills/pdf/SKILL.md";
    garth.ok(&["set", "--add-tag", "mine", skill, "--override-rules"]);
    let path = sidecar(&from, &skill[1..], &json!({"customMetadata": {"a": "1"}}));
    let count = garth.json(&with(IMPORT, &[utf8(&from)]));
    assert_eq!((&count["changed"], &count["bytes"]), (&json!(1), &json!(0)), "{count}");
    let stat = attributes(&garth, skill);
    assert_eq!(
        stat,
        json!({"metadata": {"a": "1"}, "tags": ["mine"]}),
        "the tag is no part of the layout, and stays"
    );
    // A removed sidecar means that the file has no metadata.
    fs::remove_file(path).expect("it is there");
    let stale = to.join("skills/pdf/SKILL.md.metadata.json");
    let count = garth.json(&with(EXPORT, &[utf8(&to)]));
    assert_eq!((&count["changed"], &count["failed"]), (&json!(1), &json!(0)), "{count}");
    assert_eq!(fs::read_to_string(&stale).expect("it is there").lines().nth(2), Some("    \"a\": \"1\""));
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    let dry = garth.json(&with(EXPORT, &[utf8(&to), "--dry-run"]));
    assert_eq!((&dry["changed"], stale.exists()), (&json!(2), true), "the time of the directory, too: {dry}");
    garth.ok(&with(EXPORT, &[utf8(&to)]));
    assert!(!stale.exists(), "the file has no metadata any more");
    assert_eq!(content(&to), content(&from));
}

#[test]
fn wrong_metadata_refuses_the_import() {
    let garth = Garth::new();
    garth.write("/there", "x");
    let from = garth.beside("from");
    make_bucket(&from);
    for (json, why) in [
        ("", "EOF"),
        ("[1]", "not a JSON object"),
        (r#"{"contentType": "a", "etag": "b"}"#, "unknown field `etag`"),
        (r#"{"customMetadata": {"messageCount": 2}}"#, "integer `2`"),
        (r#"{"customMetadata": {"a": "1", "a": "2"}}"#, "duplicate key"),
        (r#"{"customMetadata": {"garth.media": "x"}}"#, "garth.media"),
    ] {
        let path = put(&from, "agents/scout/notes.txt.metadata.json", json);
        let said = refused(&garth, &from);
        assert!(said.contains(why) && said.contains(utf8(&path)), "{json}: {said}");
        fs::remove_file(path).expect("it is there");
    }
    put(&from, "agents/scout/gone.metadata.json", "{}");
    put(&from, "agents/scout/empty.metadata.json", "{}");
    put(&from, "agents/scout/link.md.metadata.json", "{}");
    let said = refused(&garth, &from);
    assert_eq!(said.matches(NO_FILE).count(), 3, "a directory and a link have none: {said}");
    garth.ok(&with(IMPORT, &[utf8(&from), "--exclude", "*.metadata.json"]));
}

#[test]
fn bucket_layout_leaves_reserved_data_alone() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_bucket(&from);
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    let own = [
        "/agents/scout/settings.json",
        "/agents/scout/kv/a/b.json",
        "/agents/other/memories/facts/x/content.md",
        "/agents/scout/skills/pdf/.meta.json",
        "/users/u/agents/scout/session/s/summary.md",
        "/chats/c/x.txt",
        "/.outbox/x",
    ];
    for path in own {
        garth.feed(&["write", "-p", path, "--override-rules"], "{}");
    }
    garth.ok(&["ln", "-s", "SKILL.md", "/agents/scout/skills/pdf/content.md"]);
    let output = garth.run(&with(EXPORT, &[utf8(&to), "--json"]), b"");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("8 entries reserved for garth"), "{said}");
    let count: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&count["left_out"], &count["failed"]), (&json!(8), &json!(0)));
    // The empty directory of an agent is exported again.
    fs::remove_dir(to.join("agents/other")).expect("an empty folder");
    assert_eq!(content(&to), content(&from));
    fs::remove_dir_all(from.join("agents")).expect("it is there");
    let count = garth.json(&with(IMPORT, &[utf8(&from), "--delete"]));
    assert_eq!(count["failed"], 0, "{count}");
    for path in own {
        assert_eq!(garth.ok(&["cat", path]), "{}");
    }
    garth.fails(3, &["stat", "/agents/scout/SOUL.md"]);
    for path in own {
        let path = put(&from, &path[1..], "{}");
        let said = refused(&garth, &from);
        assert!(said.contains("reserved for garth"), "{said}");
        fs::remove_file(path).expect("it is there");
        for name in ["users", "chats", ".outbox", "agents"] {
            let _ = fs::remove_dir_all(from.join(name));
        }
    }
}

#[test]
fn archived_media_round_trip_at_original_paths() {
    let garth = Garth::new();
    let (from, to, back) = (garth.beside("from"), garth.beside("to"), garth.beside("back"));
    make_bucket(&from);
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    let (old, new) =
        (format!("/media/{KEY}/{ID}.png"), format!("/agents/scout/sessions/{ID}/media/{ID}.png"));
    garth.ok(&["mkdir", "-p", &format!("/agents/scout/sessions/{ID}/media")]);
    garth.ok(&["mv", &old, &new]);
    garth.ok(&["rm", "-r", "/media/agent:scout:main"]);
    let count = garth.json(&with(EXPORT, &[utf8(&to)]));
    assert_eq!(count["failed"], 0, "{count}");
    fs::remove_file(from.join("media/agent:scout:main/empty.bin")).expect("it is there");
    assert_eq!(content(&to), content(&from));
    // The import finds the file by its id and leaves it there.
    let count = garth.json(&with(IMPORT, &[utf8(&to), "--delete"]));
    assert_eq!(
        (&count["new"], &count["removed"], &count["seq"]),
        (&json!(0), &json!(0), &Value::Null),
        "{count}"
    );
    let elsewhere = Garth::new();
    elsewhere.ok(&with(IMPORT, &[utf8(&to)]));
    assert_eq!(attributes(&elsewhere, &old)["metadata"]["garth.media"], ID);
    elsewhere.ok(&with(EXPORT, &[utf8(&back)]));
    assert_eq!(content(&back), content(&from));
    // A file that is missing in the folder is removed, wherever it is in the tree.
    fs::remove_dir_all(to.join("media").join(KEY)).expect("it is there");
    let count = garth.json(&with(IMPORT, &[utf8(&to), "--delete"]));
    assert_eq!((&count["removed"], &count["failed"]), (&json!(1), &json!(0)), "{count}");
    garth.fails(3, &["stat", &new]);
}

#[test]
fn duplicate_media_keys_export_the_live_file() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_bucket(&from);
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    let media = format!("/agents/scout/sessions/{ID}/media");
    for path in [media.clone(), media.replace("/media", "2/media")] {
        garth.ok(&["mkdir", "-p", &path]);
        // A copy would not be a media file, but a hard link is.
        garth.ok(&["ln", &format!("/media/{KEY}/{ID}.png"), &path]);
    }
    let output = garth.run(&with(EXPORT, &[utf8(&to)]), b"");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("another entry has its key").count(), 2, "{said}");
    assert_eq!(content(&to), content(&from));
}

#[test]
fn files_named_like_sidecars_have_own_sidecars() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    let named = "agents/scout/x.metadata.json";
    put(&from, "agents/scout/x", "x");
    put(&from, named, "not metadata");
    sidecar(&from, named, &json!({}));
    let described = "agents/scout/y.metadata.json";
    put(&from, described, "neither");
    sidecar(&from, described, &json!({"contentType": "text/plain"}));
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    assert_eq!(garth.ok(&["cat", &format!("/{named}")]), "not metadata");
    assert_eq!(attributes(&garth, "/agents/scout/x"), json!({}));
    garth.ok(&with(EXPORT, &[utf8(&to)]));
    assert_eq!(content(&to), content(&from));
    // if two files need the same name, this is reported
    garth.ok(&["set", "--meta", "a=b", "/agents/scout/x"]);
    let third = garth.beside("third");
    let output = garth.run(&with(EXPORT, &[utf8(&third)]), b"");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/agents/scout/x.metadata.json: skipped, the metadata of another file"), "{said}");
    assert!(third.join(named).exists() && !third.join(format!("{named}.metadata.json")).exists());
    // In a folder that has the file, its own sidecar would turn the sidecar of the other file into a file.
    let output = garth.run(&with(EXPORT, &[utf8(&to)]), b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(content(&to), content(&from));
}

#[test]
fn excluded_files_keep_their_sidecars() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_bucket(&from);
    garth.ok(&with(IMPORT, &[utf8(&from), "--exclude", "*.ogg"]));
    make_bucket_again(&to);
    garth.ok(&with(EXPORT, &[utf8(&to), "--exclude", "*.ogg", "--delete"]));
    assert_eq!(content(&to), content(&from));
}

fn make_bucket_again(top: &Path) {
    make_bucket(top);
    put(top, "agents/scout/only-here", "x");
    sidecar(top, "agents/scout/only-here", &json!({"contentType": "a/b"}));
}

#[test]
fn rule_violations_skip_only_their_file() {
    let garth = Garth::new();
    let from = garth.beside("from");
    make_bucket(&from);
    put(&from, "agents/scout/fragments.jsonl", "{\"id\": \"a\", \"type\": \"poem\", \"text\": \"b\"}\n");
    let output = garth.run(&with(IMPORT, &[utf8(&from), "--json"]), b"");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("/agents/scout/fragments.jsonl: ") && said.contains("line 1: /type"), "{said}");
    let count: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&count["files"], &count["failed"]), (&json!(18), &json!(1)));
    garth.fails(3, &["stat", "/agents/scout/fragments.jsonl"]);
}

#[test]
fn unsupported_kinds_are_reported_and_skipped() {
    let garth = Garth::new();
    let from = garth.beside("from");
    make_bucket(&from);
    let _socket = UnixListener::bind(from.join("media/socket")).expect("a socket");
    fs::write(from.join(OsStr::from_bytes(b"media/\xff.png")), "x").expect("a file");
    fs::write(from.join(OsStr::from_bytes(b"media/\xff.png.metadata.json")), "not looked at")
        .expect("a file");
    put(&from, "agents/scout/soul.md", "another name");
    let output = garth.run(&with(IMPORT, &[utf8(&from), "--json"]), b"");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("media/socket: skipped, neither file") && said.contains("not UTF-8"), "{said}");
    let count: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&count["files"], &count["failed"]), (&json!(20), &json!(3)));
    assert_eq!(garth.ok(&["cat", "/agents/scout/soul.md"]), "another name");
}

#[test]
fn many_media_show_original_paths() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    let last = "99999999-2222-4333-8444-555555555555";
    let names = (0..10_100).map(|number| number.to_string()).chain([ID.to_owned(), last.to_owned()]);
    for name in names {
        put(&from, &format!("media/{KEY}/{name}.bin"), "");
    }
    for id in [ID, last] {
        sidecar(&from, &format!("media/{KEY}/{id}.bin"), &json!({"customMetadata": {"sessionKey": KEY}}));
    }
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    for (session, id) in [("one", ID), ("two", last)] {
        let media = format!("/agents/scout/sessions/{session}/media");
        garth.ok(&["mkdir", "-p", &media]);
        garth.ok(&["mv", &format!("/media/{KEY}/{id}.bin"), &media]);
    }
    let count = garth.json(&with(EXPORT, &[utf8(&to)]));
    assert_eq!((&count["files"], &count["failed"]), (&json!(10_102), &json!(0)), "{count}");
    for folder in ["agents/scout/sessions", "agents/scout", "agents"] {
        fs::remove_dir(to.join(folder)).expect("an empty folder");
    }
    assert_eq!(content(&to), content(&from));
    let again = garth.json(&with(EXPORT, &[utf8(&to)]));
    assert_eq!((&again["new"], &again["changed"]), (&json!(3), &json!(0)), "the folders: {again}");
}

#[test]
fn dry_bucket_import_changes_nothing() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_bucket(&from);
    let count = garth.json(&with(IMPORT, &[utf8(&from), "--dry-run"]));
    assert_eq!((&count["files"], &count["seq"]), (&json!(19), &Value::Null));
    assert_eq!(garth.ok(&["ls", "/"]), "");
    garth.ok(&with(IMPORT, &[utf8(&from)]));
    assert_eq!(garth.json(&with(EXPORT, &[utf8(&to), "--dry-run"]))["files"], 19);
    assert!(!to.exists());
}

#[test]
fn layout_needs_account_root_and_folder() {
    let garth = Garth::new();
    let (from, tar) = (garth.beside("from"), garth.beside("a.tar"));
    make_bucket(&from);
    garth.fails(2, &with(IMPORT, &[utf8(&from), "/agents"]));
    garth.fails(2, &with(IMPORT, &[utf8(&from.join("README"))]));
    garth.fails(2, &with(IMPORT, &[utf8(&from), "--user", "u", "--chat", "c"]));
    garth.fails(2, &with(EXPORT, &["/agents", utf8(&from)]));
    garth.fails(2, &with(EXPORT, &[utf8(&tar)]));
    garth.fails(2, &with(EXPORT, &["-"]));
    garth.fails(2, &["import", "--layout", "other", utf8(&from)]);
    garth.fails(2, &["export", "/"]);
    assert!(!tar.exists());
}

#[test]
fn agent_create_keeps_existing_files() {
    let garth = Garth::unmade();
    garth.fails(2, &["agent", "create", "scout", "--time-zone", "Mars/Olympus"]);
    garth.fails(2, &["agent", "create", "a/b"]);
    assert!(!garth.data().exists());
    let said = garth.ok(&["agent", "create", "scout", "--time-zone", "Europe/Berlin", "--agent", "scout"]);
    assert!(said.lines().count() == 8 && said.contains("created  /agents/scout/BOOTSTRAP.md"), "{said}");
    let settings = garth.ok(&["cat", "/agents/scout/settings.json"]);
    assert!(settings.contains("\"time_zone\": \"Europe/Berlin\"") && settings.ends_with("}\n"), "{settings}");
    assert_eq!(garth.json(&["log", "-n", "1"])["author"], json!({}), "settings are for people to write");
    let seq = garth.seq();
    let again = garth.json(&["agent", "create", "scout"]);
    assert_eq!(
        (&again["agent"], &again["made"], &again["seq"]),
        (&json!("scout"), &json!([]), &Value::Null),
        "{again}"
    );
    assert_eq!((again["kept"].as_array().map(Vec::len), garth.seq()), (Some(8), seq));
    let other = garth.json(&["agent", "create", "other", "--no-bootstrap"]);
    assert_eq!(other["made"].as_array().map(Vec::len), Some(7));
    garth.fails(3, &["stat", "/agents/other/BOOTSTRAP.md"]);
    garth.fails(2, &["agent", "create", "scout", "--user", "u", "--chat", "c"]);
}
