//! Reads the lines of an archive, which are messages of pi-ai, as messages of a session.

use serde_json::value::RawValue;

use super::export::anew;
use super::format::TranscriptFormat;
use super::ids::message_id;
use super::read::read;
use crate::count::Counter;
use crate::session::log::message::Message;
use crate::session::render::whole;
use garth_engine::error::{Error, ErrorKind, Result};

/// Returns the messages of a line of an archive. Their ids are derived from the number and the text of the
/// line.
///
/// # Errors
/// `Corrupt` for a line that is not a message of pi-ai.
pub(crate) fn archived_messages(number: u64, line: &str) -> Result<Vec<(u64, Message)>> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Corrupt, format!("line {number} is no message of pi-ai: {error}"))
    };
    archived_lines(number, line)?
        .iter()
        .map(|line| Message::parse(line).map(|message| (number, message)).map_err(|error| bad(&error)))
        .collect()
}

/// Returns the messages of a line of an archive as lines of `messages.jsonl`.
///
/// # Errors
/// As [`archived_messages`].
pub(crate) fn archived_lines(number: u64, line: &str) -> Result<Vec<String>> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Corrupt, format!("line {number} is no message of pi-ai: {error}"))
    };
    let raw: &RawValue = serde_json::from_str(line).map_err(|error| bad(&error))?;
    let said = read(TranscriptFormat::Pi, raw).map_err(|error| bad(&error))?;
    let drafts = (0..).zip(&said).map(|(part, said)| {
        let draft = said.draft().with("id", &message_id(TranscriptFormat::Pi, line, number, part));
        // No time is invented for a message without one.
        if draft.has("created_at") { draft } else { draft.with("created_at", "") }
    });
    Ok(drafts.map(|draft| draft.line()).collect())
}

/// Writes messages of an archive in a format.
pub(crate) fn archived_in(format: TranscriptFormat, messages: &[(u64, Message)]) -> Vec<String> {
    anew(format, messages)
}

/// Returns the messages of a line of an archive as text for a model, each with its tokens.
///
/// # Errors
/// As [`archived_messages`].
pub(crate) fn archived_said(number: u64, line: &str) -> Result<Vec<(String, u64)>> {
    let messages = archived_messages(number, line)?.into_iter();
    Ok(messages
        .map(|(number, message)| whole(number, message, &Counter::default()))
        .map(|shown| (shown.text, shown.tokens))
        .collect())
}
