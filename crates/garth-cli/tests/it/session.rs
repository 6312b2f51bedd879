//! `garth session`, as its users meet it.

use serde_json::json;

use super::garth::{Garth, text};

#[test]
fn a_session_is_made_continued_read_and_ended() {
    let garth = Garth::unmade();
    assert_eq!(garth.ok(&["session", "create", "work", "--title", "Fix it"]).trim(), "created  work");
    garth.feed(&["session", "append", "work", "--role", "user"], "Where is the parser?\n");
    let lines =
        "{\"role\":\"assistant\",\"content\":\"In src.\"}\n\n{\"role\":\"user\",\"content\":\"Thanks\"}\n";
    garth.feed(&["session", "append", "work", "--run", "r1", "--output-tokens", "7"], lines);
    garth
        .feed(&["session", "append", "work", "--events", "--state", "active"], "{\"type\":\"tool.started\"}");
    let shown = garth.ok(&["session", "messages", "work"]);
    assert!(shown.lines().count() == 3 && shown.contains("Where is the parser?"), "{shown}");
    let last = garth.lines(&["session", "messages", "work", "tail:1"]);
    assert_eq!((&last[0]["line"], &last[0]["message"]["content"]), (&json!(3), &json!("Thanks")));
    assert!(garth.ok(&["session", "events", "work"]).contains("tool.started"));
    assert_eq!(garth.ok(&["cat", "/users/default/agents/default/session/work/latest.md"]), "In src.");
    assert_eq!(garth.json(&["session", "withdraw", "work", "messages:2"])["lines"], json!("messages:2-2"));
    assert_eq!(garth.lines(&["session", "messages", "work"]).len(), 2);
    assert_eq!(garth.lines(&["session", "messages", "work", "--withdrawn"]).len(), 3);
    assert_eq!(garth.json(&["session", "resolve", "work", "user:latest"])["lines"], json!([3, 3]));
    let set = garth.json(&["session", "set", "work", "--state", "done"]);
    assert_eq!((&set["state"], &set["meta"]["usage"]["output_tokens"]), (&json!("done"), &json!(7)));
    assert_eq!(garth.lines(&["session", "list", "--state", "idle"]).len(), 0);
    assert!(garth.ok(&["session", "show", "work"]).contains("title    Fix it"));
}

#[test]
fn what_is_wrong_about_it_is_told() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work", "--user", "ann", "--agent", "coder"]);
    garth.fails(3, &["session", "show", "work"]);
    garth.ok(&["session", "show", "work", "--user", "ann", "--agent", "coder"]);
    garth.fails(3, &["session", "current", "agent:coder:main", "--agent", "coder"]);
    garth.fails(2, &["session", "current", "agent:coder:main"]);
    let refused =
        garth.run(&["session", "append", "work", "--user", "ann", "--agent", "coder"], b"{\"role\":\"x\"}");
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("message 1"),
        "{}",
        text(&refused.stderr)
    );
    let refused = garth.run(&["session", "append", "work", "--user", "ann", "--agent", "coder"], b"\nhi\n");
    assert!(text(&refused.stderr).contains("line 2 of the input"), "{}", text(&refused.stderr));
    garth.fails(2, &["session", "set", "work"]);
    garth.fails(2, &["session", "withdraw", "work", "messages:0"]);
    // what was said is kept against every verb
    let dir = "/users/ann/agents/coder/session/work";
    for args in [vec!["rm", "-r", "/users/ann"], vec!["mv", dir, "/away"], vec!["rm", "-r", dir]] {
        let refused = garth.run(&args, b"");
        assert!(text(&refused.stderr).contains("append-only"), "{}", text(&refused.stderr));
    }
    garth.ok(&["--override-rules", "rm", "-r", dir]);
    garth.fails(3, &["ls", "/", "--user", "ann"]);
}

#[test]
fn a_transcript_comes_in_once_and_goes_out_as_it_came() {
    let garth = Garth::unmade();
    let text = "{\"role\":\"user\",\"content\":\"hi\",\"timestamp\":1708300000000}\n";
    let args = ["session", "import", "work", "--format", "pi", "--create"];
    garth.feed(&args, text);
    let again = garth.run(&args, text.as_bytes());
    assert!(self::text(&again.stderr).contains("whole"), "{}", self::text(&again.stderr));
    garth.feed(&["session", "import", "work", "--format", "pi", "--whole"], text);
    assert_eq!(garth.ok(&["session", "export", "work", "--format", "pi"]), text);
    let openai = garth.ok(&["session", "export", "work", "--format", "openai"]);
    assert_eq!(openai, "[\n{\"role\":\"user\",\"content\":\"hi\"}\n]\n");
    let lines = garth.ok(&["session", "export", "work"]);
    assert!(lines.contains("\"native\":{\"format\":\"pi\",\"line\":1}"), "{lines}");
    let markdown = garth.ok(&["session", "export", "work", "--format", "markdown"]);
    assert!(markdown.starts_with("## user 2024-02-18T"), "{markdown}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.md");
    std::fs::write(&file, markdown).unwrap();
    let file = file.to_str().unwrap();
    let done = garth.json(&["session", "import", "other", file, "--format", "markdown", "--create"]);
    assert_eq!((&done["new"], &done["lines"]), (&json!(1), &json!("messages:1-1")));
    garth.fails(3, &["session", "import", "none", file, "--format", "markdown"]);
    garth.fails(3, &["session", "export", "none"]);
    garth.fails(2, &["session", "export", "work", "--format", "odd"]);
    garth.fails(2, &["session", "import", "work", "/no/such/file", "--format", "pi"]);
    let refused = garth.run(&args, b"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"bash\"}");
    let told = self::text(&refused.stderr);
    assert!(told.contains("message 2 (line 2)") && told.contains("role `bash`"), "{told}");
    // a line that is not text is one of the bad ones
    let bytes = b"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"\xff\"}\n";
    let import = ["session", "import", "bad", "--format", "openai", "--create"];
    let refused = garth.run(&import, bytes);
    assert!(self::text(&refused.stderr).contains("line 2"), "{}", self::text(&refused.stderr));
    garth.fails(3, &["session", "show", "bad"]);
    let taken = garth.run(&[&import[..], &["--skip-bad"]].concat(), bytes);
    let (told, said) = (self::text(&taken.stderr), self::text(&taken.stdout));
    assert!(told.contains("message 2 (line 2)") && said.contains("1 skipped"), "{told} {said}");
    // a part that would be doubled, and a transcript that goes another way
    let part = ["session", "import", "bad", "--format", "openai", "--part"];
    let warned = garth.run(&part, b"{\"role\":\"user\",\"content\":\"b\"}");
    assert!(self::text(&warned.stderr).contains("--after"), "{}", self::text(&warned.stderr));
    let other = b"{\"role\":\"user\",\"content\":\"c\"}";
    let whole = ["session", "import", "bad", "--format", "openai", "--whole"];
    assert_eq!(garth.run(&whole, other).status.code(), Some(4));
    let rewound = garth.run(&[&whole[..], &["--rewind"]].concat(), other);
    assert!(
        self::text(&rewound.stdout).contains("messages:1-2 withdrawn"),
        "{}",
        self::text(&rewound.stdout)
    );
    garth.ok(&["session", "withdraw", "work", "messages:1"]);
    assert_eq!(garth.ok(&["session", "export", "work", "--format", "pi"]), "");
    assert_eq!(garth.ok(&["session", "export", "work", "--format", "pi", "--withdrawn"]), text);
}

#[test]
fn a_session_is_packed_traced_swapped_and_collected() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    garth.feed(&["session", "pin", "work", "system.md"], "You are a careful coder.\n");
    garth.feed(&["session", "append", "work", "--role", "user"], "Where is the parser?\n");
    garth.feed(&["session", "append", "work", "--role", "assistant"], "In src.\n");
    garth.feed(
        &["session", "derive", "work", "--facts", "-"],
        "{\"id\":\"f1\",\"text\":\"It is in src.\",\"source\":\"messages:2\"}\n",
    );
    let packed = garth.ok(&["session", "pack", "work", "--budget", "2000"]);
    assert!(
        packed.starts_with("<!-- system context/pinned/system.md -->\nYou are a careful coder.\n"),
        "{packed}"
    );
    assert!(
        packed.contains("\"id\":\"f1\"")
            && packed.contains("<!-- messages:1 user -->\nWhere is the parser?\n")
    );
    let dir = "/users/default/agents/default/session/work";
    assert_eq!(garth.ok(&["cat", &format!("{dir}/context/pack.md")]), packed);
    let then =
        garth.json(&["stat", &format!("{dir}/context/pack.json")])["version"].as_str().unwrap().to_owned();
    assert!(garth.ok(&["session", "why", "work", "f1"]).contains("In src."));
    let memory = "ctx://default/agents/default/memories/cases/parser";
    let published = garth.ok(&["session", "publish", "work", "f1", memory]);
    assert_eq!(published, format!("published  {memory}  from work#messages:2-2\n"));
    assert!(garth.ok(&["session", "publish", "work", "f1", memory]).starts_with("as it was"));
    let meta = garth.ok(&["cat", "/agents/default/memories/cases/parser/.meta.json"]);
    assert!(meta.contains("\"entry\": \"f1\""), "{meta}");
    garth.fails(3, &["session", "publish", "work", "f2", memory]);
    garth.ok(&["session", "swap", "out", "work", "1", "--summary", "the question"]);
    let list = garth.ok(&["session", "pack", "work", "--form", "anthropic"]);
    assert!(list.contains("the question") && !list.contains("Where is"), "{list}");
    assert_eq!(garth.ok(&["session", "replay", "work", "--of", &then]), packed);
    assert!(garth.ok(&["session", "compare", "work", &then]).contains("~ recent_messages messages.jsonl"));
    let id = garth.lines(&["session", "swap", "list", "work"])[0]["id"].as_str().unwrap().to_owned();
    assert!(garth.ok(&["session", "swap", "show", "work", &id]).contains("Where is the parser?"));
    garth.ok(&["session", "swap", "in", "work", &id]);
    garth.ok(&["session", "dedup", "work", "messages:1"]);
    garth.feed(&["session", "child", "spawn", "work", "rev-1"], "Review it.");
    garth.feed(&["session", "child", "set", "work", "rev-1", "--status", "done", "--result", "-"], "Fine.\n");
    assert!(garth.ok(&["session", "pack", "work"]).ends_with("Fine.\n"));
    garth.fails(4, &["session", "child", "set", "work", "rev-1", "--status", "active"]);
    garth.feed(&["write", &format!("{dir}/context/gc.policy")], "pack_ttl=0s\nswap_ttl=0s\n");
    assert!(garth.ok(&["session", "gc", "work"]).contains("would remove  context/pack.json"));
    assert_eq!(garth.lines(&["session", "gc", "work", "--run"]).len(), 3);
    assert_eq!(garth.ok(&["session", "gc", "work"]), "");
    garth.fails(6, &["session", "pack", "work", "--budget", "5"]);
    garth.ok(&["session", "set", "work", "--budget", "3000"]);
    assert_eq!(garth.json(&["session", "pack", "work"])["budget_tokens"], json!(3000));
    garth.fails(3, &["session", "why", "work", "f2"]);
    garth.fails(2, &["session", "set", "work", "--budget", "many"]);
}

#[test]
fn a_session_is_compacted_in_excerpts() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    garth.feed(&["session", "append", "work", "--role", "user"], "Where is the parser? I looked.\n");
    assert!(garth.ok(&["session", "compact", "work"]).contains("nothing to compact"));
    let done = garth.ok(&["session", "compact", "work", "--keep", "0"]);
    assert_eq!(done, "compacted  messages:1-1 in excerpts\n");
    let summary = garth.ok(&["cat", "/users/default/agents/default/session/work/context/summary.md"]);
    assert!(summary.ends_with("- messages:1 user: Where is the parser?\n"), "{summary}");
    garth.fails(2, &["session", "compact", "work", "--model-endpoint", "http://localhost:1/v1"]);
    garth.feed(&["session", "append", "work", "--role", "user"], "More.\n");
    let unreached = [
        "session",
        "compact",
        "work",
        "--keep",
        "0",
        "--model-endpoint",
        "http://127.0.0.1:1/v1",
        "--model",
        "m",
    ];
    garth.fails(7, &unreached);
}

#[test]
fn a_session_is_compacted_reset_and_read_from_its_archive() {
    let garth = Garth::new();
    let args = ["session", "create", "work", "--key", "agent:default:main", "--context-window", "30000"];
    garth.ok(&args);
    for n in 1..=30 {
        garth.feed(&["session", "append", "work", "--role", "user"], &format!("question {n}\n"));
        let text = format!("answer {n} {}", "word ".repeat(2000));
        garth.feed(&["session", "append", "work", "--role", "assistant"], &text);
    }
    assert!(garth.ok(&["session", "compact", "work", "--trim", "--if-due"]).contains("not due"));
    garth.feed(&["session", "append", "work", "--input-tokens", "29000"], "");
    let done = garth.json(&["session", "compact", "work", "--trim", "--if-due"]);
    assert!(
        done["part"].as_str().unwrap().contains("-part") && done["messages"].as_u64() > Some(2),
        "{done}"
    );
    garth.fails(2, &["session", "compact", "work", "--if-due"]);
    let done = garth.json(&["session", "reset", "work"]);
    assert_eq!(
        (&done["messages"], &done["next"]["name"], &done["memory"]),
        (&json!(60), &json!("work-2"), &json!(null))
    );
    let archives = garth.lines(&["session", "archives"]);
    assert_eq!((archives.len(), &archives[0]["metadata"]["messageCount"]), (1, &json!("60")));
    let id = archives[0]["session_id"].as_str().unwrap();
    for name in ["work", id] {
        let lines = garth.ok(&["session", "export", name, "--format", "pi", "--lines", "3-3"]);
        assert!(lines.contains("\"question 2\"") && lines.lines().count() == 1, "{lines}");
    }
    garth.fails(2, &["session", "export", "work", "--lines", "3-2"]);
    garth.fails(3, &["session", "export", "none"]);
    let late = garth.run(&["session", "append", "work", "--role", "user"], b"too late");
    assert!(text(&late.stderr).contains("append to work-2"), "{}", text(&late.stderr));
    garth.fails(4, &["session", "reset", "work"]);
    garth.feed(&["session", "append", "work-2", "--role", "user"], "more\n");
    let printed = garth.ok(&["session", "reset", "work-2", "--next", "work-3"]);
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("archived  1 messages in /agents/"), "{printed}");
    assert_eq!(lines[1], "next  work-3");
    // by policy
    garth.feed(&["write", "/agents/default/settings.json"], r#"{"reset":{"policy":"idle","minutes":1}}"#);
    let current = ["session", "current", "agent:default:main", "--create"];
    assert!(garth.ok(&current).contains("work-3"));
}

#[test]
fn an_empty_input_is_refused_unless_it_is_asked_for() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work"]);
    let empty = |args: &[&str]| garth.run(args, b"").status.code();
    let append = ["session", "append", "work", "--role", "user"];
    assert_eq!(empty(&append), Some(2));
    assert_eq!(empty(&["session", "append", "work"]), Some(2));
    assert_eq!(empty(&[&append[..], &["--allow-empty"]].concat()), Some(0));
    assert_eq!(empty(&["session", "append", "work", "--state", "idle"]), Some(0));
    let put = ["memory", "put", "ctx://default/users/ann/memories/events/one"];
    assert_eq!(empty(&put), Some(2));
    assert_eq!(empty(&[&put[..], &["--allow-empty"]].concat()), Some(0));
}

#[test]
fn an_empty_list_says_whose_sessions_were_listed() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work", "--agent", "scout"]);
    let listed = garth.run(&["session", "list"], b"");
    let stderr = String::from_utf8(listed.stderr).unwrap();
    assert!(stderr.contains("agent default") && stderr.contains("user default"), "{stderr}");
    assert_eq!(garth.lines(&["session", "list", "--agent", "scout"]).len(), 1);
}
