//! Wrong usage: suggestions, exit codes, and the first screen of the help.

use serde_json::Value;

use super::garth::{Garth, bare, finish, text};

#[test]
fn former_and_guessed_commands_lead_to_commands() {
    let garth = Garth::unmade();
    for (args, said) in [
        (&["node", "get", "x"][..], "`node` is now `memory`: try `garth memory get x`"),
        (&["prompt"], "`prompt` is now `agent prompt`: try `garth agent prompt`"),
        (&["session", "pack", "work"], "`session pack` is now `context pack`: try `garth context pack work`"),
        (&["session", "withdraw", "work", "tail:1"], "try `garth session retract work tail:1`"),
        (&["get", "x"], "no command `get`: try `garth cat PATH`"),
        (&["chat", "append", "x"], "no command `chat append`: try `garth session append NAME TEXT`"),
        (&["version"], "no command `version`: try `garth --version`"),
        (&["sesion", "list"], "no command `sesion`: did you mean `garth session`?"),
        (
            &["context", "pack", "work", "--form", "openai"],
            "option `--form` of `garth context pack` is now `--format`",
        ),
        (&["memory", "tag", "notes/x", "drinks"], "--add TAG"),
        (&["quota", "set", "/a", "1MB"], "try `garth quota set PATH --max-bytes SIZE`"),
        (&["config", "set", "listen", "x"], "write the option to garth.toml"),
        (&["config", "show"], "`garth config` prints every option"),
        (&["restore", "-n", "/a"], "option `-n` of `garth restore` is now `--dry-run`"),
    ] {
        let told = garth.fails(2, args);
        assert!(told.starts_with("garth: ") && told.contains(said), "{told}");
    }
    let told = garth.fails(2, &["get", "x", "--json"]);
    let last: Value = serde_json::from_str(told.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["error"]["exit"], 2);
    assert!(last["error"]["message"].as_str().unwrap().starts_with("no command `get`"), "{last}");
}

#[test]
fn missing_things_are_exit_code_3() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work"]);
    garth.ok(&["write", "/a", "x"]);
    for args in [
        &["cat", "/none"][..],
        &["rm", "/none"],
        &["log", "/none"],
        &["restore", "/none"],
        &["ls", "/", "--at", "none"],
        &["show", "99"],
        &["ls", "--account", "none"],
        &["ls", "--overlay", "none"],
        &["ls", "/none", "--user", "ann", "--chat", "none"],
        &["account", "rm", "none", "--yes"],
        &["key", "revoke", "0000000000000000"],
        &["quota", "rm", "/none"],
        &["rule", "rm", "/none/**", "append-only"],
        &["snapshot", "rm", "none"],
        &["overlay", "rm", "none"],
        &["overlay", "diff", "none"],
        &["chat", "rm", "none"],
        &["agent", "show", "none"],
        &["agent", "prompt", "none"],
        &["skill", "show", "none"],
        &["skill", "rm", "none"],
        &["memory", "get", "preferences/none"],
        &["memory", "rm", "preferences/none"],
        &["memory", "log", "preferences/none"],
        &["memory", "tag", "preferences/none", "--add", "x"],
        &["memory", "unlink", "preferences/none", "cases/none"],
        &["kv", "get", "/none"],
        &["kv", "log", "/none"],
        &["daily", "show", "2020-01-01"],
        &["session", "show", "none"],
        &["session", "messages", "none"],
        &["session", "append", "none", "hi"],
        &["session", "retract", "work", "9"],
        &["session", "archive", "none"],
        &["session", "rm", "none"],
        &["session", "export", "none"],
        &["session", "set", "none", "--title", "x"],
        &["context", "pack", "none"],
        &["context", "why", "work", "none"],
        &["context", "swap", "show", "work", "none"],
        &["context", "child", "set", "work", "none", "--status", "done"],
        &["outbox", "rm", "00000000-0000-4000-8000-000000000000"],
        &["outbox", "retry", "00000000-0000-4000-8000-000000000000"],
        // Files of this machine.
        &["import", "/no/such/folder", "/in"],
        &["skill", "check", "/no/such/folder"],
        &["skill", "install", "/no/such/folder"],
        &["media", "put", "/no/such/file", "--session", "work"],
        &["session", "import", "work", "/no/such/file", "--format", "openai"],
        &["context", "derive", "work", "--summary", "/no/such/file"],
        &["context", "pin", "work", "system.md", "/no/such/file"],
        &["rule", "set", "/x/**", "json", "--schema", "/no/such/file"],
        &["agent", "prompt", "--host", "@/no/such/file"],
        &["batch", "/no/such/file"],
        &[
            "context",
            "compact",
            "work",
            "--model-endpoint",
            "http://localhost:1/v1",
            "--model",
            "m",
            "--model-key-file",
            "/no/such/file",
        ],
    ] {
        let said = garth.fails(3, args);
        // Files of this machine are missing in the same words as those of the tree.
        let is_host = args.iter().any(|arg| arg.contains("/no/such"));
        assert!(!is_host || said.ends_with(": no such file or directory\n"), "{args:?}: {said}");
    }
    let missing = garth.run(&["memory", "exists", "preferences/none"], b"");
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stdout).starts_with("missing  "));
}

#[test]
fn bad_arguments_are_exit_code_2() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work"]);
    for args in [
        &["write", "/a", "two", "words"][..],
        &["context", "pack", "work", "--budget", "many"],
        &["context", "derive", "work"],
        &["memory", "get", "nonsense"],
        &["memory", "get", "ctx://default/nonsense"],
        &["memory", "list", "--status", "odd"],
        &["session", "retract", "work", "messages:0"],
        &["session", "import", "work", "--format", "openai", "--part", "--dry-run"],
        &["agent", "show", "a/b"],
        &["agent", "prompt", "scout", "--agent", "other"],
        &["log", "-p", "--oneline"],
    ] {
        garth.fails(2, args);
    }
    assert!(garth.fails(2, &["write", "/a", "two", "words"]).contains("quote a text that has spaces"));
}

#[test]
fn first_screen_is_the_same_for_short_help() {
    let shown = text(&finish(bare(&["--help"]), b"").stdout);
    assert_eq!(shown, text(&finish(bare(&["-h"]), b"").stdout));
    assert!(shown.starts_with("garth - ") && shown.lines().count() <= 40, "{shown}");
    let none = finish(bare(&[]), b"");
    assert_eq!((none.status.code(), text(&none.stderr)), (Some(2), shown));
    let short = text(&finish(bare(&["session", "append", "-h"]), b"").stdout);
    assert!(short.contains("`garth session append --help`") && !short.contains("--overlay"), "{short}");
    let long = text(&finish(bare(&["session", "append", "--help"]), b"").stdout);
    assert!(long.contains("Examples:\n") && long.contains("\nGlobal options:\n"), "{long}");
    assert_eq!(long.matches("--overlay <ID>").count(), 1, "{long}");
}
