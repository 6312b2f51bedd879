//! Transcripts that are broken, or that have messages which the session retracted.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use garth_agent::session::{Append, Draft, Export, Import, Role, Select, Sessions, TranscriptFormat};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::{Env, ErrorKind};
use serde_json::{Value, json};

use super::media::{KEY, png, session};
use super::sessions::{engines, said, sessions};
use super::transcripts::exported;
use super::transcripts_again::{assistant, lines, user, whole};

const OPENAI: TranscriptFormat = TranscriptFormat::OpenAi;

#[tokio::test]
async fn retracted_parts_of_a_message_stay_retracted() {
    const ANTHROPIC: TranscriptFormat = TranscriptFormat::Anthropic;
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "n", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": format!("of {id}")});
    let all = vec![
        user("go"),
        json!({"role": "assistant", "content": [call("a"), call("b")]}),
        json!({"role": "user", "content": [result("a"), result("b"), {"type": "text", "text": "and more"}]}),
        assistant("done"),
    ];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        // Lines 3, 4 and 5 are the parts of one message.
        for (number, (gone, has_more)) in [
            ("3", true),
            ("4", true),
            ("3-4", true),
            ("4-5", true),
            ("5", true),
            ("3", false),
            ("3-4", false),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("s{number}");
            let text = lines(if has_more { &all } else { &all[..3] });
            sessions.import(&name, &Import::new(ANTHROPIC, &text).create()).await.unwrap();
            sessions.retract(&name, &format!("messages:{gone}").parse().unwrap(), None).await.unwrap();
            let left = said(&sessions, &name).await;
            let error = sessions.import(&name, &Import::new(ANTHROPIC, &text).whole()).await.unwrap_err();
            assert!(
                error.is(ErrorKind::Conflict) && error.message().contains("are retracted"),
                "{gone}: {error}"
            );
            let own = exported(&sessions, &name, &Export::new(ANTHROPIC)).await;
            for _ in 0..2 {
                let done = whole(&sessions, &name, ANTHROPIC, &own).await;
                assert_eq!((done.new, done.present), (0, done.messages), "{gone}: {own}");
            }
            assert_eq!(said(&sessions, &name).await, left, "{gone}");
        }
        // At the end of the session it is told.
        let text = lines(&all[..3]);
        sessions.import("end", &Import::new(ANTHROPIC, &text).create()).await.unwrap();
        sessions.retract("end", &"messages:4-5".parse().unwrap(), None).await.unwrap();
        // Two lines of one message are new.
        let import = Import::new(ANTHROPIC, &text).whole();
        let dry = sessions.import("end", &import.clone().dry()).await.unwrap();
        assert_eq!((dry.messages, dry.new, dry.present, dry.lines), (3, 1, 2, Some(6..=7)));
        let done = sessions.import("end", &import).await.unwrap();
        assert_eq!((done.messages, done.new, done.present, done.lines), (3, 1, 2, Some(6..=7)));
        assert_eq!(done.said_again, Some(4));
        assert_eq!(whole(&sessions, "end", ANTHROPIC, &text).await.new, 0);
    }
}

#[tokio::test]
async fn import_reports_messages_retracted_last() {
    let system = json!({"role": "system", "content": "be kind"});
    let cases = [
        (vec![user("a"), assistant("b"), user("c")], "2-3", vec![user("a"), user("c")], Some(3)),
        (vec![user("a"), assistant("b")], "1-2", vec![user("a"), assistant("b")], Some(1)),
        (vec![system.clone(), user("a")], "1-2", vec![system.clone(), user("a")], Some(1)),
        (vec![user("a"), assistant("b")], "1-2", vec![system.clone(), assistant("b")], Some(2)),
        (vec![user("a"), assistant("b")], "2", vec![user("a"), assistant("x")], None),
        (vec![user("a")], "1", vec![system], None),
    ];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (number, (first, gone, again, due)) in cases.iter().enumerate() {
            let name = format!("s{number}");
            sessions.import(&name, &Import::new(OPENAI, &lines(first)).create()).await.unwrap();
            sessions.retract(&name, &format!("messages:{gone}").parse().unwrap(), None).await.unwrap();
            let done = whole(&sessions, &name, OPENAI, &lines(again)).await;
            assert_eq!(done.said_again, *due, "{number}");
        }
    }
}

#[tokio::test]
async fn skip_bad_loses_one_of_an_array() {
    let all: Vec<Value> = (1..=50).map(|n| user(&n.to_string())).collect();
    let format = TranscriptFormat::Anthropic;
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let broken = json!(all).to_string().replace(r#""content":"7""#, r#""content" "7""#);
        let no_comma = json!(all).to_string().replace(r#""7","role":"user"},"#, r#""7","role":"user"}"#);
        let items: Vec<_> = all.iter().map(Value::to_string).collect();
        let cut = format!("{{\"system\":\"s\",\"messages\":[\n{},\n{{\"role\":\"us", items.join(",\n"));
        for (name, text, new, skipped) in
            [("broken", broken, 49, 1), ("no-comma", no_comma, 50, 0), ("cut", cut, 51, 1)]
        {
            let error = sessions.import(name, &Import::new(format, &text).create()).await.unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
            let done = sessions.import(name, &Import::new(format, &text).create().skip_bad()).await.unwrap();
            assert_eq!((done.new, done.skipped_count), (new, skipped), "{name}");
            assert_eq!(said(&sessions, name).await.last().unwrap(), "50");
        }
    }
}

#[tokio::test]
async fn import_reads_unpaired_surrogates() {
    let openai = r#"{"role":"user","content":"a\ud83d b"}"#;
    let garth = r#"{"role":"user","content":"a\ud83d b"}"#;
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (format, text) in [(OPENAI, openai), (TranscriptFormat::Garth, garth)] {
            let name = format.as_str();
            let done = sessions.import(name, &Import::new(format, text).create()).await.unwrap();
            assert_eq!((done.new, done.note_count, done.notes[0].message), (1, 1, 1));
            assert_eq!(said(&sessions, name).await, ["a\u{fffd} b"]);
            assert_eq!(whole(&sessions, name, format, text).await.new, 0);
        }
        // As it came.
        let own = exported(&sessions, "openai", &Export::new(OPENAI)).await;
        assert_eq!(own, format!("[\n{openai}\n]\n"));
        // Arguments are text in text.
        let function = json!({"name": "n", "arguments": r#"{"a":"\ud83d"}"#});
        let calls = json!([{"id": "c", "type": "function", "function": function}]);
        let calls = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let again = format!("{openai}\n{calls}");
        assert_eq!(whole(&sessions, "openai", OPENAI, &again).await.new, 1);
        let page = sessions.lines("openai", &Select::messages(2..=2)).await.unwrap();
        assert!(page.items[0].text.contains(r#""arguments":{"a":"\ufffd"}"#), "{}", page.items[0].text);
        assert_eq!(whole(&sessions, "openai", OPENAI, &again).await.new, 0);
    }
}

#[tokio::test]
async fn retracted_system_message_does_not_return() {
    let system = json!({"role": "system", "content": "be kind"});
    let all = [system.clone(), user("a"), assistant("b")];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", OPENAI, &lines(&all)).await;
        sessions.retract("default", &"messages:1".parse().unwrap(), None).await.unwrap();
        let text = lines(&all);
        let import = Import::new(OPENAI, &text).whole();
        let error = sessions.import("default", &import).await.unwrap_err();
        let is_named = error.message().contains("messages:1 of default, which is retracted");
        assert!(error.is(ErrorKind::Conflict) && is_named, "{error}");
        assert_eq!(whole(&sessions, "default", OPENAI, &lines(&all[1..])).await.present, 2);
        // Another prompt is a change, and so is the same one if that is meant.
        let rewound = sessions.import("default", &import.clone().rewind()).await.unwrap();
        assert!(rewound.system_changed && rewound.retracted.is_none());
        let other = [json!({"role": "system", "content": "be brief"}), user("a"), assistant("b")];
        assert!(whole(&sessions, "default", OPENAI, &lines(&other)).await.system_changed);
        assert!(whole(&sessions, "default", OPENAI, &lines(&all)).await.system_changed);
    }
}

#[tokio::test]
async fn empty_transcript_rewinds_nothing() {
    let system = json!({"role": "system", "content": "be kind"});
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let all = [system.clone(), user("a"), assistant("b")];
        whole(&sessions, "default", OPENAI, &lines(&all)).await;
        for text in [String::new(), "[]".to_owned(), "[".to_owned(), lines(std::slice::from_ref(&system))] {
            for dry in [false, true] {
                let mut import = Import::new(OPENAI, &text).rewind().skip_bad();
                import.dry = dry;
                let error = sessions.import("default", &import).await.unwrap_err();
                let says_how = error.message().contains("retract messages:1-3");
                assert!(error.is(ErrorKind::InvalidArgument) && says_how, "{text}: {error}");
            }
        }
        assert_eq!(said(&sessions, "default").await.len(), 3);
        sessions.import("default", &Import::new(OPENAI, &lines(&all[..2])).rewind()).await.unwrap();
        assert_eq!(said(&sessions, "default").await.len(), 2);
    }
}

#[tokio::test]
async fn exported_results_of_a_step_are_one_message() {
    const ANTHROPIC: TranscriptFormat = TranscriptFormat::Anthropic;
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "n", "input": {}});
    let block = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": format!("of {id}")});
    let results =
        |ids: &[&str]| json!({"role": "user", "content": ids.iter().map(|id| block(id)).collect::<Vec<_>>()});
    let head = [user("go"), json!({"role": "assistant", "content": [call("a"), call("b")]})];
    let text =
        |id: &str| json!({"role": "user", "content": [block(id), {"type": "text", "text": "and more"}]});
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (number, rest) in [
            vec![results(&["a"]), results(&["b"])],
            vec![text("a"), results(&["b"])],
            vec![text("a"), text("b")],
            vec![user("wait"), results(&["a"]), results(&["b"])],
            vec![user("wait"), results(&["a", "b"])],
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("s{number}");
            let all: Vec<Value> = head.iter().chain(&rest).cloned().chain([assistant("done")]).collect();
            sessions.import(&name, &Import::new(ANTHROPIC, &lines(&all)).create()).await.unwrap();
            let own = exported(&sessions, &name, &Export::new(ANTHROPIC)).await;
            let own: Value = serde_json::from_str(&own).unwrap();
            let answer = own[2]["content"].as_array().unwrap();
            let ids: Vec<&Value> = answer.iter().map(|block| &block["tool_use_id"]).collect();
            assert_eq!(ids, ["a", "b"], "{own}");
            // The export has another order than the session, and is the same conversation.
            let done = whole(&sessions, &name, ANTHROPIC, &own.to_string()).await;
            assert_eq!(
                (done.new, done.present, done.retracted),
                (0, own.as_array().unwrap().len() as u64, None)
            );
            let mut longer = own.as_array().unwrap().clone();
            longer.push(user("thanks"));
            assert_eq!(whole(&sessions, &name, ANTHROPIC, &lines(&longer)).await.new, 1);
            // A change after the results, before the end of what the user says among them: a rewind stores
            // the results again.
            longer.truncate(3);
            longer.push(user("another"));
            let conflict = sessions.import(&name, &Import::new(ANTHROPIC, &lines(&longer)).whole()).await;
            assert_eq!(conflict.unwrap_err().kind(), ErrorKind::Conflict);
            sessions.import(&name, &Import::new(ANTHROPIC, &lines(&longer)).rewind()).await.unwrap();
            let own = exported(&sessions, &name, &Export::new(ANTHROPIC)).await;
            assert_eq!(serde_json::from_str::<Vec<Value>>(&own).unwrap(), longer);
        }
        // After a retraction of one result, and a rewind that brings the other.
        let all: Vec<Value> = head.iter().cloned().chain([results(&["a", "b"])]).collect();
        sessions.import("r", &Import::new(ANTHROPIC, &lines(&all)).create()).await.unwrap();
        sessions.retract("r", &"messages:4".parse().unwrap(), None).await.unwrap();
        let again: Vec<Value> = head.iter().cloned().chain([results(&["a"]), results(&["b"])]).collect();
        sessions.import("r", &Import::new(ANTHROPIC, &lines(&again)).rewind()).await.unwrap();
        let own = exported(&sessions, "r", &Export::new(ANTHROPIC)).await;
        let items: Vec<Value> = serde_json::from_str(&own).unwrap();
        assert_eq!((items.len(), &items[2]), (3, &results(&["a", "b"])), "{own}");
        let done = whole(&sessions, "r", ANTHROPIC, &own).await;
        assert_eq!((done.new, done.retracted), (0, None));
    }
}

#[tokio::test]
async fn changes_of_original_forms_are_differences() {
    const ANTHROPIC: TranscriptFormat = TranscriptFormat::Anthropic;
    let head = [
        user("go"),
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {}}]}),
    ];
    let result = |content: Value| json!({"type": "tool_result", "tool_use_id": "a", "content": content});
    let of_user = |blocks: Value| json!({"role": "user", "content": blocks});
    let cited = |cited: bool| {
        let text = json!({"type": "text", "text": "and more", "citations": {"enabled": cited}});
        vec![of_user(json!([result(json!("of a")), text]))]
    };
    let document = |id: &str| {
        let source = json!({"type": "file", "file_id": id});
        of_user(json!([result(json!([{"type": "document", "source": source}]))]))
    };
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (name, stored, changed) in [
            ("field", cited(true), cited(false)),
            ("document", vec![document("x")], vec![document("y")]),
            // In the order of an export, which has no documents.
            ("moved", vec![user("wait"), document("x")], vec![document("y"), user("wait")]),
        ] {
            let all = |rest: &[Value]| lines(&[&head[..], rest].concat());
            sessions.import(name, &Import::new(ANTHROPIC, &all(&stored)).create()).await.unwrap();
            assert_eq!(whole(&sessions, name, ANTHROPIC, &all(&stored)).await.new, 0, "{name}");
            let error = sessions.import(name, &Import::new(ANTHROPIC, &all(&changed)).whole()).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict, "{name}");
            let own = exported(&sessions, name, &Export::new(ANTHROPIC)).await;
            assert_eq!(whole(&sessions, name, ANTHROPIC, &own).await.new, 0, "{name}: {own}");
        }
    }
}

#[tokio::test]
async fn long_message_among_results_is_compared_once() {
    const ANTHROPIC: TranscriptFormat = TranscriptFormat::Anthropic;
    const LONG: usize = 200_000;
    let steps = async |count: usize| {
        let env = Env::system();
        let fs = Arc::new(MemoryFs::new(env.clone(), garth_agent::registry()));
        let ids: Vec<String> = (0..count).map(|n| format!("call{n}")).collect();
        let call = |id: &String| json!({"type": "tool_call", "id": id, "name": "n", "arguments": {}});
        let result = |id: &String| json!([{"type": "tool_result", "call_id": id, "content": "done"}]);
        let calls: Vec<Value> = ids.iter().map(call).collect();
        let mut all = vec![Draft::user("go"), Draft::message(Role::Assistant, &calls)];
        all.push(Draft::user("x".repeat(LONG)));
        all.extend(ids.iter().map(|id| Draft::message(Role::Tool, &result(id))));
        let text = {
            let sessions = sessions(&*fs).await;
            sessions.append("default", &Append::messages(all)).await.unwrap();
            exported(&sessions, "default", &Export::new(ANTHROPIC)).await
        };
        let before = env.computed().steps;
        let import = async move {
            let sessions = Sessions::new(&*fs, "default", "coder").unwrap();
            sessions.import("default", &Import::new(ANTHROPIC, &text).whole()).await.unwrap().new
        };
        assert_eq!(env.compute("default", 1, import).await.unwrap(), 0);
        env.computed().steps - before
    };
    let (few, many) = (steps(20).await, steps(40).await);
    assert!(few > LONG as u64 && many < few + LONG as u64, "{few} and {many} steps");
}

#[tokio::test]
async fn export_pages_end_among_many_long_results() {
    const ANTHROPIC: TranscriptFormat = TranscriptFormat::Anthropic;
    let ids = ["a", "b", "c", "d"];
    // In memory: a database would take a minute for these texts.
    let (fs, _kept) = engines().await.remove(1);
    let sessions = sessions(&*fs).await;
    let calls = ids.map(|id| json!({"type": "tool_call", "id": id, "name": "n", "arguments": {}}));
    let call = Draft::message(Role::Assistant, &json!(calls));
    sessions.append("default", &Append::messages([Draft::user("go"), call])).await.unwrap();
    for id in ids {
        let result = json!([{"type": "tool_result", "call_id": id, "content": id.repeat(7 << 20)}]);
        let result = Draft::message(Role::Tool, &result);
        sessions.append("default", &Append::messages([result])).await.unwrap();
    }
    let (mut export, mut found) = (Export::new(ANTHROPIC), Vec::new());
    loop {
        let page = sessions.export("default", &export).await.unwrap();
        let bytes: usize = page.items.iter().map(String::len).sum();
        assert!(bytes < 22 << 20, "{bytes} bytes");
        for item in &page.items {
            let item: Value = serde_json::from_str(item).unwrap();
            let blocks = item["content"].as_array().cloned().unwrap_or_default();
            found.extend(blocks.iter().filter_map(|block| block["tool_use_id"].as_str()).map(str::to_owned));
        }
        let Some(next) = page.next else { break };
        export.lines = next..=u64::MAX;
    }
    assert_eq!(found, ids);
}

#[tokio::test]
async fn export_pages_end_between_large_images() {
    let format = TranscriptFormat::Anthropic;
    let said = |name: &str| {
        let data = STANDARD.encode([png(name), vec![0; 3 << 20]].concat());
        let source = json!({"type": "base64", "media_type": "image/png", "data": data});
        json!({"role": "user", "content": [{"type": "image", "source": source}]}).to_string()
    };
    let all = ["a", "b", "c", "d"].map(said);
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        sessions.import("work", &Import::new(format, &all.join("\n"))).await.unwrap();
        let (mut export, mut items) = (Export::new(format), Vec::new());
        loop {
            let page = sessions.export("work", &export).await.unwrap();
            let bytes: usize = page.items.iter().map(String::len).sum();
            // A page ends with the message that exceeds 4 MiB.
            assert!(bytes <= 9 << 20, "{bytes} bytes of {}", page.items.len());
            items.extend(page.items);
            let Some(next) = page.next else { break };
            export.lines = next..=u64::MAX;
        }
        assert!(items == all, "{} messages", items.len());
    }
}
