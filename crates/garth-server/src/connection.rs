//! One HTTP/1.1 connection, with limits on time.
//!
//! Invalid HTTP never reaches a route: hyper answers it with an empty body, and offers no hook to change
//! that. Every failure must have the envelope, so the socket below recognises such an answer by its bytes and
//! sends another one. This is safe because hyper writes it in one piece, and no answer of a route has an
//! empty body. Stored bytes may contain anything, so nothing is replaced once a connection has sent some.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use bytes::{Buf, Bytes};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

use crate::errors::{Code, Refusal};
use crate::metrics::Answered;
use crate::pace::Pace;
use crate::request::{Access, Context, Peer, StoredBytes, around};

/// Serves a connection to its end. After `stopping`, ends with the request that has begun.
pub(crate) async fn run(
    (stream, peer): (TcpStream, Peer),
    app: Router,
    context: Context,
    mut stopping: watch::Receiver<bool>,
) {
    // Answers are written in one piece; Nagle's algorithm would only delay them.
    stream.set_nodelay(true).ok();
    let _connected = context.metrics.connected();
    let sends_stored_bytes = Arc::new(AtomicBool::new(false));
    let socket = Socket::new(stream, context.clone(), Arc::clone(&sends_stored_bytes));
    let app = TowerToHyperService::new(app);
    let (context, app, sends_stored_bytes) = (&context, &app, &sends_stored_bytes);
    let serve = |request| async move {
        let answered = around(context, app, peer, request).await;
        if answered.as_ref().is_ok_and(|response| response.extensions().get::<StoredBytes>().is_some()) {
            sends_stored_bytes.store(true, Ordering::Relaxed);
        }
        answered
    };
    let connection = http1::Builder::new()
        // A client that shuts down its writing side still waits for its answer.
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(context.limits.head_time)
        .serve_connection(TokioIo::new(socket), service_fn(serve));
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told_to_stop(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// TCP stream that closes the connection if the client reads nothing of an answer for `stall_time`, or less
/// than 1 MiB of it within `body_time`, and replaces hyper's bare refusals by the envelope.
struct Socket {
    stream: TcpStream,
    context: Context,
    /// Runs while the client reads nothing.
    stalled: Option<Stalled>,
    pace: Pace,
    /// True once an answer of stored bytes has begun.
    sends_stored_bytes: Arc<AtomicBool>,
    /// Rest of the envelope to send in place of hyper's answer.
    instead: Bytes,
}

/// Wait for a client that reads nothing.
struct Stalled {
    since: Instant,
    end: Pin<Box<Sleep>>,
}

impl Socket {
    fn new(stream: TcpStream, context: Context, sends_stored_bytes: Arc<AtomicBool>) -> Self {
        let pace = Pace::new(&context.limits);
        Self { stream, context, stalled: None, pace, sends_stored_bytes, instead: Bytes::new() }
    }

    /// Returns the result of a write, or an error if the client has been too slow.
    fn bounded(
        &mut self,
        context: &mut task::Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(sent) = &written {
            let waited = self.stalled.take().map_or(Duration::ZERO, |stalled| stalled.since.elapsed());
            let bytes = sent.as_ref().copied().unwrap_or(0);
            self.pace.took(waited, bytes);
            self.context.metrics.sent(bytes);
            return written;
        }
        let wait = self.pace.wait();
        // The timer starts with the first pending write, and ends with the next one that is ready.
        let stalled =
            self.stalled.get_or_insert_with(|| Stalled { since: Instant::now(), end: Box::pin(sleep(wait)) });
        ready!(stalled.end.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns the bytes of an answer with the envelope, and logs it as an access.
    fn with_envelope(&self, refusal: &Refusal) -> Bytes {
        let (id, status) = (self.context.request_id().to_string(), refusal.status);
        let body = refusal.body(&id);
        let bytes = body.len() as u64;
        let answered =
            Answered { route: None, method: "none", status: status.as_u16(), bytes, time: Duration::ZERO };
        self.context.metrics.answered(answered);
        self.context.metrics.refused(refusal.code.as_str());
        let access = Access {
            id: &id,
            key: "-",
            method: "-",
            path: "-",
            status: status.as_u16(),
            bytes,
            began: Instant::now(),
        };
        self.context.log_access(&access);
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\nx-request-id: {id}\r\n\
             connection: close\r\n\r\n",
        );
        Bytes::from([head.into_bytes(), body].concat())
    }

    fn poll_instead(&mut self, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.instead);
            let sent = ready!(self.bounded(context, written))?;
            if sent == 0 {
                // As from `write_all`: a socket that takes nothing without an error would be polled for ever.
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.instead.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        // A new request, whose answer has time of its own: hyper reads nothing while it sends an answer, so a
        // client cannot renew the time of one.
        let bytes = buffer.filled().len().saturating_sub(before);
        if bytes > 0 {
            self.pace.renew();
            self.context.metrics.received(bytes);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(context))?;
        if !self.sends_stored_bytes.load(Ordering::Relaxed)
            && let Some(refusal) = bare_refusal(bytes)
        {
            self.instead = self.with_envelope(&refusal);
            // Counted as written even if it does not fit now: hyper must not send its own answer. A flush
            // sends the rest.
            if let Poll::Ready(Err(error)) = self.poll_instead(context) {
                return Poll::Ready(Err(error));
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    // Hyper then sends bodies without a copy. Otherwise it copies each into a buffer of the connection, which
    // stays as large as the longest answer.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = pieces.iter().filter(|piece| !piece.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next()) {
            // A bare refusal may come as the only piece, so it must be looked for here as well.
            return self.poll_write(context, only);
        }
        ready!(self.poll_instead(context))?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.bounded(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Returns the refusal for an answer that hyper generated itself. No part of a route's answer looks like
/// this: JSON has no line break within a string.
fn bare_refusal(bytes: &[u8]) -> Option<Refusal> {
    let status = bytes.strip_prefix(b"HTTP/1.1 ").or_else(|| bytes.strip_prefix(b"HTTP/1.0 "))?.get(..3)?;
    let (status, message) = match status {
        b"400" => (StatusCode::BAD_REQUEST, "this is not a valid HTTP request; send HTTP/1.1"),
        b"414" => (StatusCode::URI_TOO_LONG, "the address is too long; shorten its path and query"),
        // hyper answers so as well if `Content-Length` is close to the largest 64-bit number.
        b"431" => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the head of the request is too long, or its `Content-Length` is larger than any body; send fewer or \
             shorter headers, and the length of the body",
        ),
        _ => return None,
    };
    // With a body after the head, it is the answer of a route.
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let is_empty = head.lines().any(|line| line.eq_ignore_ascii_case("content-length: 0"));
    is_empty.then(|| Refusal::new(Code::Validation, message).with_status(status))
}

/// Waits for the signal that the server stops.
pub(crate) async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped with the server, which has the same effect.
    stopping.wait_for(|stop| *stop).await.ok();
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use garth_engine::Env;
    use tokio::net::TcpListener;

    use super::*;
    use crate::limits::Limits;
    use crate::metrics::Metrics;
    use crate::site::{Hosts, Origins, Site};

    /// Reads 16 KiB every 20 seconds until the connection ends. Returns the bytes.
    async fn trickle(client: TcpStream) -> usize {
        let (mut buffer, mut read) = (vec![0; 16 << 10], 0);
        loop {
            client.readable().await.unwrap();
            match client.try_read(&mut buffer) {
                Ok(0) => return read,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return read,
            }
            sleep(Duration::from_secs(20)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trickling_reader_ends_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = listener.accept().await.unwrap().0;
        let hour = Duration::from_secs(3600);
        let limits = Arc::new(Limits::default().stall_time(hour).body_time(Duration::from_secs(60)));
        let site = Arc::new(Site { hosts: Hosts::any(), origins: Origins::default() });
        let metrics = Metrics::default();
        let context = Context { env: Env::system(), access_log: false, limits, site, metrics };
        let mut socket = Socket::new(stream, context, Arc::default());
        let client = tokio::spawn(trickle(client));
        // More than sockets buffer.
        let (answer, mut sent) = (vec![7; 64 << 20], 0);
        let ended = loop {
            if sent == answer.len() {
                break Ok(());
            }
            match poll_fn(|context| Pin::new(&mut socket).poll_write(context, &answer[sent..])).await {
                Ok(bytes) => sent += bytes,
                Err(error) => break Err(error.kind()),
            }
        };
        assert_eq!(ended, Err(io::ErrorKind::TimedOut));
        drop(socket);
        assert!(client.await.unwrap() < answer.len());
    }
}
