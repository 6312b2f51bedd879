//! Splits a transcript into its messages, each as it came, and names the lines that have none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::format::TranscriptFormat;
use super::markdown::{self, Section};
use super::placed::{LineCounter, Placed, RawMessage, conversation, system_field};
use super::salvage;
use garth_engine::compute::working;
use garth_engine::error::{Error, ErrorKind, Result};

/// Limit on the messages of a transcript. It bounds the memory of an import.
const MAX_MESSAGES: usize = 1_000_000;

/// Limit on objects with messages inside others. Each level reads its text again.
const MAX_NESTED: usize = 4;

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
            let place = |section: Section| {
                let line = section.line;
                Placed { line, message: Ok(RawMessage::Section(section)), flaw: None }
            };
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
    with_bodies(format, json_values(format, text), MAX_NESTED)
}

/// Replaces objects with messages among messages, such as the bodies of further requests, by their messages.
fn with_bodies(format: TranscriptFormat, given: Vec<Placed<'_>>, nested: usize) -> Vec<Placed<'_>> {
    let mut all = Vec::with_capacity(given.len());
    for placed in given {
        let inner = match &placed.message {
            // Most are messages, which need not be taken apart to learn that.
            Ok(RawMessage::Native(Cow::Borrowed(raw))) if nested > 0 && raw.get().contains("messages") => {
                object(format, raw, placed.line)
            }
            _ => None,
        };
        match inner.filter(|inner| inner.iter().any(|one| one.message.is_ok())) {
            Some(inner) => {
                let error = Error::invalid("is an object with messages, which are read");
                all.push(Placed::bad(placed.line, error));
                all.extend(with_bodies(format, inner, nested - 1));
            }
            None => all.push(placed),
        }
    }
    all
}

fn json_values(format: TranscriptFormat, text: &str) -> Vec<Placed<'_>> {
    if text.trim_start().starts_with('[') {
        let (mut given, end) = salvage::elements(text, 1);
        if let Some(end) = end.filter(|end| !text[*end..].trim_start().is_empty()) {
            let line = LineCounter::new(text, 1).line_from(end);
            given.push(Placed::bad(line, Error::invalid("something follows the array of messages")));
            given.extend(salvage::values(text[end..].trim_start(), line));
        }
        return given;
    }
    let Some(given) = values(text) else {
        return salvage::object(format, text).unwrap_or_else(|| salvage::values(text, 1));
    };
    if let [Placed { line, message: Ok(RawMessage::Native(Cow::Borrowed(only))), .. }] = &*given
        && let Some(whole) = object(format, only, *line)
    {
        return whole;
    }
    // An object with messages, or an array, among other values has messages of its own.
    if given.len() > 1
        && let Some(all) = salvage::object(format, text)
    {
        return all;
    }
    let is_array =
        |one: &Placed<'_>| matches!(&one.message, Ok(RawMessage::Native(raw)) if raw.get().starts_with('['));
    if given.iter().any(is_array) {
        return salvage::values(text, 1);
    }
    given
}

/// Returns consecutive values, which may have several lines each. `None` if one of them is not JSON.
fn values(text: &str) -> Option<Vec<Placed<'_>>> {
    let (mut given, mut counter, mut at) = (Vec::new(), LineCounter::new(text, 1), 0);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    while let Some(value) = stream.next() {
        let message = Ok(RawMessage::Native(Cow::Borrowed(value.ok()?)));
        given.push(Placed { line: counter.line_from(at), message, flaw: None });
        at = stream.byte_offset();
    }
    Some(given)
}

/// Returns the messages of an object that has them, such as the body of a request, the system prompt first.
/// Its other fields say nothing of the conversation.
fn object(format: TranscriptFormat, raw: &RawValue, line: u64) -> Option<Vec<Placed<'_>>> {
    let system_field = system_field(format)?;
    let Members(fields) = serde_json::from_str(raw.get()).ok()?;
    let twice = fields.iter().filter(|(name, _)| name == "messages" || Some(&**name) == system_field).count();
    let mut fields: BTreeMap<_, _> = fields.into_iter().collect();
    let messages = fields.remove("messages").filter(|_| !fields.contains_key("role"))?;
    if twice > 1 + usize::from(system_field.is_some_and(|field| fields.contains_key(field))) {
        let error = Error::invalid("has its messages, or its system prompt, twice");
        return Some(vec![Placed::bad(line, error)]);
    }
    let system = system_field.and_then(|field| fields.remove(field));
    if !messages.get().starts_with('[') {
        return Some(conversation(system, vec![Placed::bad(line, Error::invalid("`messages` is no array"))]));
    }
    let before = messages.get().as_ptr().addr() - raw.get().as_ptr().addr();
    let line = line + raw.get().as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count() as u64;
    Some(conversation(system, salvage::elements(messages.get(), line).0))
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
        assert_eq!(of("[{}]\n{}"), [(1, true), (2, false), (2, true)]);
        assert_eq!(of("{\"messages\":[],\"messages\":[{}]}"), [(1, false)]);
        assert_eq!(of("{\"messages\":7}"), [(1, false)]);
        assert_eq!(of("[{},]"), [(1, true)]);
    }

    /// Texts of the messages that can be read, and the number of the others.
    fn taken(format: TranscriptFormat, text: &str) -> (String, usize) {
        let (mut texts, mut lost) = (String::new(), 0);
        for placed in split(format, text).unwrap() {
            match placed.message {
                Ok(RawMessage::Native(raw)) => {
                    let value: serde_json::Value = serde_json::from_str(raw.get()).unwrap();
                    texts += value["content"].as_str().unwrap_or("?");
                }
                _ => lost += 1,
            }
        }
        (texts, lost)
    }

    #[test]
    fn takes_all_messages_beside_broken_ones() {
        let of = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let (a, b, c) = (of("a"), of("b"), of("c"));
        let broken = [
            r#"{"role":"user" "content":"x"}"#,
            r#"{"role":"user","content":"x""#,
            r#"{"role":"user","content":"x}"#,
            r#"{"role":"user","content":"x "y" [1], z"}"#,
            r#"{"role":"user","content":undefined}"#,
            r#"{"role":"user","content":["x"}"#,
            "x",
            "",
        ];
        for between in [",", ", ", ",\n", ",\n    ", ",\n\n"] {
            let lead = &between[1..];
            for bad in broken {
                let text = format!("[{lead}{a}{between}{bad}{between}{b}{between}{c}{lead}]");
                assert_eq!(taken(TranscriptFormat::OpenAi, &text), ("abc".to_owned(), 1), "{text}");
                let text = format!("{{\"system\":\"s\",\"messages\":{text}}}");
                assert_eq!(taken(TranscriptFormat::Anthropic, &text).0, "sabc", "{text}");
            }
            let text = format!("[{lead}{a}{lead}{b}{between}{c}{lead}]");
            assert_eq!(taken(TranscriptFormat::OpenAi, &text), ("abc".to_owned(), 0), "{text}");
            let text =
                format!("{{\"system\":\"s\",\"messages\":[{lead}{a}{between}{b}{between}{{\"role\":\"us");
            assert_eq!(taken(TranscriptFormat::Anthropic, &text), ("sab".to_owned(), 1), "{text}");
        }
        let nested = r#"{"role":"assistant","content":[{"input":{"messages":[{"role":"user","content":"no"}"#;
        assert_eq!(taken(TranscriptFormat::OpenAi, &format!("[{a},{nested}")), ("a".to_owned(), 1));
    }

    #[test]
    fn takes_messages_around_junk_and_other_arrays() {
        let of = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let (a, b, c, d) = (of("a"), of("b"), of("c"), of("d"));
        let inner = r#"{"role":"assistant","content":[{"role":"user","content":"no"}"#;
        for (text, due, lost) in [
            (format!("[{a}]\n[{b},{c}]\n{d}"), "abcd", 2),
            (format!("{a}\n[{b},{c}]\n{d}"), "abcd", 1),
            (format!("[{a}]}},{b},{c}]"), "abc", 4),
            (format!("[{a},}},{b},{c}]"), "abc", 1),
            (format!("[{a},oops {b},{c}]"), "abc", 1),
            (format!("[{a},[{b},{c}],{d}]"), "abcd", 1),
            (format!("[{a},[[{b}],{c},{d}"), "abcd", 2),
            (format!("[{a},[],{b}]"), "ab", 1),
            (format!("[{a},[{b},{c}]"), "abc", 2),
            (format!("{a}\njunk {b}\n{c}"), "abc", 1),
            (format!("log: {a} {b}\n2026-01-01 12:00 {c}"), "abc", 2),
            (format!("{a} {inner}}} {b}\n{c}"), "abc", 1),
            (format!("{a}\n{inner}\n{c}"), "ac", 1),
            (format!("{{\"role\":\"user\" \"content\":\"x\"}} {a}\n{b}"), "ab", 1),
            (format!("{{\"messages\":[{a}]}} {b}\n[{c}]"), "abc", 2),
            (format!("{{\"messages\":[{a},[{b},{c}]}}"), "abc", 2),
        ] {
            assert_eq!(taken(TranscriptFormat::OpenAi, &text), (due.to_owned(), lost), "{text}");
        }
    }

    #[test]
    fn takes_messages_with_additional_commas() {
        let b = r#"{"role":"user","content":"b"}"#;
        for a in [
            r#"{"role":"user","content":"a",}"#,
            r#"{"role":"user","content":"a" , }"#,
            r#"{,"role":"user","content":"a"}"#,
            r#"{"role":"user",,"content":"a"}"#,
            r#"{"role":"user","more":[1,,"\",]",{},],"content":"a",}"#,
            "{\n  \"role\": \"user\",\n  \"content\": \"a\",\n}",
        ] {
            for text in [
                format!("[{a},{b}]"),
                format!("[{a},\n{b},]"),
                format!("[{b},{a}]").replace("\"b\"", "\"\""),
                format!("{a}\n{b}"),
                format!("{{\"messages\":[{a},{b}],}}"),
            ] {
                let (texts, lost) = taken(TranscriptFormat::OpenAi, &text);
                assert!("ab".starts_with(&texts) && texts.starts_with('a'), "{text}: {texts}");
                assert_eq!(lost, usize::from(text.ends_with(",}")), "{text}");
            }
        }
        // Another flaw stays one.
        let text = format!(r#"[{{"role":"user" "content":"a",}},{b}]"#);
        assert_eq!(taken(TranscriptFormat::OpenAi, &text), ("b".to_owned(), 1));
    }

    #[test]
    fn takes_messages_of_several_bodies() {
        let of = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let (a, b, c) = (of("a"), of("b"), of("c"));
        for (text, due, lost) in [
            (format!("{{\"messages\":[{a}]}}\n{{\"messages\":[{b},{c}]}}\n"), "abc", 2),
            (format!("{{\"messages\":[{a}]}}\n{{\"model\":\"m\",\"messages\":[{b},{c}"), "abc", 3),
            (format!("{a}\n{{\"messages\":[{b}]}}\n{c}"), "abc", 1),
            (format!("{a}\n{{\"messages\":[{b}],\"x\" 7}}\n{c}"), "abc", 2),
            (format!("{a}\n{{\"messages\":[{b},]}}\n{c}"), "abc", 1),
            (format!("[{{\"messages\":[{a}]}},{{\"messages\":[{b}]}},{c}]"), "abc", 2),
            (format!("[{{\"messages\":[{a},{b}]}},{{\"messages\":[{c},"), "abc", 3),
            (format!("{{\"messages\":[{{\"messages\":[{a}]}},{b},{c}]}}"), "abc", 1),
        ] {
            assert_eq!(taken(TranscriptFormat::OpenAi, &text), (due.to_owned(), lost), "{text}");
        }
        let text = format!("{{\"messages\":[{a}]}}\n{{\"system\":\"s\",\"messages\":[{b}]}}");
        assert_eq!(taken(TranscriptFormat::Anthropic, &text), ("asb".to_owned(), 2));
    }

    #[test]
    fn takes_messages_of_bodies_with_additional_commas() {
        let of = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let (a, b, c, d) = (of("a"), of("b"), of("c"), of("d"));
        for between in [",", ", ", ",\n", ",\n  ", "\n,\n", "\n", ",,\n"] {
            for comma in ["", ",", " , ", ",,"] {
                let texts = [
                    format!("{{\"messages\":[{a}{comma}]}}{between}{{\"messages\":[{b}]{comma}}}{between}"),
                    format!("{{\"messages\":[{a}]{comma}}}{between}{{\"messages\":[{b},]{comma}}}{between}"),
                    format!("{{\"m\":1,{comma}\"messages\":[{a}]}}{between}{{\"messages\":[{b}]}}{between}"),
                    format!("{{\"m\":1,\"messages\":[{a}]}}{between}{{{comma}\"messages\":[{b}]}}{between}"),
                ];
                // An empty element is not an additional comma.
                for text in texts.iter().filter(|text| !text.contains(",,]")) {
                    let text = format!("{text}{{\"n\":[1],{comma}\"messages\":[{c},{d}]}}");
                    assert_eq!(taken(TranscriptFormat::OpenAi, &text).0, "abcd", "{text}");
                }
            }
        }
        let (one, two) = (format!("{{\"messages\":[{a}],}}"), format!("{{\"messages\":[{b}],,}}"));
        for text in [
            format!("[{one},{two},{{\"m\":1,,\"messages\":[{c}]}}]"),
            format!("{{\"messages\":[{a}],\"x\" 7}}\n{{\"messages\":[{b}]}},{c}"),
        ] {
            assert_eq!(taken(TranscriptFormat::OpenAi, &text).0, "abc", "{text}");
        }
        let text = format!("{{\"system\":\"s\",\"messages\":[{a}],}},{{\"messages\":[{b}]}}");
        assert_eq!(taken(TranscriptFormat::Anthropic, &text).0, "sab");
    }

    #[test]
    fn takes_values_of_several_lines_beside_broken_ones() {
        let of = |text: &str| format!("{{\n  \"role\": \"user\",\n  \"content\": \"{text}\"\n}}\n");
        let text = format!("{}{{\n  \"role\" 7,\n  \"content\": [\n    {{}}\n  ]\n}}\n{}", of("a"), of("b"));
        assert_eq!(taken(TranscriptFormat::OpenAi, &text), ("ab".to_owned(), 1));
    }

    #[test]
    fn broken_text_costs_no_more_than_its_length() {
        for part in [
            "{,",
            "{\"a\":[\n",
            "\"",
            "{\"a\":\n",
            "\n{\"role\":[",
            "{\"a\":1 \"b\":2,",
            "[",
            "[{]",
            "x {",
            "[{\"a\":[\n",
            "{\"messages\":[",
            "{\"messages\":[{}",
            "{\"a\":1,},",
            "{\"a\":1,,[",
        ] {
            let text = part.repeat(200_000);
            split(TranscriptFormat::OpenAi, &format!("[{text}")).unwrap();
            split(TranscriptFormat::OpenAi, &text).unwrap();
        }
    }
}
