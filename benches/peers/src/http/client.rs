//! Clients: 32 connections that each wait for a response before the next request, at full speed or at a given
//! rate. The number of requests of a run is bounded, except for a background load.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::server::Target;

/// Concurrent connections, as of a busy server on a machine with a few cores.
const CONNECTIONS: usize = 32;

/// Call: the route, and the body of each request by its number.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) route: &'static str,
    pub(crate) body: fn(usize) -> Vec<u8>,
}

/// Sends `requests` at full speed. Returns the time from the first to the last.
pub(crate) async fn load(target: &Target, ask: Ask, requests: usize) -> Result<Duration> {
    let connections = open(target, CONNECTIONS).await?;
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for (first, mut connection) in connections.into_iter().enumerate() {
        tasks.spawn(async move {
            for index in (first..requests).step_by(CONNECTIONS) {
                connection.post(ask.route, &(ask.body)(index)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(start.elapsed())
}

/// Sends `requests` at `rate` per second. Returns the time of each from when it was due, so the wait for a
/// slow response counts for the requests that it delays.
pub(crate) async fn paced(target: &Target, ask: Ask, requests: usize, rate: f64) -> Result<Vec<Duration>> {
    let connections = open(target, CONNECTIONS).await?;
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for (first, mut connection) in connections.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            for index in (first..requests).step_by(CONNECTIONS) {
                let mut due = start + Duration::from_secs_f64(index as f64 / rate);
                if due > Instant::now() {
                    tokio::time::sleep_until(due.into()).await;
                    // The delay of the timer itself is not part of the latency.
                    due = Instant::now();
                }
                connection.post(ask.route, &(ask.body)(index)).await?;
                latencies.push(due.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    Ok(latencies)
}

/// Opens `count` connections.
pub(crate) async fn open(target: &Target, count: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(Connection::open(target).await?);
    }
    Ok(connections)
}

/// Persistent connection with the minimum of HTTP/1.1 that these servers need, so that the client costs
/// little.
pub(crate) struct Connection {
    stream: tokio::io::BufReader<TcpStream>,
    head: String,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(target: &Target) -> Result<Self> {
        let stream = TcpStream::connect(&target.address).await?;
        // A delay of small packets would hide the latency of the server.
        stream.set_nodelay(true)?;
        let head = format!(
            "Host: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
            target.address, target.key
        );
        Ok(Self { stream: tokio::io::BufReader::new(stream), head })
    }

    /// Sends a request and returns the body of its response.
    pub(crate) async fn post(&mut self, route: &str, body: &[u8]) -> Result<Vec<u8>> {
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
