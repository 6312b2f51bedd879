//! Media over HTTP, as they are: a body that is stored while it comes, and one that is read while it is
//! taken, whole or a range of it.

mod range;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use garth::agent::media::{MAX_MEDIA, Media, MediaKey, NewMedia, Stored};
use garth::agent::session::SessionKey;
use garth::datadir::Scope;
use garth::model::{Author, ByteRange};
use garth::{Error, ErrorKind};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::range::{Part, part};
use super::respond::{json as json_response, not_get, not_post, with_key};
use super::served::Served;
use crate::auth::authorize;
use crate::errors::Refusal;
use crate::limits::{STALL_TIME, drain};

/// The routes that take and give bytes as they are.
pub(super) fn routes(router: Router<Served>) -> Router<Served> {
    let read = get(read).fallback(not_get);
    router
        .route("/v1/agents/{agent}/media", post(put).fallback(not_post))
        .route("/v1/agents/{agent}/media/{session_key}/{file}", read)
}

/// What a put says besides its body and type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutQuery {
    session_key: String,
    #[serde(default)]
    name: String,
}

async fn put(
    State(served): State<Served>,
    path: Result<Path<String>, axum::extract::rejection::PathRejection>,
    query: Result<Query<PutQuery>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response {
    let (head, mut body) = request.into_parts();
    let admitted = match authorize(&served.data_dir, &head.headers, Scope::MemoryWrite).await {
        Ok(admitted) => admitted,
        Err(refusal) => {
            drain(&head.headers, body);
            return refusal.into_response();
        }
    };
    let answered = async {
        let agent =
            path.map_err(|_| Refusal::validation("the agent in the path is percent-encoded UTF-8"))?.0;
        let query = query.map_err(|_| {
            Refusal::validation("the query takes session_key, and may take name; each percent-encoded, once")
        })?;
        check_agent(&agent, &query.session_key)?;
        let length =
            head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > MAX_MEDIA) {
            return Err(too_large());
        }
        let mime_type = head.headers.get(CONTENT_TYPE).and_then(|mime_type| mime_type.to_str().ok());
        let mime_type =
            mime_type.ok_or_else(|| Refusal::validation("the header Content-Type says the MIME type"))?;
        let tree = served.tree(&admitted).await?;
        let author = Author::agent(&agent).with_key(&admitted.key().id);
        let media = Media::new(&*tree, served.data_dir.env().clone()).author(author);
        let new = NewMedia::new(&query.session_key, mime_type).file_name(&query.name);
        let stored = media.put(&new, frames(&mut body)).await.map_err(|error| match error.kind() {
            ErrorKind::TooLarge => too_large(),
            ErrorKind::TimedOut => Refusal::slow_body(STALL_TIME),
            _ => error.into(),
        })?;
        Ok(json_response(Bytes::from(json!({"ok": true, "media": item(&stored)}).to_string())))
    };
    let answered: Result<Response, Refusal> = answered.await;
    drain(&head.headers, body);
    with_key(answered.into_response(), &admitted)
}

async fn read(
    State(served): State<Served>,
    path: Result<Path<(String, String, String)>, axum::extract::rejection::PathRejection>,
    headers: HeaderMap,
) -> Response {
    let admitted = match authorize(&served.data_dir, &headers, Scope::MemoryRead).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.into_response(),
    };
    let answered = async {
        let bad = || {
            Refusal::validation("the path is /v1/agents/AGENT/media/SESSION-KEY/UUID.EXT, percent-encoded")
        };
        let Path((agent, session_key, file)) = path.map_err(|_| bad())?;
        check_agent(&agent, &session_key)?;
        let key: MediaKey = format!("media/{session_key}/{file}").parse()?;
        let tree = served.tree(&admitted).await?;
        let (stored, open) = Media::new(&*tree, served.data_dir.env().clone()).open(&key).await?;
        let etag = format!("\"{}\"", stored.entry.etag);
        let is_known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
        if is_known.is_some_and(|known| known == "*" || known.split(',').any(|known| known.trim() == etag)) {
            return Ok((StatusCode::NOT_MODIFIED, [(ETAG, etag)]).into_response());
        }
        let size = stored.entry.size;
        let part = part(&headers, &etag, size);
        let (status, range) = match &part {
            Part::Whole => (StatusCode::OK, 0..size),
            Part::Range(range) => (StatusCode::PARTIAL_CONTENT, range.clone()),
            Part::Beyond => {
                let range = [(CONTENT_RANGE, format!("bytes */{size}"))];
                return Ok((StatusCode::RANGE_NOT_SATISFIABLE, range).into_response());
            }
        };
        let length = range.end - range.start;
        let stream = open.stream(ByteRange { offset: range.start, length });
        let mut response = (status, Body::from_stream(stream)).into_response();
        let mime_type = stored.entry.attributes.content_type.as_deref().unwrap_or("application/octet-stream");
        let octets = HeaderValue::from_static("application/octet-stream");
        let answer = response.headers_mut();
        answer.insert(CONTENT_TYPE, HeaderValue::from_str(mime_type).unwrap_or(octets));
        answer.insert(CONTENT_LENGTH, HeaderValue::from(length));
        answer.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        answer.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        answer.extend(HeaderValue::from_str(&etag).map(|etag| (ETAG, etag)));
        if status == StatusCode::PARTIAL_CONTENT {
            let value = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
            answer.extend(HeaderValue::from_str(&value).map(|value| (CONTENT_RANGE, value)));
        }
        Ok(response)
    };
    let answered: Result<Response, Refusal> = answered.await;
    with_key(answered.into_response(), &admitted)
}

/// What is known of a media file.
pub(super) fn item(stored: &Stored) -> Value {
    let attributes = &stored.entry.attributes;
    // what garth keeps for itself is of no use to others
    let metadata: serde_json::Map<String, Value> = attributes
        .metadata
        .iter()
        .filter(|(name, _)| !name.starts_with("garth."))
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    json!({
        "key": stored.key.to_string(), "path": stored.path.as_str(), "size": stored.entry.size,
        "content_type": attributes.content_type, "metadata": metadata,
    })
}

/// A session key names its agent, which is that of the path.
pub(super) fn check_agent(agent: &str, session_key: &str) -> Result<(), Refusal> {
    if !session_key.starts_with("agent:") {
        return Ok(());
    }
    let own = SessionKey::of(&[agent, "-"])?;
    if session_key.starts_with(own.as_str().trim_end_matches('-')) {
        return Ok(());
    }
    Err(Refusal::validation(format!("the session key is one of another agent than {agent}")))
}

/// The pieces of a body; one that comes too late ends it.
fn frames(body: &mut Body) -> impl Stream<Item = garth::Result<Bytes>> + Send + '_ {
    let frames = futures::stream::unfold(body, async |body| {
        let frame = timeout(STALL_TIME, body.frame()).await;
        let piece = match frame {
            Err(_) => Err(Error::new(ErrorKind::TimedOut, "the body stopped coming")),
            Ok(None) => return None,
            Ok(Some(Err(_))) => {
                Err(Error::new(ErrorKind::InvalidArgument, "the body broke off or is badly encoded"))
            }
            // trailers have no data
            Ok(Some(Ok(frame))) => Ok(frame.into_data().unwrap_or_default()),
        };
        Some((piece, body))
    });
    frames.boxed()
}

fn too_large() -> Refusal {
    Refusal::too_large(usize::try_from(MAX_MEDIA).unwrap_or(usize::MAX))
}
