//! The HTTP rows: `garth serve` in a process of its own, asked over loopback by 32 connections that each wait
//! for an answer before they ask again. Every run is bounded in count.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::figures::{Figures, Outcome};
use crate::process::{folder, replay};

/// Connections at once: a server that is in use, on a machine of a few cores.
const CONNECTIONS: usize = 32;
/// Values that `get` asks for in turn.
const KEYS: usize = 1_000;

/// What a server says on its first line.
#[derive(Deserialize)]
struct Ready {
    url: String,
    #[serde(default)]
    key: Option<String>,
}

/// A server that ends with this value.
struct Server {
    child: Child,
    address: String,
    key: String,
}

impl Server {
    fn start(mut command: Command, input: &[u8]) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        child.stdin.take().context("stdin is a pipe")?.write_all(input)?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout is a pipe")?).read_line(&mut line)?;
        let ready: Ready =
            serde_json::from_str(&line).with_context(|| format!("{command:?} did not start"))?;
        let address = ready.url.strip_prefix("http://").context("the address is http")?.to_owned();
        Ok(Self { child, address, key: ready.key.unwrap_or_default() })
    }

    fn garth(binary: &Path, data: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.arg("serve").args(["--listen", "127.0.0.1:0", "--json", "--data"]).arg(data);
        Self::start(command, b"")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // all that it acknowledged is on the disk
        let _ = self.child.wait();
    }
}

/// `POST /v1/get` against a bare handler with the same answers.
pub(crate) fn get(binary: &Path, base: &Path, runs: usize, quick: bool) -> Result<Figures> {
    let requests = if quick { 3_200 } else { 64_000 };
    let data = folder(base)?;
    let garth = Server::garth(binary, data.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = runtime.block_on(async {
        let mut connection = Connection::open(&garth).await?;
        let mut answers = Vec::new();
        for index in 0..KEYS {
            connection.post("/v1/put", &put_body(index)).await?;
            answers.extend(connection.post("/v1/get", &get_body(index)).await?);
            answers.push(b'\n');
        }
        anyhow::Ok(answers)
    })?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare");
    let bare = Server::start(command, &answers)?;
    let mut figures = Figures::default();
    for run in 1..=runs {
        eprintln!("Get {run}/{runs}");
        for (server, side) in [(&garth, &mut figures.garth), (&bare, &mut figures.peer)] {
            let spent =
                runtime.block_on(load(server, "/v1/get", requests, |index| get_body(index % KEYS)))?;
            side.entry("get".to_owned()).or_default().push(spent.as_nanos() as f64 / requests as f64);
        }
    }
    Ok(figures)
}

/// `POST /v1/put` against the same rows into plain SQLite.
pub(crate) fn put(binary: &Path, base: &Path, runs: usize, quick: bool) -> Result<Figures> {
    let requests = if quick { 640 } else { 16_000 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = Figures::default();
    for run in 1..=runs {
        eprintln!("Put {run}/{runs}");
        let (own, other) = (folder(base)?, folder(base)?);
        let garth = Server::garth(binary, own.path())?;
        let spent = runtime.block_on(load(&garth, "/v1/put", requests, put_body))?;
        drop(garth);
        let nanos = Outcome::of("put", spent, requests as u64).nanos;
        figures.garth.entry("put".to_owned()).or_default().extend(nanos.into_values().flatten());
        let replayed = replay(own.path(), other.path(), requests as u64, "put")?;
        figures.peer.entry("put".to_owned()).or_default().extend(replayed.nanos.into_values().flatten());
    }
    Ok(figures)
}

fn path(index: usize) -> String {
    format!("/user/{}/preferences/{index}", index % 50)
}

fn get_body(index: usize) -> Vec<u8> {
    serde_json::json!({ "agent_id": "default", "path": path(index) }).to_string().into_bytes()
}

fn put_body(index: usize) -> Vec<u8> {
    let value =
        serde_json::json!({ "tone": "direct", "language": "en", "number": index, "note": "x".repeat(150) });
    serde_json::json!({ "agent_id": "default", "path": path(index), "value": value }).to_string().into_bytes()
}

/// Sends `requests` over all connections and waits for every answer; how long it took from first to last.
async fn load(
    server: &Server,
    route: &'static str,
    requests: usize,
    body: fn(usize) -> Vec<u8>,
) -> Result<Duration> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(server).await?);
    }
    let start = Instant::now();
    let tasks = connections.into_iter().enumerate().map(|(first, mut connection)| {
        tokio::spawn(async move {
            for index in (first..requests).step_by(CONNECTIONS) {
                connection.post(route, &body(index)).await?;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(start.elapsed())
}

/// One connection, kept open. Just enough of HTTP/1.1 for the answers of these
/// servers, so that asking costs little.
struct Connection {
    stream: tokio::io::BufReader<TcpStream>,
    head: String,
}

impl Connection {
    async fn open(server: &Server) -> Result<Self> {
        let stream = TcpStream::connect(&server.address).await?;
        stream.set_nodelay(true)?;
        let head = format!(
            "Host: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
            server.address, server.key
        );
        Ok(Self { stream: tokio::io::BufReader::new(stream), head })
    }

    async fn post(&mut self, route: &str, body: &[u8]) -> Result<Vec<u8>> {
        let mut request =
            format!("POST {route} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n", self.head, body.len())
                .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request).await?;
        let (mut status, mut line, mut length) = (String::new(), String::new(), None);
        self.stream.read_line(&mut status).await?;
        loop {
            line.clear();
            ensure!(self.stream.read_line(&mut line).await? > 0, "the server closed the connection");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse::<usize>()?);
            }
        }
        let mut answer = vec![0; length.context("the answer tells its length")?];
        self.stream.read_exact(&mut answer).await?;
        ensure!(
            status.starts_with("HTTP/1.1 200"),
            "{}: {}",
            status.trim(),
            String::from_utf8_lossy(&answer)
        );
        Ok(answer)
    }
}
