//! What one client may cost: how much it may send, and how long it may take. Nothing a client does or leaves
//! undone holds memory or a connection for ever.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::timeout;

use crate::errors::Refusal;

/// Largest body of a request, in bytes.
pub(crate) const MAX_BODY: usize = 1 << 20;
/// Time for the head of a request, and for which a connection may idle between requests. hyper's own default.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(30);
/// Time for the body of a request: 1 MiB at 280 kbit/s.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Time for which a client may take nothing of an answer.
pub(crate) const STALL_TIME: Duration = Duration::from_secs(30);
/// How much of a refused body is read and forgotten, in bytes and time, so that a client which sends all of
/// it before it reads finds the answer and not a reset connection.
const MAX_DRAIN: usize = 16 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The body of a request.
pub(crate) async fn read_body(headers: &HeaderMap, body: &mut Body) -> Result<Bytes, Refusal> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > MAX_BODY as u64) {
        return Err(Refusal::too_large(MAX_BODY));
    }
    match timeout(BODY_TIME, collect(body)).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::slow_body(BODY_TIME)),
    }
}

async fn collect(body: &mut Body) -> Result<Bytes, Refusal> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::validation("the body broke off or is badly encoded"))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > MAX_BODY {
            return Err(Refusal::too_large(MAX_BODY));
        }
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads on, in the background, what is left of a body that was refused.
pub(crate) fn drain(headers: &HeaderMap, mut body: Body) {
    // Who waits to be asked for the body has not sent it.
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    tokio::spawn(timeout(DRAIN_TIME, async move {
        let mut left = MAX_DRAIN;
        while let Some(Ok(frame)) = body.frame().await
            && left > 0
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    }));
}
