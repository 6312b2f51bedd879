//! Import and export.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;

use super::garth::{Garth, column, text, utf8};

/// Properties that an import and an export must keep: kind, mode, time (except for links), and size and hash
/// of the content or target.
type Shape = BTreeMap<String, Kept>;
type Kept = (u32, Option<(i64, i64)>, usize, u64);

fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

fn shape(top: &Path) -> Shape {
    let mut shape = Shape::new();
    let mut todo = vec![top.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("its metadata");
            let name = utf8(path.strip_prefix(top).expect("below the top")).to_owned();
            let time = (!meta.is_symlink()).then(|| (meta.mtime(), meta.mtime_nsec()));
            let content = if meta.is_symlink() {
                fs::read_link(&path).expect("its target").as_os_str().as_bytes().to_vec()
            } else if meta.is_file() {
                fs::read(&path).expect("its content")
            } else {
                todo.push(path);
                Vec::new()
            };
            shape.insert(name, (meta.mode(), time, content.len(), hash(&content)));
        }
    }
    shape
}

/// Creates a small tree with an entry of each kind: 17 entries.
pub(crate) fn make_tree(top: &Path) {
    fs::create_dir_all(top.join("src/deep/er")).expect("folders");
    fs::create_dir(top.join("empty")).expect("a folder");
    fs::create_dir(top.join(".git")).expect("a folder");
    fs::write(top.join(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
    fs::write(top.join("read me.md"), "hello\n").expect("a file");
    fs::write(top.join("src/empty"), "").expect("a file");
    fs::write(top.join("src/deep/er/übung"), [0, 1, 2, 255]).expect("a file");
    let big: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(top.join("big.bin"), big).expect("a file");
    fs::write(top.join("run.sh"), "#!/bin/sh\n").expect("a file");
    fs::set_permissions(top.join("run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(top.join("src/secret"), "s").expect("a file");
    fs::set_permissions(top.join("src/secret"), fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::hard_link(top.join("src/secret"), top.join("src/twin")).expect("a hard link");
    symlink("../read me.md", top.join("src/link")).expect("a link");
    symlink("/etc/passwd", top.join("out")).expect("a link");
    fs::write(top.join(format!("{}.txt", "long".repeat(40))), "long name").expect("a file");
    symlink("x".repeat(150), top.join("long link")).expect("a link");
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    for name in ["run.sh", "src", "empty"] {
        let file = fs::File::open(top.join(name)).expect("it is there");
        file.set_modified(old).expect("a time");
    }
    fs::set_permissions(top.join("empty"), fs::Permissions::from_mode(0o700)).expect("a mode");
}

fn whole_seconds(shape: Shape) -> Shape {
    let cut = |(mode, time, size, hash): Kept| (mode, time.map(|(seconds, _)| (seconds, 0)), size, hash);
    shape.into_iter().map(|(name, what)| (name, cut(what))).collect()
}

#[test]
fn folder_round_trips_byte_for_byte() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_tree(&from);
    let count = garth.json(&["import", utf8(&from), "/project"]);
    assert_eq!(
        (&count["directories"], &count["files"], &count["symlinks"], &count["hard_links"], &count["failed"]),
        (&json!(5), &json!(8), &json!(3), &json!(1), &json!(0)),
        "{count}"
    );
    assert_eq!(garth.json(&["stat", "/project/src/secret"])["nlink"], 2);
    let count = garth.json(&["export", "/project", utf8(&to)]);
    assert_eq!((&count["files"], &count["failed"]), (&json!(8), &json!(0)));
    assert_eq!(shape(&to), shape(&from));
    assert_eq!(fs::metadata(to.join("src/twin")).expect("it is there").nlink(), 2);
}

#[test]
fn archive_round_trips_byte_for_byte() {
    let garth = Garth::new();
    let (from, tar, to) = (garth.beside("from"), garth.beside("a.tar"), garth.beside("to"));
    make_tree(&from);
    garth.ok(&["import", utf8(&from), "/one"]);
    garth.ok(&["export", "/one", utf8(&tar)]);
    garth.ok(&["import", utf8(&tar), "/two"]);
    let piped = garth.run(&["export", "/two", "-", "--json"], b"");
    assert!(piped.status.success());
    assert!(text(&piped.stderr).contains("\"files\":8"), "the account of it goes to stderr");
    let input = garth.run(&["import", "-", "/three"], &piped.stdout);
    assert!(input.status.success(), "{}", text(&input.stderr));
    garth.ok(&["export", "/three", utf8(&to)]);
    assert_eq!(whole_seconds(shape(&to)), whole_seconds(shape(&from)));
    assert_eq!(garth.json(&["stat", "/three/src/twin"])["nlink"], 2);
}

#[test]
fn dry_export_fails_like_the_export() {
    let garth = Garth::new();
    garth.write("/a", "x");
    let (tar, deep) = (garth.beside("a.tar"), garth.beside("missing/folder"));
    garth.ok(&["export", "--dry-run", "/", utf8(&tar)]);
    assert!(!tar.exists());
    fs::write(&tar, "mine").expect("a file");
    for option in [&["--dry-run"][..], &[]] {
        for to in [(&tar, 4), (&deep, 3)] {
            let output = garth.run(&[&["export", "/", utf8(to.0)], option].concat(), b"");
            assert_eq!(output.status.code(), Some(to.1), "{}", text(&output.stderr));
        }
    }
    assert_eq!(fs::read_to_string(&tar).expect("a file"), "mine");
}

#[test]
fn system_tar_reads_exported_archives() {
    let garth = Garth::new();
    let (from, tar, to) = (garth.beside("from"), garth.beside("a.tar"), garth.beside("to"));
    make_tree(&from);
    garth.ok(&["import", utf8(&from), "/"]);
    garth.ok(&["export", "/", utf8(&tar)]);
    fs::create_dir(&to).expect("a folder");
    let status = std::process::Command::new("tar").args(["-xpf", utf8(&tar), "-C", utf8(&to)]).status();
    assert!(status.expect("tar is there (Debian: apt-get install tar)").success());
    assert_eq!(whole_seconds(shape(&to)), whole_seconds(shape(&from)));
}

#[test]
fn importing_again_adds_versions() {
    let garth = Garth::new();
    let from = garth.beside("from");
    make_tree(&from);
    garth.ok(&["import", utf8(&from), "/p"]);
    let first = garth.seq().to_string();
    let before = garth.ok(&["glob", "/p/**"]);
    fs::write(from.join("read me.md"), "changed\n").expect("a file");
    garth.ok(&["import", utf8(&from), "/p"]);
    assert_eq!(garth.ok(&["glob", "/p/**"]), before);
    assert_eq!(garth.ok(&["cat", "/p/read me.md"]), "changed\n");
    assert_eq!(garth.ok(&["cat", "/p/read me.md", "--at", &first]), "hello\n");
}

#[test]
fn import_groups_small_files_in_commits() {
    let garth = Garth::new();
    let from = garth.beside("from");
    fs::create_dir(&from).expect("a folder");
    for number in 0..1200 {
        fs::write(from.join(format!("{number}.txt")), number.to_string()).expect("a file");
    }
    garth.ok(&["import", utf8(&from), "/many"]);
    assert_eq!(garth.json(&["du", "/many"])["files"], 1200);
    assert!(garth.seq() < 10, "{} commits", garth.seq());
}

#[test]
fn exclude_matches_names_and_paths() {
    let garth = Garth::new();
    let from = garth.beside("from");
    make_tree(&from);
    let tar = garth.beside("a.tar");
    garth.ok(&["import", utf8(&from), "/all"]);
    garth.ok(&["export", "/all", utf8(&tar)]);
    for source in [&from, &tar] {
        garth.ok(&[
            "import",
            utf8(source),
            "/some",
            "--exclude",
            ".git",
            "--exclude",
            "src/deep",
            "--exclude",
            "*.bin",
        ]);
        let paths = garth.ok(&["glob", "/some/**"]);
        assert!(paths.contains("/some/src/link"));
        for out in [".git", "deep", "big.bin"] {
            assert!(!paths.contains(out), "{out}: {paths}");
        }
        garth.ok(&["rm", "-r", "/some"]);
    }
    garth.fails(2, &["import", utf8(&from), "--exclude", "["]);
}

#[test]
fn import_reports_and_skips_unsupported_entries() {
    let garth = Garth::new();
    let from = garth.beside("from");
    fs::create_dir_all(from.join("dir")).expect("a folder");
    fs::write(from.join("good"), "good").expect("a file");
    fs::write(from.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "bad").expect("a file");
    std::os::unix::net::UnixListener::bind(from.join("socket")).expect("a socket");
    garth.write("/to/dir", "a file in the way");
    let output = garth.run(&["import", utf8(&from), "/to"], b"");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("not UTF-8") && said.contains("socket: skipped"), "{said}");
    assert!(said.contains("/to/dir"), "{said}");
    assert!(text(&output.stdout).contains("3 failed"), "{}", text(&output.stdout));
    assert_eq!(garth.ok(&["cat", "/to/good"]), "good");
}

#[test]
fn import_skips_the_data_folder() {
    let garth = Garth::new();
    garth.write("/a", "1");
    fs::write(garth.beside("note"), "n").expect("a file");
    let around = garth.data().parent().expect("it has one").to_owned();
    let output = garth.run(&["import", utf8(&around), "/copy"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the data folder of garth"));
    assert_eq!(garth.ok(&["ls", "/copy"]), "note\n");
    garth.ok(&["import", utf8(&around), "/copy", "--exclude", "data"]);
}

#[test]
fn archive_cannot_escape_its_destination() {
    let garth = Garth::new();
    let mut archive = tar::Builder::new(Vec::new());
    let mut put = |name: &str, content: &str| {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_cksum();
        archive.append(&header, content.as_bytes()).expect("an entry");
    };
    put("../escaped", "x");
    put("a/../../escaped", "x");
    put("/escaped", "x");
    put("good", "x");
    put("link/escaped", "x");
    let bytes = archive.into_inner().expect("an archive");
    garth.ok(&["mkdir", "-p", "/in/side"]);
    garth.ok(&["ln", "-s", "/", "/in/side/link"]);
    let output = garth.run(&["import", "-", "/in/side"], &bytes);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr).lines().count(), 4, "{}", text(&output.stderr));
    assert_eq!(garth.ok(&["glob", "/**/escaped"]), "");
    assert_eq!(garth.ok(&["cat", "/in/side/good"]), "x");
}

#[test]
fn rejects_invalid_archive() {
    let garth = Garth::new();
    let (text_file, gzip, xz) = (garth.beside("a.tar"), garth.beside("a.tar.gz"), garth.beside("a.tar.xz"));
    fs::write(&text_file, "just text\n".repeat(100)).expect("a file");
    fs::write(&gzip, b"\x1f\x8b\x08\0\0\0\0\0").expect("a file");
    fs::write(&xz, b"\xfd7zXZ\0").expect("a file");
    for (source, input) in
        [(utf8(&text_file), &b""[..]), ("-", &b"just text\n".repeat(100)), (utf8(&gzip), b"")]
    {
        let output = garth.run(&["import", source, "/x", "--json"], input);
        assert_eq!(output.status.code(), Some(1), "one code for a file and for standard input");
        let said = text(&output.stderr);
        assert!(said.contains("not a tar archive"), "{said}");
        assert!(said.contains(&format!("\"path\":\"{source}\"")), "{said}");
    }
    assert!(garth.fails(2, &["import", utf8(&xz), "/x"]).contains("xz -dc"));
    assert!(
        text(&garth.run(&["import", "-", "/x"], b"\x28\xb5\x2f\xfd").stderr)
            .contains("zstd -dc FILE | garth")
    );
    garth.fails(3, &["import", "/nowhere/at/all", "/x"]);
    assert_eq!(garth.ok(&["ls", "/"]), "", "nothing was made");
}

#[test]
fn empty_archive_is_reported() {
    let garth = Garth::new();
    let tar = garth.beside("a.tar");
    let empty = tar::Builder::new(Vec::new()).into_inner().expect("an archive");
    fs::write(&tar, &empty).expect("a file");
    for (source, input) in [(utf8(&tar), &b""[..]), ("-", &empty), ("-", b"")] {
        let output = garth.run(&["import", source, "/x"], input);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("the archive is empty"), "{}", text(&output.stderr));
    }
    assert_eq!(garth.ok(&["ls", "/"]), "");
}

#[test]
fn single_file_imports_and_exports_like_cp() {
    let garth = Garth::new();
    let (notes, to) = (garth.beside("notes.md"), garth.beside("out.txt"));
    fs::write(&notes, "hello\n").expect("a file");
    garth.ok(&["mkdir", "/dir"]);
    garth.ok(&["import", utf8(&notes), "/dir"]);
    garth.ok(&["import", utf8(&notes), "/new/name.md"]);
    garth.ok(&["import", utf8(&notes), "/other/"]);
    for path in ["/dir/notes.md", "/new/name.md", "/other/notes.md"] {
        assert_eq!(garth.ok(&["cat", path]), "hello\n");
    }
    let seq = garth.seq();
    assert_eq!(garth.json(&["import", utf8(&notes), "/dir"])["same"], 1);
    assert_eq!(garth.seq(), seq);
    garth.fails(2, &["import", utf8(&notes), "/dir", "--delete"]);
    garth.ok(&["export", "/dir/notes.md", utf8(&to)]);
    assert_eq!(fs::read_to_string(&to).expect("a file"), "hello\n");
    garth.feed(&["write", "/dir/notes.md"], "changed\n");
    garth.ok(&["export", "/dir/notes.md", utf8(&to)]);
    assert_eq!(fs::read_to_string(&to).expect("a file"), "changed\n");
    let folder = garth.beside("folder");
    fs::create_dir(&folder).expect("a folder");
    garth.ok(&["export", "/dir/notes.md", utf8(&folder)]);
    assert_eq!(fs::read_to_string(folder.join("notes.md")).expect("a file"), "changed\n");
}

#[test]
fn archive_name_selects_compression() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_tree(&from);
    garth.ok(&["import", utf8(&from), "/one"]);
    for name in ["a.tar.gz", "a.tgz"] {
        let tar = garth.beside(name);
        garth.ok(&["export", "/one", utf8(&tar)]);
        assert!(fs::read(&tar).expect("a file").starts_with(b"\x1f\x8b"));
        garth.ok(&["import", utf8(&tar), "/two"]);
    }
    garth.ok(&["export", "/two", utf8(&to)]);
    assert_eq!(whole_seconds(shape(&to)), whole_seconds(shape(&from)));
    assert!(garth.fails(2, &["export", "/one", utf8(&garth.beside("a.tar.zst"))]).contains("| zstd >"));
    let damaged = garth.beside("a.tgz");
    let bytes = fs::read(&damaged).expect("a file");
    fs::write(&damaged, &bytes[..bytes.len() / 2]).expect("a file");
    assert_eq!(garth.run(&["import", utf8(&damaged), "/three"], b"").status.code(), Some(1));
}

#[test]
fn truncated_archive_is_reported() {
    let garth = Garth::new();
    garth.write("/d/a", "whole");
    garth.write("/d/b", &"x".repeat(5000));
    let mut bytes = garth.run(&["export", "/d", "-"], b"").stdout;
    bytes.truncate(512 * 6);
    let output = garth.run(&["import", "-", "/e"], &bytes);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("ends in this entry"), "{}", text(&output.stderr));
    assert_eq!(garth.ok(&["ls", "/e"]), "a\n");
}

#[test]
fn export_keeps_extra_files_and_existing_archives() {
    let garth = Garth::new();
    garth.write("/d/a", "1");
    garth.ok(&["ln", "-s", "/tmp", "/d/link"]);
    let to = garth.beside("to");
    fs::create_dir(&to).expect("a folder");
    fs::write(to.join("mine"), "keep").expect("a file");
    garth.ok(&["export", "/d", utf8(&to)]);
    assert_eq!(fs::read_to_string(to.join("mine")).expect("a file"), "keep");
    assert_eq!(fs::read_link(to.join("link")).expect("a link"), Path::new("/tmp"));
    let tar = garth.beside("a.tar");
    fs::write(&tar, "keep").expect("a file");
    assert_eq!(garth.run(&["export", "/d", utf8(&tar)], b"").status.code(), Some(4));
    assert_eq!(fs::read_to_string(&tar).expect("a file"), "keep");
}

#[test]
fn empty_folder_creates_its_destination() {
    let garth = Garth::new();
    let from = garth.beside("from");
    fs::create_dir(&from).expect("a folder");
    garth.ok(&["import", utf8(&from), "/empty/one"]);
    assert_eq!(column(&garth.lines(&["ls", "/empty"]), "kind"), ["directory"]);
    garth.write("/file", "x");
    garth.fails(1, &["import", utf8(&from), "/file"]);
}

#[test]
fn export_rejects_unsupported_archive_formats() {
    let garth = Garth::new();
    garth.feed(&["write", "-p", "/d/a.zip"], "x");
    for name in ["x.zip", "x.7z", "x.rar", "X.ZIP", "x.gz", "x.tar.xz"] {
        let to = garth.beside(name);
        assert!(garth.fails(2, &["export", "/d", utf8(&to)]).contains(name), "{name}");
        assert!(!to.exists(), "{name}");
    }
    let file = garth.beside("a.zip");
    garth.ok(&["export", "/d/a.zip", utf8(&file)]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    let folder = garth.beside("folder.zip");
    garth.ok(&["export", "/d", &format!("{}/", utf8(&folder))]);
    assert!(folder.join("a.zip").is_file());
    garth.ok(&["export", "/d", utf8(&folder)]);
}
