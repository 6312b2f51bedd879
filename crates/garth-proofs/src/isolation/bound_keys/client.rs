//! Server in this process, and a client that sends one request per connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;

use futures::executor::block_on;
use garth_engine::DataDir;
use garth_engine::datadir::{NewKey, Scope};
use garth_server::{Options, serve};
use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Running server.
pub(super) struct Server {
    pub(super) home: DataDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Answer of the server.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Body, with invalid UTF-8 replaced.
    pub(super) text: String,
}

impl Server {
    pub(super) fn start(home: DataDir) -> Proven<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let served = home.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let shutdown = async { stopped.await.unwrap_or(()) };
                let listener = TcpListener::from_std(listener).expect("a listener that does not block");
                serve(std::sync::Arc::new(served), vec![listener], Options::default(), shutdown)
                    .await
                    .expect("a server that runs");
            });
        });
        Ok(Self { home, address, stop: Some(stop), thread: Some(thread) })
    }

    /// Creates a key of an account and returns its token.
    pub(super) fn key(&self, account: &str, binding: &Value) -> Proven<String> {
        use Scope::{Admin, FilesRead, FilesWrite, MemoryRead, MemoryWrite, SearchRead};
        let of_bound = [FilesRead, FilesWrite, MemoryRead, MemoryWrite, SearchRead];
        let binding = serde_json::from_value(binding.clone());
        let binding: garth_engine::datadir::Binding =
            binding.map_err(|error| Broken::because(format!("a binding cannot be read: {error}")))?;
        garth_agent::check_binding(&binding)?;
        let scopes: &[Scope] = if binding.is_free() { &[Admin] } else { &of_bound };
        let mut new = NewKey::new(Some(account), scopes);
        new.binding = binding;
        Ok(block_on(self.home.control().issue_key(new))?.1.reveal().to_owned())
    }

    /// Sends a request. `target` is the path with the query.
    pub(super) fn send(&self, method: &str, target: &str, key: &str, body: &str) -> Proven<Answer> {
        self.send_with(method, target, (key, ""), body)
    }

    /// Sends a request with further headers, each with its line break.
    pub(super) fn send_with(
        &self,
        method: &str,
        target: &str,
        (key, headers): (&str, &str),
        body: &str,
    ) -> Proven<Answer> {
        // Other bodies are those of media.
        let media_type = if body.starts_with('{') { "application/json" } else { "image/png" };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\n\
             {headers}content-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        let mut connection = TcpStream::connect(self.address)?;
        connection.write_all(head.as_bytes())?;
        connection.write_all(body.as_bytes())?;
        let mut bytes = Vec::new();
        connection.read_to_end(&mut bytes)?;
        let answer = String::from_utf8_lossy(&bytes).into_owned();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Broken::because(format!("{target} is answered by `{head}`")))?;
        Ok(Answer { status, text: text.to_owned() })
    }

    /// Sends a call in JSON that must succeed.
    pub(super) fn ok(&self, key: &str, call: &str, body: &Value) -> Proven<Value> {
        let answer = self.send("POST", &format!("/v1/{call}"), key, &body.to_string())?;
        hold(answer.status == 200, || format!("{call} {body}: {}", answer.text))?;
        serde_json::from_str(&answer.text)
            .map_err(|_| Broken::because(format!("{call} is answered by `{}`", answer.text)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has failed the requests of the proof.
            let _ = thread.join();
        }
    }
}
