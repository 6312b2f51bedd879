//! `garth session` as users run it.

use serde_json::json;

use super::garth::{Garth, text};

#[test]
fn session_is_created_continued_and_ended() {
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
    assert_eq!(garth.json(&["session", "retract", "work", "messages:2"])["lines"], json!("messages:2-2"));
    assert_eq!(garth.lines(&["session", "messages", "work"]).len(), 2);
    assert_eq!(garth.lines(&["session", "messages", "work", "--retracted"]).len(), 3);
    assert_eq!(garth.json(&["session", "resolve", "work", "user:latest"])["lines"], json!([3, 3]));
    let set = garth.json(&["session", "set", "work", "--state", "done"]);
    assert_eq!((&set["state"], &set["meta"]["usage"]["output_tokens"]), (&json!("done"), &json!(7)));
    assert_eq!(garth.lines(&["session", "list", "--state", "idle"]).len(), 0);
    assert!(garth.ok(&["session", "show", "work"]).contains("title    Fix it"));
}

#[test]
fn files_of_sessions_are_listed_after_folding() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "early"]);
    garth.ok(&["retention", "set", "--commits", "0", "--force"]);
    for _ in 0..2 {
        garth.ok(&["gc", "--grace", "0s", "--force"]);
    }
    let oldest = garth.json(&["retention"])["oldest"].clone();
    garth.ok(&["session", "create", "late"]);
    let said = |session: &str| {
        garth.feed(&["session", "append", session, "--role", "user"], "Where is the parser?\n");
        let output = garth.run(&["session", "files", session], b"");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let listed = text(&output.stdout).to_owned();
        assert!(listed.contains(&format!("/session/{session}/messages.jsonl")), "{listed}");
        text(&output.stderr).to_owned()
    };
    assert_eq!(said("late"), "");
    let warned = said("early");
    assert!(
        warned.contains(&format!("the log of changes begins after {oldest}: files that early ")),
        "{warned}"
    );
}

#[test]
fn session_errors_name_their_cause() {
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
    garth.fails(2, &["session", "retract", "work", "messages:0"]);
    // No verb removes the messages.
    let dir = "/users/ann/agents/coder/session/work";
    for args in [vec!["rm", "-r", "/users/ann"], vec!["mv", dir, "/away"], vec!["rm", "-r", dir]] {
        let refused = garth.run(&args, b"");
        assert!(text(&refused.stderr).contains("append-only"), "{}", text(&refused.stderr));
    }
    garth.ok(&["--override-rules", "rm", "-r", dir]);
    assert_eq!(garth.ok(&["chat", "list"]), "", "sessions create no chat");
}

#[test]
fn transcript_round_trips_and_imports_once() {
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
    garth.fails(3, &["session", "import", "work", "/no/such/file", "--format", "pi"]);
    let refused = garth.run(&args, b"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"bash\"}");
    let told = self::text(&refused.stderr);
    assert!(told.contains("message 2 (line 2)") && told.contains("role `bash`"), "{told}");
    // A line that is not UTF-8 counts as a bad line.
    let bytes = b"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"\xff\"}\n";
    let import = ["session", "import", "bad", "--format", "openai", "--create"];
    let refused = garth.run(&import, bytes);
    assert!(self::text(&refused.stderr).contains("line 2"), "{}", self::text(&refused.stderr));
    garth.fails(3, &["session", "show", "bad"]);
    let taken = garth.run(&[&import[..], &["--skip-bad"]].concat(), bytes);
    let (told, said) = (self::text(&taken.stderr), self::text(&taken.stdout));
    assert!(told.contains("message 2 (line 2)") && said.contains("1 skipped"), "{told} {said}");
    // A part that may be imported twice, and a transcript that differs.
    let part = ["session", "import", "bad", "--format", "openai", "--part"];
    let warned = garth.run(&part, b"{\"role\":\"user\",\"content\":\"b\"}");
    assert!(self::text(&warned.stderr).contains("--after"), "{}", self::text(&warned.stderr));
    let other = b"{\"role\":\"user\",\"content\":\"c\"}";
    let whole = ["session", "import", "bad", "--format", "openai", "--whole"];
    assert_eq!(garth.run(&whole, other).status.code(), Some(4));
    let rewound = garth.run(&[&whole[..], &["--rewind"]].concat(), other);
    assert!(
        self::text(&rewound.stdout).contains("messages:1-2 retracted"),
        "{}",
        self::text(&rewound.stdout)
    );
    garth.ok(&["session", "retract", "work", "messages:1"]);
    assert_eq!(garth.ok(&["session", "export", "work", "--format", "pi"]), "");
    assert_eq!(garth.ok(&["session", "export", "work", "--format", "pi", "--retracted"]), text);
}

#[test]
fn blank_input_erases_no_derived_or_pinned_file() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    garth.feed(&["context", "pin", "work", "style.md"], "Be brief.\n");
    garth.feed(&["session", "append", "work", "--role", "user"], "Where is the parser?\n");
    garth.feed(
        &["context", "derive", "work", "--facts", "-"],
        "{\"id\":\"f1\",\"text\":\"It is in src.\",\"source\":\"messages:1\"}\n",
    );
    let dir = "/users/default/agents/default/session/work/context";
    let read = |file: &str| garth.ok(&["cat", &format!("{dir}/{file}")]);
    for input in ["", " \n\n"] {
        for args in [
            &["context", "pin", "work", "style.md"][..],
            &["context", "derive", "work", "--facts", "-"],
            &["context", "derive", "work", "--facts", "-", "--clear", "todo"],
        ] {
            let output = garth.run(args, input.as_bytes());
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(text(&output.stderr).contains("--clear"), "{}", text(&output.stderr));
        }
    }
    assert!(read("pinned/style.md").contains("brief") && read("facts.jsonl").contains("f1"));
    garth.fails(2, &["context", "derive", "work", "--facts", "-", "--clear", "facts"]);
    garth.ok(&["context", "derive", "work", "--clear", "facts"]);
    garth.ok(&["context", "pin", "work", "style.md", "--clear"]);
    assert_eq!((read("pinned/style.md"), read("facts.jsonl")), (String::new(), String::new()));
}

#[test]
fn context_is_packed_traced_swapped_and_collected() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    garth.feed(&["context", "pin", "work", "system.md"], "You are a careful coder.\n");
    garth.feed(&["session", "append", "work", "--role", "user"], "Where is the parser?\n");
    garth.feed(&["session", "append", "work", "--role", "assistant"], "In src.\n");
    garth.feed(
        &["context", "derive", "work", "--facts", "-"],
        "{\"id\":\"f1\",\"text\":\"It is in src.\",\"source\":\"messages:2\"}\n",
    );
    let packed = garth.ok(&["context", "pack", "work", "--budget", "2000"]);
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
    assert!(garth.ok(&["context", "why", "work", "f1"]).contains("In src."));
    let memory = "ctx://default/agents/default/memories/cases/parser";
    let published = garth.ok(&["context", "publish", "work", "f1", memory]);
    assert_eq!(published, format!("published  {memory}  from work#messages:2-2\n"));
    assert!(garth.ok(&["context", "publish", "work", "f1", memory]).starts_with("unchanged"));
    let meta = garth.ok(&["cat", "/agents/default/memories/cases/parser/.meta.json"]);
    assert!(meta.contains("\"entry\": \"f1\""), "{meta}");
    garth.fails(3, &["context", "publish", "work", "f2", memory]);
    garth.ok(&["context", "swap", "out", "work", "1", "--summary", "the question"]);
    let list = garth.ok(&["context", "pack", "work", "--format", "anthropic"]);
    assert!(list.contains("the question") && !list.contains("Where is"), "{list}");
    assert_eq!(garth.ok(&["context", "replay", "work", "--at", &then]), packed);
    assert!(
        garth
            .ok(&["context", "compare", "work", "--from", &then])
            .contains("~ recent_messages messages.jsonl")
    );
    let id = garth.lines(&["context", "swap", "list", "work"])[0]["id"].as_str().unwrap().to_owned();
    assert!(garth.ok(&["context", "swap", "show", "work", &id]).contains("Where is the parser?"));
    garth.ok(&["context", "swap", "in", "work", &id]);
    garth.ok(&["context", "dedup", "work", "messages:1"]);
    garth.feed(&["context", "child", "create", "work", "rev-1"], "Review it.");
    garth.feed(&["context", "child", "set", "work", "rev-1", "--status", "done", "--result", "-"], "Fine.\n");
    assert!(garth.ok(&["context", "pack", "work"]).ends_with("Fine.\n"));
    garth.fails(4, &["context", "child", "set", "work", "rev-1", "--status", "active"]);
    garth.feed(&["write", &format!("{dir}/context/gc.policy")], "pack_ttl=0s\nswap_ttl=0s\n");
    let dry = garth.ok(&["context", "gc", "work", "--dry-run"]);
    assert!(dry.contains("would remove  context/pack.json"), "{dry}");
    assert_eq!(garth.lines(&["context", "gc", "work"]).len(), 3);
    assert_eq!(garth.ok(&["context", "gc", "work"]), "");
    garth.fails(6, &["context", "pack", "work", "--budget", "5"]);
    garth.ok(&["session", "set", "work", "--budget", "3000"]);
    assert_eq!(garth.json(&["context", "pack", "work"])["budget_tokens"], json!(3000));
    garth.fails(3, &["context", "why", "work", "f2"]);
    garth.fails(2, &["session", "set", "work", "--budget", "many"]);
}

#[test]
fn compact_writes_excerpts_without_a_model() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    garth.feed(&["session", "append", "work", "--role", "user"], "Where is the parser? I looked.\n");
    assert!(garth.ok(&["context", "compact", "work"]).contains("nothing to compact"));
    let done = garth.ok(&["context", "compact", "work", "--keep", "0"]);
    assert_eq!(done, "compacted  messages:1-1 in excerpts\n");
    let summary = garth.ok(&["cat", "/users/default/agents/default/session/work/context/summary.md"]);
    assert!(summary.ends_with("- messages:1 user: Where is the parser?\n"), "{summary}");
    garth.fails(2, &["context", "compact", "work", "--model-endpoint", "http://localhost:1/v1"]);
    garth.feed(&["session", "append", "work", "--role", "user"], "More.\n");
    let unreached = [
        "context",
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
fn archived_session_can_be_exported() {
    let garth = Garth::new();
    let args = ["session", "create", "work", "--key", "agent:default:main", "--context-window", "30000"];
    garth.ok(&args);
    for n in 1..=30 {
        garth.feed(&["session", "append", "work", "--role", "user"], &format!("question {n}\n"));
        let text = format!("answer {n} {}", "word ".repeat(2000));
        garth.feed(&["session", "append", "work", "--role", "assistant"], &text);
    }
    assert!(garth.ok(&["context", "compact", "work", "--trim", "--if-due"]).contains("not due"));
    garth.feed(&["session", "append", "work", "--input-tokens", "29000"], "");
    let done = garth.json(&["context", "compact", "work", "--trim", "--if-due"]);
    assert!(
        done["part"].as_str().unwrap().contains("-part") && done["messages"].as_u64() > Some(2),
        "{done}"
    );
    garth.fails(2, &["context", "compact", "work", "--if-due"]);
    let done = garth.json(&["session", "archive", "work"]);
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
    garth.fails(4, &["session", "archive", "work"]);
    garth.feed(&["session", "append", "work-2", "--role", "user"], "more\n");
    let printed = garth.ok(&["session", "archive", "work-2", "--next", "work-3"]);
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("archived  1 messages in /agents/"), "{printed}");
    assert_eq!(lines[1], "next  work-3");
    // A reset by policy.
    garth.feed(&["write", "/agents/default/settings.json"], r#"{"reset":{"policy":"idle","minutes":1}}"#);
    let current = ["session", "current", "agent:default:main", "--create"];
    assert!(garth.ok(&current).contains("work-3"));
}

#[test]
fn append_rejects_empty_input_by_default() {
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
fn empty_session_list_names_its_owner() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work", "--agent", "scout"]);
    let listed = garth.run(&["session", "list"], b"");
    let stderr = String::from_utf8(listed.stderr).unwrap();
    assert!(stderr.contains("agent default") && stderr.contains("user default"), "{stderr}");
    assert_eq!(garth.lines(&["session", "list", "--agent", "scout"]).len(), 1);
}

#[test]
fn text_arguments_are_messages_of_a_role() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work", "--context-window", "200k"]);
    garth.ok(&["session", "append", "work", "Where is the parser?"]);
    garth.ok(&["session", "append", "work", "In src.", "--role", "assistant", "--output-tokens", "1k"]);
    garth.ok(&["session", "append", "work", "- one\n- two"]);
    garth.ok(&["session", "append", "work", r#"{"role":"system","content":"Obey."}"#]);
    garth.ok(&["session", "append", "work", "--events", r#"{"type":"tool.started"}"#]);
    garth.feed(&["session", "append", "work", "-"], r#"{"role":"user","content":"Thanks."}"#);
    let lines = garth.lines(&["session", "messages", "work"]);
    let said: Vec<_> =
        lines.iter().map(|line| (&line["message"]["role"], &line["message"]["content"])).collect();
    let due = [
        ("user", "Where is the parser?"),
        ("assistant", "In src."),
        ("user", "- one\n- two"),
        ("user", r#"{"role":"system","content":"Obey."}"#),
        ("user", "Thanks."),
    ];
    assert_eq!(said.len(), due.len());
    for ((role, content), (due_role, due_content)) in said.into_iter().zip(due) {
        assert_eq!((role, content), (&json!(due_role), &json!(due_content)));
    }
    let meta = &garth.json(&["session", "show", "work"])["meta"];
    assert_eq!((&meta["context_window"], &meta["usage"]["output_tokens"]), (&json!(200_000), &json!(1000)));
    assert!(garth.fails(2, &["session", "append", "work", ""]).contains("--allow-empty"));
    let pack = garth.json(&["context", "pack", "work", "--budget", "32k", "--dry-run"]);
    assert_eq!(pack["budget_tokens"], json!(32_000));
}

#[test]
fn retract_takes_lines_and_ranges() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    for n in 1..=6 {
        garth.ok(&["session", "append", "work", &format!("message {n}")]);
    }
    let said = garth.ok(&["session", "retract", "work", "2-3", "5", "--reason", "wrong"]);
    assert_eq!(said, "retracted  messages:2-3\nretracted  messages:5-5\n");
    assert_eq!(garth.lines(&["session", "messages", "work"]).len(), 3);
    assert!(garth.ok(&["session", "events", "work"]).contains("message.withdrawn"));
    assert!(garth.ok(&["session", "retract", "work", "5"]).starts_with("unchanged  messages:5-5"));
    garth.fails(2, &["session", "retract", "work", "1", "messages:0"]);
    assert_eq!(garth.lines(&["session", "messages", "work"]).len(), 3, "a wrong source retracts nothing");
}

#[test]
fn retract_names_the_flaw_of_its_arguments() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    garth.ok(&["session", "append", "work", "hello"]);
    for (source, said) in [
        ("5-3", "the range ends at line 3, before line 5 where it begins"),
        ("0", "the first line is 1"),
        ("3-", "a line number is missing"),
        ("", "an empty text: invalid source"),
    ] {
        let stderr = garth.fails(2, &["session", "retract", "work", source]);
        assert!(stderr.contains(said) && stderr.contains("messages:"), "{stderr}");
    }
    let refused = garth.run(&["session", "retract", "work", "1", "--reason", &"x".repeat(70_000)], b"");
    let stderr = text(&refused.stderr);
    assert!(!refused.status.success() && stderr.contains("at most 4096 bytes"), "{stderr}");
    assert_eq!(garth.lines(&["session", "messages", "work"]).len(), 1);
}

#[test]
fn rm_deletes_a_session_and_keeps_its_archive() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work"]);
    garth.ok(&["session", "append", "work", "Call the harbour."]);
    let id = garth.json(&["session", "show", "work"])["meta"]["id"].as_str().unwrap().to_owned();
    let done = garth.json(&["session", "rm", "work"]);
    let archive = format!("/agents/default/sessions/{id}.jsonl.gz");
    assert_eq!((&done["archive"], &done["messages"]), (&json!(archive), &json!(1)));
    garth.fails(3, &["session", "show", "work"]);
    garth.fails(3, &["ls", "/users/default/agents/default/session/work"]);
    assert_eq!(garth.ok(&["search", "harbour"]), "");
    assert!(garth.ok(&["session", "export", &id]).contains("Call the harbour."));
    garth.ok(&["session", "create", "work"]);
    garth.ok(&["session", "create", "other"]);
    assert_eq!(garth.ok(&["session", "delete", "work", "other"]), "removed  work\nremoved  other\n");
    garth.ok(&["rm", &archive]);
    garth.fails(3, &["session", "export", &id]);
}

#[test]
fn messages_of_nearly_16_mib_are_taken() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work"]);
    let append = ["session", "append", "work", "--role", "user", "--json"];
    let import = ["session", "import", "work", "--format", "openai", "--part", "--json"];
    let line = |text: &str| format!("{}\n", json!({"role": "user", "content": text}));
    let [long, longer] = [(16 << 20) - 4096, 17 << 20].map(|length: usize| "word ".repeat(length / 5));
    let done = garth.feed(&append, &long);
    assert!(done.contains("\"messages:1-1\""), "{done}");
    let done = garth.feed(&import, &line(&long));
    assert!(done.contains("\"messages:2-2\""), "{done}");
    let refused = garth.run(&append, longer.as_bytes());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("more than 16777216 bytes"), "{}", text(&refused.stderr));
    let refused = garth.run(&import, line(&longer).as_bytes());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("media"), "{}", text(&refused.stderr));
    let done = garth.feed(&append, "Go on.");
    assert!(done.contains("\"messages:3-3\""), "{done}");
}

#[test]
fn import_warns_if_a_repeat_would_double() {
    let garth = Garth::new();
    let line = "{\"role\":\"user\",\"content\":\"hi\"}\n";
    let import = ["session", "import", "work", "--format", "openai", "--part", "--create"];
    let warned = |more: &[&str]| {
        let done = garth.run(&[&import[..], more].concat(), line.as_bytes());
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stderr).contains("would append it again; --after ID prevents that")
    };
    assert!(warned(&[]));
    let last = garth.json(&["session", "append", "work", "ho"]);
    let last = last["messages"][0].as_str().expect("an id");
    assert!(!warned(&["--after", last]));
}

#[test]
fn import_rewind_is_shown_without_a_change() {
    let garth = Garth::unmade();
    let old = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"b\"}\n";
    let new = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"c\"}\n";
    let import = ["session", "import", "work", "--format", "openai"];
    garth.feed(&[&import[..], &["--create"]].concat(), old);
    let seq = garth.seq();
    let rewind = [&import[..], &["--rewind", "--dry-run"]].concat();
    assert_eq!(
        garth.feed(&rewind, new),
        "would import  1 of 2 messages new, 1 present, messages:2-2 retracted\n"
    );
    assert_eq!(garth.seq(), seq);
    assert_eq!(
        garth.feed(&rewind[..6], new),
        "imported  1 of 2 messages new, 1 present, messages:2-2 retracted\n"
    );
}
