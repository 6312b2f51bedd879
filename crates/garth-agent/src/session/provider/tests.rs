//! Tests lists for providers against a grammar of their rules, for any messages, cut anywhere.

mod grammar;
mod images;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::turns::{EARLIER, INTERRUPTED};
use super::*;
use crate::count::Counter;
use crate::session::log::draft::Role;
use crate::session::log::message::Block;
use crate::session::render::whole;

/// Base64 of the header of a PNG of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA=";

fn message(role: &str, content: impl Into<Value>) -> Message {
    let content = content.into();
    let line = json!({"id": "msg-1", "role": role, "created_at": "2026-01-27T09:30:00Z", "content": content});
    Message::parse(&line.to_string()).unwrap()
}

fn in_run(run: &str, message: Message) -> Message {
    Message { run: Some(run.to_owned()), ..message }
}

fn call(id: &str) -> Value {
    json!({"type": "tool_call", "id": id, "name": "bash", "arguments": {"command": "ls"}})
}

fn result(id: &str, text: &str) -> Message {
    message("tool", json!([{"type": "tool_result", "call_id": id, "content": text}]))
}

fn lists(system: &str, messages: &[Message], after: &[String]) -> [Value; 2] {
    [Format::OpenAi, Format::Anthropic].map(|format| {
        let list = list(format, system, messages, after);
        let checked = match format {
            Format::OpenAi => grammar::openai(&list),
            Format::Anthropic => grammar::anthropic(&list),
        };
        assert_eq!(checked, Ok(()), "{list}");
        serde_json::from_str(&list).unwrap()
    })
}

#[test]
fn each_call_is_followed_by_its_result() {
    let said = [
        message("user", "go"),
        message("assistant", json!([{"type": "text", "text": "so"}, call("a"), call("b")])),
        message("user", "wait"),
        result("b", "of b"),
        result("nobody", "lost"),
        result("a", "of a"),
        result("a", "again"),
        message("assistant", json!([call("a")])),
    ];
    let [openai, anthropic] = lists("be kind", &said, &["a child is done".to_owned()]);
    let a = openai["messages"][6]["tool_calls"][0]["id"].clone();
    let function = json!({"name": "bash", "arguments": "{\"command\":\"ls\"}"});
    let due = json!([
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "so", "tool_calls": [
            {"id": "a", "type": "function", "function": function},
            {"id": "b", "type": "function", "function": function},
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "of a"},
        {"role": "tool", "tool_call_id": "b", "content": "of b"},
        {"role": "user", "content": "wait"},
        {"role": "assistant", "tool_calls": [{"id": a, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": a, "content": INTERRUPTED},
        {"role": "user", "content": "a child is done"},
    ]);
    assert_eq!(openai["messages"], due);
    let text = |text: &str| json!({"type": "text", "text": text});
    let answer =
        |id: &Value, said: &str| json!({"type": "tool_result", "tool_use_id": id, "content": [text(said)]});
    let asked =
        |id: &Value| json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": "ls"}});
    let due = json!([
        {"role": "user", "content": [text("go")]},
        {"role": "assistant", "content": [text("so"), asked(&json!("a")), asked(&json!("b"))]},
        {"role": "user", "content": [answer(&json!("a"), "of a"), answer(&json!("b"), "of b"), text("wait")]},
        {"role": "assistant", "content": [asked(&a)]},
        {"role": "user", "content": [answer(&a, INTERRUPTED), text("a child is done")]},
    ]);
    assert_eq!((&anthropic["system"], &anthropic["messages"]), (&json!("be kind"), &due));
}

#[test]
fn result_belongs_to_nearest_call_of_its_run() {
    let said = [
        in_run("one", message("assistant", json!([call("c")]))),
        in_run("two", message("assistant", json!([call("c"), call("c")]))),
        in_run("one", result("c", "of one")),
        result("c", "first of two"),
        in_run("two", result("c", "second of two")),
    ];
    let [openai, _] = lists("", &said, &[]);
    let results: Vec<_> =
        [1, 3, 4].map(|at| openai["messages"][at]["content"].as_str().unwrap().to_owned()).into();
    assert_eq!(results, ["of one", "first of two", "second of two"]);
}

#[test]
fn unsupported_content_is_described_in_text() {
    let data = json!({"type": "image", "mime_type": "image/png", "data": PNG});
    let odd = json!({"type": "image", "mime_type": "image/tiff", "data": "aGk="});
    let why = "[image: image/tiff, 2 bytes, is no PNG, JPEG, GIF or WebP image]";
    let file = json!({"type": "image", "mime_type": "image/png", "path": "/media/a.png"});
    let said = [
        message("system", "leads"),
        message(
            "assistant",
            json!([
                {"type": "reasoning", "text": "unsigned"}, {"type": "reasoning", "text": "signed", "signature": "s"},
                {"type": "reasoning", "redacted": "r"}, {"type": "text", "text": " \n"},
                {"type": "tool_call", "id": "a b", "name": "fs.read", "arguments": "not {json"},
            ]),
        ),
        message(
            "tool",
            json!([{"type": "tool_result", "call_id": "a b", "error": true, "content": [data, odd]}]),
        ),
        message("system", "midst"),
        message("user", json!([data, file])),
        message("user", ""),
        message("assistant", "so \n"),
    ];
    let [openai, anthropic] = lists("", &said, &[String::new()]);
    let id = &openai["messages"][1]["tool_calls"][0]["id"];
    let text = |text: &str| json!({"type": "text", "text": text});
    let png = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}});
    let function = json!({"name": "fs_read", "arguments": "not {json"});
    let due = json!([
        {"role": "system", "content": "leads"},
        {"role": "assistant", "content": " \n", "tool_calls": [{"id": id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": id, "content": format!("[error] [image: image/png]\n\n{why}")},
        {"role": "system", "content": "midst"},
        {"role": "user", "content": [png, text("[image: /media/a.png]")]},
        {"role": "assistant", "content": "so \n"},
    ]);
    assert_eq!(openai["messages"], due);
    let png = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    let due = json!([
        {"role": "user", "content": [text(EARLIER)]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "signed", "signature": "s"}, {"type": "redacted_thinking", "data": "r"},
            {"type": "tool_use", "id": id, "name": "fs_read", "input": {"text": "not {json"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "is_error": true,
                "content": [text("[image: image/png]"), text(why)]},
            text("[system] midst"), png, text("[image: /media/a.png]"),
        ]},
        {"role": "assistant", "content": [text("so")]},
    ]);
    assert_eq!((&anthropic["system"], &anthropic["messages"]), (&json!("leads"), &due));
}

#[test]
fn empty_sessions_make_valid_lists() {
    let thought = message("assistant", json!([{"type": "reasoning", "text": "so", "signature": "s"}]));
    for messages in [&[][..], &[thought], &[message("user", "")], &[result("c", "x")]] {
        let [openai, anthropic] = lists("", messages, &[]);
        assert_eq!(openai["messages"], json!([{"role": "user", "content": EARLIER}]));
        assert_eq!(anthropic["messages"].as_array().unwrap().len(), 1);
    }
    let formats = ["openai", "anthropic"].map(|name| name.parse::<Format>().unwrap().to_string());
    assert_eq!(formats, ["openai", "anthropic"]);
    assert!("OpenAI".parse::<Format>().is_err());
}

#[test]
fn list_keeps_arguments_to_the_last_digit() {
    let line = r#"{"id":"msg-1","role":"assistant","created_at":"2026-01-27T09:30:00Z","content":[
        {"type":"tool_call","id":"c","name":"n","arguments":{"x": 12345678901234567890.50}}]}"#;
    let said = [Message::parse(line).unwrap()];
    assert!(list(Format::OpenAi, "", &said, &[]).contains(r#""{\"x\": 12345678901234567890.50}""#));
    assert!(list(Format::Anthropic, "", &said, &[]).contains(r#""input":{"x": 12345678901234567890.50}"#));
}

#[test]
fn secrets_are_masked_in_all_texts() {
    let token = format!("ghp_{}", ["aB3dE5gH7j", "K9mN1pQ3sT", "5vW7yZ9bC1", "dF3hJ5"].concat());
    let url = format!("https://ann:{token}@example.org/a.png");
    let said = [
        message(
            "user",
            json!([{"type": "text", "text": format!("it is {token}")},
            {"type": "image", "mime_type": "image/png", "url": url}]),
        ),
        message(
            "assistant",
            json!([{"type": "reasoning", "text": format!("the {token}"), "signature": "s"},
            {"type": "text", "text": token},
            {"type": "tool_call", "id": "c", "name": "n", "arguments": {"token": token}},
            {"type": "tool_call", "id": "d", "name": "n", "arguments": format!("-H {token}")}]),
        ),
        result("c", &format!("has {token}")),
        message("system", format!("use {token}")),
    ];
    let list = lists(&format!("my {token}"), &said, &[format!("child: {token}")]);
    for list in list.map(|list| list.to_string()) {
        assert!(!list.contains(&token) && list.matches("[secret: ").count() >= 7, "{list}");
    }
}

#[test]
fn rendered_messages_stay_masked_in_lists() {
    let token = format!("ghp_{}", ["aB3dE5gH7j", "K9mN1pQ3sT", "5vW7yZ9bC1", "dF3hJ5"].concat());
    let escaped = token.replacen('h', "\\u0068", 1);
    let line = |arguments: &str, text: &str| {
        format!(
            concat!(
                r#"{{"id":"m","role":"assistant","created_at":"2026-01-01T00:00:00Z","content":["#,
                r#"{{"type":"text","text":"{}"}},"#,
                r#"{{"type":"tool_call","id":"c","name":"n","arguments":{}}}]}}"#,
            ),
            text, arguments
        )
    };
    for (line, is_plain) in [
        (line("{}", "nothing to hide"), Some(true)),
        (line("{}", &token), Some(false)),
        (line(&format!(r#"{{"token":"{token}"}}"#), "here"), Some(false)),
        // A search of the text as it is written may miss what its escapes hide.
        (line(&format!(r#""-H {escaped}""#), "here"), None),
    ] {
        let shown = whole(1, Message::parse(&line).unwrap(), &Counter::default()).message;
        assert!(is_plain.is_none_or(|is_plain| shown.is_plain == is_plain), "{line}");
        for format in [Format::OpenAi, Format::Anthropic] {
            let list = list(format, "", std::slice::from_ref(&shown), &[]);
            assert!(!list.contains(&token) && !list.contains(&escaped), "{list}");
            assert_eq!(list.contains("[secret: "), is_plain != Some(true), "{list}");
        }
    }
}

/// A message of any kind. `@` in it becomes a word of its own, by which it is known again.
fn any_message() -> impl Strategy<Value = (Option<&'static str>, &'static str, Value)> {
    let texts = ["", " ", "\n", "@", " @", "@ \n", "@", "@"];
    let text = prop::sample::select(texts.to_vec()).prop_map(|text| json!({"type": "text", "text": text}));
    let images = [
        json!({"type": "image", "mime_type": "image/png", "data": PNG}),
        json!({"type": "image", "mime_type": "IMAGE/JPG", "data": PNG}),
        json!({"type": "image", "mime_type": "image/png", "data": "no base64"}),
        json!({"type": "image", "mime_type": "image/png", "data": "aGk="}),
        json!({"type": "image", "mime_type": "", "data": ""}),
        json!({"type": "image", "mime_type": "image/svg+xml", "data": "aGk="}),
        json!({"type": "image", "mime_type": "image/gif", "url": "https://example.org/a.gif"}),
        json!({"type": "image", "mime_type": "image/gif", "url": "data:image/gif;base64,aGk="}),
        json!({"type": "image", "mime_type": "image/gif", "url": "file:///a.gif"}),
        json!({"type": "image", "mime_type": "image/png", "path": "/a.png"}),
    ];
    let image = prop::sample::select(images.to_vec());
    let part = prop_oneof![3 => text.clone(), 1 => image.clone()];
    let ids = prop::sample::select(vec!["a", "b", "call_1", "a b", "ä", "", "toolu_01|fc_2"]);
    let arguments =
        [json!({}), json!({"n": 1}), json!("{\"n\":1}"), json!(""), json!("{\"n\":1"), json!("[]")];
    let names = prop::sample::select(vec!["bash", "fs.read", "", "é"]);
    let call = (ids.clone(), names, prop::sample::select(arguments.to_vec())).prop_map(
        |(id, name, arguments)| json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments}),
    );
    let thoughts = [
        json!({"type": "reasoning", "text": "so"}),
        json!({"type": "reasoning", "text": "so", "signature": "s"}),
        json!({"type": "reasoning", "text": "", "signature": ""}),
        json!({"type": "reasoning", "redacted": "r"}),
        json!({"type": "reasoning", "redacted": ""}),
        json!({"type": "reasoning"}),
    ];
    let thought = prop::sample::select(thoughts.to_vec());
    let step = prop_oneof![2 => text.clone(), 1 => image, 2 => call, 1 => thought];
    let parts = prop::collection::vec(part.clone(), 0..4).prop_map(Value::from);
    let steps = prop::collection::vec(step, 0..5).prop_map(Value::from);
    let result = (ids, any::<bool>(), prop::collection::vec(part, 0..3)).prop_map(|(id, error, content)| {
        json!([{"type": "tool_result", "call_id": id, "error": error, "content": content}])
    });
    let said = prop_oneof![
        1 => (Just("system"), parts.clone()),
        2 => (Just("user"), parts),
        4 => (Just("assistant"), steps),
        4 => (Just("tool"), result),
    ];
    (prop::sample::select(vec![None, Some("one"), Some("two")]), said)
        .prop_map(|(run, (role, said))| (run, role, said))
}

/// Each `@` in a value as a word of its own.
fn marked(value: &mut Value, count: &mut u32) {
    match value {
        Value::String(text) if text.contains('@') => {
            *count += 1;
            *text = text.replace('@', &format!("<word {count}>"));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| marked(item, count)),
        Value::Object(fields) => fields.values_mut().for_each(|item| marked(item, count)),
        _ => {}
    }
}

/// The words of texts in blocks.
fn words(blocks: &[Block]) -> Vec<String> {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        _ => None,
    });
    texts.collect()
}

fn check(system: &str, messages: &[Message], after: &[String]) -> Result<(), TestCaseError> {
    let openai = list(Format::OpenAi, system, messages, after);
    let anthropic = list(Format::Anthropic, system, messages, after);
    prop_assert_eq!(grammar::openai(&openai), Ok(()), "{}", openai);
    prop_assert_eq!(grammar::anthropic(&anthropic), Ok(()), "{}", anthropic);
    for list in [&openai, &anthropic] {
        let mut from = 0;
        for message in messages.iter().filter(|message| message.role != Role::Tool) {
            for word in words(&message.content) {
                let at = list[from..].find(&word).map(|at| from + at);
                prop_assert!(at.is_some() || list.contains(&word), "{word} is lost: {list}");
                // All words keep their order, except those of system messages, which come first.
                from = at.unwrap_or(from);
            }
        }
        let results = messages.iter().filter(|message| message.role == Role::Tool);
        let results = results.flat_map(|message| match &*message.content {
            [Block::ToolResult { content, .. }] => words(content),
            _ => Vec::new(),
        });
        for word in results {
            prop_assert!(list.matches(&word).count() <= 1, "{word} is there twice: {list}");
        }
        let calls = messages.iter().flat_map(Message::calls).count();
        let marker = if list == &openai { "\"tool_call_id\":" } else { "\"tool_use_id\":" };
        prop_assert_eq!(list.matches(marker).count(), calls);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_cut_gives_a_valid_list(
        said in prop::collection::vec(any_message(), 0..12),
        system in prop::sample::select(vec!["", " ", "be kind"]),
        after in prop::sample::select(vec![vec![], vec![String::new()], vec![" ".to_owned(), "done".to_owned()]]),
    ) {
        let mut count = 0;
        let messages: Vec<_> = said.into_iter().map(|(run, role, mut content)| {
            marked(&mut content, &mut count);
            Message { run: run.map(str::to_owned), ..message(role, content) }
        }).collect();
        for cut in 0..=messages.len() {
            check(system, &messages[cut..], &after)?;
            check(system, &messages[..cut], &after)?;
        }
    }

    #[test]
    fn result_with_its_call_is_shown(order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle()) {
        let calls: Vec<_> = (0..6).map(|number| call(&format!("c{number}"))).collect();
        let mut messages = vec![message("assistant", calls)];
        messages.extend(order.iter().map(|number| result(&format!("c{number}"), &format!("of {number}."))));
        let [openai, _] = lists("", &messages, &[]);
        for number in 0..6 {
            prop_assert_eq!(&openai["messages"][number + 1]["content"], &json!(format!("of {number}.")));
        }
    }
}
