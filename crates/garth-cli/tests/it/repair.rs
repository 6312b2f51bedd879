//! `garth repair` on accounts, on a plain folder, and during a server run.

use std::time::Duration;

use garth_engine::model::Timestamp;
use garth_engine::{Env, FileSystemExt as _};

use super::garth::{Garth, column, text};
use super::serve::Server;

const COFFEE: &str = "ctx://default/users/alice/memories/preferences/coffee";
const DIR: &str = "/users/alice/memories/preferences/coffee";

/// Returns the abstract of the memory.
fn brief(garth: &Garth) -> String {
    garth.ok(&["memory", "get", COFFEE, "--layer", "abstract"]).trim_end().to_owned()
}

#[test]
fn repair_mends_accounts_and_reports_broken_memories() {
    let garth = Garth::new();
    garth.feed(&["memory", "put", COFFEE], "Black.\n");
    garth.feed(&["write", "-p", "/users/bob/memories/profile/content.md"], "Bob.\n");
    garth.feed(&["write", &format!("{DIR}/content.md")], "With milk.\n");
    let report = garth.json(&["repair", "--now", "--dry-run"]);
    assert_eq!((&report["found"]["orphan"], &report["found"]["changed_content"]), (&1.into(), &1.into()));
    assert_eq!(brief(&garth), "Black.", "it only told");
    let shown = garth.ok(&["repair", "--now"]);
    assert!(shown.contains(&format!("changed_content: {COFFEE}")), "{shown}");
    assert!(shown.contains("default: 2 memories: 2 repaired"), "{shown}");
    assert_eq!(brief(&garth), "With milk.");
    assert_eq!(garth.ok(&["repair", "--now"]), "default: 2 memories: nothing to repair\n");
    garth.ok(&["rm", &format!("{DIR}/content.md")]);
    let output = garth.run(&["repair", "--now"], b"");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains(&format!("broken: {COFFEE}")), "{shown}");
    assert!(shown.contains("nothing to repair; 1 broken"), "what is broken is not repaired: {shown}");
    garth.feed(&["write", &format!("{DIR}/content.md")], "With sugar.\n");
    garth.ok(&["repair", "--retry", COFFEE]);
    assert_eq!(brief(&garth), "With sugar.");
}

#[test]
fn repair_works_on_plain_folders() {
    let garth = Garth::new();
    let folder = garth.beside("export");
    let memory = folder.join("accounts/acme/users/ann/memories/events/trip");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("content.md"), "# Trip\n\nTo Rome in May.\n").unwrap();
    let path = folder.to_str().unwrap();
    let missing = garth.fails(2, &["repair", path]);
    assert!(missing.contains("accounts/default") && missing.contains("acme"), "{missing}");
    assert!(garth.ok(&["repair", path, "--all"]).contains("1 is being written"));
    let report = garth.json(&["repair", "--now", path, "--account", "acme"]);
    assert_eq!((&report["account"], &report["found"]["orphan"]), (&"acme".into(), &1.into()));
    let meta = std::fs::read_to_string(memory.join(".meta.json")).unwrap();
    assert!(meta.contains("ctx://acme/users/ann/memories/events/trip") && meta.contains("ACTIVE"), "{meta}");
    assert_eq!(std::fs::read_to_string(memory.join(".abstract.md")).unwrap(), "To Rome in May.\n");
    assert!(garth.fails(2, &["repair", memory.to_str().unwrap()]).contains("accounts"));
}

#[test]
fn repair_leaves_unknown_status_alone() {
    let garth = Garth::new();
    let folder = garth.beside("export");
    let memory = folder.join("accounts/default/users/ann/memories/events/trip");
    std::fs::create_dir_all(&memory).unwrap();
    let files = [(".meta.json", r#"{"status":"ARCHIVED"}"#), ("content.md", "To Rome.\n"), ("mine", "x")];
    for (name, text) in files {
        std::fs::write(memory.join(name), text).unwrap();
    }
    let shown = garth.ok(&["repair", "--now", folder.to_str().unwrap()]);
    assert!(shown.contains("events/trip: \"ARCHIVED\""), "{shown}");
    let report = garth.json(&["repair", "--now", folder.to_str().unwrap()]);
    assert_eq!((&report["unknown"], &report["ok"]), (&1.into(), &true.into()));
    for (name, text) in files {
        assert_eq!(std::fs::read_to_string(memory.join(name)).unwrap(), text, "{name}");
    }
    assert_eq!(std::fs::read_dir(&memory).unwrap().count(), files.len());
}

#[test]
fn memory_log_versions_can_be_read() {
    let garth = Garth::new();
    garth.feed(&["memory", "put", COFFEE], "Black.\n");
    garth.feed(&["memory", "put", COFFEE, "--tag", "drink"], "With milk.\n");
    garth.ok(&["memory", "rm", COFFEE]);
    let log = garth.lines(&["memory", "log", COFFEE]);
    assert_eq!((&log[0]["deleted"], &log[0]["meta"]), (&true.into(), &().into()));
    assert_eq!((&log[1]["meta"]["version"], &log[2]["meta"]["version"]), (&2.into(), &1.into()));
    assert_eq!(garth.lines(&["memory", "log", COFFEE, "-n", "1"]), log[..1]);
    let at = |version: &serde_json::Value| {
        let at = version["commit"]["seq"].to_string();
        garth.ok(&["memory", "get", COFFEE, "--at", &at])
    };
    assert_eq!((at(&log[1]), at(&log[2])), ("With milk.\n".to_owned(), "Black.\n".to_owned()));
    let by_version = log[2]["version_id"].as_str().unwrap();
    assert_eq!(garth.ok(&["memory", "get", COFFEE, "--at", by_version, "--layer", "0"]), "Black.\n");
    let shown = garth.ok(&["memory", "log", COFFEE]);
    assert!(shown.contains("v2 ACTIVE") && shown.contains("deleted"), "{shown}");
    assert!(garth.fails(3, &["memory", "get", COFFEE, "--at", "0"]).contains("at that time"));
    garth.fails(3, &["memory", "log", "ctx://default/users/alice/memories/profile"]);
}

#[test]
fn repair_works_on_one_account_by_default() {
    let garth = Garth::new();
    garth.ok(&["account", "create", "acme"]);
    let orphan = |account: &str| {
        let path = "/users/bob/memories/profile/content.md";
        garth.feed(&["write", "-p", path, "--account", account], "Bob.\n");
    };
    orphan("default");
    orphan("acme");
    for args in [&["repair", "--now"][..], &["repair", "--now", "--account", "default"]] {
        assert_eq!(garth.json(args)["account"], "default");
    }
    assert_eq!(garth.json(&["repair", "--now", "--dry-run", "--account", "acme"])["found"]["orphan"], 1);
    let all = garth.lines(&["repair", "--now", "--all"]);
    assert_eq!(column(&all, "account"), ["acme", "default"]);
    for verb in ["repair", "fsck", "gc", "reindex"] {
        assert!(garth.fails(3, &[verb, "--account", "nope"]).contains("account list"), "{verb}");
    }
}

#[test]
fn repair_restores_damaged_session_meta() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work", "--title", "Trip"]);
    let meta = "/users/default/agents/default/session/work/meta.json";
    garth.feed(&["write", meta, "--override-rules"], "{");
    assert!(garth.fails(7, &["session", "show", "work"]).contains(meta));
    assert!(garth.ok(&["repair", "--dry-run"]).contains("1 session to restore"));
    let report = garth.json(&["repair"]);
    assert_eq!(
        (&report["sessions"][0]["path"], &report["sessions"][0]["mended"]),
        (&meta.into(), &true.into())
    );
    assert_eq!(garth.json(&["session", "show", "work"])["meta"]["title"], "Trip");
}

#[test]
fn damaged_account_is_named() {
    let garth = Garth::new();
    garth.ok(&["account", "create", "acme"]);
    let accounts = std::fs::read_dir(garth.data().join("accounts")).unwrap();
    for folder in accounts {
        std::fs::write(folder.unwrap().path().join("tree.db"), "no database ".repeat(99)).unwrap();
    }
    for verb in ["repair", "fsck"] {
        assert!(garth.fails(1, &[verb, "--account", "acme"]).contains("account acme"), "{verb}");
    }
    let to = garth.beside("copy");
    assert!(garth.fails(1, &["backup", to.to_str().unwrap()]).contains("account acme"));
}

#[test]
fn commits_dated_in_future_cause_warning() {
    let garth = Garth::new();
    garth.write("/a", "1");
    let stderr = |args: &[&str]| text(&garth.run(args, b"").stderr);
    assert_eq!(stderr(&["log"]), "");
    let (env, _) = Env::manual(Timestamp::parse_rfc3339("2099-01-01T00:00:00Z").unwrap());
    let data = garth_engine::DataDir::builder(garth_agent::registry()).env(env).open(&garth.data()).unwrap();
    futures::executor::block_on(async {
        data.account("default").await.unwrap().write("/a", "2").await.unwrap();
    });
    drop(data);
    for args in [&["log"][..], &["fsck"], &["log", "--json"]] {
        assert!(stderr(args).contains("2099-01-01"), "{args:?}: {}", stderr(args));
    }
}

#[test]
fn server_repairs_changes_of_others() {
    let garth = Garth::new();
    let server = Server::start(&garth);
    garth.feed(&["memory", "put", COFFEE], "Black.\n");
    garth.feed(&["write", &format!("{DIR}/content.md")], "With milk.\n");
    let (env, changed) = (Env::system(), Env::system().instant());
    while brief(&garth) != "With milk." {
        assert!(changed.elapsed() < Duration::from_secs(30), "nobody repairs it");
        env.sleep(Duration::from_millis(100));
    }
    drop(server);
}
