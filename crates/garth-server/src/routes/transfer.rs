//! Files on their way in and out. Only a piece of each is in memory, its room is bounded, and a client that
//! stops or trickles ends its transfer: the stream of a body has a least pace, and so has the connection
//! that sends an answer.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_RANGE};
use axum::http::{HeaderMap, HeaderValue, Method};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use garth_agent::files::Expected;
use garth_engine::Error;
use garth_engine::fs::OpenFile;
use garth_engine::model::ByteRange;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::time::{Instant, timeout};

use super::call::Call;
use super::header::Header;
use crate::errors::{Code, Refusal, SlowBody};
use crate::pace::Pace;

/// Longest file in bytes that takes no room: its connection costs as much.
const SHORT: u64 = 16 << 10;
/// Memory of a file that is received, in bytes: a chunk that is written, and one that arrives.
const RECEIVED: usize = 2 << 20;
/// Memory of a file that is sent, in bytes: one piece of its stream.
const SENT: u64 = 1 << 20;

/// Returns the body of a request as a stream. It fails with [`SlowBody`] if nothing arrives for `stall_time`,
/// or less than 1 MiB within `body_time`; and if the key of the request ends before the body does, so that
/// nothing of it is committed.
pub(super) async fn incoming<'b>(
    call: &Call<'b>,
    body: &'b mut Body,
) -> Result<BoxStream<'b, garth_engine::Result<Bytes>>, Refusal> {
    let is_short = body.size_hint().upper().is_some_and(|bytes| bytes <= SHORT);
    let room = match is_short {
        true => None,
        false => Some(call.transfers.transfer(call.key.share(), RECEIVED).await?),
    };
    let (pace, limit, standing) = (Pace::new(call.limits), call.limits.body_time, call.standing);
    let state = (body, pace, standing, room);
    let pieces = stream::unfold(state, move |(body, mut pace, mut standing, room)| async move {
        let began = Instant::now();
        let frame = timeout(pace.wait(), body.frame()).await;
        let (waited, valid) = (began.elapsed(), standing.renew().await);
        let piece = match frame {
            Err(_) => Err(SlowBody::error(limit)),
            // Also at the end: the content is committed next.
            Ok(_) if valid.is_err() => valid.map(|()| Bytes::new()),
            Ok(None) => return None,
            Ok(Some(Err(_))) => Err(Error::invalid("the body broke off or is badly encoded")),
            // Trailers have no data.
            Ok(Some(Ok(frame))) => Ok(frame.into_data().unwrap_or_default()),
        };
        pace.took(waited, piece.as_ref().map_or(0, Bytes::len));
        Some((piece, (body, pace, standing, room)))
    });
    Ok(pieces.boxed())
}

/// Fails for a request with content, by a call that takes none. A body in chunks may be empty.
pub(super) async fn refuse_content(call: &Call<'_>, body: &mut Body) -> Result<(), Refusal> {
    let refused = || Refusal::validation("this call takes no body");
    // Not read: the client may wait for `100 Continue`, and would send it in vain.
    if body.size_hint().lower() > 0 {
        return Err(refused());
    }
    let mut pieces = incoming(call, body).await?;
    while let Some(piece) = pieces.next().await {
        if !piece?.is_empty() {
            return Err(refused());
        }
    }
    Ok(())
}

/// Returns what is known of the body of a request before it is read.
pub(super) fn expected(call: &Call<'_>, body: &Body) -> Expected {
    let room = u64::try_from(call.limits.upload_room).unwrap_or(u64::MAX);
    Expected::new(body.size_hint().exact(), room)
}

/// Returns the bytes of a range of a file as the body of the response to `method`, read while they are sent.
/// The first piece is read before the head of the response is sent, also an empty one. For `HEAD`, which
/// sends no body, one byte is read.
///
/// # Errors
/// Errors of reading the first piece: the content may be damaged, or no longer be stored.
pub(super) async fn outgoing(
    call: &Call<'_>,
    method: &Method,
    file: Arc<dyn OpenFile>,
    range: ByteRange,
) -> Result<Body, Refusal> {
    let is_head = *method == Method::HEAD;
    if is_head || range.length == 0 {
        // Of an empty file as well, whose content may be gone.
        file.read_at(range.offset, usize::from(range.length > 0)).await?;
    }
    if is_head {
        return Ok(Body::empty());
    }
    let room = match range.length {
        0..=SHORT => None,
        length => {
            let bytes = usize::try_from(length.min(SENT)).unwrap_or(usize::MAX);
            Some(call.transfers.transfer(call.key.share(), bytes).await?)
        }
    };
    let mut rest = file.stream(range);
    // After the head, a failure could only break the connection: the client would not learn the reason.
    let first = rest.next().await.transpose()?;
    let pieces = stream::iter(first.map(Ok)).chain(rest).map(move |piece| {
        // Held as long as the stream, until the last piece was taken or the client is gone.
        let _held = &room;
        piece
    });
    Ok(Body::from_stream(pieces))
}

/// Headers that make a write depend on what is stored.
const CONDITIONAL: [&str; 4] = ["if-match", "if-none-match", "if-range", "if-unmodified-since"];

/// Refuses a write of bytes whose head says something that its route does not observe: ignored, it would
/// store other bytes than meant, or store them although the client has ruled that out. `observed` are the
/// headers of the route.
pub(super) fn check_head(headers: &HeaderMap, observed: &[Header]) -> Result<(), Refusal> {
    if headers.contains_key(CONTENT_RANGE) {
        let message = "the body of this call is complete, so it takes no `Content-Range`; write a part of a \
            file with `PATCH /v1/fs/{path}` and \"offset\"";
        return Err(Refusal::validation(message));
    }
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        let message = "bodies are stored as they are; send the content without `Content-Encoding`";
        return Err(Refusal::new(Code::UnsupportedMediaType, message));
    }
    let ignored =
        |name: &&str| headers.contains_key(*name) && observed.iter().all(|known| known.name != *name);
    match CONDITIONAL.iter().copied().find(ignored) {
        Some(name) => Err(Refusal::validation(format!("this call takes no header `{name}`"))),
        None => Ok(()),
    }
}
