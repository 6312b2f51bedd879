//! Clients: 32 connections that each wait for an answer before they ask again, as fast as they can or at a
//! given rate. Every run is bounded in count.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::server::Target;

/// Connections at once: a server that is in use, on a machine of a few cores.
const CONNECTIONS: usize = 32;

/// What is asked: the route, and the body of each request by its number.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) route: &'static str,
    pub(crate) body: fn(usize) -> Vec<u8>,
}

/// Sends `requests` as fast as the answers come; how long it took from first to last.
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

/// Sends `requests`, `rate` of them a second; how long each took from when it was due. So one that waits for
/// the answer before it counts that wait.
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
                    due = Instant::now(); // the timer's own delay is not the server's
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

/// Connections that are open together.
pub(crate) async fn open(target: &Target, count: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(Connection::open(target).await?);
    }
    Ok(connections)
}

/// One connection, kept open. Just enough of HTTP/1.1 for the answers of these
/// servers, so that asking costs little.
pub(crate) struct Connection {
    stream: tokio::io::BufReader<TcpStream>,
    head: String,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(target: &Target) -> Result<Self> {
        let stream = TcpStream::connect(&target.address).await?;
        stream.set_nodelay(true)?;
        let head = format!(
            "Host: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
            target.address, target.key
        );
        Ok(Self { stream: tokio::io::BufReader::new(stream), head })
    }

    /// Asks and waits for the answer.
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
