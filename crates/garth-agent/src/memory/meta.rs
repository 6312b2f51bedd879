//! Meta of a memory, in its `.meta.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::uri::Uri;
use crate::small_file::pretty;
use garth_engine::error::{Error, Result};
use garth_engine::model::Timestamp;

/// Kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ContextType {
    /// Memory.
    Memory,
    /// Skill.
    Skill,
}

/// Status of a memory. Only an active one is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryStatus")]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// The memory is being written, file by file.
    Pending,
    /// The memory is complete.
    Active,
    /// Files are missing and cannot be restored.
    Broken,
}

impl Status {
    /// Returns the text used in `.meta.json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Active => "ACTIVE",
            Self::Broken => "BROKEN",
        }
    }
}

/// Returns the status of a `.meta.json` as JSON if garth does not know it, or `missing`.
pub(super) fn unknown_status(fields: &Map<String, Value>) -> Option<String> {
    match fields.get("status") {
        None => Some("missing".to_owned()),
        Some(status) => Status::deserialize(status).is_err().then(|| status.to_string()),
    }
}

/// Origin of a layer's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LayerOrigin")]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Given by a client. It is never replaced by a derived text.
    Given,
    /// Derived from the content.
    Derived,
    /// Given for content that has changed since.
    Stale,
}

/// Meta of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryLayer")]
pub struct Layer {
    /// Origin of its text.
    pub origin: Origin,
    /// SHA-256 of the content that it describes, 64 hexadecimal digits.
    pub content_sha256: String,
}

/// Meta of the layers that describe the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryLayers")]
pub struct Layers {
    /// L0, `.abstract.md`.
    #[serde(rename = "abstract")]
    pub brief: Layer,
    /// L1, `.overview.md`.
    pub overview: Layer,
}

/// Entry of a session from which a memory was derived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryProvenance")]
pub struct Provenance {
    /// User of the session.
    pub user: String,
    /// Agent of the session.
    pub agent: String,
    /// Session.
    pub session: String,
    /// Fact or decision in the session.
    pub entry: String,
    /// Lines and files from which the entry was derived, as `messages:3-5`.
    pub sources: Vec<String>,
}

/// Meta of a memory. Fields are written in this order, followed by unknown ones, which are preserved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryMeta")]
pub struct Meta {
    /// URI of the memory.
    pub uri: String,
    /// Memory or skill.
    pub context_type: ContextType,
    /// Category.
    pub category: String,
    /// Number of layers: 3 with abstract, overview and content.
    pub level: u8,
    /// Owner: `user:{id}` or `agent:{id}`.
    pub owner_space: String,
    /// Status.
    pub status: Status,
    /// Time of creation: RFC 3339, UTC, in seconds.
    pub created_at: String,
    /// Time of the last change of text, layers, tags or validity.
    pub updated_at: String,
    /// Version: 1, 2, 3, incremented by these changes.
    pub version: u64,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Meta of its layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Layers>,
    /// URI of the memory that this one replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Start of its validity; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<String>,
    /// End of its validity; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<String>,
    /// Origin of its text, if it was published from a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Unknown fields, which are preserved.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl crate::once::Outcome for Meta {}

impl Meta {
    /// Returns the meta of a new memory.
    pub fn new(uri: &Uri, now: Timestamp) -> Self {
        let now = seconds(now);
        Self {
            uri: uri.to_string(),
            context_type: if uri.is_skill() { ContextType::Skill } else { ContextType::Memory },
            category: uri.category().to_owned(),
            level: 3,
            owner_space: uri.space().to_string(),
            status: Status::Active,
            created_at: now.clone(),
            updated_at: now,
            version: 1,
            tags: Vec::new(),
            layers: None,
            replaces: None,
            valid_from: None,
            valid_to: None,
            provenance: None,
            other: Map::new(),
        }
    }

    /// Parses `.meta.json`.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is not a valid meta.
    pub fn parse(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).map_err(|error| Error::invalid(format!(".meta.json: {error}")))
    }

    /// Returns the text of `.meta.json`.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that has no JSON form.
    pub fn to_json(&self) -> Result<String> {
        pretty(self)
    }

    /// Returns true if the memory is valid at a time: from `valid_from` up to, but without, `valid_to`. A
    /// missing or unreadable bound does not limit it.
    pub fn is_valid_at(&self, time: Timestamp) -> bool {
        let moment = |text: &Option<String>| Timestamp::parse_rfc3339_saturating(text.as_deref()?).ok();
        moment(&self.valid_from).is_none_or(|from| from <= time)
            && moment(&self.valid_to).is_none_or(|to| time < to)
    }
}

/// Returns a time in the form of `.meta.json`: RFC 3339, UTC, in seconds.
pub fn seconds(time: Timestamp) -> String {
    // The first second does not fit completely.
    let whole = Timestamp(time.0.div_euclid(1_000_000_000).saturating_mul(1_000_000_000)).to_rfc3339();
    match whole.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_out_of_range_keeps_its_order() {
        let uri: Uri = "ctx://default/users/ann/memories/events/zoo".parse().unwrap();
        let now = Timestamp(1_800_000_000_000_000_000);
        let meta = Meta::new(&uri, now);
        let text = |text: &str| Some(text.to_owned());
        let (first, last) = ("1066-10-14T00:00:00Z", "9999-12-31T00:00:00Z");
        for (valid_from, valid_to, is_valid) in [
            (text(first), text(last), true),
            (text(last), None, false),
            (None, text(first), false),
            (text("soon"), text("later"), true),
        ] {
            let meta = Meta { valid_from, valid_to, ..meta.clone() };
            assert_eq!(meta.is_valid_at(now), is_valid, "{meta:?}");
        }
    }

    #[test]
    fn first_time_is_shown_in_seconds() {
        assert_eq!(seconds(Timestamp(i64::MIN)), "1677-09-21T00:12:43Z");
        assert_eq!(seconds(Timestamp(-1)), "1969-12-31T23:59:59Z");
    }
}
