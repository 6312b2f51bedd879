//! `pack.json`: the sources of a pack, so that it can be inspected, compared and built again.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::render::Cut;
use garth_engine::model::VersionId;

/// Version of the format of packs. Another version builds other bytes from the same sources.
pub(super) const FORM: u32 = 1;

/// Version of the rules by which lists take images. 0: by the declared type; 1: by the content of the image
/// and the limits of the provider.
pub(super) const IMAGES: u32 = 1;

/// Description of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(deny_unknown_fields)]
pub struct Pack {
    /// Name of the session.
    pub session: String,
    /// Agent.
    pub agent: String,
    /// Token budget, reserved tokens included; 0: no limit.
    pub budget_tokens: u64,
    /// Parts of the pack, in their order.
    pub items: Vec<Item>,
    /// Tokens of all parts.
    pub tokens: u64,
    /// Encoding by which tokens are counted.
    pub tokenizer: String,
    /// True if some tokens are estimated: those of images. Missing if none are.
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
    /// Version of the rules by which message lists take images, 1; 0 in packs of older versions of garth.
    #[serde(default)]
    pub images: u32,
    /// Version of the detection of secrets. Missing in packs of the first version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<u32>,
    /// Time at which the pack was built; RFC 3339.
    pub built_at: String,
}

/// Part of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "PackItem", deny_unknown_fields)]
pub struct Item {
    /// Kind: `system`, `pinned`, `summary`, `facts`, `decisions`, `todo`, `refs`, `recent_messages`,
    /// `child_result` or `expanded`.
    pub kind: String,
    /// File of the session, or an absolute path.
    pub source: String,
    /// Lines of the source, such as `12-40`. Missing if the part is the complete source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Tokens of the part, as the model gets it.
    pub tokens: u64,
    /// Version of the file. Missing for the logs, which only grow.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// SHA-256 of the bytes of the source.
    pub sha256: String,
    /// Byte range in the file: start and end.
    pub bytes: [u64; 2],
    /// Id of the reference that the part expands. Missing for other parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// Tokens of the budget that are not available to the pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PackReserved", deny_unknown_fields)]
pub struct Reserved {
    /// Tokens reserved for the system prompt, before the pack.
    pub prompt_tokens: u64,
    /// Tokens reserved for definitions of tools.
    pub tool_tokens: u64,
    /// Tokens reserved for the answer of the model.
    pub output_tokens: u64,
}

impl Reserved {
    /// Returns their sum.
    pub fn all(self) -> u64 {
        self.prompt_tokens.saturating_add(self.tool_tokens).saturating_add(self.output_tokens)
    }
}

/// Omitted part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "PackOmission", deny_unknown_fields)]
pub struct Omitted {
    /// Kind, as of items.
    pub kind: String,
    /// File of the session, or an absolute path.
    pub source: String,
    /// Lines of the source. Missing if the complete source is omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Reason: `budget`, `older`, `retracted`, `swapped`, `no_call`, `too_large` or `too_many`.
    pub reason: String,
}

/// Window of recent messages of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "PackWindow", deny_unknown_fields)]
pub struct Window {
    /// First line. It stays the same until the messages no longer fit.
    pub from: u64,
    /// Last line.
    pub to: u64,
    /// Last line of the system messages at the beginning of the session that precede the window. Missing if
    /// there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lead: u64,
    /// Line of the last message of the user, if it precedes the window. Missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// Results of which only head and tail are shown. Missing if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<Cut>,
    /// Number of events when the pack was built. Later ones retract nothing from it.
    pub events: u64,
    /// Version of the swap index. Missing if it had no entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub swapped: Option<VersionId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Stable prefix of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PackPrefix", deny_unknown_fields)]
pub struct Prefix {
    /// Length in bytes of the form `markdown`.
    pub bytes: u64,
    /// Tokens of the prefix.
    pub tokens: u64,
    /// SHA-256 of these bytes.
    pub sha256: String,
}

/// Digest of an output format of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PackDigest", deny_unknown_fields)]
pub struct Digest {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub sha256: String,
}
