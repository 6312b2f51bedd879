//! A prompt with its parts: what is in it, what is not, and why.

use std::ops::Range;

use serde::Serialize;

use super::inputs::Inputs;
use crate::time_zone::Day;
use garth_engine::model::{Seq, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// A prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// The agent.
    pub agent: String,
    /// The class of the session that it is for: what it may hold depends on that.
    pub class: String,
    /// Whether it is that of a first run.
    pub bootstrap: bool,
    /// What the model gets, in Markdown.
    pub text: String,
    /// How many tokens that has.
    pub tokens: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// What it is made of, in order, and what is not in it.
    pub parts: Vec<Part>,
    /// What comes first and stays from call to call.
    pub stable: Stable,
    /// The commit after which all of its files were read.
    pub seq: Seq,
    /// What the caller said, with the time.
    pub inputs: Inputs,
    /// The id of the event that tells of it.
    pub event: Option<String>,
    /// What was told of it when it was built first.
    pub replayed: Option<Replayed>,
    /// Days of the audience that a main session does not find yet, as they were written as files.
    pub(super) unmarked: Vec<(TreePath, VersionId, Day)>,
    /// Whether the session's prompt is to stay like this.
    pub(super) pins: bool,
    /// Whether sessions of the agent are reset by themselves.
    pub(super) resets: bool,
    /// When its files were read: what had expired by then is not in it.
    pub(super) read_at: Timestamp,
}

/// A part of a prompt, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// Its name: `base`, `bootstrap`, `soul`, `identity`, `user`, `agents`, `fragments`, `memory`,
    /// `yesterday`, `today`, `tools`, `heartbeat`, `skills`, `runtime` or `changes`.
    pub name: &'static str,
    /// The section that it is in.
    pub section: &'static str,
    /// The file that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<TreePath>,
    /// The version of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// The SHA-256 of its content; of a day's memory, of what of it is for the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How many tokens it adds, with its heading and what is between it and the next; 0 if it is not there.
    /// Those of all parts are those of the prompt.
    pub tokens: u64,
    /// Whether it is in the prompt.
    pub included: bool,
    /// Why it is, or is not.
    pub reason: String,
    /// Where it is in the text of the prompt, in bytes; the heading of its section is before it.
    #[serde(skip)]
    pub range: Range<usize>,
}

impl Part {
    /// A part that is not there.
    pub(super) fn none(name: &'static str, reason: &str) -> Self {
        let (reason, section) = (reason.to_owned(), section(name));
        let (file, version, sha256) = (None, None, None);
        Self { name, section, file, version, sha256, tokens: 0, included: false, reason, range: 0..0 }
    }
}

/// The part of a prompt before the first section that changes from call to call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stable {
    /// How many bytes it has.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
}

/// A prompt that was built before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Replayed {
    /// The event that told of it.
    pub event: String,
    /// When it was built.
    pub built_at: String,
    /// The SHA-256 that it had.
    pub sha256: String,
    /// Whether it is the same again. It may not be if another version of garth built it.
    pub same: bool,
}

/// The heading of the section of a part; the first has none.
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
