//! Lists for the Chat Completions API of `OpenAI`, and compatible ones.

use std::fmt::Write as _;

use super::parts::{Arguments, Call, Part, Source, StepPart, Turn};
use super::turns::{EARLIER, string};

pub(super) fn list(turns: Vec<Turn>) -> String {
    let mut messages: Vec<String> = Vec::new();
    for turn in turns {
        match turn {
            Turn::System(text) => {
                messages.push(format!(r#"{{"role":"system","content":{}}}"#, string(&text)));
            }
            Turn::User(parts) => messages.push(format!(r#"{{"role":"user","content":{}}}"#, content(&parts))),
            Turn::Step(said) => step(said, &mut messages),
        }
    }
    // The API refuses an empty list.
    if messages.is_empty() {
        messages.push(format!(r#"{{"role":"user","content":{}}}"#, string(EARLIER)));
    }
    format!(r#"{{"messages":[{}]}}"#, messages.join(","))
}

fn content(parts: &[Part]) -> String {
    if let [Part::Text(text)] = parts {
        return string(text);
    }
    let part = |part: &Part| match part {
        Part::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, string(text)),
        Part::Image(image) => {
            let url = match &image.source {
                Source::Url(url) => url.clone(),
                _ => format!("data:{};base64,{}", image.mime_type, image.base64()),
            };
            format!(r#"{{"type":"image_url","image_url":{{"url":{}}}}}"#, string(&url))
        }
    };
    format!("[{}]", parts.iter().map(part).collect::<Vec<_>>().join(","))
}

fn step(said: Vec<StepPart>, messages: &mut Vec<String>) {
    let (mut texts, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for said in said {
        match said {
            StepPart::Text(text) => texts.push(text),
            // Chat Completions has no field for thoughts.
            StepPart::Thought { .. } | StepPart::Redacted(_) => {}
            StepPart::Call(call) => {
                calls.push(call_of(&call));
                results.push(result(&call));
            }
        }
    }
    let mut message = String::from(r#"{"role":"assistant""#);
    if !texts.is_empty() {
        let _ = write!(message, r#","content":{}"#, string(&texts.join("\n\n")));
    }
    if !calls.is_empty() {
        let _ = write!(message, r#","tool_calls":[{}]"#, calls.join(","));
    }
    messages.push(message + "}");
    messages.extend(results);
}

fn call_of(call: &Call) -> String {
    let arguments = match &call.arguments {
        Arguments::Object(object) => object.get(),
        Arguments::Text(text) => text,
    };
    format!(
        r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}}"#,
        string(&call.id),
        string(&call.name),
        string(arguments)
    )
}

fn result(call: &Call) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(image) => image.label(),
    };
    let text = call.result.iter().map(part).collect::<Vec<_>>().join("\n\n");
    let text = if call.error { format!("[error] {text}") } else { text };
    format!(r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#, string(&call.id), string(&text))
}
