//! Lines to append, and the one form in which they are written. Values are written as they were given, to the
//! last digit. Ids and short fields come first, so that a reader finds them without the content, however long
//! that is.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::value::RawValue;

use super::canonical::is_same;
use crate::registry::session_lines::{EVENT, MESSAGE};
use crate::session::store::files::Log;
use garth_engine::compute::{go_on, working};
use garth_engine::error::{Error, Result};
use garth_engine::model::op::MAX_CUTS;
use garth_engine::rule::json;
use garth_engine::rule::schema::{Budget, MAX_STEPS, Schema};

/// Length from which a string is stored by itself, 64 KiB: equal ones are stored once, however often they
/// occur.
const LONG: usize = 64 << 10;

/// Fields that come first, in their order; `content` is the last. Keys are taken from the start of a line, so
/// fields that have keys come before those that may have any length.
const FIRST: [&str; 10] =
    ["id", "type", "source", "span", "role", "from", "run", "created_at", "parent", "native"];
const LAST: &str = "content";

/// Role of the author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The operator of the agent.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// A message or event to append. Missing `id`, `run` and `created_at` are filled in.
#[derive(Clone, Debug)]
pub struct Draft {
    fields: BTreeMap<String, Box<RawValue>>,
    /// Index of the native message that it is derived from, among those of its append.
    native: Option<usize>,
}

impl Draft {
    /// Parses a JSON object.
    ///
    /// # Errors
    /// `InvalidArgument` for another value, invalid JSON, or a repeated key; `TimedOut` as [`go_on`].
    pub fn parse(text: &str) -> Result<Self> {
        working(text.len());
        go_on()?;
        let bad = |why: String| Error::invalid(format!("has to be a JSON object: {why}"));
        // serde takes the last of two equal keys, and other readers the first: such an object is refused.
        json::read(text.as_bytes()).map_err(|flaw| bad(flaw.to_string()))?;
        let fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let fields = fields.into_iter().map(|(name, value)| (name, compact(&value))).collect();
        Ok(Self { fields, native: None })
    }

    fn empty() -> Self {
        Self { fields: BTreeMap::new(), native: None }
    }

    /// Returns a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::message(Role::User, &text.into())
    }

    /// Returns a message of the assistant.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::message(Role::Assistant, &text.into())
    }

    /// Returns a message with this text, or these blocks.
    pub fn message(role: Role, content: &(impl Serialize + ?Sized)) -> Self {
        Self::empty().with("role", &role).with(LAST, content)
    }

    /// Returns an event of this type.
    pub fn event(kind: &str) -> Self {
        Self::empty().with("type", kind)
    }

    /// Sets a field. A value without a JSON form is ignored.
    #[must_use]
    pub fn with(mut self, field: &str, value: &(impl Serialize + ?Sized)) -> Self {
        if let Ok(value) = serde_json::value::to_raw_value(value) {
            self.fields.insert(field.to_owned(), value);
        }
        self
    }

    /// Removes a field.
    #[must_use]
    pub(crate) fn without(mut self, field: &str) -> Self {
        self.fields.remove(field);
        self
    }

    /// Writes the `call_id` of a long tool result before its `content`. The result is found by this field,
    /// and keys are taken from the start of a line.
    #[must_use]
    pub(crate) fn with_call_first(self) -> Self {
        // A short line has all of its keys, and keeps the form in which it was given.
        let is_long = self.value(LAST).is_some_and(|content| content.get().len() >= LONG / 2);
        if !is_long || self.text("role").as_deref() != Some("tool") {
            return self;
        }
        // In the order of their names, `call_id` comes before `content`.
        let blocks: Option<Vec<BTreeMap<String, Box<RawValue>>>> =
            self.value(LAST).and_then(|content| serde_json::from_str(content.get()).ok());
        match blocks {
            Some(blocks) => self.with(LAST, &blocks),
            None => self,
        }
    }

    /// Sets the native message that it is derived from.
    #[must_use]
    pub(crate) fn of_native(self, at: usize) -> Self {
        Self { native: Some(at), ..self }
    }

    /// Returns the index of the native message that it is derived from.
    pub(crate) fn native(&self) -> Option<usize> {
        self.native
    }

    /// Returns a field that is text.
    pub(crate) fn text(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.fields.get(field)?.get()).ok()
    }

    /// Returns the JSON of a field.
    pub(crate) fn raw(&self, field: &str) -> Option<&str> {
        Some(self.fields.get(field)?.get())
    }

    /// Returns a field.
    pub(crate) fn value(&self, field: &str) -> Option<&RawValue> {
        self.fields.get(field).map(|value| &**value)
    }

    /// Returns true if a field is set.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// Returns true if a stored line has all fields of this draft, with the same values. White space, the
    /// order of keys and the way in which numbers are written make no difference.
    pub(crate) fn is_said_by(&self, line: &str) -> bool {
        let Ok(there) = Self::parse(line) else { return false };
        let is_there = |field: &str, value: &str| there.raw(field).is_some_and(|said| is_same(said, value));
        self.fields.iter().all(|(field, value)| is_there(field, value.get()))
    }

    /// Checks the line against the schema of its log.
    pub(crate) fn check(&self, log: Log) -> Result<()> {
        static MESSAGES: LazyLock<Schema> =
            LazyLock::new(|| Schema::compile(MESSAGE).expect("the crate's own schemas are well formed"));
        static EVENTS: LazyLock<Schema> =
            LazyLock::new(|| Schema::compile(EVENT).expect("the crate's own schemas are well formed"));
        let schema = match log {
            Log::Messages => &*MESSAGES,
            Log::Events => &*EVENTS,
        };
        // The same schema as in the rule: a line that passes here is not refused by the commit. What the rule
        // requires of retractions beyond the schema is judged with their session (`judged_retractions`).
        let judged = schema.check_text(self.line().as_bytes(), &mut Budget::new(MAX_STEPS));
        judged.map_err(|wrong| Error::invalid(wrong.to_string()))
    }

    /// Returns the line as it is written, without its line feed.
    pub(crate) fn line(&self) -> String {
        let is_other = |name: &&String| !FIRST.contains(&name.as_str()) && *name != LAST;
        let names = FIRST.into_iter().filter(|name| self.has(name));
        let names = names.chain(self.fields.keys().filter(is_other).map(String::as_str));
        let names = names.chain([LAST].into_iter().filter(|name| self.has(name)));
        let mut line = String::from("{");
        for name in names {
            let comma = if line.len() > 1 { "," } else { "" };
            let name_json = serde_json::Value::from(name);
            line.push_str(&format!("{comma}{name_json}:{}", self.raw(name).unwrap_or("null")));
        }
        line + "}"
    }
}

/// Returns a JSON text without the white space between its parts: a line feed there would end the line.
pub(crate) fn compacted(json: &str) -> String {
    let (mut text, mut in_string, mut escaped) = (String::with_capacity(json.len()), false, false);
    for character in json.chars() {
        if in_string || !character.is_ascii_whitespace() {
            text.push(character);
        }
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    text
}

/// Returns a value without the white space between its parts.
pub(crate) fn compact(value: &RawValue) -> Box<RawValue> {
    RawValue::from_string(compacted(value.get())).unwrap_or_else(|_| value.to_owned())
}

/// Returns both ends of each string of [`LONG`] bytes or more, in lines that start at `from`.
pub(crate) fn cuts(lines: &str, from: u64) -> Vec<u64> {
    let (mut cuts, mut begun, mut escaped) = (Vec::new(), None, false);
    for (at, byte) in lines.bytes().enumerate() {
        match (byte, begun) {
            _ if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (b'"', None) => begun = Some(at + 1),
            (b'"', Some(start)) => {
                // The engine refuses more cut points. Further long strings are stored with what is around
                // them.
                if at - start >= LONG && cuts.len() + 2 <= MAX_CUTS {
                    cuts.extend([from + start as u64, from + at as u64]);
                }
                begun = None;
            }
            _ => {}
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_starts_with_short_fields_and_keeps_values() {
        let text = "{\"content\": [ {\"type\":\"text\", \"text\":\"a \\\" b\\n\"} ],\n \"role\":\"user\", \"id\":\"msg-1\"}";
        let line = Draft::parse(text).unwrap().line();
        assert_eq!(line, r#"{"id":"msg-1","role":"user","content":[{"type":"text","text":"a \" b\n"}]}"#);
        let event = r#"{"a":1,"run":"r","span":"messages:1-9","role":2,"source":"messages:3-5","type":"x"}"#;
        let due = r#"{"type":"x","source":"messages:3-5","span":"messages:1-9","role":2,"run":"r","a":1}"#;
        assert_eq!(Draft::parse(event).unwrap().line(), due);
        let exact = r#"{"id":"ev-1","type":"x","a":12345678901234567890,"b":1.0,"c":"\u00e9"}"#;
        assert_eq!(Draft::parse(exact).unwrap().line(), exact);
        for bad in ["", "[]", "7", "{\"a\":1,\"a\":2}", "{} {}", "{\"a\":{\"b\":1,\"b\":1}}"] {
            assert!(Draft::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn long_result_is_written_after_its_call() {
        let result = |length: usize| {
            let text = "x".repeat(length);
            let block = format!(r#"{{"type":"tool_result","content":"{text}","call_id":"c","error":false}}"#);
            Draft::parse(&format!(r#"{{"role":"tool","content":[{block}]}}"#)).unwrap()
        };
        let (short, long) = (result(100), result(LONG));
        assert_eq!(short.clone().with_call_first().line(), short.line());
        let moved = long.clone().with_call_first();
        assert!(moved.line().starts_with(r#"{"role":"tool","content":[{"call_id":"c","content":"x"#));
        assert!(long.is_said_by(&moved.line()) && moved.line().len() == long.line().len());
        let user = Draft::user("x".repeat(LONG));
        assert_eq!(user.clone().with_call_first().line(), user.line());
    }

    #[test]
    fn stored_line_matches_equal_given_fields() {
        let line =
            Draft::parse(r#"{"id":"msg-1","role":"user","created_at":"x","content":"a"}"#).unwrap().line();
        assert!(Draft::user("a").is_said_by(&line));
        assert!(!Draft::user("b").is_said_by(&line));
        assert!(!Draft::user("a").with("run", "r").is_said_by(&line));
        assert!(!Draft::user("a").is_said_by("no JSON"));
        let call = |arguments: &str| {
            Draft::parse(&format!(
                r#"{{"content":[{{"type":"tool_call","id":"c","name":"n","arguments":{arguments}}}]}}"#
            ))
        };
        let line = call(r#"{"b":1.50,"a":[1,2]}"#).unwrap().line();
        assert!(call(r#"{ "a": [1, 2], "b": 1.5 }"#).unwrap().is_said_by(&line));
        assert!(!call(r#"{"a":[2,1],"b":1.5}"#).unwrap().is_said_by(&line));
    }

    #[test]
    fn cuts_surround_long_strings() {
        let long = "x".repeat(LONG);
        let line = format!("{{\"a\":\"{long}\",\"b\":\"\\\"{}\",\"c\":\"{long}\\\\\"}}\n", &long[3..]);
        let cuts = cuts(&line, 10);
        let parts: Vec<_> =
            cuts.chunks(2).map(|ends| &line[ends[0] as usize - 10..ends[1] as usize - 10]).collect();
        assert_eq!(parts, [long.clone(), format!("{long}\\\\")]);
    }
}
