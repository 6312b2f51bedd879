//! Cost of clients that wait for changes, and the time until a commit has reached them: first of clients with
//! streams of events, then of clients that call `tree/changes` with a wait, again and again. The server runs
//! with the binary beside this one:
//!
//! ```sh
//! cargo run --profile prove -p garth-proofs --example waiting_consumers -- target/prove/garth 1000
//! ```
//!
//! It needs a limit of open files above the number of clients, which is at most 1,024. The clients run on the
//! same machine as the server: the time to read what arrives is a part of the times.
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use garth_engine::Env;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Time over which the work of idle clients is measured. Each call waits as long, so that each is renewed
/// once.
const IDLE: Duration = Duration::from_secs(60);
/// Commits that are sent to all clients.
const COMMITS: usize = 50;
/// Time between two commits, in which clients ask again.
const PAUSE: Duration = Duration::from_millis(200);
/// Consumers that the server takes by default. Its metrics show the part that is used.
const PLACES: f64 = 4096.0;
/// Ticks of the processor time of a process in a second.
const TICKS: f64 = 100.0;

/// Way in which a client waits.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Stream of events.
    Stream,
    /// Calls of `tree/changes` that wait.
    Calls,
}

/// Server that is killed when dropped.
struct Server {
    child: Child,
    address: String,
    key: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: waiting_consumers GARTH CLIENTS";
    let (garth, count) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?.parse::<usize>()?);
    for way in [Way::Stream, Way::Calls] {
        measure(way, &garth, count)?;
    }
    Ok(())
}

/// Measures clients of one kind on a new server.
fn measure(way: Way, garth: &str, count: usize) -> Result<()> {
    let (folder, env) = (tempfile::tempdir()?, Env::system());
    let server = start(garth, folder.path())?;
    write(&server)?;
    let before = memory(&server)?;
    // One thread, so that the clients leave the other processors to the server.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let arrivals = open(way, &server, count, &runtime);
    until_waiting(&server, count, &env)?;
    let spent = processor(&server)?;
    env.sleep(IDLE);
    let share = (processor(&server)? - spent) / IDLE.as_secs_f64() * 100.0;
    let held = (memory(&server)?.saturating_sub(before)) as f64 / count as f64;
    println!("{way:?}: {count} clients, {held:.1} KiB of memory each, {} threads", threads(&server)?);
    println!("  idle for {} s: {share:.2}% of a processor", IDLE.as_secs());
    let spent = processor(&server)?;
    let (mut answers, mut all, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..COMMITS {
        let began = env.instant();
        write(&server)?;
        answers.push(env.instant() - began);
        let times = (0..count).map(|_| Ok(arrivals.recv()?? - began)).collect::<Result<Vec<Duration>>>()?;
        last.extend(times.iter().max().copied());
        all.extend(times);
        env.sleep(PAUSE);
    }
    let work = (processor(&server)? - spent) / (COMMITS * count) as f64;
    println!("  commit until its answer: {}", shown(answers));
    println!("  commit until a client has it: {}", shown(all));
    println!("  commit until the last client has it: {}", shown(last));
    println!("  {:.0} us of a processor for a client and a commit", work * 1e6);
    Ok(())
}

/// Returns the median and further quantiles of times.
fn shown(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| {
        let place = (times.len() * part / 100).min(times.len().saturating_sub(1));
        times.get(place).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    format!("median {:.1} ms, 95% {:.1} ms, 99% {:.1} ms, most {:.1} ms", at(50), at(95), at(99), at(100))
}

fn start(garth: &str, data: &std::path::Path) -> Result<Server> {
    let mut child = Command::new(garth)
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--data"])
        .arg(data.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let ready: Value = serde_json::from_str(&line)?;
    let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
    Ok(Server { child, address: text("url").replace("http://", ""), key: text("key") })
}

/// Starts clients. Returns the times at which each gets a commit, or the error that ends one.
fn open(way: Way, server: &Server, count: usize, runtime: &Runtime) -> Receiver<Result<Instant>> {
    let (arrived, arrivals) = channel();
    for _ in 0..count {
        let (address, key, arrived) = (server.address.clone(), server.key.clone(), arrived.clone());
        runtime.spawn(async move {
            let client = Client { address, key, env: Env::system(), arrived: arrived.clone() };
            let ended = match way {
                Way::Stream => client.stream().await,
                Way::Calls => client.calls().await,
            };
            // Nobody listens at the end.
            let _ = arrived.send(Err(ended.err().unwrap_or_else(|| "a client has ended".into())));
        });
    }
    arrivals
}

/// Client that waits for changes.
struct Client {
    address: String,
    key: String,
    env: Env,
    arrived: Sender<Result<Instant>>,
}

impl Client {
    /// Reads a stream of events until it ends.
    async fn stream(&self) -> Result<()> {
        let mut stream = TcpStream::connect(&self.address).await?;
        // Without chunks around the events.
        let request = format!(
            "GET /v1/tree/changes/stream HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
            self.key
        );
        stream.write_all(request.as_bytes()).await?;
        let (mut stream, mut line) = (BufReader::with_capacity(2 << 10, stream), String::new());
        while stream.read_line(&mut line).await? > 0 {
            if line.trim_end() == "event: commit" {
                self.arrived.send(Ok(self.env.instant()))?;
            }
            line.clear();
        }
        Err("a stream has ended".into())
    }

    /// Calls `tree/changes` on one connection, each time after the position of the answer before.
    async fn calls(&self) -> Result<()> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(2 << 10, stream);
        // The commit before the clients.
        let mut since = self.call(&mut stream, json!({})).await?["head"].clone();
        loop {
            let wait = json!({"since": since, "wait_ms": IDLE.as_millis() as u64});
            let answer = self.call(&mut stream, wait).await?;
            for _ in answer["commits"].as_array().ok_or("an answer has no commits")? {
                self.arrived.send(Ok(self.env.instant()))?;
            }
            since = answer["until"]["seq"].clone();
        }
    }

    /// Makes one call of `tree/changes`.
    async fn call(&self, stream: &mut BufReader<TcpStream>, body: Value) -> Result<Value> {
        let (body, key) = (body.to_string(), &self.key);
        let request = format!(
            "POST /v1/tree/changes HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let (mut line, mut length, mut is_ok) = (String::new(), 0, false);
        while stream.read_line(&mut line).await? > 2 {
            is_ok |= line.starts_with("HTTP/1.1 200 ");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            line.clear();
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await?;
        if is_ok { Ok(serde_json::from_slice(&answer)?) } else { Err(String::from_utf8(answer)?.into()) }
    }
}

/// Waits until all clients are waiting.
fn until_waiting(server: &Server, count: usize, env: &Env) -> Result<()> {
    loop {
        let metrics = send(server, "GET", "/metrics", "")?;
        let used =
            metrics.lines().find_map(|line| line.strip_prefix("garth_room_used_ratio{room=\"streams\"} "));
        // A place is far more than the error of the fraction.
        if used.ok_or("no such metric")?.parse::<f64>()? * PLACES + 0.5 > count as f64 {
            return Ok(());
        }
        env.sleep(PAUSE);
    }
}

/// Makes one commit.
fn write(server: &Server) -> Result<()> {
    let body = r#"{"ops":[{"op":"write","path":"/measured","text":"x","parents":true}]}"#;
    let answer = send(server, "POST", "/v1/batch", body)?;
    if answer.contains("\"ok\":true") { Ok(()) } else { Err(answer.into()) }
}

/// Sends a request on a new connection. Returns the answer with its head.
fn send(server: &Server, method: &str, path: &str, body: &str) -> Result<String> {
    let mut stream = std::net::TcpStream::connect(&server.address)?;
    let (key, length) = (&server.key, body.len());
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn status(server: &Server, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}

/// Returns the memory of the server in KiB.
fn memory(server: &Server) -> Result<u64> {
    status(server, "VmRSS:")
}

fn threads(server: &Server) -> Result<u64> {
    status(server, "Threads:")
}

/// Returns the processor time of the server in seconds.
fn processor(server: &Server) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id()))?;
    // After the name in parentheses; user and system time are the fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    Ok((ticks(11) + ticks(12)) / TICKS)
}
