//! Events in `.outbox`: changes of memories to be delivered to external indexes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::edge::Edge;
use super::layers::{MAX_ABSTRACT, MAX_GIVEN_OVERVIEW, cut_at_word};
use super::meta::{ContextType, Meta, seconds};
use super::uri::Uri;
use crate::ids::uuid;
use crate::small_file::{pretty, sha256};
use garth_engine::env::Env;
use garth_engine::error::{Error, Result};

/// Limit on the bytes of text in a record. For a longer text the event has a reference.
pub const MAX_RECORD_TEXT: usize = 64 << 10;

/// Default lease time of an event: longer than a few requests take, and short enough that the events of a
/// dead process are soon retried.
pub const LEASE: Duration = Duration::from_secs(60);

/// Kind of change of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    /// Created or changed.
    UpsertContext,
    /// Deleted.
    DeleteContext,
    /// Moved to another URI.
    MoveContext,
    /// Changed edges.
    UpsertRelation,
}

/// Delivery status of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventStatus {
    /// Waiting for delivery.
    Pending,
    /// Claimed by a worker until `lease_until`.
    Processing,
    /// Failed too often; the file is in `dlq`.
    Failed,
}

/// Event. The optional fields after `created_at` are set when it is first claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// UUID; also the name of its file, and the key of its delivery.
    pub event_id: String,
    /// Kind of change.
    pub event_type: EventType,
    /// URI of the memory; for a move the old one.
    pub uri: String,
    /// Content.
    pub payload: Payload,
    /// Delivery status.
    pub status: EventStatus,
    /// Number of failed attempts.
    pub retry_count: u32,
    /// Time of the change: RFC 3339, UTC, in seconds.
    pub created_at: String,
    /// Commit of the change, which defines the order of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Time of the next attempt; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// End of the lease; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<String>,
    /// Error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Unknown fields, which are preserved.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Content of an event. The type decides which field is set; a deletion has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// For `UPSERT_CONTEXT`: records for an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Vec<Record>>,
    /// For `MOVE_CONTEXT`: the new URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_uri: Option<String>,
    /// For `UPSERT_RELATION`: all edges that lead from the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<Edge>>,
    /// Unknown fields, which are preserved.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Index record of one layer of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// First 16 hexadecimal digits of the SHA-256 of `{uri}#{level}`.
    pub id: String,
    /// URI of the memory.
    pub uri: String,
    /// Layer: 0 abstract, 1 overview, 2 content.
    pub level: u8,
    /// Text, if it has at most [`MAX_RECORD_TEXT`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Reference to a longer text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_ref: Option<TextRef>,
    /// Fields that an index filters by.
    pub filters: Filters,
    /// Fields that an index displays.
    pub metadata: RecordMetadata,
}

/// Reference to a long text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextRef {
    /// Path of the file in the account's tree.
    pub path: String,
    /// Version of the memory.
    pub version: u64,
    /// SHA-256 of the text, 64 hexadecimal digits.
    pub sha256: String,
}

/// Fields that an index filters by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filters {
    /// Account.
    pub account_id: String,
    /// Owner of the memory.
    pub owner_space: String,
}

/// Fields that an index displays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordMetadata {
    /// Category of the memory.
    pub category: String,
    /// Memory or skill.
    pub context_type: ContextType,
}

impl Event {
    /// Returns an event with the current time.
    ///
    /// # Errors
    /// `Io` if the system has no random bytes.
    pub fn new(env: &Env, event_type: EventType, uri: &str, payload: Payload) -> Result<Self> {
        let now = env.now();
        Ok(Self {
            event_id: uuid(env)?,
            event_type,
            uri: uri.to_owned(),
            payload,
            status: EventStatus::Pending,
            retry_count: 0,
            created_at: seconds(now),
            seq: None,
            next_attempt_at: None,
            lease_until: None,
            last_error: None,
            other: Map::new(),
        })
    }

    /// Parses an event.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is not an event.
    pub fn parse(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).map_err(|error| Error::invalid(format!("event: {error}")))
    }

    /// Checks that an event is valid in its place: a writer of files in one memory's directory must not
    /// deliver events about memories of other owners. `here` is that memory; `None` for the account's own
    /// outbox.
    ///
    /// # Errors
    /// The reason why it is not valid.
    pub fn check(&self, account: &str, file: Option<&str>, here: Option<&Uri>) -> Result<(), String> {
        let memory = |text: &str| -> Result<Uri, String> {
            let uri: Uri = text.parse().map_err(|error: Error| error.message().to_owned())?;
            uri.check_account(account).map_err(|error| error.message().to_owned())?;
            Ok(uri)
        };
        // The id is the key of its delivery: another file must not use the same.
        if file != Some(&*format!("{}.json", self.event_id)) {
            return Err("event: the file name differs from event_id".to_owned());
        }
        let uri = memory(&self.uri)?;
        let new = self.payload.new_uri.as_deref().map(memory).transpose()?;
        let has = match self.event_type {
            EventType::UpsertContext => self.payload.records.is_some(),
            EventType::UpsertRelation => self.payload.edges.is_some(),
            EventType::MoveContext => new.is_some(),
            EventType::DeleteContext => true,
        };
        if !has {
            return Err("event: the payload does not match event_type".to_owned());
        }
        // A move to another owner is stored in the account's outbox, so both URIs must be of this owner.
        let is_of_other =
            |here: &&Uri| std::iter::once(&uri).chain(&new).any(|uri| uri.space() != here.space());
        if let Some(here) = here.filter(is_of_other) {
            return Err(format!("event: belongs to another owner than {here}"));
        }
        for record in self.payload.records.iter().flatten() {
            let is_own = record.uri == self.uri
                && record.filters.account_id == account
                && record.filters.owner_space == uri.space().to_string();
            if !is_own {
                return Err("event: a record is of another memory, account or owner".to_owned());
            }
            let is_long = |text: &String| text.chars().count() > MAX_ABSTRACT;
            if record.level == 0 && record.text.as_ref().is_some_and(is_long) {
                return Err(format!("event: an abstract has at most {MAX_ABSTRACT} characters"));
            }
        }
        for edge in self.payload.edges.iter().flatten() {
            if edge.from_uri != self.uri {
                return Err("event: an edge leads from another memory".to_owned());
            }
            memory(&edge.to_uri)?;
            edge.check().map_err(|error| format!("event: {}", error.message()))?;
        }
        Ok(())
    }

    /// Returns true if it outlives the directory of its memory: a deletion moves it to the account's
    /// `/.outbox`. Without a move, an index would keep the old URI; and an event in delivery has to end
    /// before the deletion is delivered.
    pub fn outlives_memory(&self) -> bool {
        self.event_type == EventType::MoveContext || self.status == EventStatus::Processing
    }

    /// Returns the text of its file.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that has no JSON form.
    pub fn to_json(&self) -> Result<String> {
        pretty(self)
    }
}

/// Returns the layers of a memory as they are delivered to an index. A layer that was edited by hand may
/// exceed the limits of garth: it is cut to them.
pub fn delivered_layers([brief, overview, content]: [&str; 3]) -> [String; 3] {
    let mut end = overview.len().min(MAX_GIVEN_OVERVIEW);
    while !overview.is_char_boundary(end) {
        end -= 1;
    }
    [cut_at_word(brief, MAX_ABSTRACT), overview[..end].to_owned(), content.to_owned()]
}

/// Returns the records of a memory's layers, abstract first. `file` is the path of its content.
pub fn records(account: &str, meta: &Meta, file: &str, layers: [&str; 3]) -> Vec<Record> {
    let layers = delivered_layers(layers);
    let record = |(level, text): (u8, &str)| {
        let is_short = text.len() <= MAX_RECORD_TEXT;
        Record {
            id: sha256(format!("{}#{level}", meta.uri).as_bytes())[..16].to_owned(),
            uri: meta.uri.clone(),
            level,
            text: is_short.then(|| text.to_owned()),
            text_ref: (!is_short).then(|| TextRef {
                path: file.to_owned(),
                version: meta.version,
                sha256: sha256(text.as_bytes()),
            }),
            filters: Filters { account_id: account.to_owned(), owner_space: meta.owner_space.clone() },
            metadata: RecordMetadata { category: meta.category.clone(), context_type: meta.context_type },
        }
    };
    (0..).zip(layers.iter().map(String::as_str)).map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use garth_engine::model::Timestamp;

    #[test]
    fn ids_are_in_the_order_of_time() {
        let (env, clock) = Env::manual(Timestamp(1_742_205_600_000_000_000));
        let mut last = String::new();
        for _ in 0..5000 {
            clock.advance(std::time::Duration::from_nanos(500));
            let event = Event::new(&env, EventType::DeleteContext, "", Payload::default()).unwrap();
            assert!(event.event_id > last && event.event_id.as_bytes()[14] == b'7', "{}", event.event_id);
            last = event.event_id;
        }
    }
}
