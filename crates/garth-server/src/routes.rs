//! The routes: what each one takes, asks of the key-value store, and answers.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use garth::agent::kv::{
    DEFAULT_AGENT, DEFAULT_HISTORY, DEFAULT_HITS, Kv, MAX_HISTORY, MAX_HITS, MAX_LISTED, PageRequest, Put,
    Search, Semantics, Written,
};
use garth::datadir::{Admitted, ApiKey, Scope};
use garth::model::{Idempotency, Timestamp};
use garth::{DataDir, Env, ErrorKind, FileSystem};

use crate::answers::{Answers, PAGE, is_long};
use crate::auth::authorize;
use crate::errors::Refusal;
use crate::fields::Fields;
use crate::limits::{drain, read_body};
use crate::request::KeyId;
use crate::wire;

/// Where a client names a write, so that a retry is not another one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest such name, in characters.
const MAX_IDEMPOTENCY_KEY: usize = 128;
/// For how long it is remembered, in seconds: 24 hours.
const IDEMPOTENCY_SECONDS: i64 = 24 * 60 * 60;

/// What requests are answered from.
#[derive(Clone)]
struct Served {
    data_dir: DataDir,
    answers: Arc<Answers>,
}

/// A route of the key-value API.
#[derive(Clone, Copy, Debug)]
enum Call {
    Put,
    Get,
    Delete,
    List,
    Glob,
    History,
    Search,
}

impl Call {
    const ALL: [Self; 7] =
        [Self::Put, Self::Get, Self::Delete, Self::List, Self::Glob, Self::History, Self::Search];

    const fn path(self) -> &'static str {
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
    const fn scope(self) -> Scope {
        match self {
            Self::Get | Self::List | Self::Glob | Self::History => Scope::MemoryRead,
            Self::Put | Self::Delete => Scope::MemoryWrite,
            Self::Search => Scope::SearchRead,
        }
    }
}

/// Everything that is served.
pub(crate) fn router(data_dir: DataDir) -> Router {
    let served = Served { data_dir, answers: Arc::new(Answers::new()) };
    let mut router = Router::new().route("/healthz", get(healthz).fallback(not_get));
    for call in Call::ALL {
        router = router.route(call.path(), route(call));
    }
    router.fallback(no_route).with_state(served)
}

fn route(call: Call) -> MethodRouter<Served> {
    let handler = move |State(served): State<Served>, request: Request| async move {
        let (head, mut body) = request.into_parts();
        let (key, answered) = match authorize(&served.data_dir, &head.headers, call.scope()).await {
            Ok(admitted) => {
                let answered = bounded(&served, &admitted, call, &head, &mut body).await;
                (Some(KeyId(admitted.key().id.clone())), answered)
            }
            Err(refusal) => (None, Err(refusal)),
        };
        drain(&head.headers, body);
        let mut response = answered.map(json).into_response();
        if let Some(key) = key {
            response.extensions_mut().insert(key);
        }
        response
    };
    post(handler).fallback(not_post)
}

async fn healthz() -> Response {
    json(Bytes::from_static(br#"{"ok":true}"#))
}

async fn no_route(request: Request) -> Refusal {
    refuse(request, Refusal::no_route())
}

async fn not_get(request: Request) -> Refusal {
    refuse(request, Refusal::wrong_method("GET, HEAD"))
}

async fn not_post(request: Request) -> Refusal {
    refuse(request, Refusal::wrong_method("POST"))
}

fn refuse(request: Request, refusal: Refusal) -> Refusal {
    let (head, body) = request.into_parts();
    drain(&head.headers, body);
    refusal
}

fn json(body: Bytes) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Answers a request within the room that there is for answers.
async fn bounded(
    served: &Served,
    admitted: &Admitted,
    call: Call,
    head: &Parts,
    body: &mut Body,
) -> Result<Bytes, Refusal> {
    let body = read_body(&head.headers, body).await?;
    let account = &admitted.key().account;
    let answer = || answer(&served.data_dir, admitted, call, head, &body);
    if matches!(call, Call::History | Call::Search) {
        let room = served.answers.room(account, PAGE).await?;
        return Ok(room.hold(answer().await?));
    }
    let answered = answer().await?;
    if !is_long(&answered) {
        return Ok(answered);
    }
    if let Some(room) = served.answers.room_now(account, answered.len()) {
        return Ok(room.hold(answered));
    }
    // rather asked again than held while it waits; long answers are those of reads
    drop(answered);
    let room = served.answers.room(account, PAGE).await?;
    Ok(room.hold(answer().await?))
}

async fn answer(
    data_dir: &DataDir,
    admitted: &Admitted,
    call: Call,
    head: &Parts,
    body: &Bytes,
) -> Result<Bytes, Refusal> {
    let tree = match data_dir.tree_of(admitted).await {
        Err(error) if error.is(ErrorKind::NotFound) => return Err(Refusal::unauthorized()), // deleted just now
        tree => tree?,
    };
    let caller = Caller { fs: &*tree, key: admitted.key(), env: data_dir.env() };
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

/// Who makes a request, and on which tree.
struct Caller<'a> {
    fs: &'a dyn FileSystem,
    key: &'a ApiKey,
    env: &'a Env,
}

impl<'a> Caller<'a> {
    fn kv(&self, fields: &Fields<'_>) -> Result<Kv<'a>, Refusal> {
        let agent = fields.text("agent_id")?;
        Ok(Kv::new(self.fs, agent.as_deref().unwrap_or(DEFAULT_AGENT), Some(&self.key.id))?)
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
    fn the_specification_has_a_section_for_each_route_and_names_its_scope() {
        let specification = include_str!("../../../docs/specs/kv-api.md");
        let sections: Vec<&str> =
            specification.lines().filter_map(|line| line.strip_prefix("### POST ")).collect();
        assert_eq!(sections, Call::ALL.map(Call::path));
        for call in Call::ALL {
            let scope = format!("| `{}` |", call.scope().as_str());
            let row = specification.lines().find(|line| line.starts_with(&scope)).unwrap();
            assert!(row.contains(&format!("`{}`", call.path())), "{row}");
        }
    }

    #[test]
    fn the_specification_states_the_limits() {
        use garth::agent::kv::{
            MAX_KEY_CHARS, MAX_KEY_SEGMENT, MAX_KEY_SEGMENTS, MAX_PAGE_VALUES, MAX_VALUE,
        };
        let specification = include_str!("../../../docs/specs/kv-api.md").replace(',', "");
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
