//! Reads one message of any format of JSON.

use serde_json::value::RawValue;

use super::blocks::ParsedMessage;
use super::format::TranscriptFormat;
use super::surrogates::whole_pairs;
use super::{anthropic, openai, pi};
use garth_engine::error::{Error, Result};

/// Parses a message of a format into the messages of a session that stand for it.
pub(super) fn read(format: TranscriptFormat, raw: &RawValue) -> Result<Vec<ParsedMessage>> {
    if let Some(text) = whole_pairs(raw.get()) {
        let raw = RawValue::from_string(text).map_err(|error| Error::invalid(error.to_string()))?;
        return read_whole(format, &raw);
    }
    read_whole(format, raw)
}

fn read_whole(format: TranscriptFormat, raw: &RawValue) -> Result<Vec<ParsedMessage>> {
    garth_engine::rule::json::read(raw.get().as_bytes()).map_err(|flaw| Error::invalid(flaw.to_string()))?;
    if !raw.get().trim_start().starts_with('{') {
        return Err(Error::invalid("has to be a JSON object"));
    }
    match format {
        TranscriptFormat::Pi => pi::read(raw),
        TranscriptFormat::OpenAi => openai::read(raw),
        TranscriptFormat::Anthropic => anthropic::read(raw),
        TranscriptFormat::Garth | TranscriptFormat::Markdown => Ok(Vec::new()),
    }
}

/// Returns true if some messages of a session are all that are derived from a native line. A line that this
/// version cannot read has no others.
pub(super) fn is_whole(format: TranscriptFormat, line: &str, parts: usize) -> bool {
    let said = serde_json::from_str::<&RawValue>(line).ok().and_then(|raw| read(format, raw).ok());
    said.is_none_or(|said| said.len() == parts)
}
