//! The exact JSON of the key-value API. Values pass through as text, never parsed into numbers and never printed again:
//! what was put comes back digit for digit.

use std::borrow::Cow;

use bytes::Bytes;
use garth::agent::kv::{DEFAULT_AGENT, Found, KeyItem, KeyKind, Match, Past, Semantics, Written};
use garth::model::{Timestamp, VersionId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::errors::Refusal;

/// Body of `POST /v1/put`.
#[derive(Deserialize)]
pub(crate) struct PutRequest<'a> {
    agent_id: Option<String>,
    #[serde(borrow)]
    pub(crate) path: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) value: &'a RawValue,
    ttl_seconds: Option<u64>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) importance: Option<f64>,
    pub(crate) searchable: Option<bool>,
}

/// Body of `POST /v1/get` and `/v1/delete`.
#[derive(Deserialize)]
pub(crate) struct PathRequest<'a> {
    agent_id: Option<String>,
    #[serde(borrow)]
    pub(crate) path: Cow<'a, str>,
}

/// Body of `POST /v1/list`.
#[derive(Deserialize)]
pub(crate) struct ListRequest {
    agent_id: Option<String>,
    pub(crate) prefix: Option<String>,
}

/// Body of `POST /v1/glob`.
#[derive(Deserialize)]
pub(crate) struct GlobRequest {
    agent_id: Option<String>,
    pub(crate) pattern: String,
    semantics: Option<WireSemantics>,
}

/// The only semantics that has a name; the other one is the default.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireSemantics {
    Segment,
}

/// Body of `POST /v1/history`.
#[derive(Deserialize)]
pub(crate) struct HistoryRequest<'a> {
    agent_id: Option<String>,
    #[serde(borrow)]
    pub(crate) path: Cow<'a, str>,
    limit: Option<u64>,
}

/// Body of `POST /v1/search`.
#[derive(Deserialize)]
pub(crate) struct SearchRequest {
    agent_id: Option<String>,
    pub(crate) query: String,
    limit: Option<u64>,
    pub(crate) path_prefix: Option<String>,
    pub(crate) tags_any: Option<Vec<String>>,
}

/// What the bodies share.
pub(crate) trait ForAgent {
    /// The agent that the body names.
    fn named_agent(&self) -> Option<&str>;

    /// The agent that is meant.
    fn agent(&self) -> &str {
        self.named_agent().unwrap_or(DEFAULT_AGENT)
    }
}

macro_rules! for_agent {
    ($($request:ty),*) => {
        $(impl ForAgent for $request {
            fn named_agent(&self) -> Option<&str> {
                self.agent_id.as_deref()
            }
        })*
    };
}

for_agent!(PutRequest<'_>, PathRequest<'_>, ListRequest, GlobRequest, HistoryRequest<'_>, SearchRequest);

impl PutRequest<'_> {
    /// When the value ends.
    pub(crate) fn expires_at(&self, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
        let Some(seconds) = self.ttl_seconds else { return Ok(None) };
        if seconds == 0 {
            return Err(Refusal::validation("`ttl_seconds` is a positive integer"));
        }
        let end = i64::try_from(seconds)
            .ok()
            .and_then(|seconds| seconds.checked_mul(1_000_000_000))
            .and_then(|nanoseconds| now.0.checked_add(nanoseconds));
        end.map(|end| Some(Timestamp(end))).ok_or_else(|| {
            Refusal::validation("`ttl_seconds` reaches beyond the year 2262; leave it out to keep the value")
        })
    }
}

impl GlobRequest {
    pub(crate) fn semantics(&self) -> Semantics {
        match self.semantics {
            None => Semantics::Whole,
            Some(WireSemantics::Segment) => Semantics::Segment,
        }
    }
}

impl HistoryRequest<'_> {
    pub(crate) fn limit(&self, default: usize) -> usize {
        limit(self.limit, default)
    }
}

impl SearchRequest {
    pub(crate) fn limit(&self, default: usize) -> usize {
        limit(self.limit, default)
    }
}

fn limit(asked: Option<u64>, default: usize) -> usize {
    asked.map_or(default, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Reads a body: one JSON object in UTF-8. Fields that nobody knows are ignored.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::validation("the body is not UTF-8"))?;
    // serde would take an array for a struct.
    if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
        return Err(Refusal::validation("the body is one JSON object"));
    }
    serde_json::from_str(text).map_err(|error| Refusal::validation(format!("the body is not valid: {error}")))
}

/// Answer of put.
pub(crate) fn put(written: &Written) -> Bytes {
    let mut json = Json::with_capacity(96);
    json.open('{').key("ok").raw(b"true").version(written.version).time("created_at", written.created_at);
    json.close('}').finish()
}

/// Answer of delete.
pub(crate) fn delete(written: &Written) -> Bytes {
    let mut json = Json::with_capacity(112);
    json.open('{').key("ok").raw(b"true").key("deleted").raw(b"true");
    json.version(written.version).time("created_at", written.created_at);
    json.close('}').finish()
}

/// Answer of get.
pub(crate) fn get(found: Option<&Found>) -> Bytes {
    let Some(found) = found else { return Bytes::from_static(br#"{"found":false}"#) };
    let mut json = Json::with_capacity(256 + found.value.as_bytes().len());
    json.open('{').key("found").raw(b"true").key("path").text(&found.path);
    json.key("value").raw(found.value.as_bytes()).version(found.version);
    json.time("created_at", found.created_at).maybe_time("expires_at", found.expires_at).tags(&found.tags);
    json.close('}').finish()
}

/// Answer of list.
pub(crate) fn list(items: &[KeyItem]) -> Bytes {
    let mut json = Json::with_capacity(64 * items.len() + 16);
    json.open('{').key("items").open('[');
    for item in items {
        let kind = match item.kind {
            KeyKind::Value => "file",
            KeyKind::Directory => "dir",
        };
        json.item().open('{').key("path").text(&item.path).key("type").text(kind).close('}');
    }
    json.close(']').close('}').finish()
}

/// Answer of glob.
pub(crate) fn glob(paths: &[String]) -> Bytes {
    let mut json = Json::with_capacity(48 * paths.len() + 16);
    json.open('{').key("paths").open('[');
    for path in paths {
        json.item().text(path);
    }
    json.close(']').close('}').finish()
}

/// Answer of history.
pub(crate) fn history(versions: &[Past]) -> Bytes {
    let values: usize = versions.iter().filter_map(|past| Some(past.value.as_ref()?.as_bytes().len())).sum();
    let mut json = Json::with_capacity(192 * versions.len() + values + 16);
    json.open('{').key("versions").open('[');
    for past in versions {
        json.item().open('{').version(past.version).time("created_at", past.created_at).key("value");
        json.raw(past.value.as_ref().map_or(b"{}", |value| value.as_bytes()));
        json.maybe_time("expires_at", past.expires_at);
        json.maybe_time("deleted_at", past.value.is_none().then_some(past.created_at)).close('}');
    }
    json.close(']').close('}').finish()
}

/// Answer of search.
pub(crate) fn search(matches: &[Match]) -> Bytes {
    let values: usize = matches.iter().map(|one| one.found.value.as_bytes().len()).sum();
    let mut json = Json::with_capacity(256 * matches.len() + values + 16);
    json.open('{').key("results").open('[');
    for Match { found, similarity } in matches {
        json.item().open('{').key("path").text(&found.path).key("value").raw(found.value.as_bytes());
        json.tags(&found.tags).key("similarity").number(*similarity);
        json.version(found.version).time("created_at", found.created_at).close('}');
    }
    json.close(']').close('}').finish()
}

/// JSON in the making. Knows where commas go.
struct Json {
    text: Vec<u8>,
    /// Whether the next key or item follows another one.
    comma: bool,
}

impl Json {
    fn with_capacity(bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes), comma: false }
    }

    fn open(&mut self, bracket: char) -> &mut Self {
        self.text.push(bracket as u8);
        self.comma = false;
        self
    }

    fn close(&mut self, bracket: char) -> &mut Self {
        self.text.push(bracket as u8);
        self.comma = true;
        self
    }

    fn item(&mut self) -> &mut Self {
        if self.comma {
            self.text.push(b',');
        }
        self.comma = true;
        self
    }

    fn key(&mut self, name: &'static str) -> &mut Self {
        self.item();
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
        self
    }

    fn raw(&mut self, json: &[u8]) -> &mut Self {
        self.text.extend_from_slice(json);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        serde_json::to_writer(&mut self.text, text).expect("text in memory always becomes JSON");
        self
    }

    fn number(&mut self, number: f64) -> &mut Self {
        serde_json::to_writer(&mut self.text, &number).expect("a number in memory always becomes JSON");
        self
    }

    fn version(&mut self, version: VersionId) -> &mut Self {
        self.key("version_id").text(&version.to_string())
    }

    fn time(&mut self, name: &'static str, time: Timestamp) -> &mut Self {
        self.key(name).text(&time.to_rfc3339())
    }

    fn maybe_time(&mut self, name: &'static str, time: Option<Timestamp>) -> &mut Self {
        match time {
            Some(time) => self.time(name, time),
            None => self.key(name).raw(b"null"),
        }
    }

    fn tags(&mut self, tags: &[String]) -> &mut Self {
        self.key("tags").open('[');
        for tag in tags {
            self.item().text(tag);
        }
        self.close(']')
    }

    fn finish(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.text))
    }
}
