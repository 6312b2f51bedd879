//! Calls of the key-value API: what each one takes, asks of the store, and answers.

use bytes::Bytes;
use garth::agent::kv::{
    DEFAULT_AGENT, DEFAULT_HISTORY, DEFAULT_HITS, Kv, MAX_HISTORY, MAX_HITS, MAX_LISTED, PageRequest, Put,
    Search, Semantics,
};
use garth::model::{Idempotency, Timestamp};

use super::call::{Answering, Call};
use crate::errors::Refusal;
use crate::fields::Fields;
use crate::wire;

/// Where a client names a write, so that a retry is not another one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest such name, in characters.
const MAX_IDEMPOTENCY_KEY: usize = 128;
/// For how long it is remembered, in seconds: 24 hours.
const IDEMPOTENCY_SECONDS: i64 = 24 * 60 * 60;

/// Handler of a call of the key-value API.
pub(super) type Handler = for<'a> fn(&'a Kv<'a>, &'a Call<'a>) -> Answering<'a>;

/// Answers a call.
pub(super) async fn answer(call: &Call<'_>, handler: Handler) -> Result<Bytes, Refusal> {
    let agent = call.fields.text("agent_id")?;
    let kv = Kv::new(&**call.account, agent.as_deref().unwrap_or(DEFAULT_AGENT), Some(&call.key.id))?;
    handler(&kv, call).await
}

pub(super) async fn put(kv: &Kv<'_>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    let fields = &call.fields;
    let idempotency = idempotency(call)?;
    let path = fields.required_text("path")?;
    let put = Put {
        expires_at: Some(expires_at(fields, call.env.now())?),
        tags: Some(fields.texts("tags")?.unwrap_or_default()),
        importance: Some(fields.number("importance")?.unwrap_or_default()),
        searchable: Some(fields.flag("searchable")?.unwrap_or_default()),
        ..Put::new(&path, Fields::required("value", fields.raw("value")?)?)
    };
    Ok(wire::put(&kv.put(&put, idempotency).await?))
}

pub(super) async fn get(kv: &Kv<'_>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    Ok(wire::get(kv.get(&call.fields.required_text("path")?).await?.as_ref()))
}

pub(super) async fn delete(kv: &Kv<'_>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    let path = call.fields.required_text("path")?;
    Ok(wire::delete(&kv.delete(&path, idempotency(call)?).await?))
}

pub(super) async fn list(kv: &Kv<'_>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    let prefix = call.fields.text("prefix")?;
    let cursor = call.fields.text("cursor")?;
    let page = page(&call.fields, cursor.as_deref(), MAX_LISTED, MAX_LISTED)?;
    Ok(wire::list(&kv.list(prefix.as_deref().unwrap_or("/"), page).await?))
}

pub(super) async fn glob(kv: &Kv<'_>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    let pattern = call.fields.required_text("pattern")?;
    let cursor = call.fields.text("cursor")?;
    let page = page(&call.fields, cursor.as_deref(), MAX_LISTED, MAX_LISTED)?;
    Ok(wire::glob(&kv.glob(&pattern, semantics(&call.fields)?, page).await?))
}

pub(super) async fn history(kv: &Kv<'_>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    let path = call.fields.required_text("path")?;
    let cursor = call.fields.text("cursor")?;
    let page = page(&call.fields, cursor.as_deref(), DEFAULT_HISTORY, MAX_HISTORY)?;
    Ok(wire::history(&kv.history(&path, page).await?))
}

pub(super) async fn search(kv: &Kv<'_>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    let fields = &call.fields;
    let (query, prefix) = (fields.required_text("query")?, fields.text("path_prefix")?);
    let tags_any = fields.texts("tags_any")?.unwrap_or_default();
    let cursor = fields.text("cursor")?;
    let page = page(fields, cursor.as_deref(), DEFAULT_HITS, MAX_HITS)?;
    let search = Search { query: &query, path_prefix: prefix.as_deref(), tags_any };
    Ok(wire::search(&kv.search(&search, page).await?))
}

/// Returns the page of an answer that is asked for.
fn page<'a>(
    fields: &Fields<'_>,
    cursor: Option<&'a str>,
    default: usize,
    max: usize,
) -> Result<PageRequest<'a>, Refusal> {
    let limit = fields.integer("limit", 1, max as u64)?;
    Ok(PageRequest { limit: limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(default), cursor })
}

fn semantics(fields: &Fields<'_>) -> Result<Semantics, Refusal> {
    match fields.text("semantics")?.as_deref() {
        None => Ok(Semantics::Whole),
        Some("segment") => Ok(Semantics::Segment),
        Some(_) => Err(Refusal::validation("\"semantics\" must be \"segment\", or left out")),
    }
}

/// Returns the time `ttl_seconds` after `now`.
fn expires_at(fields: &Fields<'_>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    let Some(seconds) = fields.integer("ttl_seconds", 1, u64::MAX)? else { return Ok(None) };
    let end = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .and_then(|nanoseconds| now.0.checked_add(nanoseconds));
    let message = "\"ttl_seconds\" reaches beyond the year 2262; leave it out to keep the value";
    end.map(|end| Some(Timestamp(end))).ok_or_else(|| Refusal::validation(message))
}

/// Returns the record that makes a repeat of this write answer as the first one did. Its key is the account's
/// own, because the tree that keeps it is.
fn idempotency(call: &Call<'_>) -> Result<Option<Idempotency>, Refusal> {
    let mut values = call.head.headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.as_bytes();
    let is_token = key.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
    let (Ok(key), true) = (std::str::from_utf8(key), is_token && values.next().is_none()) else {
        return Err(bad_idempotency_key());
    };
    if !(1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) {
        return Err(bad_idempotency_key());
    }
    let mut hash = blake3::Hasher::new();
    hash.update(call.path.as_bytes()).update(&[0]).update(call.body);
    Ok(Some(Idempotency {
        key: format!("http/{key}"),
        request_hash: *hash.finalize().as_bytes(),
        keep_until: call.env.now().plus_seconds(IDEMPOTENCY_SECONDS),
    }))
}

fn bad_idempotency_key() -> Refusal {
    Refusal::validation(format!(
        "`Idempotency-Key` is one token of 1 to {MAX_IDEMPOTENCY_KEY} characters out of a-z, A-Z, 0-9, `_` and `-`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_states_the_limits() {
        use garth::agent::kv::{
            MAX_KEY_CHARS, MAX_KEY_SEGMENT, MAX_KEY_SEGMENTS, MAX_PAGE_VALUES, MAX_VALUE,
        };
        let specification = include_str!("../../../../docs/specs/kv-api.md").replace(',', "");
        for limit in [
            format!("has at most {MAX_KEY_CHARS} characters and {MAX_KEY_SEGMENTS} segments"),
            format!("none of them over {MAX_KEY_SEGMENT} bytes"),
            format!("({MAX_VALUE} bytes)"),
            format!("({MAX_PAGE_VALUES} bytes) of values"),
            format!("integer 1 to {MAX_LISTED} | `{MAX_LISTED}`"),
            format!("integer 1 to {MAX_HISTORY} | `{DEFAULT_HISTORY}`"),
            format!("integer 1 to {MAX_HITS} | `{DEFAULT_HITS}`"),
            format!("1 to {} characters", garth::agent::kv::MAX_QUERY_CHARS),
            format!("one token of 1 to {MAX_IDEMPOTENCY_KEY} characters"),
            format!("within {} hours", IDEMPOTENCY_SECONDS / 3600),
        ] {
            assert!(specification.contains(&limit), "{limit}");
        }
    }
}
