//! Repeated transcripts: complete ones that grow, change or go back, and parts of them.

use garth_agent::session::{
    Append, Create, Draft, Export, Format, Import, ImportMode, Imported, Log, PackOptions, Role, Select,
    Sessions, TranscriptFormat,
};
use garth_agent::workspace::{Reset, Workspace};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt as _};
use serde_json::{Value, json};

use super::sessions::{engines, path, said, sessions};
use super::transcripts::exported;

const OPENAI: TranscriptFormat = TranscriptFormat::OpenAi;

pub(crate) fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

pub(crate) async fn whole(
    sessions: &Sessions<'_>,
    session: &str,
    format: TranscriptFormat,
    text: &str,
) -> Imported {
    sessions.import(session, &Import::new(format, text).whole()).await.unwrap()
}

async fn events(sessions: &Sessions<'_>, session: &str) -> Vec<Value> {
    let page = sessions.lines(session, &Select::events(1..=u64::MAX)).await.unwrap();
    page.items.iter().map(|line| serde_json::from_str(&line.text).unwrap()).collect()
}

#[tokio::test]
async fn parts_keep_repeated_messages() {
    let one = [user("yes"), assistant("Deleted a.")];
    let two = [assistant("Also b?"), user("yes"), assistant("Deleted b.")];
    let ways = [
        (OPENAI, lines(&one), lines(&two)),
        (TranscriptFormat::Anthropic, lines(&one), lines(&two)),
        (TranscriptFormat::Garth, lines(&one), lines(&two)),
        (
            TranscriptFormat::Markdown,
            "## user\n\nyes\n\n## assistant\n\nDeleted a.\n".to_owned(),
            "## assistant\n\nAlso b?\n\n## user\n\nyes\n\n## assistant\n\nDeleted b.\n".to_owned(),
        ),
    ];
    let due = ["yes", "Deleted a.", "Also b?", "yes", "Deleted b."];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (format, one, two) in &ways {
            let name = format.as_str();
            sessions.import(name, &Import::new(*format, one).create()).await.unwrap();
            let done = sessions.import(name, &Import::new(*format, two).part()).await.unwrap();
            assert!(done.new == 3 && done.repeat_doubles, "{done:?}");
            assert_eq!(said(&sessions, name).await, due, "{format}");
        }
        // The complete transcript has the messages of both parts.
        let both = lines(&[&one[..], &two[..]].concat());
        assert_eq!(whole(&sessions, "garth", TranscriptFormat::Garth, &both).await.new, 0);
        assert_eq!(whole(&sessions, "garth", OPENAI, &both).await.new, 0);
    }
}

#[tokio::test]
async fn resent_messages_match_by_content() {
    let call = |arguments: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "n", "arguments": arguments}}]})
    };
    let first = lines(&[user("go"), call(r#"{"a": 1.0, "b": [1,2]}"#)]);
    let again = lines(&[
        json!({"content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}], "role": "user",
            "refusal": null}),
        json!({"tool_calls": [{"function": {"arguments": r#"{"b":[1,2],"a":1}"#, "name": "n"}, "id": "c"}],
            "content": "", "role": "assistant", "annotations": [], "model": "m", "reasoning_content": "so"}),
        user("more"),
    ]);
    let other = lines(&[user("go"), call(r#"{"a": 1.0, "b": [2,1]}"#)]);
    let named = lines(&[json!({"role": "user", "content": "go", "name": "bob"})]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", OPENAI, &first).await;
        assert_eq!(whole(&sessions, "default", OPENAI, &again).await.new, 1);
        for (text, message) in [(&other, "message 2"), (&named, "message 1")] {
            let error = sessions.import("default", &Import::new(OPENAI, text).whole()).await.unwrap_err();
            assert!(error.is(ErrorKind::Conflict) && error.message().starts_with(message), "{error}");
        }
        // By their ids as well.
        let line =
            |content: Value| json!({"id": "msg-1", "role": "assistant", "content": content}).to_string();
        let block =
            |arguments: Value| json!([{"type": "tool_call", "id": "c", "name": "n", "arguments": arguments}]);
        let given = line(block(json!({"a": 1, "b": 2})));
        let spaced = given.replace(':', " : ").replace("\"a\" : 1", "\"a\": 1.0");
        for text in [&given, &spaced] {
            sessions.import("default", &Import::new(TranscriptFormat::Garth, text).part()).await.unwrap();
        }
        assert_eq!(said(&sessions, "default").await.len(), 4);
        let changed = line(block(json!({"a": 2, "b": 2})));
        let part = Import::new(TranscriptFormat::Garth, &changed).part();
        let error = sessions.import("default", &part).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict), "{error}");
    }
}

#[tokio::test]
async fn messages_of_one_provider_id_stay_apart() {
    let of = |text: &str| json!({"id": "msg_01", "role": "assistant", "content": [{"type": "text", "text": text}]});
    let text = lines(&[user("go"), of("a"), of("b")]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", TranscriptFormat::Anthropic, &text).await;
        let more = lines(&[of("c")]);
        let part = Import::new(TranscriptFormat::Anthropic, &more).part();
        assert_eq!(sessions.import("default", &part).await.unwrap().new, 1);
        assert_eq!(said(&sessions, "default").await.len(), 4);
    }
}

#[tokio::test]
async fn an_existing_session_needs_a_mode() {
    let text = lines(&[user("go")]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.import("default", &Import::new(OPENAI, &text)).await.unwrap();
        let error = sessions.import("default", &Import::new(OPENAI, &text)).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict) && error.message().contains("whole"), "{error}");
        let wrong = [
            Import::new(OPENAI, &text).part().rewind(),
            Import::new(OPENAI, &text).whole().after("msg-1"),
            Import::new(OPENAI, &text).rewind().after("msg-1"),
        ];
        for import in wrong {
            let error = sessions.import("default", &import).await.unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
        }
    }
}

#[tokio::test]
async fn rewind_retracts_the_old_tail() {
    let old = lines(&[user("a"), assistant("b"), user("c"), assistant("d")]);
    let new = lines(&[user("a"), assistant("b"), user("x")]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", OPENAI, &old).await;
        let error = sessions.import("default", &Import::new(OPENAI, &new).whole()).await.unwrap_err();
        assert!(error.message().contains("message 3") && error.message().contains("messages:3"), "{error}");
        let head = fs.head().await.unwrap().seq.0;
        let done = sessions.import("default", &Import::new(OPENAI, &new).rewind()).await.unwrap();
        assert_eq!((done.retracted, done.new, done.lines), (Some(3..=4), 1, Some(5..=5)));
        assert_eq!(fs.head().await.unwrap().seq.0, head + 1, "one commit");
        assert_eq!(said(&sessions, "default").await, ["a", "b", "x"]);
        assert_eq!(fs.read_to_string(path("latest.md")).await.unwrap(), "b");
        // A repeat changes nothing.
        let again = sessions.import("default", &Import::new(OPENAI, &new).rewind()).await.unwrap();
        assert_eq!((again.retracted, again.new, again.seq), (None, 0, None));
        // Retracted messages can be imported again, and an earlier state retracts the rest.
        let back = sessions.import("default", &Import::new(OPENAI, &old).rewind()).await.unwrap();
        assert_eq!((back.retracted, back.new), (Some(5..=5), 2));
        let first = lines(&[user("a")]);
        assert_eq!(whole(&sessions, "default", OPENAI, &first).await.new, 0);
        let done = sessions.import("default", &Import::new(OPENAI, &first).rewind()).await.unwrap();
        assert_eq!((done.retracted, done.new), (Some(2..=7), 0));
        assert_eq!(said(&sessions, "default").await, ["a"]);
        assert_eq!(fs.read_to_string(path("latest.md")).await.unwrap(), "");
    }
}

#[tokio::test]
async fn dry_import_reports_the_rewind_and_changes_nothing() {
    let old = lines(&[user("a"), assistant("b"), user("c"), assistant("d")]);
    let new = lines(&[user("a"), assistant("b"), user("x")]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", OPENAI, &old).await;
        let head = fs.head().await.unwrap().seq;
        let import = Import::new(OPENAI, &new).rewind();
        let dry = sessions.import("default", &import.clone().dry()).await.unwrap();
        assert_eq!(fs.head().await.unwrap().seq, head);
        let mut done = sessions.import("default", &import).await.unwrap();
        done.seq = None;
        assert_eq!(dry, done, "the dry run says what the import does");
        let dry = Import::new(OPENAI, &new).create().dry();
        let made = sessions.import("fresh", &dry).await.unwrap();
        assert_eq!((made.new, made.lines), (3, Some(1..=3)));
        assert!(sessions.get("fresh").await.unwrap_err().is(ErrorKind::NotFound));
        let part = sessions.import("default", &Import::new(OPENAI, &new).part().dry()).await.unwrap_err();
        assert!(part.is(ErrorKind::InvalidArgument), "{part}");
        let missing = sessions.import("fresh", &Import::new(OPENAI, &new).dry()).await.unwrap_err();
        assert!(missing.is(ErrorKind::NotFound), "{missing}");
    }
}

#[tokio::test]
async fn reimport_renames_retracted_ids() {
    let line = |id: &str, parent: Option<&str>, text: &str| {
        let mut line = json!({"id": id, "role": "user", "content": text});
        if let Some(parent) = parent {
            line["parent"] = parent.into();
        }
        line
    };
    let text = lines(&[line("msg-a", None, "a"), line("msg-b", Some("msg-a"), "b")]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", TranscriptFormat::Garth, &text).await;
        sessions.retract("default", &"messages:1-2".parse().unwrap(), None).await.unwrap();
        assert_eq!(whole(&sessions, "default", TranscriptFormat::Garth, &text).await.new, 2);
        assert_eq!(said(&sessions, "default").await, ["a", "b"]);
        let page = sessions.lines("default", &Select::messages(3..=4)).await.unwrap();
        let [three, four]: [Value; 2] =
            [0, 1].map(|at: usize| serde_json::from_str(&page.items[at].text).unwrap());
        assert!(three["id"] != "msg-a" && four["parent"] == three["id"], "{three} {four}");
    }
}

#[tokio::test]
async fn transcript_continues_across_resets() {
    let mut values = vec![user("a"), assistant("b")];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        values.truncate(2);
        whole(&sessions, "default", OPENAI, &lines(&values)).await;
        let workspace = Workspace::new(&*fs, "coder").unwrap();
        let mut name = "default".to_owned();
        for text in ["c", "d"] {
            let reset = workspace.reset("default", &name, &Reset::default()).await.unwrap().unwrap();
            name = reset.next.name;
            assert_eq!(whole(&sessions, &name, OPENAI, &lines(&values)).await.new, 0);
            // What has no messages needs no mode.
            let all = lines(&values);
            let done = sessions.import(&name, &Import::new(OPENAI, &all)).await.unwrap();
            assert_eq!((done.new, done.present), (0, values.len() as u64));
            let late = lines(&[user("later")]);
            let error = sessions.import(&name, &Import::new(OPENAI, &late)).await.unwrap_err();
            assert!(error.is(ErrorKind::Conflict) && error.message().contains("part"), "{error}");
            values.push(user(text));
            let done = whole(&sessions, &name, OPENAI, &lines(&values)).await;
            assert_eq!((done.messages, done.new), (values.len() as u64, 1));
        }
        // Nothing is appended to a session that was reset.
        let import = lines(&values);
        let error = sessions.import("default", &Import::new(OPENAI, &import).whole()).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict) && error.message().contains("was reset"), "{error}");
        // Messages from before a reset stay.
        let other = lines(&[user("a"), assistant("x")]);
        for import in [Import::new(OPENAI, &other).whole(), Import::new(OPENAI, &other).rewind()] {
            let error = sessions.import(&name, &import).await.unwrap_err();
            assert!(error.is(ErrorKind::Conflict), "{error}");
        }
        // A transcript that begins later is a part.
        let late = lines(&[user("d"), assistant("e")]);
        let error = sessions.import(&name, &Import::new(OPENAI, &late).whole()).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict) && error.message().contains("part"), "{error}");
    }
}

#[tokio::test]
async fn changed_system_prompt_is_an_event() {
    let text = |system: &str| {
        json!({"model": "m", "max_tokens": 9, "tools": [], "system": system, "messages": [user("a")]})
            .to_string()
    };
    let format = TranscriptFormat::Anthropic;
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let first = whole(&sessions, "default", format, &text("be kind")).await;
        assert_eq!((first.new, first.present, first.system_changed), (2, 0, false));
        for (system, changed, present) in
            [("be kind", false, 2), ("be brief", true, 1), ("be brief", false, 2), ("be kind", true, 1)]
        {
            let done = whole(&sessions, "default", format, &text(system)).await;
            assert_eq!((done.new, done.present, done.system_changed), (0, present, changed), "{system}");
            let pack = sessions.pack("default", &PackOptions::default()).await.unwrap();
            let list: Value = serde_json::from_str(&pack.list(Format::Anthropic)).unwrap();
            let prompt = list["system"].as_str().unwrap();
            let other = if system == "be kind" { "be brief" } else { "be kind" };
            assert!(prompt.contains(system) && !list.to_string().contains(other), "{list}");
            for format in [format, TranscriptFormat::Pi, TranscriptFormat::OpenAi, TranscriptFormat::Markdown]
            {
                let text = exported(&sessions, "default", &Export::new(format)).await;
                assert!(text.contains(system) && !text.contains(other), "{format}: {text}");
                let done = whole(&sessions, "default", format, &text).await;
                assert_eq!((done.new, done.system_changed), (0, false), "{format}: {text}");
            }
        }
        // A transcript without a system prompt changes nothing about it.
        let done = whole(&sessions, "default", format, &lines(&[user("a"), assistant("b")])).await;
        assert_eq!((done.new, done.system_changed), (1, false));
        let events = events(&sessions, "default").await;
        let changes: Vec<_> = events.iter().map(|event| (&event["type"], &event["content"])).collect();
        let [kind, gone] = [json!("system.changed"), json!("message.withdrawn")];
        let (brief, kinder) = (json!(["be brief"]), json!(["be kind"]));
        assert_eq!(changes, [(&kind, &brief), (&gone, &Value::Null), (&kind, &kinder)]);
    }
}

#[tokio::test]
async fn system_prompt_survives_format_conversion() {
    let prompts = [
        json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}]),
        json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        json!("\n a \r\n## user\n\n"),
        json!(""),
    ];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (number, prompt) in prompts.iter().enumerate() {
            let name = format!("s{number}");
            sessions.create(&Create::new(&name)).await.unwrap();
            // As the session began, and after a change.
            for first in [json!("first"), prompt.clone(), json!("other"), prompt.clone()] {
                let system = json!({"role": "developer", "content": first});
                let blank = json!({"role": "system"});
                whole(&sessions, &name, OPENAI, &lines(&[blank, system, user("q")])).await;
                for format in ["pi", "openai", "anthropic", "markdown"] {
                    let format: TranscriptFormat = format.parse().unwrap();
                    let text = exported(&sessions, &name, &Export::new(format)).await;
                    let done = whole(&sessions, &name, format, &text).await;
                    assert_eq!((done.new, done.system_changed), (0, false), "{format}: {text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn reimport_reports_retracted_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let text = lines(&[user("a"), assistant("b"), user("c"), assistant("d")]);
        whole(&sessions, "default", OPENAI, &text).await;
        sessions.retract("default", &"messages:1-2".parse().unwrap(), None).await.unwrap();
        let error = sessions.import("default", &Import::new(OPENAI, &text).whole()).await.unwrap_err();
        let said = error.message();
        assert!(
            error.is(ErrorKind::Conflict) && said.contains("messages:1-2 before it are retracted"),
            "{said}"
        );
        let left = lines(&[user("c"), assistant("d")]);
        assert_eq!(whole(&sessions, "default", OPENAI, &left).await.present, 2);
        sessions.retract("default", &"tail:1".parse().unwrap(), None).await.unwrap();
        let done = whole(&sessions, "default", OPENAI, &left).await;
        assert_eq!((done.new, done.said_again), (1, Some(4)));
        // A conversation that continues in another way is not such a case.
        sessions.retract("default", &"tail:1".parse().unwrap(), None).await.unwrap();
        let done = whole(&sessions, "default", OPENAI, &lines(&[user("c"), assistant("e")])).await;
        assert_eq!((done.new, done.said_again), (1, None));
    }
}

#[tokio::test]
async fn unknown_blocks_are_kept_and_shown_as_placeholders() {
    let document = |data: &str| json!({"type": "document", "source": {"type": "text", "data": data}});
    let anthropic = |data: &str| {
        lines(&[
            json!({"role": "user", "content": [document(data), {"type": "text", "text": "read it"}]}),
            json!({"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                {"type": "we<ird\n", "a": 1}, 7, {"type": "text"}]}),
        ])
    };
    let openai = lines(&[
        json!({"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}]}),
        json!({"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "n", "arguments": {"a": 1}}},
            {"id": "d", "type": "mcp"}]}),
        json!({"role": "tool", "tool_call_id": "c", "content": "out"}),
        json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}),
        json!({"role": "function", "name": "f", "content": "out"}),
    ]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", TranscriptFormat::Anthropic, &anthropic("d")).await;
        let native = fs.read_to_string(path("native/anthropic.jsonl")).await.unwrap();
        assert_eq!(native, anthropic("d"));
        let page = sessions.lines("default", &Select::messages(1..=9)).await.unwrap();
        let content: Value = serde_json::from_str(&page.items[1].text).unwrap();
        let texts: Vec<_> =
            content["content"].as_array().unwrap().iter().map(|block| &block["text"]).collect();
        let unknown = "[block of an unknown type: not shown]";
        assert_eq!(
            texts,
            [
                "[server_tool_use: not shown]",
                "[web_search_tool_result: not shown]",
                unknown,
                unknown,
                "[text: not shown]"
            ]
        );
        assert_eq!(whole(&sessions, "default", TranscriptFormat::Anthropic, &anthropic("d")).await.new, 0);
        // Hidden blocks are compared as well.
        let other = anthropic("other");
        let import = Import::new(TranscriptFormat::Anthropic, &other).whole();
        assert!(sessions.import("default", &import).await.unwrap_err().is(ErrorKind::Conflict));

        sessions.import("o", &Import::new(OPENAI, &openai).create()).await.unwrap();
        let page = sessions.lines("o", &Select::messages(1..=9)).await.unwrap();
        let call: Value = serde_json::from_str(&page.items[1].text).unwrap();
        assert_eq!(call["content"][0]["arguments"], json!({"a": 1}));
        assert_eq!(call["content"][1]["text"], "[mcp: not shown]");
        let result: Value = serde_json::from_str(&page.items[4].text).unwrap();
        assert_eq!(result["content"][0]["call_id"], "f");
        assert_eq!(whole(&sessions, "o", OPENAI, &openai).await.new, 0);
    }
}

#[tokio::test]
async fn skip_bad_reports_skipped_messages() {
    let text = format!("{}\n\0\0\0\n{}\n{{\"role\":\"us", user("a"), user("b"));
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let done = sessions.import("default", &Import::new(OPENAI, &text).skip_bad()).await.unwrap();
        let skipped: Vec<_> = done.skipped.iter().map(|bad| (bad.message, bad.line)).collect();
        assert_eq!((done.new, done.skipped_count, skipped), (2, 2, vec![(2, 2), (4, 4)]));
        assert_eq!(said(&sessions, "default").await, ["a", "b"]);
        // A conflict counts the messages that were skipped.
        let other = text.replace("\"b\"", "\"x\"");
        let import = Import::new(OPENAI, &other).whole().skip_bad();
        let error = sessions.import("default", &import).await.unwrap_err();
        assert!(error.message().starts_with("message 3 "), "{error}");
    }
}

#[tokio::test]
async fn import_joins_multiline_values() {
    let call = json!({"type": "toolCall", "id": "c", "name": "n", "arguments": {"a": {"b": [1, 2]}}});
    let pi = json!([{"role": "assistant", "content": [call]}]);
    let call = json!({"type": "tool_use", "id": "c", "name": "n", "input": {"a": {"b": [1, 2]}}});
    let anthropic = json!([{"role": "assistant", "content": [call]}]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (format, value) in [(TranscriptFormat::Pi, &pi), (TranscriptFormat::Anthropic, &anthropic)] {
            let text = serde_json::to_string_pretty(value).unwrap();
            sessions.import(format.as_str(), &Import::new(format, &text).create()).await.unwrap();
            assert_eq!(whole(&sessions, format.as_str(), format, &value.to_string()).await.new, 0);
        }
    }
}

#[tokio::test]
async fn import_parses_times_in_text() {
    let at = |time: Value| json!({"role": "user", "content": "a", "timestamp": time});
    let times = [
        (json!(1_708_300_000_000_u64), "2024-02-18T23:46:40.000Z"),
        (json!(1_708_300_000_000.0), "2024-02-18T23:46:40.000Z"),
        (json!("1708300000000"), "2024-02-18T23:46:40.000Z"),
        (json!("2024-02-18T23:46:40+00:00"), "2024-02-18T23:46:40.000Z"),
    ];
    let text = lines(&times.each_ref().map(|(time, _)| at(time.clone())));
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", TranscriptFormat::Pi, &text).await;
        let page = sessions.lines("default", &Select::messages(1..=9)).await.unwrap();
        for (line, (_, due)) in page.items.iter().zip(&times) {
            let line: Value = serde_json::from_str(&line.text).unwrap();
            assert_eq!(line["created_at"], *due);
        }
    }
}

#[tokio::test]
async fn long_messages_are_imported() {
    let long = "x".repeat(15 << 20);
    let text = lines(&[user("a"), user(&long), user("b")]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        assert_eq!(whole(&sessions, "default", OPENAI, &text).await.new, 3);
        assert_eq!(whole(&sessions, "default", OPENAI, &text).await.new, 0);
        let longer = lines(&[user(&"x".repeat(17 << 20))]);
        let error = sessions.import("default", &Import::new(OPENAI, &longer).part()).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument) && error.message().contains("media"), "{error}");
        // The limit that is named is the one that was exceeded.
        let longer = lines(&[user(&"x".repeat((16 << 20) - 200))]);
        let error = sessions.import("default", &Import::new(OPENAI, &longer).part()).await.unwrap_err();
        assert!(error.message().contains("at most 16776192 are imported"), "{error}");
    }
}

#[tokio::test]
async fn repeated_part_is_appended_once() {
    let text = lines(&[user("b"), user("c")]);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let first = sessions.append("default", &Append::messages([Draft::user("a")])).await.unwrap();
        let import = Import::new(OPENAI, &text).part().after(&first.messages[0]);
        let done = sessions.import("default", &import).await.unwrap();
        assert!(done.new == 2 && !done.repeat_doubles);
        let error = sessions.import("default", &import).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict), "{error}");
        assert_eq!(said(&sessions, "default").await, ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn appended_message_matches_in_every_format() {
    let blocks = json!([
        {"type": "reasoning", "text": "so", "signature": "s"},
        {"type": "text", "text": "hi"},
        {"type": "tool_call", "id": "c", "name": "n", "arguments": {"a": 1}},
    ]);
    let texts = [
        (
            OPENAI,
            lines(&[
                user("go"),
                json!({"role": "assistant", "content": "hi", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{\"a\":1}"}}]}),
            ]),
        ),
        (
            TranscriptFormat::Pi,
            lines(&[
                user("go"),
                json!({"role": "assistant", "timestamp": 1, "content": [
            {"type": "thinking", "thinking": "so", "thinkingSignature": "s"}, {"type": "text", "text": "hi"},
            {"type": "toolCall", "id": "c", "name": "n", "arguments": {"a": 1}}]}),
            ]),
        ),
    ];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let said = [Draft::user("go"), Draft::message(Role::Assistant, &blocks)];
        sessions.append("default", &Append::messages(said)).await.unwrap();
        for (format, text) in &texts {
            assert_eq!(whole(&sessions, "default", *format, text).await.new, 0, "{format}");
        }
    }
}

#[tokio::test]
async fn repeated_import_returns_the_first_result() {
    use garth_agent::Once;
    use garth_engine::model::{Idempotency, Timestamp};
    use std::sync::Arc;
    let text: String = (1..=1500).map(|n| format!("{}\n", user(&n.to_string()))).collect();
    for (fs, _kept) in engines().await {
        let begin = || Once::begin(Arc::clone(&fs), Idempotency::new("k", [1; 32], Timestamp(i64::MAX)));
        let of = |once: Once| Sessions::new(&*fs, "default", "coder").unwrap().once(once);
        let import = Import::new(OPENAI, &text).create();
        assert_eq!(import.mode, None::<ImportMode>);
        let first = of(begin().await.unwrap()).import("new", &import).await.unwrap();
        let head = fs.head().await.unwrap().seq;
        assert_eq!(of(begin().await.unwrap()).import("new", &import).await.unwrap(), first);
        assert_eq!((fs.head().await.unwrap().seq, first.new), (head, 1500));
    }
}

#[tokio::test]
async fn a_repeated_append_adds_no_usage() {
    use garth_agent::session::Usage;
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let usage = Usage { input_tokens: 7, ..Usage::default() };
        let append = Append::messages([Draft::user("a").with("id", "msg-1")]).usage(usage);
        for _ in 0..2 {
            sessions.append("default", &append).await.unwrap();
        }
        assert_eq!(sessions.get("default").await.unwrap().meta.usage.input_tokens, 7);
        // Usage without lines is new on each call.
        sessions.append("default", &Append::default().usage(usage)).await.unwrap();
        assert_eq!(sessions.get("default").await.unwrap().meta.usage.input_tokens, 14);
    }
}

#[tokio::test]
async fn append_survives_incomplete_foreign_line() {
    use garth_engine::model::Op;
    use garth_testkit::fs::interfering::{Call, Interfering};
    use std::sync::Arc;
    for (fs, _kept) in engines().await {
        sessions(&*fs).await;
        let line = r#"{"id":"msg-x","role":"user","created_at":"2026-01-27T09:30:00Z","content":"x"}"#;
        let open = vec![Op::append(path("messages.jsonl"), line)];
        let raced: Arc<dyn FileSystem> = Arc::new(Interfering::new(&fs, Call::Commit, 0, open));
        let sessions = Sessions::new(&*raced, "default", "coder").unwrap();
        sessions.append("default", &Append::messages([Draft::user("a")])).await.unwrap();
        assert_eq!(said(&sessions, "default").await, ["x", "a"]);
        assert_eq!(sessions.end("default", Log::Messages).await.unwrap().lines, 2);
        sessions.create(&Create::new("other")).await.unwrap();
    }
}
