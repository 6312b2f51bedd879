//! Splits a transcript into its messages, each as it came, and names the lines that have none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::format::TranscriptFormat;
use super::markdown::{self, Section};
use garth_engine::compute::working;
use garth_engine::error::{Error, ErrorKind, Result};

/// Limit on the messages of a transcript. It bounds the memory of an import.
const MAX_MESSAGES: usize = 1_000_000;

/// One message of a transcript, as it was written.
pub(super) enum RawMessage<'a> {
    Native(Cow<'a, RawValue>),
    Section(Section),
}

/// A message, and where it begins.
pub(super) struct Placed<'a> {
    /// Line of the text; the first is 1. 0 for the system prompt of an object, which is no message there.
    pub(super) line: u64,
    pub(super) message: Result<RawMessage<'a>>,
}

/// Splits a transcript. JSON comes as consecutive values, such as JSON Lines, as one array, or, in the
/// formats that have it, as one object with the messages.
///
/// # Errors
/// `InvalidArgument` for Markdown that begins with no heading; `TooLarge`.
pub(super) fn split(format: TranscriptFormat, text: &str) -> Result<Vec<Placed<'_>>> {
    working(text.len());
    let given = match format {
        TranscriptFormat::Markdown => {
            let sections = markdown::read(text)?.into_iter();
            let place =
                |section: Section| Placed { line: section.line, message: Ok(RawMessage::Section(section)) };
            sections.map(place).collect()
        }
        _ => json(format, text.strip_prefix('\u{feff}').unwrap_or(text)),
    };
    if given.len() > MAX_MESSAGES {
        let message = format!("a transcript has at most {MAX_MESSAGES} messages; import it in parts");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(given)
}

fn json(format: TranscriptFormat, text: &str) -> Vec<Placed<'_>> {
    if text.trim_start().starts_with('[') {
        return elements(text, 1);
    }
    let Some(given) = values(text) else { return lines(text) };
    if let [Placed { line, message: Ok(RawMessage::Native(Cow::Borrowed(only))) }] = &*given
        && let Some(whole) = object(format, only, *line)
    {
        return whole;
    }
    given
}

/// Numbers lines of a text. It is asked for places in their order.
struct LineCounter<'a> {
    text: &'a str,
    at: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a str, line: u64) -> Self {
        Self { text, at: 0, line }
    }

    /// Returns the line of the first character at or after a place that is no space.
    fn line_from(&mut self, at: usize) -> u64 {
        let rest = &self.text[at..];
        let first = at + rest.len() - rest.trim_start().len();
        self.line +=
            self.text.as_bytes()[self.at..first].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = first;
        self.line
    }
}

/// Returns consecutive values, which may have several lines each. `None` if one of them is not JSON.
fn values(text: &str) -> Option<Vec<Placed<'_>>> {
    let (mut given, mut counter, mut at) = (Vec::new(), LineCounter::new(text, 1), 0);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    while let Some(value) = stream.next() {
        let message = Ok(RawMessage::Native(Cow::Borrowed(value.ok()?)));
        given.push(Placed { line: counter.line_from(at), message });
        at = stream.byte_offset();
    }
    Some(given)
}

/// Returns the values of a text that has one in each line, broken ones among them.
fn lines(text: &str) -> Vec<Placed<'_>> {
    let lines = (1..).zip(text.split('\n')).filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(line, text)| Placed { line, message: native(text) }).collect()
}

fn native(text: &str) -> Result<RawMessage<'_>> {
    serde_json::from_str(text)
        .map(|value| RawMessage::Native(Cow::Borrowed(value)))
        .map_err(|error| no_json(&error))
}

fn no_json(error: &serde_json::Error) -> Error {
    // its line is always the first, and its column says little of a line of a megabyte
    let said = error.to_string();
    let what = said.split(" at line ").next().unwrap_or(&said);
    let half = if error.is_eof() { ": it is cut off" } else { "" };
    Error::invalid(format!("is no JSON ({what}){half}"))
}

/// Returns the elements of an array that starts in a line. Those before what is not JSON are there.
fn elements(text: &str, line: u64) -> Vec<Placed<'_>> {
    let (mut given, mut counter) = (Vec::new(), LineCounter::new(text, line));
    let mut at = text.find('[').map_or(0, |at| at + 1);
    let skip = |at: usize| at + text[at..].len() - text[at..].trim_start().len();
    at = skip(at);
    if text[at..].starts_with(']') {
        at += 1;
    } else {
        loop {
            let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<&RawValue>();
            let line = counter.line_from(at);
            let error = match stream.next() {
                Some(Ok(value)) => {
                    let message = Ok(RawMessage::Native(Cow::Borrowed(value)));
                    given.push(Placed { line, message });
                    at = skip(at + stream.byte_offset());
                    match text.as_bytes().get(at) {
                        Some(b',') => {
                            at = skip(at + 1);
                            continue;
                        }
                        Some(b']') => break,
                        _ => Error::invalid("the array is cut off after the message before"),
                    }
                }
                Some(Err(error)) => no_json(&error),
                None => Error::invalid("the array is cut off here"),
            };
            given.push(Placed { line: counter.line_from(at), message: Err(error) });
            return given;
        }
        at += 1;
    }
    let rest = text[at..].trim_start();
    if !rest.is_empty() {
        let message = Err(Error::invalid("something follows the array of messages"));
        given.push(Placed { line: counter.line_from(at), message });
    }
    given
}

/// Returns the messages of an object that has them, such as the body of a request, the system prompt first.
/// Its other fields say nothing of the conversation.
fn object(format: TranscriptFormat, raw: &RawValue, line: u64) -> Option<Vec<Placed<'_>>> {
    let system_field = match format {
        TranscriptFormat::Pi => Some("systemPrompt"),
        TranscriptFormat::Anthropic => Some("system"),
        TranscriptFormat::OpenAi => None,
        TranscriptFormat::Garth | TranscriptFormat::Markdown => return None,
    };
    let Members(fields) = serde_json::from_str(raw.get()).ok()?;
    let twice = fields.iter().filter(|(name, _)| name == "messages" || Some(&**name) == system_field).count();
    let mut fields: BTreeMap<_, _> = fields.into_iter().collect();
    let messages = fields.remove("messages").filter(|_| !fields.contains_key("role"))?;
    if twice > 1 + usize::from(system_field.is_some_and(|field| fields.contains_key(field))) {
        let message = Err(Error::invalid("has its messages, or its system prompt, twice"));
        return Some(vec![Placed { line, message }]);
    }
    let system = system_field.and_then(|field| fields.remove(field)).filter(|system| system.get() != "null");
    let mut given = Vec::new();
    if let Some(system) = system {
        let text = format!(r#"{{"role":"system","content":{}}}"#, system.get());
        let message = RawValue::from_string(text).map_err(|error| no_json(&error));
        given.push(Placed { line: 0, message: message.map(|raw| RawMessage::Native(Cow::Owned(raw))) });
    }
    match messages.get().starts_with('[') {
        true => {
            let before = messages.get().as_ptr().addr() - raw.get().as_ptr().addr();
            let line =
                line + raw.get().as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count() as u64;
            given.extend(elements(messages.get(), line));
        }
        false => given.push(Placed { line, message: Err(Error::invalid("`messages` is no array")) }),
    }
    Some(given)
}

/// Members of an object, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line of each message, and if it could be read.
    fn places(format: TranscriptFormat, text: &str) -> Vec<(u64, bool)> {
        split(format, text).unwrap().iter().map(|placed| (placed.line, placed.message.is_ok())).collect()
    }

    #[test]
    fn names_the_line_of_each_message() {
        let of = |text| places(TranscriptFormat::OpenAi, text);
        assert_eq!(of("{}\n\n{}\n"), [(1, true), (3, true)]);
        assert_eq!(of("{\n}\n{} {}"), [(1, true), (3, true), (3, true)]);
        assert_eq!(of("\n[\n{},\n{}\n]\n"), [(3, true), (4, true)]);
        assert_eq!(of("[]"), []);
        assert_eq!(of(" \n"), []);
        assert_eq!(of("{\"model\":\"m\",\n\"messages\":[\n{},\n{}]}"), [(3, true), (4, true)]);
        let body = "{\"system\":\"s\",\"messages\":[{}]}";
        assert_eq!(places(TranscriptFormat::Anthropic, body), [(0, true), (1, true)]);
        assert_eq!(places(TranscriptFormat::Markdown, "## user\n\na\n\n## user\n"), [(1, true), (5, true)]);
    }

    #[test]
    fn names_lines_that_are_broken() {
        let of = |text| places(TranscriptFormat::Pi, text);
        assert_eq!(of("{}\n\0\0\n{}\n{\"ro"), [(1, true), (2, false), (3, true), (4, false)]);
        assert_eq!(of("[{},\n{\"a\":"), [(1, true), (2, false)]);
        assert_eq!(of("[{}\n"), [(1, true), (2, false)]);
        assert_eq!(of("[{},"), [(1, true), (1, false)]);
        assert_eq!(of("[{}]\n{}"), [(1, true), (2, false)]);
        assert_eq!(of("{\"messages\":[],\"messages\":[{}]}"), [(1, false)]);
        assert_eq!(of("{\"messages\":7}"), [(1, false)]);
    }
}
