//! `--operator`: reading the files of all accounts as one tree.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::garth::{Garth, column, finish, text, utf8};

/// Data folder with two more accounts, each with a note.
fn accounts() -> Garth {
    let garth = Garth::new();
    for account in ["acme", "beta"] {
        garth.ok(&["account", "create", account]);
        let note = format!("{account} drinks tea\n");
        garth.feed(&["--account", account, "write", "-p", "/notes/tea.md"], &note);
    }
    garth
}

#[test]
fn reading_verbs_show_all_accounts() {
    let garth = accounts();
    assert_eq!(garth.ok(&["--operator", "ls"]), "accounts\n");
    assert_eq!(garth.ok(&["ls", "--operator", "/accounts"]), "acme\nbeta\ndefault\n");
    assert_eq!(garth.ok(&["ls", "--operator", "/accounts/acme"]), "notes\n");
    assert_eq!(garth.ok(&["cat", "--operator", "/accounts/beta/notes/tea.md"]), "beta drinks tea\n");
    let tree = garth.ok(&["tree", "--operator", "/accounts/acme"]);
    assert!(tree.starts_with("/accounts/acme\n") && tree.contains("tea.md"), "{tree}");
    let stat = garth.json(&["stat", "--operator", "/accounts/acme/notes/tea.md"]);
    assert_eq!(stat["names"], serde_json::json!(["/accounts/acme/notes/tea.md"]));
    let found = garth.ok(&["find", "--operator", "--name", "*.md"]);
    assert_eq!(found, "/accounts/acme/notes/tea.md\n/accounts/beta/notes/tea.md\n");
    let globbed = garth.ok(&["glob", "--operator", "/accounts/*/notes/*.md"]);
    assert_eq!(globbed, found);
    let lines = garth.ok(&["grep", "--operator", "tea", "/accounts/acme", "/accounts/beta"]);
    assert_eq!(
        lines,
        "/accounts/acme/notes/tea.md:acme drinks tea\n/accounts/beta/notes/tea.md:beta drinks tea\n"
    );
    let error = garth.fails(2, &["grep", "--operator", "tea", "/accounts"]);
    assert!(error.contains("one account"), "{error}");
    let total = garth.json(&["du", "--operator", "/accounts/acme"]);
    assert_eq!((total["path"].as_str(), total["files"].as_u64()), (Some("/accounts/acme"), Some(1)));
    garth.fails(3, &["cat", "--operator", "/notes/tea.md"]);
    garth.fails(3, &["ls", "--operator", "/accounts/none"]);
}

/// Data folder of [`accounts`] with two more accounts, whose stored trees are missing.
fn broken_accounts() -> Garth {
    let garth = accounts();
    let stored = || -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(garth.data().join("accounts")).expect("the folder of accounts");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    for account in ["arch", "broken"] {
        let before = stored();
        garth.ok(&["account", "create", account]);
        let made = stored();
        let own = made.difference(&before).next().expect("a folder of its own");
        std::fs::remove_dir_all(own).expect("a folder that can be removed");
    }
    garth
}

#[test]
fn lists_pass_accounts_that_cannot_be_read() {
    let garth = broken_accounts();
    let (acme, beta) = ("/accounts/acme/notes/tea.md", "/accounts/beta/notes/tea.md");
    let lines = format!("{acme}\n{beta}\n");
    for args in [
        &["find", "--name", "*.md"][..],
        &["find", "/accounts", "--type", "f"],
        &["glob", "/accounts/*/notes/*.md"],
        &["glob", "/accounts/*/*/*.md", "--type", "file"],
    ] {
        let output = garth.run(&[args, &["--operator"]].concat(), b"");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), lines.clone()), "{args:?}");
        let errors = text(&output.stderr);
        let named = ["garth: /accounts/arch: the account's", "garth: /accounts/broken: the account's"];
        assert_eq!(errors.lines().count(), 2, "{args:?}: {errors}");
        assert!(errors.lines().zip(named).all(|(line, named)| line.starts_with(named)), "{args:?}: {errors}");
    }
    for args in [&["tree"][..], &["ls", "-R", "/accounts"], &["ls", "/accounts/*"]] {
        let output = garth.run(&[args, &["--operator"]].concat(), b"");
        assert_eq!(output.status.code(), Some(7), "{args:?}");
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(printed.contains("beta") && printed.contains("notes"), "{args:?}: {printed}");
        for broken in ["/accounts/arch: ", "/accounts/broken: "] {
            assert_eq!(errors.matches(broken).count(), 1, "{args:?}: {errors}");
        }
    }
    // Directories without entries: the broken accounts are reported once, not listed again.
    let output = garth.run(&["find", "--operator", "/accounts", "--empty"], b"");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), "/accounts/default\n".to_owned()));
    assert_eq!(text(&output.stderr).lines().count(), 2, "{}", text(&output.stderr));
    for args in
        [&["cat", "/accounts/arch/f", acme][..], &["grep", "-h", "tea", "/accounts/arch", "/accounts/acme"]]
    {
        let output = garth.run(&[&["--operator"], args].concat(), b"");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), "acme drinks tea\n".to_owned()));
        let errors = text(&output.stderr);
        assert!(errors.starts_with("garth: /accounts/arch: the account's"), "{args:?}: {errors}");
    }
    // The account that a command names is all of its work.
    let error = garth.fails(7, &["ls", "--operator", "/accounts/arch"]);
    assert!(error.starts_with("garth: /accounts/arch: the account's"), "{error}");
}

#[test]
fn backup_passes_accounts_that_cannot_be_read() {
    let garth = broken_accounts();
    let copy = garth.beside("copy");
    let output = garth.run(&["backup", utf8(&copy), "--json"], b"");
    assert_eq!(output.status.code(), Some(7));
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(column(made["accounts"].as_array().unwrap(), "account"), ["acme", "beta", "default"]);
    assert_eq!(column(made["failed"].as_array().unwrap(), "account"), ["arch", "broken"]);
    let again = garth.beside("again");
    let output = garth.run(&["backup", utf8(&again)], b"");
    assert!(text(&output.stdout).contains("; 2 accounts without files"), "{}", text(&output.stdout));
    let errors = text(&output.stderr);
    let named = ["garth: account arch: the account's database is", "garth: account broken: the"];
    assert!(errors.lines().zip(named).all(|(line, named)| line.starts_with(named)), "{errors}");
    assert_eq!(errors.lines().count(), 2, "{errors}");
    assert_eq!(errors.matches("missing or empty").count(), 2, "each says it once: {errors}");
    for copy in [copy, again] {
        let note = &["--operator", "cat", "/accounts/beta/notes/tea.md", "--data", utf8(&copy)];
        assert_eq!(garth.ok(note), "beta drinks tea\n");
    }
}

#[test]
fn log_follows_one_account() {
    let garth = accounts();
    let file = "/accounts/acme/notes/tea.md";
    garth.feed(&["--account", "acme", "write", "/notes/tea.md", "-m", "milk now"], "acme drinks milk\n");
    let versions = garth.lines(&["log", "--operator", file]);
    assert_eq!(versions.len(), 2);
    let commits = garth.lines(&["log", "--operator", "/accounts/acme"]);
    assert_eq!(commits[0]["message"], "milk now");
    assert_eq!(commits[0]["changes"][0]["path"], file);
    let first = commits.last().unwrap()["seq"].to_string();
    assert_eq!(garth.ok(&["cat", "--operator", file, "--at", &first]), "acme drinks tea\n");
    for path in ["/", "/accounts"] {
        let error = garth.fails(2, &["log", "--operator", path]);
        assert!(error.contains("one account"), "{error}");
    }
    garth.fails(3, &["log", "--operator", "/accounts/none"]);
}

#[test]
fn other_verbs_refuse_operators() {
    let garth = accounts();
    let seqs = || ["acme", "beta"].map(|of| garth.json(&["--account", of, "log", "-n", "1"])["seq"].clone());
    let before = seqs();
    for verb in [
        &["write", "/accounts/acme/f", "x"][..],
        &["mkdir", "/accounts/new"],
        &["rm", "-r", "/accounts/acme"],
        &["mv", "/accounts/acme/notes", "/accounts/beta/moved"],
        &["cp", "/accounts/acme/notes/tea.md", "/accounts/beta/copy"],
        &["set", "--add-tag", "x", "/accounts/acme/notes/tea.md"],
        &["search", "tea"],
        &["kv", "list"],
        &["account", "list"],
        &["export", "/accounts/acme", "copy"],
    ] {
        let error = garth.fails(2, &[&["--operator"], verb].concat());
        assert!(error.contains("--operator"), "{error}");
    }
    for option in [
        &["--account", "acme"][..],
        &["--account", "none"],
        &["--agent", "scout"],
        &["--user", "ann"],
        &["--overlay", "draft"],
        &["--raw"],
        &["--override-rules"],
    ] {
        for args in [["ls", "--operator"], ["--operator", "ls"]] {
            let error = garth.fails(2, &[&args[..], option].concat());
            assert!(error.contains(option[0]), "{error}");
        }
    }
    garth.fails(2, &["key", "list", "--operator", "--account", "acme"]);
    // Variables name defaults, which are of no use here.
    let mut command = garth.command(&["ls", "--operator"]);
    command.env("GARTH_ACCOUNT", "acme").env("GARTH_AGENT", "scout");
    let output = finish(command, b"");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "accounts\n".to_owned()));
    assert_eq!(seqs(), before);
}

#[test]
fn links_stay_in_their_account() {
    let garth = accounts();
    for (name, to) in [("own", "/notes/tea.md"), ("other", "../../beta/notes/tea.md")] {
        garth.ok(&["--account", "acme", "ln", "-s", to, &format!("/notes/{name}")]);
    }
    assert_eq!(garth.ok(&["cat", "--operator", "/accounts/acme/notes/own"]), "acme drinks tea\n");
    garth.ok(&["--account", "acme", "ln", "-s", "/", "/notes/top"]);
    for path in ["/accounts/acme/notes/other", "/accounts/acme/notes/top/../beta/notes/tea.md"] {
        let output = garth.run(&["cat", "--operator", path], b"");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), String::new()), "{path}");
    }
}

#[test]
fn operator_key_is_made_by_the_same_option() {
    let garth = accounts();
    garth.ok(&["--operator", "key", "create", "--scope", "admin"]);
    let listed = garth.lines(&["key", "list", "--operator"]);
    assert_eq!(column(&listed, "label"), [""]);
    assert!(listed[0]["account"].is_null());
}
