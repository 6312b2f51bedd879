//! Changes as server-sent events, for a client that follows a tree. Each event has the sealed position after
//! it as its id, by which a later stream goes on. Pages are read as those of `tree/changes` are, and only
//! when the client has taken the one before: a slow client holds one page. While there is nothing to send,
//! the stream is in the list of its account and reads nothing.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use garth_agent::access::Reach;
use garth_engine::compute::working;
use garth_engine::model::{Changes, ChangesQuery, LogPosition, Seq};
use garth_engine::{Env, FileSystem};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tracing::Span;

use super::follow::last_of;
use super::log_position::{check_since, position, position_text};
use super::paging::CursorSeal;
use crate::answers::{PAGE, Rooms, held};
use crate::auth::LastingKey;
use crate::compute::compute;
use crate::consumers::Place;
use crate::errors::{Code, Refusal};
use crate::fields::{FieldGroup as _, MAX_INTEGER, fields, integer, path_field, string_of};
use crate::request::RequestId;
use crate::routes::call::Call;
use crate::routes::header::Header;
use crate::routes::open::files_of;
use crate::stopping::Stopping;

/// Limit on the changes of a page, so that a client which takes it slowly holds little memory.
const PAGE_CHANGES: usize = 256;
/// Time in milliseconds after which a client without a rule of its own connects again.
const RECONNECT: u64 = 1000;
/// Header with the id of the last event that a client has received.
pub(in crate::routes) const LAST_EVENT_ID: &str = "last-event-id";

/// Headers of the call.
pub(in crate::routes) static HEADERS: &[Header] = &[Header {
    name: LAST_EVENT_ID,
    is_required: false,
    meaning: "Id of the last event of an earlier stream of the same request. The stream goes on after it.",
}];

fields! {
    /// Streams the changes after a commit as server-sent events, as they become durable.
    pub(crate) struct StreamFields<'a> {
        /// Only changes at or below this path. Default: all.
        within as "in": Option<Cow<'a, str>> = string_of("path");
        /// Sequence of the commit after which to begin. Default: the last commit.
        since: Option<u64> = integer(0, MAX_INTEGER);
    }
}

/// Answers the call. A failure before the first event is a refusal like any other, unless the position is no
/// longer in the log: browsers show their programs events, and no status.
pub(in crate::routes) async fn stream(call: &Call<'_>, head: &Parts) -> Result<Response, Refusal> {
    let fields = StreamFields::read(&call.fields)?;
    let place = call.consumers.place(call.key.share())?;
    let fs = files_of(&call.reach).await?;
    let (last, seal) = (fs.head().await?.seq, CursorSeal::of(call));
    let since = match (sent_position(&seal, head)?, fields.since) {
        (Some(position), _) => position,
        (None, Some(since)) => Seq(since).into(),
        (None, None) => {
            // A position after a commit that a crash undoes would miss the commit in its place.
            place.settle(&*fs, last).await?;
            last.into()
        }
    };
    check_since(since.seq, last)?;
    let mut query = ChangesQuery::since(since).limit(PAGE_CHANGES);
    if let Some(path) = &fields.within {
        query = query.within(path_field("in", path)?);
    }
    let follower = Follower {
        reach: call.reach.clone(),
        query,
        seal,
        place: Arc::new(place),
        answers: Arc::clone(call.answers),
        account: call.key.share().to_owned(),
        env: call.env.clone(),
    };
    answer(Consumer {
        follower,
        fs,
        key: call.standing.lasting(),
        stopping: call.stopping.clone(),
        heartbeat: call.limits.stream_heartbeat,
        beat: Instant::now() + call.limits.stream_heartbeat,
        waiting: None,
        ready: None,
        turn: Arc::new(Semaphore::new(1)),
        shown: since,
        state: State::New,
        is_behind: true,
        span: Span::current(),
        request_id: head.extensions.get::<RequestId>().map(ToString::to_string).unwrap_or_default(),
    })
    .await
}

/// Returns the response that a consumer sends.
async fn answer(mut consumer: Consumer) -> Result<Response, Refusal> {
    let first = consumer.begin()?;
    match consumer.read().await {
        Ok(()) => {}
        Err(refusal) if refusal.code == Code::Gone => {
            consumer.ready = Some(consumer.failure(refusal));
            consumer.state = State::Failed;
        }
        Err(refusal) => return Err(refusal),
    }
    let events = stream::unfold((consumer, Some(first)), |(mut consumer, first)| async move {
        let bytes = match first {
            Some(first) => first,
            None => consumer.next().await?,
        };
        Some((Ok::<Bytes, Infallible>(bytes), (consumer, None)))
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    // nginx would keep events back until its buffer is full.
    let unbuffered = [("x-accel-buffering", "no")];
    Ok((headers, unbuffered, Body::from_stream(events)).into_response())
}

/// Returns the position of the last event that a client has received, if it names one.
fn sent_position(seal: &CursorSeal, head: &Parts) -> Result<Option<LogPosition>, Refusal> {
    let Some(id) = head.headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let refused = || {
        let message = "`Last-Event-ID` must be the id of an event of an earlier stream of the same request: send \
            the same fields, or leave the header out to begin anew";
        Refusal::validation(message)
    };
    let id = id.to_str().map_err(|_| refused())?;
    let bytes = seal.open(id).map_err(|_| refused())?;
    let text = String::from_utf8(bytes).map_err(|_| refused())?;
    position(&text).map(Some).map_err(|_| refused())
}

/// Reader of the pages of one stream.
#[derive(Clone)]
struct Follower {
    reach: Reach,
    /// Changes to show, after the position that was read so far.
    query: ChangesQuery,
    seal: CursorSeal,
    place: Arc<Place>,
    answers: Arc<Rooms>,
    account: String,
    env: Env,
}

/// Page of a stream.
struct Page {
    fs: Arc<dyn FileSystem>,
    /// Events of the commits of the page; empty if it shows none.
    events: Bytes,
    until: LogPosition,
    head: Seq,
}

impl Follower {
    /// Reads the next page. A long one for which there is no room is dropped, and read again when there is:
    /// pages that wait would take memory without a bound.
    async fn page(self) -> Result<Page, Refusal> {
        let page = self.read().await?;
        if let Ok(room) = self.answers.answer_now_if_long(&self.account, page.events.len()) {
            return Ok(Page { events: held(page.events, room), ..page });
        }
        drop(page);
        let room = self.answers.answer(&self.account, PAGE).await?;
        let page = self.read().await?;
        Ok(Page { events: room.hold(page.events), ..page })
    }

    async fn read(&self) -> Result<Page, Refusal> {
        // Opened for each page, so that it has what the key reaches at its time.
        let fs = files_of(&self.reach).await?;
        let found = fs.changes(&self.query).await?;
        check_since(self.query.since.seq, found.head)?;
        self.place.settle(&*fs, last_of(&found)).await?;
        let events = self.events(&found)?;
        working(events.len());
        Ok(Page { fs, events: events.into(), until: found.until, head: found.head })
    }

    /// Returns an event for each commit.
    fn events(&self, found: &Changes) -> Result<Vec<u8>, Refusal> {
        let mut text = Vec::new();
        for (number, commit) in found.commits.iter().enumerate() {
            // Only the last one may be cut. Hidden commits may follow it.
            let is_last = number + 1 == found.commits.len();
            let after = if is_last { found.until } else { commit.commit.seq.into() };
            text.extend_from_slice(format!("id: {}\nevent: commit\ndata: ", self.id(after)?).as_bytes());
            // JSON has no line break, which would end the field.
            serde_json::to_writer(&mut text, commit).map_err(|error| {
                Refusal::internal().because(format!("a commit has no JSON form: {error}"))
            })?;
            text.extend_from_slice(b"\n\n");
        }
        // Without spare capacity, which would be held until the events are sent.
        text.shrink_to_fit();
        Ok(text)
    }

    /// Returns the id of the event before a position.
    fn id(&self, position: LogPosition) -> Result<String, Refusal> {
        self.seal.seal(position_text(position).as_bytes())
    }
}

/// State of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not reached the end of the log yet.
    New,
    /// It has reported to its client that it reached the end of the log.
    CaughtUp,
    /// Only the event of its failure is left to send.
    Failed,
}

/// Reason why a stream goes on.
enum WakeReason {
    Commit,
    Heartbeat,
    Stopped,
}

/// One stream.
struct Consumer {
    follower: Follower,
    /// Tree as the last page opened it.
    fs: Arc<dyn FileSystem>,
    key: LastingKey,
    stopping: Stopping,
    heartbeat: Duration,
    /// Time of the next heartbeat.
    beat: Instant,
    /// Wait for the next commit. It goes on over heartbeats, so that they read nothing.
    waiting: Option<BoxFuture<'static, garth_engine::Result<()>>>,
    /// Bytes to send next.
    ready: Option<Bytes>,
    /// Turn of a page, until the connection has sent it.
    turn: Arc<Semaphore>,
    /// Position of the last id that was sent.
    shown: LogPosition,
    state: State,
    /// True if there may be commits after the position.
    is_behind: bool,
    /// Span of the request, for failures.
    span: Span,
    request_id: String,
}

/// Events of a page that the connection has not sent yet.
struct PendingEvents {
    events: Bytes,
    _turn: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for PendingEvents {
    fn as_ref(&self) -> &[u8] {
        &self.events
    }
}

impl Consumer {
    /// Returns the first bytes. They have the position where the stream begins: a client that receives
    /// nothing else goes on from there.
    fn begin(&self) -> Result<Bytes, Refusal> {
        Ok(format!("retry: {RECONNECT}\nid: {}\n\n", self.follower.id(self.shown)?).into())
    }

    /// Returns the next bytes; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if self.state == State::Failed {
            return self.ready.take();
        }
        match self.step().await {
            Ok(bytes) => bytes,
            Err(refusal) => {
                self.state = State::Failed;
                Some(self.failure(refusal))
            }
        }
    }

    /// Returns the next bytes; `None` when the server stops. No page is sent after the key has ended.
    async fn step(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            if let Some(events) = self.ready.take() {
                (self.shown, self.beat) = (self.follower.query.since, Instant::now() + self.heartbeat);
                return Ok(Some(events));
            }
            let has_caught_up = self.state == State::New && !self.is_behind;
            if has_caught_up || Instant::now() >= self.beat {
                return self.comment().await.map(Some);
            }
            if self.is_behind {
                let stopping = self.stopping.clone();
                tokio::select! {
                    biased;
                    () = stopping.stopped() => return Ok(None),
                    read = self.read() => read?,
                }
                continue;
            }
            match self.wait().await? {
                WakeReason::Commit => self.is_behind = true,
                WakeReason::Heartbeat => {}
                WakeReason::Stopped => return Ok(None),
            }
        }
    }

    /// Reads the next page.
    async fn read(&mut self) -> Result<(), Refusal> {
        // Nothing closes the semaphore. Without the turn, a slow client would have further pages in the
        // buffers of its connection.
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok();
        let work = self.follower.clone().page();
        let page = compute(&self.follower.env, &self.follower.account, 1, work).await??;
        // After the waits for a slow client and for room: the key may have ended meanwhile.
        self.key.renew().await?;
        self.follower.query.since = page.until;
        self.is_behind = page.until.seq < page.head;
        let events = Some(page.events).filter(|events| !events.is_empty());
        self.ready = events.map(|events| Bytes::from_owner(PendingEvents { events, _turn: turn }));
        // The wait of before may be for an earlier commit, by a handle of another reach.
        (self.fs, self.waiting) = (page.fs, None);
        Ok(())
    }

    /// Waits for a commit after the position, the next heartbeat, or the end of the server.
    async fn wait(&mut self) -> Result<WakeReason, Refusal> {
        let (fs, since) = (&self.fs, self.follower.query.since.seq);
        let waiting = self.waiting.get_or_insert_with(|| {
            let fs = Arc::clone(fs);
            async move { fs.wait(since).await.map(drop) }.boxed()
        });
        let woken = tokio::select! {
            biased;
            () = self.stopping.stopped() => return Ok(WakeReason::Stopped),
            woken = waiting.as_mut() => woken,
            () = sleep_until(self.beat) => return Ok(WakeReason::Heartbeat),
        };
        self.waiting = None;
        woken?;
        Ok(WakeReason::Commit)
    }

    /// Returns a comment: the sign that the stream has reached the end of the log, and the heartbeat while it
    /// waits. It has the position if that is after the last id, so that a later stream need not look at
    /// hidden commits again.
    async fn comment(&mut self) -> Result<Bytes, Refusal> {
        self.key.renew().await?;
        // After a failure of the storage no commit wakes the stream, and the account is opened again only
        // when nobody holds it.
        self.fs.view_base().known_durable()?;
        let at = self.follower.query.since;
        let id = if at == self.shown { String::new() } else { format!("id: {}\n", self.follower.id(at)?) };
        (self.shown, self.beat) = (at, Instant::now() + self.heartbeat);
        if !self.is_behind {
            self.state = State::CaughtUp;
        }
        Ok(format!(": waiting\n{id}\n").into())
    }

    /// Returns the event of a failure, after which the stream ends, and logs its cause.
    fn failure(&self, refusal: Refusal) -> Bytes {
        let mut refusal = refusal.naming_path();
        self.span.in_scope(|| refusal.log());
        error_event(&refusal, &self.request_id)
    }
}

/// Returns the event of a refusal: its envelope, which is one line.
fn error_event(refusal: &Refusal, request_id: &str) -> Bytes {
    let body = refusal.body(request_id);
    [&b"event: error\ndata: "[..], &body[..], &b"\n\n"[..]].concat().into()
}

#[cfg(test)]
mod tests {
    use garth_engine::{Error, ErrorKind};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn position_beyond_retention_is_reported_as_gone() {
        let refusal = Refusal::from(Error::new(ErrorKind::Gone, "the log begins at 7:\nread the tree"));
        let event = String::from_utf8(error_event(&refusal, "req_1").to_vec()).unwrap();
        let data = event.strip_prefix("event: error\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(!data.contains('\n'), "{data}");
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["error"]["code"], &data["error"]["kind"]), (&json!("GONE"), &json!("gone")));
        assert_eq!(data["error"]["request_id"], "req_1");
    }
}
