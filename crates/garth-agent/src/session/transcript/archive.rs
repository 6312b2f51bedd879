//! Reads lines of an archive, which are messages of pi-ai, as messages of a session.

use serde_json::value::RawValue;

use super::export::anew;
use super::format::TranscriptFormat;
use super::ids::message_id;
use super::read::read;
use crate::session::log::message::Message;
use crate::session::render::{RenderRules, Renderer};
use garth_engine::error::{Error, ErrorKind, Result};

/// The messages of a line of an archive. Their ids follow from the line's number and text.
///
/// # Errors
/// `Corrupt` for what is no message of pi-ai.
pub(crate) fn archived_messages(number: u64, line: &str) -> Result<Vec<(u64, Message)>> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Corrupt, format!("line {number} is no message of pi-ai: {error}"))
    };
    archived_lines(number, line)?
        .iter()
        .map(|line| Message::parse(line).map(|message| (number, message)).map_err(|error| bad(&error)))
        .collect()
}

/// The same as lines of `messages.jsonl`.
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
        // when it was said is not invented
        if draft.has("created_at") { draft } else { draft.with("created_at", "") }
    });
    Ok(drafts.map(|draft| draft.line()).collect())
}

/// Messages of an archive, written in a format.
pub(crate) fn archived_in(format: TranscriptFormat, messages: &[(u64, Message)]) -> Vec<String> {
    anew(format, messages)
}

/// What a line of an archive says, as a model is shown it, message by message, each with its tokens.
///
/// # Errors
/// As [`archived_messages`].
pub(crate) fn archived_said(number: u64, line: &str) -> Result<Vec<(String, u64)>> {
    let mut show = Renderer::new(RenderRules::default());
    let messages = archived_messages(number, line)?.into_iter();
    Ok(messages
        .map(|(number, message)| show.all_of(number, message))
        .map(|shown| (shown.text, shown.tokens))
        .collect())
}
