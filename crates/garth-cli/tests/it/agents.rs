//! `garth agent`, addresses of memories, and the user of `GARTH_USER`.

use std::process::Output;

use serde_json::json;

use super::garth::{Garth, column, finish, text};

const COFFEE: &str = "ctx://default/users/alice/memories/preferences/coffee";

fn as_user(garth: &Garth, user: &str, args: &[&str]) -> Output {
    let mut command = garth.command(args);
    command.env("GARTH_USER", user);
    finish(command, b"")
}

#[test]
fn agents_are_created_listed_and_shown() {
    let garth = Garth::new();
    assert!(text(&garth.run(&["agent", "list"], b"").stderr).contains("garth agent create NAME"));
    garth.ok(&["agent", "create", "scout", "--owner", "ann", "--time-zone", "Europe/Berlin"]);
    garth.ok(&["agent", "create", "coder"]);
    assert_eq!(column(&garth.lines(&["agent", "list"]), "agent"), ["coder", "scout"]);
    assert_eq!(garth.lines(&["agent", "ls", "-n", "1"]).len(), 1);
    let shown = garth.json(&["agent", "show", "scout"]);
    assert_eq!((&shown["owner"], &shown["time_zone"]), (&json!("ann"), &json!("Europe/Berlin")));
    let files = column(shown["files"].as_array().unwrap(), "name");
    assert!(
        files.contains(&"SOUL.md".to_owned()) && files.contains(&"settings.json".to_owned()),
        "{files:?}"
    );
    assert!(garth.ok(&["agent", "show", "coder"]).contains("owner      -\n"));
    assert!(garth.ok(&["agent", "prompt", "scout"]).contains("- Agent: scout\n"));
    garth.ok(&["write", "/agents/coder/settings.json", "{", "--override-rules"]);
    assert!(garth.ok(&["agent", "list"]).contains("cannot be read"), "the list goes on");
}

#[test]
fn memories_are_addressed_by_category_and_slug() {
    let garth = Garth::unmade();
    garth.ok(&["memory", "put", "--user", "alice", "preferences/coffee", "Likes it black."]);
    assert_eq!(garth.ok(&["memory", "get", COFFEE]), "Likes it black.");
    assert_eq!(garth.ok(&["memory", "get", "--user", "alice", "preferences/coffee"]), "Likes it black.");
    garth.ok(&["memory", "put", "--agent", "scout", "cases/parser", "It is slow."]);
    garth.ok(&["memory", "put", "profile", "The owner."]);
    let all = column(&garth.lines(&["memory", "list"]), "uri");
    assert_eq!(
        all,
        [
            "ctx://default/agents/scout/memories/cases/parser",
            COFFEE,
            "ctx://default/users/default/memories/profile",
        ]
    );
    let list = |args: &[&str]| column(&garth.lines(&[&["memory", "list"], args].concat()), "uri");
    assert_eq!(list(&["--user", "alice"]), [COFFEE]);
    assert_eq!(list(&["--user", "alice", "preferences"]), [COFFEE]);
    assert_eq!(list(&["--user", "alice", "events"]), Vec::<String>::new());
    assert_eq!(list(&["--agent", "scout"]), all[..1]);
    assert_eq!(list(&["ctx://default/users"]), all[1..]);
    garth.ok(&["memory", "exists", "--user", "alice", "preferences/coffee"]);
    garth.ok(&["memory", "mv", "--user", "alice", "preferences/coffee", "events/coffee"]);
    garth.ok(&["memory", "rm", "--user", "alice", "events/coffee"]);
    assert_eq!(list(&["--user", "alice"]), Vec::<String>::new());
    assert!(garth.fails(2, &["memory", "get", "a/b/c"]).contains("CATEGORY/SLUG"));
}

#[test]
fn links_take_addresses_of_one_user() {
    let garth = Garth::unmade();
    for slug in ["entities/cafe", "events/visit"] {
        garth.ok(&["memory", "put", "--user", "alice", slug, "A text."]);
    }
    let pair = ["--user", "alice", "entities/cafe", "events/visit"];
    assert!(garth.ok(&[&["memory", "link"][..], &pair].concat()).starts_with("linked  "));
    assert_eq!(garth.lines(&["memory", "links", "--user", "alice", "events/visit"])[0]["hops"], json!(1));
    assert_eq!(garth.json(&[&["memory", "unlink"][..], &pair].concat())["removed"], json!(1));
    garth.fails(3, &[&["memory", "unlink"][..], &pair].concat());
}

#[test]
fn garth_user_applies_to_sessions_and_memories() {
    let garth = Garth::unmade();
    let ok = |args: &[&str]| {
        let output = as_user(&garth, "alice", args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    ok(&["memory", "put", "preferences/coffee", "Likes it black."]);
    ok(&["session", "create", "work"]);
    assert_eq!(garth.ok(&["memory", "get", COFFEE]), "Likes it black.");
    assert!(
        ok(&["ls", "/users/alice/agents/default/session"]).contains("work"),
        "files are those of the account"
    );
    garth.ok(&["session", "show", "work", "--user", "alice"]);
    garth.fails(3, &["session", "show", "work"]);
    assert!(ok(&["memory", "list"]).contains(COFFEE));
    assert_eq!(ok(&["memory", "list", "--user", "bob"]), "", "an option comes first");
    ok(&["agent", "create", "scout"]);
    assert_eq!(garth.json(&["agent", "show", "scout"])["owner"], json!("alice"));
    ok(&["fsck"]);
    assert!(ok(&["status"]).contains("user       alice"));
}
