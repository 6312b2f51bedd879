//! Hits of a search with the names of what they are in, and their JSON.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::kind::SearchKind;
use crate::kv::CurrentValue;
use crate::memory::{Level, Uri};
use crate::session::Role;
use garth_engine::model::{Hit, Timestamp};

/// Hit of a search, with the names of what it is in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchHit {
    /// Passage that was found.
    pub hit: Hit,
    /// Text that it is in.
    pub kind: HitKind,
}

/// Text that a hit is in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HitKind {
    /// File that is none of the others.
    File,
    /// Message of a session.
    Message {
        /// Session.
        session: SessionName,
        /// Message that contains the largest number of distinct words of the question.
        message: FoundMessage,
    },
    /// Memory.
    Memory {
        /// URI.
        uri: Uri,
        /// Layer that was found.
        layer: Level,
    },
    /// Value of the key-value interface.
    Value {
        /// Agent that owns the key.
        agent: String,
        /// Value.
        value: CurrentValue,
    },
}

/// Names of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionName {
    /// Audience whose session it is.
    pub user: String,
    /// Agent.
    pub agent: String,
    /// Name of its directory, by which calls name it.
    pub name: String,
    /// UUID; `None` if its `meta.json` cannot be read.
    pub id: Option<String>,
}

/// Message that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundMessage {
    /// Line in `messages.jsonl`, from 1.
    pub line: u64,
    /// Id. Like role and time, it is missing if the line is too long to be read.
    pub id: Option<String>,
    /// Role of its author.
    pub role: Option<Role>,
    /// Time at which it was said.
    pub time: Option<Timestamp>,
}

impl SessionName {
    pub(super) fn new([user, agent, name]: [&str; 3], id: Option<String>) -> Self {
        Self { user: user.to_owned(), agent: agent.to_owned(), name: name.to_owned(), id }
    }
}

impl FoundMessage {
    /// Returns a message that could not be read.
    pub(super) fn at(line: u64) -> Self {
        Self { line, id: None, role: None, time: None }
    }
}

impl SearchHit {
    pub(super) fn new(hit: Hit, kind: HitKind) -> Self {
        Self { hit, kind }
    }

    /// Returns the hit as interfaces present it.
    pub fn to_json(&self) -> Map<String, Value> {
        hit_json(&self.hit, Some(&self.kind))
    }
}

impl HitKind {
    /// Returns the kind for filters.
    pub fn kind(&self) -> SearchKind {
        match self {
            Self::File => SearchKind::Files,
            Self::Message { .. } => SearchKind::Messages,
            Self::Memory { .. } => SearchKind::Memories,
            Self::Value { .. } => SearchKind::Values,
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        match self {
            Self::File => Vec::new(),
            Self::Message { session, message } => {
                let SessionName { user, agent, name, id } = session;
                let FoundMessage { line, id: message_id, role, time } = message;
                let time = time.map(Timestamp::to_rfc3339);
                vec![
                    ("session", json!({"user": user, "agent": agent, "name": name, "id": id})),
                    ("message", json!({"line": line, "id": message_id, "role": role, "time": time})),
                ]
            }
            Self::Memory { uri, layer } => {
                vec![("uri", json!(uri.to_string())), ("layer", json!(layer.number()))]
            }
            Self::Value { agent, value } => {
                vec![("agent_id", json!(agent)), ("key", json!(value.path))]
            }
        }
    }
}

/// Returns a hit as interfaces present it. `kind` is `None` for a file that garth writes for itself.
pub fn hit_json(hit: &Hit, kind: Option<&HitKind>) -> Map<String, Value> {
    let range = |range: &Range<u64>| json!({"start": range.start, "end": range.end});
    let parts = json!({
        "words": hit.parts.words,
        "neighbours": hit.parts.neighbours,
        "meaning": hit.parts.meaning,
    });
    let mut fields = vec![
        ("kind", json!(kind.map(|kind| kind.kind().as_str()))),
        ("path", json!(hit.path.as_str())),
        ("version", json!(hit.version.to_string())),
        ("score", json!(hit.score)),
        ("parts", parts),
        ("snippet", json!(hit.snippet)),
        ("lines", range(&hit.lines)),
        ("bytes", range(&hit.bytes)),
    ];
    if let Some(context) = &hit.context {
        let (lines, bytes) = (range(&context.lines), range(&context.bytes));
        let context = json!({"text": context.text, "best": context.best, "lines": lines, "bytes": bytes});
        fields.push(("context", context));
    }
    fields.extend(kind.map(HitKind::fields).unwrap_or_default());
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
