//! Projections of sessions: their ids and session keys; and by line of their messages and events the ids,
//! line numbers, answered tool calls and retractions. `docs/specs/projections.md` lists the keys.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::identity::session_key::with_plain_capitals;
use crate::identity::{Class, StoredClass};
use crate::registry::session_lines::{EVENTS, MESSAGES, NAMED, NATIVE};
use garth_engine::model::Projection;
use garth_engine::rule::projection::{ContentProjection, Keys, MAX_LINE};

/// Id and session key of a session, from its `meta.json`.
pub const SESSION: Projection = Projection::new(7);
/// Keys of the lines of messages and events of a session: ids, every 64th line, answered tool calls, roles,
/// and retracted messages.
pub const SESSION_LINE: Projection = Projection::new(8);

/// Distance between lines that have a key of their line number, from the first line on. A reader of any line
/// reads fewer than this many lines before it.
pub const STRIDE: u64 = 64;

/// Limit on the lines that one event retracts. Each [`STRIDE`] of them have a key.
pub const MAX_RETRACTED: u64 = 64 << 10;

/// Type of the events that retract messages.
pub(crate) const WITHDRAWN: &str = "message.withdrawn";

/// Key of the lines of user messages.
pub const USER: &str = "role\0user";
/// Key of the lines of assistant messages.
pub const ASSISTANT: &str = "role\0assistant";
/// Key of the events that retract messages.
pub const RETRACTED: &str = "withdrawn";

/// Returns the key of the line with an id.
pub fn id_key(id: &str) -> String {
    format!("id\0{id}")
}

/// Returns the key of the line with the result of a tool call.
pub fn result_key(call: &str) -> String {
    format!("result\0{call}")
}

/// Returns the key of the nearest line with one at or before a line, and the number of that line.
pub fn line_key(number: u64) -> (String, u64) {
    let block = block_of(number);
    (format!("line\0{block:015}"), block * STRIDE + 1)
}

/// Returns the key of the events that retract any line of the block of [`STRIDE`] lines around this one.
pub fn retracted_key(line: u64) -> String {
    format!("{RETRACTED}\0{:015}", block_of(line))
}

/// Returns the key of the events that retract all lines of the block of [`STRIDE`] lines around this one.
pub fn whole_key(line: u64) -> String {
    format!("withdrawn whole\0{:015}", block_of(line))
}

/// Returns the key of the events that retract a line, but not its complete block of [`STRIDE`] lines.
pub fn retracted_line_key(line: u64) -> String {
    format!("withdrawn line\0{line:015}")
}

/// Returns the keys of the events that retract a line, by itself or with its complete block.
pub fn retracted_keys(line: u64) -> [String; 2] {
    [retracted_line_key(line), whole_key(line)]
}

/// Returns the key of the events whose run of retracted lines begins with this line.
pub fn run_start_key(line: u64) -> String {
    format!("withdrawn from\0{line:015}")
}

/// Returns the key of the events whose run of retracted lines ends with this line.
pub fn run_end_key(line: u64) -> String {
    format!("withdrawn to\0{line:015}")
}

fn block_of(line: u64) -> u64 {
    line.saturating_sub(1) / STRIDE
}

/// Returns the lines of messages that an event retracts; `None` if it retracts none.
pub fn retracted(event: &[u8]) -> Option<RangeInclusive<u64>> {
    retracted_of(&LineFields::of(event))
}

fn retracted_of(seen: &LineFields) -> Option<RangeInclusive<u64>> {
    let lines = seen.source.as_deref().filter(|_| seen.kind.as_deref() == Some(WITHDRAWN))?;
    let (first, last) = messages(lines)?.into_inner();
    // Logs of earlier versions can have longer ranges. Without a limit, one event could create any number of
    // keys.
    Some(first..=last.min(first.saturating_add(MAX_RETRACTED - 1)))
}

/// Returns the run of retracted lines that contains the lines of an event, with those that were retracted
/// before and adjoin them. Returns `None` if the event retracts none.
pub fn retracted_run(event: &[u8]) -> Option<RangeInclusive<u64>> {
    run_of(&LineFields::of(event))
}

fn run_of(seen: &LineFields) -> Option<RangeInclusive<u64>> {
    let own = retracted_of(seen)?;
    let run = seen.span.as_deref().and_then(messages);
    // Other programs may write any `span`. One that does not contain the event's own lines is ignored.
    let has_own = |run: &RangeInclusive<u64>| run.start() <= own.start() && own.end() <= run.end();
    Some(run.filter(has_own).unwrap_or(own))
}

/// Checks that the keys of an event lead to all messages that it retracts. Readers find retracted messages by
/// these keys alone: without them, the event would be stored and its messages would stay visible.
///
/// # Errors
/// The flaw, in words.
pub(crate) fn check_retraction(event: &[u8]) -> Result<(), String> {
    let event_fields = LineFields::of(event);
    if event_fields.kind.as_deref() != Some(WITHDRAWN) {
        return Ok(());
    }
    let Some(lines) = event_fields.source.as_deref().and_then(messages) else {
        return Err("retracts no message: `source` has to name lines, such as messages:3-5".to_owned());
    };
    if lines.end() - lines.start() >= MAX_RETRACTED {
        return Err(format!("retracts more than {MAX_RETRACTED} messages; append an event for each part"));
    }
    // A projection sees only the start of a line.
    let start = LineFields::of(event.get(..MAX_LINE).unwrap_or(event));
    if retracted_of(&start) != Some(lines) || run_of(&start) != run_of(&event_fields) {
        return Err(format!(
            "retracts messages, but `type`, `source` and `span` are not in its first {MAX_LINE} bytes; write \
             them before longer fields"
        ));
    }
    Ok(())
}

/// Checks that the keys of a message, whose schema was checked before, lead to it. By these keys alone a
/// message is found by its id, a repeat of it is noticed, and a pack finds the last message of the user: a
/// message without them would be treated in another way than the same one with its fields in another order.
///
/// # Errors
/// The flaw, in words.
pub(crate) fn check_message(message: &[u8]) -> Result<(), String> {
    // A projection sees only the start of a line.
    let Some(start) = message.get(..MAX_LINE) else { return Ok(()) };
    let start = LineFields::of(start);
    if start.id.is_none() || start.role.is_none() {
        return Err(format!(
            "`id` and `role` are not in the first {MAX_LINE} bytes of the line; write them before `content`"
        ));
    }
    Ok(())
}

/// Parses `messages:A-B`.
fn messages(source: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = source.strip_prefix("messages:")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (1..=last).contains(&first).then_some(first..=last)
}

/// Returns the projections of the files of sessions.
pub(super) fn all() -> Vec<ContentProjection> {
    let is_lines = |name: &str| name.ends_with(".jsonl");
    let is_meta = |name: &str| name == "meta.json";
    vec![
        ContentProjection::new(
            SESSION,
            &["/users/*/agents/*/session/*/meta.json"],
            is_meta,
            Keys::OfFile(session),
        ),
        ContentProjection::new(SESSION_LINE, &[MESSAGES, EVENTS, NATIVE], is_lines, Keys::OfLines(line)),
    ]
}

/// Returns the keys of a session: `id` and the session's id; `class`, its owner and class, if that is known;
/// `open` or, after its final state, `finished`, its owner and session key; `anyone` and the session key
/// while it is open and its key alone leads to it. Parts are separated by NUL. The owner (user and agent)
/// comes first, so that sessions of others do not slow a lookup.
fn session(meta_json: &[u8]) -> Vec<String> {
    let meta: Map<String, Value> = serde_json::from_slice(meta_json).unwrap_or_default();
    let text = |field: &str| meta.get(field).and_then(Value::as_str);
    let mut keys: Vec<String> = text("id").map(id_key).into_iter().collect();
    if let (Some(user), Some(agent)) = (text("user"), text("agent")) {
        keys.extend(class_in(meta_json).map(|class| class_key((user, agent), class)));
        let state = if text("finished_at").is_some() { "finished" } else { "open" };
        // Older files have encoded capital letters; both spellings lead to the session.
        let key = text("session_key").map(with_plain_capitals);
        keys.extend(key.iter().map(|key| owned(state, (user, agent), key)));
        let is_named = meta.get(NAMED) == Some(&Value::Bool(true));
        keys.extend(key.filter(|_| state == "open" && !is_named).map(|key| anyone_key(&key)));
    }
    keys
}

/// Field of `meta.json` that decides who sees the session. Read by itself: unlike a map, it must be there
/// once.
#[derive(Deserialize)]
struct Classed {
    class: String,
}

/// Returns the class in `meta.json`; `None` if there is none, or one that garth never writes. It is then
/// unknown who listened, so no gate may open.
fn class_in(meta_json: &[u8]) -> Option<Class> {
    let Classed { class } = serde_json::from_slice(meta_json).ok()?;
    StoredClass::named(&class).known()
}

/// Returns the key of the open sessions of a user and agent with a session key.
pub fn open_key(of: (&str, &str), session_key: &str) -> String {
    owned("open", of, session_key)
}

/// Returns the key of the open sessions of any owner to which this session key alone leads.
pub fn anyone_key(session_key: &str) -> String {
    format!("anyone\0{session_key}")
}

/// Returns the key of the sessions of a class, of a user and agent.
pub fn class_key(of: (&str, &str), class: Class) -> String {
    owned("class", of, class.as_str())
}

fn owned(what: &str, (user, agent): (&str, &str), value: &str) -> String {
    format!("{what}\0{user}\0{agent}\0{value}")
}

/// Returns the keys of a line.
fn line(number: u64, text: &[u8]) -> Vec<String> {
    let mut keys = Vec::new();
    let (key, first) = line_key(number);
    if first == number {
        keys.push(key);
    }
    let seen = LineFields::of(text);
    keys.extend(seen.id.as_deref().map(id_key));
    keys.extend(seen.call.as_deref().map(result_key));
    match seen.role.as_deref() {
        Some("user") => keys.push(USER.to_owned()),
        Some("assistant") => keys.push(ASSISTANT.to_owned()),
        _ => {}
    }
    if let Some((lines, run)) = retracted_of(&seen).zip(run_of(&seen)) {
        keys.push(RETRACTED.to_owned());
        // A complete block has one key and other blocks one for each line, so that a long retraction needs
        // few keys.
        for block in block_of(*lines.start())..=block_of(*lines.end()) {
            let (first, last) = (block * STRIDE + 1, (block + 1) * STRIDE);
            keys.push(retracted_key(first));
            match lines.contains(&first) && lines.contains(&last) {
                true => keys.push(whole_key(first)),
                false => {
                    keys.extend((first..=last).filter(|line| lines.contains(line)).map(retracted_line_key));
                }
            }
        }
        keys.extend([run_start_key(*run.start()), run_end_key(*run.end())]);
    }
    keys
}

/// Fields of a line, of which the end may be missing.
#[derive(Debug, Default, PartialEq, Eq)]
struct LineFields {
    id: Option<String>,
    role: Option<String>,
    kind: Option<String>,
    source: Option<String>,
    span: Option<String>,
    /// Tool call of the first result in the content.
    call: Option<String>,
}

impl LineFields {
    fn of(text: &[u8]) -> Self {
        let mut seen = Self::default();
        // Only the first 64 KiB of a line are read. If it ends too early, the fields before are kept.
        let _cut = serde_json::Deserializer::from_slice(text).deserialize_map(OfLine(&mut seen));
        seen
    }
}

struct OfLine<'a>(&'a mut LineFields);

impl<'de> Visitor<'de> for OfLine<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key::<String>()? {
            let to = match field.as_str() {
                "id" => &mut self.0.id,
                "role" => &mut self.0.role,
                "type" => &mut self.0.kind,
                "source" => &mut self.0.source,
                "span" => &mut self.0.span,
                "content" => {
                    fields.next_value_seed(CallContentProjection(&mut self.0.call))?;
                    continue;
                }
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            // The first of several fields with one name counts.
            if let Value::String(text) = fields.next_value()? {
                to.get_or_insert(text);
            }
        }
        Ok(())
    }
}

/// Search for the tool call that a result answers.
struct CallContentProjection<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for CallContentProjection<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CallContentProjection<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("content")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<(), A::Error> {
        while blocks.next_element_seed(CallContentProjection(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key::<String>()? {
            if field == "call_id" {
                if let Value::String(text) = fields.next_value()? {
                    self.0.get_or_insert(text);
                }
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_line_is_found_by_id() {
        let text = br#"{"id":"msg-a","role":"user","content":[{"type":"text","text":"hi"}]}"#;
        assert_eq!(line(2, text), [id_key("msg-a"), USER.to_owned()]);
        assert_eq!(line(2, &text[..40]), [id_key("msg-a"), USER.to_owned()]);
        let result =
            br#"{"id":"msg-b","role":"tool","content":[{"type":"tool_result","call_id":"c","content":"x"}]}"#;
        assert_eq!(line(2, result), [id_key("msg-b"), result_key("c")]);
        assert_eq!(line(2, &result[..result.len() - 5]), [id_key("msg-b"), result_key("c")]);
        let bad: [&[u8]; 6] = [b"", b"[1]", br#"{"id":1}"#, b"\xff", b"{\"id\"", br#"{"id":"#];
        for bad in bad {
            assert!(line(2, bad).is_empty());
        }
    }

    #[test]
    fn every_64th_line_has_a_number_key() {
        for (number, first) in [(1, 1), (64, 1), (65, 65), (128, 65), (129, 129)] {
            assert_eq!(line_key(number).1, first);
            let own = line(number, b"").first().cloned();
            assert_eq!(own, (number == first).then(|| line_key(number).0));
        }
    }

    #[test]
    fn retractions_have_keys_by_block_and_line() {
        let event = |source: &str| {
            format!(r#"{{"id":"ev-1","type":"message.withdrawn","source":"{source}"}}"#).into_bytes()
        };
        assert_eq!(retracted(&event("messages:60-130")), Some(60..=130));
        let keys = line(2, &event("messages:60-130"));
        for line in [1, 65, 129] {
            assert!(keys.contains(&retracted_key(line)), "{keys:?}");
        }
        let whole: Vec<&String> = keys.iter().filter(|key| key.starts_with("withdrawn whole")).collect();
        assert_eq!(whole, [&whole_key(65)]);
        let lines: Vec<String> = (60..=64).chain(129..=130).map(retracted_line_key).collect();
        assert!(keys.windows(5).any(|of| *of == lines[..5]) && keys.windows(2).any(|of| *of == lines[5..]));
        assert!(keys.ends_with(&[run_start_key(60), run_end_key(130)]));
        assert_eq!(keys[..2], [id_key("ev-1"), RETRACTED.to_owned()]);
        assert_eq!(retracted(&event("messages:5-999999999")), Some(5..=5 + MAX_RETRACTED - 1));
        for none in ["messages:0-1", "messages:2-1", "messages:1", "events:1-2", "messages:1-x"] {
            assert_eq!(retracted(&event(none)), None, "{none}");
        }
        assert_eq!(retracted(br#"{"type":"x","source":"messages:1-2"}"#), None);
    }

    #[test]
    fn retraction_without_keys_is_refused() {
        let kind = r#""type":"message.withdrawn""#;
        let event = |fields: &str| check_retraction(format!("{{{fields}}}").as_bytes());
        let long = |length: usize| format!(r#""reason":"{}""#, "x".repeat(length));
        let good = r#""source":"messages:3-5","span":"messages:1-9""#;
        assert_eq!(event(&format!("{kind},{good},{}", long(MAX_LINE))), Ok(()));
        assert_eq!(event(&format!("{},{kind},{good}", long(60_000))), Ok(()));
        // Other events have no keys of their fields.
        assert_eq!(event(&format!(r#"{},"type":"note""#, long(MAX_LINE))), Ok(()));
        for (fields, said) in [
            (format!("{},{kind},{good}", long(MAX_LINE)), "first 65536 bytes"),
            (format!("{kind},{},{good}", long(MAX_LINE)), "first 65536 bytes"),
            (
                format!(r#"{kind},"source":"messages:3-5",{},"span":"messages:1-9""#, long(MAX_LINE)),
                "first 65536 bytes",
            ),
            (format!("{}{kind},{good}", " ".repeat(MAX_LINE)), "first 65536 bytes"),
            (format!(r#"{kind},"source":"messages:5-3""#), "retracts no message"),
            (kind.to_owned(), "retracts no message"),
            (format!(r#"{kind},"source":"messages:1-65537""#), "more than 65536 messages"),
        ] {
            let refused = event(&fields).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        assert_eq!(event(&format!(r#"{kind},"source":"messages:1-65536""#)), Ok(()));
    }

    #[test]
    fn message_without_keys_is_refused() {
        let content = |length: usize| format!(r#""content":"{}""#, "x".repeat(length));
        let (id, role) = (r#""id":"msg-1""#, r#""role":"user""#);
        for length in [60_000, MAX_LINE] {
            let line = |fields: [&str; 3]| check_message(format!("{{{}}}", fields.join(",")).as_bytes());
            let content = content(length);
            assert_eq!(line([id, role, &content]), Ok(()));
            assert_eq!(line([role, id, &content]), Ok(()));
            for late in [[id, &*content, role], [role, &*content, id], [&*content, id, role]] {
                assert_eq!(line(late).is_ok(), length == 60_000, "{length}");
            }
        }
    }

    #[test]
    fn retracted_runs_have_keys_at_both_ends() {
        let event = |span: &str| {
            format!(r#"{{"type":"message.withdrawn","source":"messages:60-60","span":"{span}"}}"#)
                .into_bytes()
        };
        assert_eq!(retracted_run(&event("messages:3-99")), Some(3..=99));
        assert_eq!(retracted(&event("messages:3-99")), Some(60..=60));
        let keys = line(2, &event("messages:3-99"));
        assert!(keys.ends_with(&[run_start_key(3), run_end_key(99)]), "{keys:?}");
        // A run that does not contain the lines is ignored.
        for bad in ["messages:61-99", "messages:1-59", "x", "messages:9-3"] {
            assert_eq!(retracted_run(&event(bad)), Some(60..=60), "{bad}");
        }
    }

    #[test]
    fn session_keys_cover_id_class_and_state() {
        let of = ("ann", "a");
        let meta = br#"{"id":"u","user":"ann","agent":"a","class":"dm","session_key":"agent:a:main"}"#;
        let key = "agent:a:main";
        let due = [id_key("u"), class_key(of, Class::Dm), open_key(of, key), anyone_key(key)];
        assert_eq!(session(meta), due);
        // An older spelling maps to the same key.
        let meta = br#"{"id":"u","user":"ann","agent":"a","session_key":"agent:a:dm:%41"}"#;
        let key = "agent:a:dm:A";
        let due = [id_key("u"), open_key(of, key), anyone_key(key)];
        assert_eq!(session(meta), due, "and without a class it has no key of one");
        let closed = br#"{"id":"u","user":"ann","agent":"a","class":"main","session_key":"k",
            "finished_at":"2026-01-27T09:30:00Z"}"#;
        let finished = "finished\0ann\0a\0k".to_owned();
        assert_eq!(session(closed), [id_key("u"), class_key(of, Class::Main), finished]);
        // Without an owner it is found by its id alone.
        assert_eq!(session(br#"{"id":"u","session_key":"k"}"#), [id_key("u")]);
        assert!(session(b"{}").is_empty() && session(b"[").is_empty());
    }

    #[test]
    fn unknown_class_has_no_key() {
        let keys = |class: &str| session(format!(r#"{{"user":"ann","agent":"a",{class}}}"#).as_bytes());
        for class in Class::ALL {
            assert_eq!(keys(&format!(r#""class":"{class}""#)), [class_key(("ann", "a"), class)]);
        }
        for class in [
            r#""x":1"#,
            r#""class":null"#,
            r#""class":"""#,
            r#""class":"channel""#,
            r#""class":"Group""#,
            r#""class":"group ""#,
            r#""class":["group"]"#,
            r#""class":{"group":null}"#,
            r#""class":"main","class":"group""#,
            r#""class":"group","class":"group""#,
            r#""class":"group","cl\u0061ss":"main""#,
        ] {
            assert!(keys(class).is_empty(), "{class}");
        }
    }
}
