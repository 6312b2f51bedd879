//! Messages of conversations: records of JSON Lines with a `role` and a `content`, read as a person would.

use serde_json::Value;

/// Fields of a message, and of the parts of its content, that nobody searches for.
const OMITTED: [&str; 5] = ["role", "id", "type", "created_at", "name"];

/// Returns a message as text: `role: content`, with the name of the speaker behind the role if it has one.
/// The content consists of the texts and numbers of all fields but ids, types and times. `None` if `record`
/// is no message.
///
/// ```
/// use garth_engine::text::message::readable;
///
/// let record = r#"{"id": "msg-1", "role": "user", "content": "Caf\u00e9?"}"#;
/// assert_eq!(readable(record).as_deref(), Some("user: Café?\n"));
/// assert_eq!(readable(r#"{"name": "x"}"#), None);
/// ```
pub fn readable(record: &str) -> Option<String> {
    // Most records that are no messages need not be parsed.
    if !record.contains("\"role\"") {
        return None;
    }
    let Ok(Value::Object(message)) = serde_json::from_str(record) else { return None };
    let role = message.get("role")?.as_str()?;
    message.get("content")?;
    let mut text = role.to_owned();
    if let Some(name) = message.get("name").and_then(Value::as_str) {
        text.push(' ');
        text.push_str(name);
    }
    text.push_str(": ");
    for (_, value) in message.iter().filter(|(field, _)| is_read(field)) {
        push(value, &mut text);
    }
    Some(text)
}

fn is_read(field: &str) -> bool {
    !OMITTED.contains(&field) && !field.ends_with("_id")
}

/// Adds the texts and numbers of a value, each on a line.
fn push(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => text.push_str(part),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::Array(parts) => return parts.iter().for_each(|part| push(part, text)),
        Value::Object(fields) => {
            // The name of a tool, unlike that of a speaker.
            let read = |field: &str| is_read(field) || field == "name";
            return fields.iter().filter(|(field, _)| read(field)).for_each(|(_, value)| push(value, text));
        }
        Value::Null | Value::Bool(_) => return,
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_without_ids_and_times() {
        let read = |record: &str| readable(record);
        let called = r#"{"id":"m","role":"assistant","created_at":"2026","content":[{"type":"text","text":"I look"},
            {"type":"tool_call","id":"c1","name":"grep","arguments":{"pattern":"Parser","most":7,"all":true}}]}"#;
        assert_eq!(read(called).unwrap(), "assistant: I look\n7\nParser\ngrep\n");
        let named = r#"{"role":"user","name":"Ann","content":"Hi","tool_call_id":"c1"}"#;
        assert_eq!(read(named).unwrap(), "user Ann: Hi\n");
        for none in ["", "{", "[]", r#"{"role":"user"}"#, r#"{"role":1,"content":""}"#, "\"role\" content"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
