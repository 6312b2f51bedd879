//! `pack.json`: the sources of a pack, so that it can be inspected, compared and built again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::session::render::Cut;
use garth_engine::model::VersionId;

/// Version of the format of packs. Another version builds other bytes from the same sources.
pub(super) const FORM: u32 = 1;

/// Version of the rules by which lists take images. 0: by the declared type; 1: by the content of the image
/// and the limits of the provider.
pub(super) const IMAGES: u32 = 1;

/// Description of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pack {
    /// Session.
    pub session: String,
    /// Agent.
    pub agent: String,
    /// Token budget, reserved tokens included; 0: no limit.
    pub budget_tokens: u64,
    /// Its parts, in their order.
    pub items: Vec<Item>,
    /// Tokens of all parts.
    pub tokens: u64,
    /// Encoding by which tokens are counted.
    pub tokenizer: String,
    /// True if some tokens are estimated: those of images.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Tokens of the budget that are reserved for other input of the model, and for its answer.
    pub reserved: Reserved,
    /// Omitted parts, with the reason.
    pub omitted: Vec<Omitted>,
    /// Window of recent messages.
    pub window: Window,
    /// Prefix that stays the same until the window moves.
    pub prefix: Prefix,
    /// Digests of its output formats, by name: `markdown`, `openai`, `anthropic`.
    pub forms: BTreeMap<String, Digest>,
    /// Version of the format of packs, 1.
    pub form: u32,
    /// Version of the rules by which its lists take images, 1; 0 in packs from before there was a version.
    #[serde(default)]
    pub images: u32,
    /// Version of the judgement of secrets; packs without it have the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<u32>,
    /// Time at which it was built; RFC 3339.
    pub built_at: String,
}

/// A part of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Item {
    /// `system`, `pinned`, `summary`, `facts`, `decisions`, `todo`, `refs`, `recent_messages`, `child_result`
    /// or `expanded`.
    pub kind: String,
    /// A file of the session, or an absolute path.
    pub source: String,
    /// Its lines, such as `12-40`, if it is only a part of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Tokens, as it is shown.
    pub tokens: u64,
    /// Version of the file; `None` for the logs, which only grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// SHA-256 of the bytes of the source.
    pub sha256: String,
    /// Byte range in the file: start, end.
    pub bytes: [u64; 2],
    /// Entry of `refs.jsonl` that it expands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// Reserved tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// For the system prompt, before the pack.
    pub prompt_tokens: u64,
    /// For definitions of tools.
    pub tool_tokens: u64,
    /// For the answer.
    pub output_tokens: u64,
}

impl Reserved {
    /// Returns their sum.
    pub fn all(self) -> u64 {
        self.prompt_tokens.saturating_add(self.tool_tokens).saturating_add(self.output_tokens)
    }
}

/// An omitted part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Omitted {
    /// Kind, as of items.
    pub kind: String,
    /// A file of the session, or an absolute path.
    pub source: String,
    /// Its lines, if it is only a part of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// `budget`, `older`, `retracted`, `swapped`, `no_call`, `too_large` or `too_many`.
    pub reason: String,
}

/// Window of recent messages of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Window {
    /// First line. It stays the same until the messages no longer fit.
    pub from: u64,
    /// Last line.
    pub to: u64,
    /// System messages at the beginning of the session, if the window starts after them: lines 1 to this.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lead: u64,
    /// Line of the last message of the user, if it lies before the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// Results of which only head and tail are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<Cut>,
    /// Number of events at that time. Later ones retract nothing from this pack.
    pub events: u64,
    /// Version of the swap index, if it had entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swapped: Option<VersionId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Stable prefix of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// Bytes of `pack.md`.
    pub bytes: u64,
    /// Tokens.
    pub tokens: u64,
    /// SHA-256 of these bytes.
    pub sha256: String,
}

/// Digest of an output format of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub sha256: String,
}
