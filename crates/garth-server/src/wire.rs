//! JSON of the answers of key-value calls and of searches. Values pass through as raw text, digit for digit.

use std::borrow::Cow;
use std::ops::Range;

use crate::fields::Fields;
use bytes::Bytes;
use garth_agent::kv::{CurrentValue, KeyItem, KeyKind, Match, Paged, Past, Written};
use garth_agent::search::{HitKind, SearchHit, SearchKind, SearchPage};
use garth_engine::model::{HitContext, ScoreParts, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Returns the answer of `put`.
pub(crate) fn put(written: &Written) -> Bytes {
    text(&WrittenAnswer::of(written, None))
}

/// Returns the answer of `put-many`, whose values are of one commit.
pub(crate) fn put_many(written: &[Written]) -> Bytes {
    text(&ManyWrittenAnswer {
        ok: true,
        version_ids: written.iter().map(|written| written.version.to_string()).collect(),
        created_at: written.first().map(|written| written.created_at.to_rfc3339()),
    })
}

/// Returns the answer of `delete`.
pub(crate) fn delete(written: &Written) -> Bytes {
    text(&WrittenAnswer::of(written, Some(true)))
}

/// Returns the answer of `get`.
pub(crate) fn get(found: Option<&CurrentValue>) -> Bytes {
    text(&match found {
        Some(found) => GetAnswer::Found(ValueAnswer::of(found)),
        None => GetAnswer::Missing(MissingValue { found: false }),
    })
}

/// Returns the answer of `get-many`: a page of keys, each with its value if it has one.
pub(crate) fn get_many(page: &Paged<(&str, Option<CurrentValue>)>, fields: &Fields<'_>) -> Bytes {
    text(&ItemsPage::of((page, fields), |(path, found)| match found {
        Some(found) => ManyItem::Found(ValueAnswer::of(found)),
        None => ManyItem::Missing { found: false, path },
    }))
}

/// Returns the answer of `increment`.
pub(crate) fn increment(sum: i64, written: &Written) -> Bytes {
    let (version_id, created_at) = (written.version.to_string(), written.created_at.to_rfc3339());
    text(&SumAnswer { ok: true, value: sum, version_id, created_at })
}

/// Returns the answer of `expire`: the expiry time and the write; `None` for a key without a value.
pub(crate) fn expire(done: Option<(Option<Timestamp>, &Written)>) -> Bytes {
    text(&match done {
        Some((end, written)) => ExpireAnswer::Found {
            ok: true,
            found: true,
            version_id: written.version.to_string(),
            created_at: written.created_at.to_rfc3339(),
            expires_at: end.map(Timestamp::to_rfc3339),
        },
        None => ExpireAnswer::Missing { ok: true, found: false },
    })
}

/// Returns the answer of `list`.
pub(crate) fn list(page: &Paged<KeyItem>, fields: &Fields<'_>) -> Bytes {
    text(&ItemsPage::of((page, fields), |item| ItemAnswer {
        path: &item.path,
        kind: match item.kind {
            KeyKind::Value => "file",
            KeyKind::Directory => "dir",
        },
    }))
}

/// Returns the answer of `glob`.
pub(crate) fn glob(page: &Paged<String>, fields: &Fields<'_>) -> Bytes {
    let next = next_cursor(page, fields);
    text(&GlobAnswer {
        paths: page.items.iter().map(String::as_str).collect(),
        has_more: next.as_ref().map(|_| true),
        next_cursor: next,
    })
}

/// Returns the answer of `history`.
pub(crate) fn history(page: &Paged<Past>, fields: &Fields<'_>) -> Bytes {
    let next = next_cursor(page, fields);
    text(&HistoryAnswer {
        versions: page.items.iter().map(VersionAnswer::of).collect(),
        has_more: next.as_ref().map(|_| true),
        next_cursor: next,
    })
}

/// Returns the answer of `search`. An empty one has a note.
pub(crate) fn search(page: &Paged<Match>, note: Option<String>, fields: &Fields<'_>) -> Bytes {
    let next = next_cursor(page, fields);
    text(&SearchAnswer {
        results: page.items.iter().map(|found| ResultAnswer::Value(HitAnswer::of(found))).collect(),
        more: None,
        missing: None,
        note,
        has_more: next.as_ref().map(|_| true),
        next_cursor: next,
    })
}

/// Returns the answer of a `search` that describes its hits.
pub(crate) fn described(page: &SearchPage, note: Option<String>, fields: &Fields<'_>) -> Bytes {
    let next = page.next.map(|next| fields.cursor_of(&next.to_string()));
    text(&SearchAnswer {
        results: page.hits.iter().map(|hit| ResultAnswer::Described(DescribedAnswer::of(hit))).collect(),
        more: Some(page.more),
        missing: Some(page.missing),
        note,
        has_more: next.as_ref().map(|_| true),
        next_cursor: next,
    })
}

/// Answer of `search`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SearchAnswer<'a> {
    /// Results, the best first.
    results: Vec<ResultAnswer<'a>>,
    /// True if there may be more results. Missing if only values are searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<bool>,
    /// Number of files with text that is not indexed yet, counted up to 1,000. Missing if only values are
    /// searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u64>,
    /// Why nothing was found, and what to do. Only on the first page of an empty search.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// `true` if there is another page.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Result of `search`: a value alone, or a hit with its names.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultAnswer<'a> {
    Value(HitAnswer<'a>),
    Described(DescribedAnswer<'a>),
}

/// Describes both kinds of results as one object, which clients read without knowing the kind first.
impl JsonSchema for ResultAnswer<'_> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("SearchResult")
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> =
            of_all(generator).into_iter().chain(of_some(generator)).collect();
        json_schema!({
            "type": "object",
            "description": "Result of a search. Its fields depend on its kind.",
            "required": ["path"],
            "additionalProperties": false,
            "properties": properties,
        })
    }
}

/// Returns the schemas of the fields of values, and of those that every described hit has.
fn of_all(generator: &mut SchemaGenerator) -> Vec<(String, Value)> {
    let (range, parts) = (generator.subschema_for::<Range<u64>>(), generator.subschema_for::<ScoreParts>());
    let kinds = SearchKind::ALL.map(SearchKind::as_str);
    let number =
        |description: &str| json!({"type": "number", "format": "double", "description": description});
    let text = |description: &str| json!({"type": "string", "description": description});
    let fields = [
        ("path", text("Key of a value, or path of a file.")),
        ("value", json!({"description": "Value."})),
        ("tags", json!({"type": "array", "items": {"type": "string"}, "description": "Tags of a value."})),
        ("similarity", number("Score of a value, 0 to 1.")),
        ("version_id", text("Version of a value.")),
        ("created_at", json!({"type": "string", "format": "date-time", "description": "Time of a value."})),
        ("kind", json!({"type": "string", "enum": kinds, "description": "Kind of the text."})),
        ("version", text("Version of the file that was searched.")),
        ("score", number("Score, 0 to 1.")),
        ("parts", json!(parts)),
        ("snippet", text("Short form of the passage.")),
        ("lines", json!(range)),
        ("bytes", json!(range)),
    ];
    fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// Returns the schemas of the fields that some kinds of hits have.
fn of_some(generator: &mut SchemaGenerator) -> Vec<(String, Value)> {
    let context = generator.subschema_for::<HitContext>();
    let (text, or_null) = (json!({"type": "string"}), json!({"type": ["string", "null"]}));
    let session = json!({
        "type": "object",
        "description": "Session of a message.",
        "required": ["agent", "id", "name", "user"],
        "properties": {"agent": text, "id": or_null, "name": text, "user": text},
    });
    let message = json!({
        "type": "object",
        "description": "Message, with its line in the file. Other fields are `null` if it cannot be read.",
        "required": ["id", "line", "role", "time"],
        "properties": {"id": or_null, "line": {"type": "integer"}, "role": or_null, "time": or_null},
    });
    let fields = [
        ("context", json!(context)),
        ("agent_id", json!({"type": "string", "description": "Agent that owns a value."})),
        ("session", session),
        ("message", message),
        ("uri", json!({"type": "string", "description": "URI of a memory."})),
        ("layer", json!({"type": "integer", "description": "Layer of a memory: 0, 1 or 2."})),
    ];
    fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// Hit with its names. A value has the fields that it has in every `search`, and those of other hits.
struct DescribedAnswer<'a> {
    fields: Map<String, Value>,
    value: Option<&'a RawValue>,
}

impl<'a> DescribedAnswer<'a> {
    fn of(hit: &'a SearchHit) -> Self {
        let mut fields = hit.to_json();
        let HitKind::Value { value, .. } = &hit.kind else { return Self { fields, value: None } };
        // The key is the path of a value, also of one that is found together with files.
        fields.remove("key");
        for (name, of_value) in [
            ("path", json!(value.path)),
            ("tags", json!(value.tags)),
            ("similarity", json!(hit.hit.score)),
            ("version_id", json!(value.version.to_string())),
            ("created_at", json!(value.created_at.to_rfc3339())),
        ] {
            fields.insert(name.to_owned(), of_value);
        }
        Self { fields, value: Some(&*value.value) }
    }
}

impl Serialize for DescribedAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        // As text, which keeps each digit.
        if let Some(value) = self.value {
            map.serialize_entry("value", value)?;
        }
        map.end()
    }
}

/// Write of a value.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ValueWritten")]
pub(crate) struct WrittenAnswer {
    /// `true`.
    ok: bool,
    /// `true`, in the answer of `delete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    /// Version that the write created.
    version_id: String,
    /// Time of the write.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

impl WrittenAnswer {
    fn of(written: &Written, deleted: Option<bool>) -> Self {
        let (version_id, created_at) = (written.version.to_string(), written.created_at.to_rfc3339());
        Self { ok: true, deleted, version_id, created_at }
    }
}

/// Write of several values.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ValuesWritten")]
pub(crate) struct ManyWrittenAnswer {
    /// `true`.
    ok: bool,
    /// Version of each value, in the order of the items.
    version_ids: Vec<String>,
    /// Time of the write.
    #[schemars(extend("format" = "date-time"))]
    created_at: Option<String>,
}

/// Answer of `get`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum GetAnswer<'a> {
    /// Value.
    Found(ValueAnswer<'a>),
    /// The key has no value.
    Missing(MissingValue),
}

/// Key without a value.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MissingValue {
    /// False if the key has no value. Then the other fields are missing.
    found: bool,
}

/// Value of a key.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ValueAnswer<'a> {
    /// True if the key has a value.
    found: bool,
    /// Key.
    path: &'a str,
    /// Value.
    value: &'a RawValue,
    /// Version of the value.
    version_id: String,
    /// Time at which it was stored.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// Time from which the key is absent; `null` for never.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// Tags.
    tags: &'a [String],
}

impl<'a> ValueAnswer<'a> {
    fn of(found: &'a CurrentValue) -> Self {
        Self {
            found: true,
            path: &found.path,
            value: &found.value,
            version_id: found.version.to_string(),
            created_at: found.created_at.to_rfc3339(),
            expires_at: found.expires_at.map(Timestamp::to_rfc3339),
            tags: &found.tags,
        }
    }
}

/// Key of several. A missing one has the path that was sent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeyValue")]
#[serde(untagged)]
pub(crate) enum ManyItem<'a> {
    /// Value.
    Found(ValueAnswer<'a>),
    /// The key has no value.
    Missing {
        /// False if the key has no value. Then only `path` follows.
        found: bool,
        /// Key as it was sent.
        path: &'a str,
    },
}

/// Sum of `increment`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IncrementAnswer")]
pub(crate) struct SumAnswer {
    /// `true`.
    ok: bool,
    /// Sum, which is the value now.
    value: i64,
    /// Version that the write created.
    version_id: String,
    /// Time of the write.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

/// Answer of `expire`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ExpireAnswer {
    /// The key has a value.
    Found {
        /// `true`.
        ok: bool,
        /// True if the key has a value. Otherwise nothing was written, and the fields below are missing.
        found: bool,
        /// Version that the write created.
        version_id: String,
        /// Time of the write.
        #[schemars(extend("format" = "date-time"))]
        created_at: String,
        /// Time from which the key is absent; `null` for never.
        #[schemars(extend("format" = "date-time"))]
        expires_at: Option<String>,
    },
    /// The key has no value.
    Missing {
        /// `true`.
        ok: bool,
        /// False if the key has no value.
        found: bool,
    },
}

/// Key below another key.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeyItem")]
pub(crate) struct ItemAnswer<'a> {
    /// Key.
    path: &'a str,
    /// `file` for a key with a value, `dir` for one with keys below it.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["file", "dir"]))]
    kind: &'static str,
}

/// Answer of `glob`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct GlobAnswer<'a> {
    /// Keys that match, in byte order.
    paths: Vec<&'a str>,
    /// `true` if there is another page.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Answer of `history`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HistoryAnswer<'a> {
    /// Versions, newest first.
    versions: Vec<VersionAnswer<'a>>,
    /// `true` if there is another page.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Version of a key.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ValueVersion")]
struct VersionAnswer<'a> {
    /// Id of the version.
    version_id: String,
    /// Time at which it was created.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// Value; `{}` for the end of a value, `null` with `gone`.
    #[schemars(with = "Value")]
    value: PastValue<'a>,
    /// Time from which the value is absent; `null` for never.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// Time at which the value was deleted; `null` for all other versions.
    #[schemars(extend("format" = "date-time"))]
    deleted_at: Option<String>,
    /// `true` if the value is no longer stored, because of the retention of the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    gone: Option<bool>,
}

impl<'a> VersionAnswer<'a> {
    fn of(past: &'a Past) -> Self {
        let ended = if past.gone { PastValue::Gone } else { PastValue::Ended {} };
        Self {
            version_id: past.version.to_string(),
            created_at: past.created_at.to_rfc3339(),
            value: past.value.as_deref().map_or(ended, PastValue::Value),
            expires_at: past.expires_at.map(Timestamp::to_rfc3339),
            deleted_at: (past.value.is_none() && !past.gone).then(|| past.created_at.to_rfc3339()),
            gone: past.gone.then_some(true),
        }
    }
}

/// Value of a version. The end of a value is shown as `{}`, a value that is no longer stored as `null`.
#[derive(Serialize)]
#[serde(untagged)]
enum PastValue<'a> {
    Value(&'a RawValue),
    Ended {},
    Gone,
}

#[derive(Serialize)]
struct HitAnswer<'a> {
    path: &'a str,
    value: &'a RawValue,
    tags: &'a [String],
    similarity: f64,
    version_id: String,
    created_at: String,
}

impl<'a> HitAnswer<'a> {
    fn of(Match { found, similarity }: &'a Match) -> Self {
        Self {
            path: &found.path,
            value: &found.value,
            tags: &found.tags,
            similarity: *similarity,
            version_id: found.version.to_string(),
            created_at: found.created_at.to_rfc3339(),
        }
    }
}

/// Page of items.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub(crate) struct ItemsPage<T> {
    /// Items of the page.
    items: Vec<T>,
    /// `true` if there is another page.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl<T> ItemsPage<T> {
    fn of<'a, I>((page, fields): (&'a Paged<I>, &Fields<'_>), item: impl Fn(&'a I) -> T) -> Self {
        Self::new(page.items.iter().map(item).collect(), page.next.as_deref(), fields)
    }

    /// Returns a page of the answer to a request. `next` is the position of the next page; the last page has
    /// none.
    pub(crate) fn new(items: Vec<T>, next: Option<&str>, request: &Fields<'_>) -> Self {
        let next_cursor = next.map(|next| request.cursor_of(next));
        Self { items, has_more: next_cursor.as_ref().map(|_| true), next_cursor }
    }
}

/// Returns the cursor of the page after another one, if there is one.
fn next_cursor<I>(page: &Paged<I>, fields: &Fields<'_>) -> Option<String> {
    page.next.as_deref().map(|next| fields.cursor_of(next))
}

fn text(answer: &impl Serialize) -> Bytes {
    let json = serde_json::to_vec(answer);
    // Without spare capacity, which would be held until the answer is sent.
    json.expect("an answer has string keys and finite numbers, so it is JSON").into_boxed_slice().into()
}
