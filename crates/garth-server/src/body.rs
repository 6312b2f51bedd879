//! Bodies of requests: read within the limits on their size and time, so that nothing a client does or leaves
//! undone holds memory or a connection for ever.

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

/// Longest body that takes no room of its account, 1 MiB: a connection is worth as much.
const SHORT: usize = 1 << 20;

/// Bound on the body of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit<'a> {
    /// Most bytes.
    pub(crate) max: usize,
    /// Path of the call that takes longer files, if one does.
    pub(crate) instead: Option<&'static str>,
    /// Room of the account for bodies that are not [`SHORT`].
    pub(crate) room: &'a Rooms,
    pub(crate) account: &'a str,
    pub(crate) limits: &'a Limits,
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

/// Reads the body of a request. One that is not [`SHORT`] keeps room until it is dropped.
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
    let mut room = match declared.filter(|length| *length > SHORT) {
        Some(length) => Some(limit.room(length).await?),
        None => None,
    };
    let limits = limit.limits;
    let (began, mut first, mut all) = (Instant::now(), Bytes::new(), BytesMut::new());
    loop {
        let length = first.len() + all.len();
        let time =
            limits.body_time + limits.body_time_per_mib * u32::try_from(length / SHORT).unwrap_or(u32::MAX);
        let frame = timeout_at(began + time, body.frame()).await.map_err(|_| Refusal::slow_body(time))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Refusal::validation("the body broke off or is badly encoded"))?;
        let Ok(data) = frame.into_data() else { continue };
        if length + data.len() > limit.max {
            return Err(limit.refusal());
        }
        if length + data.len() > SHORT && room.is_none() {
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
pub(crate) fn drain(limits: &Limits, headers: &HeaderMap, mut body: Body) {
    // Who waits to be asked for the body has not sent it.
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
