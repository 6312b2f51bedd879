//! The index of content that was swapped out of the context window.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::Log;
use garth_engine::error::Result;

/// Content that was swapped out of packs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SwappedContent", deny_unknown_fields)]
pub struct Swapped {
    /// Id: `sha256-` and the hash of the content.
    pub id: String,
    /// Kind: `message_range`, `tool_output`, `events` or `file`.
    pub kind: String,
    /// Source: `messages.jsonl`, `events.jsonl` or the path of a file, in the session's own tree.
    pub source: String,
    /// Lines of the source, such as `1-120`. Missing for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Id of the event, if the content is one event. Missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Summary, one line; may be empty.
    pub summary: String,
    /// Tokens of the content.
    pub tokens: u64,
    /// True if a pack swapped the content out and shows its head and tail, because it did not fit. Missing
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl crate::once::Outcome for Swapped {}

impl Swapped {
    /// Returns the lines of messages that this entry removes from the window.
    pub(crate) fn lines(&self) -> Option<RangeInclusive<u64>> {
        let (first, last) = self.range.as_deref()?.split_once('-')?;
        let lines = first.parse().ok()?..=last.parse().ok()?;
        Some(lines).filter(|_| self.source == Log::Messages.file())
    }

    /// Returns true if this entry removes a line of messages from the window.
    pub(crate) fn hides(&self, line: u64) -> bool {
        // An entry with `cut` removes nothing: the pack shows part of the result, and the entry locates all
        // of it.
        !self.cut && self.lines().is_some_and(|lines| lines.contains(&line))
    }

    pub(crate) fn line(&self) -> Result<String> {
        crate::small_file::line(self)
    }
}

/// Parses an index. Invalid lines are left out.
pub(crate) fn parse_index(text: &str) -> Vec<Swapped> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
