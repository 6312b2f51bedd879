//! The index of what was moved out of the window of a model.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::files::Log;

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swapped {
    /// `sha256-` and the hash of what was moved out.
    pub id: String,
    /// `message_range`, `tool_output`, `events` or `file`.
    pub kind: String,
    /// `messages.jsonl`, `events.jsonl` or the path of a file.
    pub source: String,
    /// Its lines, `1-120`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// The event, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// What it is, in few words.
    pub summary: String,
    /// How many tokens it has.
    pub tokens: u64,
    /// Whether its head and tail are shown: a pack cut it to fit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Swapped {
    /// The lines of messages that it takes out of the window.
    pub(crate) fn lines(&self) -> Option<RangeInclusive<u64>> {
        let (first, last) = self.range.as_deref()?.split_once('-')?;
        let lines = first.parse().ok()?..=last.parse().ok()?;
        Some(lines).filter(|_| self.source == Log::Messages.file())
    }

    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// The lines of an index. What is none is left out.
pub(crate) fn parse_index(text: &str) -> Vec<Swapped> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
