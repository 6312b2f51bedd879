//! Import and export as a sync: unchanged entries are left alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::garth::{Garth, text, utf8};
use super::transfer::make_tree;

/// Returns the five counts of a summary.
fn counts(summary: &Value) -> [u64; 5] {
    ["new", "changed", "same", "removed", "failed"].map(|key| summary[key].as_u64().expect("a count"))
}

fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it has one")).expect("folders");
    fs::write(path, content).expect("a file");
}

fn set_time(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).and_then(|file| file.set_modified(time)).expect("a time");
}

fn time(path: &Path) -> SystemTime {
    fs::symlink_metadata(path).and_then(|meta| meta.modified()).expect("its time")
}

#[test]
fn importing_an_unchanged_folder_commits_nothing() {
    let garth = Garth::new();
    let from = garth.beside("from");
    make_tree(&from);
    assert_eq!(counts(&garth.json(&["import", utf8(&from), "/p"])), [17, 0, 0, 0, 0]);
    let seq = garth.seq();
    let again = garth.json(&["import", utf8(&from), "/p", "--delete"]);
    assert_eq!(counts(&again), [0, 0, 17, 0, 0]);
    assert_eq!((&again["bytes"], &again["seq"]), (&json!(0), &Value::Null));
    assert_eq!(garth.seq(), seq);
}

#[test]
fn importing_an_unchanged_archive_commits_nothing() {
    let garth = Garth::new();
    let (from, tar) = (garth.beside("from"), garth.beside("a.tgz"));
    make_tree(&from);
    garth.ok(&["import", utf8(&from), "/p"]);
    garth.ok(&["export", "/p", utf8(&tar)]);
    let seq = garth.seq();
    // Also into the tree it came from, though the times of the archive have whole seconds.
    assert_eq!(counts(&garth.json(&["import", utf8(&tar), "/p"])), [0, 0, 17, 0, 0]);
    assert_eq!(garth.seq(), seq);
    assert_eq!(counts(&garth.json(&["import", utf8(&tar), "/q"])), [17, 0, 0, 0, 0]);
    let seq = garth.seq();
    assert_eq!(counts(&garth.json(&["import", utf8(&tar), "/q"])), [0, 0, 17, 0, 0]);
    assert_eq!(garth.seq(), seq);
}

#[test]
fn import_counts_new_changed_and_removed_entries() {
    let garth = Garth::new();
    let from = garth.beside("from");
    for name in ["a", "b", "dir/c", "dir/d", "gone/x/y", "gone/z"] {
        put(&from.join(name), name);
    }
    garth.ok(&["import", utf8(&from), "/p"]);
    put(&from.join("a"), "longer");
    put(&from.join("dir/e"), "e");
    fs::set_permissions(from.join("dir/d"), fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::remove_dir_all(from.join("gone")).expect("it goes");
    let kept = garth.json(&["import", utf8(&from), "/p", "--dry-run"]);
    assert_eq!(counts(&kept), [1, 3, 2, 0, 0], "a, dir/d and dir changed: {kept}");
    let args = ["import", utf8(&from), "/p", "--delete", "-v"];
    let printed = garth.ok(&args);
    for line in ["changed  /p/a\n", "new      /p/dir/e\n", "changed  /p/dir/d\n", "removed  /p/gone\n"] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(printed.contains("1 new, 3 changed, 2 unchanged, 4 removed"), "{printed}");
    assert_eq!(garth.ok(&["glob", "/p/**"]), "/p/a\n/p/b\n/p/dir\n/p/dir/c\n/p/dir/d\n/p/dir/e\n");
    assert_eq!(garth.json(&["stat", "/p/dir/d"])["mode"], "0600");
    assert_eq!(counts(&garth.json(&args[..4])), [0, 0, 6, 0, 0]);
}

#[test]
fn import_compares_content_when_time_differs() {
    let garth = Garth::new();
    let from = garth.beside("from");
    let mut big = vec![7_u8; 3_500_000];
    put(&from.join("small"), "same");
    fs::write(from.join("big"), &big).expect("a file");
    garth.ok(&["import", utf8(&from), "/p"]);
    let etag = |path: &str| garth.json(&["stat", path])["etag"].clone();
    let before = (etag("/p/small"), etag("/p/big"));
    set_time(&from.join("small"), 1_000_000_000);
    set_time(&from.join("big"), 1_000_000_000);
    let touched = garth.json(&["import", utf8(&from), "/p"]);
    assert_eq!((counts(&touched), &touched["bytes"]), ([0, 2, 0, 0, 0], &json!(0)));
    assert_eq!((etag("/p/small"), etag("/p/big")), before, "no content was written");
    assert_eq!(garth.json(&["stat", "/p/big"])["mtime"], "2001-09-09T01:46:40.000Z");
    // The same size, but different in the third block that is read.
    big[2_500_000] = 8;
    fs::write(from.join("big"), &big).expect("a file");
    assert_eq!(counts(&garth.json(&["import", utf8(&from), "/p"])), [0, 1, 1, 0, 0]);
    assert_eq!(garth.run(&["cat", "/p/big"], b"").stdout, big);
}

#[test]
fn dry_import_changes_nothing() {
    let garth = Garth::new();
    let from = garth.beside("from");
    make_tree(&from);
    garth.write("/p/extra", "x");
    let seq = garth.seq();
    let printed = garth.ok(&["import", utf8(&from), "/p", "--dry-run", "--delete"]);
    assert!(
        printed.contains("new      /p/src/twin\n") && printed.contains("removed  /p/extra\n"),
        "{printed}"
    );
    assert!(printed.contains("would import to /p: 17 new, 0 changed, 0 unchanged, 1 removed"), "{printed}");
    garth.ok(&["import", utf8(&from), "/new", "--dry-run"]);
    assert_eq!(garth.seq(), seq);
    assert_eq!(garth.ok(&["ls", "/"]), "p\n");
}

#[test]
fn import_delete_spares_excluded_names() {
    let garth = Garth::new();
    let from = garth.beside("from");
    put(&from.join("was-dir"), "now a file");
    put(&from.join("was-file/x"), "now a directory");
    put(&from.join("log.keep"), "not imported");
    for path in
        ["/p/was-dir/deep/x", "/p/was-file", "/p/old/a", "/p/old/b.keep", "/p/log.keep", "/p/keep.d/x"]
    {
        garth.write(path, "before");
    }
    let args = ["import", utf8(&from), "/p", "--exclude", "*.keep", "--exclude", "keep.d"];
    let refused = garth.run(&args, b"");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--delete replaces it"), "{}", text(&refused.stderr));
    garth.ok(&[&args[..], &["--delete"]].concat());
    let paths = garth.ok(&["glob", "/p/**"]);
    let expected = "/p/keep.d\n/p/keep.d/x\n/p/log.keep\n/p/old\n/p/old/b.keep\n/p/was-dir\n/p/was-file\n\
                    /p/was-file/x\n";
    let sorted = |paths: &str| {
        let mut lines: Vec<_> = paths.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&paths), sorted(expected));
    assert_eq!(garth.ok(&["cat", "/p/was-dir"]), "now a file");
    assert_eq!(garth.ok(&["cat", "/p/log.keep"]), "before");
}

#[test]
fn directory_with_excluded_names_is_not_replaced() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    put(&from.join("dir"), "now a file");
    put(&from.join("plain"), "now a file");
    for path in ["/p/dir/deep/a.keep", "/p/dir/b", "/p/plain/x"] {
        garth.write(path, "before");
    }
    let import = ["import", utf8(&from), "/p", "--delete", "--exclude", "*.keep"];
    for args in [&[&import[..], &["--dry-run"]].concat(), &import[..]] {
        let output = garth.run(args, b"");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("/p/dir: skipped, the directory in the way contains entries excluded"),
            "{said}"
        );
    }
    assert_eq!(garth.ok(&["cat", "/p/dir/deep/a.keep", "/p/dir/b", "/p/plain"]), "beforebeforenow a file");
    garth.write("/q/dir", "a file");
    garth.write("/q/plain", "a file");
    put(&to.join("dir/deep/a.keep"), "mine");
    put(&to.join("dir/b"), "mine");
    put(&to.join("plain/x"), "mine");
    let export = ["export", "/q", utf8(&to), "--delete", "--exclude", "*.keep"];
    for args in [&[&export[..], &["--dry-run"]].concat(), &export[..]] {
        let output = garth.run(args, b"");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("to/dir: skipped, the directory in the way contains entries excluded"),
            "{said}"
        );
    }
    assert!(to.join("dir/deep/a.keep").exists() && to.join("dir/b").exists());
    assert_eq!(fs::read_to_string(to.join("plain")).expect("a file"), "a file");
}

#[test]
fn exclude_with_trailing_slash_matches_directories() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    for name in ["cache/x", "a/b/cache/x", "a/file", "c/cache"] {
        put(&from.join(name), "x");
    }
    garth.ok(&["import", utf8(&from), "/p", "--exclude", "cache/"]);
    assert_eq!(garth.ok(&["find", "/p", "--type", "f"]), "/p/a/file\n/p/c/cache\n");
    garth.ok(&["import", utf8(&from), "/q"]);
    garth.ok(&["export", "/q", utf8(&to), "--exclude", "cache/"]);
    assert!(to.join("c/cache").is_file() && !to.join("cache").exists() && !to.join("a/b/cache").exists());
    let tar = garth.beside("q.tar");
    garth.ok(&["export", "/q", utf8(&tar), "--exclude", "cache/"]);
    garth.ok(&["import", utf8(&tar), "/r"]);
    assert_eq!(garth.ok(&["find", "/r", "--type", "f"]), "/r/a/file\n/r/c/cache\n");
    garth.ok(&["export", "/q", utf8(&garth.beside("all.tar"))]);
    garth.ok(&["import", utf8(&garth.beside("all.tar")), "/s", "--exclude", "cache/"]);
    assert_eq!(garth.ok(&["find", "/s", "--type", "f"]), "/s/a/file\n/s/c/cache\n");
}

#[test]
fn export_spares_the_data_folder() {
    let garth = Garth::new();
    garth.write("/dir/file", "x");
    let (beside, data) = (garth.beside("."), garth.data());
    garth.write("/blocking/data", "a file");
    garth.write("/same/data/control.db", "not a database");
    for from in ["/dir", "/blocking", "/same"] {
        for dry_run in [&["--dry-run"][..], &[]] {
            let args = [&["export", from, utf8(&beside), "--delete"], dry_run].concat();
            let output = garth.run(&args, b"");
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("data: skipped, this is the data folder of garth"), "{said}");
        }
    }
    assert_eq!(garth.ok(&["cat", "/dir/file"]), "x");
    let above = garth.beside("above");
    fs::create_dir(&above).expect("a folder");
    garth.write("/replaced/above", "a file where the data folder lies deeper");
    fs::rename(&data, above.join("data")).expect("moved");
    let moved = above.join("data");
    for from in ["/dir", "/replaced"] {
        let args = ["--data", utf8(&moved), "export", from, utf8(&beside), "--delete"];
        let output = garth.run(&args, b"");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(moved.join("control.db").is_file());
    }
    fs::rename(&moved, &data).expect("moved back");
    for to in ["data", "data/accounts", "data/new", "data/new/deeper.tar", "data/control.db"] {
        for from in ["/dir", "/dir/file"] {
            let said = garth.fails(2, &["export", from, utf8(&garth.beside(to))]);
            assert!(said.contains("in the data folder of garth"), "{said}");
        }
    }
    assert_eq!(garth.ok(&["cat", "/dir/file"]), "x");
}

#[test]
fn import_does_not_read_the_data_folder() {
    let garth = Garth::new();
    let data = garth.data();
    garth.write("/a", "x");
    symlink(&data, garth.beside("link")).expect("a link");
    for from in ["data", "link", "data/control.db", "data/accounts", "link/accounts"] {
        let said = garth.fails(2, &["import", utf8(&garth.beside(from)), "/self"]);
        assert!(said.contains("in the data folder of garth") && said.contains("garth backup"), "{said}");
    }
    let output = garth.run(&["import", utf8(&garth.beside(".")), "/all"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("skipped, this is the data folder of garth"));
    assert_eq!(garth.ok(&["ls", "/all"]), "link\n");
}

#[test]
fn export_writes_into_pipes_and_devices() {
    let garth = Garth::new();
    garth.write("/p/pipe", "through the pipe");
    let pipe = garth.beside("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo (Debian: apt-get install coreutils)").success());
    symlink(&pipe, garth.beside("link")).expect("a link");
    symlink("/dev/null", garth.beside("null")).expect("a link");
    for name in ["pipe", "link"] {
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).expect("what was written")
        });
        garth.ok(&["export", "/p/pipe", utf8(&garth.beside(name))]);
        assert_eq!(reader.join().expect("it reads"), "through the pipe");
    }
    garth.ok(&["export", "/p/pipe", utf8(&garth.beside("null"))]);
    garth.ok(&["export", "/p/pipe", "/dev/null"]);
    assert!(fs::symlink_metadata(garth.beside("null")).expect("it is there").is_symlink());
    assert!(!fs::symlink_metadata("/dev/null").expect("it is there").is_file());
    let printed = garth.ok(&["export", "/p/pipe", "/dev/stdout", "--json"]);
    assert!(printed.starts_with("through the pipe{"), "{printed}");
    // In a folder the pipe is in the way, as a directory is.
    let said = text(&garth.run(&["export", "/p", utf8(&garth.beside("."))], b"").stderr);
    assert!(said.contains("pipe: skipped, it has another type than in the tree"), "{said}");
    assert!(!fs::symlink_metadata(&pipe).expect("it is there").is_file());
}

#[test]
fn import_delete_keeps_unreadable_entries() {
    let garth = Garth::new();
    let from = garth.beside("from");
    put(&from.join("a"), "a");
    garth.write("/p/socket", "kept");
    std::os::unix::net::UnixListener::bind(from.join("socket")).expect("a socket");
    let output = garth.run(&["import", utf8(&from), "/p", "--delete"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(garth.ok(&["cat", "/p/socket"]), "kept");
}

#[test]
fn import_restores_hard_links() {
    let garth = Garth::new();
    let from = garth.beside("from");
    put(&from.join("a"), "one");
    fs::hard_link(from.join("a"), from.join("b")).expect("a link");
    garth.ok(&["import", utf8(&from), "/p"]);
    garth.ok(&["ln", "/p/a", "/outside"]);
    fs::remove_file(from.join("b")).expect("it goes");
    put(&from.join("b"), "two files now");
    put(&from.join("a"), "changed");
    garth.ok(&["import", utf8(&from), "/p"]);
    assert_eq!(garth.ok(&["cat", "/p/a", "/p/b", "/outside"]), "changedtwo files nowone");
    assert_eq!(counts(&garth.json(&["import", utf8(&from), "/p"])), [0, 0, 2, 0, 0]);
}

#[test]
fn import_keeps_attributes_of_changed_files() {
    let garth = Garth::new();
    let from = garth.beside("from");
    put(&from.join("a"), "one");
    garth.ok(&["import", utf8(&from), "/p"]);
    garth.feed(&["write", "/p/a", "--tag", "todo"], "tagged");
    garth.ok(&["ln", "/p/a", "/other"]);
    garth.ok(&["import", utf8(&from), "/p"]);
    let stat = garth.json(&["stat", "/p/a"]);
    assert_eq!((&stat["attributes"]["tags"], &stat["nlink"]), (&json!(["todo"]), &json!(1)));
}

#[test]
fn import_compares_folders_larger_than_a_page() {
    let garth = Garth::new();
    let from = garth.beside("from");
    for number in 0..10_500 {
        // Names around `/` in byte order, so that directories and pages interleave.
        let path = from.join(format!("d{}-x/d.{}/{number}", number % 7, number % 3));
        if number < 21 {
            fs::create_dir_all(path.parent().expect("it has one")).expect("folders");
        }
        fs::write(path, "").expect("a file");
    }
    let total = 10_500 + 7 + 21;
    assert_eq!(counts(&garth.json(&["import", utf8(&from), "/many"])), [total, 0, 0, 0, 0]);
    fs::remove_file(from.join("d6-x/d.2/20")).expect("it goes");
    let again = garth.json(&["import", utf8(&from), "/many", "--delete"]);
    assert_eq!(counts(&again), [0, 1, total - 2, 1, 0], "its directory's time changed");
}

#[test]
fn export_leaves_unchanged_files_alone() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    make_tree(&from);
    garth.ok(&["import", utf8(&from), "/p"]);
    assert_eq!(counts(&garth.json(&["export", "/p", utf8(&to)])), [17, 0, 0, 0, 0]);
    let state = |name: &str| {
        let meta = fs::symlink_metadata(to.join(name)).expect("it is there");
        (meta.ino(), meta.ctime(), meta.ctime_nsec())
    };
    let names = ["run.sh", "src", "src/twin", "src/link", "big.bin", ".git/HEAD"];
    let before = names.map(state);
    assert_eq!(counts(&garth.json(&["export", "/p", utf8(&to)])), [0, 0, 17, 0, 0]);
    assert_eq!(names.map(state), before);
    garth.feed(&["write", "/p/run.sh"], "#!/bin/sh\necho\n");
    assert_eq!(counts(&garth.json(&["export", "/p", utf8(&to)])), [0, 1, 16, 0, 0]);
    assert_eq!(fs::read_to_string(to.join("run.sh")).expect("a file"), "#!/bin/sh\necho\n");
    assert_ne!(state("run.sh").0, before[0].0, "replaced by a rename");
    assert_eq!(state("src/twin"), before[2]);
}

#[test]
fn export_deletes_only_on_request() {
    let garth = Garth::new();
    let to = garth.beside("to");
    garth.write("/p/file", "f");
    garth.write("/p/dir/x", "x");
    put(&to.join("file/in the way"), "1");
    put(&to.join("dir"), "1");
    put(&to.join("mine/deep/one"), "1");
    put(&to.join("mine/two.keep"), "1");
    let output = garth.run(&["export", "/p", utf8(&to)], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr).matches("--delete replaces it").count(), 2, "{}", text(&output.stderr));
    assert!(to.join("mine/deep/one").exists() && to.join("dir").is_file());
    let args = ["export", "/p", utf8(&to), "--delete", "--exclude", "*.keep"];
    let dry = garth.json(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(counts(&dry), [1, 2, 0, 2, 0], "{dry}");
    assert!(to.join("dir").is_file());
    assert_eq!(counts(&garth.json(&args)), [1, 2, 0, 2, 0]);
    assert_eq!(fs::read_to_string(to.join("file")).expect("a file"), "f");
    assert_eq!(fs::read_to_string(to.join("dir/x")).expect("a file"), "x");
    assert!(!to.join("mine/deep").exists() && to.join("mine/two.keep").exists());
}

#[test]
fn export_never_writes_through_a_link() {
    let garth = Garth::new();
    let (to, outside) = (garth.beside("to"), garth.beside("outside"));
    put(&outside.join("x"), "outside");
    fs::create_dir(&to).expect("a folder");
    symlink(&outside, to.join("dir")).expect("a link");
    symlink(outside.join("x"), to.join("file")).expect("a link");
    garth.write("/p/dir/x", "inside");
    garth.write("/p/file", "inside");
    garth.run(&["export", "/p", utf8(&to)], b"");
    garth.ok(&["export", "/p", utf8(&to), "--delete"]);
    assert_eq!(fs::read_to_string(outside.join("x")).expect("a file"), "outside");
    assert_eq!(fs::read_to_string(to.join("dir/x")).expect("a file"), "inside");
    assert_eq!(fs::read_to_string(to.join("file")).expect("a file"), "inside");
}

#[test]
fn export_sets_times_and_reports_dropped_bits() {
    let garth = Garth::new();
    let (from, to) = (garth.beside("from"), garth.beside("to"));
    put(&from.join("tool"), "#!/bin/sh\n");
    symlink("tool", from.join("link")).expect("a link");
    fs::set_permissions(from.join("tool"), fs::Permissions::from_mode(0o4755)).expect("a mode");
    set_time(&from, 1_000_000_000);
    garth.ok(&["import", utf8(&from), "/p"]);
    assert_eq!(garth.json(&["stat", "/p/tool"])["mode"], "4755");
    let output = garth.run(&["export", "/p", utf8(&to), "--json"], b"");
    assert!(output.status.success());
    assert!(
        text(&output.stderr).contains("sticky bits were left out (entries: 1)"),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).contains("\"special_bits_left_out\":1"));
    assert_eq!((time(&to), time(&to.join("link"))), (time(&from), time(&from.join("link"))));
    assert_eq!(fs::metadata(to.join("tool")).expect("it is there").mode() & 0o7777, 0o755);
}
