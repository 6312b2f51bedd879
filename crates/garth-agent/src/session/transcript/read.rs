//! Reads one message of any format of JSON.

use serde_json::value::RawValue;

use super::blocks::ParsedMessage;
use super::format::TranscriptFormat;
use super::{anthropic, openai, pi};
use garth_engine::error::{Error, Result};

/// Parses a message of a format into the messages of a session that stand for it.
pub(super) fn read(format: TranscriptFormat, raw: &RawValue) -> Result<Vec<ParsedMessage>> {
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
