//! Projections of memories: their status, the targets of their relations, and their events.
//! `docs/specs/projections.md` lists the keys.

use jiff::Timestamp;
use serde_json::{Map, Value};

use garth_engine::model::Projection;
use garth_engine::rule::projection::{ContentProjection, Keys};

/// Status of a memory, from its `.meta.json`.
pub const MEMORY_STATUS: Projection = Projection::new(3);
/// Target URI of each relation of a memory, from its `.relations.json`.
pub const RELATION_TARGET: Projection = Projection::new(4);
/// Due time of an event in `.outbox`: `waiting` or `failed`, NUL, milliseconds since 1970 with 15 digits.
pub const EVENT_DUE: Projection = Projection::new(5);
/// URI of each memory that an event in `.outbox` is about.
pub const EVENT_MEMORY: Projection = Projection::new(6);

/// Directories of memories.
pub(in crate::registry) const MEMORIES: [&str; 5] = [
    "/users/*/memories/*",
    "/users/*/memories/*/*",
    "/agents/*/memories/*",
    "/agents/*/memories/*/*",
    "/agents/*/skills/*",
];

/// Returns the projections of the files of memories.
pub(super) fn all() -> Vec<ContentProjection> {
    // Leaked because patterns are static. This runs once for each process.
    let of_memories = |below: &str| MEMORIES.map(|dir| &*format!("{dir}/{below}").leak());
    let events: Vec<&'static str> = [of_memories(".outbox/*.json"), of_memories(".outbox/dlq/*.json")]
        .into_iter()
        .flatten()
        .chain(["/.outbox/*.json", "/.outbox/dlq/*.json"])
        .collect();
    let is_meta = |name: &str| name == ".meta.json";
    let is_relations = |name: &str| name == ".relations.json";
    let is_json = |name: &str| name.ends_with(".json");
    vec![
        ContentProjection::new(MEMORY_STATUS, &of_memories(".meta.json"), is_meta, Keys::OfFile(status)),
        ContentProjection::new(
            RELATION_TARGET,
            &of_memories(".relations.json"),
            is_relations,
            Keys::OfFile(targets),
        ),
        ContentProjection::new(EVENT_DUE, &events, is_json, Keys::OfFile(due)),
        ContentProjection::new(EVENT_MEMORY, &events, is_json, Keys::OfFile(memories)),
    ]
}

fn object(text: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(text).ok()
}

fn text(object: &Map<String, Value>, field: &str) -> Option<String> {
    Some(object.get(field)?.as_str()?.to_owned())
}

/// Returns the `status` of a `.meta.json`.
fn status(meta: &[u8]) -> Vec<String> {
    object(meta).and_then(|meta| text(&meta, "status")).into_iter().collect()
}

/// Returns the target URIs of the edges of a `.relations.json`.
fn targets(relations: &[u8]) -> Vec<String> {
    let edges: Vec<Value> = serde_json::from_slice(relations).unwrap_or_default();
    edges.iter().filter_map(|edge| text(edge.as_object()?, "to_uri")).collect()
}

/// Returns the due time of an event, in milliseconds since 1970 with 15 digits: `waiting`, NUL and the end of
/// its lease, its next attempt, or its creation time. For an event that failed for good: `failed`, NUL and
/// its creation time. An unreadable event is due at once.
fn due(event: &[u8]) -> Vec<String> {
    let event = object(event).unwrap_or_default();
    let status = text(&event, "status").unwrap_or_default();
    let (state, fields): (_, &[&str]) = match status.as_str() {
        "FAILED" => ("failed", &["created_at"]),
        "PROCESSING" => ("waiting", &["lease_until"]),
        _ => ("waiting", &["next_attempt_at", "created_at"]),
    };
    let moment = fields.iter().find_map(|field| text(&event, field)?.parse::<Timestamp>().ok());
    // Fifteen digits, so that keys sort by time as text.
    let millis = moment.map_or(0, Timestamp::as_millisecond).max(0);
    vec![format!("{state}\0{millis:015}")]
}

/// Returns the URIs of the memories that an event is about: its own, and the new one of a move.
fn memories(event: &[u8]) -> Vec<String> {
    let event = object(event).unwrap_or_default();
    let moved = event.get("payload").and_then(|payload| text(payload.as_object()?, "new_uri"));
    text(&event, "uri").into_iter().chain(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use garth_engine::TreePath;

    #[test]
    fn memory_projections_cover_memory_files_only() {
        let all = all();
        let is_of = |path: &str| {
            let path = TreePath::parse(path).unwrap();
            all.iter().filter(|one| one.has(&path)).map(ContentProjection::projection).collect::<Vec<_>>()
        };
        for memory in [
            "/users/a/memories/profile",
            "/users/a/memories/events/x",
            "/agents/a/memories/cases/x",
            "/agents/a/skills/s",
        ] {
            assert_eq!(is_of(&format!("{memory}/.meta.json")), [MEMORY_STATUS], "{memory}");
            assert_eq!(is_of(&format!("{memory}/.relations.json")), [RELATION_TARGET], "{memory}");
            let event = [EVENT_DUE, EVENT_MEMORY];
            assert_eq!(is_of(&format!("{memory}/.outbox/e.json")), event, "{memory}");
            assert_eq!(is_of(&format!("{memory}/.outbox/dlq/e.json")), event, "{memory}");
            assert!(is_of(&format!("{memory}/.outbox/.done")).is_empty());
        }
        assert_eq!(is_of("/.outbox/e.json"), [EVENT_DUE, EVENT_MEMORY]);
        for other in ["/users/a/memories/.meta.json", "/users/a/.meta.json", "/chats/a/.meta.json", "/x.json"]
        {
            assert!(is_of(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn due_key_follows_lease_attempt_or_creation() {
        let key = |event: &str| due(event.as_bytes()).remove(0);
        let made = r#""created_at":"2025-03-17T10:00:00Z""#;
        assert_eq!(key(&format!("{{{made}}}")), "waiting\u{0}001742205600000");
        let next = r#""next_attempt_at":"1970-01-01T00:00:01.5Z""#;
        assert_eq!(key(&format!(r#"{{"status":"PENDING",{next},{made}}}"#)), "waiting\u{0}000000000001500");
        let lease = r#""status":"PROCESSING","lease_until":"1970-01-01T00:00:02Z""#;
        assert_eq!(key(&format!("{{{lease},{next},{made}}}")), "waiting\u{0}000000000002000");
        assert_eq!(key(&format!(r#"{{"status":"FAILED",{next},{made}}}"#)), "failed\u{0}001742205600000");
        for bad in ["", "[]", "{}", r#"{"created_at":"soon"}"#, "\u{0}"] {
            assert_eq!(key(bad), "waiting\u{0}000000000000000", "{bad}");
        }
    }

    #[test]
    fn malformed_files_have_no_keys() {
        assert_eq!(status(br#"{"status":"ACTIVE"}"#), ["ACTIVE"]);
        let bad: [&[u8]; 4] = [b"", b"[1]", br#"{"status":1}"#, b"\xff"];
        for bad in bad {
            assert!(status(bad).is_empty() && targets(bad).is_empty());
        }
        let edges = br#"[{"to_uri":"ctx://a/b"},{"to_uri":1},7,{"to_uri":"ctx://a/c"}]"#;
        assert_eq!(targets(edges), ["ctx://a/b", "ctx://a/c"]);
        let moved = br#"{"uri":"ctx://a/b","payload":{"new_uri":"ctx://a/c"}}"#;
        assert_eq!(memories(moved), ["ctx://a/b", "ctx://a/c"]);
    }
}
