//! `pack.json`: what a pack is made of, so that it can be looked at, compared and built again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::session::render::Cut;
use garth_engine::model::VersionId;

/// The form of packs: another one builds other bytes of the same sources.
pub(super) const FORM: u32 = 1;

/// What a pack is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pack {
    /// The session.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// How many tokens it may have, with what is reserved; 0: as many as there are.
    pub budget_tokens: u64,
    /// What is in it, in its order.
    pub items: Vec<Item>,
    /// Of what it has how many tokens, all together.
    pub tokens: u64,
    /// By whose count.
    pub tokenizer: String,
    /// Whether some are estimated: pictures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// What is left free of the budget for what else the model gets and gives.
    pub reserved: Reserved,
    /// What did not come in, and why.
    pub omitted: Vec<Omitted>,
    /// The recent messages.
    pub window: Window,
    /// What stays as it is, from the beginning, until the window moves.
    pub prefix: Prefix,
    /// Each form in which it is given, by name: `markdown`, `openai`, `anthropic`.
    pub forms: BTreeMap<String, Digest>,
    /// The form of packs that it is of, 1.
    pub form: u32,
    /// When it was built; RFC 3339.
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
    /// Its lines, `12-40`, if it is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// How many tokens it has, as it is shown.
    pub tokens: u64,
    /// The version of the file. Lines that only grow have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// The SHA-256 of the bytes of the source.
    pub sha256: String,
    /// Where they lie in the file: from, to.
    pub bytes: [u64; 2],
    /// The entry of `refs.jsonl` that it expands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// Tokens that are left free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// For what comes before the pack.
    pub prompt_tokens: u64,
    /// For definitions of tools.
    pub tool_tokens: u64,
    /// For the answer.
    pub output_tokens: u64,
}

impl Reserved {
    /// All of them.
    pub fn all(self) -> u64 {
        self.prompt_tokens.saturating_add(self.tool_tokens).saturating_add(self.output_tokens)
    }
}

/// What did not come in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Omitted {
    /// As of items.
    pub kind: String,
    /// A file of the session, or an absolute path.
    pub source: String,
    /// Its lines, if it is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// `budget`, `older`, `withdrawn`, `swapped`, `no_call`, `too_large` or `missing`.
    pub reason: String,
}

/// The recent messages of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Window {
    /// The line that they begin at; it stays until they do not fit any more.
    pub from: u64,
    /// The last line.
    pub to: u64,
    /// The last line of the user, if that lies before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// Results of which the head and the tail are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<Cut>,
    /// How many events there were: later ones withdraw nothing of it.
    pub events: u64,
    /// The version of the swap index, if it had any entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swapped: Option<VersionId>,
}

/// The beginning of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// How many bytes of `pack.md`.
    pub bytes: u64,
    /// How many tokens.
    pub tokens: u64,
    /// Their SHA-256.
    pub sha256: String,
}

/// A form of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// How many bytes.
    pub bytes: u64,
    /// Their SHA-256.
    pub sha256: String,
}
