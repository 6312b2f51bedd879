//! One HTTP/1.1 connection, with limits on time.
//!
//! Invalid HTTP never reaches a route: hyper answers it with an empty body, and offers no hook to change
//! that. Every failure must have the envelope, so the socket below recognises such an answer by its bytes and
//! sends another one. This is safe because hyper writes it in one piece, and no answer of a route has an
//! empty body.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{self, Poll, ready};

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
use crate::request::{Access, Context, Peer, around};

/// Serves a connection to its end. After `stopping`, ends with the request that has begun.
pub(crate) async fn run(
    (stream, peer): (TcpStream, Peer),
    app: Router,
    context: Context,
    mut stopping: watch::Receiver<bool>,
) {
    // Answers are written in one piece; Nagle's algorithm would only delay them.
    stream.set_nodelay(true).ok();
    let socket = Socket { stream, context: context.clone(), stalled: None, instead: Bytes::new() };
    let app = TowerToHyperService::new(app);
    let connection = http1::Builder::new()
        // A client that shuts down its writing side still waits for its answer.
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(context.limits.head_time)
        .serve_connection(TokioIo::new(socket), service_fn(|request| around(&context, &app, peer, request)));
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

/// TCP stream that closes the connection if the client reads nothing for `stall_time`, and replaces hyper's
/// bare refusals by the envelope.
struct Socket {
    stream: TcpStream,
    context: Context,
    /// Timer that runs while the client reads nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Rest of the envelope to send in place of hyper's answer.
    instead: Bytes,
}

impl Socket {
    /// Returns the result of a write, or an error if writes have been pending for `stall_time`.
    fn bounded<T>(
        &mut self,
        context: &mut task::Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stall_time = self.context.limits.stall_time;
        // The timer starts with the first pending write, and ends with the next one that is ready.
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall_time)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns the bytes of an answer with the envelope, and logs it as an access.
    fn with_envelope(&self, refusal: &Refusal) -> Bytes {
        let (id, status) = (self.context.request_id().to_string(), refusal.status);
        let body = refusal.body(&id);
        let bytes = body.len() as u64;
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(context))?;
        if let Some(refusal) = bare_refusal(bytes) {
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
        b"400" => (StatusCode::BAD_REQUEST, "this is not a valid HTTP request"),
        b"414" => (StatusCode::URI_TOO_LONG, "the address is too long"),
        b"431" => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long"),
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
