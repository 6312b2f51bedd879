//! The routes of the key-value API: what each one takes, asks of the store, and answers.

use axum::http::request::Parts;
use bytes::Bytes;
use garth::agent::kv::{
    DEFAULT_AGENT, DEFAULT_HISTORY, DEFAULT_HITS, Kv, MAX_HISTORY, MAX_HITS, MAX_LISTED, PageRequest, Put,
    Search, Semantics, Written,
};
use garth::datadir::Scope;
use garth::model::{Idempotency, Timestamp};

use super::Caller;
use crate::errors::Refusal;
use crate::fields::Fields;
use crate::wire;

/// Where a client names a write, so that a retry is not another one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest such name, in characters.
const MAX_IDEMPOTENCY_KEY: usize = 128;
/// For how long it is remembered, in seconds: 24 hours.
const IDEMPOTENCY_SECONDS: i64 = 24 * 60 * 60;

/// A route of the key-value API.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Put,
    Get,
    Delete,
    List,
    Glob,
    History,
    Search,
}

impl Call {
    pub(super) const ALL: [Self; 7] =
        [Self::Put, Self::Get, Self::Delete, Self::List, Self::Glob, Self::History, Self::Search];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Put => "/v1/put",
            Self::Get => "/v1/get",
            Self::Delete => "/v1/delete",
            Self::List => "/v1/list",
            Self::Glob => "/v1/glob",
            Self::History => "/v1/history",
            Self::Search => "/v1/search",
        }
    }

    /// The scope it takes.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Get | Self::List | Self::Glob | Self::History => Scope::MemoryRead,
            Self::Put | Self::Delete => Scope::MemoryWrite,
            Self::Search => Scope::SearchRead,
        }
    }

    /// Whether its answers may be long.
    pub(super) const fn is_long(self) -> bool {
        matches!(self, Self::History | Self::Search)
    }
}

/// Answers a call.
pub(super) async fn answer(
    caller: &Caller<'_>,
    call: Call,
    head: &Parts,
    body: &Bytes,
) -> Result<Bytes, Refusal> {
    let fields = Fields::parse(body)?;
    let kv = caller.kv(&fields)?;
    match call {
        Call::Put => {
            let idempotency = caller.idempotency(call, head, body)?;
            Ok(wire::put(&caller.put(&kv, &fields, idempotency).await?))
        }
        Call::Get => Ok(wire::get(kv.get(&fields.required_text("path")?).await?.as_ref())),
        Call::Delete => {
            let path = fields.required_text("path")?;
            let idempotency = caller.idempotency(call, head, body)?;
            Ok(wire::delete(&kv.delete(&path, idempotency).await?))
        }
        Call::List => {
            let prefix = fields.text("prefix")?;
            let cursor = fields.text("cursor")?;
            let page = page(&fields, cursor.as_deref(), MAX_LISTED, MAX_LISTED)?;
            Ok(wire::list(&kv.list(prefix.as_deref().unwrap_or("/"), page).await?))
        }
        Call::Glob => {
            let pattern = fields.required_text("pattern")?;
            let cursor = fields.text("cursor")?;
            let page = page(&fields, cursor.as_deref(), MAX_LISTED, MAX_LISTED)?;
            Ok(wire::glob(&kv.glob(&pattern, semantics(&fields)?, page).await?))
        }
        Call::History => {
            let path = fields.required_text("path")?;
            let cursor = fields.text("cursor")?;
            let page = page(&fields, cursor.as_deref(), DEFAULT_HISTORY, MAX_HISTORY)?;
            Ok(wire::history(&kv.history(&path, page).await?))
        }
        Call::Search => {
            let (query, prefix) = (fields.required_text("query")?, fields.text("path_prefix")?);
            let tags_any = fields.texts("tags_any")?.unwrap_or_default();
            let cursor = fields.text("cursor")?;
            let page = page(&fields, cursor.as_deref(), DEFAULT_HITS, MAX_HITS)?;
            let search = Search { query: &query, path_prefix: prefix.as_deref(), tags_any };
            Ok(wire::search(&kv.search(&search, page).await?))
        }
    }
}

/// Which page of an answer is asked for.
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

/// The moment `ttl_seconds` from `now`.
fn expires_at(fields: &Fields<'_>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    let Some(seconds) = fields.integer("ttl_seconds", 1, u64::MAX)? else { return Ok(None) };
    let end = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .and_then(|nanoseconds| now.0.checked_add(nanoseconds));
    let message = "\"ttl_seconds\" reaches beyond the year 2262; leave it out to keep the value";
    end.map(|end| Some(Timestamp(end))).ok_or_else(|| Refusal::validation(message))
}

impl<'a> Caller<'a> {
    fn kv(&self, fields: &Fields<'_>) -> Result<Kv<'a>, Refusal> {
        let agent = fields.text("agent_id")?;
        Ok(Kv::new(&**self.account, agent.as_deref().unwrap_or(DEFAULT_AGENT), Some(&self.key.id))?)
    }

    async fn put(
        &self,
        kv: &Kv<'_>,
        fields: &Fields<'_>,
        idempotency: Option<Idempotency>,
    ) -> Result<Written, Refusal> {
        let path = fields.required_text("path")?;
        let put = Put {
            expires_at: Some(expires_at(fields, self.env.now())?),
            tags: Some(fields.texts("tags")?.unwrap_or_default()),
            importance: Some(fields.number("importance")?.unwrap_or_default()),
            searchable: Some(fields.flag("searchable")?.unwrap_or_default()),
            ..Put::new(&path, Fields::required("value", fields.raw("value")?)?)
        };
        Ok(kv.put(&put, idempotency).await?)
    }

    /// The record that makes a retry of this write answer the first one again. Its key is the account's own,
    /// because the tree that keeps it is.
    fn idempotency(&self, call: Call, head: &Parts, body: &[u8]) -> Result<Option<Idempotency>, Refusal> {
        let mut values = head.headers.get_all(IDEMPOTENCY_KEY).iter();
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
        hash.update(call.path().as_bytes()).update(&[0]).update(body);
        Ok(Some(Idempotency {
            key: format!("http/{key}"),
            request_hash: *hash.finalize().as_bytes(),
            keep_until: self.env.now().plus_seconds(IDEMPOTENCY_SECONDS),
        }))
    }
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
