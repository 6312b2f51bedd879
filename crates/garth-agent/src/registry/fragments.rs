//! Instruction fragments: the schema of a line. A file is checked as a unit, because no two lines may have
//! the same `id`.

/// Limit on the bytes of a file of fragments.
pub const MAX_FRAGMENTS: u64 = 1 << 20;

/// Field whose values differ among the lines of a file.
pub const UNIQUE: &str = "id";

/// Schema of a line, as JSON.
pub const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "An instruction fragment",
  "type": "object",
  "additionalProperties": false,
  "required": ["id", "type", "text"],
  "properties": {
    "id": {"type": "string", "minLength": 1, "maxBytes": 128},
    "type": {"enum": ["persona", "instruction", "guardrail", "term", "example", "workflow"]},
    "text": {"type": "string", "maxBytes": 8192},
    "tags": {
      "type": "array",
      "maxItems": 64,
      "items": {"type": "string", "minLength": 1, "maxBytes": 128}
    },
    "created_at": {"type": "string", "format": "date-time"}
  }
}"#;

#[cfg(test)]
mod tests {
    use super::*;
    use garth_engine::rule::lines::{Lines, Place};
    use garth_engine::rule::schema::{Budget, MAX_STEPS, Schema};

    /// Returns the violation of a file of fragments; an empty string if there is none.
    fn wrong(text: &str) -> String {
        let mut budget = Budget::new(MAX_STEPS);
        let schema = Schema::compile(SCHEMA).expect("the schema of fragments is one");
        let mut lines = Lines::new(Place::START, Some(&schema), Some(UNIQUE));
        let judged = lines.feed(text.as_bytes(), &mut budget).and_then(|()| lines.finish(&mut budget));
        judged.err().map(|wrong| wrong.to_string()).unwrap_or_default()
    }

    /// Returns a fragment with another field, or another value of a field.
    fn with(field: &str, value: impl Into<serde_json::Value>) -> String {
        let mut fragment = serde_json::json!({"id": "a", "type": "term", "text": "b"});
        fragment[field] = value.into();
        fragment.to_string()
    }

    #[test]
    fn accepts_fragments_up_to_their_limits() {
        let types = ["persona", "instruction", "guardrail", "term", "example", "workflow"];
        for good in types.map(|name| with("type", name)).into_iter().chain([
            with("id", "é".repeat(64)),
            with("text", ""),
            with("text", "é".repeat(4096)),
            with("tags", Vec::<String>::new()),
            with("tags", vec!["t".repeat(128); 64]),
            with("created_at", "2026-01-27T09:30:00.123+01:00"),
        ]) {
            assert_eq!(wrong(&good), "", "{good}");
        }
        assert_eq!(wrong(""), "");
        assert_eq!(wrong(&format!("\n{}\r\n \t\n{}\n", with("id", "b"), with("id", "c"))), "");
    }

    #[test]
    fn rejects_fragments_over_limits_with_line() {
        for (bad, said) in [
            (with("id", ""), "/id: has 0 characters"),
            (with("id", "é".repeat(64) + "a"), "/id: has 129 bytes, and may have 128 at most"),
            (with("id", 1), "/id: is an integer, and has to be string"),
            (with("type", "perzona"), "/type: \"perzona\" is not one of \"persona\", \"instruction\""),
            (with("type", serde_json::Value::Null), "/type: null is not one of"),
            (with("text", "é".repeat(4096) + "a"), "/text: has 8193 bytes, and may have 8192 at most"),
            (with("tags", "a"), "/tags: is a string, and has to be array"),
            (with("tags", vec!["t"; 65]), "/tags: has 65 items, and may have 64 at most"),
            (with("tags", vec!["a", ""]), "/tags/1: has 0 characters"),
            (with("tags", vec!["t".repeat(129)]), "/tags/0: has 129 bytes, and may have 128 at most"),
            (with("created_at", "yesterday"), "/created_at: \"yesterday\" is no date-time"),
            (with("created_at", 1), "/created_at: is an integer, and has to be string"),
            (with("tag", "a"), "/tag: is not allowed"),
            ("{}".to_owned(), "\"id\" is missing"),
            (r#"{"id":"a","text":"b"}"#.to_owned(), "\"type\" is missing"),
            (r#"{"id":"a","type":"term"}"#.to_owned(), "\"text\" is missing"),
            ("[]".to_owned(), "is an array, and has to be object"),
        ] {
            let said = format!("line 2: {said}");
            let got = wrong(&format!("{}\n{bad}\n", with("id", "first")));
            assert!(got.starts_with(&said), "{got}");
        }
        let twice = format!("{}\n\n{}", with("id", "x"), with("id", "x"));
        assert_eq!(wrong(&twice), "line 3: /id: \"x\" is in line 1, too");
    }
}
