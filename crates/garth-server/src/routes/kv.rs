//! Calls of the key-value API.

use std::borrow::Cow;

use bytes::Bytes;
use garth_agent::kv::{
    Condition, CurrentValue, DEFAULT_HISTORY, Kv, KvError, MAX_GETS, MAX_HISTORY, MAX_KEY_CHARS, MAX_LISTED,
    MAX_PAGE_VALUES, MAX_PUTS, MAX_TAGS, PageRequest, Paged, Put, Semantics,
};
use garth_engine::compute::working;
use garth_engine::model::{Timestamp, VersionId};
use serde_json::value::RawValue;

use super::call::Call;
use crate::errors::Refusal;
use crate::fields::{
    FieldGroup as _, Fields, MAX_INTEGER, Page, array, fields, flag, integer, json, number_in, signed,
    string_of, strings, words,
};
use crate::wire;

/// Limit on the lifetime of a value in seconds: a 64-bit number of nanoseconds holds no more.
const MAX_TTL: u64 = i64::MAX.unsigned_abs() / 1_000_000_000;
/// Limit on the number that one call adds.
const MAX_BY: i64 = MAX_INTEGER.cast_signed();

fields! {
    /// Stores a value as a new version of the key, and replaces tags, importance and expiry.
    pub(super) struct PutFields<'a> {
        /// Key.
        path: Cow<'a, str> = string_of("key path");
        /// Value; `null` is a value.
        value: &'a RawValue = json();
        /// Seconds from now after which the key is absent. Default: never.
        ttl_seconds: Option<u64> = integer(1, MAX_TTL);
        /// Tags for `search`, each of at most 64 characters.
        tags: Vec<String> = strings().of("tag").at_most(MAX_TAGS), or Vec::new();
        /// Weight, stored with the value.
        importance: f64 = number_in(0.0, 1.0), or 0.0;
        /// `true` lets `search` find the value.
        searchable: bool = flag(), or false;
        /// Version that the value must have now; otherwise `CONFLICT`. Default: any.
        if_version: Option<Cow<'a, str>> = string_of("version");
        /// `true` requires that the key has no value; otherwise `CONFLICT`.
        if_absent: bool = flag(), or false;
    }
}

pub(super) async fn put(kv: &Kv<'_>, call: &Call<'_>, fields: PutFields<'_>) -> Result<Bytes, Refusal> {
    let written = kv.put(&fields.put(call)?, call.record()).await;
    Ok(wire::put(&written.map_err(of_key(&fields.path))?))
}

impl PutFields<'_> {
    /// Returns the put that the fields describe.
    fn put(&self, call: &Call<'_>) -> Result<Put<'_>, Refusal> {
        let condition = match (version(self.if_version.as_deref())?, self.if_absent) {
            (Some(_), true) => {
                let message = "\"if_version\" and \"if_absent\" exclude each other; send one of them";
                return Err(Refusal::validation(message));
            }
            (Some(version), false) => Condition::Version(version),
            (None, true) => Condition::Absent,
            (None, false) => Condition::Any,
        };
        Ok(Put {
            // A missing field has its default, not the value before, so every attribute is set.
            expires_at: Some(expires_at(self.ttl_seconds, call.env.now())?),
            tags: Some(self.tags.clone()),
            importance: Some(self.importance),
            searchable: Some(self.searchable),
            condition,
            ..Put::new(&self.path, self.value)
        })
    }
}

fields! {
    /// Stores several values in one commit, each as `put` does: all of them or none.
    pub(super) struct PutManyFields<'a> {
        /// Values, at least one: objects with the fields of `put`, except for `agent_id`.
        items: Vec<&'a RawValue> = array("values").at_most(MAX_PUTS);
    }
}

pub(super) async fn put_many(
    kv: &Kv<'_>,
    call: &Call<'_>,
    fields: PutManyFields<'_>,
) -> Result<Bytes, Refusal> {
    if fields.items.is_empty() {
        return Err(Refusal::validation(format!("\"items\" must have 1 to {MAX_PUTS} values")));
    }
    let items = fields.items.iter().enumerate();
    let items = items.map(|(at, item)| PutFields::of_item(item).map_err(|refusal| in_item(at, refusal)));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let puts = items.iter().enumerate();
    let puts = puts.map(|(at, item)| item.put(call).map_err(|refusal| in_item(at, refusal)));
    let puts = puts.collect::<Result<Vec<_>, _>>()?;
    let written = kv.put_all(&puts, call.record()).await.map_err(about_key)?;
    Ok(wire::put_many(&written))
}

impl<'a> PutFields<'a> {
    /// Reads the fields of one of several puts.
    fn of_item(item: &'a RawValue) -> Result<Self, Refusal> {
        Self::read(&Fields::parse(("/v1/put", &[]), item.get().as_bytes(), Self::FIELDS)?)
    }
}

/// Names the item that a refusal is about, by its number from 0.
fn in_item(at: usize, refusal: Refusal) -> Refusal {
    refusal.about(format_args!("\"items[{at}]\""))
}

/// Returns the refusal of an error of a call with several keys, which names the key at fault.
fn about_key(error: KvError) -> Refusal {
    let key = error.key().map(str::to_owned);
    let refusal = Refusal::from(error);
    match key {
        Some(key) => naming(&key, refusal),
        None => refusal,
    }
}

/// Returns the refusal of an error of a call with one key.
fn of_key(key: &str) -> impl FnOnce(KvError) -> Refusal {
    move |error| Refusal::from(error).naming_key(key)
}

/// Names the key that a refusal is about, unless its message does.
fn naming(key: &str, refusal: Refusal) -> Refusal {
    let refusal = refusal.naming_key(key);
    // A key that is refused for its length may be as long as the body.
    let key = format!("`{}`", key.chars().take(MAX_KEY_CHARS).collect::<String>());
    match refusal.message.contains(&key) {
        true => refusal,
        false => refusal.about(key),
    }
}

fields! {
    /// Returns the value of a key.
    pub(super) struct GetFields<'a> {
        /// Key.
        path: Cow<'a, str> = string_of("key path");
    }
}

pub(super) async fn get(kv: &Kv<'_>, _: &Call<'_>, fields: GetFields<'_>) -> Result<Bytes, Refusal> {
    let found = kv.get(&fields.path).await.map_err(of_key(&fields.path))?;
    Ok(wire::get(found.as_ref()))
}

fields! {
    /// Returns the values of several keys, all of one state.
    pub(super) struct GetManyFields<'a> {
        /// Keys.
        paths: Vec<String> = strings().of("key path").at_most(MAX_GETS);
        /// `next_cursor` of the page before. Default: the first page.
        cursor: Option<Cow<'a, str>> = string_of("cursor");
    }
}

pub(super) async fn get_many(
    kv: &Kv<'_>,
    call: &Call<'_>,
    fields: GetManyFields<'_>,
) -> Result<Bytes, Refusal> {
    // Also those of later pages, so that all pages of a request succeed or none.
    Kv::check_paths(&fields.paths).map_err(about_key)?;
    let position = fields.cursor.map(|cursor| call.fields.position(&cursor)).transpose()?;
    let begin = position.map_or(Ok(0), |position| position.parse::<usize>());
    let begin = begin.map_err(|_| Refusal::cursor())?;
    let paths: Vec<&str> = fields.paths.iter().skip(begin).map(String::as_str).collect();
    let (mut items, mut bytes) = (Vec::new(), 0);
    for (path, read) in paths.iter().zip(kv.get_many(&paths).await?.values) {
        let found = read.map_err(|error| naming(path, error.into()))?;
        bytes += found.as_ref().map_or(0, bytes_of);
        // One value has far fewer, so that each page has at least one key.
        if bytes > MAX_PAGE_VALUES {
            break;
        }
        items.push((*path, found));
    }
    let next = begin + items.len();
    let next = (next < fields.paths.len()).then(|| next.to_string());
    let answer = wire::get_many(&Paged { items, next }, &call.fields);
    working(answer.len());
    Ok(answer)
}

/// Returns the bytes of a value and its tags.
fn bytes_of(found: &CurrentValue) -> usize {
    found.value.get().len() + found.tags.iter().map(String::len).sum::<usize>()
}

fields! {
    /// Adds to the integer value of a key, and returns the sum. Concurrent increments are all counted.
    pub(super) struct IncrementFields<'a> {
        /// Key; without a value it counts as 0.
        path: Cow<'a, str> = string_of("key path");
        /// Number to add.
        by: i64 = signed(-MAX_BY, MAX_BY), or 1;
    }
}

pub(super) async fn increment(
    kv: &Kv<'_>,
    _: &Call<'_>,
    fields: IncrementFields<'_>,
) -> Result<Bytes, Refusal> {
    let (sum, written) = kv.increment(&fields.path, fields.by).await.map_err(of_key(&fields.path))?;
    Ok(wire::increment(sum, &written))
}

fields! {
    /// Sets or removes the expiry of a key. Value and other attributes stay as they are.
    pub(super) struct ExpireFields<'a> {
        /// Key.
        path: Cow<'a, str> = string_of("key path");
        /// Seconds from now after which the key is absent. Default: never.
        ttl_seconds: Option<u64> = integer(1, MAX_TTL);
    }
}

pub(super) async fn expire(kv: &Kv<'_>, call: &Call<'_>, fields: ExpireFields<'_>) -> Result<Bytes, Refusal> {
    let end = expires_at(fields.ttl_seconds, call.env.now())?;
    let done = kv.expire(&fields.path, end).await.map_err(of_key(&fields.path))?;
    Ok(wire::expire(done.as_ref().map(|(end, written)| (*end, written))))
}

fields! {
    /// Deletes the value of a key; its versions stay readable through `history`.
    pub(super) struct DeleteFields<'a> {
        /// Key.
        path: Cow<'a, str> = string_of("key path");
        /// Version that the value must have now; otherwise `CONFLICT`. Default: any.
        if_version: Option<Cow<'a, str>> = string_of("version");
    }
}

pub(super) async fn delete(kv: &Kv<'_>, call: &Call<'_>, fields: DeleteFields<'_>) -> Result<Bytes, Refusal> {
    let condition = version(fields.if_version.as_deref())?.map_or(Condition::Any, Condition::Version);
    let written = kv.delete_if(&fields.path, condition, call.record()).await;
    Ok(wire::delete(&written.map_err(of_key(&fields.path))?))
}

/// Returns the version that a condition names.
fn version(text: Option<&str>) -> Result<Option<VersionId>, Refusal> {
    let wrong = |_| Refusal::validation("\"if_version\" must be a version such as ver_7-3");
    text.map(str::parse::<VersionId>).transpose().map_err(wrong)
}

fields! {
    /// Lists the keys one segment below another key, in byte order.
    pub(super) struct ListFields<'a> {
        /// Parent key; compared by segment.
        prefix: Cow<'a, str> = string_of("key path"), or Cow::Borrowed("/");
        ..page: Page<MAX_LISTED, MAX_LISTED>;
    }
}

pub(super) async fn list(kv: &Kv<'_>, call: &Call<'_>, fields: ListFields<'_>) -> Result<Bytes, Refusal> {
    let listed = kv.list(&fields.prefix, page(&fields.page)).await.map_err(of_key(&fields.prefix))?;
    Ok(wire::list(&listed, &call.fields))
}

fields! {
    /// Lists the keys with a value that match a pattern, in byte order of the complete key.
    pub(super) struct GlobFields<'a> {
        /// Key path with wildcards.
        pattern: Cow<'a, str> = string_of("key pattern");
        /// `like`: `*` and `**` match any characters and `?` one, also `/`, as the wildcards of SQL's `LIKE`.
        /// `segment` keeps `*` and `?` inside a segment.
        semantics: Cow<'a, str> = words(&["like", "segment"]), or Cow::Borrowed("like");
        ..page: Page<MAX_LISTED, MAX_LISTED>;
    }
}

pub(super) async fn glob(kv: &Kv<'_>, call: &Call<'_>, fields: GlobFields<'_>) -> Result<Bytes, Refusal> {
    let semantics = if fields.semantics == "segment" { Semantics::Segment } else { Semantics::Whole };
    Ok(wire::glob(&kv.glob(&fields.pattern, semantics, page(&fields.page)).await?, &call.fields))
}

fields! {
    /// Lists the versions of a key, newest first.
    pub(super) struct HistoryFields<'a> {
        /// Key.
        path: Cow<'a, str> = string_of("key path");
        ..page: Page<MAX_HISTORY, DEFAULT_HISTORY>;
    }
}

pub(super) async fn history(
    kv: &Kv<'_>,
    call: &Call<'_>,
    fields: HistoryFields<'_>,
) -> Result<Bytes, Refusal> {
    let past = kv.history(&fields.path, page(&fields.page)).await.map_err(of_key(&fields.path))?;
    Ok(wire::history(&past, &call.fields))
}

/// Returns the page that a call asks for.
pub(super) fn page<'a, const MAX: usize, const DEFAULT: usize>(
    page: &'a Page<MAX, DEFAULT>,
) -> PageRequest<'a> {
    PageRequest { limit: page.limit, cursor: page.cursor.as_deref() }
}

/// Returns the time `seconds` after `now`. Fails with `VALIDATION_ERROR` if it is too far in the future.
fn expires_at(seconds: Option<u64>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    let Some(seconds) = seconds else { return Ok(None) };
    let end = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .and_then(|nanoseconds| now.0.checked_add(nanoseconds));
    let message = "\"ttl_seconds\" reaches beyond the year 2262; leave it out to keep the value";
    end.map(|end| Some(Timestamp(end))).ok_or_else(|| Refusal::validation(message))
}

#[cfg(test)]
mod tests;
