//! Prompt and its parts, included and omitted ones, with the reasons.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::inputs::Inputs;
use crate::time_zone::Day;
use garth_engine::model::{Seq, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Built prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// Agent.
    pub agent: String,
    /// Class of the session, on which the permitted parts depend.
    pub class: String,
    /// True for the prompt of a first run.
    pub bootstrap: bool,
    /// Text for the model, in Markdown.
    pub text: String,
    /// Number of tokens of the text.
    pub tokens: u64,
    /// SHA-256 of the text.
    pub sha256: String,
    /// Parts in their order, followed by those that are omitted.
    pub parts: Vec<Part>,
    /// Prefix that does not change between calls.
    pub stable: Stable,
    /// Commit after which all files were read.
    pub seq: Seq,
    /// Inputs of the caller, with the time.
    pub inputs: Inputs,
    /// Id of the event that records it.
    pub event: Option<String>,
    /// Record of the first build, for a replayed prompt.
    pub replayed: Option<Replayed>,
    /// Days of the audience that were written as plain files and are not marked for main sessions yet.
    pub(super) unmarked: Vec<(TreePath, VersionId, Day)>,
    /// True if the session's prompt is to be pinned.
    pub(super) pins: bool,
    /// True if sessions of the agent are reset by a policy.
    pub(super) resets: bool,
    /// Time at which its files were read. Files that had expired by then are not in it.
    pub(super) read_at: Timestamp,
}

/// Part of a prompt, or the reason for its absence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "PromptPart", deny_unknown_fields)]
pub struct Part {
    /// Name: `base`, `bootstrap`, `soul`, `identity`, `user`, `agents`, `fragments`, `memory`, `yesterday`,
    /// `today`, `others`, `tools`, `heartbeat`, `skills`, `runtime` or `changes`.
    pub name: &'static str,
    /// Heading of the section that contains the part; empty for the first section.
    pub section: &'static str,
    /// File of the text. Missing for a part without a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub file: Option<TreePath>,
    /// Version of the content of the file. Missing for a part without a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub version: Option<VersionId>,
    /// SHA-256 of the content of the file. Missing for a part without a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Number of tokens that it adds, with its heading and the separator after it; 0 if it is omitted. The
    /// sum over all parts is that of the prompt.
    pub tokens: u64,
    /// True if the part is in the prompt.
    pub included: bool,
    /// Reason why the part is included or omitted, a text for people.
    pub reason: String,
    /// Range in the text of the prompt, in bytes, after the heading of its section.
    #[serde(skip)]
    pub range: Range<usize>,
}

impl Part {
    /// Returns an omitted part.
    pub(super) fn none(name: &'static str, reason: &str) -> Self {
        let (reason, section) = (reason.to_owned(), section(name));
        let (file, version, sha256) = (None, None, None);
        Self { name, section, file, version, sha256, tokens: 0, included: false, reason, range: 0..0 }
    }
}

/// Prefix of a prompt before the first section that may change between calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "PromptPrefix", deny_unknown_fields)]
pub struct Stable {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the prefix.
    pub sha256: String,
}

/// Record of a prompt that was built before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "PromptReplay", deny_unknown_fields)]
pub struct Replayed {
    /// Id of the event that records the prompt.
    pub event: String,
    /// Time at which the prompt was built; RFC 3339.
    pub built_at: String,
    /// SHA-256 of the text as it was built.
    pub sha256: String,
    /// True if the replay yields the same text. It may not if another version of garth built it.
    pub same: bool,
}

/// Returns the heading of the section of a part; the first has none.
pub(super) fn section(part: &str) -> &'static str {
    match part {
        "bootstrap" => "Commissioning Ceremony",
        "soul" => "Your Soul",
        "identity" => "Your Identity",
        "user" => "About Your Human",
        "agents" | "fragments" => "Operating Instructions",
        "memory" => "Long-Term Memory",
        "yesterday" | "today" | "others" => "Recent Context",
        "tools" => "Tool Notes",
        "heartbeat" => "Heartbeats",
        "skills" => "Skills (Mandatory Scan)",
        "runtime" => "Runtime",
        "changes" => "Changes",
        _ => "",
    }
}
