//! Messages over a pair of pipes, one on each line. The library writes them. They are read here, because it
//! answers a message of a wrong form without the id by which a client finds its request.

use std::io;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::model::{ErrorCode, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty, empty};

use super::envelope::{BrokenMessage, Envelope, INVALID_REQUEST, PARSE_ERROR};

/// Longest line in bytes, with its end. A longer one is dropped: its id is not known.
const MAX_LINE: usize = 16 << 20;
/// Mark of UTF-8 that some programs write at the beginning.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Message of a client.
type Received = RxJsonRpcMessage<RoleServer>;
/// Message to a client.
type Sent = TxJsonRpcMessage<RoleServer>;

/// Transport over a pair of pipes.
pub(super) struct Pipes<R, W: AsyncWrite> {
    input: BufReader<R>,
    /// Line that is being read. It stays when a read is cancelled.
    line: Vec<u8>,
    /// True until the end of a line that is dropped.
    is_dropping: bool,
    output: AsyncRwTransport<RoleServer, Empty, W>,
    /// Answer to a broken message that is being sent.
    answering: Option<BoxFuture<'static, io::Result<()>>>,
}

impl<R, W> Pipes<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(input: R, output: W) -> Self {
        let (input, output) = (BufReader::new(input), AsyncRwTransport::new_server(empty(), output));
        Self { input, line: Vec::new(), is_dropping: false, output, answering: None }
    }

    /// Reads the next line into `line`; `None` at the end of the input. It may be cancelled at any time, and
    /// called again.
    async fn next_line(&mut self) -> Option<()> {
        loop {
            let available = self.input.fill_buf().await;
            let available =
                available.inspect_err(|error| tracing::error!("reading a message: {error}")).ok()?;
            if available.is_empty() {
                return None;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let fits = !self.is_dropping && self.line.len() + taken <= MAX_LINE;
            if fits {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.input.consume(taken);
            if !fits && !std::mem::replace(&mut self.is_dropping, true) {
                tracing::error!("a message of more than {MAX_LINE} bytes was dropped");
                self.line = Vec::new();
            }
            if end.is_some() && !std::mem::take(&mut self.is_dropping) {
                return Some(());
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for Pipes<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: Sent) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.output.send(message)
    }

    async fn receive(&mut self) -> Option<Received> {
        loop {
            // Before more is read: the answers to broken messages must not pile up.
            if let Some(answering) = &mut self.answering {
                let sent = answering.await;
                self.answering = None;
                sent.ok()?;
            }
            self.next_line().await?;
            let parsed = parsed(&self.line);
            self.line.clear();
            match parsed {
                Ok(message) => return Some(message),
                Err(Some(answer)) => self.answering = Some(self.output.send(*answer).boxed()),
                Err(None) => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.close().await
    }
}

/// Parses a line. An error is the answer to a broken message. `None`: it has no answer, because it is blank,
/// a notification, or not JSON. An answer to the latter could be read as further broken messages.
fn parsed(line: &[u8]) -> Result<Received, Option<Box<Sent>>> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Err(None);
    }
    let message = serde_json::from_slice::<Received>(line);
    let broken = match (Envelope::parse(line), message) {
        (Ok(_), Ok(message)) => return Ok(message),
        (Ok(envelope), Err(error)) => BrokenMessage {
            id: envelope.id,
            code: INVALID_REQUEST,
            message: format!("the line is not a message of JSON-RPC: {error}"),
        },
        (Err(broken), _) => broken,
    };
    if broken.code == PARSE_ERROR || is_notification(line) {
        Err(None)
    } else {
        Err(Some(Box::new(answer(broken))))
    }
}

/// Returns true for a message with a method and without an id.
fn is_notification(line: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(line).unwrap_or_default();
    message.get("method").is_some_and(Value::is_string) && message.get("id").is_none()
}

fn answer(broken: BrokenMessage) -> Sent {
    let id = serde_json::from_value::<RequestId>(broken.id).ok();
    Sent::error(ErrorData::new(ErrorCode(broken.code), broken.message, None), id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn broken_messages_are_answered_with_their_id() {
        let (mut client, server) = duplex(1 << 20);
        let (input, output) = tokio::io::split(server);
        let mut pipes = Pipes::new(input, output);
        let lines = [
            r#"{"jsonrpc":"2.0","id":23,"method":"tools/call","params":"x"}"#,
            r#"{"id":"a","method":"ping"}"#,
            "[]",
            "nope",
            "",
            r#"{"method":"$/cancelRequest","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
        ];
        client.write_all(format!("{}\n", lines.join("\r\n")).as_bytes()).await.unwrap();
        let message = serde_json::to_value(pipes.receive().await.unwrap()).unwrap();
        assert_eq!((&message["id"], &message["method"]), (&json!(7), &json!("ping")));
        client.shutdown().await.unwrap();
        assert!(pipes.receive().await.is_none());
        drop(pipes);
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let due = [(json!(23), -32602), (json!("a"), -32600), (Value::Null, -32600)];
        let got = answers.iter().map(|answer| (answer["id"].clone(), answer["error"]["code"].clone()));
        assert_eq!(got.collect::<Vec<_>>(), due.map(|(id, code)| (id, json!(code))));
    }

    #[tokio::test]
    async fn long_lines_are_dropped() {
        let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        let input = format!("{}\n{ping}\n", "x".repeat(MAX_LINE + 1));
        let mut pipes = Pipes::new(input.as_bytes(), Vec::<u8>::new());
        assert!(pipes.receive().await.is_some());
        assert!(pipes.receive().await.is_none() && pipes.line.capacity() < MAX_LINE);
    }
}
