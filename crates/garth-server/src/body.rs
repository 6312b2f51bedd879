//! Bodies of requests, read within limits on their size and time, so that no client can hold memory or a
//! connection for ever.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::{Instant, timeout, timeout_at};

use crate::answers::{Room, Rooms};
use crate::errors::Refusal;
use crate::limits::Limits;

/// Longest body in bytes that takes no room of its account. A connection may cost as much.
pub(crate) const SHORT: usize = 1 << 20;

/// Bound on the body of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit<'a> {
    /// Limit in bytes.
    pub(crate) max: usize,
    /// Path of a call that takes longer files, named in the refusal.
    pub(crate) instead: Option<&'static str>,
    /// Room for bodies longer than [`SHORT`].
    pub(crate) room: &'a Rooms,
    pub(crate) account: &'a str,
    pub(crate) limits: &'a Limits,
}

impl BodyLimit<'_> {
    fn refusal(&self) -> Refusal {
        let advice = match self.instead {
            Some(path) => {
                format!("; store images and other files with `POST {path}`, and refer to them in the message")
            }
            None => "; divide it into several calls, and write files with `PUT /v1/fs/{path}`".to_owned(),
        };
        Refusal::too_large(self.max, &advice)
    }

    async fn room(&self, bytes: usize) -> Result<Room, Refusal> {
        let message = "too many long bodies are in flight; send them one by one, or try again later";
        self.room.room(self.account, bytes, message).await
    }
}

/// Reads the body of a request. A body longer than [`SHORT`] holds room until it is dropped.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    body: &mut Body,
    limit: BodyLimit<'_>,
) -> Result<Bytes, Refusal> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // A length that does not fit exceeds every limit.
    let declared = declared.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    // Before anything is read: a client that declares too much gets its answer at once.
    if declared.is_some_and(|length| length > limit.max) {
        return Err(limit.refusal());
    }
    let mut room = match declared.filter(|length| *length > SHORT) {
        // Room is taken before anything is read.
        Some(length) => Some(limit.room(length).await?),
        None => None,
    };
    let limits = limit.limits;
    let (began, mut first, mut all) = (Instant::now(), Bytes::new(), BytesMut::new());
    loop {
        let length = first.len() + all.len();
        let time =
            limits.body_time + limits.body_time_per_mib * u32::try_from(length / SHORT).unwrap_or(u32::MAX);
        // One deadline for all bytes so far. A deadline for each frame could be renewed for ever, a byte at a
        // time.
        let frame = timeout_at(began + time, body.frame()).await.map_err(|_| Refusal::slow_body(time))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Refusal::validation("the body broke off or is badly encoded"))?;
        // Trailers, which no call uses.
        let Ok(data) = frame.into_data() else { continue };
        if length + data.len() > limit.max {
            return Err(limit.refusal());
        }
        // Without a declared length the body may become as long as the limit, so that much is reserved.
        if length + data.len() > SHORT && room.is_none() {
            room = Some(limit.room(limit.max).await?);
        }
        // Most bodies arrive in one frame, which is used as it is. Only further frames cost a copy.
        if length == 0 {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    let whole = if all.is_empty() { first } else { all.freeze() };
    Ok(room.into_iter().fold(whole, |whole, room| room.hold(whole)))
}

/// Reads the rest of a refused body in the background, so that the client reads the answer instead of a
/// reset.
pub(crate) fn drain(limits: &Limits, headers: &HeaderMap, mut body: Body) {
    // A client that waits for `100 Continue` has sent no body.
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let mut left = limits.drain_size;
    tokio::spawn(timeout(limits.drain_time, async move {
        while let Some(Ok(frame)) = body.frame().await
            && left > 0
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    }));
}
