//! Splits a transcript into its messages, each as it came.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::format::TranscriptFormat;
use super::markdown::{self, Section};
use garth_engine::compute::working;
use garth_engine::error::{Error, Result};

/// One message of a transcript, as it was written.
pub(super) enum RawMessage<'a> {
    Native(Cow<'a, RawValue>),
    Section(Section),
}

/// Splits a transcript. JSON comes as consecutive values, such as JSON Lines, as one array, or, in the
/// formats that have it, as one object with the system prompt and the messages.
pub(super) fn split(format: TranscriptFormat, text: &str) -> Result<Vec<RawMessage<'_>>> {
    working(text.len());
    if format == TranscriptFormat::Markdown {
        return Ok(markdown::read(text)?.into_iter().map(RawMessage::Section).collect());
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('[') {
        return array(text);
    }
    let mut given = Vec::new();
    for (number, value) in (1..).zip(serde_json::Deserializer::from_str(text).into_iter::<&RawValue>()) {
        let value =
            value.map_err(|error| Error::invalid(format!("message {number}: is no JSON: {error}")))?;
        given.push(RawMessage::Native(Cow::Borrowed(value)));
    }
    if let [RawMessage::Native(Cow::Borrowed(only))] = &*given
        && let Some(whole) = object(format, only)?
    {
        return Ok(whole);
    }
    Ok(given)
}

fn array(text: &str) -> Result<Vec<RawMessage<'_>>> {
    let values: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|error| Error::invalid(format!("the transcript is no array of JSON objects: {error}")))?;
    Ok(values.into_iter().map(|value| RawMessage::Native(Cow::Borrowed(value))).collect())
}

/// Returns the messages of an object that has them, the system prompt first.
fn object(format: TranscriptFormat, raw: &RawValue) -> Result<Option<Vec<RawMessage<'_>>>> {
    let system_field = match format {
        TranscriptFormat::Pi => Some("systemPrompt"),
        TranscriptFormat::Anthropic => Some("system"),
        TranscriptFormat::OpenAi => None,
        TranscriptFormat::Garth | TranscriptFormat::Markdown => return Ok(None),
    };
    let Ok(mut fields) = serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(raw.get()) else {
        return Ok(None);
    };
    let Some(messages) = fields.remove("messages").filter(|_| !fields.contains_key("role")) else {
        return Ok(None);
    };
    let system = system_field.and_then(|field| fields.remove(field));
    if let Some(other) = fields.keys().next() {
        let due = system_field.map_or("messages".to_owned(), |field| format!("{field} and messages"));
        return Err(Error::invalid(format!("the transcript has a field {other}; leave only {due}")));
    }
    let mut given = Vec::new();
    if let Some(system) = system.filter(|system| system.get() != "null") {
        let line = format!(r#"{{"role":"system","content":{}}}"#, system.get());
        let line = RawValue::from_string(line).map_err(|error| Error::invalid(error.to_string()))?;
        given.push(RawMessage::Native(Cow::Owned(line)));
    }
    given.extend(array(messages.get())?);
    Ok(Some(given))
}
