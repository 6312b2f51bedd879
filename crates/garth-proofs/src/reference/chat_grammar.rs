//! Grammar of the message lists that providers accept, written from their documentation alone.

use std::collections::HashSet;

use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::Value;

fn parsed(list: &str) -> Proven<Value> {
    serde_json::from_str(list).map_err(|error| Broken::because(format!("no JSON: {error}")))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn is_name(name: &str, most: usize) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=most).contains(&name.len()) && name.bytes().all(is_part)
}

/// Checks a list for Chat Completions: the results of a message's calls follow it before any other message.
pub(crate) fn openai(list: &str) -> Proven<()> {
    let list = parsed(list)?;
    let (mut due, mut seen): (Vec<String>, HashSet<String>) = (Vec::new(), HashSet::new());
    for message in array(&list["messages"]) {
        let role = text(message, "role");
        if role == "tool" {
            let id = text(message, "tool_call_id");
            let at = due.iter().position(|open| open == id);
            due.remove(at.ok_or_else(|| Broken::because(format!("a result of {id} without a call")))?);
            continue;
        }
        hold(due.is_empty(), || format!("{role} before the results of {due:?}"))?;
        hold(["system", "user", "assistant"].contains(&role), || format!("role {role}"))?;
        let calls = array(&message["tool_calls"]);
        let content = &message["content"];
        let is_empty = content.is_null() || content.as_array().is_some_and(Vec::is_empty);
        hold(!(is_empty && calls.is_empty()), || format!("{message} has no content"))?;
        for call in calls {
            let (id, function) = (text(call, "id"), &call["function"]);
            hold(is_name(id, 40) && seen.insert(id.to_owned()), || format!("the id {id}"))?;
            hold(is_name(text(function, "name"), 64), || format!("the name of {call}"))?;
            hold(function["arguments"].is_string(), || format!("arguments of {call}"))?;
            due.push(id.to_owned());
        }
    }
    hold(due.is_empty(), || format!("no results of {due:?}"))
}

/// Checks a list for Messages: roles alternate, the user first, and results come first in the message after
/// their calls.
pub(crate) fn anthropic(list: &str) -> Proven<()> {
    let list = parsed(list)?;
    let (mut due, mut seen): (HashSet<String>, HashSet<String>) = (HashSet::new(), HashSet::new());
    for (number, message) in array(&list["messages"]).iter().enumerate() {
        let role = text(message, "role");
        let turn = if number % 2 == 0 { "user" } else { "assistant" };
        hold(role == turn, || format!("message {number} is of {role}"))?;
        let blocks = match &message["content"] {
            Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
            other => array(other).to_vec(),
        };
        hold(!blocks.is_empty(), || format!("message {number} is empty"))?;
        let (mut results, mut others) = (HashSet::new(), false);
        for block in &blocks {
            match text(block, "type") {
                "text" => {
                    others = true;
                    hold(!text(block, "text").trim().is_empty(), || format!("an empty text in {number}"))?;
                }
                "tool_use" => {
                    let id = text(block, "id");
                    hold(role == "assistant" && block["input"].is_object(), || format!("{block}"))?;
                    hold(is_name(id, 64) && seen.insert(id.to_owned()), || format!("the id {id}"))?;
                    hold(is_name(text(block, "name"), 128), || format!("the name of {block}"))?;
                }
                "tool_result" => {
                    hold(role == "user" && !others, || {
                        format!("a result after other blocks in message {number}")
                    })?;
                    results.insert(text(block, "tool_use_id").to_owned());
                }
                "thinking" | "redacted_thinking" => {
                    hold(role == "assistant", || format!("{role} thinks"))?;
                }
                "image" => others = true,
                kind => return Err(Broken::because(format!("a block {kind}"))),
            }
        }
        hold(results == due, || format!("results {results:?} of calls {due:?} in {number}"))?;
        let uses = blocks.iter().filter(|block| text(block, "type") == "tool_use");
        due = uses.map(|block| text(block, "id").to_owned()).collect();
    }
    hold(due.is_empty(), || format!("no results of {due:?}"))
}
