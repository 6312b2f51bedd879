//! Transcripts of other programs: an import followed by an export yields the same messages, each once.

use std::fmt::Write as _;

use garth_agent::session::{
    Append, Create, Document, Draft, Export, Import, Imported, Message, Select, Sessions, TranscriptFormat,
};
use garth_engine::{Env, ErrorKind, FileSystemExt};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::sessions::{account, engines, path, sessions};

const ALL: [TranscriptFormat; 5] = [
    TranscriptFormat::Garth,
    TranscriptFormat::Pi,
    TranscriptFormat::OpenAi,
    TranscriptFormat::Anthropic,
    TranscriptFormat::Markdown,
];

pub(super) async fn exported(sessions: &Sessions<'_>, session: &str, export: &Export) -> String {
    let (mut document, mut text, mut export) = (Document::new(export.format), String::new(), export.clone());
    loop {
        let page = sessions.export(session, &export).await.unwrap();
        text += &document.page(&page.items);
        match page.next {
            Some(next) => export.lines = next..=*export.lines.end(),
            None => return text + &document.end(),
        }
    }
}

async fn messages(sessions: &Sessions<'_>, session: &str) -> Vec<Message> {
    let mut select = Select::messages(1..=u64::MAX);
    let mut messages = Vec::new();
    loop {
        let page = sessions.lines(session, &select).await.unwrap();
        messages.extend(page.items.iter().map(|line| Message::parse(&line.text).unwrap()));
        match page.next {
            Some(next) => select.lines = next..=u64::MAX,
            None => return messages,
        }
    }
}

fn known(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| format!("{:?} {:?}", message.role, message.content)).collect()
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

const PI: &str = concat!(
    r#"{"role":"user","content":"Hello","timestamp":1708300000000}"#,
    "\n",
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"so","thinkingSignature":"s"},"#,
    r#"{"type":"text","text":"Hi there!"},{"type":"toolCall","id":"call_abc","name":"Bash","#,
    r#""arguments":{"n":12345678901234567890.50}}],"api":"x","usage":{"input":1.0},"#,
    r#""timestamp":1708300001000}"#,
    "\n",
    r#"{"role":"toolResult","toolCallId":"call_abc","toolName":"Bash","content":[{"type":"text","#,
    r#""text":"output"}],"details":{"a":1e3},"isError":false,"timestamp":1708300002000}"#,
    "\n",
    r#"{"role":"user","content":[{"type":"image","r2Key":"media/k/a.png","mimeType":"image/png"}],"#,
    r#""timestamp":1708300003000}"#,
    "\n",
);

const OPENAI: &str = concat!(
    r#"{"role":"developer","content":"be kind"}"#,
    "\n",
    r#"{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","#,
    r#""image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}}]}"#,
    "\n",
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"n","#,
    r#""arguments":"{\"x\": 1.50}"}},{"id":"d","type":"function","function":{"name":"n","arguments":"{"}}],"#,
    r#""reasoning_content":"so"}"#,
    "\n",
    r#"{"role":"tool","tool_call_id":"c","content":"out"}"#,
    "\n",
    r#"{"role":"tool","tool_call_id":"d","content":""}"#,
    "\n",
    r#"{"role":"assistant","content":"done","annotations":[]}"#,
    "\n",
);

const ANTHROPIC: &str = concat!(
    r#"{"role":"user","content":"go"}"#,
    "\n",
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"s"},"#,
    r#"{"type":"tool_use","id":"a","name":"n","input":{"x":1.50}},{"type":"tool_use","id":"b","name":"n","#,
    r#""input":{}}],"usage":{"n":1e2}}"#,
    "\n",
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"of a"},"#,
    r#"{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"of b"}]},"#,
    r#"{"type":"text","text":"wait","cache_control":{"type":"ephemeral"}}]}"#,
    "\n",
    r#"{"role":"assistant","content":"done"}"#,
    "\n",
);

#[tokio::test]
async fn import_and_export_round_trip() {
    let array = |text: &str| format!("[\n{}\n]\n", text.trim_end().replace('\n', ",\n"));
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        // The third message of Anthropic has two results and a text, which are three lines.
        for (format, text, (count, line_count), due) in [
            (TranscriptFormat::Pi, PI, (4, 4), PI.to_owned()),
            (TranscriptFormat::OpenAi, OPENAI, (6, 6), array(OPENAI)),
            (TranscriptFormat::Anthropic, ANTHROPIC, (4, 6), array(ANTHROPIC)),
        ] {
            let name = format.as_str();
            sessions.create(&Create::new(name)).await.unwrap();
            let done = sessions.import(name, &Import::new(format, text)).await.unwrap();
            let lines = Some(1..=line_count);
            assert_eq!((done.messages, done.new, done.lines), (count, count, lines), "{format}");
            let native = path("x").to_string().replace("default/x", &format!("{name}/native/{name}.jsonl"));
            let native = fs.read_to_string(garth_engine::TreePath::parse(&native).unwrap()).await.unwrap();
            assert_eq!(native, text);
            assert_eq!(exported(&sessions, name, &Export::new(format)).await, due);
            // Again, as an array, and with one more message.
            let again = sessions.import(name, &Import::new(format, &array(text)).whole()).await.unwrap();
            assert_eq!((again.messages, again.present), (count, count), "{format}");
            assert_eq!((again.new, again.seq), (0, None), "{format}");
            let more = format!("{text}{{\"role\":\"user\",\"content\":\"more\"}}\n");
            assert_eq!(sessions.import(name, &Import::new(format, &more).whole()).await.unwrap().new, 1);
            assert_eq!(messages(&sessions, name).await.len() as u64, line_count + 1);
        }
    }
}

#[tokio::test]
async fn import_converts_foreign_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.import("default", &Import::new(TranscriptFormat::Anthropic, ANTHROPIC)).await.unwrap();
        let page = sessions.lines("default", &Select::messages(1..=9)).await.unwrap();
        let said: Vec<Value> =
            page.items.iter().map(|line| serde_json::from_str(&line.text).unwrap()).collect();
        let seen: Vec<_> =
            said.iter().map(|line| (line["role"].as_str().unwrap(), &line["native"]["line"])).collect();
        let [one, two, three, four] = [json!(1), json!(2), json!(3), json!(4)];
        let due = [
            ("user", &one),
            ("assistant", &two),
            ("tool", &three),
            ("tool", &three),
            ("user", &three),
            ("assistant", &four),
        ];
        assert_eq!(seen, due);
        assert!(page.items[1].text.contains(r#""arguments":{"x":1.50}"#), "{}", page.items[1].text);
        assert_eq!(said[3]["content"][0]["error"], json!(true));
        // A part of the import is written again.
        let part = Export::new(TranscriptFormat::Anthropic).lines(4..=5);
        let part: Value = serde_json::from_str(&exported(&sessions, "default", &part).await).unwrap();
        let result = json!({"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": "of b"});
        let due = json!([{"role": "user", "content": [result]}, {"role": "user", "content": "wait"}]);
        assert_eq!(part, due);
        // Retracted messages are not exported.
        sessions.retract("default", &"messages:5".parse().unwrap(), None).await.unwrap();
        let left = exported(&sessions, "default", &Export::new(TranscriptFormat::Anthropic)).await;
        assert!(!left.contains("wait") && left.contains("of a"), "{left}");
        let all = Export::new(TranscriptFormat::Anthropic).with_retracted();
        assert!(exported(&sessions, "default", &all).await.contains("wait"));
        let markdown = exported(&sessions, "default", &Export::new(TranscriptFormat::Markdown)).await;
        assert!(markdown.contains("## tool 20") && markdown.contains("of b"), "{markdown}");
    }
}

#[tokio::test]
async fn import_keeps_system_prompts() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let whole = json!({"system": [{"type": "text", "text": "be kind"}], "messages": [{"role": "user", "content": "hi"}]});
        for (name, format, text) in [
            ("a", TranscriptFormat::Anthropic, whole.to_string()),
            ("p", TranscriptFormat::Pi, json!({"systemPrompt": "be kind", "messages": []}).to_string()),
            ("o", TranscriptFormat::OpenAi, json!([{"role": "system", "content": "be kind"}]).to_string()),
        ] {
            sessions.create(&Create::new(name)).await.unwrap();
            sessions.import(name, &Import::new(format, &text)).await.unwrap();
            assert_eq!(messages(&sessions, name).await[0].text(), "be kind");
        }
        let again = exported(&sessions, "a", &Export::new(TranscriptFormat::Anthropic)).await;
        assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), whole);
        assert_eq!(exported(&sessions, "default", &Export::new(TranscriptFormat::Anthropic)).await, "[]\n");
        assert_eq!(exported(&sessions, "default", &Export::new(TranscriptFormat::Pi)).await, "");
    }
}

#[tokio::test]
async fn unreadable_message_rejects_the_transcript() {
    let bad = [
        (TranscriptFormat::Pi, r#"{"role":"bash","content":"x"}"#, "role `bash`"),
        (TranscriptFormat::Pi, r#"{"role":"toolResult","content":"x"}"#, "toolCallId"),
        (TranscriptFormat::Pi, r#"{"role":"user","content":"x","timestamp":"soon"}"#, "timestamp"),
        (TranscriptFormat::OpenAi, r#"["user"]"#, "JSON object"),
        (TranscriptFormat::OpenAi, r#"{"role":"user","role":"user","content":"x"}"#, "duplicate key"),
        (TranscriptFormat::OpenAi, r#"{"role":"user","content":"x""#, "JSON"),
        (TranscriptFormat::OpenAi, "\0\0\0\0", "JSON"),
        (TranscriptFormat::OpenAi, r#"{"role":"user","content":7}"#, "content"),
        (TranscriptFormat::Garth, r#"{"role":"user","content":[{"type":"document"}]}"#, "content"),
    ];
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (format, line, said) in bad {
            let text = format!("{{\"role\":\"user\",\"content\":\"kept?\"}}\n\n{line}\n");
            let import = Import::new(format, &text);
            let error = sessions.import("default", &import).await.unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
            let told = error.to_string();
            assert!(told.contains("message 2 (line 3)") && told.contains(said), "{format}: {told}");
            // No session is created for it either.
            let error = sessions.import("new", &import.create()).await.unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
            assert!(sessions.get("new").await.is_err());
        }
        let markdown = Import::new(TranscriptFormat::Markdown, "hello\n");
        let error = sessions.import("default", &markdown).await.unwrap_err();
        assert!(error.to_string().contains("heading"), "{error}");
        assert_eq!(messages(&sessions, "default").await.len(), 0);
        let missing = sessions.import("none", &Import::new(TranscriptFormat::Pi, PI)).await.unwrap_err();
        assert!(missing.is(ErrorKind::NotFound), "{missing}");
        let nothing = Import::new(TranscriptFormat::Pi, "");
        assert_eq!(sessions.import("default", &nothing).await.unwrap(), Imported::default());
    }
}

#[tokio::test]
async fn long_transcript_imports_in_several_commits() {
    let (account, _kept) = account().await;
    let sessions = sessions(&*account).await;
    {
        let mut text = String::new();
        for number in 0..2500 {
            let _ = writeln!(text, "{{\"role\":\"user\",\"content\":\"{number}{}\"}}", "x".repeat(2000));
        }
        // A part of it exists after a failure.
        let some: String = text.lines().take(1200).map(|line| format!("{line}\n")).collect();
        let first = sessions.import("default", &Import::new(TranscriptFormat::OpenAi, &some)).await.unwrap();
        assert_eq!(first.new, 1200);
        let whole = Import::new(TranscriptFormat::OpenAi, &text).whole();
        let done = sessions.import("default", &whole).await.unwrap();
        assert_eq!((done.messages, done.new, done.lines), (2500, 1300, Some(1201..=2500)));
        let first = sessions.export("default", &Export::new(TranscriptFormat::OpenAi)).await.unwrap();
        assert!(first.items.len() < 2500 && first.next == Some(first.items.len() as u64 + 1));
        let due = format!("[\n{}\n]\n", text.trim_end().replace('\n', ",\n"));
        assert!(exported(&sessions, "default", &Export::new(TranscriptFormat::OpenAi)).await == due);
        let late = Export::new(TranscriptFormat::OpenAi).lines(2400..=2401);
        assert_eq!(sessions.export("default", &late).await.unwrap().items.len(), 2);
    }
}

#[tokio::test]
async fn import_keeps_duplicate_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let text = lines(&[
            json!({"role": "user", "content": "go on"}),
            json!({"role": "user", "content": "go on"}),
        ]);
        for new in [2, 0] {
            let whole = Import::new(TranscriptFormat::OpenAi, &text).whole();
            assert_eq!(sessions.import("default", &whole).await.unwrap().new, new);
        }
        // A valid id stays.
        let own = lines(&[json!({"id": "msg-own", "role": "user", "content": "mine"})]);
        sessions.import("default", &Import::new(TranscriptFormat::Garth, &own).part()).await.unwrap();
        assert_eq!(messages(&sessions, "default").await[2].id, "msg-own");
    }
}

#[tokio::test]
async fn import_reads_markdown_headings() {
    let text = "\n## system\nbe kind\n## user 2026-01-27T09:30:00Z msg-a\n\nWhere?\n\n\\## user\n\
        ## user guide\n\n## assistant\r\n\r\nThere.\r\n\r\n## tool 2026-01-27T09:30:00Z msg-t call_1\n\nout\n";
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.import("default", &Import::new(TranscriptFormat::Markdown, text)).await.unwrap();
        let there = messages(&sessions, "default").await;
        let texts: Vec<_> = there.iter().take(3).map(Message::text).collect();
        assert_eq!(texts, ["be kind", "Where?\n\n## user\n## user guide", "There."]);
        assert_eq!((there[1].id.as_str(), there[3].result_of()), ("msg-a", Some("call_1")));
        let again = Import::new(TranscriptFormat::Markdown, text).whole();
        assert_eq!(sessions.import("default", &again).await.unwrap().new, 0);
    }
}

/// Returns text that is hard on formats.
fn any_text() -> impl Strategy<Value = String> {
    let lines = [
        "",
        "## user",
        "\\## tool",
        "## assistant x",
        "a",
        " b ",
        "\\",
        "\r",
        "## user ",
        "é\u{0}\"",
        "\t## user",
    ];
    let line = prop_oneof![prop::sample::select(lines.to_vec()).prop_map(str::to_owned), ".{0,6}"];
    prop::collection::vec(line, 1..4).prop_map(|lines| lines.join("\n"))
}

fn text_message() -> impl Strategy<Value = Value> {
    (prop::sample::select(vec!["user", "assistant", "system"]), any_text())
        .prop_map(|(role, text)| json!({"role": role, "content": text}))
}

/// Returns steps that every format can represent: with their results, and texts before calls.
fn any_step() -> impl Strategy<Value = Vec<Value>> {
    let text = any_text().prop_map(|text| json!({"type": "text", "text": text})).boxed();
    let image = Just(json!({"type": "image", "mime_type": "image/png", "data": "aGk="}));
    let parts = prop::collection::vec(prop_oneof![text.clone(), image], 2..4);
    let step = (prop::collection::vec(text, 0..3), 1..3_usize, any_text()).prop_map(|(mut content, calls, out)| {
        let mut step = Vec::new();
        for number in 0..calls {
            let id = format!("c{number}");
            content.push(json!({"type": "tool_call", "id": id, "name": "n", "arguments": {"n": number}}));
            step.push(json!({"role": "tool", "content": [{"type": "tool_result", "call_id": id, "content": out}]}));
        }
        step.insert(0, json!({"role": "assistant", "content": content}));
        step
    });
    prop_oneof![
        3 => step,
        2 => text_message().prop_map(|message| vec![message]),
        1 => parts.prop_map(|parts| vec![json!({"role": "user", "content": parts})]),
    ]
}

async fn round(format: TranscriptFormat, said: &[Value]) -> (Vec<String>, Vec<String>) {
    let fs = garth_engine::engine::memory::MemoryFs::new(Env::system(), garth_agent::registry());
    let sessions = sessions(&fs).await;
    let drafts = said.iter().map(|message| Draft::parse(&message.to_string()).unwrap());
    sessions.append("default", &Append::messages(drafts)).await.unwrap();
    let text = exported(&sessions, "default", &Export::new(format)).await;
    // An export has exactly the messages of the session.
    let again = sessions.import("default", &Import::new(format, &text).whole()).await.unwrap();
    assert_eq!((again.new, again.system_changed), (0, false), "{format}: {text}");
    sessions.create(&Create::new("other")).await.unwrap();
    sessions.import("other", &Import::new(format, &text)).await.unwrap();
    // An import in a format is exported in it unchanged.
    assert_eq!(exported(&sessions, "other", &Export::new(format)).await, text, "{format}");
    // Names of tools are with their calls.
    let named = |messages: Vec<String>| -> Vec<_> {
        messages.into_iter().map(|text| text.replace("name: Some(\"n\")", "name: None")).collect()
    };
    let [before, after] = [messages(&sessions, "default").await, messages(&sessions, "other").await];
    (named(known(&before)), named(known(&after)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn formats_round_trip_their_content(said in prop::collection::vec(any_step(), 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut said = said.concat();
        for format in ALL.into_iter().filter(|format| *format != TranscriptFormat::Markdown) {
            if format == TranscriptFormat::Anthropic {
                // This format has the prompt before all messages.
                said.retain(|message| message["role"] != "system");
                said.insert(0, json!({"role": "system", "content": "be kind"}));
            }
            let (before, after) = runtime.block_on(round(format, &said));
            prop_assert_eq!(before, after, "{}", format);
        }
    }

    #[test]
    fn markdown_round_trips_texts(said in prop::collection::vec(text_message(), 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (before, after) = runtime.block_on(round(TranscriptFormat::Markdown, &said));
        prop_assert_eq!(before, after);
    }
}
