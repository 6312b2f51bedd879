//! Projection of the derived files of sessions: the other sessions from which their entries were derived.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use garth_engine::model::Projection;
use garth_engine::rule::projection::{ContentProjection, Keys};

/// Other sessions that the entries of a derived file name as their sources.
pub const DERIVED_FROM: Projection = Projection::new(9);

/// Returns the key of the derived files with an entry that names a session.
pub fn derived_from_key(session: &str) -> String {
    format!("from\0{session}")
}

/// Returns the projections of derived files.
pub(super) fn all() -> Vec<ContentProjection> {
    let is_derived = |name: &str| matches!(name, "facts.jsonl" | "decisions.jsonl" | "refs.jsonl");
    let files = [
        "/users/*/agents/*/session/*/context/facts.jsonl",
        "/users/*/agents/*/session/*/context/decisions.jsonl",
        "/users/*/agents/*/session/*/context/refs.jsonl",
    ];
    vec![ContentProjection::new(DERIVED_FROM, &files, is_derived, Keys::OfFile(derived_from))]
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    source: Value,
    resolved: Value,
    path: Value,
}

/// Returns a key for each session that a line names: in `source`, `resolved`, and the `path` of a reference.
/// A file in the directory of a session names the session as well.
fn derived_from(file: &[u8]) -> Vec<String> {
    let mut sessions = BTreeSet::new();
    for line in file.split(|byte| *byte == b'\n') {
        let Ok(fields) = serde_json::from_slice::<Fields>(line) else { continue };
        for field in [&fields.source, &fields.resolved, &fields.path] {
            match field {
                Value::String(source) => sessions.extend(session_of(source).map(str::to_owned)),
                Value::Array(sources) => {
                    let named = sources.iter().filter_map(Value::as_str).filter_map(session_of);
                    sessions.extend(named.map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    sessions.iter().map(|session| derived_from_key(session)).collect()
}

/// Returns the session that a source names.
fn session_of(source: &str) -> Option<&str> {
    match source.split_once('#') {
        Some((session, _)) if !session.contains('/') => Some(session),
        _ => source.split_once("/session/")?.1.split('/').next(),
    }
    .filter(|session| !session.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_files_have_keys_of_other_sessions() {
        let file = concat!(
            r#"{"id":"a","text":"a","source":"x1#messages:1-3"}"#,
            "\n",
            r#"{"id":"b","text":"a","source":["messages:1","x2#tail:1"],"resolved":"x2#messages:9-9"}"#,
            "\nno JSON\n\n",
            r#"{"id":"c","path":"/ctx/home/ann/agent/a/session/x3/messages.jsonl","kind":"f","summary":"s"}"#,
            "\n",
            r#"{"id":"d","path":"x4#messages:2","kind":"f","summary":"s"}"#,
            "\n",
            r#"{"id":"e","path":"/notes/a#b.md","kind":"f","summary":"s","source":"swap:sha256-1"}"#,
        );
        let due = ["x1", "x2", "x3", "x4"].map(derived_from_key);
        assert_eq!(derived_from(file.as_bytes()), due);
        assert!(derived_from(b"\xff\n[]\n{}").is_empty());
    }
}
