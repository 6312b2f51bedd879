//! The protocol over standard input and output: one client, which is the holder of the data folder.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use garth_agent::Request;
use garth_engine::{AccountStore, Error, ErrorKind, Home, Result};
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use rmcp::transport::TransportAdapterIdentity;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Semaphore, watch};

use super::choice::ToolChoice;
use super::handler::Handler;
use super::pipes::Pipes;
use crate::errors::Refusal;
use crate::routes::client::Client;
use crate::stopping::Stopping;

/// Identity of the client of a pair of pipes, and its tools.
#[derive(Clone, Debug, Default)]
pub struct PipeOptions {
    request: Request,
    tools: Option<String>,
    read_only: bool,
}

impl PipeOptions {
    /// Returns the options of a client with an identity. It has all tools but those that are to be asked for.
    #[must_use]
    pub fn new(request: Request) -> Self {
        Self { request, ..Self::default() }
    }

    /// Sets the tools, by names separated by commas, or `all`.
    #[must_use]
    pub fn tools(self, tools: Option<String>) -> Self {
        Self { tools, ..self }
    }

    /// Leaves out the tools that change something.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }
}

/// Serves the protocol to the holder of the data folder, on an account of this name, until `input` ends.
/// Requests that have begun by then are answered within 5 seconds. Nothing but messages is written to
/// `output`.
///
/// # Errors
/// - `InvalidArgument`: the options name an unknown tool, or an identity that cannot exist; the first message
///   begins no session.
/// - `AccessDenied`: the chat of the identity belongs to another audience.
/// - Errors of the storage.
pub async fn serve_pipes(
    home: Arc<dyn Home>,
    (account, name): (Arc<dyn AccountStore>, &str),
    options: PipeOptions,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<()> {
    let choice = ToolChoice::parse(options.tools.as_deref(), options.read_only).map_err(Error::invalid)?;
    let (stop, stopping) = watch::channel(false);
    let client = Client::of_holder(home, (account, name), options.request, Stopping::new(stopping));
    // Before the first message, because clients show what a program that ends at once has written.
    client.judge().await.map_err(error_of)?;
    let input = Input { input, stop, slots: client.slots(), waiting: None };
    let (transport, handler) = (Pipes::new(input, output), Handler::new(client, choice));
    let served = serve_server::<_, _, _, TransportAdapterIdentity>(handler, transport);
    let running = match served.await {
        Ok(running) => running,
        // The client has left before its first request.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(no_session(&error)),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(broken(error)),
        Ok(_) => Ok(()),
    }
}

/// Input that is read only while a further call may run: the library reads as fast as it can, and would hold
/// all requests that wait. At its end it ends the subscriptions, because the library then waits for all
/// requests.
struct Input<R> {
    input: R,
    stop: watch::Sender<bool>,
    slots: Arc<Semaphore>,
    /// Wait for a slot.
    waiting: Option<BoxFuture<'static, ()>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let slots = Arc::clone(&this.slots);
        let waiting = this.waiting.get_or_insert_with(|| async move { drop(slots.acquire().await) }.boxed());
        ready!(waiting.as_mut().poll(context));
        this.waiting = None;
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.input).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            this.stop.send_replace(true);
        }
        Poll::Ready(read)
    }
}

/// Returns the error of a client that begins no session. The error of the library quotes its message.
fn no_session(error: &ServerInitializeError) -> Error {
    let message = match error {
        ServerInitializeError::TransportError { .. } => "the client does not read the answers",
        _ => "the first message must be a request: `initialize`, or one that names its revision in `_meta`",
    };
    Error::invalid(message)
}

fn broken(error: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("the connection to the client broke off: {error}"))
}

/// Returns the error of a refusal, for the command line.
fn error_of(mut refusal: Refusal) -> Error {
    refusal.log();
    let error = Error::new(refusal.kind, &*refusal.message);
    match refusal.advice() {
        Some((advice, text)) => error.advising(advice, text),
        None => error,
    }
}
