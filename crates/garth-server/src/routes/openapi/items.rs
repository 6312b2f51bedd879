//! Objects in arrays of requests. Messages and events of a session are described with their fields. All
//! others are described as open: their fields depend on the call.

use serde_json::{Map, Value, json};

/// Returns the schema of the objects that an array takes; `of` is the content that its field declares.
pub(super) fn object(of: &str) -> Value {
    match of {
        "messages" => reference("SessionMessage"),
        "events" => reference("SessionEvent"),
        _ => json!({"type": "object", "additionalProperties": true}),
    }
}

/// Returns the schemas with names. A generator of clients makes a type of each, with this name.
pub(super) fn schemas() -> Map<String, Value> {
    let named = [
        ("SessionMessage", message()),
        ("SessionEvent", event()),
        ("MessageBlock", block()),
        ("MessagePart", part(&["text", "image"])),
    ];
    named.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns the schema of a message as a client sends it: as it is stored, but garth sets the id and the time.
fn message() -> Value {
    let native = json!({
        "type": "object", "additionalProperties": false, "required": ["format", "line"],
        "description": "Native form of the message: a line of `native/{format}.jsonl`.",
        "properties": {
            "format": {"type": "string"}, "line": {"type": "integer", "format": "int64", "minimum": 1},
        },
    });
    json!({
        "type": "object",
        "description": "Message of a session.",
        "additionalProperties": false,
        "required": ["role", "content"],
        "properties": {
            "id": id("msg", "Id. Default: generated."),
            "role": {
                "type": "string", "enum": ["system", "user", "assistant", "tool"],
                "description": "Role of the author.",
            },
            "from": label("User who speaks, in a session with several speakers."),
            "run": label("Run that the message belongs to. Default: `run` of the call."),
            "parent": id("msg", "Id of the message that it follows. Default: none."),
            "created_at": time(),
            "native": native,
            "content": {
                "type": ["string", "array"],
                "items": reference("MessageBlock"),
                "description": "Text, or blocks: `text` and `image`; of an assistant also `reasoning` and \
                                `tool_call`; of a tool one `tool_result`.",
            },
        },
    })
}

/// Returns the schema of an event as a client sends it. Its type decides on its further fields.
fn event() -> Value {
    json!({
        "type": "object",
        "description": "Event of a session.",
        "additionalProperties": true,
        "required": ["type"],
        "properties": {
            "id": id("ev", "Id. Default: generated."),
            "type": {
                "type": "string", "maxLength": 128, "pattern": "^[a-z0-9][a-z0-9._-]*$",
                "description": "Type, which decides on the further fields.",
            },
            "run": label("Run that the event belongs to; required here or as `run` of the call."),
            "created_at": time(),
        },
    })
}

/// Returns the schema of a block: it has the fields of all types.
fn block() -> Value {
    let mut block = part(&["text", "image", "reasoning", "tool_call", "tool_result"]);
    let further = json!({
        "signature": text("Signature of the provider, of `reasoning`."),
        "redacted": text("Encrypted text, of `reasoning`."),
        "id": text("Id of a `tool_call`."),
        "name": text("Name of the tool, of `tool_call` and `tool_result`."),
        "arguments": {
            "type": ["object", "string"], "additionalProperties": true,
            "description": "Arguments of a `tool_call`, or the text of the model if it is not an object.",
        },
        "call_id": text("Id of the call of a `tool_result`."),
        "error": {"type": "boolean", "description": "True if the tool failed, of `tool_result`."},
        "content": {
            "type": ["string", "array"], "items": reference("MessagePart"),
            "description": "Content of a `tool_result`: text, or blocks.",
        },
    });
    if let (Some(all), Value::Object(further)) = (block["properties"].as_object_mut(), further) {
        all.extend(further);
    }
    block
}

/// Returns the schema of a block of text or of an image, with the types that it may have.
fn part(types: &[&str]) -> Value {
    json!({
        "type": "object",
        "description": "Part of the content of a message.",
        "additionalProperties": false,
        "required": ["type"],
        "properties": {
            "type": {
                "type": "string", "enum": types,
                "description": "Type, which decides on the further fields.",
            },
            "text": text("Text."),
            "mime_type": text("MIME type of an image, which has one of `data`, `url` and `path`."),
            "data": text("Image in base64."),
            "url": text("URL of an image."),
            "path": text("Path of an image in the tree."),
        },
    })
}

fn text(meaning: &str) -> Value {
    json!({"type": "string", "description": meaning})
}

fn label(meaning: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 128, "description": meaning})
}

fn id(kind: &str, meaning: &str) -> Value {
    json!({"type": "string", "pattern": format!("^{kind}-[A-Za-z0-9._-]{{1,124}}$"), "description": meaning})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time", "description": "Time. Default: now."})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use garth_agent::registry::session_lines::{EVENT, MESSAGE};

    use super::*;

    fn names(schema: &Value) -> BTreeSet<&str> {
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn messages_and_events_have_the_fields_that_are_stored() {
        for (described, stored) in [(message(), MESSAGE), (event(), EVENT)] {
            let stored: Value = serde_json::from_str(stored).unwrap();
            assert_eq!(names(&described), names(&stored));
            assert_eq!(described["properties"]["role"]["enum"], stored["properties"]["role"]["enum"]);
        }
    }

    #[test]
    fn blocks_have_the_fields_of_every_type() {
        let stored: Value = serde_json::from_str(MESSAGE).unwrap();
        let named = |types: &[&str]| {
            types.iter().flat_map(|name| names(&stored["$defs"][*name])).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&part(&[])), named(&["text", "image"]));
        assert_eq!(names(&block()), named(&["text", "image", "reasoning", "tool_call", "result"]));
    }
}
