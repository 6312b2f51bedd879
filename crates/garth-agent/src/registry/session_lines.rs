//! Schemas of the lines of a session's files: messages, events, and native lines of an SDK. They reject
//! unknown fields. `docs/specs/sessions.md` describes them.

/// Pattern of session directories.
pub const SESSIONS: &str = "/users/*/agents/*/session/*";

/// Pattern of files of messages.
pub const MESSAGES: &str = "/users/*/agents/*/session/*/messages.jsonl";
/// Pattern of files of events.
pub const EVENTS: &str = "/users/*/agents/*/session/*/events.jsonl";
/// Pattern of files of messages in the native form of an SDK.
pub const NATIVE: &str = "/users/*/agents/*/session/*/native/*.jsonl";

/// Pattern of files of session metadata.
pub const META: &str = "/users/*/agents/*/session/*/meta.json";
/// Fields of metadata that decide a session's owner, audience and relations, and whether it accepts messages.
pub const DECIDING: [&str; 12] = [
    "id",
    "class",
    "agent",
    "user",
    "session_key",
    NAMED,
    "parent",
    "previous",
    "next",
    "archive",
    "finished_at",
    COLLECTED,
];

/// Field of `meta.json` of a session whose messages were collected: `archive` or `delete`. Such a session
/// accepts no further messages.
pub const COLLECTED: &str = "history_collected";

/// Field of `meta.json`: `true` for a session that cannot be found by its key alone, because the request that
/// created it also named a user or a class.
pub const NAMED: &str = "named";

/// Schema of a line of messages, as JSON.
pub const MESSAGE: &str = r##"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "A message of a session",
  "type": "object",
  "additionalProperties": false,
  "required": ["id", "role", "created_at", "content"],
  "properties": {
    "id": {"$ref": "#/$defs/id"},
    "role": {"enum": ["system", "user", "assistant", "tool"]},
    "created_at": {"type": "string", "format": "date-time"},
    "parent": {"$ref": "#/$defs/id"},
    "run": {"$ref": "#/$defs/label"},
    "from": {"$ref": "#/$defs/label"},
    "native": {
      "type": "object",
      "additionalProperties": false,
      "required": ["format", "line"],
      "properties": {
        "format": {"type": "string", "maxBytes": 64, "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "line": {"type": "integer", "minimum": 1}
      }
    },
    "content": {}
  },
  "allOf": [
    {
      "if": {"required": ["role"], "properties": {"role": {"enum": ["system", "user"]}}},
      "then": {"properties": {"content": {
        "if": {"type": "string"},
        "else": {"type": "array", "items": {"$ref": "#/$defs/part"}}
      }}}
    },
    {
      "if": {"required": ["role"], "properties": {"role": {"const": "assistant"}}},
      "then": {"properties": {"content": {
        "if": {"type": "string"},
        "else": {"type": "array", "items": {"$ref": "#/$defs/step"}}
      }}}
    },
    {
      "if": {"required": ["role"], "properties": {"role": {"const": "tool"}}},
      "then": {"properties": {"content": {
        "type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/$defs/result"}
      }}}
    }
  ],
  "$defs": {
    "id": {"type": "string", "maxBytes": 128, "pattern": "^msg-[A-Za-z0-9._-]+$"},
    "label": {"type": "string", "minLength": 1, "maxBytes": 128},
    "call": {"type": "string", "minLength": 1, "maxBytes": 256},
    "text": {
      "type": "object",
      "additionalProperties": false,
      "required": ["text"],
      "properties": {"type": {"const": "text"}, "text": {"type": "string"}}
    },
    "image": {
      "type": "object",
      "additionalProperties": false,
      "required": ["mime_type"],
      "minProperties": 3,
      "maxProperties": 3,
      "properties": {
        "type": {"const": "image"},
        "mime_type": {"type": "string", "minLength": 1, "maxBytes": 128},
        "data": {"type": "string"},
        "url": {"type": "string", "minLength": 1, "maxBytes": 8192},
        "path": {"type": "string", "minLength": 1, "maxBytes": 4096}
      }
    },
    "reasoning": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "type": {"const": "reasoning"},
        "text": {"type": "string"},
        "signature": {"type": "string"},
        "redacted": {"type": "string"}
      }
    },
    "tool_call": {
      "type": "object",
      "additionalProperties": false,
      "required": ["id", "name", "arguments"],
      "properties": {
        "type": {"const": "tool_call"},
        "id": {"$ref": "#/$defs/call"},
        "name": {"type": "string", "minLength": 1, "maxBytes": 256},
        "arguments": {"type": ["object", "string"]}
      }
    },
    "result": {
      "type": "object",
      "additionalProperties": false,
      "required": ["type", "call_id", "content"],
      "properties": {
        "type": {"const": "tool_result"},
        "call_id": {"$ref": "#/$defs/call"},
        "name": {"type": "string", "minLength": 1, "maxBytes": 256},
        "error": {"type": "boolean"},
        "content": {
          "if": {"type": "string"},
          "else": {"type": "array", "items": {"$ref": "#/$defs/part"}}
        }
      }
    },
    "part": {
      "type": "object",
      "required": ["type"],
      "properties": {"type": {"enum": ["text", "image"]}},
      "if": {"properties": {"type": {"const": "text"}}},
      "then": {"$ref": "#/$defs/text"},
      "else": {"$ref": "#/$defs/image"}
    },
    "step": {
      "type": "object",
      "required": ["type"],
      "properties": {"type": {"enum": ["text", "image", "reasoning", "tool_call"]}},
      "allOf": [
        {"if": {"properties": {"type": {"const": "text"}}}, "then": {"$ref": "#/$defs/text"}},
        {"if": {"properties": {"type": {"const": "image"}}}, "then": {"$ref": "#/$defs/image"}},
        {"if": {"properties": {"type": {"const": "reasoning"}}}, "then": {"$ref": "#/$defs/reasoning"}},
        {"if": {"properties": {"type": {"const": "tool_call"}}}, "then": {"$ref": "#/$defs/tool_call"}}
      ]
    }
  }
}"##;

/// Schema of a line of events, as JSON. The type of an event decides on its other fields.
pub const EVENT: &str = r##"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "An event of a session",
  "type": "object",
  "required": ["id", "run", "type", "created_at"],
  "properties": {
    "id": {"type": "string", "maxBytes": 128, "pattern": "^ev-[A-Za-z0-9._-]+$"},
    "run": {"type": "string", "minLength": 1, "maxBytes": 128},
    "type": {"type": "string", "maxBytes": 128, "pattern": "^[a-z0-9][a-z0-9._-]*$"},
    "created_at": {"type": "string", "format": "date-time"}
  },
  "if": {"required": ["type"], "properties": {"type": {"const": "message.withdrawn"}}},
  "then": {
    "required": ["source"],
    "properties": {"source": {"type": "string", "pattern": "^messages:[1-9][0-9]{0,14}-[1-9][0-9]{0,14}$"}}
  }
}"##;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use garth_engine::rule::schema::{Budget, MAX_STEPS, Schema};

    /// Returns the violation of a line; an empty string if there is none.
    fn wrong(schema: &str, line: &Value) -> String {
        let schema = Schema::compile(schema).unwrap();
        let judged = schema.check_text(line.to_string().as_bytes(), &mut Budget::new(MAX_STEPS));
        judged.err().map(|wrong| wrong.to_string()).unwrap_or_default()
    }

    fn message(role: &str, content: impl Into<Value>) -> Value {
        let content = content.into();
        json!({"id": "msg-1", "role": role, "created_at": "2026-01-27T09:30:00Z", "content": content})
    }

    fn with(mut line: Value, field: &str, value: impl Into<Value>) -> Value {
        line[field] = value.into();
        line
    }

    #[test]
    fn message_schema_checks_blocks_by_role() {
        let text = json!({"type": "text", "text": ""});
        let image = json!({"type": "image", "mime_type": "image/png", "data": "aGk="});
        let call = json!({"type": "tool_call", "id": "c", "name": "bash", "arguments": {"command": "ls"}});
        let unread = with(call.clone(), "arguments", json!("{\"command\": "));
        let thought = json!({"type": "reasoning", "text": "so", "signature": "x"});
        let result = json!({"type": "tool_result", "call_id": "c", "content": [text, image]});
        for good in [
            message("system", json!("be kind")),
            message("user", json!("")),
            message("user", json!([text, image])),
            message("assistant", json!([])),
            message("assistant", json!([thought, text, call, unread])),
            message("tool", json!([result])),
            message("tool", json!([with(result.clone(), "error", json!(true))])),
            with(message("user", json!("a")), "native", json!({"format": "openai", "line": 1})),
            with(with(message("user", json!("a")), "run", json!("r")), "parent", json!("msg-0")),
        ] {
            assert_eq!(wrong(MESSAGE, &good), "", "{good}");
        }
        for (bad, said) in [
            (message("developer", json!("a")), "/role"),
            (message("user", json!(7)), "/content"),
            (message("user", json!([call])), "/content/0/type"),
            (message("tool", json!("a")), "/content"),
            (message("tool", json!([result, result])), "/content"),
            (message("assistant", json!([result])), "/content/0/type"),
            (message("assistant", json!([{"type": "tool_use", "id": "c"}])), "/content/0/type"),
            (message("assistant", json!([with(text.clone(), "cache_control", json!({}))])), "cache_control"),
            (message("user", json!([{"type": "image", "mime_type": "image/png"}])), "/content/0"),
            (with(message("user", json!("a")), "tool_calls", json!([])), "/tool_calls"),
            (with(message("user", json!("a")), "id", json!("1")), "/id"),
            (
                with(message("user", json!("a")), "native", json!({"format": "A", "line": 1})),
                "/native/format",
            ),
            (json!({"id": "msg-1", "role": "user", "created_at": "2026-01-27T09:30:00Z"}), "content"),
            (json!([]), "has to be object"),
        ] {
            assert!(wrong(MESSAGE, &bad).contains(said), "{bad}: {}", wrong(MESSAGE, &bad));
        }
    }

    #[test]
    fn event_schema_requires_id_run_and_type() {
        let event = json!({
            "id": "ev-1", "run": "r", "type": "tool.call", "created_at": "2026-01-27T09:30:00Z", "input": {"a": 1},
        });
        let retracted = with(event.clone(), "type", json!("message.withdrawn"));
        let whole = with(retracted.clone(), "source", json!("messages:3-5"));
        assert_eq!(wrong(EVENT, &event) + &wrong(EVENT, &whole), "");
        for (bad, said) in [
            (retracted, "source"),
            (with(whole, "source", json!("messages:0-5")), "/source"),
            (with(event.clone(), "id", json!("1")), "/id"),
            (with(event.clone(), "run", json!("")), "/run"),
            (with(event, "type", json!("Tool")), "/type"),
        ] {
            assert!(wrong(EVENT, &bad).contains(said), "{bad}: {}", wrong(EVENT, &bad));
        }
    }
}
