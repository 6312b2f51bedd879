//! `.meta.json` of a memory: what is known of it besides its text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::uri::Uri;
use crate::small_file::pretty;
use garth_engine::error::{Error, Result};
use garth_engine::model::Timestamp;

/// What kind of memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ContextType {
    /// A memory.
    Memory,
    /// A skill.
    Skill,
}

/// Whether a memory is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// It is being written, step by step.
    Pending,
    /// It is whole. Nothing else is visible.
    Active,
    /// Some of it is missing, and nobody can tell what it was.
    Broken,
}

impl Status {
    /// As `.meta.json` says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Active => "ACTIVE",
            Self::Broken => "BROKEN",
        }
    }
}

/// Returns the status of a `.meta.json` if it is none that garth knows, as JSON, or `missing`.
pub(super) fn unknown_status(fields: &Map<String, Value>) -> Option<String> {
    match fields.get("status") {
        None => Some("missing".to_owned()),
        Some(status) => Status::deserialize(status).is_err().then(|| status.to_string()),
    }
}

/// Where the text of a layer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Somebody gave it: it is never replaced by a derived one.
    Given,
    /// It was made of the content.
    Derived,
    /// Somebody gave it for content that has changed since.
    Stale,
}

/// What is known of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Where its text comes from.
    pub origin: Origin,
    /// The SHA-256 of the content that it describes, 64 hexadecimal digits.
    pub content_sha256: String,
}

/// What is known of the layers that describe the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// L0, `.abstract.md`.
    #[serde(rename = "abstract")]
    pub brief: Layer,
    /// L1, `.overview.md`.
    pub overview: Layer,
}

/// What in a session a memory was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The user of the session.
    pub user: String,
    /// Its agent.
    pub agent: String,
    /// The session.
    pub session: String,
    /// The fact or decision there.
    pub entry: String,
    /// The lines and files that it was made of, as `messages:3-5`.
    pub sources: Vec<String>,
}

/// What is known of a memory. Fields in the order in which they are written; those that are not known here
/// are kept behind them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The memory's URI.
    pub uri: String,
    /// Memory or skill.
    pub context_type: ContextType,
    /// The category.
    pub category: String,
    /// How many layers it has: 3 with abstract, overview and content.
    pub level: u8,
    /// Whose it is: `user:{id}` or `agent:{id}`.
    pub owner_space: String,
    /// Whether it is there.
    pub status: Status,
    /// When it was first made: RFC 3339, UTC, in seconds.
    pub created_at: String,
    /// When its text, layers, tags or validity changed last.
    pub updated_at: String,
    /// 1, 2, 3: counts these changes.
    pub version: u64,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// What is known of its layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Layers>,
    /// The memory that this one has taken the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// From when on it is true; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<String>,
    /// Until when it was true; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<String>,
    /// What its text was made of, if it was published from a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Fields that others have put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl crate::once::Outcome for Meta {}

impl Meta {
    /// That of a memory that is made now.
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

    /// Reads `.meta.json`.
    ///
    /// # Errors
    /// `InvalidArgument` for what is none.
    pub fn parse(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).map_err(|error| Error::invalid(format!(".meta.json: {error}")))
    }

    /// Returns the text of `.meta.json`.
    ///
    /// # Errors
    /// `InvalidArgument` for what has no JSON form.
    pub fn to_json(&self) -> Result<String> {
        pretty(self)
    }

    /// Whether it was true at a moment: from `valid_from` on (always, without it) up to but without
    /// `valid_to`. A moment that cannot be read counts as none.
    pub fn is_valid_at(&self, time: Timestamp) -> bool {
        let moment =
            |text: &Option<String>| text.as_deref().and_then(|text| Timestamp::parse_rfc3339(text).ok());
        moment(&self.valid_from).is_none_or(|from| from <= time)
            && moment(&self.valid_to).is_none_or(|to| time < to)
    }
}

/// A moment as `.meta.json` has it: RFC 3339, UTC, in seconds.
pub fn seconds(time: Timestamp) -> String {
    let whole = Timestamp(time.0.div_euclid(1_000_000_000) * 1_000_000_000).to_rfc3339();
    match whole.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => whole,
    }
}
