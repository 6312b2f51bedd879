//! Messages of a transcript as they were written, each with its place.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::format::TranscriptFormat;
use super::markdown::Section;
use garth_engine::error::{Error, Result};

/// One message of a transcript, as it was written.
pub(super) enum RawMessage<'a> {
    Native(Cow<'a, RawValue>),
    Section(Section),
}

/// A message, and where it begins.
pub(super) struct Placed<'a> {
    /// Line of the text; the first is 1. 0 for the system prompt of an object, which is a field and not a
    /// message.
    pub(super) line: u64,
    pub(super) message: Result<RawMessage<'a>>,
    /// Flaw next to a message that can be read.
    pub(super) flaw: Option<&'static str>,
}

impl Placed<'_> {
    pub(super) fn bad(line: u64, error: Error) -> Self {
        Self { line, message: Err(error), flaw: None }
    }
}

/// Counts the lines of a text up to a position. Positions must be given in ascending order.
pub(super) struct LineCounter<'a> {
    text: &'a str,
    at: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    pub(super) fn new(text: &'a str, line: u64) -> Self {
        Self { text, at: 0, line }
    }

    /// Returns the line of the first character at or after `at` that is not white space.
    pub(super) fn line_from(&mut self, at: usize) -> u64 {
        let rest = &self.text[at..];
        let first = at + rest.len() - rest.trim_start().len();
        self.line +=
            self.text.as_bytes()[self.at..first].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = first;
        self.line
    }
}

/// Returns the error for a message that is not JSON.
pub(super) fn no_json(error: &serde_json::Error) -> Error {
    // The position is left out: the line is always 1, and a column does not help in a line of a megabyte.
    let said = error.to_string();
    let what = said.split(" at line ").next().unwrap_or(&said);
    let half = if error.is_eof() { ": it is cut off" } else { "" };
    Error::invalid(format!("is no JSON ({what}){half}"))
}

/// Returns the field of an object with the system prompt, if it has one. `None` for a format without objects.
pub(super) fn system_field(format: TranscriptFormat) -> Option<Option<&'static str>> {
    match format {
        TranscriptFormat::Pi => Some(Some("systemPrompt")),
        TranscriptFormat::Anthropic => Some(Some("system")),
        TranscriptFormat::OpenAi => Some(None),
        TranscriptFormat::Garth | TranscriptFormat::Markdown => None,
    }
}

/// Returns the messages of an object, the system prompt first.
pub(super) fn conversation<'a>(system: Option<&RawValue>, messages: Vec<Placed<'a>>) -> Vec<Placed<'a>> {
    let Some(system) = system.filter(|system| system.get() != "null") else { return messages };
    let text = format!(r#"{{"role":"system","content":{}}}"#, system.get());
    let message = RawValue::from_string(text).map_err(|error| no_json(&error));
    let message = message.map(|raw| RawMessage::Native(Cow::Owned(raw)));
    let mut all = vec![Placed { line: 0, message, flaw: None }];
    all.extend(messages);
    all
}
