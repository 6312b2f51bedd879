//! Server process of a proof, and a client that may stop within a request or an answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use garth_engine::Env;
use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::Value;

/// Longest wait for bytes of an answer, and for room for bytes of a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// Process of `garth serve`. Killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
    /// API key with the scope `admin`.
    pub(crate) key: String,
}

impl ServerProcess {
    /// Starts the binary on a data folder. `key` is the one that the first start on the folder printed.
    ///
    /// # Errors
    /// The binary does not start, or has no key.
    pub(crate) fn start(garth: &Path, data: &Path, key: Option<&str>) -> Proven<Self> {
        let child = Command::new(garth)
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--data"])
            .arg(data)
            // A fault in the environment of the test must not reach a process that is to be sound.
            .env_remove("GARTH_FAULT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = Self { child, address: String::new(), key: String::new() };
        let mut line = String::new();
        if let Some(said) = server.child.stdout.take() {
            BufReader::new(said).read_line(&mut line)?;
        }
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        server.address = text_of(&ready["url"]).replace("http://", "");
        server.key = key.map_or_else(|| text_of(&ready["key"]), str::to_owned);
        hold(!server.address.is_empty() && !server.key.is_empty(), || {
            format!("the server began with `{line}`")
        })?;
        Ok(server)
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Request of a client.
#[derive(Clone)]
pub(crate) struct Request {
    method: String,
    /// Path with the query.
    target: String,
    key: String,
    /// Idempotency key.
    once: Option<String>,
    /// Further headers, each with its line break.
    headers: String,
    body: Vec<u8>,
}

impl Request {
    /// Returns a request without a key and a body.
    pub(crate) fn new(method: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            key: String::new(),
            once: None,
            headers: String::new(),
            body: Vec::new(),
        }
    }

    /// Returns a call in JSON.
    pub(crate) fn post(call: &str, body: &Value) -> Self {
        Self::new("POST", format!("/v1/{call}")).body(body.to_string())
    }

    /// Sets the API key.
    #[must_use]
    pub(crate) fn key(self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self }
    }

    /// Sets the idempotency key.
    #[must_use]
    pub(crate) fn once(self, key: impl Into<String>) -> Self {
        Self { once: Some(key.into()), ..self }
    }

    /// Sets further headers, each with its line break.
    #[must_use]
    pub(crate) fn headers(self, headers: String) -> Self {
        Self { headers, ..self }
    }

    /// Sets the body.
    #[must_use]
    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Returns method and target, for messages.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// Returns the bytes of the head.
    pub(crate) fn head(&self) -> Vec<u8> {
        let once = self.once.iter().map(|key| format!("idempotency-key: {key}\r\n")).collect::<String>();
        let (method, target, key, headers) = (&self.method, &self.target, &self.key, &self.headers);
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{once}{headers}\
             content-length: {}\r\n\r\n",
            self.body.len()
        );
        head.into_bytes()
    }

    /// Returns the bytes of the request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head(), self.body.clone()].concat()
    }
}

/// Answer of the server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns true for a success.
    pub(crate) fn is_ok(&self) -> bool {
        matches!(self.status, 200 | 201)
    }

    /// Returns the status and the beginning of the body, for messages.
    pub(crate) fn shown(&self) -> String {
        format!("{} `{:.300}`", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// Connection to the server, which serves one request after another.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes that were read and not taken.
    read: Vec<u8>,
    /// Number of all bytes that were read.
    bytes_read: usize,
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// Errors of the socket.
    pub(crate) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, read: Vec::new(), bytes_read: 0 })
    }

    /// Sets the longest wait for bytes of an answer; `None` for no limit.
    ///
    /// # Errors
    /// Errors of the socket.
    pub(crate) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)
    }

    /// Returns the number of all bytes that were read.
    pub(crate) fn bytes_read(&self) -> usize {
        self.bytes_read
    }

    /// Sends bytes of a request.
    ///
    /// # Errors
    /// Errors of the socket.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the head of the next answer. Returns its status and the length of its body.
    ///
    /// # Errors
    /// `UnexpectedEof` if the server has closed the connection; errors of the socket.
    pub(crate) fn head(&mut self) -> io::Result<(u16, usize)> {
        let head = self.read_head()?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let answer = status.zip(length);
        answer.ok_or_else(|| io::Error::other(format!("the server answered `{head:.300}`")))
    }

    /// Reads the head of an answer that ends with its connection, such as a stream to a client of HTTP/1.0.
    /// Returns its status.
    ///
    /// # Errors
    /// As [`Connection::head`].
    pub(crate) fn head_of_stream(&mut self) -> io::Result<u16> {
        let head = self.read_head()?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| io::Error::other(format!("the server answered `{head:.300}`")))
    }

    /// Reads at most `most` further bytes of an answer.
    ///
    /// # Errors
    /// As [`Connection::head`].
    pub(crate) fn part(&mut self, most: usize) -> io::Result<Vec<u8>> {
        if self.read.is_empty() {
            self.read_more(most)?;
        }
        Ok(self.read.drain(..most.min(self.read.len())).collect())
    }

    /// Reads the next answer.
    ///
    /// # Errors
    /// As [`Connection::head`].
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let (status, length) = self.head()?;
        let mut body = Vec::with_capacity(length);
        while body.len() < length {
            body.extend(self.part(length - body.len())?);
        }
        Ok(Answer { status, body })
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// As [`Connection::head`].
    pub(crate) fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        self.send(&request.bytes())?;
        self.answer()
    }

    /// Sends a request that must succeed. Returns the answer; `null` if it is not JSON.
    ///
    /// # Errors
    /// Another answer; errors of the connection.
    pub(crate) fn ok(&mut self, request: &Request) -> Proven<Value> {
        let answer = self.ask(request).map_err(|error| broken_off(request, &error))?;
        hold(answer.is_ok(), || format!("{} is answered {}", request.name(), answer.shown()))?;
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    fn read_head(&mut self) -> io::Result<String> {
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            self.read_more(PIECE)?;
        };
        let head: Vec<u8> = self.read.drain(..end + 4).collect();
        Ok(String::from_utf8_lossy(&head).into_owned())
    }

    fn read_more(&mut self, most: usize) -> io::Result<()> {
        let mut piece = [0; PIECE];
        let most = most.min(PIECE);
        match self.stream.read(&mut piece[..most])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.read.extend_from_slice(&piece[..count]);
                self.bytes_read += count;
                Ok(())
            }
        }
    }
}

/// Has clients call a server at once until there are `answers`, and kills it `delay` later. `call` makes the
/// calls of one client until its connection fails, returns that failure, and sends a message for each answer.
///
/// # Errors
/// Errors of `call`; a connection that ends before the kill.
pub(crate) fn kill_under_calls<C: Send>(
    server: ServerProcess,
    clients: &mut [C],
    (answers, delay): (u64, Duration),
    call: impl Fn(&mut C, &str, &mpsc::Sender<()>) -> Proven<io::Error> + Sync,
) -> Proven<()> {
    let (address, is_killed) = (server.address.clone(), AtomicBool::new(false));
    let (answer, answered) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads = clients.iter_mut().map(|client| {
            let (call, address, is_killed, answer) = (&call, &address, &is_killed, answer.clone());
            scope.spawn(move || {
                let error = call(client, address, &answer)?;
                hold(is_killed.load(Ordering::SeqCst), || {
                    format!("a connection ended before the kill: {error}")
                })
            })
        });
        let threads: Vec<_> = threads.collect();
        // The channel ends with the last client, should all of them fail.
        drop(answer);
        let heard = answered.iter().take(answers as usize).count();
        Env::system().sleep(delay);
        // Before the kill, so that each failure after it is known to be due to it.
        is_killed.store(true, Ordering::SeqCst);
        drop(server);
        for thread in threads {
            thread.join().map_err(|_| Broken::because("a client panicked"))??;
        }
        hold(heard as u64 == answers, || format!("{heard} calls were answered, not {answers}"))
    })
}

/// Returns the failure of a request whose connection ended.
pub(crate) fn broken_off(request: &Request, error: &io::Error) -> Broken {
    Broken::because(format!("{} has no answer: {error}", request.name()))
}

/// Returns the text of a value; the empty text if it has none.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
