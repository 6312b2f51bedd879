//! Media over HTTP: uploads that are stored while they arrive, and downloads, complete or of one range, that
//! are read while they are sent.

pub(super) mod answers;

use std::borrow::Cow;

use axum::body::Body;
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use garth_agent::media::{MAX_MEDIA, MediaKey, NewMedia};
use garth_engine::ErrorKind;
use garth_engine::model::ByteRange;

use self::answers::{MediaItem, MediaStored};
use super::call::Call;
use super::header::Header;
use super::open::reach;
use super::range::{Part, part};
use super::respond::{IntoBody as _, Json, confine};
use super::retry::RETRY_HEADER;
use super::transfer::{incoming, outgoing};
use super::tree::Tree;
use crate::errors::Refusal;
use crate::fields::{fields, string, string_of};

/// Headers of an upload.
pub(super) static PUT_HEADERS: &[Header] = &[
    Header { name: "content-type", is_required: true, meaning: "MIME type, stored with the bytes." },
    RETRY_HEADER,
];
/// Headers of a download.
pub(super) static READ_HEADERS: &[Header] = &[
    Header { name: "if-none-match", is_required: false, meaning: "`ETag` of bytes that the client has." },
    Header { name: "if-range", is_required: false, meaning: "`ETag` of bytes that `Range` continues." },
    Header { name: "range", is_required: false, meaning: "One range of bytes." },
];

fields! {
    /// Stores a media file: the request body, unchanged.
    pub(super) struct PutFields<'a> {
        /// Session key, or the UUID of a session that has none.
        session_key: Cow<'a, str> = string_of("session key");
        /// Name of the file.
        name: Cow<'a, str> = string(), or Cow::Borrowed("");
    }
}

pub(super) async fn put(
    call: &Call<'_>,
    fields: PutFields<'_>,
    head: &Parts,
    body: &mut Body,
) -> Result<Bytes, Refusal> {
    // A body that declares too much is refused before it is read.
    let length =
        head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_MEDIA) {
        return Err(too_large());
    }
    let mime_type = head.headers.get(CONTENT_TYPE).and_then(|mime_type| mime_type.to_str().ok());
    let mime_type = mime_type
        .ok_or_else(|| Refusal::validation("the header Content-Type with the MIME type is missing"))?;
    let opened = reach(call, Tree::Media).await?;
    let (sessions, media) = (opened.sessions()?, opened.media()?);
    let session = sessions.by_media_key(&fields.session_key).await;
    let content = incoming(call, body).await?;
    let stored = match session {
        Ok(session) => {
            opened.make().await?;
            // A session without a session key is named by its id.
            let key = session.meta.session_key.as_ref().unwrap_or(&session.meta.id);
            let new = NewMedia::new(key, mime_type).file_name(&*fields.name).session(&session.meta.id);
            media.put(&new, content).await
        }
        // A repeat is answered even if the session was deleted after the first try.
        Err(error) if error.is(ErrorKind::NotFound) => {
            media.put_before(content).await.and_then(|before| before.ok_or(error))
        }
        Err(error) => Err(error),
    };
    let stored = stored.map_err(|error| match error.kind() {
        ErrorKind::TooLarge => too_large(),
        _ => error.into(),
    })?;
    Ok(Json::of(&MediaStored { ok: true, media: MediaItem::of(&stored) })?.into_body())
}

fields! {
    /// Returns the bytes of a media file.
    pub(super) struct ReadFields<'a> {}
}

pub(super) async fn read(call: &Call<'_>, head: &Parts) -> Result<Response, Refusal> {
    let headers = &head.headers;
    let session_key = call.argument("session_key");
    let key: MediaKey = format!("media/{session_key}/{}", call.argument("file")).parse()?;
    let opened = reach(call, Tree::Media).await?;
    let (stored, file) = opened.media()?.open(&key).await?;
    let etag = format!("\"{}\"", stored.entry.etag);
    let is_known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    // `*` matches every version (RFC 9110, 13.1.2).
    if is_known.is_some_and(|known| known == "*" || known.split(',').any(|known| known.trim() == etag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, etag)]).into_response());
    }
    let size = stored.entry.size;
    let part = part(head, &etag, size);
    let (status, range) = match &part {
        Part::Whole => (StatusCode::OK, 0..size),
        Part::Range(range) => (StatusCode::PARTIAL_CONTENT, range.clone()),
        Part::Beyond => return Err(Refusal::range_beyond(size)),
    };
    let length = range.end - range.start;
    let content = outgoing(call, &head.method, file, ByteRange { offset: range.start, length }).await?;
    let mut response = (status, content).into_response();
    let mime_type = stored.entry.attributes.content_type.as_deref().unwrap_or("application/octet-stream");
    // A stored type may not be valid in a header.
    let octets = HeaderValue::from_static("application/octet-stream");
    let answer = response.headers_mut();
    answer.insert(CONTENT_TYPE, HeaderValue::from_str(mime_type).unwrap_or(octets));
    answer.insert(CONTENT_LENGTH, HeaderValue::from(length));
    answer.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    confine(answer);
    // An invalid value leaves the header out.
    answer.extend(HeaderValue::from_str(&etag).map(|etag| (ETAG, etag)));
    if status == StatusCode::PARTIAL_CONTENT {
        let value = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
        answer.extend(HeaderValue::from_str(&value).map(|value| (CONTENT_RANGE, value)));
    }
    Ok(response)
}

fn too_large() -> Refusal {
    Refusal::too_large(usize::try_from(MAX_MEDIA).unwrap_or(usize::MAX), "")
}
