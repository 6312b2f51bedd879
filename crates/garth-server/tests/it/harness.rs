//! A server in this process with its own data folder and a manual clock, and a client that sends exact bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::datadir::{NewKey, Scope};
use garth_engine::env::ManualClock;
use garth_engine::model::{Batch, Op, Timestamp};
use garth_engine::{DataDir, Env, TreePath};
use garth_server::{Limits, Options, reference};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::described;

/// 2026-01-27T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp(1_769_472_000_000_000_000);

/// A running server with account `acme`.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) home: DataDir,
    pub(crate) clock: ManualClock,
    /// A key of `acme` with every scope.
    pub(crate) key: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(Options::default())
    }

    pub(crate) fn start_with(options: Options) -> Self {
        Self::start_on(tokio::runtime::Builder::new_multi_thread().enable_all(), options)
    }

    /// Starts a server whose time limits end as soon as it only waits.
    pub(crate) fn start_impatient() -> Self {
        Self::start_on(
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true),
            Options::default(),
        )
    }

    /// Starts a server that limits calls, although it listens on loopback.
    pub(crate) fn start_limited(limits: Limits) -> Self {
        Self::start_with(Options::default().limits(limits).limit_calls(Some(true)))
    }

    /// Starts a server that handles all connections on one thread: a call that blocks it stops all others.
    pub(crate) fn start_on_one_thread(options: Options) -> Self {
        Self::start_on(tokio::runtime::Builder::new_current_thread().enable_all(), options)
    }

    fn start_on(runtime: &mut tokio::runtime::Builder, options: Options) -> Self {
        let runtime = runtime.build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(START);
        let home =
            garth_engine::DataDir::builder(garth_agent::registry()).env(env).open(folder.path()).unwrap();
        block_on(home.create_account("acme")).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (bound, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn({
            let home = home.clone();
            move || {
                runtime.block_on(async {
                    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                    bound.send(listener.local_addr().unwrap()).unwrap();
                    let shutdown = async { stopped.await.unwrap_or(()) };
                    garth_server::serve(Arc::new(home), vec![listener], options, shutdown).await.unwrap();
                });
            }
        });
        let address = address.recv().unwrap();
        let key = key(&home, "acme", &[Scope::Admin]);
        Self { address, home, clock, key, stop: Some(stop), thread: Some(thread), _folder: folder }
    }

    /// Makes a user the owner of an agent.
    pub(crate) fn own(&self, agent: &str, owner: &str) {
        let account = block_on(self.home.account("acme")).unwrap();
        let path = TreePath::parse(&format!("/agents/{agent}/settings.json")).unwrap();
        let op = Op::write(path, format!(r#"{{"owner":"{owner}"}}"#)).with_parents();
        block_on(account.commit(Batch::new([op]))).unwrap();
    }

    /// A new key.
    pub(crate) fn key(&self, account: &str, scopes: &[Scope]) -> String {
        key(&self.home, account, scopes)
    }

    /// A new key of `acme` that is bound, without `admin`.
    pub(crate) fn bound_key(&self, binding: &Value) -> String {
        use Scope::{FilesRead, FilesWrite, MemoryRead, MemoryWrite, SearchRead};
        let scopes = [FilesRead, FilesWrite, MemoryRead, MemoryWrite, SearchRead];
        let mut new = NewKey::new(Some("acme"), &scopes);
        new.binding = serde_json::from_value(binding.clone()).unwrap();
        garth_agent::check_binding(&new.binding).unwrap();
        block_on(self.home.control().issue_key(new)).unwrap().1.reveal().to_owned()
    }

    /// Tells the server to stop, without waiting.
    pub(crate) fn begin_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has stopped.
    pub(crate) fn stopped(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    /// Sends bytes on a new connection and reads one answer.
    pub(crate) fn raw(&self, request: &[u8]) -> Reply {
        let mut connection = Connection::open(self.address);
        connection.send(request);
        let reply = connection.reply();
        described::check(request, &reply);
        reply
    }

    /// Sends a request with these headers (each ends with CRLF).
    pub(crate) fn request(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Reply {
        self.raw(&request(method, target, headers, body))
    }

    /// Sends a `POST` with a key.
    pub(crate) fn post_as(&self, key: &str, call: &str, body: impl AsRef<[u8]>) -> Reply {
        let headers = format!("authorization: Bearer {key}\r\n");
        self.request("POST", &format!("/v1/{call}"), &headers, body.as_ref())
    }

    /// Sends a `POST` with the key that has all scopes.
    pub(crate) fn post(&self, call: &str, body: impl AsRef<[u8]>) -> Reply {
        self.post_as(&self.key, call, body)
    }

    /// Sends a `POST` that must succeed. Returns the answer.
    pub(crate) fn ok(&self, call: &str, body: impl AsRef<[u8]>) -> Value {
        let reply = self.post(call, body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Puts a JSON text under a key of agent `default`.
    pub(crate) fn put(&self, path: &str, value: &str) -> Value {
        self.ok("put", format!(r#"{{"path":{},"value":{value}}}"#, Value::from(path)))
    }

    /// Returns the raw text of the answer to a get.
    pub(crate) fn get(&self, path: &str) -> String {
        let reply = self.post("get", format!(r#"{{"path":{}}}"#, Value::from(path)));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

fn key(home: &DataDir, account: &str, scopes: &[Scope]) -> String {
    block_on(home.control().create_key(account, "test", scopes)).unwrap().1.reveal().to_owned()
}

/// Returns the bytes of a request.
pub(crate) fn request(method: &str, target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// One connection.
pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Sends bytes. If the server has closed, `reply` finds it.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    /// Reads the next answer; with `head_only` (for HEAD) only its head.
    pub(crate) fn reply_to(&mut self, head_only: bool) -> Reply {
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            assert!(self.read_more() > 0, "closed within a head: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head = String::from_utf8(self.read.drain(..end + 4).take(end).collect()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut reply = Reply { status, headers, body: Vec::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        while !head_only && self.read.len() < length {
            assert!(self.read_more() > 0, "closed within a body");
        }
        if !head_only {
            reply.body = self.read.drain(..length).collect();
        }
        reply
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.reply_to(false)
    }

    /// Closes the sending side.
    pub(crate) fn end(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).ok();
    }

    /// Returns bytes as they arrive; `None` once the server has closed.
    pub(crate) fn bytes(&mut self) -> Option<Vec<u8>> {
        if self.read.is_empty() && self.read_more() == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.read))
    }

    /// Returns true if an answer begins, false if the server has closed.
    pub(crate) fn begun(&mut self) -> bool {
        self.read_more() > 0
    }

    /// Reads to the end. Returns the number of bytes in total.
    pub(crate) fn rest(&mut self) -> usize {
        while self.read_more() > 0 {}
        self.read.len()
    }

    /// Reads the next answer, or returns `None` if the server closes without an answer.
    pub(crate) fn reply_or_close(&mut self) -> Option<Reply> {
        (!self.read.is_empty() || self.read_more() > 0).then(|| self.reply())
    }

    /// Returns true if the server has closed and there is nothing more to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.read.is_empty() && self.read_more() == 0
    }

    fn read_more(&mut self) -> usize {
        let mut buffer = [0; 65_536];
        let count = match self.stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        };
        self.read.extend_from_slice(&buffer[..count]);
        count
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asserts that this is a refusal in its envelope. Returns its message.
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let message = self.envelope();
        let found = self.json()["error"]["code"].as_str().unwrap().to_owned();
        assert_eq!((self.status, found.as_str()), (status, code), "{message}");
        message
    }

    /// Asserts the envelope only. Returns its message.
    pub(crate) fn envelope(&self) -> String {
        let json = self.json();
        let error = json["error"].as_object().unwrap();
        let fields = if error.contains_key("path") { 5 } else { 4 };
        assert_eq!((json.as_object().unwrap().len(), error.len()), (1, fields), "{json}");
        let listed = reference::errors().into_iter().find(|row| error["code"] == row.code).unwrap();
        let is_status = self.status == listed.status || listed.further_statuses.contains(&self.status);
        let is_kind = listed.kinds.iter().any(|kind| error["kind"] == *kind);
        assert!(is_status && is_kind, "the table of codes has no such row: {} {json}", self.status);
        let id = error["request_id"].as_str().unwrap();
        assert!(id.starts_with("req_") && id.len() > 10, "{id}");
        assert_eq!(self.header("x-request-id"), Some(id));
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains("/tmp"), "{message}");
        message.to_owned()
    }
}
