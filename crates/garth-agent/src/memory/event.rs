//! The events of `.outbox`: what whoever keeps an index of their own has to hear of.

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

/// Most bytes of text in a record; of a longer one the event says where it is.
pub const MAX_RECORD_TEXT: usize = 64 << 10;

/// For how long an event is held, unless told: some time more than a few requests take, little enough that
/// what a dead process held is soon tried again.
pub const LEASE: Duration = Duration::from_secs(60);

/// What happened to a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    /// It was made or changed.
    UpsertContext,
    /// It is gone.
    DeleteContext,
    /// It has another URI.
    MoveContext,
    /// Its edges changed.
    UpsertRelation,
}

/// How far an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventStatus {
    /// It waits.
    Pending,
    /// Somebody holds it, until `lease_until`.
    Processing,
    /// It was tried too often; it lies in `dlq`.
    Failed,
}

/// An event. The fields behind `created_at` are set once it was claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// A UUID; also the name of its file, and the key of its delivery.
    pub event_id: String,
    /// What happened.
    pub event_type: EventType,
    /// To which memory; of a move the URI that it had.
    pub uri: String,
    /// What of it: see [`Payload`].
    pub payload: Payload,
    /// How far it is.
    pub status: EventStatus,
    /// How often it was tried in vain.
    pub retry_count: u32,
    /// When it happened: RFC 3339, UTC, in seconds.
    pub created_at: String,
    /// The commit that it happened in, which is the order of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When it is tried again; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// Until when it is held; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<String>,
    /// Why it was tried in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Fields that others have put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What an event says; which field there is depends on its type, and of a delete there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// Of `UPSERT_CONTEXT`: what an index keeps of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Vec<Record>>,
    /// Of `MOVE_CONTEXT`: the URI that it has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_uri: Option<String>,
    /// Of `UPSERT_RELATION`: all edges that lead from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<Edge>>,
    /// Fields that others have put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What an index keeps of one layer of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The first 16 hexadecimal digits of the SHA-256 of `{uri}#{level}`.
    pub id: String,
    /// The memory.
    pub uri: String,
    /// 0 abstract, 1 overview, 2 content.
    pub level: u8,
    /// Its text, if it has at most [`MAX_RECORD_TEXT`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Else where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_ref: Option<TextRef>,
    /// What an index selects by.
    pub filters: Filters,
    /// What an index shows.
    pub metadata: RecordMetadata,
}

/// Where a long text is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextRef {
    /// The file, in the account's tree.
    pub path: String,
    /// The memory's version.
    pub version: u64,
    /// The SHA-256 of the text, 64 hexadecimal digits.
    pub sha256: String,
}

/// What an index selects by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filters {
    /// The account.
    pub account_id: String,
    /// Whose the memory is.
    pub owner_space: String,
}

/// What an index shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordMetadata {
    /// The memory's category.
    pub category: String,
    /// Memory or skill.
    pub context_type: ContextType,
}

impl Event {
    /// An event of now.
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

    /// Reads an event.
    ///
    /// # Errors
    /// `InvalidArgument` for what is none.
    pub fn parse(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).map_err(|error| Error::invalid(format!("event: {error}")))
    }

    /// Refuses an event that its place does not speak for: whoever writes files in the directory of one
    /// memory must not tell an index about memories of others. `here` is that memory; none in the account's
    /// own outbox.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check(&self, account: &str, file: Option<&str>, here: Option<&Uri>) -> Result<(), String> {
        let memory = |text: &str| -> Result<Uri, String> {
            let uri: Uri = text.parse().map_err(|error: Error| error.message().to_owned())?;
            uri.check_account(account).map_err(|error| error.message().to_owned())?;
            Ok(uri)
        };
        if file != Some(&*format!("{}.json", self.event_id)) {
            return Err("event: its file has another name than its event_id".to_owned());
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
            return Err("event: its payload is not that of its type".to_owned());
        }
        let is_of_other =
            |here: &&Uri| std::iter::once(&uri).chain(&new).any(|uri| uri.space() != here.space());
        if let Some(here) = here.filter(is_of_other) {
            return Err(format!("event: is about a memory of another owner than {here}"));
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

    /// Whether it outlives the directory that it lies in: whoever deletes a memory moves it to the account's
    /// `/.outbox`. An index that never hears of a move would keep what has the old URI, and what is being
    /// told right now has to end before the deletion is told.
    pub fn outlives_memory(&self) -> bool {
        self.event_type == EventType::MoveContext || self.status == EventStatus::Processing
    }

    /// Returns the text of its file.
    ///
    /// # Errors
    /// `InvalidArgument` for what has no JSON form.
    pub fn to_json(&self) -> Result<String> {
        pretty(self)
    }
}

/// Returns the layers of a memory as an index is told of them. A layer that was edited by hand may be longer
/// than any that garth takes: it is cut there.
pub fn told_layers([brief, overview, content]: [&str; 3]) -> [String; 3] {
    let mut end = overview.len().min(MAX_GIVEN_OVERVIEW);
    while !overview.is_char_boundary(end) {
        end -= 1;
    }
    [cut_at_word(brief, MAX_ABSTRACT), overview[..end].to_owned(), content.to_owned()]
}

/// Returns the records of a memory's layers, abstract first. `file` is the path of its content.
pub fn records(account: &str, meta: &Meta, file: &str, layers: [&str; 3]) -> Vec<Record> {
    let layers = told_layers(layers);
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
