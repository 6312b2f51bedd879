//! The place of the data folder, the verbs that create it, and the errors without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::garth::{Garth, bare, finish, text, utf8};

#[test]
fn data_folder_is_option_variable_or_platform_default() {
    let garth = Garth::new();
    garth.write("/in", "data");
    let other = garth.beside("other");
    garth.ok(&["mkdir", "/d", "--data", utf8(&other)]);
    assert_eq!(garth.ok(&["ls", "/", "--data", utf8(&other)]), "d\n");
    let mut command = bare(&["mkdir", "/d", "--json"]);
    command.env("XDG_DATA_HOME", garth.beside("xdg")).env("HOME", garth.beside("home"));
    assert!(finish(command, b"").status.success());
    let folder =
        if cfg!(target_os = "macos") { "home/Library/Application Support/garth" } else { "xdg/garth" };
    assert!(garth.beside(folder).join("control.db").is_file());
    let mut command = bare(&["ls", "/"]);
    command.env_remove("HOME");
    assert_eq!(finish(command, b"").status.code(), Some(2));
}

#[test]
fn reads_and_maintenance_create_no_data_folder() {
    let garth = Garth::unmade();
    let verbs: [&[&str]; 18] = [
        &["ls"],
        &["cat", "/a"],
        &["tree"],
        &["log"],
        &["grep", "x"],
        &["search", "x"],
        &["du"],
        &["rm", "-rf", "/a"],
        &["mv", "/a", "/b"],
        &["backup", "copy"],
        &["fsck", "--all"],
        &["gc"],
        &["reindex"],
        &["account", "list"],
        &["key", "list"],
        &["snapshot", "list"],
        &["kv", "get", "/a"],
        &["export", "/", "-"],
    ];
    for verb in verbs {
        let said = garth.fails(3, verb);
        assert!(said.starts_with(&format!("garth: {}: no data folder here", utf8(&garth.data()))), "{said}");
        assert!(said.contains("`garth serve`") && said.contains("--data"), "{said}");
        assert!(!garth.data().exists(), "{verb:?}");
    }
    let said = garth.fails(3, &["ls", "--json"]);
    let last: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["error"]["kind"], &last["error"]["exit"]), (&json!("not_found"), &json!(3)));
    assert_eq!(last["error"]["path"], utf8(&garth.data()));
}

#[test]
fn first_write_creates_and_reports_data_folder() {
    let verbs: [&[&str]; 6] = [
        &["write", "/a"],
        &["append", "/a"],
        &["mkdir", "/a"],
        &["kv", "put", "/a", "1"],
        &["account", "create", "default"],
        &["account", "create", "team"],
    ];
    for verb in verbs {
        let garth = Garth::unmade();
        let output = garth.run(verb, b"x");
        assert!(output.status.success(), "{verb:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), format!("garth: {}: new data folder\n", utf8(&garth.data())));
        let again = garth.run(&["write", "/b"], b"x");
        assert_eq!((again.status.code(), text(&again.stderr)), (Some(0), String::new()), "{verb:?}");
    }
    let garth = Garth::unmade();
    garth.fails(2, &["account", "create", "a/b"]);
    garth.fails(2, &["write", "/a", "--agent", "a/b"]);
    assert!(!garth.data().exists(), "a bad name makes nothing");
}

#[test]
fn unknown_account_creates_no_data_folder() {
    let garth = Garth::unmade();
    for verb in [
        &["mkdir", "/a"][..],
        &["write", "/a"],
        &["kv", "put", "/a", "1"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let said = garth.fails(3, &[verb, &["--account", "team"]].concat());
        assert!(said.contains("no data folder here"), "{verb:?}: {said}");
        assert!(!garth.data().exists(), "{verb:?}");
    }
    let mut command = garth.command(&["account", "create", "team"]);
    command.env("GARTH_ACCOUNT", "team");
    assert!(finish(command, b"").status.success(), "making the account makes the folder");
    garth.feed(&["write", "/a", "--account", "team"], "x");
    let said = garth.fails(3, &["serve", "--listen", "127.0.0.1:0", "--account", "nobody"]);
    assert!(said.contains("nobody: no such account"), "{said}");
}

#[test]
fn missing_database_is_reported_as_damage() {
    let garth = Garth::new();
    garth.write("/a", "x");
    let account = fs::read_dir(garth.data().join("accounts")).expect("accounts").next().expect("one");
    let account = account.expect("an entry").path();
    let database = account.join("tree.db");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(database.with_file_name(format!("tree.db{suffix}")));
    }
    fs::write(&database, "").expect("emptied");
    for verb in [&["ls"][..], &["write", "/b"], &["fsck"]] {
        let said = garth.fails(7, verb);
        assert!(said.contains("empty") && said.contains("restore a backup"), "{verb:?}: {said}");
        assert_eq!(fs::metadata(&database).expect("it is there").len(), 0);
    }
    fs::remove_file(&database).expect("removed");
    for verb in [&["ls"][..], &["write", "/b"], &["fsck"]] {
        let said = garth.fails(7, verb);
        assert!(said.contains("missing") && said.contains("restore a backup"), "{verb:?}: {said}");
        assert!(!database.exists());
    }
    fs::remove_dir_all(&account).expect("removed");
    garth.fails(7, &["ls"]);
    assert!(!account.exists());
}

#[test]
fn missing_control_data_is_reported_as_damage() {
    let garth = Garth::new();
    garth.write("/a", "x");
    let database = garth.data().join("control.db");
    let lost = |how: &str| {
        for verb in [
            &["ls"][..],
            &["write", "/b"],
            &["account", "list"],
            &["account", "create", "one"],
            &["fsck", "--all"],
            &["serve", "--listen", "127.0.0.1:0"],
        ] {
            let said = garth.fails(7, verb);
            assert!(
                said.contains("control.db") && said.contains("restore a backup"),
                "{how}, {verb:?}: {said}"
            );
        }
    };
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(garth.data().join(format!("control.db{suffix}")));
    }
    fs::write(&database, "").expect("emptied");
    lost("emptied");
    fs::remove_file(&database).expect("removed");
    lost("missing");
    assert!(!database.exists());
}

#[test]
fn no_data_folder_is_created_among_files() {
    let garth = Garth::unmade();
    fs::create_dir(garth.data()).expect("a folder");
    assert!(garth.fails(3, &["ls"]).contains("no data folder here"));
    fs::write(garth.data().join("thesis.tex"), "years of work").expect("a file");
    let said = garth.fails(4, &["write", "/a"]);
    assert!(said.contains(utf8(&garth.data())) && said.contains("thesis.tex"), "{said}");
    garth.fails(4, &["account", "create", "team"]);
    garth.fails(4, &["serve", "--listen", "127.0.0.1:0"]);
    assert!(garth.fails(3, &["ls"]).contains("no data folder here"));
    assert_eq!(fs::read_dir(garth.data()).expect("a folder").count(), 1, "nothing was added");
    fs::remove_file(garth.data().join("thesis.tex")).expect("removed");
    garth.write("/a", "an empty folder is fine");
}

#[test]
fn unusable_data_folder_fails_with_its_reason() {
    let garth = Garth::new();
    let named = format!("garth: {}: ", utf8(&garth.data()));
    fs::write(garth.data().join("control.db"), "no database, and longer than its header ".repeat(9))
        .expect("written over");
    for verb in [&["ls"][..], &["write", "/a"], &["fsck"], &["account", "list"]] {
        let said = garth.fails(1, verb);
        assert!(
            said.starts_with(&named) && said.contains("the control data is not a garth database"),
            "{said}"
        );
    }
    let garth = Garth::unmade();
    fs::write(garth.data(), "a file").expect("a file");
    for verb in [&["ls"][..], &["write", "/a"], &["fsck"], &["account", "list"]] {
        let said = garth.fails(7, verb);
        assert!(said.contains(utf8(&garth.data())) && said.contains("Not a directory"), "{said}");
    }
}

#[test]
fn unreadable_data_folder_is_reported() {
    let garth = Garth::unmade();
    let closed = garth.beside("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("closed");
    // Root may read it in spite of its permissions.
    if fs::read_dir(&closed).is_err() {
        for verb in [&["ls"][..], &["write", "/a"], &["fsck"]] {
            let said = garth.fails(7, &[verb, &["--data", utf8(&closed)]].concat());
            assert!(said.contains(utf8(&closed)) && said.contains("Permission denied"), "{said}");
        }
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("open again");
}

#[test]
fn unknown_account_is_named() {
    let garth = Garth::new();
    let said = garth.fails(3, &["ls", "--account", "team"]);
    assert!(said.contains("team: no such account") && said.contains("garth account create"), "{said}");
    garth.fails(3, &["write", "/a", "--account", "team"]);
    assert!(!garth.ok(&["account", "list"]).contains("team"));
}
