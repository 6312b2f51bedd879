//! The tree of an agent in a chat, on the command line.

use std::fs;

use serde_json::{Value, json};

use super::garth::{Garth, column, string, text, utf8};

const CHAT: [&str; 4] = ["--user=ann", "--agent=scout", "--chat=trip", "--session=s1"];

/// Root of a chat that nobody has written to: the parts of the tree that are not of the chat.
const EMPTY: &str = ".agent\n.user\nctx\n";

/// Creates a data folder in which Ann owns agent `scout`.
fn of_ann() -> Garth {
    let garth = Garth::new();
    garth.write("/agents/scout/settings.json", r#"{"owner":"ann"}"#);
    garth
}

/// Returns the arguments for the agent's tree.
fn in_chat<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &CHAT[..]].concat()
}

#[test]
fn identity_options_open_a_tree() {
    let garth = of_ann();
    for (args, chat) in [
        (["--agent=scout", "--user=ann"], "ann"),
        (["--agent=scout", "--chat=trip"], "trip"),
        (["--agent=scout", "--session=s"], "ann"),
        (["--agent=scout", "--key=agent:scout:slack:channel:C1"], ":slack:channel:C1"),
    ] {
        assert_eq!(garth.ok(&[&["ls", "/"], &args[..]].concat()), EMPTY);
        assert_eq!(garth.ok(&["chat", "list"]), "", "a read creates no chat");
        garth.feed(&[&["write", "/f"], &args[..]].concat(), chat);
        assert_eq!(garth.ok(&["cat", &format!("/chats/{chat}/f")]), chat);
        garth.ok(&["chat", "rm", chat]);
    }
    for args in [
        &["ls", "/", "--class", "group"][..],
        &["ls", "/", "--key", "agent:other:main"],
        &["ls", "/", "--skill", "cook"],
        &["ls", "/", "--upload-limit", "1M"],
        &["ls", "/", "--user", "a/b", "--chat", "c"],
        &["ls", "/", "--user", "ann", "--chat", "c", "--raw"],
        &["ls", "/", "--user", "ann", "--chat", "c", "--skill", "cook=sometimes"],
        &["kv", "list", "--user", "ann", "--chat", "c"],
        &["cat", "/f", "--template"],
    ] {
        garth.fails(2, args);
    }
}

#[test]
fn wrong_chat_options_are_named() {
    let garth = Garth::new();
    garth.write("/skills/cook/SKILL.md", "boil\n");
    garth.ok(&in_chat(&["mkdir", "/d"]));
    let says = |code: i32, args: &[&str], words: &str| {
        let said = garth.fails(code, args);
        assert!(said.contains(words), "{said}");
    };
    let chat = "c".repeat(200);
    says(
        2,
        &["ls", "/", "--user", "a/b", "--chat", "c"],
        "\"a/b\" is not a valid user id: use 1 to 128 bytes",
    );
    let shown = format!("\"{}…\" is not a valid chat id", &chat[..32]);
    says(2, &["ls", "/", "--user", "ann", "--chat", &chat], &shown);
    let skill = |skills: &[&'static str]| [in_chat(&["ls", "/"]), skills.to_vec()].concat();
    says(2, &skill(&["--skill=cook", "--skill=cook=override"]), "--skill: cook occurs twice");
    says(2, &skill(&["--skill=cook=ephemeral:"]), "--skill");
    says(2, &skill(&["--skill=cook=ephemeral:"]), "no folder after the `:`");
    let file = garth.beside("file");
    fs::write(&file, "x").expect("a file");
    for (code, at, why) in [(1, file, "not a folder"), (3, garth.beside("none"), "no such folder")] {
        let option = format!("--skill=cook=ephemeral:{}", utf8(&at));
        let args = [in_chat(&["ls", "/"]), vec![&option]].concat();
        says(code, &args, &format!("--skill: {}: {why}", utf8(&at)));
    }
    let limited = in_chat(&["write", "/d/f", "--upload-limit", "1"]);
    says(
        6,
        &limited,
        "/d/f: content that is sent to this tree at once has at most 1 bytes; see `--upload-limit`",
    );
    let long = garth.run(&in_chat(&["write", "/d/f", "--upload-limit", "1M"]), &vec![b'x'; 3 << 20]);
    assert!(
        String::from_utf8_lossy(&long.stderr).contains("/d/f: content that is sent"),
        "staged content too"
    );
}

#[test]
fn account_commands_reject_identity_options() {
    let garth = Garth::new();
    let backup = garth.beside("backup");
    for args in [
        &["serve"][..],
        &["key", "list"],
        &["account", "list"],
        &["backup", utf8(&backup)],
        &["fsck"],
        &["gc"],
        &["reindex"],
    ] {
        let said = garth.fails(2, &in_chat(args));
        assert!(said.contains("remove --user, --key, --chat, --class and --session"), "{said}");
        let said = garth.fails(2, &[args, &["--overlay=draft"]].concat());
        assert!(said.contains("remove --overlay"), "{said}");
    }
}

#[test]
fn chats_and_homes_must_be_directories() {
    let garth = Garth::new();
    garth.ok(&["mkdir", "-p", "/agents", "/chats"]);
    garth.ok(&["ln", "-s", "/agents/other", "/agents/link"]);
    garth.write("/agents/file", "x");
    garth.write("/chats/file", "x");
    garth.ok(&["ln", "-s", "/chats/other", "/chats/link"]);
    for agent in ["link", "file"] {
        let said = garth.fails(4, &["write", "/x", "--chat=trip", "--agent", agent]);
        assert!(said.contains(&format!("/agents/{agent}: not a directory")), "{said}");
    }
    for chat in ["link", "file"] {
        let said = garth.fails(4, &["write", "/x", "--user=ann", "--agent=scout", "--chat", chat]);
        assert!(said.contains(&format!("/chats/{chat}: not a directory")), "{said}");
        garth.fails(3, &["ls", "/", "--user=ann", "--agent=scout", "--chat", chat]);
        garth.fails(3, &["chat", "rm", chat]);
    }
    assert_eq!(garth.ok(&["ls", "/chats"]), "file\nlink\n");
    assert_eq!(garth.ok(&["chat", "list"]), "");
}

#[test]
fn agent_works_only_in_its_chat() {
    let garth = of_ann();
    garth.write("/chats/other/secret", "canary");
    garth.write("/agents/scout/MEMORY.md", "mine");
    assert_eq!(garth.ok(&in_chat(&["ls", "/"])), EMPTY);
    garth.feed(&in_chat(&["write", "/notes.md"]), "pack\n");
    assert_eq!(garth.ok(&["cat", "/chats/trip/notes.md"]), "pack\n");
    assert_eq!(garth.ok(&in_chat(&["ls", "-a", "/"])).lines().count(), 4, "notes.md, .agent, .user, ctx");
    let author = &garth.json(&["log", "-n", "1"])["author"];
    let of = |field: &str| string(&author[field]);
    assert_eq!([of("agent"), of("user"), of("session"), of("class")], ["scout", "ann", "s1", "main"]);

    garth.ok(&in_chat(&["mv", "/notes.md", "/.user/notes.md"]));
    assert_eq!(garth.ok(&["cat", "/users/ann/agents/scout/notes.md"]), "pack\n");
    assert_eq!(garth.ok(&in_chat(&["cat", "/.agent/MEMORY.md"])), "mine");
    garth.fails(3, &in_chat(&["cat", "/.agent/MEMORY.md", "--class", "dm"]));
    let said = garth.fails(5, &in_chat(&["cat", "/.agent/MEMORY.md", "--class", "group"]));
    assert!(said.contains("trip: belongs to another audience"), "{said}");

    // Paths out of the chat.
    garth.ok(&in_chat(&["ln", "-s", "/../other/secret", "/out"]));
    for path in
        ["/../other/secret", "/out", "/.user/../../../../chats/other/secret", "/.garth", "/chats/other"]
    {
        garth.fails(3, &in_chat(&["cat", path]));
    }
    garth.fails(4, &in_chat(&["rm", "-r", "/.agent"]));
    assert!(!garth.ok(&in_chat(&["find", "/"])).contains("secret"));
    assert!(garth.lines(&in_chat(&["search", "canary"])).is_empty());

    assert_eq!(column(&garth.lines(&["chat", "list"]), "chat"), ["other", "trip"]);
    garth.ok(&["chat", "rm", "trip"]);
    garth.fails(3, &["chat", "rm", "trip"]);
    assert_eq!(garth.ok(&in_chat(&["ls", "/"])), EMPTY);
    assert_eq!(garth.ok(&["cat", "/chats/other/secret"]), "canary");
}

#[test]
fn show_defaults_to_last_visible_commit() {
    let garth = Garth::new();
    garth.feed(&in_chat(&["write", "/a", "-m", "ours"]), "1\n");
    garth.write("/elsewhere", "2\n");
    let shown = garth.lines(&in_chat(&["show"]));
    assert_eq!(shown[0]["message"], "ours");
    assert_eq!(shown[0]["seq"], garth.json(&in_chat(&["log", "-n", "1"]))["seq"]);
    let empty = Garth::new();
    let said = empty.fails(3, &["show"]);
    assert_eq!(said, "garth: no commit changed this tree\n");
}

#[test]
fn failed_first_write_creates_no_chat() {
    let garth = Garth::new();
    for args in [
        &["write", "/no/dir/x"][..],
        &["write", "/no/x", "--free-name"],
        &["append", "/no/x"],
        &["mkdir", "/d", "/no/x"],
        &["touch", "/no/x"],
    ] {
        garth.fails(3, &in_chat(args));
    }
    for lines in [
        "{\"op\":\"rm\",\"path\":\"/x\",\"force\":true}\n",
        "{\"op\":\"set\",\"path\":\"/x\",\"attrs\":{\"mode\":\"600\"}}\n",
        "{\"op\":\"write\",\"path\":\"/x\",\"text\":\"1\",\"create\":\"never\"}\n",
        "{\"op\":\"mkdir\",\"path\":\"/a\"}\n{\"op\":\"write\",\"path\":\"/no/x\",\"text\":\"1\"}\n",
    ] {
        let output = garth.run(&in_chat(&["batch"]), lines.as_bytes());
        assert_eq!(output.status.code(), Some(3), "{lines}");
    }
    // A mistyped chat empties no folder.
    let out = garth.beside("out");
    fs::create_dir(&out).expect("a folder");
    fs::write(out.join("kept"), "x").expect("a file");
    let said = garth.fails(3, &in_chat(&["export", "/", utf8(&out), "--delete"]));
    assert!(said.contains("nobody has written to this chat") && out.join("kept").exists(), "{said}");
    // Only a command that creates files creates the chat that its options name.
    for args in [&["ln", "-s", "/x", "/link"][..], &["snapshot", "create", "s"], &["set", "/", "--tag", "t"]]
    {
        let said = garth.fails(3, &in_chat(args));
        assert!(said.contains("trip: no such chat; a first `garth write`"), "{said}");
    }
    assert_eq!(garth.ok(&["ls", "-a", "/"]), "");

    let first = |args: &[&'static str], chat: &'static str, input: &str| {
        garth.feed(&[args, &["--user=ann", "--agent=scout", "--chat", chat]].concat(), input)
    };
    let long = "0123456789abcdef".repeat(100_000);
    first(&["write", "-p", "/a/b"], "written", &long);
    assert_eq!(garth.ok(&["cat", "/chats/written/a/b"]), long);
    first(&["write", "/a", "--free-name"], "free", "1");
    first(&["mkdir", "/d", "/d/e"], "made", "");
    let lines = "{\"op\":\"mkdir\",\"path\":\"/a\"}\n{\"op\":\"append\",\"path\":\"/a/b\",\"text\":\"1\"}\n";
    first(&["batch"], "batch", lines);
    let folder = garth.beside("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("f"), "of the host").expect("a file");
    garth.ok(&in_chat(&["import", utf8(&folder)]));
    assert_eq!(garth.ok(&["cat", "/chats/trip/f"]), "of the host");
    let chats = column(&garth.lines(&["chat", "list"]), "chat");
    assert_eq!(chats, ["batch", "free", "made", "trip", "written"]);
}

#[test]
fn skill_edits_are_dropped_or_saved() {
    let garth = of_ann();
    garth.write("/skills/cook/SKILL.md", "boil\n");
    garth.fails(3, &in_chat(&["mkdir", "/x", "--skill", "none"]));
    garth.feed(&in_chat(&["append", "/skills/cook/SKILL.md", "--skill", "cook"]), "salt\n");
    assert_eq!(garth.ok(&in_chat(&["cat", "/skills/cook/SKILL.md", "--skill=cook"])), "boil\n");
    let kept = |args: &[&'static str]| [in_chat(args), vec!["--skill=cook=override"]].concat();
    garth.feed(&kept(&["append", "/skills/cook/SKILL.md"]), "salt\n");
    assert_eq!(garth.ok(&kept(&["cat", "/skills/cook/SKILL.md"])), "boil\nsalt\n");
    assert_eq!(garth.ok(&["cat", "/agents/scout/skills/cook/SKILL.md"]), "boil\nsalt\n");
    assert_eq!(garth.ok(&["cat", "/skills/cook/SKILL.md"]), "boil\n");
    for verb in ["find", "du", "tree"] {
        garth.ok(&kept(&[verb, "/"]));
    }
    let folder = garth.beside("weave");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("SKILL.md"), "of the host").expect("a file");
    let skill = format!("--skill=weave=ephemeral:{}", utf8(&folder));
    let of_host = [in_chat(&["cat", "/skills/weave/SKILL.md"]), vec![&skill]].concat();
    assert_eq!(garth.ok(&of_host), "of the host");
    // In a sandbox, a batch sees its own changes.
    let lines = "{\"op\":\"append\",\"path\":\"/skills/cook/SKILL.md\",\"text\":\"x\"}\n";
    garth.feed(&in_chat(&["batch", "--skill=cook"]), lines);
}

/// Returns the arguments for an existing chat with the skill `cook`. Changes to the skill go to another
/// store.
fn with_cook<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &CHAT[..], &["--skill=cook"]].concat()
}

#[test]
fn cp_copies_from_skill_to_chat() {
    let garth = Garth::new();
    let long = "0123456789abcdef".repeat(150_000);
    garth.write("/skills/cook/steps/long.txt", &long);
    garth.feed(&["write", "/skills/cook/tpl.md", "--tag", "soup", "--ttl", "1h"], "boil\n");
    garth.ok(&["set", "/skills/cook/tpl.md", "--mode", "640", "--owner", "7:8", "--meta", "k=v"]);
    garth.ok(&["ln", "/skills/cook/tpl.md", "/skills/cook/steps/again.md"]);
    garth.ok(&["ln", "-s", "../tpl.md", "/skills/cook/steps/link"]);
    garth.ok(&["chmod", "700", "/skills/cook/steps"]);
    garth.ok(&["touch", "-d", "2001-02-03", "/skills/cook/steps"]);
    garth.ok(&in_chat(&["mkdir", "/d"]));
    let kept = |path: &str| {
        let mut stat = garth.json(&with_cook(&["stat", path]));
        let keys = ["kind", "size", "mode", "uid", "gid", "mtime", "target", "expires_at", "attributes"];
        keys.map(|key| stat[key].take())
    };

    let copied = garth.json(&with_cook(&["cp", "/skills/cook/tpl.md", "/mine.md", "-m", "ours"]));
    assert_eq!((&copied["path"], &copied["created"]), (&json!("/mine.md"), &json!(true)));
    assert_eq!(copied["version"], garth.json(&in_chat(&["stat", "/mine.md"]))["version"]);
    assert_eq!(copied["seq"].as_u64(), Some(garth.seq()));
    assert_eq!(garth.json(&["log", "-n", "1"])["message"], "ours");
    assert_eq!(garth.ok(&["cat", "/chats/trip/mine.md"]), "boil\n");
    assert_eq!(kept("/mine.md"), kept("/skills/cook/tpl.md"));

    let said = garth.fails(1, &with_cook(&["cp", "/skills/cook", "/d"]));
    assert!(said.contains("/skills/cook: is a directory; -r copies it"), "{said}");
    garth.ok(&with_cook(&["cp", "-r", "/skills/cook", "/d"]));
    assert_eq!(garth.ok(&["cat", "/chats/trip/d/cook/steps/long.txt"]), long);
    for path in ["", "/tpl.md", "/steps", "/steps/long.txt", "/steps/link", "/steps/again.md"] {
        assert_eq!(kept(&format!("/d/cook{path}")), kept(&format!("/skills/cook{path}")), "{path}");
    }
    let node = |path: &str| garth.json(&in_chat(&["stat", path]))["ino"].take();
    assert_eq!(node("/d/cook/tpl.md"), node("/d/cook/steps/again.md"));

    // All enabled skills, and a copy into the skill.
    garth.ok(&with_cook(&["cp", "-r", "/skills", "/all"]));
    assert_eq!(garth.ok(&in_chat(&["cat", "/all/cook/tpl.md"])), "boil\n");
    garth.ok(&with_cook(&["cp", "-r", "/d", "/skills/cook/new"]));
    let said = garth.fails(2, &with_cook(&["cp", "-r", "/skills", "/skills/cook/new"]));
    assert!(said.contains("cannot be copied into itself"), "{said}");
}

#[test]
fn cp_across_stores_follows_overwrite_rules() {
    let garth = Garth::new();
    garth.write("/skills/cook/a", "new");
    garth.write("/skills/cook/b", "b");
    garth.feed(&in_chat(&["write", "/a", "--tag", "old"]), "old and longer");
    garth.ok(&in_chat(&["set", "/a", "--meta", "k=v"]));
    garth.ok(&in_chat(&["ln", "/a", "/same"]));
    garth.ok(&in_chat(&["mkdir", "/d"]));
    garth.fails(4, &with_cook(&["cp", "-n", "/skills/cook/a", "/a"]));
    garth.fails(4, &with_cook(&["cp", "-r", "/skills/cook", "/a"]));
    garth.fails(3, &with_cook(&["cp", "/skills/cook/a", "/no/dir"]));
    garth.fails(3, &with_cook(&["cp", "/skills/cook/none", "/d"]));
    assert_eq!(garth.ok(&in_chat(&["cat", "/a"])), "old and longer");

    let copied = garth.json(&with_cook(&["cp", "/skills/cook/a", "/a"]));
    assert_eq!(copied["created"], json!(false));
    assert_eq!(garth.ok(&in_chat(&["cat", "/same"])), "new", "the node stays");
    let attributes = garth.json(&in_chat(&["stat", "/a"]))["attributes"].take();
    assert_eq!(attributes, garth.json(&with_cook(&["stat", "/skills/cook/a"]))["attributes"]);

    // Several sources, each copied from its own store.
    let copied = garth.lines(&with_cook(&["cp", "/skills/cook/b", "/a", "/d"]));
    assert_eq!(column(&copied, "path"), ["/d/b", "/d/a"]);
    garth.ok(&with_cook(&["cp", "-p", "/skills/cook/a", "/no/dir/a"]));
    assert_eq!(garth.ok(&in_chat(&["cat", "/d/b", "/d/a", "/no/dir/a"])), "bnewnew");

    let limited = [with_cook(&["cp", "/skills/cook/a", "/small"]), vec!["--upload-limit=1"]].concat();
    garth.fails(6, &limited);
}

#[test]
fn cross_store_failures_name_the_remedy() {
    let garth = Garth::new();
    garth.write("/skills/cook/a", "a");
    garth.ok(&in_chat(&["mkdir", "/d"]));
    let said = garth.fails(1, &with_cook(&["mv", "/skills/cook/a", "/d"]));
    assert!(said.contains("copy with `garth cp`, then remove"), "{said}");
    let said = garth.fails(1, &with_cook(&["ln", "/skills/cook/a", "/d"]));
    assert!(said.contains("hard link") && said.contains("`garth ln -s`"), "{said}");
}

#[test]
fn reserved_directory_is_for_administrators() {
    let garth = of_ann();
    garth.write("/skills/cook/SKILL.md", "boil\n");
    garth.feed(&in_chat(&["append", "/skills/cook/SKILL.md", "--skill=cook=override"]), "salt\n");
    garth.fails(3, &["ls", "/.garth"]);
    assert!(!garth.ok(&["ls", "-a", "/"]).contains(".garth"));
    garth.fails(5, &["mkdir", "/.garth"]);
    garth.fails(5, &["write", "-p", "/.garth/x"]);
    assert!(garth.ok(&["ls", "/.garth", "--raw"]).contains("skills"));
    let to = garth.beside("out");
    garth.ok(&["export", "/", utf8(&to)]);
    assert!(!to.join(".garth").exists() && to.join("skills").exists());
}

#[test]
fn memory_template_shows_only_on_request() {
    let garth = of_ann();
    garth.ok(&in_chat(&["mkdir", "/d"]));
    garth.fails(3, &in_chat(&["cat", "/.user/memory/MEMORY.md"]));
    let template = garth.json(&in_chat(&["cat", "/.user/memory/MEMORY.md", "--template"]));
    assert_eq!(template["synthetic"], Value::Bool(true));
    let printed = garth.run(&in_chat(&["cat", "/.user/memory/MEMORY.md", "--template"]), b"");
    assert!(printed.status.success() && printed.stdout == template["content"].as_str().unwrap().as_bytes());
    assert!(text(&printed.stderr).contains("this is a template (synthetic)"), "{}", text(&printed.stderr));
    garth.feed(&in_chat(&["write", "-p", "/.user/memory/MEMORY.md"]), "coffee");
    let found = garth.json(&in_chat(&["cat", "/.user/memory/MEMORY.md", "--template"]));
    assert_eq!((found["synthetic"].as_bool(), found["content"].as_str()), (Some(false), Some("coffee")));
}

#[test]
fn uploads_are_limited_and_take_free_names() {
    let garth = Garth::new();
    let long = "x".repeat(2000);
    let limited = in_chat(&["write", "/f", "--upload-limit", "1k"]);
    let output = garth.run(&limited, long.as_bytes());
    assert!(!output.status.success());
    for path in ["/notes.md", "/notes (2).md", "/notes (3).md"] {
        let printed = garth.feed(&in_chat(&["write", "/notes.md", "--free-name", "--json"]), path);
        let json: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(json["path"], path);
    }
    assert_eq!(garth.ok(&["cat", "/chats/trip/notes (2).md"]), "/notes (2).md");
}

#[test]
fn overlay_rejects_identity_options() {
    let garth = Garth::new();
    garth.ok(&["agent", "create", "bot", "--owner", "ann"]);
    garth.ok(&["overlay", "create", "draft"]);
    let bound = ["--agent", "bot", "--user", "mallory"];
    for verb in [&["cat", "/agents/bot/SOUL.md"][..], &["ls", "/"], &["recall", "soul"], &["session", "list"]]
    {
        for who in [&bound[2..], &["--key", "agent:bot:dm:x"], &["--class", "dm"], &["--session", "s"]] {
            garth.fails(2, &[verb, who, &["--agent", "bot", "--overlay", "draft"]].concat());
        }
    }
    garth.feed(&["write", "/n.md", "--agent", "bot", "--user", "ann", "--chat", "trip"], "a canary");
    garth.fails(2, &[&["chat", "own", "trip", "mallory"][..], &bound].concat());
    let said = garth.fails(4, &["chat", "own", "trip", "mallory"]);
    assert!(said.contains("belongs to ann; use --take"), "{said}");
    assert_eq!(garth.json(&["chat", "list"])["audience"], "ann");
    garth.ok(&["chat", "own", "trip", "mallory", "--take"]);
    assert_eq!(garth.ok(&[&["cat", "/n.md", "--chat", "trip"][..], &bound].concat()), "a canary");
    assert!(garth.fails(3, &["chat", "own", "gone", "ann"]).contains("garth mkdir /chats/gone"));
}

#[test]
fn account_snapshots_show_past_of_agent_trees() {
    let garth = Garth::new();
    garth.ok(&["agent", "create", "bot", "--owner", "ann"]);
    let ann = ["--agent", "bot", "--user", "ann"];
    assert!(garth.ok(&[&["cat", "/.agent/SOUL.md"][..], &ann].concat()).contains("# "));
    assert!(garth.ok(&[&["find", "/.agent", "--type", "file"][..], &ann].concat()).contains("SOUL.md"));
    garth.ok(&[&["recall", "soul"][..], &ann].concat());
    assert_eq!(garth.ok(&[&["ls", "/"][..], &ann].concat()), ".agent\n.user\nctx\n");
    garth.feed(&[&["write", "/a.md"][..], &ann].concat(), "one");
    garth.ok(&["snapshot", "create", "before"]);
    garth.feed(&[&["write", "/a.md"][..], &ann].concat(), "two");
    assert_eq!(garth.ok(&[&["cat", "/a.md", "--at", "before"][..], &ann].concat()), "one");
}
