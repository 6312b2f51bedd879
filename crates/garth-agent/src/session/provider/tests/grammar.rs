//! Grammar of the lists that providers take. It shares no code with the functions that build the lists.

use serde_json::Value;

type Checked = Result<(), String>;

fn ensure(is_so: bool, message: &Value, why: &str) -> Checked {
    if is_so { Ok(()) } else { Err(format!("{why}: {message}")) }
}

fn is_of(text: &str, longest: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.len() <= longest && text.chars().all(plain)
}

fn has_keys(value: &Value, needed: &[&str], allowed: &[&str]) -> bool {
    let Some(object) = value.as_object() else { return false };
    needed.iter().all(|key| object.contains_key(*key))
        && object.keys().all(|key| needed.contains(&key.as_str()) || allowed.contains(&key.as_str()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_picture(mime: &str) -> bool {
    ["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&mime)
}

/// Chat Completions.
pub(super) fn openai(list: &str) -> Checked {
    let list: Value = serde_json::from_str(list).map_err(|error| error.to_string())?;
    ensure(has_keys(&list, &["messages"], &[]), &list, "keys")?;
    let messages = list["messages"].as_array().ok_or("no messages")?;
    ensure(!messages.is_empty(), &list, "empty list")?;
    let (mut due, mut ids): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for message in messages {
        let role = text(&message["role"]);
        ensure(role == "tool" || due.is_empty(), message, "a result is missing")?;
        match role {
            "system" => {
                ensure(has_keys(message, &["role", "content"], &[]), message, "keys")?;
                ensure(!text(&message["content"]).is_empty(), message, "empty")?;
            }
            "user" => {
                ensure(has_keys(message, &["role", "content"], &[]), message, "keys")?;
                match &message["content"] {
                    Value::String(text) => ensure(!text.is_empty(), message, "empty")?,
                    Value::Array(parts) => {
                        ensure(!parts.is_empty(), message, "empty")?;
                        for part in parts {
                            let url = text(&part["image_url"]["url"]);
                            let is_text = has_keys(part, &["type", "text"], &[])
                                && part["type"] == "text"
                                && !text(&part["text"]).is_empty();
                            let is_image = has_keys(part, &["type", "image_url"], &[])
                                && part["type"] == "image_url"
                                && (url.starts_with("https://") || url.starts_with("data:image/"));
                            ensure(is_text || is_image, part, "part")?;
                        }
                    }
                    _ => return Err(format!("content: {message}")),
                }
            }
            "assistant" => {
                ensure(has_keys(message, &["role"], &["content", "tool_calls"]), message, "keys")?;
                let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
                let content = &message["content"];
                ensure(content.is_null() || !text(content).is_empty(), message, "content")?;
                ensure(!content.is_null() || !calls.is_empty(), message, "says nothing")?;
                ensure(message.get("tool_calls").is_none() || !calls.is_empty(), message, "no calls")?;
                for call in &calls {
                    ensure(has_keys(call, &["id", "type", "function"], &[]), call, "keys")?;
                    let function = &call["function"];
                    ensure(has_keys(function, &["name", "arguments"], &[]), call, "keys")?;
                    ensure(call["type"] == "function" && function["arguments"].is_string(), call, "type")?;
                    ensure(is_of(text(&function["name"]), 64), call, "name")?;
                    let id = text(&call["id"]).to_owned();
                    ensure(is_of(&id, 40) && !ids.contains(&id), call, "id")?;
                    ids.push(id.clone());
                    due.push(id);
                }
            }
            "tool" => {
                ensure(has_keys(message, &["role", "tool_call_id", "content"], &[]), message, "keys")?;
                ensure(!due.is_empty() && due[0] == text(&message["tool_call_id"]), message, "order")?;
                ensure(!text(&message["content"]).is_empty(), message, "empty")?;
                due.remove(0);
            }
            _ => return Err(format!("role: {message}")),
        }
    }
    ensure(due.is_empty(), &list, "a result is missing at the end")
}

fn anthropic_text(block: &Value) -> Checked {
    let is_text = has_keys(block, &["type", "text"], &[]) && !text(&block["text"]).trim().is_empty();
    ensure(is_text, block, "text")
}

fn anthropic_image(block: &Value) -> Checked {
    let source = &block["source"];
    let is_data = has_keys(source, &["type", "media_type", "data"], &[])
        && source["type"] == "base64"
        && is_picture(text(&source["media_type"]))
        && !text(&source["data"]).is_empty();
    let is_url = has_keys(source, &["type", "url"], &[])
        && source["type"] == "url"
        && text(&source["url"]).starts_with("https://");
    ensure(has_keys(block, &["type", "source"], &[]) && (is_data || is_url), block, "image")
}

/// Messages.
pub(super) fn anthropic(list: &str) -> Checked {
    let list: Value = serde_json::from_str(list).map_err(|error| error.to_string())?;
    ensure(has_keys(&list, &["messages"], &["system"]), &list, "keys")?;
    ensure(list.get("system").is_none_or(|system| !text(system).is_empty()), &list, "system")?;
    let messages = list["messages"].as_array().ok_or("no messages")?;
    ensure(!messages.is_empty(), &list, "empty list")?;
    let (mut due, mut ids): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        ensure(has_keys(message, &["role", "content"], &[]), message, "keys")?;
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        ensure(message["role"] == role, message, "roles take turns, the user first")?;
        let blocks = message["content"].as_array().ok_or("content")?;
        ensure(!blocks.is_empty(), message, "empty")?;
        let mut waiting = std::mem::take(&mut due);
        for block in blocks {
            let kind = text(&block["type"]);
            ensure(kind == "tool_result" || waiting.is_empty(), message, "a result is missing")?;
            match (role, kind) {
                (_, "text") => anthropic_text(block)?,
                ("user", "image") => anthropic_image(block)?,
                ("user", "tool_result") => {
                    let keys = ["type", "tool_use_id", "content"];
                    ensure(has_keys(block, &keys, &["is_error"]), block, "keys")?;
                    let is_next = !waiting.is_empty() && waiting[0] == text(&block["tool_use_id"]);
                    ensure(is_next, block, "order")?;
                    waiting.remove(0);
                    let parts = block["content"].as_array().ok_or("result")?;
                    ensure(!parts.is_empty(), block, "empty")?;
                    for part in parts {
                        match text(&part["type"]) {
                            "text" => anthropic_text(part)?,
                            "image" if block["is_error"] != true => anthropic_image(part)?,
                            _ => return Err(format!("in a result: {part}")),
                        }
                    }
                }
                ("assistant", "thinking") => {
                    ensure(has_keys(block, &["type", "thinking", "signature"], &[]), block, "keys")?;
                    ensure(!text(&block["signature"]).is_empty(), block, "signature")?;
                }
                ("assistant", "redacted_thinking") => {
                    ensure(has_keys(block, &["type", "data"], &[]), block, "keys")?;
                    ensure(!text(&block["data"]).is_empty(), block, "data")?;
                }
                ("assistant", "tool_use") => {
                    ensure(has_keys(block, &["type", "id", "name", "input"], &[]), block, "keys")?;
                    ensure(block["input"].is_object() && is_of(text(&block["name"]), 64), block, "call")?;
                    let id = text(&block["id"]).to_owned();
                    ensure(is_of(&id, 64) && !ids.contains(&id), block, "id")?;
                    ids.push(id.clone());
                    due.push(id);
                }
                _ => return Err(format!("block: {block}")),
            }
        }
        ensure(waiting.is_empty(), message, "a result is missing")?;
        let last = &blocks[blocks.len() - 1];
        let is_thought = text(&last["type"]).ends_with("thinking");
        ensure(!is_thought, message, "ends in thought")?;
        if at + 1 == messages.len() && role == "assistant" {
            let is_trimmed = last["type"] != "text" || text(&last["text"]) == text(&last["text"]).trim_end();
            ensure(is_trimmed, message, "ends in whitespace")?;
        }
    }
    ensure(due.is_empty(), &list, "a result is missing at the end")
}
