//! What one client may cost: how much it may send, and how long it may take. Nothing a client does or leaves
//! undone holds memory or a connection for ever.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::{Instant, timeout, timeout_at};

use crate::answers::{Room, Rooms};
use crate::errors::Refusal;

/// Largest body of a request, in bytes.
pub(crate) const MAX_BODY: usize = 1 << 20;
/// Largest body of a call that writes in a session, in bytes: a message of 16 MiB, and its text as JSON.
pub(crate) const MAX_LONG_BODY: usize = 32 << 20;
/// Time for the head of a request, and for which a connection may idle between requests. hyper's own default.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(30);
/// Time for the body of a request: 1 MiB at 280 kbit/s.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Time for each further MiB that has come: 4 Mbit/s. A long body takes room of others.
const MIB_TIME: Duration = Duration::from_secs(2);
/// Time for which a client may take nothing of an answer.
pub(crate) const STALL_TIME: Duration = Duration::from_secs(30);
/// How much of a refused body is read and forgotten, in bytes and time, so that a client which sends all of
/// it before it reads finds the answer and not a reset connection.
const MAX_DRAIN: usize = 16 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Bound on the body of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit<'a> {
    /// Most bytes.
    pub(crate) max: usize,
    /// Path of the call that takes longer files, if one does.
    pub(crate) instead: Option<&'static str>,
    /// Room of the account for bodies of more than [`MAX_BODY`].
    pub(crate) room: &'a Rooms,
    pub(crate) account: &'a str,
}

impl BodyLimit<'_> {
    fn refusal(&self) -> Refusal {
        Refusal::too_large(self.max, self.instead)
    }

    async fn room(&self, bytes: usize) -> Result<Room, Refusal> {
        let message = "too many long bodies are on their way; send them one by one, or try again later";
        self.room.room(self.account, bytes, message).await
    }
}

/// Reads the body of a request. One of more than [`MAX_BODY`] keeps room until it is dropped.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    body: &mut Body,
    limit: BodyLimit<'_>,
) -> Result<Bytes, Refusal> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let declared = declared.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if declared.is_some_and(|length| length > limit.max) {
        return Err(limit.refusal());
    }
    let mut room = match declared.filter(|length| *length > MAX_BODY) {
        Some(length) => Some(limit.room(length).await?),
        None => None,
    };
    let (began, mut first, mut all) = (Instant::now(), Bytes::new(), BytesMut::new());
    loop {
        let length = first.len() + all.len();
        let time = BODY_TIME + MIB_TIME * u32::try_from(length / MAX_BODY).unwrap_or(u32::MAX);
        let frame = timeout_at(began + time, body.frame()).await.map_err(|_| Refusal::slow_body(time))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Refusal::validation("the body broke off or is badly encoded"))?;
        let Ok(data) = frame.into_data() else { continue };
        if length + data.len() > limit.max {
            return Err(limit.refusal());
        }
        if length + data.len() > MAX_BODY && room.is_none() {
            room = Some(limit.room(limit.max).await?);
        }
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
