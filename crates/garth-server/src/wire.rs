//! JSON of the answers of key-value calls and of searches. Values pass through as raw text, digit for digit.

use crate::fields::Fields;
use bytes::Bytes;
use garth_agent::kv::{CurrentValue, KeyItem, KeyKind, Match, Paged, Past, Written};
use garth_agent::search::{HitKind, SearchHit, SearchPage};
use garth_engine::model::Timestamp;
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
    let Some(found) = found else { return Bytes::from_static(br#"{"found":false}"#) };
    text(&GetAnswer::of(found))
}

/// Returns the answer of `get-many`: a page of keys, each with its value if it has one.
pub(crate) fn get_many(page: &Paged<(&str, Option<CurrentValue>)>, fields: &Fields<'_>) -> Bytes {
    paged("items", (page, fields), |(path, found)| match found {
        Some(found) => ManyItem::Found(GetAnswer::of(found)),
        None => ManyItem::Missing { found: false, path },
    })
}

/// Returns the answer of `increment`.
pub(crate) fn increment(sum: i64, written: &Written) -> Bytes {
    let (version_id, created_at) = (written.version.to_string(), written.created_at.to_rfc3339());
    text(&SumAnswer { ok: true, value: sum, version_id, created_at })
}

/// Returns the answer of `expire`: the expiry time and the write; `None` for a key without a value.
pub(crate) fn expire(done: Option<(Option<Timestamp>, &Written)>) -> Bytes {
    let Some((end, written)) = done else { return Bytes::from_static(br#"{"ok":true,"found":false}"#) };
    text(&ExpiryAnswer {
        ok: true,
        found: true,
        version_id: written.version.to_string(),
        created_at: written.created_at.to_rfc3339(),
        expires_at: end.map(Timestamp::to_rfc3339),
    })
}

/// Returns the answer of `list`.
pub(crate) fn list(page: &Paged<KeyItem>, fields: &Fields<'_>) -> Bytes {
    paged("items", (page, fields), |item| ItemAnswer {
        path: &item.path,
        kind: match item.kind {
            KeyKind::Value => "file",
            KeyKind::Directory => "dir",
        },
    })
}

/// Returns the answer of `glob`.
pub(crate) fn glob(page: &Paged<String>, fields: &Fields<'_>) -> Bytes {
    paged("paths", (page, fields), String::as_str)
}

/// Returns the answer of `history`.
pub(crate) fn history(page: &Paged<Past>, fields: &Fields<'_>) -> Bytes {
    paged("versions", (page, fields), |past| VersionAnswer {
        version_id: past.version.to_string(),
        created_at: past.created_at.to_rfc3339(),
        value: past.value.as_deref().map_or(PastValue::Ended {}, PastValue::Value),
        expires_at: past.expires_at.map(Timestamp::to_rfc3339),
        // A version without a value is a deletion.
        deleted_at: past.value.is_none().then(|| past.created_at.to_rfc3339()),
    })
}

/// Returns the answer of `search`. An empty one has a note.
pub(crate) fn search(page: &Paged<Match>, note: Option<&str>, fields: &Fields<'_>) -> Bytes {
    if let Some(note) = note {
        return text(&EmptySearchAnswer { results: [], note });
    }
    paged("results", (page, fields), |Match { found, similarity }| HitAnswer {
        path: &found.path,
        value: &found.value,
        tags: &found.tags,
        similarity: *similarity,
        version_id: found.version.to_string(),
        created_at: found.created_at.to_rfc3339(),
    })
}

/// Returns the answer of a `search` that describes its hits.
pub(crate) fn described(page: &SearchPage, note: Option<String>, fields: &Fields<'_>) -> Bytes {
    let next = page.next.map(|next| fields.cursor_of(&next.to_string()));
    text(&SearchAnswer {
        results: page.hits.iter().map(DescribedAnswer::of).collect(),
        more: page.more,
        missing: page.missing,
        note,
        has_more: next.as_ref().map(|_| true),
        next_cursor: next,
    })
}

#[derive(Serialize)]
struct SearchAnswer<'a> {
    results: Vec<DescribedAnswer<'a>>,
    more: bool,
    missing: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct EmptySearchAnswer<'a> {
    results: [(); 0],
    note: &'a str,
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

#[derive(Serialize)]
struct WrittenAnswer {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    version_id: String,
    created_at: String,
}

impl WrittenAnswer {
    fn of(written: &Written, deleted: Option<bool>) -> Self {
        let (version_id, created_at) = (written.version.to_string(), written.created_at.to_rfc3339());
        Self { ok: true, deleted, version_id, created_at }
    }
}

#[derive(Serialize)]
struct ManyWrittenAnswer {
    ok: bool,
    version_ids: Vec<String>,
    created_at: Option<String>,
}

#[derive(Serialize)]
struct GetAnswer<'a> {
    found: bool,
    path: &'a str,
    value: &'a RawValue,
    version_id: String,
    created_at: String,
    expires_at: Option<String>,
    tags: &'a [String],
}

impl<'a> GetAnswer<'a> {
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
#[derive(Serialize)]
#[serde(untagged)]
enum ManyItem<'a> {
    Found(GetAnswer<'a>),
    Missing { found: bool, path: &'a str },
}

#[derive(Serialize)]
struct SumAnswer {
    ok: bool,
    value: i64,
    version_id: String,
    created_at: String,
}

#[derive(Serialize)]
struct ExpiryAnswer {
    ok: bool,
    found: bool,
    version_id: String,
    created_at: String,
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct ItemAnswer<'a> {
    path: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct VersionAnswer<'a> {
    version_id: String,
    created_at: String,
    value: PastValue<'a>,
    expires_at: Option<String>,
    deleted_at: Option<String>,
}

/// Value of a version. The end of a value is shown as `{}`.
#[derive(Serialize)]
#[serde(untagged)]
enum PastValue<'a> {
    Value(&'a RawValue),
    Ended {},
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

/// Object with the items under `name`, followed by the cursor of the next page, if any.
struct PageAnswer<T> {
    name: &'static str,
    items: Vec<T>,
    next: Option<String>,
}

impl<T: Serialize> Serialize for PageAnswer<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name, &self.items)?;
        if let Some(next) = &self.next {
            map.serialize_entry("has_more", &true)?;
            map.serialize_entry("next_cursor", next)?;
        }
        map.end()
    }
}

fn paged<'a, I, T: Serialize>(
    name: &'static str,
    (page, fields): (&'a Paged<I>, &Fields<'_>),
    item: impl Fn(&'a I) -> T,
) -> Bytes {
    let items = page.items.iter().map(item).collect();
    text(&PageAnswer { name, items, next: page.next.as_deref().map(|next| fields.cursor_of(next)) })
}

fn text(answer: &impl Serialize) -> Bytes {
    let json = serde_json::to_vec(answer);
    // Without spare capacity, which would be held until the answer is sent.
    json.expect("an answer has string keys and finite numbers, so it is JSON").into_boxed_slice().into()
}
